#include "noded/collide.h"

#include <errno.h>
#include <grp.h>
#include <nss.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/err.h"
#include "common/mem.h"
#include "common/name_service.h"
#include "noded/reason.h"

#define GROUPS_MAX 64
/* nsswitch.conf is not read before nobody has written to it for so long; a clock may be a little behind. */
#define FRESH_MS       200
#define FRESH_AHEAD_MS 2000
#define FRESH_LOOK_MS  50
#define FRESH_TRIES    80

const struct collide_files collide_files_default = {
    .nsswitch = "/etc/nsswitch.conf",
    .passwd = "/etc/passwd",
    .group = "/etc/group",
    .subuid = "/etc/subuid",
    .subgid = "/etc/subgid",
    .login_defs = "/etc/login.defs",
    .providers = "/run/systemd/userdb",
    .userdb = {"/etc/userdb", "/run/userdb", "/run/host/userdb", "/usr/local/lib/userdb",
               "/usr/lib/userdb", NULL},
};

/* ---- which services ---- */

enum database { DB_PASSWD, DB_GROUP, DB_INITGROUPS, N_DATABASES };

/* The services of each database that are to be asked. */
static char services[N_DATABASES][NAME_SERVICES_MAX];

static void database_configure(const char *line, bool systemd)
{
    static const char *const names[N_DATABASES] = {"passwd", "group", "initgroups"};

    line += strspn(line, " \t");
    for (size_t i = 0; i < N_DATABASES; i++) {
        size_t n = strlen(names[i]);
        const char *rest = line + n;
        if (strncmp(line, names[i], n) != 0)
            continue;
        rest += strspn(rest, " \t");
        if (*rest != ':' || !name_services(rest + 1, systemd, services[i], sizeof(services[i])))
            continue;
        if (*services[i])
            (void)__nss_configure_lookup(names[i], services[i]);
    }
}

/* 0; -errno: who is to be asked is not known. Without the file it is the files alone, as for everybody else. */
static int services_configure(const char *path, bool systemd)
{
    auto_free char *line = NULL;
    auto_fclose FILE *file = fopen(path, "re");
    size_t cap = 0;

    memset(services, 0, sizeof(services));
    if (!file)
        return errno == ENOENT ? 0 : -errno;
    while (getline(&line, &cap, file) > 0) {
        line[strcspn(line, "#")] = '\0';
        database_configure(line, systemd);
    }
    return feof(file) ? 0 : -errno;
}

static void records_look(const struct collide_files *files, uint32_t uid,
                         struct collide_answer *ret)
{
    static const char *const kinds[] = {"user", "group"};
    char path[512];

    for (const char *const *folder = files->userdb; *folder; folder++)
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
            (void)snprintf(path, sizeof(path), "%s/%u.%s", *folder, uid, kinds[i]);
            if (access(path, F_OK) == 0)
                collide_add(ret, uid, i ? REASON_GROUP : REASON_ACCOUNT, false, "%s is there",
                            path);
        }
}

/* ---- by uid ---- */

bool collide_is_foreign(const char *prefix, const char *name, uint32_t uid)
{
    uint32_t its_uid, its_epoch;

    return name_decode(prefix, name, strlen(name), &its_uid, &its_epoch) != 0 || its_uid != uid;
}

bool collide_name(const char *prefix, const struct collide_uid *q, char *ret)
{
    if (!q->epoch || !name_prefix_valid(prefix))
        return false;
    (void)name_encode(prefix, q->uid, q->epoch, ret);
    return true;
}

static void member_look(const char *prefix, const struct collide_uid *q, struct collide_answer *ret)
{
    char name[NAME_BUF];
    gid_t groups[GROUPS_MAX];
    int n = GROUPS_MAX;

    if (!collide_name(prefix, q, name))
        return;
    if (getgrouplist(name, q->uid, groups, &n) < 0)
        n = GROUPS_MAX;
    for (int i = 0; i < n; i++)
        if (groups[i] != q->uid) {
            collide_add(ret, q->uid, REASON_GROUP_MEMBER, false, "%s is in group %u", name,
                        groups[i]);
            return;
        }
}

