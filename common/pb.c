#include "common/pb.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/text.h"

/* Where the walk stands at one depth: in the message that begins at start, in its field. */
struct frame {
    const ProtobufCMessageDescriptor *type;
    const uint8_t *start, *at; /* at: the tag of the field */
    const ProtobufCFieldDescriptor *field;
};

struct walk {
    struct frame frames[PB_DEPTH_MAX];
    unsigned depth; /* frames in use */
    size_t fields;
    struct err *err;
};

/* ---- wire form ---- */

/* The bytes of the varint at in: 1..most, 0 = cut short or too long. */
static size_t varint_len(const uint8_t *in, const uint8_t *end, size_t most)
{
    size_t i;

    for (i = 0; i < most && in + i < end; i++)
        if (!(in[i] & 0x80))
            return i + 1;
    return 0;
}

/* A varint of up to five bytes: a tag or a length. */
static size_t read_u32(const uint8_t *in, const uint8_t *end, uint32_t *ret)
{
    size_t n, i;
    uint64_t value = 0;

    if (in < end && in[0] < 0x80) {
        *ret = in[0];
        return 1;
    }
    n = varint_len(in, end, 5);
    for (i = 0; i < n; i++)
        value |= (uint64_t)(in[i] & 0x7f) << (7 * i);
    if (value > UINT32_MAX)
        return 0;
    *ret = (uint32_t)value;
    return n;
}

/* Of a field's payload, tag left out: bytes in front (a length) and bytes of content. false = cut short, or no such wire
 * type. */
static bool measure(unsigned wire, const uint8_t *in, const uint8_t *end, size_t *ret_front,
                    size_t *ret_len)
{
    uint32_t len = 0;

    *ret_front = 0;
    switch (wire) {
    case PROTOBUF_C_WIRE_TYPE_VARINT:
        *ret_len = varint_len(in, end, 10);
        return *ret_len > 0;
    case PROTOBUF_C_WIRE_TYPE_64BIT:
        *ret_len = 8;
        break;
    case PROTOBUF_C_WIRE_TYPE_32BIT:
        *ret_len = 4;
        break;
    case PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED:
        *ret_front = read_u32(in, end, &len);
        *ret_len = len;
        if (*ret_front == 0)
            return false;
        break;
    default:
        return false;
    }
    return *ret_len <= (size_t)(end - in) - *ret_front;
}

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *type,
                                                  uint32_t number)
{
    /* Most of ours are numbered 1, 2, 3 without a gap. */
    if (number - 1 < type->n_fields && type->fields[number - 1].id == number)
        return &type->fields[number - 1];
    return protobuf_c_message_descriptor_get_field(type, number);
}

static unsigned wire_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return PROTOBUF_C_WIRE_TYPE_32BIT;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return PROTOBUF_C_WIRE_TYPE_64BIT;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED;
    default:
        return PROTOBUF_C_WIRE_TYPE_VARINT;
    }
}

/* ---- what to say: only here does speed not matter ---- */

/* How often the field of a frame came before where the frame stands. */
static size_t place_in_list(const struct frame *frame)
{
    const uint8_t *at = frame->start;
    size_t n = 0, front, len, tag_len;
    uint32_t tag;

    while (at < frame->at) {
        tag_len = read_u32(at, frame->at, &tag);
        if (tag_len == 0 || !measure(tag & 7, at + tag_len, frame->at, &front, &len))
            break;
        n += tag >> 3 == frame->field->id;
        at += tag_len + front + len;
    }
    return n;
}

/* "AcquireRequest.leases[3].job", then what is wrong. */
static int fail(const struct walk *walk, int r, const char *what)
{
    char path[160];
    const struct frame *frame;
    struct buf buf;
    unsigned i;

    buf_init_fixed(&buf, path, sizeof(path));
    buf_adds(&buf, walk->frames[0].type->short_name);
    for (i = 0; i < walk->depth; i++) {
        frame = &walk->frames[i];
        if (!frame->field)
            break;
        buf_addf(&buf, ".%s", frame->field->name);
        if (frame->field->label == PROTOBUF_C_LABEL_REPEATED)
            buf_addf(&buf, "[%zu]", place_in_list(frame));
    }
    return err_set(walk->err, r, "%s: %s", path, what);
}

