#include "leased/service/overlap.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/name_service.h"
#include "map/name.h"

/* A directory of this many accounts is still gathered whole. */
#define TAKEN_MAX (4u << 20)
#define ENTRY_MAX (1u << 20) /* bytes of one entry: groups have many members */
#define PROVIDERS "/run/systemd/userdb"

__attribute__((format(printf, 4, 5))) static int add(struct overlap *overlap, uint32_t first,
                                                     uint32_t last, const char *format, ...)
{
    struct overlap_taken *taken;
    va_list args;
    int r = mem_grow(&overlap->taken, &overlap->capacity, overlap->n + 1, TAKEN_MAX, sizeof *taken);

    if (r < 0)
        return r;
    taken = &overlap->taken[overlap->n++];
    taken->first = first;
    taken->last = last;
    va_start(args, format);
    (void)vsnprintf(taken->what, sizeof taken->what, format, args);
    va_end(args);
    return 0;
}

/* ---- /etc/login.defs ---- */

static const char *const pairs[][2] = {
    {"UID_MIN", "UID_MAX"},         {"GID_MIN", "GID_MAX"},         {"SYS_UID_MIN", "SYS_UID_MAX"},
    {"SYS_GID_MIN", "SYS_GID_MAX"}, {"SUB_UID_MIN", "SUB_UID_MAX"}, {"SUB_GID_MIN", "SUB_GID_MAX"},
};

/* What the shadow suite takes where the file is silent. */
static const uint32_t defaults[][2] = {
    {1000, 60000}, {1000, 60000}, {101, 999}, {101, 999}, {100000, 600100000}, {100000, 600100000},
};

static bool parse_setting(const char *line, const char *key, uint32_t *ret)
{
    size_t len = strlen(key);
    unsigned long long value;
    char *end;

    line += strspn(line, " \t");
    if (strncmp(line, key, len) || !isspace((unsigned char)line[len]))
        return false;
    errno = 0;
    value = strtoull(line + len, &end, 0);
    if (errno || end == line + len || value > UINT32_MAX)
        return false;
    *ret = (uint32_t)value;
    return true;
}

static int gather_login_defs(const char *path, struct overlap *overlap)
{
    uint32_t ranges[ARRAY_LEN(pairs)][2];
    auto_fclose FILE *file = fopen(path, "re");
    auto_free char *line = NULL;
    size_t size = 0;
    int r = 0;

    memcpy(ranges, defaults, sizeof ranges);
    if (!file && errno != ENOENT)
        return -errno;
    while (file && getline(&line, &size, file) > 0)
        for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
            (void)parse_setting(line, pairs[i][0], &ranges[i][0]);
            (void)parse_setting(line, pairs[i][1], &ranges[i][1]);
        }
    if (file && ferror(file))
        return -EIO;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(pairs); i++)
        if (ranges[i][0] <= ranges[i][1])
            r = add(overlap, ranges[i][0], ranges[i][1], "%s to %s of login.defs", pairs[i][0],
                    pairs[i][1]);
    return r;
}

/* ---- /etc/subuid, /etc/subgid: name:first:count ---- */

static int gather_sub(const char *path, struct overlap *overlap)
{
    auto_fclose FILE *file = fopen(path, "re");
    auto_free char *line = NULL;
    size_t size = 0;
    int r = 0;

    if (!file)
        return errno == ENOENT ? 0 : -errno;
    while (r == 0 && getline(&line, &size, file) > 0) {
        char *rest = line, *name = strsep(&rest, ":"), *first = strsep(&rest, ":");
        unsigned long long from, count;

        if (!name || !first || !rest || *name == '#')
            continue;
        from = strtoull(first, NULL, 10);
        count = strtoull(rest, NULL, 10);
        if (count == 0 || from > UINT32_MAX)
            continue;
        if (count > UINT32_MAX - from)
            count = UINT32_MAX - from;
        r = add(overlap, (uint32_t)from, (uint32_t)(from + count - 1), "%.48s: %.32s", path, name);
    }
    return r < 0 ? r : ferror(file) ? -EIO : 0;
}

