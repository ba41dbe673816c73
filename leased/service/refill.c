#include "leased/service/refill.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/pb.h"
#include "leased/engine/replica.h"
#include "leased/history/history.h"
#include "leased/history/plan.h"
#include "leased/service/internal.h"
#include "leased/service/past_wire.h"

#define METHOD  "/xce.v1.ClusterService/Past"
#define CALL_MS 10000
/* When nobody could fill a gap; longer each time. */
#define RETRY_MS     2000
#define RETRY_MAX_MS 600000
/* Another replica may have heard of changes that have not come here yet. */
#define AHEAD_MAX        (1u << 20)
#define AHEAD_LEASES_MAX (1u << 16)
#define ARENA_MAX        (16u << 20)

_Static_assert(HISTORY_LEASE_MAX == FSM_LEASE_ID_MAX,
               "the history's keys have room for every lease of the state");

struct refill {
    struct service *service; /* NULL: it is over, and goes when what is under way has come back */
    bool waiting;            /* for an answer */
    uint64_t looked;         /* history_gap_count when we looked last */
    bool known, has_gap;
    int64_t not_before_mono_ms, retry_ms;
    uint64_t company; /* who was there when we began to rest */

    struct history_outline ours;
    size_t gap; /* of ours */
    struct replica_member others[REPLICA_MEMBERS_MAX];
    size_t n_others, other; /* who is asked */
    uint64_t self;

    struct plan plan; /* no parts: none is under way */
    size_t part;
    uint64_t after, n_leases; /* of the part, so far */
    struct pb_arena arena;
    struct log_limit limit;
};

int refill_new(struct service *service, struct refill **ret)
{
    struct refill *refill = calloc(1, sizeof *refill);

    if (!refill)
        return -ENOMEM;
    refill->service = service;
    refill->limit = (struct log_limit){.interval_ms = 60000, .burst = 8};
    pb_arena_init(&refill->arena, ARENA_MAX);
    *ret = refill;
    return 0;
}

static void drop_ours(struct refill *refill)
{
    free(refill->ours.periods);
    free(refill->ours.gaps);
    refill->ours = (struct history_outline){0};
}

static void end(struct refill *refill)
{
    plan_done(&refill->plan);
    drop_ours(refill);
    pb_arena_done(&refill->arena);
    free(refill);
}

void refill_free(struct refill *refill)
{
    if (!refill)
        return;
    refill->service = NULL;
    if (!refill->waiting)
        end(refill);
}

/* An answer has come. false: it is over. */
static bool come_back(struct refill *refill)
{
    refill->waiting = false;
    if (refill->service)
        return true;
    end(refill);
    return false;
}

static int64_t now_ms(const struct refill *refill)
{
    return refill->service->deps.mono_ms();
}

static const struct history_gap *gap_of(const struct refill *refill)
{
    return &refill->ours.gaps[refill->gap];
}

static const struct replica_member *other_of(const struct refill *refill)
{
    return &refill->others[refill->other];
}

/* ---- who is asked ---- */

/* Everybody else; whoever we had begun with comes first, else whoever leads. */
static void list_others(struct refill *refill)
{
    struct replica_status status;

    replica_get_status(refill->service->deps.engine, &status);
    refill->self = status.id;
    refill->n_others = refill->other = 0;
    for (size_t i = 0; i < status.n_members; i++) {
        struct replica_member *last = &refill->others[refill->n_others], first;

        if (status.members[i].id == status.id)
            continue;
        *last = status.members[i];
        refill->n_others++;
        if (last->id == gap_of(refill)->source || (last->leads && !gap_of(refill)->plan)) {
            first = *last;
            *last = refill->others[0];
            refill->others[0] = first;
        }
    }
}

/* Another number when somebody has come or gone. */
static uint64_t company(const struct refill *refill)
{
    struct replica_status status;
    uint64_t sum = 0;

    replica_get_status(refill->service->deps.engine, &status);
    for (size_t i = 0; i < status.n_members; i++)
        sum += (status.members[i].id | 1) * (status.members[i].up ? 3 : 1);
    return sum;
}

static void rest(struct refill *refill)
{
    refill->company = company(refill);
    refill->not_before_mono_ms = now_ms(refill) + refill->retry_ms;
    refill->retry_ms = refill->retry_ms < RETRY_MAX_MS / 2 ? 2 * refill->retry_ms : RETRY_MAX_MS;
}

