#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "leased/fsm/apply.h"
#include "leased/fsm/node.h"
#include "leased/fsm/pool.h"

char *apply_span(int64_t ms, char ret[static TEXT_DURATION_BUF])
{
    if (ms >= 0)
        return text_format_duration(ms, ret);
    (void)snprintf(ret, TEXT_DURATION_BUF, "%" PRId64 "ms", ms);
    return ret;
}

bool apply_ttl(const struct fsm_pool *pool, int64_t ttl_ms, struct fsm_outcome *outcome)
{
    const struct fsm_settings *settings = &pool->settings;
    char asked[TEXT_DURATION_BUF], least[TEXT_DURATION_BUF], most[TEXT_DURATION_BUF];

    if (ttl_ms >= settings->ttl_min_ms && ttl_ms <= settings->ttl_max_ms)
        return true;
    fsm_fail(outcome, FSM_INVALID, "ttl of %s: pool %s allows %s to %s", apply_span(ttl_ms, asked),
             pool->name, apply_span(settings->ttl_min_ms, least),
             apply_span(settings->ttl_max_ms, most));
    return false;
}

void *apply_alloc(struct fsm *fsm, size_t size)
{
    void *bytes = pb_arena_alloc(&fsm->arena, size);

    if (!bytes)
        abort();
    return bytes;
}

bool apply_text(ProtobufCBinaryData text, const char *field, size_t max, bool empty_ok,
                struct fsm_outcome *outcome)
{
    int r = text.len || empty_ok ? text_check(text.data, text.len, max, NULL) : TEXT_EMPTY;

    if (r == 0)
        return true;
    if (r == TEXT_TOO_LONG)
        fsm_fail(outcome, FSM_INVALID, "%s: longer than %zu bytes", field, max);
    else
        fsm_fail(outcome, FSM_INVALID, "%s: %s", field, text_outcome_text(r));
    return false;
}

const char *apply_string(struct fsm *fsm, ProtobufCBinaryData text)
{
    char *copy = apply_alloc(fsm, text.len + 1);

    if (text.len)
        memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    return copy;
}

const char *apply_note(struct fsm *fsm, ProtobufCBinaryData text)
{
    size_t len = text.len < APPLY_NOTE_MAX ? text.len : APPLY_NOTE_MAX;

    while (len < text.len && len > 0 && (text.data[len] & 0xc0) == 0x80)
        len--;
    if (!len || text_check(text.data, len, APPLY_NOTE_MAX, NULL) != 0)
        return NULL;
    return apply_string(fsm, (ProtobufCBinaryData){len, text.data});
}

const char *apply_actor(struct fsm *fsm, const Xce__V1__Command *command)
{
    return command->request ? apply_note(fsm, command->request->principal) : NULL;
}

struct node *apply_session(struct fsm *fsm, ProtobufCBinaryData name, uint64_t session,
                           struct fsm_outcome *outcome)
{
    struct node *node = node_find(fsm, name.data, name.len);

    if (!node) {
        fsm_fail(outcome, FSM_IGNORED, "from a node that is not registered");
        return NULL;
    }
    if (!session || node->pub.session != session) {
        fsm_fail(outcome, FSM_IGNORED, "node %s: session %llu is over", node->pub.name,
                 (unsigned long long)session);
        return NULL;
    }
    return node;
}

struct node *apply_node(struct fsm *fsm, ProtobufCBinaryData name, struct fsm_outcome *outcome)
{
    struct node *node;

    if (!apply_text(name, "node", APPLY_NAME_MAX, false, outcome))
        return NULL;
    node = node_find(fsm, name.data, name.len);
    if (!node)
        fsm_fail(outcome, FSM_NOT_FOUND, "node %s is not registered", apply_string(fsm, name));
    return node;
}

struct pool *apply_pool(struct fsm *fsm, ProtobufCBinaryData name, struct fsm_outcome *outcome)
{
    struct pool *pool;

    if (!apply_text(name, "pool", APPLY_POOL_MAX, false, outcome))
        return NULL;
    pool = pool_find(fsm, name.data, name.len);
    if (!pool)
        fsm_fail(outcome, FSM_NOT_FOUND, "pool %s does not exist", apply_string(fsm, name));
    return pool;
}
