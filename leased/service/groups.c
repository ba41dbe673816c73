#include "leased/service/groups.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "leased/service/internal.h"
#include "xce/v1/lease.pb-c.h"

#define GROUPS_MAX 65536
#define ENTRY_MAX  (64 * 1024)

/* One gid that somebody must have. */
struct claim {
    uint32_t uid, gid, wanted;
};

struct check {
    struct service_pending pending;
    service_unary_fn next;
    struct claim *claims;
    size_t n_claims;
    int r;
    char why[128];
};

/* What NSS says of one uid. */
struct membership {
    bool known;
    uint32_t uid;
    gid_t *groups;
    int n;
    char *buffer;
};

static void look_up(struct membership *of, uint32_t uid)
{
    struct passwd entry, *found = NULL;

    of->known = true;
    of->uid = uid;
    of->n = GROUPS_MAX;
    if (getpwuid_r(uid, &entry, of->buffer, ENTRY_MAX, &found) != 0 || !found ||
        getgrouplist(found->pw_name, found->pw_gid, of->groups, &of->n) < 0)
        of->n = 0;
}

/* Claims of one uid mostly follow one another: it is looked up once for all of them. */
static bool has_group(struct membership *of, const struct claim *claim)
{
    if (claim->wanted == claim->gid)
        return true;
    if (!of->known || of->uid != claim->uid)
        look_up(of, claim->uid);
    for (int i = 0; i < of->n; i++)
        if (of->groups[i] == claim->wanted)
            return true;
    return false;
}

/* On another thread. */
static void work(void *arg)
{
    struct check *check = arg;
    struct membership of = {.groups = malloc(GROUPS_MAX * sizeof *of.groups),
                            .buffer = malloc(ENTRY_MAX)};

    if (!of.groups || !of.buffer)
        check->r = -ENOMEM;
    for (size_t i = 0; check->r == 0 && i < check->n_claims; i++)
        if (!has_group(&of, &check->claims[i])) {
            check->r = -EACCES;
            (void)snprintf(check->why, sizeof check->why, "gids: uid %u is no member of group %u",
                           check->claims[i].uid, check->claims[i].wanted);
        }
    free(of.groups);
    free(of.buffer);
}

static void done(int r, void *arg)
{
    struct check *check = arg;
    struct service_request *request = service_settle(&check->pending);

    if (request && (r < 0 || check->r < 0))
        service_refuse(request, r < 0 ? r : check->r, *check->why ? "%s" : NULL, check->why);
    else if (request)
        check->next(check->pending.service, request);
    free(check->claims);
    free(check);
}

static size_t count_claims(const Xce__V1__AcquireRequest *message)
{
    size_t n = 0;

    for (size_t i = 0; i < message->n_leases; i++)
        n += message->leases[i]->n_gids;
    return n;
}

static void fill_claims(struct check *check, const Xce__V1__AcquireRequest *message)
{
    const struct principal *caller = &check->pending.request->principal;

    for (size_t i = 0; i < message->n_leases; i++) {
        const Xce__V1__LeaseSpec *spec = message->leases[i];

        for (size_t k = 0; k < spec->n_gids; k++)
            check->claims[check->n_claims++] = (struct claim){
                .uid = spec->owner ? spec->owner->uid : caller->uid,
                .gid = spec->owner ? UINT32_MAX : caller->gid,
                .wanted = spec->gids[k],
            };
    }
}

void groups_check(struct service *service, struct service_request *request, service_unary_fn next)
{
    const Xce__V1__AcquireRequest *message = (const Xce__V1__AcquireRequest *)request->message;
    struct check *check = service_pending_new(service, request, sizeof *check);

    if (!check)
        return;
    check->next = next;
    check->claims = calloc(count_claims(message), sizeof *check->claims);
    if (check->claims)
        fill_claims(check, message);
    if (!check->claims || service->deps.offload(work, done, check, service->deps.offload_arg) < 0)
        done(-ENOMEM, check);
}
