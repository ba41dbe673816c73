#include "noded/sweep/sweep.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/digest.h"
#include "common/err.h"
#include "noded/sweep/kinds.h"

/* Rounds of one stage, and times that all stages are gone through, before what is still found is called dirty: something
 * that comes back as often as that is being made faster than we remove it. */
#define ROUNDS_MAX 8
#define TURNS_MAX  3
/* For the end of what may be as stuck as that which was waited for in full already. */
#define IMPATIENT_MS 100

bool sweep_list_has(uint32_t id, void *list)
{
    const struct sweep_list *l = list;
    size_t low = 0, high = l->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (l->uids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < l->n && l->uids[low] == id;
}

static struct sweep_finding *finding_add(struct sweep *s)
{
    if (s->n_findings == SWEEP_FINDINGS_MAX) {
        s->overflow = true;
        return NULL;
    }
    if (s->n_findings == s->cap_findings) {
        size_t cap = s->cap_findings ? s->cap_findings * 2 : 16;
        struct sweep_finding *more = realloc(s->findings, cap * sizeof(*more));
        if (!more) {
            s->overflow = true;
            return NULL;
        }
        s->findings = more;
        s->cap_findings = cap;
    }
    return &s->findings[s->n_findings++];
}

static struct sweep_finding *finding_get(struct sweep *s, uint32_t uid, enum reason reason)
{
    /* Backwards: a walk meets the same uid many times in a row. */
    for (size_t i = s->n_findings; i-- > 0;)
        if (s->findings[i].uid == uid && s->findings[i].reason == reason)
            return &s->findings[i];
    return NULL;
}

void sweep_found(struct sweep *s, uint32_t uid, enum reason reason, const char *format, ...)
{
    struct sweep_finding *finding = finding_get(s, uid, reason);
    bool first = !finding;
    char detail[SWEEP_DETAIL_MAX];
    uint32_t digest;
    va_list args;

    if (first && !(finding = finding_add(s)))
        return;
    va_start(args, format);
    (void)vsnprintf(detail, sizeof(detail), format, args);
    va_end(args);
    digest = digest_crc32c(0, detail, strlen(detail));
    if (first) {
        *finding = (struct sweep_finding){.uid = uid, .reason = reason};
        memcpy(finding->detail, detail, strlen(detail) + 1);
    }
    if (first || digest != finding->last)
        finding->count += finding->count < UINT32_MAX;
    finding->last = digest;
}

void sweep_failed(struct sweep *s, const char *what, int error)
{
    sweep_found(s, 0, REASON_SCAN_FAILED, "%s: %s", what, err_text(error));
}

void sweep_removed(struct sweep *s)
{
    s->n_removed++;
}

int64_t sweep_patience_ms(const struct sweep *s, enum reason reason)
{
    bool slow = s->slow >> reason & 1;

    return slow && s->wait_ms > IMPATIENT_MS ? IMPATIENT_MS : s->wait_ms;
}

void sweep_waited_in_vain(struct sweep *s, enum reason reason)
{
    static_assert(N_REASONS <= 64, "a bit for each");
    s->slow |= UINT64_C(1) << reason;
}

void sweep_unkillable(struct sweep *s, uint32_t uid, int pid)
{
    struct sweep_finding *finding = finding_get(s, uid, REASON_PROCESS);

    sweep_waited_in_vain(s, REASON_PROCESS);
    if (finding) {
        finding->reason = REASON_PROCESS_UNKILLABLE;
        (void)snprintf(finding->detail, sizeof(finding->detail), "pid %d does not end", pid);
    }
}

/* ---- how far it is ---- */

void sweep_progress_init(struct sweep_progress *progress)
{
    atomic_init(&progress->steps, 0);
    atomic_init(&progress->stop, false);
    (void)pthread_mutex_init(&progress->lock, NULL);
    progress->kind = NULL;
    progress->at[0] = '\0';
}

void sweep_progress_stop(struct sweep_progress *progress)
{
    atomic_store(&progress->stop, true);
}

void sweep_progress_where(struct sweep_progress *progress, char *ret, size_t size)
{
    (void)pthread_mutex_lock(&progress->lock);
    (void)snprintf(ret, size, "%s%s%s", progress->kind ? progress->kind : "it",
                   *progress->at ? ": " : "", progress->at);
    (void)pthread_mutex_unlock(&progress->lock);
}

static void progress_set(struct sweep *s, const char *kind, const char *where)
{
    struct sweep_progress *progress = s->progress;

    if (!progress)
        return;
    (void)pthread_mutex_lock(&progress->lock);
    if (kind)
        progress->kind = kind;
    (void)snprintf(progress->at, sizeof(progress->at), "%s", where);
    (void)pthread_mutex_unlock(&progress->lock);
    sweep_step(s);
}

void sweep_at(struct sweep *s, const char *where)
{
    progress_set(s, NULL, where);
}

/* ---- rounds ---- */

static bool found_since(const struct sweep *s, size_t mark)
{
    return s->overflow || s->n_findings > mark;
}

bool sweep_goes_on(const struct sweep *s)
{
    return s->n_removed > s->n_removed_before && found_since(s, s->n_found_before);
}

static void round_run(struct sweep *s, unsigned stages)
{
    s->n_removed_before = s->n_removed;
    s->n_found_before = s->n_findings;
    for (size_t i = 0; i < n_sweep_kinds; i++) {
        if (!(sweep_kinds[i].stages & stages) || sweep_stopped(s))
            continue;
        progress_set(s, sweep_kinds[i].name, "");
        sweep_kinds[i].run(s);
    }
}

/* Rounds over one stage until one finds nothing, or removes nothing of what it finds. */
static void stage_settle(struct sweep *s, unsigned stage)
{
    size_t mark = s->n_findings;
    bool overflowed = s->overflow;

    for (int round = 0; round < ROUNDS_MAX; round++) {
        uint64_t removed = s->n_removed;
        s->n_findings = mark;
        s->overflow = overflowed;
        round_run(s, stage);
        if (!found_since(s, mark) || !s->remove || s->n_removed == removed)
            return;
    }
}

/* More than what was killed and does not end: that makes nothing any more, and its uid is dirty anyway. */
static bool runs_since(const struct sweep *s, size_t mark)
{
    for (size_t i = mark; i < s->n_findings; i++)
        if (s->findings[i].reason != REASON_PROCESS_UNKILLABLE)
            return true;
    return s->overflow;
}

/* Whether something runs that came after the first look: it may have made files behind the walk. Nothing is killed before it
 * has been looked for, or it would be gone unseen. What is found stays in the findings. If that is nothing, all that is left to
 * do is to end what such a look may not meet, as it forks and ends without rest: no need to look at each process once more. */
static bool runs_again(struct sweep *s)
{
    size_t mark = s->n_findings;

    s->remove = false;
    round_run(s, SWEEP_RUNNING);
    s->remove = true;
    round_run(s, found_since(s, 0) ? SWEEP_RUNNING : SWEEP_BRIEF);
    return runs_since(s, mark);
}

/* Processes make files and may come out of nowhere while files are walked, so the last look is at what runs: only if that
 * finds nothing does the whole stand as of one time. */
static void stages_run(struct sweep *s, unsigned stages)
{
    if (stages & SWEEP_SLICES)
        round_run(s, SWEEP_SLICES);
    if (!(stages & (SWEEP_RUNNING | SWEEP_LYING)))
        return;
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        s->n_findings = 0;
        s->overflow = false;
        if (stages & SWEEP_RUNNING)
            stage_settle(s, SWEEP_RUNNING);
        if (stages & SWEEP_LYING)
            stage_settle(s, SWEEP_LYING);
        if (!s->remove || !(stages & SWEEP_RUNNING) || !runs_again(s))
            break;
    }
}

void sweep_run(struct sweep *s, unsigned stages)
{
    stages_run(s, stages);
    if (sweep_stopped(s))
        sweep_found(s, 0, REASON_SCAN_FAILED, "it was stopped before its end");
}

void sweep_done(struct sweep *s)
{
    free(s->findings);
    s->findings = NULL;
    s->n_findings = s->cap_findings = 0;
}

const struct sweep_finding *sweep_verdict(const struct sweep *s, uint32_t uid)
{
    static const struct sweep_finding too_many = {
        .reason = REASON_SCAN_FAILED,
        .detail = "more was found than can be told apart",
    };
    const struct sweep_finding *common = NULL;

    for (size_t i = 0; i < s->n_findings; i++) {
        if (s->findings[i].uid == uid)
            return &s->findings[i];
        if (s->findings[i].uid == 0 && !common)
            common = &s->findings[i];
    }
    if (s->overflow && !common)
        return &too_many;
    return common;
}
