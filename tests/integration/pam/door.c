/* An application of PAM that does as it is told, with service files of a folder of its own; /etc/pam.d is not looked at.
 *
 * usage: door FOLDER SERVICE USER STEP...
 *   authenticate account password open close establish delete   that call: prints "STEP CODE"
 *   user=NAME    PAM_USER is another one from here on; "-" none
 *   env          prints what PAM would put into the session's environment, a line each
 *   as=UID       this process is that uid from here on
 *   again=N      all of account, establish, open, close N times: prints how many file descriptors and mappings that has left
 *   later        whatever is asked next is not answered yet, once
 *   say=TEXT     what is asked is answered so from here on (else with an empty line)
 * An application that waits for events asks again, as it is told, when its answer is there. */
#include <security/pam_appl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool later;
static const char *said = "";

static int answer(int n, const struct pam_message **messages, struct pam_response **ret, void *arg)
{
    if (later) {
        later = false;
        return PAM_CONV_AGAIN;
    }
    *ret = calloc((size_t)n, sizeof(**ret));
    if (!*ret)
        return PAM_BUF_ERR;
    for (int i = 0; i < n; i++) {
        if (messages[i]->msg_style == PAM_ERROR_MSG || messages[i]->msg_style == PAM_TEXT_INFO)
            (void)printf("message %s\n", messages[i]->msg);
        else
            (*ret)[i].resp = strdup(said);
    }
    return PAM_SUCCESS;
}

static int delete_cred(pam_handle_t *pamh, int flags)
{
    return pam_setcred(pamh, flags | PAM_DELETE_CRED);
}

static int establish_cred(pam_handle_t *pamh, int flags)
{
    return pam_setcred(pamh, flags | PAM_ESTABLISH_CRED);
}

static const struct {
    const char *name;
    int (*call)(pam_handle_t *pamh, int flags);
} steps[] = {
    {"authenticate", pam_authenticate},
    {"account", pam_acct_mgmt},
    {"password", pam_chauthtok},
    {"open", pam_open_session},
    {"close", pam_close_session},
    {"establish", establish_cred},
    {"delete", delete_cred},
};

static void print_env(pam_handle_t *pamh)
{
    char **env = pam_getenvlist(pamh);

    for (char **at = env; at && *at; at++) {
        (void)puts(*at);
        free(*at);
    }
    free(env);
}

static int lines_of(const char *path)
{
    FILE *f = fopen(path, "re");
    int n = 0, c;

    while (f && (c = getc(f)) != EOF)
        n += c == '\n';
    if (f)
        (void)fclose(f);
    return n;
}

static int descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++) {
        int copy = dup(fd);

        n += copy >= 0;
        if (copy >= 0)
            (void)close(copy);
    }
    return n;
}

static void again(pam_handle_t *pamh, int n)
{
    int fds = 0, maps = 0;

    for (int i = 0; i <= n; i++) {
        (void)pam_acct_mgmt(pamh, PAM_SILENT);
        (void)establish_cred(pamh, PAM_SILENT);
        (void)pam_open_session(pamh, PAM_SILENT);
        (void)pam_close_session(pamh, PAM_SILENT);
        /* from the second round on: the first one loads what there is to load */
        if (i == 0) {
            fds = descriptors();
            maps = lines_of("/proc/self/maps");
        }
    }
    (void)printf("left %d %d\n", descriptors() - fds, lines_of("/proc/self/maps") - maps);
}

static bool step(pam_handle_t *pamh, const char *word)
{
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        if (strcmp(word, steps[i].name) == 0) {
            (void)printf("%s %d\n", word, steps[i].call(pamh, 0));
            return true;
        }
    if (strncmp(word, "user=", 5) == 0)
        return pam_set_item(pamh, PAM_USER, strcmp(word + 5, "-") == 0 ? NULL : word + 5) ==
               PAM_SUCCESS;
    if (strncmp(word, "say=", 4) == 0)
        said = word + 4;
    else if (strcmp(word, "later") == 0)
        later = true;
    else if (strcmp(word, "env") == 0)
        print_env(pamh);
    else if (strncmp(word, "as=", 3) == 0)
        return setuid((uid_t)strtoul(word + 3, NULL, 10)) == 0;
    else if (strncmp(word, "again=", 6) == 0)
        again(pamh, atoi(word + 6));
    else
        return false;
    return true;
}

int main(int argc, char *argv[])
{
    const struct pam_conv conv = {answer, NULL};
    pam_handle_t *pamh;
    int r;

    if (argc < 5)
        return 2;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    r = pam_start_confdir(argv[2], argv[3], &conv, argv[1], &pamh);
    if (r != PAM_SUCCESS) {
        (void)printf("start %d\n", r);
        return 1;
    }
    for (int i = 4; i < argc; i++)
        if (!step(pamh, argv[i]))
            return 2;
    return pam_end(pamh, PAM_SUCCESS) == PAM_SUCCESS ? 0 : 1;
}
