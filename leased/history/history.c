#include "leased/history/history.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/net/loop.h"
#include "leased/history/feed.h"
#include "leased/history/outline.h"
#include "leased/history/query.h"
#include "leased/history/refill.h"
#include "leased/history/scribe.h"
#include "leased/history/store.h"

#define LAG_DEFAULT (64u << 20)
/* How long changes gather before the thread is woken, and how long when only the revision has moved. */
#define GATHER_MS 50
#define IDLE_MS   1000
/* A question waits so long for what was fed before it. */
#define CATCH_UP_MS 1000
/* Files up to here are read whole when opened; larger ones by the thread, meanwhile. */
#define CHECK_AT_ONCE (64 << 20)
/* Fingerprints kept: of so many leases in a row. A miss costs one superfluous write. */
#define PRINTS 65536

/* A block on its way. */
struct flight {
    uint64_t number, revision;
    size_t bytes;
    bool other_period; /* of a state that is no longer followed */
};

struct question {
    struct question *next;
    struct history *history;
    struct history_query query;
    struct query_answer answer;
    uint64_t target; /* block that must be written first */
    int64_t until_mono_ms;
    uint64_t revision;
    history_done_fn done; /* or */
    history_outline_fn outlined;
    struct history_outline outline;
    bool unlisted; /* a gap was not in the file yet when it was read */
    void *arg;
};

struct fingerprint {
    uint64_t lease, print;
};

struct history {
    struct loop *loop;
    size_t lag_limit;
    history_health_fn tell;
    void *arg;
    struct scribe *scribe;
    struct query_reader *reader;
    struct loop_wake *wake;
    struct loop_timer *flush_timer, *ask_timer;
    struct loop_soon *soon;

    uint8_t incarnation[FEED_INCARNATION_LEN];
    bool known; /* which state is followed */
    uint64_t fed, written, durable;
    bool overflowed; /* what is fed is thrown away until the next start */
    struct feed_block *block;
    bool flushing; /* the timer runs for GATHER_MS */
    uint64_t last_number;
    struct flight *flights;
    size_t n_flights, flights_cap, flights_written;
    size_t lag;
    bool degraded, hurrying;
    struct fingerprint *prints;

    int scribe_r, told;
    char path[STORE_WHY_MAX / 2];
    char why[STORE_WHY_MAX];

    struct question *questions; /* not yet submitted */
    size_t n_running;
    uint64_t gap_count, listed; /* number of the block with the last list */
    uint64_t filling;           /* number of the block with a piece; 0 = none is under way */
    void (*filled)(int r, void *arg);
    void *filled_arg;
    bool closing;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* ---- health ---- */

static void tell_health(struct history *history)
{
    int r = history->scribe_r < 0 ? history->scribe_r : history->degraded ? -ENOBUFS : 0;

    if (r == -ENOBUFS)
        (void)snprintf(history->why, sizeof history->why, "%s: history is %zu KiB behind",
                       history->path, history->lag >> 10);
    if (r == history->told)
        return;
    history->told = r;
    if (history->tell)
        history->tell(r, r < 0 ? history->why : "", history->arg);
}

static void look_at_lag(struct history *history)
{
    bool degraded = history->lag >
                    (history->degraded ? history->lag_limit / 2 : history->lag_limit);

    if (history->lag > history->lag_limit / 4 && !history->hurrying) {
        history->hurrying = true;
        scribe_hurry(history->scribe, true);
    } else if (history->lag < history->lag_limit / 16 && history->hurrying) {
        history->hurrying = false;
        scribe_hurry(history->scribe, false);
    }
    if (degraded != history->degraded) {
        history->degraded = degraded;
        loop_soon_start(history->soon);
    }
}

/* ---- blocks ---- */

static void flush(struct history *history)
{
    struct feed_block *block = mem_take(history->block);

    loop_timer_stop(history->flush_timer);
    history->flushing = false;
    if (!block)
        return;
    block->number = ++history->last_number;
    mem_must_grow(&history->flights, &history->flights_cap, history->n_flights + 1,
                  sizeof *history->flights);
    history->flights[history->n_flights++] = (struct flight){block->number, block->revision,
                                                             block->len, false};
    scribe_put(history->scribe, block);
}

static void flush_due(void *arg)
{
    flush(arg);
}

/* A block with room for so many bytes. */
static struct feed_block *room(struct history *history, size_t bytes)
{
    struct feed_block *block = history->block;

