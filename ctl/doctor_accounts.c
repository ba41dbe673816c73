/* Real accounts and configured ranges that collide with a pool. Files are read as files: what they say counts, whatever
 * name service would make of it; then what all name services enumerate is looked through. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/text.h"
#include "ctl/doctor.h"
#include "map/name.h"

enum {
    TOLD_MOST = 16, /* collisions of one kind that are told one by one */
};

#define ACCOUNT_CURE                                                                               \
    "give the account another uid (usermod -u, groupmod -g), or retire the pool; the uid is "      \
    "blocked"

/* A lease's own entry is no collision: its name holds the uid. */
static bool is_lease(const struct doctor *doctor, const char *name, uint32_t id)
{
    const char *prefix = doctor->prefix[0] ? doctor->prefix : NAME_PREFIX_DEFAULT;
    uint32_t uid, epoch;

    return name_decode(prefix, name, strlen(name), &uid, &epoch) == 0 && uid == id;
}

static void judge_id(struct doctor *doctor, const char *where, const char *name, uint32_t id,
                     size_t *told)
{
    const struct doctor_range *range = doctor_overlap(doctor, id, id);

    if (!range || is_lease(doctor, name, id) || (*told)++ >= TOLD_MOST)
        return;
    doctor_found(doctor, SEVERITY_ERROR, "accounts-collides", ACCOUNT_CURE,
                 "%s: %s has id %u, of pool %u-%u", where, name, id, range->first, range->last);
}

/* "name:x:id:...". */
static void read_file(struct doctor *doctor, const char *path, size_t *told)
{
    auto_free char *text = doctor_read(doctor, path);
    char *rest = text;

    for (char *line; rest && (line = strsep(&rest, "\n"));) {
        const char *name = strsep(&line, ":"), *id_text;
        uint32_t id;

        (void)strsep(&line, ":");
        id_text = strsep(&line, ":");
        if (id_text && text_parse_u32(id_text, &id, NULL) == 0)
            judge_id(doctor, path, name, id, told);
    }
}

/* Members of groups by the name of a lease: they outlive it, and its successor never has that name again; but it is a
 * right that nobody meant to give. */
static void read_members(struct doctor *doctor, size_t *told)
{
    const char *prefix = doctor->prefix[0] ? doctor->prefix : NAME_PREFIX_DEFAULT;
    auto_free char *text = doctor_read(doctor, "/etc/group");
    char *rest = text;

    for (char *line; rest && (line = strsep(&rest, "\n"));) {
        const char *group = strsep(&line, ":");
        uint32_t uid, epoch;

        (void)strsep(&line, ":");
        (void)strsep(&line, ":");
        for (const char *member; line && (member = strsep(&line, ","));)
            if (name_decode(prefix, member, strlen(member), &uid, &epoch) == 0 &&
                (*told)++ < TOLD_MOST)
                doctor_found(doctor, SEVERITY_ERROR, "accounts-member", "gpasswd -d NAME GROUP",
                             "/etc/group: %s, a lease's name, is a member of %s", member, group);
    }
}

/* Whatever name services enumerate; a directory that does not enumerate shows nothing here, which is why pool create asks
 * for its ranges. */
static void enumerate(struct doctor *doctor, size_t *told)
{
    const struct passwd *passwd;
    const struct group *group;

    setpwent();
    while ((passwd = getpwent()))
        judge_id(doctor, "passwd of name service", passwd->pw_name, passwd->pw_uid, told);
    endpwent();
    setgrent();
    while ((group = getgrent()))
        judge_id(doctor, "group of name service", group->gr_name, group->gr_gid, told);
    endgrent();
}