/* No more of this one: the next replica, the next gap, or later. */
static void next_other(struct refill *refill)
{
    plan_done(&refill->plan);
    if (++refill->other < refill->n_others)
        return;
    if (++refill->gap < refill->ours.n_gaps) {
        list_others(refill);
        return;
    }
    drop_ours(refill);
    rest(refill);
}

static void complain(struct refill *refill, int r, const char *why)
{
    unsigned held;

    if (r == -ECANCELED || !log_limit_ok(&refill->limit, &held))
        return;
    log_at(r == -EBADMSG ? LOG_WARNING : LOG_INFO, NULL,
           "history: of replica %s nothing is taken: %s", other_of(refill)->name, why);
}

static void give_up(struct refill *refill, int r, const char *why)
{
    complain(refill, r, why);
    next_other(refill);
}

/* ---- asking ---- */

static void ask(struct refill *refill, const Xce__V1__PastRequest *request, service_asked_fn done)
{
    size_t len = xce__v1__past_request__get_packed_size(request);
    uint8_t *bytes = mem_must_calloc(1, len + 1);

    (void)xce__v1__past_request__pack(request, bytes);
    refill->waiting = true;
    refill->service->deps.ask_replica(
        &(struct service_question){.method = METHOD,
                                   .name = other_of(refill)->name,
                                   .address = other_of(refill)->address,
                                   .bytes = bytes,
                                   .len = len,
                                   .timeout_ms = CALL_MS},
        done, refill, refill->service->deps.ask_arg);
    free(bytes);
}

static void filled(int r, void *arg)
{
    struct refill *refill = arg;
    const struct history_gap *gap;

    if (!come_back(refill))
        return;
    gap = gap_of(refill);
    if (r < 0) {
        give_up(refill, r,
                r == -EBADMSG ? "it has another grant under the number of a lease of ours" : "");
        return;
    }
    if (refill->part < refill->plan.n_parts)
        return;
    log_notice(NULL,
               "history: what happened between revisions %" PRIu64 " and %" PRIu64
               " is known%s, from replica %s",
               gap->from_revision, gap->to_revision,
               refill->plan.n_rest ? " as far as it is there" : "", other_of(refill)->name);
    plan_done(&refill->plan);
    drop_ours(refill);
    refill->known = false;
}

static void fill(struct refill *refill, struct history_piece *piece)
{
    piece->gap = gap_of(refill)->id;
    piece->source = other_of(refill)->id;
    piece->plan = refill->plan.id;
    refill->waiting = true;
    history_fill(refill->service->deps.history, piece, filled, refill);
}

static void take_page(struct refill *refill, const struct history_entry *entries, size_t n)
{
    const struct plan_part *part = &refill->plan.parts[refill->part];
    struct history_piece piece = {
        .part = part->number, .period = part->period, .entries = entries, .n = n};
    char why[PLAN_WHY_MAX];
    int r = plan_check(part, refill->after, entries, n, why);

    if (r < 0) {
        give_up(refill, r, why);
        return;
    }
    refill->n_leases += n;
    if (refill->n_leases > part->period.revision) {
        give_up(refill, -EBADMSG, "it has more leases than there were changes");
        return;
    }
    piece.after = refill->after = entries[n - 1].lease;
    fill(refill, &piece);
}

static void page_came(int r, const uint8_t *bytes, size_t len, const char *why, void *arg)
{
    struct refill *refill = arg;
    struct history_entry *entries;
    struct err err = {{0}};
    size_t n;

    if (!come_back(refill))
        return;
    if (r == 0 && (r = past_wire_take_leases(&refill->arena, bytes, len, &entries, &n, &err)) < 0)
        why = err.text;
    if (r < 0)
        give_up(refill, r, why);
    else
        take_page(refill, entries, n);
    pb_arena_reset(&refill->arena);
}

/* The next page of the plan; behind the last one, that the gap is gone. */
static void go_on(struct refill *refill)
{
    const struct plan *plan = &refill->plan;
    Xce__V1__PastRequest request = XCE__V1__PAST_REQUEST__INIT;
    struct history_piece piece = {.last = true, .rest = plan->rest, .n_rest = plan->n_rest};

    while (refill->part < plan->n_parts && refill->after >= plan->parts[refill->part].last) {
        refill->n_leases = 0;
        if (++refill->part < plan->n_parts)
            refill->after = plan->parts[refill->part].after;
    }
    if (refill->part == plan->n_parts) {
        piece.period = plan->parts[0].period;
        fill(refill, &piece);
        return;
    }
    request.replica = refill->self;
    request.period = plan->parts[refill->part].number;
    request.after = refill->after;
    request.until = plan->parts[refill->part].last;
    ask(refill, &request, page_came);
}