    if (block && block->cap - block->len >= bytes)
        return block;
    flush(history);
    block = scribe_spare(history->scribe);
    if (block && block->cap < bytes) {
        free(block);
        block = NULL;
    }
    if (!block)
        block = feed_block_new(bytes);
    block->next = NULL;
    block->len = 0;
    block->revision = 0;
    history->block = block;
    return block;
}

static void arm(struct history *history)
{
    bool items = history->block->len > 0;

    if (history->flushing)
        return;
    history->flushing = items;
    loop_timer_start(history->flush_timer, items ? GATHER_MS : IDLE_MS, 0);
}

static void add_mark(struct history *history, enum feed_kind kind, uint64_t revision,
                     int64_t wall_ms)
{
    struct feed_block *block = room(history, sizeof(struct feed_item) + 2 * FEED_INCARNATION_LEN);
    size_t before = block->len;
    struct feed_item *item = feed_add_mark(block, kind, history->incarnation);

    item->revision = revision;
    item->wall_ms = wall_ms;
    history->lag += block->len - before;
}

static void add_lease(struct history *history, enum feed_kind kind, const struct fsm_lease *lease,
                      int64_t wall_ms)
{
    size_t size = feed_size(lease);
    struct feed_item *item = feed_add_lease(room(history, size), kind, lease, size);

    item->wall_ms = wall_ms;
    history->lag += size;
}

/* ---- following ---- */

static void follow_anew(struct history *history, const uint8_t *incarnation)
{
    flush(history);
    memcpy(history->incarnation, incarnation, FEED_INCARNATION_LEN);
    history->known = true;
    history->fed = history->written = history->durable = 0;
    for (size_t i = 0; i < history->n_flights; i++)
        history->flights[i].other_period = true;
    memset(history->prints, 0, PRINTS * sizeof *history->prints);
    add_mark(history, FEED_INCARNATION, 0, 0);
}

/* When the list was made: by our clock, but not before what is in it, by the clocks of those who led. */
static int64_t list_time(history_next_fn next, void *arg)
{
    int64_t wall_ms = clock_wall_ms();
    const struct fsm_lease *lease = next ? next(0, arg) : NULL;

    for (; lease; lease = next(lease->id, arg))
        if (lease->changed_wall_ms >= wall_ms)
            wall_ms = lease->changed_wall_ms + 1;
    return wall_ms;
}

/* All leases of the state; what history believes to be held and is not among them has ended unseen. */
static void take_list(struct history *history, uint64_t revision, history_next_fn next, void *arg)
{
    int64_t wall_ms = list_time(next, arg);
    const struct fsm_lease *lease = next ? next(0, arg) : NULL;

    for (; lease; lease = next(lease->id, arg))
        add_lease(history, FEED_LISTED, lease, wall_ms);
    add_mark(history, FEED_LIST_END, revision, wall_ms);
    history->block->revision = revision;
    history->block->wall_ms = wall_ms;
    history->fed = revision;
    history->gap_count++;
    flush(history);
    history->listed = history->last_number;
    look_at_lag(history);
}

static bool same_state(const struct history *history, const uint8_t *incarnation)
{
    return history->known && memcmp(history->incarnation, incarnation, FEED_INCARNATION_LEN) == 0;
}

void history_restored(struct history *history, const uint8_t *incarnation, uint64_t revision,
                      history_next_fn next, void *arg)
{
    if (!same_state(history, incarnation))
        follow_anew(history, incarnation);
    else if (history->fed >= revision)
        return;
    flush(history);
    take_list(history, revision, next, arg);
}

void history_opened(struct history *history, const uint8_t *incarnation, uint64_t revision,
                    history_next_fn next, void *arg)
{
    if (!same_state(history, incarnation)) {
        if (revision == 0)
            return;
        follow_anew(history, incarnation);
    } else if (history->fed == revision) {
        return;
    } else if (history->fed > revision) {
        /* An older copy of the state under the same incarnation: what was seen after it is another story. */
        follow_anew(history, incarnation);
    }
    take_list(history, revision, next, arg);
}

/* Whether history has anything to learn from the lease as it is now. */
static bool worth_telling(struct history *history, const struct fsm_lease *lease)
{
    struct fingerprint *known = &history->prints[lease->id % PRINTS];
    uint64_t print = feed_fingerprint(lease);

    if (known->lease == lease->id && known->print == print)
        return false;
    *known = (struct fingerprint){lease->id, print};
    return true;
}

static bool overflows(struct history *history)
{
    if (!history->overflowed && history->lag > 2 * history->lag_limit) {
        history->overflowed = true;
        log_error(NULL,
                  "%s: history is %zu KiB behind and drops changes: once it is repaired, start "
                  "leased anew",
                  history->path, history->lag >> 10);
    }
    return history->overflowed;
}

void history_changed(struct history *history, const uint8_t *incarnation,
                     const struct fsm_change *change)
{
    if (!same_state(history, incarnation)) {
        follow_anew(history, incarnation);
        add_mark(history, FEED_LIST_END, 0, change->wall_ms);
    }
    if (change->revision <= history->fed || overflows(history))
        return;
    history->fed = change->revision;
    if (change->kind == CHANGE_LEASE && !change->expiry_only &&
        worth_telling(history, change->lease)) {
        add_lease(history, FEED_LEASE, change->lease, change->wall_ms);
        look_at_lag(history);
    } else {
        (void)room(history, 0);
    }
    history->block->revision = change->revision;
    history->block->wall_ms = change->wall_ms;
    arm(history);
}

uint64_t history_revision(const struct history *history)
{
    return history->durable;
}

size_t history_lag_bytes(const struct history *history)
{
    return history->lag;
}

int history_health(const struct history *history, const char **ret_why)
{
    if (history->told < 0)
        *ret_why = history->why;
    return history->told;
}

bool history_degraded(const struct history *history)
{
    return history->degraded;
}

/* ---- questions ---- */

static void answer(struct question *question)
{
    struct query_answer *answer = &question->answer;

    question->outline.behind = question->unlisted;
    if (question->unlisted && answer->r == 0 && !*answer->why)
        (void)snprintf(answer->why, sizeof answer->why,
                       "what happened before revision %" PRIu64 " is not known here yet",
                       question->history->fed);
    if (question->outlined) {
        question->outlined(answer->r, &question->outline, answer->why, question->arg);
        outline_done(&question->outline);
        free(question);
        return;
    }
    question->done(answer->r, answer->entries, answer->r == 0 ? answer->n : 0, question->revision,
                   answer->why, question->arg);
    query_answer_done(&question->answer);
    free(question);
}

/* On a thread of the pool. */
static void read_answer(void *arg)
{
    struct question *question = arg;

    if (question->outlined)
        outline_read(question->history->reader, &question->outline, &question->answer);
    else
        query_run(question->history->reader, &question->query, &question->answer);
}

static void answer_read(int r, void *arg)
{
    struct question *question = arg;
    struct history *history = question->history;

    if (r < 0) {
        query_answer_done(&question->answer);
        question->answer.r = r;
        (void)snprintf(question->answer.why, sizeof question->answer.why, "%s: not read",
                       history->path);
    }
    answer(question);
    history->n_running--;
    if (history->closing || history->questions)
        loop_soon_start(history->soon);
}

static void submit(struct question *question)
{
    struct history *history = question->history;

    question->revision = history->written;
    question->unlisted = history->listed > scribe_written(history->scribe);
    history->n_running++;
    if (loop_work_submit(history->loop, read_answer, answer_read, question) < 0)
        answer_read(-ENOMEM, question);
}

static bool is_ready(const struct history *history, const struct question *question)
{
    return question->target <= scribe_written(history->scribe) ||
           loop_now_fresh_ms() >= question->until_mono_ms || history->closing;
}

/* One at a time, the oldest first: there is one reader, and who waits for it would keep a thread from the disk of the log. */
static void submit_ready(struct history *history)
{
    struct question **oldest = NULL, *question;

    if (history->n_running > 0)
        return;
    for (struct question **at = &history->questions; *at; at = &(*at)->next)
        if (is_ready(history, *at))
            oldest = at;
    if (!oldest)
        return;
    question = *oldest;
    *oldest = question->next;
    submit(question);
}

/* What was fed before it is written first, if that is soon. */
static void put_question(struct history *history, struct question *question)
{
    flush(history);
    question->history = history;
    question->target = history->last_number;
    question->until_mono_ms = loop_now_fresh_ms() + CATCH_UP_MS;
    question->next = history->questions;
    history->questions = question;
    loop_timer_start(history->ask_timer, CATCH_UP_MS, 0);
    loop_soon_start(history->soon);
}

void history_ask(struct history *history, const struct history_query *query, history_done_fn done,
                 void *arg)
{
    struct question *question = mem_must_calloc(1, sizeof *question);

    question->query = *query;
    question->done = done;
    question->arg = arg;
    put_question(history, question);
}

void history_ask_outline(struct history *history, history_outline_fn done, void *arg)
{
    struct question *question = mem_must_calloc(1, sizeof *question);

    question->outlined = done;
    question->arg = arg;
    put_question(history, question);
}

/* ---- filling ---- */

uint64_t history_gap_count(const struct history *history)
{
    return history->gap_count;
}

/* A piece has a block of its own, between those of changes. */
void history_fill(struct history *history, const struct history_piece *piece,
                  void (*done)(int r, void *arg), void *arg)
{
    assert(!history->filling && !history->closing);
    flush(history);
    history->block = feed_piece_new(piece);
    history->lag += history->block->len;
    flush(history);
    history->filling = history->last_number;
    history->filled = done;
    history->filled_arg = arg;
}

static void note_filling(struct history *history)
{
    uint64_t number = history->filling;
    bool written = number && number <= scribe_written(history->scribe);

    if (!written && !(number && history->closing && scribe_ended(history->scribe)))
        return;
    history->filling = 0;
    history->filled(!written                                    ? -ECANCELED
                    : scribe_foreign(history->scribe) == number ? -EBADMSG
                                                                : 0,
                    history->filled_arg);
}

/* ---- what the thread has done ---- */

static void note_flights(struct history *history)
{
    uint64_t written = scribe_written(history->scribe), durable = scribe_durable(history->scribe);
    size_t gone = 0;

    for (; history->flights_written < history->n_flights; history->flights_written++) {
        const struct flight *flight = &history->flights[history->flights_written];

        if (flight->number > written)
            break;
        history->lag -= flight->bytes;
        if (!flight->other_period && flight->revision > history->written)
            history->written = flight->revision;
    }
    for (; gone < history->flights_written && history->flights[gone].number <= durable; gone++)
        if (!history->flights[gone].other_period &&
            history->flights[gone].revision > history->durable)
            history->durable = history->flights[gone].revision;
    if (gone == 0)
        return;
    history->n_flights -= gone;
    history->flights_written -= gone;
    memmove(history->flights, history->flights + gone,
            history->n_flights * sizeof *history->flights);
}

static void woken(void *arg)
{
    struct history *history = arg;

    note_flights(history);
    look_at_lag(history);
    scribe_tidy(history->scribe);
    (void)scribe_health(history->scribe, &history->scribe_r, history->why);
    tell_health(history);
    note_filling(history);
    submit_ready(history);
    if (history->closing)
        loop_soon_start(history->soon);
}

static void wake(void *arg)
{
    loop_wake_send(((struct history *)arg)->wake);
}

/* ---- opening and closing ---- */

static void history_free(struct history *history)
{
    loop_wake_free(history->wake);
    loop_timer_free(history->flush_timer);
    loop_timer_free(history->ask_timer);
    loop_soon_free(history->soon);
    query_reader_free(history->reader);
    free(history->block);
    free(history->flights);
    free(history->prints);
    free(history);
}

static void run_soon(void *arg)
{
    struct history *history = arg;
    void (*closed)(void *arg) = history->closed;
    void *closed_arg = history->closed_arg;

    tell_health(history);
    note_filling(history);
    submit_ready(history);
    if (!history->closing || history->n_running > 0 || history->questions ||
        !scribe_ended(history->scribe))
        return;
    scribe_free(history->scribe);
    history_free(history);
    if (closed)
        closed(closed_arg);
}

static void ask_due(void *arg)
{
    struct history *history = arg;

    submit_ready(history);
    if (history->questions)
        loop_timer_start(history->ask_timer, CATCH_UP_MS, 0);
}

static int make_parts(struct history *history)
{
    int r = loop_wake_new(history->loop, woken, history, &history->wake);

    if (r == 0)
        r = loop_timer_new(history->loop, flush_due, history, &history->flush_timer);
    if (r == 0)
        r = loop_timer_new(history->loop, ask_due, history, &history->ask_timer);
    if (r == 0)
        r = loop_soon_new(history->loop, run_soon, history, &history->soon);
    if (r == 0)
        r = query_reader_new(history->path, &history->reader);
    if (r == 0 && !(history->prints = calloc(PRINTS, sizeof *history->prints)))
        r = -ENOMEM;
    return r;
}

static int open_store(struct history *history, char why[static STORE_WHY_MAX])
{
    const struct store_position *at;
    struct store *store;
    struct stat st;
    bool later = stat(history->path, &st) == 0 && st.st_size > CHECK_AT_ONCE;
    int r = store_open(history->path, &store, why);

    if (r < 0)
        return r;
    if (!later && (r = store_check(store)) < 0) {
        (void)snprintf(why, STORE_WHY_MAX, "%s", store_why(store));
        store_close(store);
        return r;
    }
    at = store_get_position(store);
    history->known = at->period > 0;
    memcpy(history->incarnation, at->incarnation, sizeof history->incarnation);
    history->fed = history->written = at->revision;
    history->gap_count = 1;
    /* What a killed predecessor committed may be in the page cache alone. */
    if (store_checkpoint(store) == 0)
        history->durable = at->revision;
    return scribe_new(store, later, wake, history, &history->scribe);
}

static_assert(STORE_WHY_MAX == HISTORY_WHY_MAX, "sentences are handed on");

/* SQLite's own books on memory are behind one lock, which a thread of low priority could hold. */
static void configure(void)
{
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

int history_open(struct loop *loop, const char *path, const struct history_options *options,
                 history_health_fn health, void *arg, struct history **ret,
                 char why[static HISTORY_WHY_MAX])
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct history *history = calloc(1, sizeof *history);
    int r = history ? 0 : -ENOMEM;

    (void)pthread_once(&once, configure);
    (void)snprintf(why, HISTORY_WHY_MAX, "%s: out of memory", path);
    if (r == 0) {
        history->loop = loop;
        history->lag_limit = options && options->lag_bytes ? options->lag_bytes : LAG_DEFAULT;
        history->tell = health;
        history->arg = arg;
        (void)snprintf(history->path, sizeof history->path, "%s", path);
        r = make_parts(history);
    }
    if (r == 0)
        r = open_store(history, why);
    if (r == 0)
        *ret = history;
    else if (history)
        history_free(history);
    return r;
}

void history_close(struct history *history, void (*done)(void *arg), void *arg)
{
    assert(!history->closing);
    flush(history);
    history->closing = true;
    history->closed = done;
    history->closed_arg = arg;
    scribe_stop(history->scribe);
    loop_soon_start(history->soon);
}