void doctor_check_accounts(struct doctor *doctor)
{
    size_t before = doctor->n_findings, told = 0;

    if (!doctor->n_ranges)
        return;
    read_file(doctor, "/etc/passwd", &told);
    read_file(doctor, "/etc/group", &told);
    read_members(doctor, &told);
    /* What the files say already would be said twice. */
    if (!told && !doctor->root[0] && !doctor->userdb_hangs)
        enumerate(doctor, &told);
    if (told > TOLD_MOST)
        doctor_found(doctor, SEVERITY_ERROR, "accounts-collides", ACCOUNT_CURE, "and %zu more",
                     told - TOLD_MOST);
    doctor->collides = told;
    if (doctor->n_findings == before)
        doctor_found(doctor, SEVERITY_OK, "accounts-ok", NULL, "no account lies in a pool");
}

/* ---- ranges that other tools give out ---- */

static void judge_range(struct doctor *doctor, const char *where, const char *cure, uint64_t first,
                        uint64_t last)
{
    const struct doctor_range *range;

    if (first > UINT32_MAX || last < first)
        return;
    if (last > UINT32_MAX)
        last = UINT32_MAX;
    range = doctor_overlap(doctor, (uint32_t)first, (uint32_t)last);
    if (range)
        doctor_found(doctor, SEVERITY_ERROR, "ranges-overlap", cure,
                     "%s: %llu-%llu overlaps with pool %u-%u", where, (unsigned long long)first,
                     (unsigned long long)last, range->first, range->last);
}

/* "name:first:count". */
static void read_subids(struct doctor *doctor, const char *path)
{
    auto_free char *text = doctor_read(doctor, path);
    char *rest = text;

    for (char *line; rest && (line = strsep(&rest, "\n"));) {
        const char *first_text, *count_text;
        uint64_t first, count;

        (void)strsep(&line, ":");
        first_text = strsep(&line, ":");
        count_text = line;
        if (first_text && count_text && text_parse_u64(first_text, &first, NULL) == 0 &&
            text_parse_u64(count_text, &count, NULL) == 0 && count)
            judge_range(doctor, path, "move those subordinate ids elsewhere", first,
                        first + count - 1);
    }
}

/* The value of a key of login.defs; fallback if it is not there. */
static uint64_t login_def(const char *text, const char *key, uint64_t fallback)
{
    size_t len = strlen(key);

    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        char word[32];
        uint64_t value;

        line += strspn(line, "\n");
        if (strncmp(line, key, len) != 0 || !strchr(" \t", line[len]))
            continue;
        if (sscanf(line + len, " %31s", word) == 1 && text_parse_u64(word, &value, NULL) == 0)
            return value;
    }
    return fallback;
}

static void read_login_defs(struct doctor *doctor)
{
    static const struct {
        const char *min, *max;
        uint64_t min_fallback, max_fallback;
    } pairs[] = {
        {"UID_MIN", "UID_MAX", 1000, 60000},
        {"GID_MIN", "GID_MAX", 1000, 60000},
        {"SYS_UID_MIN", "SYS_UID_MAX", 100, 999},
        {"SYS_GID_MIN", "SYS_GID_MAX", 100, 999},
        {"SUB_UID_MIN", "SUB_UID_MAX", 100000, 600100000},
        {"SUB_GID_MIN", "SUB_GID_MAX", 100000, 600100000},
    };
    auto_free char *text = doctor_read(doctor, "/etc/login.defs");
    char where[64];

    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        snprintf(where, sizeof where, "/etc/login.defs: %s", pairs[i].min);
        judge_range(doctor, where, "change login.defs, or retire the pool",
                    login_def(text, pairs[i].min, pairs[i].min_fallback),
                    login_def(text, pairs[i].max, pairs[i].max_fallback));
    }
}

void doctor_check_ranges(struct doctor *doctor)
{
    size_t before = doctor->n_findings;

    if (!doctor->n_ranges)
        return;
    read_login_defs(doctor);
    read_subids(doctor, "/etc/subuid");
    read_subids(doctor, "/etc/subgid");
    if (doctor->n_findings == before)
        doctor_found(doctor, SEVERITY_OK, "ranges-ok", NULL,
                     "login.defs, subuid and subgid leave the pools alone");
}
