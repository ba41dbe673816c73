/* Whether sshd asks PAM. Its configuration is read as sshd reads it: of a setting the first that is said counts, files that
 * Include= names stand where it stands, and in a Match block this one must not be. */
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "ctl/doctor.h"

#define FOLDER "/etc/ssh/"

enum {
    DEPTH_MAX = 16, /* of files in files, as in sshd */
};

struct reading {
    const struct doctor *doctor;
    unsigned depth;
    char use_pam[8]; /* as it was said first; "" not yet */
};

/* The next word of a line: behind blanks and one "=", perhaps in quotes. In place; "" at the end. */
static char *next_word(char **rest)
{
    char *word = *rest + strspn(*rest, " \t\r=");
    size_t len;

    if (*word == '"') {
        len = strcspn(++word, "\"");
    } else {
        len = strcspn(word, " \t\r=");
    }
    *rest = word + len + (word[len] != 0);
    word[len] = 0;
    return word;
}

static void read_file(struct reading *reading, const char *path);

static void include(struct reading *reading, char *patterns)
{
    for (char *word = next_word(&patterns); *word; word = next_word(&patterns)) {
        const struct doctor *doctor = reading->doctor;
        char pattern[PATH_MAX];
        glob_t found = {0};

        snprintf(pattern, sizeof pattern, "%s%s%s", doctor->root, *word == '/' ? "" : FOLDER, word);
        if (glob(pattern, 0, NULL, &found) == 0)
            for (size_t i = 0; i < found.gl_pathc; i++)
                read_file(reading, found.gl_pathv[i] + strlen(doctor->root));
        globfree(&found);
    }
}

static void read_file(struct reading *reading, const char *path)
{
    auto_free char *text = NULL;
    char *rest;

    if (reading->depth >= DEPTH_MAX)
        return;
    text = rest = doctor_read(reading->doctor, path);
    reading->depth++;
    for (char *line; rest && !reading->use_pam[0] && (line = strsep(&rest, "\n"));) {
        const char *key;

        line[strcspn(line, "#")] = 0;
        key = next_word(&line);
        if (!strcasecmp(key, "Match"))
            break;
        if (!strcasecmp(key, "Include"))
            include(reading, line);
        else if (!strcasecmp(key, "UsePAM"))
            snprintf(reading->use_pam, sizeof reading->use_pam, "%s", next_word(&line));
    }
    reading->depth--;
}

void doctor_check_sshd(struct doctor *doctor)
{
    static const char *const confs[] = {FOLDER "sshd_config", "/usr/etc/ssh/sshd_config"};
    struct reading reading = {.doctor = doctor};
    char path[PATH_MAX];
    size_t i = 0;

    if (access(doctor_path(doctor, "/usr/sbin/sshd", path, sizeof path), X_OK) < 0)
        return;
    while (i < ARRAY_LEN(confs) &&
           access(doctor_path(doctor, confs[i], path, sizeof path), F_OK) < 0)
        i++;
    if (i < ARRAY_LEN(confs) && access(path, R_OK) < 0) {
        doctor_found(doctor, SEVERITY_NOTE, "sshd-unreadable", "ask as root",
                     "%s can not be read: whether sshd asks PAM is not known", confs[i]);
        return;
    }
    if (i < ARRAY_LEN(confs))
        read_file(&reading, confs[i]);
    if (!strcasecmp(reading.use_pam, "yes"))
        doctor_found(doctor, SEVERITY_OK, "sshd-ok", NULL, "sshd asks PAM");
    else
        doctor_found(doctor, SEVERITY_WARNING, "sshd-usepam",
                     "UsePAM yes in /etc/ssh/sshd_config, then systemctl reload ssh (or sshd)",
                     "sshd does not ask PAM: a leased user gets in if a key for it is found");
}
