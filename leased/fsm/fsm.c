#include "leased/fsm/fsm.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "leased/fsm/acquire.h"
#include "leased/fsm/apply.h"
#include "leased/fsm/command.h"
#include "leased/fsm/hash.h"
#include "leased/fsm/lease.h"
#include "leased/fsm/node.h"
#include "leased/fsm/pool.h"
#include "leased/fsm/rules.h"
#include "leased/fsm/tables.h"
#include "leased/fsm/token.h"
#include "leased/fsm/wait.h"
#include "map/name.h"

/* ---- life ---- */

int fsm_new(struct fsm **ret)
{
    struct fsm *fsm = calloc(1, sizeof(*fsm));

    if (!fsm)
        return -ENOMEM;
    pb_arena_init(&fsm->arena, FSM_ARENA_MAX);
    *ret = fsm;
    return 0;
}

void tables_init(struct fsm *fsm)
{
    uint64_t key = hash_bytes(0, fsm->incarnation, sizeof(fsm->incarnation));

    intern_init(&fsm->strings, key);
    requests_init(&fsm->requests, key);
    fsm->initialised = true;
}

void fsm_free(struct fsm *fsm)
{
    if (!fsm)
        return;
    waits_done(fsm);
    oaths_done(fsm);
    timers_done(&fsm->timers);
    lease_table_done(fsm);
    pool_table_done(fsm);
    node_table_done(fsm);
    floors_done(fsm);
    rules_done(&fsm->rules);
    tokens_done(&fsm->tokens);
    requests_done(&fsm->requests);
    intern_done(&fsm->strings);
    pb_arena_done(&fsm->arena);
    free(fsm->answer);
    free(fsm);
}

/* ---- outcomes and changes ---- */

void fsm_format(char ret[static FSM_MESSAGE_MAX + 1], const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fsm_vformat(ret, format, args);
    va_end(args);
}

void fsm_vformat(char ret[static FSM_MESSAGE_MAX + 1], const char *format, va_list args)
{
    int len = vsnprintf(ret, FSM_MESSAGE_MAX + 1, format, args);
    size_t end = FSM_MESSAGE_MAX;

    if (len <= FSM_MESSAGE_MAX)
        return;
    /* Back to before the character that was cut: its last byte is the last one or it does not fit. */
    while (end > 0 && ((unsigned char)ret[end - 1] & 0xc0) == 0x80)
        end--;
    if (end > 0 && (unsigned char)ret[end - 1] >= 0xc0)
        end--;
    ret[end] = '\0';
}

void fsm_fail(struct fsm_outcome *outcome, enum fsm_code code, const char *format, ...)
{
    va_list args;

    outcome->code = code;
    outcome->n_leases = 0;
    va_start(args, format);
    fsm_vformat(outcome->message, format, args);
    va_end(args);
}

void fsm_answer(struct fsm *fsm, struct fsm_outcome *outcome, uint64_t lease)
{
    mem_must_grow(&fsm->answer, &fsm->cap_answer, outcome->n_leases + (size_t)1,
                  sizeof(*fsm->answer));
    fsm->answer[outcome->n_leases++] = lease;
    outcome->leases = fsm->answer;
}

static void tell(struct fsm *fsm, struct fsm_change *change)
{
    change->revision = fsm->revision;
    change->now_ms = fsm->now_ms;
    change->wall_ms = fsm->wall_ms;
    if (fsm->hooks && fsm->hooks->change)
        fsm->hooks->change(change, fsm->hooks->arg);
}

void fsm_changed_lease(struct fsm *fsm, struct lease *lease, bool expiry_only)
{
    struct fsm_change change = {
        .kind = CHANGE_LEASE,
        .lease = &lease->pub,
        .expiry_only = expiry_only,
        .before = (enum lease_state)lease->told_state,
        .quarantined = lease->pub.quarantine & ~(uint32_t)lease->told_quarantine,
    };

    lease_told(lease);
    lease->pub.revision = ++fsm->revision;
    tell(fsm, &change);
}

