#include "pam/pam_xce.h"

#include <errno.h>
#include <pwd.h>
#include <security/pam_ext.h>
#include <security/pam_modutil.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

#include "map/file.h"
#include "map/read.h"
#include "pam/check.h"

/* Fixed when built: nothing at run time tells a process where to look. */
#ifndef XCE_MAP_PATH
#define XCE_MAP_PATH XCE_MAP_PATH_DEFAULT
#endif

/* A map that is superseded while it is opened has its successor at the path already. */
#define TRIES 16
/* "XCE_EPOCH=", a number or a name, NUL. */
#define ENV_MAX 64
/* What tells the end of a session that it was opened by us. */
#define OPENED "xce_session"

/* One call of libpam, and what comes of it. */
struct call {
    pam_handle_t *pamh;
    struct check_conf conf;
    struct check_who who;
    enum check verdict;
    const char *why; /* with CHECK_NO_MAP: what is wrong with it */
    struct map_entry entry;
};

/* ---- what the call is about ---- */

static void read_arguments(struct call *c, int argc, const char **argv)
{
    check_conf_init(&c->conf);
    for (int i = 0; i < argc; i++)
        if (!check_argument(&c->conf, argv[i]))
            pam_syslog(c->pamh, LOG_ERR, "argument \"%.100s\" is not understood", argv[i]);
}

/* False: there is no user. */
static bool read_who(struct call *c)
{
    const void *user = NULL, *service = NULL;
    const struct passwd *account;

    if (pam_get_item(c->pamh, PAM_USER, &user) != PAM_SUCCESS || !user || !*(const char *)user)
        return false;
    if (pam_get_item(c->pamh, PAM_SERVICE, &service) != PAM_SUCCESS || !service)
        service = "";
    c->who = (struct check_who){.user = user, .service = service};
    account = pam_modutil_getpwnam(c->pamh, user);
    if (account) {
        c->who.known = true;
        c->who.uid = account->pw_uid;
    }
    return true;
}

/* ---- the decision ---- */

static int open_map(struct map *ret, const char **ret_why)
{
    int r = -ESTALE;

    for (int i = 0; i < TRIES && r == -ESTALE; i++)
        r = map_open(XCE_MAP_PATH, ret, NULL, ret_why);
    return r;
}

static int64_t boot_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void decide(struct call *c)
{
    struct map map = {0};
    bool there;

    if (!check_concerns(&c->who)) {
        c->verdict = CHECK_FOREIGN;
        return;
    }
    there = open_map(&map, &c->why) == 0;
    c->verdict = check_decide(&c->conf, there ? &map : NULL, boot_ms(), &c->who, &c->entry);
    map_close(&map);
}

/* Say why not: to the log, and to the user, who has to know whom to ask. Whoever is only trying names learns nothing: what he
 * is told is the same for all of them. */
static void tell(const struct call *c, bool user_too)
{
    bool no_map = c->verdict == CHECK_NO_MAP;

    pam_syslog(c->pamh, LOG_NOTICE, "%.64s: refused: %s%s%s", c->who.user, check_text(c->verdict),
               no_map ? ": " XCE_MAP_PATH_DEFAULT " " : "", no_map ? c->why : "");
    if (user_too)
        (void)pam_error(c->pamh, "This user is a lease's: nobody but its job comes in as it.");
}

/* PAM_IGNORE foreign; PAM_SUCCESS allowed; else refused. */
static int judge(struct call *c, int flags, bool user_too, int refused)
{
    if (!read_who(c))
        return refused;
    decide(c);
    if (c->verdict == CHECK_FOREIGN)
        return PAM_IGNORE;
    if (c->verdict == CHECK_ALLOWED)
        return PAM_SUCCESS;
    tell(c, user_too && !(flags & PAM_SILENT));
    return refused;
}

/* ---- what the session knows of its lease ---- */

static char *put_text(char *at, const char *text)
{
    size_t len = strlen(text);

    memcpy(at, text, len);
    return at + len;
}

