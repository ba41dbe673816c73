#include "leased/fsm/command.h"

#include <errno.h>
#include <string.h>

#include "leased/fsm/fsm.h"

/* Protobuf keys of Entry: field number << 3 | wire type. */
enum {
    KEY_NOW = 1 << 3 | 0,
    KEY_WALL = 2 << 3 | 0,
    KEY_COMMAND = 3 << 3 | 2,
};

/* ---- writing ---- */

static void put_varint(struct buf *buf, uint64_t value)
{
    uint8_t bytes[10];
    size_t n = 0;

    do {
        bytes[n++] = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value);
    buf_add(buf, bytes, n);
}

void command_entry_begin(struct buf *entry, int64_t now_ms, int64_t wall_ms)
{
    buf_reset(entry);
    buf_put_u8(entry, COMMAND_VERSION);
    buf_put_u8(entry, KEY_NOW);
    put_varint(entry, (uint64_t)now_ms);
    buf_put_u8(entry, KEY_WALL);
    put_varint(entry, (uint64_t)wall_ms);
}

void command_entry_append(struct buf *entry, const uint8_t *command, size_t len)
{
    buf_put_u8(entry, KEY_COMMAND);
    put_varint(entry, len);
    buf_add(entry, command, len);
}

int command_entry_finish(const struct buf *entry)
{
    int r = buf_error(entry);
    size_t i = 2;

    if (r < 0)
        return r;
    /* Two varints of times, then commands: is there anything behind the times? */
    for (int times = 0; times < 2; times++) {
        while ((uint8_t)entry->data[i] & 0x80)
            i++;
        i += times ? 1 : 2;
    }
    return i < entry->len ? 0 : -EINVAL;
}

/* ---- reading ---- */

struct reader {
    const uint8_t *at, *end;
};

static bool get_varint(struct reader *r, uint64_t *ret)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64 && r->at < r->end; shift += 7) {
        uint8_t byte = *r->at++;

        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *ret = value;
            return true;
        }
    }
    return false;
}

static bool get_time(struct reader *r, int64_t *ret)
{
    uint64_t value;

    if (!get_varint(r, &value) || value > (uint64_t)COMMAND_TIME_MAX)
        return false;
    *ret = (int64_t)value;
    return true;
}

/* The bytes of the next command; steps over the times and fills them in. NULL at the end and when it is damaged. */
static const char *next(struct reader *r, struct command_entry *entry, const uint8_t **ret_at,
                        size_t *ret_len)
{
    uint64_t len;

    *ret_at = NULL;
    while (r->at < r->end) {
        switch (*r->at++) {
        case KEY_NOW:
            if (!get_time(r, &entry->now_ms))
                return "now_ms is cut short or out of range";
            break;
        case KEY_WALL:
            if (!get_time(r, &entry->wall_ms))
                return "wall_ms is cut short or out of range";
            break;
        case KEY_COMMAND:
            if (!get_varint(r, &len) || len > (size_t)(r->end - r->at))
                return "a command is cut short";
            *ret_at = r->at;
            *ret_len = (size_t)len;
            r->at += len;
            return NULL;
        default:
            return "a field that an entry does not have";
        }
    }
    return NULL;
}

static const char *count(const uint8_t *bytes, size_t len, struct command_entry *entry)
{
    struct reader r = {bytes, bytes + len};
    const char *wrong;
    const uint8_t *at;
    size_t n;

    for (;;) {
        wrong = next(&r, entry, &at, &n);
        if (wrong)
            return wrong;
        if (!at)
            return entry->n ? NULL : "no command in it";
        entry->n++;
    }
}

static void *allocate(void *arena, size_t size)
{
    return pb_arena_alloc(arena, size);
}

static void forget(void *arena, void *pointer)
{
    /* The reset takes everything back. */
}

int command_entry_decode(struct pb_arena *arena, const uint8_t *bytes, size_t len,
                         struct command_entry *ret, const char **what)
{
    ProtobufCAllocator allocator = {allocate, forget, arena};
    struct command_entry entry = {0};
    struct reader r;
    const uint8_t *at;
    size_t n;

    pb_arena_reset(arena);
    *what = len ? NULL : "empty";
    if (!*what && len > COMMAND_ENTRY_MAX)
        *what = "longer than 16 MiB";
    if (!*what && bytes[0] != COMMAND_VERSION) {
        *what = "of another version";
        return FSM_UNSUPPORTED;
    }
    if (!*what)
        *what = count(bytes + 1, len - 1, &entry);
    if (*what)
        return -EBADMSG;
    entry.commands = pb_arena_alloc(arena, entry.n * sizeof(Xce__V1__Command *));
    if (!entry.commands)
        return -ENOMEM;
    r = (struct reader){bytes + 1, bytes + len};
    for (size_t i = 0; i < entry.n; i++) {
        (void)next(&r, &entry, &at, &n);
        entry.commands[i] = xce__v1__command__unpack(&allocator, n, at);
        if (!entry.commands[i] && arena->error)
            return arena->error;
        if (!entry.commands[i]) {
            *what = "a command that is no Command";
            return -EBADMSG;
        }
    }
    *ret = entry;
    return 0;
}
