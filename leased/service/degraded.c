#include "leased/service/degraded.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/text.h"
#include "leased/engine/replica.h"
#include "leased/history/history.h"
#include "leased/service/internal.h"
#include "leased/service/tell.h"

/* It is said again so often, and believed for so long. */
#define SAY_MS     1000
#define BELIEVE_MS 5000
/* From one attempt to hand over to the next. */
#define HAND_OVER_MS 2000

struct other {
    uint64_t replica;
    int64_t until_mono_ms;
    char why[DEGRADED_WHY_MAX];
};

struct degraded {
    struct service *service;
    char here[DEGRADED_WHY_MAX]; /* "" = we are well */
    struct other others[REPLICA_MEMBERS_MAX];
    size_t n;
    int64_t say_at_ms, hand_over_at_ms;
};

int degraded_new(struct service *service, struct degraded **ret)
{
    struct degraded *degraded = calloc(1, sizeof *degraded);

    if (!degraded)
        return -ENOMEM;
    degraded->service = service;
    *ret = degraded;
    return 0;
}

void degraded_free(struct degraded *degraded)
{
    free(degraded);
}

static bool replicated(const struct degraded *degraded)
{
    return engine_is_replica(degraded->service->deps.engine);
}

/* ---- what the others say ---- */

static void forget_old(struct degraded *degraded)
{
    int64_t now = degraded->service->deps.mono_ms();
    size_t kept = 0;

    for (size_t i = 0; i < degraded->n; i++)
        if (degraded->others[i].until_mono_ms > now)
            degraded->others[kept++] = degraded->others[i];
    degraded->n = kept;
}

/* Its place; n = it has said nothing. */
static size_t find(const struct degraded *degraded, uint64_t replica)
{
    size_t at = 0;

    while (at < degraded->n && degraded->others[at].replica != replica)
        at++;
    return at;
}

void degraded_heard(struct degraded *degraded, uint64_t replica, const ProtobufCBinaryData *why)
{
    size_t at = find(degraded, replica);
    struct other *other;
    struct err err;

    if (at == degraded->n && (!why->len || at == REPLICA_MEMBERS_MAX))
        return;
    if (at == degraded->n)
        degraded->n++;
    other = &degraded->others[at];
    *other = (struct other){.replica = replica};
    if (why->len && text_require("why", why->data, why->len, DEGRADED_WHY_MAX - 1, &err) == 0) {
        memcpy(other->why, why->data, why->len);
        other->why[why->len] = '\0';
    } else {
        (void)snprintf(other->why, sizeof other->why, "it does not say why");
    }
    if (why->len)
        other->until_mono_ms = degraded->service->deps.mono_ms() + BELIEVE_MS;
    forget_old(degraded);
}

static const char *why_of(const struct degraded *degraded, const struct replica_status *status,
                          const struct replica_member *member)
{
    size_t at = find(degraded, member->id);

    if (member->id == status->id)
        return degraded->here;
    return at < degraded->n ? degraded->others[at].why : "";
}

const char *degraded_why(const struct degraded *degraded, uint64_t replica)
{
    struct replica_status status;
    const struct replica_member member = {.id = replica};

    replica_get_status(degraded->service->deps.engine, &status);
    return why_of(degraded, &status, &member);
}

/* ---- what follows from it ---- */

static bool refuses_alone(const struct degraded *degraded, char *why, size_t size)
{
    const struct history *history = degraded->service->deps.history;

    if (!history_degraded(history))
        return false;
    (void)snprintf(why, size,
                   "the history file is %zu bytes behind: no grants until it has caught up",
                   history_lag_bytes(history));
    return true;
}

bool degraded_refuses(const struct degraded *degraded, char *why, size_t size)
{
    struct replica_status status;
    size_t voters = 0, n = 0;
    char names[256] = "";
    const char *reason = "";

    if (!replicated(degraded))
        return refuses_alone(degraded, why, size);
    replica_get_status(degraded->service->deps.engine, &status);
    for (size_t i = 0; i < status.n_members; i++) {
        const struct replica_member *member = &status.members[i];
        size_t len = strlen(names);

        if (member->role != REPLICA_VOTER)
            continue;
        voters++;
        if (!*why_of(degraded, &status, member))
            continue;
        reason = why_of(degraded, &status, member);
        (void)snprintf(names + len, sizeof names - len, "%s%s", n++ ? ", " : "", member->name);
    }
    if (n <= voters / 2)
        return false;
    (void)snprintf(why, size,
                   "no grants: the history of most replicas (%s) is behind or can not be written; "
                   "of the last: %s",
                   names, reason);
    return true;
}

/* ---- our own ---- */

static void say(struct degraded *degraded)
{
    struct replica_status status;

    replica_get_status(degraded->service->deps.engine, &status);
    tell_degraded(degraded->service->tell, status.id, degraded->here);
    degraded->say_at_ms = degraded->service->deps.mono_ms() + SAY_MS;
}

static bool look(struct degraded *degraded)
{
    const char *why;
    bool was = *degraded->here;

    if (history_health(degraded->service->deps.history, &why) == 0)
        why = "";
    (void)snprintf(degraded->here, sizeof degraded->here, "%s", why);
    return was != (bool)*degraded->here;
}

static void handed_over(int r, const char *why, void *arg)
{
    (void)arg;
    if (r < 0 && r != -ECANCELED)
        log_info(NULL, "leading is not handed over though history lags: %s", why);
}

/* To the voter that is up and well and has most of the log. If there is none, somebody has to lead. */
static void hand_over(struct degraded *degraded)
{
    const struct replica_member *best = NULL;
    struct replica_status status;

    degraded->hand_over_at_ms = degraded->service->deps.mono_ms() + HAND_OVER_MS;
    replica_get_status(degraded->service->deps.engine, &status);
    for (size_t i = 0; i < status.n_members; i++) {
        const struct replica_member *member = &status.members[i];

        if (member->id != status.id && member->role == REPLICA_VOTER && member->up &&
            !*why_of(degraded, &status, member) && (!best || member->last_entry > best->last_entry))
            best = member;
    }
    if (!best)
        return;
    log_notice(NULL, "history lags here: %s is to lead", best->name);
    replica_transfer(degraded->service->deps.engine, best->name, handed_over, degraded);
}

void degraded_elapse(struct degraded *degraded)
{
    int64_t now = degraded->service->deps.mono_ms();

    if (!replicated(degraded))
        return;
    forget_old(degraded);
    if (look(degraded) || (*degraded->here && now >= degraded->say_at_ms))
        say(degraded);
    if (*degraded->here && degraded->service->leading && now >= degraded->hand_over_at_ms)
        hand_over(degraded);
}