static char *put_number(char *at, uint64_t n)
{
    char digits[20];
    size_t len = 0;

    do {
        digits[len++] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    while (len > 0)
        *at++ = digits[--len];
    return at;
}

static int export_number(pam_handle_t *pamh, const char *name, uint64_t value)
{
    char buf[ENV_MAX];

    *put_number(put_text(buf, name), value) = '\0';
    return pam_putenv(pamh, buf);
}

static int export_lease(pam_handle_t *pamh, const struct map_entry *entry)
{
    char name[ENV_MAX];
    int r = export_number(pamh, "XCE_LEASE=", entry->record.lease);

    if (r == PAM_SUCCESS)
        r = export_number(pamh, "XCE_UID=", entry->record.uid);
    if (r == PAM_SUCCESS)
        r = export_number(pamh, "XCE_GID=", entry->record.gid);
    if (r == PAM_SUCCESS)
        r = export_number(pamh, "XCE_EPOCH=", entry->record.epoch);
    if (r != PAM_SUCCESS)
        return r;
    *put_text(put_text(name, "XCE_NAME="), map_name(entry)) = '\0';
    return pam_putenv(pamh, name);
}

static bool opened(const pam_handle_t *pamh)
{
    const void *mark;

    return pam_get_data(pamh, OPENED, &mark) == PAM_SUCCESS;
}

/* ---- entry points ---- */

int pam_sm_authenticate(pam_handle_t *pamh, int flags, int argc, const char **argv)
{
    struct call c = {.pamh = pamh};
    const char *user;
    int r = pam_get_user(pamh, &user, NULL);

    /* Its answer comes later: libpam keeps its place in the stack for this alone, and no control ends that. */
    if (r == PAM_CONV_AGAIN)
        return PAM_INCOMPLETE;
    if (r != PAM_SUCCESS)
        return r;
    read_arguments(&c, argc, argv);
    r = judge(&c, flags, false, PAM_AUTH_ERR);
    return r == PAM_SUCCESS ? PAM_IGNORE : r;
}

int pam_sm_setcred(pam_handle_t *pamh, int flags, int argc, const char **argv)
{
    struct call c = {.pamh = pamh};

    if (flags & PAM_DELETE_CRED)
        return opened(pamh) ? PAM_SUCCESS : PAM_IGNORE;
    read_arguments(&c, argc, argv);
    return judge(&c, flags, false, PAM_CRED_ERR);
}

int pam_sm_acct_mgmt(pam_handle_t *pamh, int flags, int argc, const char **argv)
{
    struct call c = {.pamh = pamh};

    read_arguments(&c, argc, argv);
    return judge(&c, flags, true, PAM_PERM_DENIED);
}

int pam_sm_open_session(pam_handle_t *pamh, int flags, int argc, const char **argv)
{
    static char mark;
    struct call c = {.pamh = pamh};
    int r;

    read_arguments(&c, argc, argv);
    /* Not PAM_SESSION_ERR: sudo would go on without a session. */
    r = judge(&c, flags, true, PAM_PERM_DENIED);
    if (r != PAM_SUCCESS)
        return r;
    if (export_lease(pamh, &c.entry) != PAM_SUCCESS ||
        pam_set_data(pamh, OPENED, &mark, NULL) != PAM_SUCCESS)
        return PAM_PERM_DENIED;
    return PAM_SUCCESS;
}

int pam_sm_close_session(pam_handle_t *pamh, int flags, int argc, const char **argv)
{
    (void)flags;
    (void)argc;
    (void)argv;
    return opened(pamh) ? PAM_SUCCESS : PAM_IGNORE;
}

int pam_sm_chauthtok(pam_handle_t *pamh, int flags, int argc, const char **argv)
{
    struct call c = {.pamh = pamh};
    int r;

    read_arguments(&c, argc, argv);
    r = judge(&c, flags, true, PAM_AUTHTOK_ERR);
    return r == PAM_SUCCESS ? PAM_IGNORE : r;
}