void lease_told(struct lease *lease)
{
    lease->told_state = (uint8_t)lease->pub.state;
    lease->told_quarantine = (uint8_t)lease->pub.quarantine;
}

void fsm_changed_pool(struct fsm *fsm, struct pool *pool, enum fsm_change_kind kind)
{
    struct fsm_change change = {.kind = kind, .pool = &pool->pub};

    pool->pub.revision = ++fsm->revision;
    tell(fsm, &change);
}

void fsm_changed_blocked(struct fsm *fsm, struct pool *pool, const struct fsm_blocked *blocked)
{
    struct fsm_change change = {.kind = CHANGE_POOL, .pool = &pool->pub, .blocked = blocked};

    pool->pub.revision = ++fsm->revision;
    tell(fsm, &change);
}

void fsm_changed_node(struct fsm *fsm, struct node *node, enum fsm_change_kind kind)
{
    struct fsm_change change = {.kind = kind, .node = &node->pub};

    node->pub.revision = ++fsm->revision;
    tell(fsm, &change);
}

void fsm_changed_rules(struct fsm *fsm)
{
    struct fsm_change change = {.kind = CHANGE_RULES};

    fsm->rules.revision = ++fsm->revision;
    tell(fsm, &change);
}

/* ---- commands ---- */

void apply_init(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome)
{
    const Xce__V1__CmdInit *init = command->init;
    size_t len = init->prefix.len;

    if (init->incarnation.len != sizeof(fsm->incarnation)) {
        fsm_fail(outcome, FSM_INVALID, "incarnation: must be %zu bytes", sizeof(fsm->incarnation));
        return;
    }
    if (fsm->initialised) {
        if (memcmp(fsm->incarnation, init->incarnation.data, sizeof(fsm->incarnation)) != 0)
            fsm_fail(outcome, FSM_PRECONDITION, "there is a state already");
        return;
    }
    if (!len || len > NAME_PREFIX_MAX || memchr(init->prefix.data, '\0', len) ||
        !name_prefix_valid(apply_string(fsm, init->prefix))) {
        fsm_fail(outcome, FSM_INVALID, "prefix: must be [a-z][a-z0-9]*- of at most %d bytes",
                 NAME_PREFIX_MAX);
        return;
    }
    memcpy(fsm->prefix, init->prefix.data, len);
    memcpy(fsm->incarnation, init->incarnation.data, sizeof(fsm->incarnation));
    tables_init(fsm);
}

/* The members are no matter of the state. */
static void apply_removing(struct fsm *fsm, const Xce__V1__Command *command,
                           struct fsm_outcome *outcome)
{
    (void)fsm, (void)command, (void)outcome;
}

/* How a command stands to late copies of itself. */
enum copies {
    COPIES_OWN = 0,   /* leased makes it itself; no request */
    COPIES_HARMLESS,  /* twice is once: by (lease, epoch); when it was issued does not matter */
    COPIES_UNWANTED,  /* refused if known to be late */
    COPIES_FORBIDDEN, /* refused unless known not to be */
};

