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
#include <unistd.h>

#include "common/err.h"
#include "common/mem.h"
#include "noded/reason.h"

#define ENTRY_MAX  (1u << 20) /* bytes of one entry: groups have many members */
#define GROUPS_MAX 64

const struct collide_files collide_files_default = {
    .nsswitch = "/etc/nsswitch.conf",
    .passwd = "/etc/passwd",
    .group = "/etc/group",
    .subuid = "/etc/subuid",
    .subgid = "/etc/subgid",
    .login_defs = "/etc/login.defs",
};

/* ---- which services ---- */

bool collide_services(const char *line, char *ret, size_t size)
{
    size_t len = 0;
    bool ours = false;

    ret[0] = '\0';
    while (*(line += strspn(line, " \t\n"))) {
        size_t n = *line == '[' ? strcspn(line, "]") : strcspn(line, " \t\n[");
        if (*line == '[' && line[n] == ']')
            n++;
        else if (*line != '[')
            ours = n == 3 && strncmp(line, "xce", 3) == 0;
        /* What is said of us in brackets goes with us; [SUCCESS=return] of others would hide those behind. */
        if (!ours && *line != '[') {
            if (len + n + 2 > size)
                return false;
            len += (size_t)snprintf(ret + len, size - len, "%s%.*s", len ? " " : "", (int)n, line);
        }
        line += n;
    }
    return true;
}

static void database_configure(const char *line)
{
    static const char *const databases[] = {"passwd", "group", "initgroups"};
    char services[256];

    line += strspn(line, " \t");
    for (size_t i = 0; i < ARRAY_LEN(databases); i++) {
        size_t n = strlen(databases[i]);
        const char *rest = line + n;
        if (strncmp(line, databases[i], n) != 0)
            continue;
        rest += strspn(rest, " \t");
        if (*rest == ':' && collide_services(rest + 1, services, sizeof(services)))
            (void)__nss_configure_lookup(databases[i], *services ? services : "files");
    }
}

static void services_configure(const char *path)
{
    auto_free char *line = NULL;
    auto_fclose FILE *file = fopen(path, "re");
    size_t cap = 0;

    if (!file)
        return;
    while (getline(&line, &cap, file) > 0) {
        line[strcspn(line, "#")] = '\0';
        database_configure(line);
    }
}

/* ---- by uid ---- */

static char entry_bytes[ENTRY_MAX];

/* Whether another service than ours answered by that name: nss-systemd shows our own leases, too. */
static bool is_foreign(const char *prefix, const char *name, uint32_t uid)
{
    uint32_t its_uid, its_epoch;

    return name_decode(prefix, name, strlen(name), &its_uid, &its_epoch) != 0 || its_uid != uid;
}

/* The errors by which services say "not found" (getpwnam(3)). */
static bool is_absent(int r)
{
    return r == 0 || r == ENOENT || r == ESRCH || r == EBADF || r == EPERM;
}

static void user_look(const char *prefix, const struct collide_uid *q, const char *name,
                      struct collide_answer *ret)
{
    struct passwd entry, *found = NULL;
    int r = getpwuid_r(q->uid, &entry, entry_bytes, sizeof(entry_bytes), &found);

    if (found && is_foreign(prefix, found->pw_name, q->uid))
        collide_add(ret, q->uid, REASON_ACCOUNT, false, "user %s has it", found->pw_name);
    else if (!found && !is_absent(r))
        collide_add(ret, q->uid, REASON_SCAN_FAILED, false, "users: %s", err_text(r));
    if (!name)
        return;
    r = getpwnam_r(name, &entry, entry_bytes, sizeof(entry_bytes), &found);
    if (found && found->pw_uid != q->uid)
        collide_add(ret, q->uid, REASON_ACCOUNT, false, "%s is a user of another id", name);
    else if (!found && !is_absent(r))
        collide_add(ret, q->uid, REASON_SCAN_FAILED, false, "users: %s", err_text(r));
}

static void group_look(const char *prefix, const struct collide_uid *q, const char *name,
                       struct collide_answer *ret)
{
    struct group entry, *found = NULL;
    int r = getgrgid_r(q->uid, &entry, entry_bytes, sizeof(entry_bytes), &found);

    if (found && is_foreign(prefix, found->gr_name, q->uid))
        collide_add(ret, q->uid, REASON_GROUP, false, "group %s has it", found->gr_name);
    else if (!found && !is_absent(r))
        collide_add(ret, q->uid, REASON_SCAN_FAILED, false, "groups: %s", err_text(r));
    if (!name)
        return;
    r = getgrnam_r(name, &entry, entry_bytes, sizeof(entry_bytes), &found);
    if (found && found->gr_gid != q->uid)
        collide_add(ret, q->uid, REASON_GROUP, false, "%s is a group of another id", name);
    else if (!found && !is_absent(r))
        collide_add(ret, q->uid, REASON_SCAN_FAILED, false, "groups: %s", err_text(r));
}

static void member_look(const struct collide_uid *q, const char *name, struct collide_answer *ret)
{
    gid_t groups[GROUPS_MAX];
    int n = GROUPS_MAX;

    if (getgrouplist(name, q->uid, groups, &n) < 0)
        n = GROUPS_MAX;
    for (int i = 0; i < n; i++)
        if (groups[i] != q->uid) {
            collide_add(ret, q->uid, REASON_GROUP_MEMBER, false, "%s is in group %u", name,
                        groups[i]);
            return;
        }
}

