#include "tests/lib/engine_kit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "leased/engine/engine_inner.h"
#include "xce/v1/command.pb-c.h"

#define PATIENCE_MS 60000

static void die(const char *what, const char *more)
{
    fprintf(stderr, "engine kit: %s: %s\n", what, more);
    abort();
}

static ProtobufCBinaryData bytes_of(const char *text)
{
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
}

/* ---- hooks ---- */

static const struct fsm_lease *next_lease(uint64_t after, void *arg)
{
    return fsm_lease_next(arg, after);
}

static void restored(const struct fsm *fsm, void *arg)
{
    struct engine_kit *kit = arg;

    kit->last_change = fsm_revision(fsm);
    if (kit->history)
        history_restored(kit->history, fsm_incarnation(fsm), fsm_revision(fsm), next_lease,
                         (void *)fsm);
    if (kit->also && kit->also->restored)
        kit->also->restored(fsm, kit->also->arg);
}

static void changed(const struct fsm_change *change, void *arg)
{
    struct engine_kit *kit = arg;
    struct fsm_restored restored;

    /* Without a gap, but for the one that becoming a backup makes. */
    fsm_get_restored(kit->fsm, &restored);
    if (change->revision != kit->last_change + 1 && change->revision != restored.revision + 1)
        die("a change out of order", "");
    kit->last_change = change->revision;
    if (!change->expiry_only)
        kit->n_changes++;
    if (kit->history)
        history_changed(kit->history, fsm_incarnation(kit->fsm), change);
    if (kit->also)
        kit->also->change(change, kit->also->arg);
}

static void applied(void *arg)
{
    struct engine_kit *kit = arg;

    kit->n_applied++;
    if (kit->also)
        kit->also->applied(kit->also->arg);
}

static void told(const uint8_t *bytes, size_t len, void *arg)
{
    const struct engine_kit *kit = arg;

    if (kit->also && kit->also->told)
        kit->also->told(bytes, len, kit->also->arg);
}

static void leader(bool leading, void *arg)
{
    struct engine_kit *kit = arg;

    kit->leading = leading;
    if (kit->also && kit->also->leader)
        kit->also->leader(leading, kit->also->arg);
}

static uint64_t history_at(void *arg)
{
    const struct engine_kit *kit = arg;

    return kit->history ? history_revision(kit->history) : kit->history_at;
}

static void health(int r, const char *what, void *arg)
{
    struct engine_kit *kit = arg;

    kit->health = r;
    kit->n_health++;
    if (r < 0)
        (void)snprintf(kit->what, sizeof kit->what, "%s", what);
}

static void history_told(int r, const char *what, void *arg)
{
    (void)r, (void)what, (void)arg;
}

/* ---- life ---- */

void engine_kit_init(struct engine_kit *kit, const char *folder)
{
    engine_kit_init_on(kit, folder, NULL);
}

void engine_kit_init_on(struct engine_kit *kit, const char *folder, struct loop *loop)
{
    memset(kit, 0, sizeof *kit);
    kit->loop = loop;
    kit->loop_is_shared = loop != NULL;
    (void)snprintf(kit->folder, sizeof kit->folder, "%s", folder);
    (void)snprintf(kit->path, sizeof kit->path, "%s/engine.db", folder);
    (void)snprintf(kit->history_path, sizeof kit->history_path, "%s/history.db", folder);
    kit->history_at = UINT64_MAX;
    if (!kit->loop_is_shared && loop_new(&kit->loop) < 0)
        die("no loop", "");
}

static void note_closed(void *arg)
{
    ((struct engine_kit *)arg)->closed = true;
}

static bool is_closed(const struct engine_kit *kit)
{
    return kit->closed;
}

static void close_history(struct engine_kit *kit)
{
    if (!kit->history)
        return;
    kit->closed = false;
    history_close(kit->history, note_closed, kit);
    if (!engine_kit_until(kit, is_closed))
        die("history does not close", "");
    kit->history = NULL;
}

void engine_kit_close(struct engine_kit *kit)
{
    if (kit->engine) {
        kit->closed = false;
        engine_close(kit->engine, note_closed, kit);
        if (!engine_kit_until(kit, is_closed))
            die("the engine does not close", "");
        kit->engine = NULL;
        kit->fsm = NULL;
    }
    close_history(kit);
}

