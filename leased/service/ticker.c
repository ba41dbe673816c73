#include "leased/service/ticker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "common/log.h"
#include "common/text.h"
#include "leased/service/internal.h"

#define ROUND_MS 1000
/* The loop stood still for so long that it did not hear renewals and heartbeats: no ttl may end, no node be lost of that. */
#define STALL_MS  1000
#define MARKS_MAX 4096
/* In a cluster where nothing happens the log learns the time that often, so that it does not fall behind what is told by
 * ENGINE_TOLD_AHEAD_MS: time stands still then. */
#define TIME_WRITTEN_MS 20000
/* A replica that dies says of none of its sessions that it is over: so many heartbeats without a word do. */
#define BEATS_MISSED 3

/* What is known here of a node's voice. Kept while the process lives; nodes are few and known. */
struct voice {
    char node[TEXT_NODE_MAX + 1];
    int64_t heard_ms, heard_wall_ms;
    uint64_t session, watermark;
    char hangs[TICKER_HANGS_MAX + 1];
    bool connected;
    bool unsaid;      /* the watermark is not in the log yet */
    bool pronounced;  /* lost, or heard again, has been proposed and not been applied yet */
    bool heard_again; /* which of the two */
    UT_hash_handle hh;
};

struct ticker {
    struct service *service;
    struct voice *voices;
    int64_t listening_wall_ms;
    int64_t round_ms;   /* of the last round */
    int64_t elapsed_ms; /* of the last call */
    bool ticking;       /* a tick is under way */
};

int ticker_new(struct service *service, struct ticker **ret)
{
    struct ticker *ticker = calloc(1, sizeof *ticker);

    if (!ticker)
        return -ENOMEM;
    ticker->service = service;
    ticker->listening_wall_ms = service->deps.wall_ms();
    *ret = ticker;
    return 0;
}

void ticker_free(struct ticker *ticker)
{
    struct voice *voice, *next;

    if (!ticker)
        return;
    HASH_ITER(hh, ticker->voices, voice, next)
    {
        HASH_DEL(ticker->voices, voice);
        free(voice);
    }
    free(ticker);
}

static struct voice *find(const struct ticker *ticker, const char *node)
{
    struct voice *voice;

    HASH_FIND_STR(ticker->voices, node, voice);
    return voice;
}

/* NULL without memory: the node is asked about again a second later. */
static struct voice *find_or_make(struct ticker *ticker, const char *node)
{
    struct voice *voice = find(ticker, node);

    if (voice)
        return voice;
    voice = calloc(1, sizeof *voice);
    if (!voice)
        return NULL;
    (void)strncpy(voice->node, node, TEXT_NODE_MAX);
    voice->heard_ms = ticker->service->deps.mono_ms();
    HASH_ADD_STR(ticker->voices, node, voice);
    return voice;
}

int64_t ticker_heard_wall_ms(const struct ticker *ticker, const char *node)
{
    const struct voice *voice = find(ticker, node);

    return voice ? voice->heard_wall_ms : 0;
}

int64_t ticker_listening_wall_ms(const struct ticker *ticker)
{
    return ticker->listening_wall_ms;
}

bool ticker_connected(const struct ticker *ticker, const char *node)
{
    const struct service *service = ticker->service;
    const struct voice *voice = find(ticker, node);

    return voice && voice->connected &&
           service->deps.mono_ms() - voice->heard_ms <=
               BEATS_MISSED * service->options.heartbeat_ms;
}

void ticker_gone(struct ticker *ticker, const char *node, uint64_t session)
{
    struct voice *voice = find(ticker, node);

    if (!voice || voice->session != session)
        return;
    voice->connected = false;
    voice->hangs[0] = '\0';
}

const char *ticker_hangs(const struct ticker *ticker, const char *node)
{
    const struct voice *voice = find(ticker, node);

    return voice ? voice->hangs : "";
}