/* ---- NSS ---- */

/* Whether an entry is one of our own names, shown by our own module. */
static bool ours(const char *prefix, const char *name, uint32_t id)
{
    uint32_t uid, epoch;

    return prefix && name_decode(prefix, name, strlen(name), &uid, &epoch) == 0 && uid == id;
}

/* prefix NULL: it can not be ours. */
static int add_user(const char *prefix, const struct passwd *entry, struct overlap *overlap)
{
    int r;

    if (ours(prefix, entry->pw_name, entry->pw_uid))
        return 0;
    r = add(overlap, entry->pw_uid, entry->pw_uid, "account %.64s", entry->pw_name);
    if (r == 0 && entry->pw_gid != entry->pw_uid)
        r = add(overlap, entry->pw_gid, entry->pw_gid, "primary group of account %.48s",
                entry->pw_name);
    return r;
}

static int add_group(const char *prefix, const struct group *entry, struct overlap *overlap)
{
    if (ours(prefix, entry->gr_name, entry->gr_gid))
        return 0;
    return add(overlap, entry->gr_gid, entry->gr_gid, "group %.64s", entry->gr_name);
}

static int read_passwd(const char *path, struct overlap *overlap)
{
    auto_fclose FILE *file = fopen(path, "re");
    struct passwd *entry;
    int r = 0;

    if (!file)
        return errno == ENOENT ? 0 : -errno;
    while (r == 0 && (entry = fgetpwent(file)))
        r = add_user(NULL, entry, overlap);
    return r < 0 ? r : feof(file) ? 0 : -EIO;
}

static int read_group(const char *path, struct overlap *overlap)
{
    auto_fclose FILE *file = fopen(path, "re");
    struct group *entry;
    int r = 0;

    if (!file)
        return errno == ENOENT ? 0 : -errno;
    while (r == 0 && (entry = fgetgrent(file)))
        r = add_group(NULL, entry, overlap);
    return r < 0 ? r : feof(file) ? 0 : -EIO;
}

static int list_users(const struct name_service *service, const char *prefix, char *bytes,
                      struct overlap *overlap)
{
    enum nss_status status = NSS_STATUS_NOTFOUND;
    struct passwd entry;
    int r = 0, error;

    if (!service->users_next)
        return 0;
    if (service->users_begin)
        (void)service->users_begin(0);
    while (r == 0 &&
           (status = service->users_next(&entry, bytes, ENTRY_MAX, &error)) == NSS_STATUS_SUCCESS)
        r = add_user(prefix, &entry, overlap);
    if (service->users_end)
        (void)service->users_end();
    return r < 0 ? r : status == NSS_STATUS_NOTFOUND ? 0 : -EHOSTDOWN;
}

static int list_groups(const struct name_service *service, const char *prefix, char *bytes,
                       struct overlap *overlap)
{
    enum nss_status status = NSS_STATUS_NOTFOUND;
    struct group entry;
    int r = 0, error;

    if (!service->groups_next)
        return 0;
    if (service->groups_begin)
        (void)service->groups_begin(0);
    while (r == 0 &&
           (status = service->groups_next(&entry, bytes, ENTRY_MAX, &error)) == NSS_STATUS_SUCCESS)
        r = add_group(prefix, &entry, overlap);
    if (service->groups_end)
        (void)service->groups_end();
    return r < 0 ? r : status == NSS_STATUS_NOTFOUND ? 0 : -EHOSTDOWN;
}