/* ---- planning ---- */

/* Where the plan was left, if it is the same one. */
static void take_up(struct refill *refill)
{
    const struct history_gap *gap = gap_of(refill);

    refill->part = 0;
    refill->n_leases = 0;
    refill->after = refill->plan.parts[0].after;
    if (gap->plan != refill->plan.id || gap->source != other_of(refill)->id)
        return;
    for (size_t i = 0; i < refill->plan.n_parts; i++)
        if (refill->plan.parts[i].number == gap->part) {
            refill->part = i;
            refill->after = gap->after;
        }
}

static void theirs_came(int r, const uint8_t *bytes, size_t len, const char *why, void *arg)
{
    struct refill *refill = arg;
    struct history_outline theirs;
    char room[PLAN_WHY_MAX];
    struct err err = {{0}};

    if (!come_back(refill))
        return;
    if (r == 0 && (r = past_wire_take_outline(&refill->arena, bytes, len, &theirs, &err)) < 0)
        why = err.text;
    if (r == 0) {
        const struct fsm *fsm = service_fsm(refill->service);
        const struct plan_newest newest = {fsm_revision(fsm) + AHEAD_MAX,
                                           fsm_last_lease(fsm) + AHEAD_LEASES_MAX};

        r = plan_make(gap_of(refill), &refill->ours, &theirs, &newest, &refill->plan, room);
        why = room;
    }
    pb_arena_reset(&refill->arena);
    if (r < 0) {
        give_up(refill, r, why);
        return;
    }
    take_up(refill);
    log_notice(NULL,
               "history: what happened between revisions %" PRIu64 " and %" PRIu64
               " is fetched from replica %s",
               gap_of(refill)->from_revision, gap_of(refill)->to_revision, other_of(refill)->name);
}

/* ---- looking ---- */

static void ours_came(int r, const struct history_outline *outline, const char *why, void *arg)
{
    struct refill *refill = arg;

    (void)why; /* who asks the history himself is told */
    if (!come_back(refill))
        return;
    if (r < 0) {
        rest(refill);
        return;
    }
    refill->known = true;
    refill->has_gap = outline->n_gaps > 0 || outline->behind;
    if (outline->n_gaps == 0) {
        rest(refill);
        return;
    }
    refill->ours.periods = mem_must_dup(outline->periods,
                                        outline->n_periods * sizeof *outline->periods);
    refill->ours.gaps = mem_must_dup(outline->gaps, outline->n_gaps * sizeof *outline->gaps);
    refill->ours.n_periods = outline->n_periods;
    refill->ours.n_gaps = outline->n_gaps;
    refill->gap = 0;
    list_others(refill);
}

static void look(struct refill *refill)
{
    uint64_t count = history_gap_count(refill->service->deps.history);

    if (!refill->known || refill->looked != count)
        refill->retry_ms = RETRY_MS;
    refill->looked = count;
    refill->waiting = true;
    history_ask_outline(refill->service->deps.history, ours_came, refill);
}

/* Not for long when somebody has come, who may know. */
static bool rests(struct refill *refill)
{
    int64_t now = now_ms(refill);

    if (now >= refill->not_before_mono_ms)
        return false;
    if (company(refill) != refill->company) {
        refill->company = company(refill);
        refill->retry_ms = RETRY_MS;
        if (now + RETRY_MS < refill->not_before_mono_ms)
            refill->not_before_mono_ms = now + RETRY_MS;
    }
    return true;
}

void refill_elapse(struct refill *refill)
{
    const struct service *service = refill->service;
    Xce__V1__PastRequest request = XCE__V1__PAST_REQUEST__INIT;

    if (refill->waiting || !service->deps.ask_replica || !engine_is_replica(service->deps.engine) ||
        rests(refill))
        return;
    if (refill->plan.n_parts > 0) {
        go_on(refill);
    } else if (refill->ours.n_gaps > 0 && refill->n_others == 0) {
        next_other(refill);
    } else if (refill->ours.n_gaps > 0) {
        request.replica = refill->self;
        ask(refill, &request, theirs_came);
    } else if (!refill->known || refill->has_gap ||
               refill->looked != history_gap_count(service->deps.history)) {
        look(refill);
    }
}