static void propose_grace(struct ticker *ticker)
{
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdGrace grace = XCE__V1__CMD_GRACE__INIT;

    grace.grace_ms = ticker->service->options.grace_ms;
    command.kind_case = XCE__V1__COMMAND__KIND_GRACE;
    command.grace = &grace;
    service_propose_own(ticker->service, &command, NULL, NULL);
}

void ticker_leading(struct ticker *ticker)
{
    struct voice *voice, *next;

    HASH_ITER(hh, ticker->voices, voice, next)
    {
        voice->heard_ms = ticker->service->deps.mono_ms();
        voice->unsaid = voice->watermark > 0;
        voice->pronounced = false;
    }
    ticker->ticking = false;
    ticker->elapsed_ms = ticker->service->deps.mono_ms();
    ticker->listening_wall_ms = ticker->service->deps.wall_ms();
}

/* ---- once a second ---- */

static void marks_done(int r, const struct fsm_outcome *outcome, void *arg)
{
    struct ticker *ticker = arg;
    struct voice *voice, *next;

    (void)outcome;
    if (r == 0)
        return;
    HASH_ITER(hh, ticker->voices, voice, next)
    voice->unsaid = voice->watermark > 0;
}

/* At most MARKS_MAX of them; whether there may be more. */
static bool say_some_marks(struct ticker *ticker)
{
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdWatermarks marks = XCE__V1__CMD_WATERMARKS__INIT;
    Xce__V1__CmdWatermark *items = calloc(MARKS_MAX, sizeof *items);
    Xce__V1__CmdWatermark **pointers = calloc(MARKS_MAX, sizeof *pointers);
    struct voice *voice, *next;

    HASH_ITER(hh, ticker->voices, voice, next)
    {
        Xce__V1__CmdWatermark *mark;

        if (!items || !pointers || marks.n_marks == MARKS_MAX || !voice->unsaid)
            continue;
        mark = &items[marks.n_marks];
        xce__v1__cmd_watermark__init(mark);
        mark->node.data = (uint8_t *)voice->node;
        mark->node.len = strlen(voice->node);
        mark->session = voice->session;
        mark->revision = voice->watermark;
        pointers[marks.n_marks++] = mark;
        voice->unsaid = false;
    }
    if (marks.n_marks) {
        marks.marks = pointers;
        command.kind_case = XCE__V1__COMMAND__KIND_WATERMARKS;
        command.watermarks = &marks;
        service_propose_own(ticker->service, &command, marks_done, ticker);
    }
    free(items);
    free(pointers);
    return marks.n_marks == MARKS_MAX;
}

static void say_marks(struct ticker *ticker)
{
    while (say_some_marks(ticker))
        ;
}

/* Whether this watermark makes a node that was unknown a trusted one: not a matter to wait a second with. */
static bool ends_unknown(const struct ticker *ticker, const struct voice *voice)
{
    const struct fsm_node *node = fsm_node(service_fsm(ticker->service), voice->node);

    return ticker->service->leading && node && node->unknown_revision &&
           node->session == voice->session && voice->watermark >= node->unknown_revision;
}

void ticker_heard(struct ticker *ticker, const char *node, uint64_t session, uint64_t watermark,
                  const char *hangs)
{
    struct voice *voice = find_or_make(ticker, node);

    if (!voice)
        return;
    /* Nobody can have looked through what is not there yet: the state is another, or the node is out of its mind. */
    if (watermark > fsm_revision(service_fsm(ticker->service)))
        watermark = 0;
    voice->heard_ms = ticker->service->deps.mono_ms();
    voice->heard_wall_ms = ticker->service->deps.wall_ms();
    if (voice->session != session || voice->watermark < watermark)
        voice->unsaid = true;
    voice->session = session;
    voice->watermark = watermark;
    voice->connected = true;
    (void)snprintf(voice->hangs, sizeof voice->hangs, "%s", hangs);
    if (voice->unsaid && ends_unknown(ticker, voice))
        say_marks(ticker);
}