void engine_kit_done(struct engine_kit *kit)
{
    engine_kit_close(kit);
    if (!kit->loop_is_shared)
        loop_free(kit->loop);
    kit->loop = NULL;
}

static bool is_ready(const struct engine_kit *kit)
{
    return kit->leading || kit->health < 0;
}

int engine_kit_open(struct engine_kit *kit, bool with_history)
{
    const struct engine_hooks hooks = {restored,   changed, applied, leader,
                                       history_at, told,    health,  kit};
    int r;

    kit->leading = false;
    kit->health = 0;
    kit->n_health = 0;
    kit->n_changes = kit->last_change = kit->n_applied = 0;
    if (with_history && history_open(kit->loop, kit->history_path, NULL, history_told, kit,
                                     &kit->history, kit->why) < 0)
        die("history", kit->why);
    if (fsm_new(&kit->fsm) < 0)
        die("no memory", "");
    r = kit->replica ? engine_open_raft(kit->loop, kit->replica, &kit->options, kit->fsm, &hooks,
                                        &kit->engine, kit->why)
                     : engine_open_sqlite(kit->loop, kit->path, &kit->options, kit->fsm, &hooks,
                                          &kit->engine, kit->why);
    if (r < 0) {
        kit->engine = NULL;
        kit->fsm = NULL;
        close_history(kit);
        return r;
    }
    if (kit->replica)
        return 0;
    if (with_history)
        history_opened(kit->history, fsm_incarnation(kit->fsm), fsm_revision(kit->fsm), next_lease,
                       kit->fsm);
    if (!engine_kit_until(kit, is_ready))
        die("it does not lead", kit->why);
    return 0;
}

bool engine_kit_until(struct engine_kit *kit, bool (*cond)(const struct engine_kit *kit))
{
    int64_t until = clock_mono_ms() + PATIENCE_MS;

    while (!cond(kit)) {
        if (clock_mono_ms() > until)
            return false;
        loop_step(kit->loop, 100);
    }
    return true;
}

/* ---- commands ---- */

static size_t pack(Xce__V1__Command *command, uint8_t ret[static ENGINE_KIT_BYTES])
{
    if (xce__v1__command__get_packed_size(command) > ENGINE_KIT_BYTES)
        die("a command is too long", "");
    return xce__v1__command__pack(command, ret);
}

size_t engine_kit_acquire(uint64_t i, uint8_t ret[static ENGINE_KIT_BYTES])
{
    Xce__V1__CmdGrant grant = XCE__V1__CMD_GRANT__INIT, *grants[] = {&grant};
    Xce__V1__CmdAcquire acquire = XCE__V1__CMD_ACQUIRE__INIT;
    Xce__V1__Request request = XCE__V1__REQUEST__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    ProtobufCBinaryData node = bytes_of("n1");
    uint8_t id[16] = {0}, digest[16] = {1};
    char job[24];

    memcpy(id, &i, sizeof i);
    (void)snprintf(job, sizeof job, "j%lu", (unsigned long)i);
    request.principal = bytes_of("uid:1000");
    request.id = (ProtobufCBinaryData){sizeof id, id};
    request.digest = (ProtobufCBinaryData){sizeof digest, digest};
    grant.pool = bytes_of("main");
    grant.job = bytes_of(job);
    grant.owner_name = bytes_of("alice");
    grant.owner_uid = grant.owner_gid = 1000;
    grant.ttl_ms = 3600000;
    grant.nodes = &node;
    grant.n_nodes = 1;
    acquire.grants = grants;
    acquire.n_grants = 1;
    command.request = &request;
    command.kind_case = XCE__V1__COMMAND__KIND_ACQUIRE;
    command.acquire = &acquire;
    return pack(&command, ret);
}

size_t engine_kit_release(uint64_t lease, uint32_t epoch, uint8_t ret[static ENGINE_KIT_BYTES])
{
    Xce__V1__CmdRelease release = XCE__V1__CMD_RELEASE__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    release.lease = lease;
    release.epoch = epoch;
    command.kind_case = XCE__V1__COMMAND__KIND_RELEASE;
    command.release = &release;
    return pack(&command, ret);
}

/* ---- doing ---- */

static void done(int r, const struct fsm_outcome *outcome, void *arg)
{
    struct engine_kit *kit = arg;

    kit->r = r;
    kit->closed = true;
    if (r < 0)
        return;
    kit->out = *outcome;
    kit->lease = outcome->n_leases ? outcome->leases[0] : 0;
}