static int fail_unknown(const struct walk *walk, uint32_t tag)
{
    char what[80];
    struct buf buf;

    buf_init_fixed(&buf, what, sizeof(what));
    buf_addf(&buf, "field %u (wire type %u) is cut short or of no known form", tag >> 3, tag & 7);
    return fail(walk, -EBADMSG, what);
}

/* ---- the walk ---- */

static int walk_message(struct walk *walk, const ProtobufCMessageDescriptor *type,
                        const uint8_t *bytes, size_t len);

static int count(struct walk *walk, size_t n)
{
    walk->fields += n;
    return walk->fields > PB_FIELDS_MAX ? fail(walk, -E2BIG, "the message has too many fields") : 0;
}

/* A run of numbers of a repeated field, without tags between them. */
static int check_packed(struct walk *walk, unsigned wire, const uint8_t *in, size_t len)
{
    const uint8_t *end = in + len;
    size_t n = 0, step;

    if (wire != PROTOBUF_C_WIRE_TYPE_VARINT) {
        step = wire == PROTOBUF_C_WIRE_TYPE_32BIT ? 4 : 8;
        return len % step ? fail(walk, -EBADMSG, "is cut short") : count(walk, len / step);
    }
    for (; in < end; in += step, n++) {
        step = varint_len(in, end, 10);
        if (step == 0)
            return fail(walk, -EBADMSG, "is cut short");
    }
    return count(walk, n);
}

static int check_string(struct walk *walk, const uint8_t *in, size_t len)
{
    int r = text_check_utf8(in, len, NULL);

    return r ? fail(walk, -EBADMSG, text_outcome_text(r)) : 0;
}

/* The payload of a known field. */
static int check_known(struct walk *walk, const ProtobufCFieldDescriptor *field, unsigned wire,
                       const uint8_t *in, size_t len)
{
    unsigned expected = wire_of(field->type);

    if (wire != expected) {
        if (wire == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED &&
            field->label == PROTOBUF_C_LABEL_REPEATED)
            return check_packed(walk, expected, in, len);
        return fail(walk, -EBADMSG, "is of another type");
    }
    if (field->type == PROTOBUF_C_TYPE_STRING)
        return check_string(walk, in, len);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return walk_message(walk, field->descriptor, in, len);
    return 0;
}

/* One field at *at, which moves behind it. */
static int walk_field(struct walk *walk, struct frame *frame, const uint8_t **at,
                      const uint8_t *end)
{
    size_t tag_len, front, len;
    uint32_t tag = 0;
    int r;

    frame->at = *at;
    frame->field = NULL;
    tag_len = read_u32(*at, end, &tag);
    if (tag_len == 0 || tag >> 3 == 0)
        return fail(walk, -EBADMSG, "a field's number is damaged");
    if (!measure(tag & 7, *at + tag_len, end, &front, &len))
        return fail_unknown(walk, tag);
    r = count(walk, 1);
    if (r < 0)
        return r;
    frame->field = find_field(frame->type, tag >> 3);
    if (frame->field)
        r = check_known(walk, frame->field, tag & 7, *at + tag_len + front, len);
    *at += tag_len + front + len;
    return r;
}

static int walk_message(struct walk *walk, const ProtobufCMessageDescriptor *type,
                        const uint8_t *bytes, size_t len)
{
    const uint8_t *at = bytes, *end = bytes + len;
    struct frame *frame;
    int r = 0;

    if (walk->depth == PB_DEPTH_MAX)
        return fail(walk, -E2BIG, "the message is nested too deeply");
    frame = &walk->frames[walk->depth++];
    frame->type = type;
    frame->start = bytes;
    frame->field = NULL;
    while (at < end && r == 0)
        r = walk_field(walk, frame, &at, end);
    walk->depth--;
    return r;
}

int pb_check(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t len,
             struct err *err)
{
    struct walk walk;

