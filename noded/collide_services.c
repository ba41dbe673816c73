/* Name services, one at a time (common/name_service.h). */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "common/err.h"
#include "common/name_service.h"
#include "noded/collide.h"
#include "noded/reason.h"

#define ENTRY_MAX (1u << 20) /* bytes of one entry: groups have many members */

static char entry_bytes[ENTRY_MAX];

/* Whether it is an answer, and yes. */
static bool has(const struct name_service *s, uint32_t uid, enum nss_status status, int error,
                struct collide_answer *ret)
{
    if (status != NSS_STATUS_SUCCESS && status != NSS_STATUS_NOTFOUND)
        collide_add(ret, uid, REASON_SCAN_FAILED, false, "name service %s: %s", s->name,
                    error ? err_text(error) : "it does not answer");
    return status == NSS_STATUS_SUCCESS;
}

static void user_look(const struct name_service *s, const char *prefix, const struct collide_uid *q,
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

static void group_look(const struct name_service *s, const char *prefix,
                       const struct collide_uid *q, struct collide_answer *ret)
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
static bool next_user(const struct name_service *s, uint32_t first, struct passwd *entry,
                      struct collide_answer *ret)
{
    int error = 0;
    enum nss_status status = s->users_next(entry, entry_bytes, sizeof(entry_bytes), &error);

    return has(s, first, status, error, ret);
}

static bool next_group(const struct name_service *s, uint32_t first, struct group *entry,
                       struct collide_answer *ret)
{
    int error = 0;
    enum nss_status status = s->groups_next(entry, entry_bytes, sizeof(entry_bytes), &error);

    return has(s, first, status, error, ret);
}

static void users_list(const struct name_service *s, const struct collide_question *q,
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

static void groups_list(const struct name_service *s, const struct collide_question *q,
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

static void look(const struct name_service *s, bool groups, const struct collide_question *q,
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
    struct name_service service;
    int r = name_service_open(name, &service);

    if (r == 0) {
        look(&service, groups, q, ret);
        name_service_close(&service);
    }
    for (uint32_t i = 0; r < 0 && r != -ENOENT && i < n && i < COLLIDE_UIDS_MAX; i++)
        collide_add(ret, q->uids[i].uid, REASON_SCAN_FAILED, false, "name service %s: %s", name,
                    err_text(r));
}

void collide_services_ask(const char *services, bool groups, const struct collide_question *q,
                          struct collide_answer *ret)
{
    char list[NAME_SERVICES_MAX], *rest = list;
    const char *name;

    (void)snprintf(list, sizeof(list), "%s", services);
    while ((name = strsep(&rest, " ")))
        if (*name)
            service_ask(name, groups, q, ret);
}
