/* One name service at a time, by its own entry points: of a row of services glibc tells only what the last one said, and of
 * that one nothing but an errno, which is the same for "nobody has it" and for "my server is down". */
#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <nss.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "common/err.h"
#include "noded/collide.h"
#include "noded/reason.h"

#define ENTRY_MAX (1u << 20) /* bytes of one entry: groups have many members */

struct service {
    const char *name;
    enum nss_status (*user_by_id)(uid_t, struct passwd *, char *, size_t, int *);
    enum nss_status (*user_by_name)(const char *, struct passwd *, char *, size_t, int *);
    enum nss_status (*users_begin)(int);
    enum nss_status (*users_next)(struct passwd *, char *, size_t, int *);
    enum nss_status (*users_end)(void);
    enum nss_status (*group_by_id)(gid_t, struct group *, char *, size_t, int *);
    enum nss_status (*group_by_name)(const char *, struct group *, char *, size_t, int *);
    enum nss_status (*groups_begin)(int);
    enum nss_status (*groups_next)(struct group *, char *, size_t, int *);
    enum nss_status (*groups_end)(void);
};

static char entry_bytes[ENTRY_MAX];

static void entry_point(void *handle, const char *service, const char *what, void *ret_fn)
{
    char symbol[COLLIDE_SERVICES_MAX + 32];
    void *address;

    (void)snprintf(symbol, sizeof(symbol), "_nss_%s_%s", service, what);
    address = dlsym(handle, symbol);
    memcpy(ret_fn, &address, sizeof(address));
}

/* 0; -ENOENT it is named but not installed: nobody's account is there; -ELIBACC it is there and can not be loaded. */
static int service_open(const char *name, struct service *ret, void **ret_handle)
{
    char path[COLLIDE_SERVICES_MAX + 32];
    const char *error;

    (void)snprintf(path, sizeof(path), "libnss_%s.so.2", name);
    /* Once loaded it stays, as glibc would keep it: it may have made threads. */
    *ret_handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (!*ret_handle) {
        error = dlerror();
        return error && strstr(error, err_text(ENOENT)) ? -ENOENT : -ELIBACC;
    }
    ret->name = name;
    entry_point(*ret_handle, name, "getpwuid_r", &ret->user_by_id);
    entry_point(*ret_handle, name, "getpwnam_r", &ret->user_by_name);
    entry_point(*ret_handle, name, "setpwent", &ret->users_begin);
    entry_point(*ret_handle, name, "getpwent_r", &ret->users_next);
    entry_point(*ret_handle, name, "endpwent", &ret->users_end);
    entry_point(*ret_handle, name, "getgrgid_r", &ret->group_by_id);
    entry_point(*ret_handle, name, "getgrnam_r", &ret->group_by_name);
    entry_point(*ret_handle, name, "setgrent", &ret->groups_begin);
    entry_point(*ret_handle, name, "getgrent_r", &ret->groups_next);
    entry_point(*ret_handle, name, "endgrent", &ret->groups_end);
    return 0;
}

/* Whether it is an answer, and yes. */
static bool has(const struct service *s, uint32_t uid, enum nss_status status, int error,
                struct collide_answer *ret)
{
    if (status != NSS_STATUS_SUCCESS && status != NSS_STATUS_NOTFOUND)
        collide_add(ret, uid, REASON_SCAN_FAILED, false, "name service %s: %s", s->name,
                    error ? err_text(error) : "it does not answer");
    return status == NSS_STATUS_SUCCESS;
}

static void user_look(const struct service *s, const char *prefix, const struct collide_uid *q,
                      struct collide_answer *ret)
{
    char name[NAME_BUF];
    struct passwd entry;
    int error = 0;

    if (s->user_by_id &&
        has(s, q->uid, s->user_by_id(q->uid, &entry, entry_bytes, sizeof(entry_bytes), &error),
            error, ret) &&
        collide_is_foreign(prefix, entry.pw_name, q->uid))
        collide_add(ret, q->uid, REASON_ACCOUNT, false, "user %s has it", entry.pw_name);
    if (!s->user_by_name || !collide_name(prefix, q, name))
        return;
    error = 0;
    if (has(s, q->uid, s->user_by_name(name, &entry, entry_bytes, sizeof(entry_bytes), &error),
            error, ret) &&
        entry.pw_uid != q->uid)
        collide_add(ret, q->uid, REASON_ACCOUNT, false, "%s is a user of another id", name);
}