    walk.depth = 0;
    walk.fields = 0;
    walk.err = err;
    walk.frames[0].type = type;
    return walk_message(&walk, type, len ? bytes : (const uint8_t *)"", len);
}

/* ---- arena ---- */

#define CHUNK_FIRST 8192
/* A reset keeps a chunk of up to this, so that one large request does not stay in memory for ever. */
#define CHUNK_KEEP ((size_t)256 << 10)
#define ALIGN      16

struct pb_chunk {
    struct pb_chunk *older;
    size_t size; /* of data */
    _Alignas(ALIGN) uint8_t data[];
};

void pb_arena_init(struct pb_arena *arena, size_t max)
{
    *arena = (struct pb_arena){.max = max};
}

static void drop_chunk(struct pb_arena *arena)
{
    struct pb_chunk *chunk = arena->chunks;

    arena->chunks = chunk->older;
    arena->used -= chunk->size;
    free(chunk);
}

void pb_arena_done(struct pb_arena *arena)
{
    while (arena->chunks)
        drop_chunk(arena);
    pb_arena_init(arena, arena->max);
}

void pb_arena_reset(struct pb_arena *arena)
{
    struct pb_chunk *newest = arena->chunks;

    arena->error = 0;
    if (!newest)
        return;
    if (newest->size > CHUNK_KEEP) {
        pb_arena_done(arena);
        return;
    }
    arena->chunks = newest->older;
    while (arena->chunks)
        drop_chunk(arena);
    newest->older = NULL;
    arena->chunks = newest;
    arena->used = newest->size;
    arena->next = newest->data;
    arena->end = newest->data + newest->size;
}

/* A chunk with room for size bytes becomes the newest: twice the last one's size, if max allows. */
static int add_chunk(struct pb_arena *arena, size_t size)
{
    size_t left = arena->max - arena->used,
           want = arena->chunks ? arena->chunks->size * 2 : CHUNK_FIRST;
    struct pb_chunk *chunk;

    if (size > left)
        return -ENOBUFS;
    if (want < size)
        want = size;
    if (want > left)
        want = left;
    chunk = malloc(sizeof(*chunk) + want);
    if (!chunk)
        return -ENOMEM;
    chunk->older = arena->chunks;
    chunk->size = want;
    arena->chunks = chunk;
    arena->used += want;
    arena->next = chunk->data;
    arena->end = chunk->data + want;
    return 0;
}

void *pb_arena_alloc(struct pb_arena *arena, size_t size)
{
    uint8_t *p;
    int r;

    if (size > SIZE_MAX - (ALIGN - 1)) {
        arena->error = -ENOBUFS;
        return NULL;
    }
    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (size > (size_t)(arena->end - arena->next) || !arena->next) {
        r = add_chunk(arena, size);
        if (r < 0) {
            arena->error = r;
            return NULL;
        }
    }
    p = arena->next;
    arena->next += size;
    return p;
}

static void *allocate(void *data, size_t size)
{
    return pb_arena_alloc(data, size);
}

static void forget(void *data, void *pointer)
{
    /* The reset takes everything back. */
}

int pb_unpack(struct pb_arena *arena, const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
              size_t len, ProtobufCMessage **ret, struct err *err)
{
    ProtobufCAllocator allocator = {.alloc = allocate, .free = forget, .allocator_data = arena};
    ProtobufCMessage *message;
    int r;

    r = pb_check(type, bytes, len, err);
    if (r < 0)
        return r;
    arena->error = 0;
    message = protobuf_c_message_unpack(type, &allocator, len, bytes);
    if (!message) {
        r = arena->error ? arena->error : -EBADMSG;
        return err_set(err, r, "%s: %s", type->short_name,
                       r == -EBADMSG ? "is not such a message" : "takes too much memory");
    }
    *ret = message;
    return 0;
}

const protobuf_c_boolean *pb_flag(const ProtobufCMessage *message, const char *name)
{
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(
        message->descriptor, name);

    if (!field || field->type != PROTOBUF_C_TYPE_BOOL)
        return NULL;
    return (const protobuf_c_boolean *)((const uint8_t *)message + field->offset);
}
