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
    enum nss_status (*group_by_id)(gid_t, struct group *, char *, size_t, int *);
    enum nss_status (*group_by_name)(const char *, struct group *, char *, size_t, int *);
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
    entry_point(*ret_handle, name, "getgrgid_r", &ret->group_by_id);
    entry_point(*ret_handle, name, "getgrnam_r", &ret->group_by_name);
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

static void service_ask(const char *name, bool groups, const struct collide_question *q,
                        struct collide_answer *ret)
{
    struct service service;
    void *handle;
    int r = service_open(name, &service, &handle);

    for (uint32_t i = 0; r != -ENOENT && i < q->n && i < COLLIDE_UIDS_MAX; i++) {
        if (r < 0)
            collide_add(ret, q->uids[i].uid, REASON_SCAN_FAILED, false, "name service %s: %s", name,
                        err_text(r));
        else if (groups)
            group_look(&service, q->prefix, &q->uids[i], ret);
        else
            user_look(&service, q->prefix, &q->uids[i], ret);
    }
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