static void group_look(const struct service *s, const char *prefix, const struct collide_uid *q,
                       struct collide_answer *ret)
{
    char name[NAME_BUF];
    struct group entry;
    int error = 0;

    if (s->group_by_id &&
        has(s, q->uid, s->group_by_id(q->uid, &entry, entry_bytes, sizeof(entry_bytes), &error),
            error, ret) &&
        collide_is_foreign(prefix, entry.gr_name, q->uid))
        collide_add(ret, q->uid, REASON_GROUP, false, "group %s has it", entry.gr_name);
    if (!s->group_by_name || !collide_name(prefix, q, name))
        return;
    error = 0;
    if (has(s, q->uid, s->group_by_name(name, &entry, entry_bytes, sizeof(entry_bytes), &error),
            error, ret) &&
        entry.gr_gid != q->uid)
        collide_add(ret, q->uid, REASON_GROUP, false, "%s is a group of another id", name);
}

/* ---- lists ---- */

/* Whether there is one more. That there are no more is NOTFOUND, and all else a failure, as with look-ups. */
static bool next_user(const struct service *s, uint32_t first, struct passwd *entry,
                      struct collide_answer *ret)
{
    int error = 0;
    enum nss_status status = s->users_next(entry, entry_bytes, sizeof(entry_bytes), &error);

    return has(s, first, status, error, ret);
}

static bool next_group(const struct service *s, uint32_t first, struct group *entry,
                       struct collide_answer *ret)
{
    int error = 0;
    enum nss_status status = s->groups_next(entry, entry_bytes, sizeof(entry_bytes), &error);

    return has(s, first, status, error, ret);
}

static void users_list(const struct service *s, const struct collide_question *q,
                       struct collide_answer *ret)
{
    struct passwd entry;

    if (!s->users_next)
        return;
    if (s->users_begin)
        (void)s->users_begin(0);
    while (next_user(s, q->uids[0].uid, &entry, ret))
        if (entry.pw_uid >= q->uids[0].uid && entry.pw_uid <= q->uids[1].uid &&
            collide_is_foreign(q->prefix, entry.pw_name, entry.pw_uid))
            collide_add(ret, entry.pw_uid, REASON_ACCOUNT, false, "user %s has it", entry.pw_name);
    if (s->users_end)
        (void)s->users_end();
}

static void groups_list(const struct service *s, const struct collide_question *q,
                        struct collide_answer *ret)
{
    struct group entry;

    if (!s->groups_next)
        return;
    if (s->groups_begin)
        (void)s->groups_begin(0);
    while (next_group(s, q->uids[0].uid, &entry, ret))
        if (entry.gr_gid >= q->uids[0].uid && entry.gr_gid <= q->uids[1].uid &&
            collide_is_foreign(q->prefix, entry.gr_name, entry.gr_gid))
            collide_add(ret, entry.gr_gid, REASON_GROUP, false, "group %s has it", entry.gr_name);
    if (s->groups_end)
        (void)s->groups_end();
}

/* ---- each of them ---- */

static void look(const struct service *s, bool groups, const struct collide_question *q,
                 struct collide_answer *ret)
{
    if (q->kind != COLLIDE_UIDS) {
        (groups ? groups_list : users_list)(s, q, ret);
        return;
    }
    for (uint32_t i = 0; i < q->n && i < COLLIDE_UIDS_MAX; i++)
        (groups ? group_look : user_look)(s, q->prefix, &q->uids[i], ret);
}

static void service_ask(const char *name, bool groups, const struct collide_question *q,
                        struct collide_answer *ret)
{
    uint32_t n = q->kind == COLLIDE_UIDS ? q->n : 1;
    struct service service;
    void *handle;
    int r = service_open(name, &service, &handle);

    if (r == 0)
        look(&service, groups, q, ret);
    for (uint32_t i = 0; r < 0 && r != -ENOENT && i < n && i < COLLIDE_UIDS_MAX; i++)
        collide_add(ret, q->uids[i].uid, REASON_SCAN_FAILED, false, "name service %s: %s", name,
                    err_text(r));
    if (handle)
        (void)dlclose(handle);
}

void collide_services_ask(const char *services, bool groups, const struct collide_question *q,
                          struct collide_answer *ret)
{
    char list[COLLIDE_SERVICES_MAX], *rest = list;
    const char *name;

    (void)snprintf(list, sizeof(list), "%s", services);
    while ((name = strsep(&rest, " ")))
        if (*name)
            service_ask(name, groups, q, ret);
}