static const struct {
    apply_fn apply;
    enum copies copies;
} kinds[] = {
    [XCE__V1__COMMAND__KIND_ACQUIRE] = {apply_acquire, COPIES_FORBIDDEN},
    [XCE__V1__COMMAND__KIND_RENEW] = {apply_renew, COPIES_HARMLESS},
    [XCE__V1__COMMAND__KIND_RELEASE] = {apply_release, COPIES_HARMLESS},
    [XCE__V1__COMMAND__KIND_REVOKE] = {apply_revoke, COPIES_HARMLESS},
    [XCE__V1__COMMAND__KIND_HELLO] = {apply_hello, COPIES_OWN},
    [XCE__V1__COMMAND__KIND_REPORT] = {apply_report, COPIES_OWN},
    [XCE__V1__COMMAND__KIND_WATERMARKS] = {apply_watermarks, COPIES_OWN},
    [XCE__V1__COMMAND__KIND_NODE_VERB] = {apply_node_verb, COPIES_UNWANTED},
    [XCE__V1__COMMAND__KIND_NODE_LOST] = {apply_node_lost, COPIES_OWN},
    [XCE__V1__COMMAND__KIND_TICK] = {apply_tick, COPIES_OWN},
    [XCE__V1__COMMAND__KIND_POOL_CREATE] = {apply_pool_create, COPIES_UNWANTED},
    [XCE__V1__COMMAND__KIND_POOL_SET] = {apply_pool_set, COPIES_UNWANTED},
    [XCE__V1__COMMAND__KIND_POOL_RETIRE] = {apply_pool_retire, COPIES_UNWANTED},
    [XCE__V1__COMMAND__KIND_UNBLOCK] = {apply_unblock, COPIES_UNWANTED},
    [XCE__V1__COMMAND__KIND_INIT] = {apply_init, COPIES_OWN},
    [XCE__V1__COMMAND__KIND_GRACE] = {apply_grace, COPIES_OWN},
    [XCE__V1__COMMAND__KIND_RULES] = {apply_rules, COPIES_UNWANTED},
    [XCE__V1__COMMAND__KIND_TOKEN] = {apply_token, COPIES_UNWANTED},
    [XCE__V1__COMMAND__KIND_ENROLL] = {apply_enroll, COPIES_OWN},
    [XCE__V1__COMMAND__KIND_RESTORE] = {apply_restore, COPIES_OWN},
    [XCE__V1__COMMAND__KIND_CONFIRM] = {apply_confirm, COPIES_UNWANTED},
    [XCE__V1__COMMAND__KIND_REMOVING] = {apply_removing, COPIES_UNWANTED},
};

static bool get_key(const Xce__V1__Request *request, struct request_key *ret,
                    struct fsm_outcome *outcome)
{
    *ret = (struct request_key){
        .principal = request->principal.data,
        .principal_len = request->principal.len,
        .id = request->id.data,
        .id_len = request->id.len,
        .issued_ms = request->issued_at_ms,
    };
    if (ret->id_len > REQUEST_ID_MAX || request->digest.len > REQUEST_DIGEST ||
        request->issued_at_ms < 0) {
        fsm_fail(outcome, FSM_INVALID, "request: id, digest or issued_at out of bounds");
        return false;
    }
    if (!apply_text(request->principal, "principal", REQUEST_PRINCIPAL_MAX, true, outcome))
        return false;
    if (request->digest.len)
        memcpy(ret->digest, request->digest.data, request->digest.len);
    return true;
}

static void replay(struct fsm *fsm, const struct request *request, const struct request_key *key,
                   struct fsm_outcome *outcome)
{
    if (memcmp(request->digest, key->digest, sizeof(key->digest)) != 0) {
        fsm_fail(outcome, FSM_REQUEST_REUSED,
                 "this request id was used for something else: take a new one for each request");
        return;
    }
    outcome->replayed = true;
    outcome->code = (enum fsm_code)request->code;
    if (request->code != FSM_OK) {
        fsm_format(outcome->message, "%s", request_message(fsm, request));
        return;
    }
    outcome->n_leases = request->n_slots;
    outcome->leases = request_slots(request);
}

/* A copy that was under way while its answer was forgotten must not be done a second time. */
static bool too_late(const struct fsm *fsm, const struct request_key *key, enum copies copies,
                     struct fsm_outcome *outcome)
{
    int64_t horizon_ms = fsm->requests.horizon_ms;