int engine_kit_do(struct engine_kit *kit, const uint8_t *command, size_t len)
{
    kit->closed = false;
    kit->lease = 0;
    engine_propose(kit->engine, command, len, done, kit);
    if (kit->closed)
        die("an answer came inside the call", "");
    if (!engine_kit_until(kit, is_closed))
        die("no answer", "");
    return kit->r;
}

int engine_kit_do_acquire(struct engine_kit *kit, uint64_t i)
{
    uint8_t bytes[ENGINE_KIT_BYTES];

    return engine_kit_do(kit, bytes, engine_kit_acquire(i, bytes));
}

static void ready(int r, void *arg)
{
    struct engine_kit *kit = arg;

    kit->r = r;
    kit->closed = true;
}

int engine_kit_snapshot(struct engine_kit *kit)
{
    kit->closed = false;
    engine_snapshot(kit->engine, ready, kit);
    if (kit->closed)
        die("an answer came inside the call", "");
    if (!engine_kit_until(kit, is_closed))
        die("no snapshot", "");
    return kit->r;
}

void engine_kit_pass(struct engine_kit *kit, int64_t ms)
{
    kit->engine->base_mono_ms -= ms;
}

static void do_command(struct engine_kit *kit, Xce__V1__Command *command)
{
    uint8_t bytes[ENGINE_KIT_BYTES];
    size_t len = pack(command, bytes);
    int64_t until_ms = clock_mono_ms() + PATIENCE_MS;
    bool unknown = false;
    int r;

    /* A replica may cease to lead in the midst of it, or its disk be slow: then once more, and it may be done already. */
    while ((r = engine_kit_do(kit, bytes, len)) < 0) {
        if (!kit->replica || (r != -EAGAIN && r != -ECONNABORTED && r != -EIO) ||
            clock_mono_ms() > until_ms)
            die("refused", kit->what);
        unknown |= r == -ECONNABORTED;
        loop_step(kit->loop, 10);
    }
    if (kit->out.code != FSM_OK && !unknown)
        die("refused", kit->out.message);
}

/* The node has looked through itself: leases may name it. */
static void trust(struct engine_kit *kit)
{
    Xce__V1__CmdWatermark mark = XCE__V1__CMD_WATERMARK__INIT, *marks[] = {&mark};
    Xce__V1__CmdWatermarks watermarks = XCE__V1__CMD_WATERMARKS__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    mark.node = bytes_of("n1");
    mark.session = kit->out.session;
    mark.revision = kit->out.revision;
    watermarks.marks = marks;
    watermarks.n_marks = 1;
    command.kind_case = XCE__V1__COMMAND__KIND_WATERMARKS;
    command.watermarks = &watermarks;
    do_command(kit, &command);
}

void engine_kit_start(struct engine_kit *kit, uint32_t n_uids)
{
    uint8_t incarnation[16] = "engine kit state";
    Xce__V1__CmdInit init = XCE__V1__CMD_INIT__INIT;
    Xce__V1__CmdRange range = XCE__V1__CMD_RANGE__INIT;
    Xce__V1__CmdPoolCreate pool = XCE__V1__CMD_POOL_CREATE__INIT;
    Xce__V1__CmdHello hello = XCE__V1__CMD_HELLO__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    init.prefix = bytes_of("xce-");
    init.incarnation = (ProtobufCBinaryData){sizeof incarnation, incarnation};
    command.kind_case = XCE__V1__COMMAND__KIND_INIT;
    command.init = &init;
    do_command(kit, &command);
    range.first = ENGINE_KIT_UID;
    range.last = ENGINE_KIT_UID + n_uids - 1;
    pool.name = bytes_of("main");
    pool.range = &range;
    pool.directory_none = true;
    command.kind_case = XCE__V1__COMMAND__KIND_POOL_CREATE;
    command.pool_create = &pool;
    do_command(kit, &command);
    hello.node = bytes_of("n1");
    hello.machine_id = bytes_of("machine-1");
    hello.boot_id = bytes_of("boot-1");
    command.kind_case = XCE__V1__COMMAND__KIND_HELLO;
    command.hello = &hello;
    do_command(kit, &command);
    trust(kit);
}
