#include "leased/watch/lease_wire.h"

#include <stdbool.h>
#include <string.h>

#include "common/text.h"
#include "leased/watch/lease_proto.h"

#define VARINT_MAX 10u
/* A tag (numbers up to 22 take two bytes) and a varint. */
#define FIELD_MAX (2u + VARINT_MAX)
/* Numbers of a lease and of its owner, reasons and causes with their words. */
#define FIXED_MAX 512u

enum wire_type {
    WIRE_VARINT = 0,
    WIRE_BYTES = 2,
};

static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

static size_t varint_len(uint64_t value)
{
    size_t n = 1;

    for (; value >= 0x80; value >>= 7)
        n++;
    return n;
}

static uint8_t *put_number(uint8_t *at, unsigned field, uint64_t value)
{
    if (value == 0)
        return at;
    return put_varint(put_varint(at, field << 3 | WIRE_VARINT), value);
}

static uint8_t *put_bytes(uint8_t *at, unsigned field, const void *bytes, size_t len)
{
    at = put_varint(put_varint(at, field << 3 | WIRE_BYTES), len);
    memcpy(at, bytes, len);
    return at + len;
}

static uint8_t *put_text(uint8_t *at, unsigned field, const char *text)
{
    return text && *text ? put_bytes(at, field, text, strlen(text)) : at;
}

static size_t text_len(const char *text)
{
    return text ? strlen(text) : 0;
}

/* Members are below 16 in number of fields: one byte of tag each. */
static size_t text_field_len(const char *text)
{
    size_t len = text_len(text);

    return len ? 1 + varint_len(len) + len : 0;
}

/* ---- parts ---- */

static uint8_t *put_owner(uint8_t *at, const struct fsm_owner *owner)
{
    uint8_t bytes[3 * FIELD_MAX + TEXT_OWNER_MAX], *end = bytes;

    end = put_text(end, 1, owner->name);
    end = put_number(end, 2, owner->uid);
    end = put_number(end, 3, owner->gid);
    return put_bytes(at, 8, bytes, (size_t)(end - bytes));
}

static uint8_t *put_member(uint8_t *at, const struct fsm_member *member)
{
    size_t len = text_field_len(member->node->name) + text_field_len(member->reason) +
                 text_field_len(member->detail) + (member->proof ? 2 : 0) +
                 (member->released ? 2 : 0);

    at = put_varint(put_varint(at, 9 << 3 | WIRE_BYTES), len);
    at = put_text(at, 1, member->node->name);
    at = put_number(at, 2, (uint64_t)member->proof);
    at = put_text(at, 3, member->reason);
    at = put_text(at, 4, member->detail);
    return put_number(at, 5, member->released);
}

static uint8_t *put_gids(uint8_t *at, const struct fsm_lease *lease)
{
    size_t len = 0;

    if (!lease->n_gids)
        return at;
    for (uint32_t i = 0; i < lease->n_gids; i++)
        len += varint_len(lease->gids[i]);
    at = put_varint(put_varint(at, 16 << 3 | WIRE_BYTES), len);
    for (uint32_t i = 0; i < lease->n_gids; i++)
        at = put_varint(at, lease->gids[i]);
    return at;
}

static uint8_t *put_reasons(uint8_t *at, uint32_t quarantine)
{
    const char *words[LEASE_PROTO_REASONS];
    size_t n = lease_proto_reasons(quarantine, words);

    at = put_number(at, 11, n > 0);
    for (size_t i = 0; i < n; i++)
        at = put_text(at, 12, words[i]);
    return at;
}

/* ---- the whole ---- */

size_t lease_wire_bound(const struct fsm *fsm, const struct fsm_lease *lease)
{
    const struct fsm_pool *pool = fsm_pool(fsm, lease->pool);
    size_t bound = FIXED_MAX + text_len(lease->pool) + text_len(lease->job) +
                   text_len(lease->owner.name) + (size_t)lease->n_gids * VARINT_MAX;

    if (pool)
        bound += text_len(pool->settings.home) + text_len(pool->settings.shell);
    for (uint32_t i = 0; i < lease->n_members; i++)
        bound += 6 * FIELD_MAX + text_len(lease->members[i].node->name) +
                 text_len(lease->members[i].reason) + text_len(lease->members[i].detail);
    return bound;
}

size_t lease_wire(const struct fsm *fsm, const struct fsm_lease *lease, int64_t wall_offset_ms,
                  uint8_t *ret)
{
    const struct fsm_pool *pool = fsm_pool(fsm, lease->pool);
    char name[NAME_BUF];
    uint8_t *at = ret;

    at = put_number(at, 1, lease->id);
    at = put_number(at, 2, lease->uid);
    at = put_number(at, 3, lease->uid);
    at = put_number(at, 4, lease->epoch);
    at = put_bytes(at, 5, name, name_encode(fsm_prefix(fsm), lease->uid, lease->epoch, name));
    at = put_text(at, 6, lease->pool);
    at = put_text(at, 7, lease->job);
    at = put_owner(at, &lease->owner);
    for (uint32_t i = 0; i < lease->n_members; i++)
        at = put_member(at, &lease->members[i]);
    at = put_number(at, 10, (uint64_t)lease->state);
    at = put_reasons(at, lease->quarantine);
    at = put_number(at, 14, lease->expires_ms ? (uint64_t)(lease->expires_ms + wall_offset_ms) : 0);
    at = put_number(at, 15, lease->revision);
    at = put_gids(at, lease);
    at = put_text(at, 17, pool ? pool->settings.home : NULL);
    at = put_text(at, 18, pool ? pool->settings.shell : NULL);
    at = put_number(at, 19, (uint64_t)lease->ttl_ms);
    at = put_number(at, 20, (uint64_t)lease->granted_wall_ms);
    at = put_number(at, 21, (uint64_t)lease->changed_wall_ms);
    at = put_text(at, 22, lease_proto_cause(lease->cause));
    return (size_t)(at - ret);
}