    if (copies == COPIES_HARMLESS)
        return false;
    if (key->issued_ms > fsm->now_ms + REQUEST_AHEAD_MS) {
        fsm_fail(outcome, FSM_INVALID,
                 "issued_at %" PRId64 " is ahead of cluster time %" PRId64
                 ": take it out of a reply",
                 key->issued_ms, fsm->now_ms);
        return true;
    }
    if (key->issued_ms >= horizon_ms || (copies == COPIES_UNWANTED && !key->issued_ms))
        return false;
    fsm_fail(
        outcome, FSM_REQUEST_OLD,
        "issued at %" PRId64 ", but answers are only known from %" PRId64
        " on: see what became of it, then ask again with a new request id and the time of a reply",
        key->issued_ms, horizon_ms);
    return true;
}

static void run_request(struct fsm *fsm, const Xce__V1__Command *command,
                        struct fsm_outcome *outcome)
{
    enum copies copies = kinds[command->kind_case].copies;
    uint64_t before = fsm->last_lease;
    struct request_key key;
    struct request *request;

    if (!get_key(command->request, &key, outcome))
        return;
    request = request_find(fsm, &key);
    if (request) {
        replay(fsm, request, &key, outcome);
        return;
    }
    if (too_late(fsm, &key, copies, outcome))
        return;
    kinds[command->kind_case].apply(fsm, command, outcome);
    waits_settle(fsm);
    request = request_keep(fsm, copies == COPIES_HARMLESS ? RING_REPEATABLE : RING_ONCE, &key,
                           outcome);
    if (command->kind_case == XCE__V1__COMMAND__KIND_ACQUIRE && command->acquire->wait &&
        outcome->code == FSM_OK)
        acquire_wait(fsm, request, before);
}

static void run(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome)
{
    size_t kind = command->kind_case;

    if (kind >= ARRAY_LEN(kinds) || !kinds[kind].apply) {
        fsm_fail(outcome, FSM_UNSUPPORTED, "a command that this version does not know");
        return;
    }
    if (!fsm->initialised && kind != XCE__V1__COMMAND__KIND_INIT) {
        fsm_fail(outcome, FSM_PRECONDITION, "the state is not initialised yet");
        return;
    }
    if (fsm->initialised)
        requests_age(fsm);
    if (kinds[kind].copies != COPIES_OWN && command->request && command->request->id.len) {
        run_request(fsm, command, outcome);
        return;
    }
    kinds[kind].apply(fsm, command, outcome);
    waits_settle(fsm);
}

int fsm_apply(struct fsm *fsm, const uint8_t *bytes, size_t len, const struct fsm_hooks *hooks)
{
    struct command_entry entry;
    struct fsm_outcome outcome;
    const char *what;
    int r;

    r = command_entry_decode(&fsm->arena, bytes, len, &entry, &what);
    if (r != 0)
        return r;
    if (entry.now_ms > fsm->now_ms)
        fsm->now_ms = entry.now_ms;
    fsm->wall_ms = entry.wall_ms;
    fsm->hooks = hooks;
    for (size_t i = 0; i < entry.n; i++) {
        outcome.code = FSM_OK;
        outcome.replayed = false;
        outcome.session = 0;
        outcome.origin = entry.commands[i]->origin;
        outcome.n_leases = 0;
        outcome.leases = NULL;
        outcome.message[0] = '\0';
        run(fsm, entry.commands[i], &outcome);
        outcome.revision = fsm->revision;
        outcome.now_ms = fsm->now_ms;
        if (hooks && hooks->outcome)
            hooks->outcome(i, &outcome, hooks->arg);
    }
    fsm->hooks = NULL;
    return 0;
}

/* ---- queries ---- */

uint64_t fsm_last_lease(const struct fsm *fsm)
{
    return fsm->last_lease;
}

uint64_t fsm_revision(const struct fsm *fsm)
{
    return fsm->revision;
}

int64_t fsm_now_ms(const struct fsm *fsm)
{
    return fsm->now_ms;
}

bool fsm_initialised(const struct fsm *fsm)
{
    return fsm->initialised;
}

const char *fsm_prefix(const struct fsm *fsm)
{
    return fsm->prefix;
}

const uint8_t *fsm_incarnation(const struct fsm *fsm)
{
    return fsm->incarnation;
}
