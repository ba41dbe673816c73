#include "leased/fsm/token.h"

#include <inttypes.h>

#include "common/mem.h"
#include "common/text.h"
#include "leased/fsm/apply.h"

#define TOKEN_TTL_MAX_MS (INT64_C(30) * 24 * 3600 * 1000)
/* The answer to who spent it may be lost: so long he may ask again. */
#define TOKEN_AGAIN_MS (INT64_C(10) * 60 * 1000)
/* Of a token in a snapshot, at least. */
#define TOKEN_BYTES (2 * FSM_TOKEN_HASH + 4 + 1 + 8 + 1)

void tokens_done(struct tokens *tokens)
{
    free(tokens->items);
    memset(tokens, 0, sizeof(*tokens));
}

static struct token *find(const struct fsm *fsm, const uint8_t *hash)
{
    for (size_t i = 0; i < fsm->tokens.n; i++)
        if (!memcmp(fsm->tokens.items[i].hash, hash, FSM_TOKEN_HASH))
            return &fsm->tokens.items[i];
    return NULL;
}

static void drop_ended(struct fsm *fsm)
{
    struct tokens *tokens = &fsm->tokens;
    size_t kept = 0;

    for (size_t i = 0; i < tokens->n; i++)
        if (tokens->items[i].end_ms > fsm->now_ms)
            tokens->items[kept++] = tokens->items[i];
    tokens->n = kept;
}

static bool is_hash(ProtobufCBinaryData bytes, const char *field, struct fsm_outcome *outcome)
{
    if (bytes.len == FSM_TOKEN_HASH)
        return true;
    fsm_fail(outcome, FSM_INVALID, "%s: must be %d bytes", field, FSM_TOKEN_HASH);
    return false;
}

static bool is_node(struct fsm *fsm, ProtobufCBinaryData name, struct fsm_outcome *outcome)
{
    struct err err = {{0}};

    if (!apply_text(name, "node", APPLY_NAME_MAX, false, outcome))
        return false;
    if (text_check_node((const char *)name.data, name.len, &err) == 0)
        return true;
    fsm_fail(outcome, FSM_INVALID, "%s", err.text);
    return false;
}

void apply_token(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome)
{
    const Xce__V1__CmdToken *cmd = command->token;
    struct token *token;

    if (!is_node(fsm, cmd->node, outcome) || !is_hash(cmd->hash, "hash", outcome))
        return;
    if (cmd->ttl_ms <= 0 || cmd->ttl_ms > TOKEN_TTL_MAX_MS) {
        fsm_fail(outcome, FSM_INVALID, "ttl: must be above 0 and at most 30 days");
        return;
    }
    drop_ended(fsm);
    if (find(fsm, cmd->hash.data)) {
        fsm_fail(outcome, FSM_EXISTS, "there is such a token: make a new secret for each");
        return;
    }
    if (fsm->tokens.n == FSM_TOKENS_MAX) {
        fsm_fail(outcome, FSM_EXHAUSTED, "%d tokens are good already: wait until some have ended",
                 FSM_TOKENS_MAX);
        return;
    }
    mem_must_grow(&fsm->tokens.items, &fsm->tokens.cap, fsm->tokens.n + 1,
                  sizeof(*fsm->tokens.items));
    token = &fsm->tokens.items[fsm->tokens.n++];
    memset(token, 0, sizeof(*token));
    memcpy(token->hash, cmd->hash.data, FSM_TOKEN_HASH);
    memcpy(token->node, cmd->node.data, cmd->node.len);
    token->end_ms = fsm->now_ms + cmd->ttl_ms;
}

bool fsm_token_good(const struct fsm *fsm, int64_t now_ms, const uint8_t *hash, const uint8_t *key,
                    const char *node)
{
    const struct token *token = find(fsm, hash);

    return token && token->end_ms > now_ms && !strcmp(token->node, node) &&
           (!token->spent || !memcmp(token->key, key, FSM_TOKEN_HASH));
}

void apply_enroll(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome)
{
    const Xce__V1__CmdEnroll *cmd = command->enroll;
    struct token *token;

    if (!is_node(fsm, cmd->node, outcome) || !is_hash(cmd->hash, "hash", outcome) ||
        !is_hash(cmd->key, "key", outcome))
        return;
    if (!fsm_token_good(fsm, fsm->now_ms, cmd->hash.data, cmd->key.data,
                        apply_string(fsm, cmd->node))) {
        fsm_fail(outcome, FSM_NOT_FOUND, "no such token");
        return;
    }
    token = find(fsm, cmd->hash.data);
    if (!token->spent && token->end_ms > fsm->now_ms + TOKEN_AGAIN_MS)
        token->end_ms = fsm->now_ms + TOKEN_AGAIN_MS;
    token->spent = true;
    memcpy(token->key, cmd->key.data, FSM_TOKEN_HASH);
}

/* ---- snapshot ---- */

void tokens_put(struct encoder *e, const struct tokens *tokens)
{
    put_u32(e, (uint32_t)tokens->n);
    for (size_t i = 0; i < tokens->n; i++) {
        const struct token *token = &tokens->items[i];

        put_bytes(e, token->hash, sizeof(token->hash));
        put_bytes(e, token->key, sizeof(token->key));
        put_text(e, token->node);
        put_i64(e, token->end_ms);
        put_u8(e, token->spent);
    }
}

static void get_token(struct decoder *d, struct token *ret)
{
    const uint8_t *hash = get_bytes(d, sizeof(ret->hash)), *key = get_bytes(d, sizeof(ret->key));
    struct text_view node = get_name(d, APPLY_NAME_MAX);

    memset(ret, 0, sizeof(*ret));
    ret->end_ms = get_span(d, INT64_MAX);
    ret->spent = get_bool(d);
    if (d->wrong)
        return;
    memcpy(ret->hash, hash, sizeof(ret->hash));
    memcpy(ret->key, key, sizeof(ret->key));
    memcpy(ret->node, node.text, node.len);
    if (text_check_node(node.text, node.len, NULL) < 0)
        (void)decoder_fail(d, "a token of a node that has no name");
}

void tokens_get(struct decoder *d, struct tokens *ret)
{
    uint32_t n = get_count(d, TOKEN_BYTES, FSM_TOKENS_MAX);

    mem_must_grow(&ret->items, &ret->cap, n, sizeof(*ret->items));
    for (; n && !d->wrong; n--)
        get_token(d, &ret->items[ret->n++]);
}