static void pronounced(int r, const struct fsm_outcome *outcome, void *arg)
{
    struct voice *voice = arg;

    voice->pronounced = false;
    if (r == 0 && outcome->code == FSM_OK)
        log_notice(LOG_FIELDS(.message_id = LOG_ID_NODE_STATE, .node = voice->node),
                   voice->heard_again ? "node is heard again"
                                      : "node has fallen silent: it counts as lost");
}

static void pronounce(struct ticker *ticker, struct voice *voice, uint64_t session,
                      bool heard_again)
{
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdNodeLost lost = XCE__V1__CMD_NODE_LOST__INIT;

    lost.node.data = (uint8_t *)voice->node;
    lost.node.len = strlen(voice->node);
    lost.session = session;
    lost.heard_again = heard_again;
    command.kind_case = XCE__V1__COMMAND__KIND_NODE_LOST;
    command.node_lost = &lost;
    voice->pronounced = true;
    voice->heard_again = heard_again;
    service_propose_own(ticker->service, &command, pronounced, voice);
}

static void look_for_silence(struct ticker *ticker)
{
    const struct fsm *fsm = service_fsm(ticker->service);
    int64_t now_ms = ticker->service->deps.mono_ms();
    const struct fsm_node *node = NULL;

    while ((node = fsm_node_next(fsm, node))) {
        struct voice *voice = node->state == NODE_FENCED ? NULL : find_or_make(ticker, node->name);
        bool silent;

        if (!voice || voice->pronounced)
            continue;
        silent = now_ms - voice->heard_ms > ticker->service->options.lost_after_ms;
        if (silent && node->state != NODE_LOST)
            pronounce(ticker, voice, node->session, false);
        else if (!silent && node->state == NODE_LOST && voice->session == node->session)
            pronounce(ticker, voice, node->session, true);
    }
}

/* ---- each call ---- */

static void ticked(int r, const struct fsm_outcome *outcome, void *arg)
{
    struct ticker *ticker = arg;

    (void)r, (void)outcome;
    ticker->ticking = false;
}

/* Something is due, or the log's time is old. */
static bool tick_due(const struct service *service)
{
    const struct fsm *fsm = service_fsm(service);
    int64_t now_ms = engine_now_ms(service->deps.engine);

    return fsm_next_due_ms(fsm) <= now_ms ||
           (fsm_initialised(fsm) && now_ms - fsm_now_ms(fsm) >= TIME_WRITTEN_MS);
}

static void tick(struct ticker *ticker)
{
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdTick due = XCE__V1__CMD_TICK__INIT;

    if (ticker->ticking || !tick_due(ticker->service))
        return;
    command.kind_case = XCE__V1__COMMAND__KIND_TICK;
    command.tick = &due;
    ticker->ticking = true;
    service_propose_own(ticker->service, &command, ticked, ticker);
}

/* What was said meanwhile waits in the sockets and has not been read. */
static void forgive_stall(struct ticker *ticker, int64_t stall_ms)
{
    struct voice *voice, *next;

    log_warning(NULL, "the loop stood still for %lld ms: every lease gets a grace",
                (long long)stall_ms);
    propose_grace(ticker);
    HASH_ITER(hh, ticker->voices, voice, next)
    voice->heard_ms += stall_ms;
}

void ticker_elapse(struct ticker *ticker)
{
    int64_t now_ms = ticker->service->deps.mono_ms();

    if (now_ms - ticker->elapsed_ms > STALL_MS)
        forgive_stall(ticker, now_ms - ticker->elapsed_ms);
    ticker->elapsed_ms = now_ms;
    tick(ticker);
    if (now_ms - ticker->round_ms < ROUND_MS)
        return;
    ticker->round_ms = now_ms;
    say_marks(ticker);
    look_for_silence(ticker);
}