static void uid_look(const char *prefix, const struct collide_uid *q, struct collide_answer *ret)
{
    char name[NAME_BUF];
    const char *named = NULL;

    if (q->epoch && name_prefix_valid(prefix)) {
        (void)name_encode(prefix, q->uid, q->epoch, name);
        named = name;
    }
    user_look(prefix, q, named, ret);
    group_look(prefix, q, named, ret);
    if (named)
        member_look(q, named, ret);
}

/* ---- by range ---- */

static void users_list(const char *prefix, uint32_t first, uint32_t last,
                       struct collide_answer *ret)
{
    struct passwd *entry;

    setpwent();
    while ((entry = getpwent()))
        if (entry->pw_uid >= first && entry->pw_uid <= last &&
            is_foreign(prefix, entry->pw_name, entry->pw_uid))
            collide_add(ret, entry->pw_uid, REASON_ACCOUNT, false, "user %s has it",
                        entry->pw_name);
    endpwent();
}

static void groups_list(const char *prefix, uint32_t first, uint32_t last,
                        struct collide_answer *ret)
{
    struct group *entry;

    setgrent();
    while ((entry = getgrent()))
        if (entry->gr_gid >= first && entry->gr_gid <= last &&
            is_foreign(prefix, entry->gr_name, entry->gr_gid))
            collide_add(ret, entry->gr_gid, REASON_GROUP, false, "group %s has it", entry->gr_name);
    endgrent();
}

static bool is_asked(const struct collide_question *q, uint32_t id)
{
    if (q->kind != COLLIDE_UIDS)
        return id >= q->uids[0].uid && id <= q->uids[1].uid;
    for (uint32_t i = 0; i < q->n; i++)
        if (q->uids[i].uid == id)
            return true;
    return false;
}

/* The files never hold entries of ours, whatever their names look like. A user's primary group is somebody's, too. */
static void files_list(const struct collide_question *q, const struct collide_files *files,
                       struct collide_answer *ret)
{
    auto_fclose FILE *passwd = fopen(files->passwd, "re");
    auto_fclose FILE *group = fopen(files->group, "re");
    struct passwd *user;
    struct group *entry;

    while (passwd && (user = fgetpwent(passwd))) {
        if (is_asked(q, user->pw_uid))
            collide_add(ret, user->pw_uid, REASON_ACCOUNT, false, "user %s has it", user->pw_name);
        else if (is_asked(q, user->pw_gid))
            collide_add(ret, user->pw_gid, REASON_GROUP, false, "it is the group of user %s",
                        user->pw_name);
    }
    while (group && (entry = fgetgrent(group)))
        if (is_asked(q, entry->gr_gid))
            collide_add(ret, entry->gr_gid, REASON_GROUP, false, "group %s has it", entry->gr_name);
}

void collide_ask(const struct collide_question *q, const struct collide_files *files,
                 struct collide_answer *ret)
{
    *ret = (struct collide_answer){.serial = q->serial};
    files_list(q, files, ret);
    if (q->kind == COLLIDE_UIDS) {
        for (uint32_t i = 0; i < q->n && i < COLLIDE_UIDS_MAX; i++)
            uid_look(q->prefix, &q->uids[i], ret);
        return;
    }
    collide_maps(q->uids[0].uid, q->uids[1].uid, files, ret);
    if (q->kind == COLLIDE_RANGE) {
        users_list(q->prefix, q->uids[0].uid, q->uids[1].uid, ret);
        groups_list(q->prefix, q->uids[0].uid, q->uids[1].uid, ret);
    }
}

/* ---- the process ---- */

static bool changed_since(const char *path, struct stat *last)
{
    struct stat now = {0};

    (void)stat(path, &now);
    if (now.st_ino == last->st_ino && now.st_mtim.tv_sec == last->st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == last->st_mtim.tv_nsec && now.st_size == last->st_size)
        return false;
    *last = now;
    return true;
}

static size_t answer_len(const struct collide_answer *answer)
{
    return offsetof(struct collide_answer, found) + answer->n * sizeof(answer->found[0]);
}

void collide_serve(int socket, const struct collide_files *files)
{
    static struct collide_question question;
    static struct collide_answer answer;
    struct stat nsswitch = {0};
    ssize_t n;

    /* If our parent dies while a service hangs, nobody else ends us. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    while ((n = recv(socket, &question, sizeof(question), 0)) > 0) {
        if ((size_t)n < offsetof(struct collide_question, uids) || question.n > COLLIDE_UIDS_MAX ||
            (size_t)n !=
                offsetof(struct collide_question, uids) + question.n * sizeof(question.uids[0]))
            return;
        question.prefix[sizeof(question.prefix) - 1] = '\0';
        if (changed_since(files->nsswitch, &nsswitch))
            services_configure(files->nsswitch);
        collide_ask(&question, files, &answer);
        if (send(socket, &answer, answer_len(&answer), MSG_NOSIGNAL) < 0)
            return;
    }
}