static int list_service(const char *name, bool groups, const char *prefix, struct overlap *overlap)
{
    auto_free char *bytes = malloc(ENTRY_MAX);
    struct name_service service;
    int r = bytes ? name_service_open(name, &service) : -ENOMEM;

    if (r < 0)
        return r == -ENOENT ? 0 : r;
    r = (groups ? list_groups : list_users)(&service, prefix, bytes, overlap);
    name_service_close(&service);
    /* nss-systemd says the same where nobody stands behind it; static records it lists in any case. */
    if (r == -EHOSTDOWN && strcmp(name, "systemd") == 0 && !name_systemd_has_others(PROVIDERS))
        r = 0;
    return r;
}

/* The services in a line of a database, "passwd" or "group". */
static int list_line(char *line, const char *prefix, struct overlap *overlap)
{
    char services[NAME_SERVICES_MAX], *rest = services, *name;
    char *of = line + strspn(line, " \t"), *names = strchr(of, ':');
    int r = 0;

    if (!names)
        return 0;
    *names++ = '\0';
    of[strcspn(of, " \t")] = '\0';
    names[strcspn(names, "#")] = '\0';
    if (strcmp(of, "passwd") != 0 && strcmp(of, "group") != 0)
        return 0;
    if (!name_services(names, true, services, sizeof services))
        return -E2BIG;
    while (r == 0 && (name = strsep(&rest, " ")))
        if (*name)
            r = list_service(name, *of == 'g', prefix, overlap);
    return r;
}

static int list_services(const char *path, const char *prefix, struct overlap *overlap)
{
    auto_fclose FILE *file = fopen(path, "re");
    auto_free char *line = NULL;
    size_t size = 0;
    int r = 0;

    if (!file)
        return errno == ENOENT ? 0 : -errno;
    while (r == 0 && getline(&line, &size, file) > 0)
        r = list_line(line, prefix, overlap);
    return r < 0 ? r : ferror(file) ? -EIO : 0;
}

/* A list is one for the whole process: two threads in it would each see half of the accounts. */
static int gather_nss(const struct overlap_sources *sources, struct overlap *overlap)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int r;

    pthread_mutex_lock(&lock);
    r = read_passwd(sources->passwd, overlap);
    if (r == 0)
        r = read_group(sources->group, overlap);
    if (r == 0)
        r = list_services(sources->nsswitch, sources->prefix, overlap);
    pthread_mutex_unlock(&lock);
    return r;
}

/* ---- looking into it ---- */

static int by_first(const void *a, const void *b)
{
    const struct overlap_taken *left = a, *right = b;

    return left->first < right->first ? -1 : left->first > right->first;
}

/* In order of first; reach = which of those so far goes furthest. */
static void sort(struct overlap *overlap)
{
    size_t furthest = 0;

    if (overlap->n)
        qsort(overlap->taken, overlap->n, sizeof *overlap->taken, by_first);
    for (size_t i = 0; i < overlap->n; i++) {
        if (overlap->taken[i].last > overlap->taken[furthest].last)
            furthest = i;
        overlap->taken[i].reach = (uint32_t)furthest;
    }
}

int overlap_gather(const struct overlap_sources *sources, struct overlap *ret)
{
    int r;

    memset(ret, 0, sizeof *ret);
    if ((r = gather_login_defs(sources->login_defs, ret)) < 0 ||
        (r = gather_sub(sources->subuid, ret)) < 0 || (r = gather_sub(sources->subgid, ret)) < 0 ||
        (r = gather_nss(sources, ret)) < 0)
        overlap_done(ret);
    else
        sort(ret);
    return r;
}

void overlap_done(struct overlap *overlap)
{
    free(overlap->taken);
    memset(overlap, 0, sizeof *overlap);
}

const struct overlap_taken *overlap_find(const struct overlap *overlap, uint32_t first,
                                         uint32_t last)
{
    const struct overlap_taken *found;
    size_t low = 0, high = overlap->n;

    /* How many begin at or before last; one of them is in the way, or none is. */
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (overlap->taken[middle].first <= last)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NULL;
    found = &overlap->taken[overlap->taken[low - 1].reach];
    return found->last >= first ? found : NULL;
}