static void uids_look(const struct collide_question *q, struct collide_answer *ret)
{
    collide_services_ask(services[DB_PASSWD], false, q, ret);
    collide_services_ask(services[DB_GROUP], true, q, ret);
    for (uint32_t i = 0; i < q->n && i < COLLIDE_UIDS_MAX; i++)
        if (*services[DB_INITGROUPS] || *services[DB_GROUP])
            member_look(q->prefix, &q->uids[i], ret);
}

/* ---- files ---- */

static const struct collide_uid *asked_of(const struct collide_question *q, uint32_t id)
{
    if (q->kind != COLLIDE_UIDS)
        return id >= q->uids[0].uid && id <= q->uids[1].uid ? &q->uids[0] : NULL;
    for (uint32_t i = 0; i < q->n; i++)
        if (q->uids[i].uid == id)
            return &q->uids[i];
    return NULL;
}

/* The uid that is asked about under just that name; 0 = none. */
static uint32_t asked_by_name(const struct collide_question *q, const char *name)
{
    const struct collide_uid *asked;
    uint32_t uid, epoch;

    if (q->kind != COLLIDE_UIDS || name_decode(q->prefix, name, strlen(name), &uid, &epoch) != 0)
        return 0;
    asked = asked_of(q, uid);
    return asked && asked->epoch == epoch ? uid : 0;
}

/* The files never hold entries of ours, whatever their names look like. A user's primary group is somebody's, too. */
static void user_judge(const struct collide_question *q, const struct passwd *user,
                       struct collide_answer *ret)
{
    uint32_t uid = asked_by_name(q, user->pw_name);

    if (asked_of(q, user->pw_uid))
        collide_add(ret, user->pw_uid, REASON_ACCOUNT, false, "user %s has it", user->pw_name);
    else if (asked_of(q, user->pw_gid))
        collide_add(ret, user->pw_gid, REASON_GROUP, false, "it is the group of user %s",
                    user->pw_name);
    if (uid)
        collide_add(ret, uid, REASON_ACCOUNT, false, "%s is a user of another id", user->pw_name);
}

static void group_judge(const struct collide_question *q, const struct group *group,
                        struct collide_answer *ret)
{
    uint32_t uid = asked_by_name(q, group->gr_name);

    if (asked_of(q, group->gr_gid))
        collide_add(ret, group->gr_gid, REASON_GROUP, false, "group %s has it", group->gr_name);
    if (uid)
        collide_add(ret, uid, REASON_GROUP, false, "%s is a group of another id", group->gr_name);
    for (char **member = group->gr_mem; *member; member++) {
        uid = asked_by_name(q, *member);
        if (uid)
            collide_add(ret, uid, REASON_GROUP_MEMBER, false, "%s is in group %s", *member,
                        group->gr_name);
    }
}

/* What could not be read may have anybody. */
static void file_doubt(const struct collide_question *q, const char *path, int error,
                       struct collide_answer *ret)
{
    uint32_t n = q->kind == COLLIDE_UIDS ? q->n : 1;

    for (uint32_t i = 0; i < n && i < COLLIDE_UIDS_MAX; i++)
        collide_add(ret, q->uids[i].uid, REASON_SCAN_FAILED, false, "%s: %s", path,
                    err_text(error));
}

/* NULL: there is nothing to be read. */
static FILE *list_open(const struct collide_question *q, const char *path,
                       struct collide_answer *ret)
{
    FILE *file = fopen(path, "re");

    if (!file && errno != ENOENT)
        file_doubt(q, path, errno, ret);
    return file;
}

static void passwd_list(const struct collide_question *q, const char *path,
                        struct collide_answer *ret)
{
    auto_fclose FILE *file = list_open(q, path, ret);
    struct passwd *user;

    while (file && (user = fgetpwent(file)))
        user_judge(q, user, ret);
    if (file && !feof(file))
        file_doubt(q, path, errno, ret);
}

static void group_list(const struct collide_question *q, const char *path,
                       struct collide_answer *ret)
{
    auto_fclose FILE *file = list_open(q, path, ret);
    struct group *group;

    while (file && (group = fgetgrent(file)))
        group_judge(q, group, ret);
    if (file && !feof(file))
        file_doubt(q, path, errno, ret);
}

/* By all services in the order of this machine: it is said for this moment, and proves nothing about others. */
static void name_look(const struct collide_question *q, struct collide_answer *ret)
{
    static char bytes[16384];
    struct passwd entry, *found = NULL;
    uint32_t uid = q->uids[0].uid;

    if (q->n == 1 && getpwuid_r(uid, &entry, bytes, sizeof(bytes), &found) == 0 && found)
        collide_add(ret, uid, REASON_ACCOUNT, false, "%s", found->pw_name);
}

void collide_ask(const struct collide_question *q, const struct collide_files *files,
                 struct collide_answer *ret)
{
    *ret = (struct collide_answer){.serial = q->serial};
    if (q->kind == COLLIDE_NAME) {
        name_look(q, ret);
        return;
    }
    passwd_list(q, files->passwd, ret);
    group_list(q, files->group, ret);
    if (q->kind == COLLIDE_UIDS) {
        for (uint32_t i = 0; i < q->n && i < COLLIDE_UIDS_MAX; i++)
            records_look(files, q->uids[i].uid, ret);
        uids_look(q, ret);
        return;
    }
    collide_maps(q->uids[0].uid, q->uids[1].uid, files, ret);
    if (q->kind == COLLIDE_RANGE) {
        collide_services_ask(services[DB_PASSWD], false, q, ret);
        collide_services_ask(services[DB_GROUP], true, q, ret);
    }
}

/* ---- the process ---- */

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_size == b->st_size;
}

/* Somebody may be in the middle of writing it. */
static bool is_fresh(const struct stat *st)
{
    struct timespec now;
    int64_t age_ms;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    age_ms = (int64_t)(now.tv_sec - st->st_mtim.tv_sec) * 1000 +
             (now.tv_nsec - st->st_mtim.tv_nsec) / 1000000;
    return age_ms > -FRESH_AHEAD_MS && age_ms < FRESH_MS;
}

/* Once for each question: a look at two places, so that none is answered by what was so before, or by half of what is to be.
 * 0; -errno who is to be asked is not known. */
static int services_refresh(const struct collide_files *files)
{
    static struct stat last;
    static bool last_systemd, known;

    for (int i = 0; i < FRESH_TRIES; i++) {
        struct stat now = {0}, then = {0};
        bool systemd = name_systemd_has_others(files->providers);
        int r;

        (void)stat(files->nsswitch, &now);
        if (known && same_file(&now, &last) && systemd == last_systemd)
            return 0;
        known = false;
        if (is_fresh(&now)) {
            (void)usleep(FRESH_LOOK_MS * 1000);
            continue;
        }
        r = services_configure(files->nsswitch, systemd);
        if (r < 0)
            return r;
        (void)stat(files->nsswitch, &then);
        known = same_file(&now, &then);
        last = now;
        last_systemd = systemd;
    }
    return -EBUSY;
}

static size_t answer_len(const struct collide_answer *answer)
{
    return offsetof(struct collide_answer, found) + answer->n * sizeof(answer->found[0]);
}

void collide_serve(int socket, const struct collide_files *files)
{
    static struct collide_question question;
    static struct collide_answer answer;
    ssize_t n;
    int r;

    /* If our parent dies while a service hangs, nobody else ends us. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    while ((n = recv(socket, &question, sizeof(question), 0)) > 0) {
        if ((size_t)n < offsetof(struct collide_question, uids) || question.n > COLLIDE_UIDS_MAX ||
            (size_t)n !=
                offsetof(struct collide_question, uids) + question.n * sizeof(question.uids[0]))
            return;
        question.prefix[sizeof(question.prefix) - 1] = '\0';
        r = services_refresh(files);
        collide_ask(&question, files, &answer);
        if (r < 0 && question.kind != COLLIDE_RANGE_FILES && question.kind != COLLIDE_NAME)
            file_doubt(&question, files->nsswitch, r, &answer);
        if (send(socket, &answer, answer_len(&answer), MSG_NOSIGNAL) < 0)
            return;
    }
}
