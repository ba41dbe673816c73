#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/buf.h"
#include "common/pb.h"
#include "tests/lib/fault.h"
#include "xce/v1/lease.pb-c.h"

#define ACQUIRE &xce__v1__acquire_request__descriptor
#define LEASE   &xce__v1__lease__descriptor
#define LIST    &xce__v1__list_leases_request__descriptor

static ProtobufCBinaryData bytes_of(const char *text)
{
    return (ProtobufCBinaryData){.data = (uint8_t *)text, .len = strlen(text)};
}

/* A usual request, packed. */
static size_t pack_acquire(uint8_t ret[static 512])
{
    Xce__V1__AcquireRequest request = XCE__V1__ACQUIRE_REQUEST__INIT;
    Xce__V1__RequestId id = XCE__V1__REQUEST_ID__INIT;
    Xce__V1__LeaseSpec spec = XCE__V1__LEASE_SPEC__INIT, *specs[2] = {&spec, &spec};
    ProtobufCBinaryData nodes[2] = {bytes_of("n1"), bytes_of("n2")};
    uint32_t gids[3] = {100, 200, 300000};

    id.id = bytes_of("0123456789abcdef");
    id.issued_at_ms = 1234567890;
    spec.pool = bytes_of("default");
    spec.job = bytes_of("j1");
    spec.lifetime_case = XCE__V1__LEASE_SPEC__LIFETIME_TTL_MS;
    spec.ttl_ms = 60000;
    spec.nodes = nodes;
    spec.n_nodes = 2;
    spec.gids = gids;
    spec.n_gids = 3;
    request.request = &id;
    request.leases = specs;
    request.n_leases = 2;
    request.wait = 1;
    assert_true(xce__v1__acquire_request__get_packed_size(&request) <= 512);
    return xce__v1__acquire_request__pack(&request, ret);
}

static void pb_flag_finds_a_bool_by_its_name(void **state)
{
    Xce__V1__AcquireRequest request = XCE__V1__ACQUIRE_REQUEST__INIT;

    assert_ptr_equal(pb_flag(&request.base, "wait"), &request.wait);
    assert_null(pb_flag(&request.base, "leases"));
    assert_null(pb_flag(&request.base, "stale"));
}

static void pb_unpack_gives_what_was_packed(void **state)
{
    struct pb_arena arena;
    ProtobufCMessage *message;
    const Xce__V1__AcquireRequest *request;
    uint8_t bytes[512];
    size_t len = pack_acquire(bytes), i;
    struct err err;

    pb_arena_init(&arena, PB_ARENA_MAX);
    for (i = 0; i < 3; i++) {
        assert_int_equal(pb_unpack(&arena, ACQUIRE, bytes, len, &message, &err), 0);
        request = (const Xce__V1__AcquireRequest *)message;
        assert_int_equal(request->n_leases, 2);
        assert_int_equal(request->leases[1]->ttl_ms, 60000);
        assert_int_equal(request->leases[1]->gids[2], 300000);
        assert_memory_equal(request->leases[0]->nodes[1].data, "n2", 2);
        assert_true(request->wait);
        pb_arena_reset(&arena);
    }
    pb_arena_done(&arena);
}

static void pb_unpack_empty_message_is_fine(void **state)
{
    struct pb_arena arena;
    ProtobufCMessage *message = NULL;

    pb_arena_init(&arena, PB_ARENA_MAX);
    assert_int_equal(pb_unpack(&arena, ACQUIRE, NULL, 0, &message, NULL), 0);
    assert_ptr_equal(message->descriptor, ACQUIRE);
    pb_arena_done(&arena);
}

#define BYTES(literal) (literal), sizeof(literal) - 1

struct row {
    const ProtobufCMessageDescriptor *type;
    const char *bytes;
    size_t len;
    const char *error; /* NULL = good */
};

static void pb_check_table(void **state)
{
    static const struct row rows[] = {
        {ACQUIRE, BYTES("\x18\x01"), NULL},
        {ACQUIRE, BYTES("\x18"),
         "AcquireRequest: field 3 (wire type 0) is cut short or of no known form"},
        {ACQUIRE, BYTES("\x1a\x00"), "AcquireRequest.wait: is of another type"},
        {ACQUIRE, BYTES("\x12\x05\x12\x02j1"),
         "AcquireRequest: field 2 (wire type 2) is cut short or of no known form"},
        {ACQUIRE, BYTES("\x12\x04\x12\x02j1"), NULL},
        {ACQUIRE, BYTES("\x12\x02\x10\x01"), "AcquireRequest.leases[0].job: is of another type"},
        {ACQUIRE, BYTES("\x12\x00\x18\x01\x12\x00\x12\x02\x10\x01"),
         "AcquireRequest.leases[2].job: is of another type"},
        {ACQUIRE, BYTES("\x00\x00"), "AcquireRequest: a field's number is damaged"},
        {ACQUIRE, BYTES("\xff\xff\xff\xff\xff\x01"), "AcquireRequest: a field's number is damaged"},
        {ACQUIRE, BYTES("\xff\xff\xff\xff\x1f\x00"), "AcquireRequest: a field's number is damaged"},
        /* unknown fields of each form are let through; groups and reserved wire types are not */
        {ACQUIRE, BYTES("\x50\x01"), NULL},
        {ACQUIRE,
         BYTES("\x51"
               "12345678"),
         NULL},
        {ACQUIRE,
         BYTES("\x52\x03"
               "abc"),
         NULL},
        {ACQUIRE,
         BYTES("\x55"
               "1234"),
         NULL},
        {ACQUIRE, BYTES("\xf8\xff\xff\xff\x0f\x01"), NULL},
        {ACQUIRE,
         BYTES("\x51"
               "1234567"),
         "AcquireRequest: field 10 (wire type 1) is cut short or of no known form"},
        {ACQUIRE, BYTES("\x53\x54"),
         "AcquireRequest: field 10 (wire type 3) is cut short or of no known form"},
        {ACQUIRE, BYTES("\x54"),
         "AcquireRequest: field 10 (wire type 4) is cut short or of no known form"},
        {ACQUIRE, BYTES("\x56\x00"),
         "AcquireRequest: field 10 (wire type 6) is cut short or of no known form"},
        {ACQUIRE, BYTES("\x52\xff\xff\xff\xff\x0f"),
         "AcquireRequest: field 10 (wire type 2) is cut short or of no known form"},
        {ACQUIRE, BYTES("\x52\xff\xff\xff\xff\xff\x01"),
         "AcquireRequest: field 10 (wire type 2) is cut short or of no known form"},
        {ACQUIRE, BYTES("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), NULL},
        {ACQUIRE, BYTES("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
         "AcquireRequest: field 3 (wire type 0) is cut short or of no known form"},
        /* repeated numbers: packed and not */
        {LIST, BYTES("\x32\x03\x01\x02\x03"), NULL},
        {LIST, BYTES("\x30\x01\x30\x02"), NULL},
        {LIST, BYTES("\x32\x02\x01\x82"), "ListLeasesRequest.states[0]: is cut short"},
        {LIST, BYTES("\x40\x01\x42\x01\x01"), "ListLeasesRequest.page_size: is of another type"},
        /* strings: UTF-8 without NUL; bytes: anything */
        {LEASE, BYTES("\x2a\x02n\n"), NULL},
        {LEASE, BYTES("\x2a\x03n\0m"), "Lease.name: holds a NUL byte"},
        {LEASE, BYTES("\x2a\x02n\xff"), "Lease.name: is not UTF-8"},
        {LEASE,
         BYTES("\x62\x01"
               "a\x62\x01\xff"),
         "Lease.reasons[1]: is not UTF-8"},
        {LEASE, BYTES("\x42\x03\x0a\x01\xc0"), "Lease.owner.name: is not UTF-8"},
        {LIST, BYTES("\x12\x03\xff\0a"), NULL},
    };
    struct err err;
    size_t i;
    int r;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        err.text[0] = '\0';
        r = pb_check(rows[i].type, (const uint8_t *)rows[i].bytes, rows[i].len, &err);
        assert_string_equal(err.text, rows[i].error ? rows[i].error : "");
        assert_int_equal(r, rows[i].error ? -EBADMSG : 0);
    }
}

/* What the check lets through, protobuf-c takes; what is cut off anywhere, one of them refuses, and nothing is read
 * beyond the end (a sanitizer sees to that: the copy has exactly the length). */
static void pb_unpack_cut_off_anywhere_never_reads_beyond(void **state)
{
    struct pb_arena arena;
    ProtobufCMessage *message;
    uint8_t bytes[512], *copy;
    size_t len = pack_acquire(bytes), cut;
    int r;

    pb_arena_init(&arena, PB_ARENA_MAX);
    for (cut = 0; cut <= len; cut++) {
        copy = malloc(cut ? cut : 1);
        memcpy(copy, bytes, cut);
        r = pb_unpack(&arena, ACQUIRE, copy, cut, &message, NULL);
        assert_int_equal(r, pb_check(ACQUIRE, copy, cut, NULL));
        free(copy);
        pb_arena_reset(&arena);
    }
    pb_arena_done(&arena);
}

/* A message type that holds itself: what a recursive one would do to the stack. */
static const ProtobufCMessageDescriptor recursive;
static const ProtobufCFieldDescriptor recursive_field = {
    .name = "inner",
    .id = 1,
    .label = PROTOBUF_C_LABEL_NONE,
    .type = PROTOBUF_C_TYPE_MESSAGE,
    .offset = sizeof(ProtobufCMessage),
    .descriptor = &recursive,
};
static const unsigned recursive_by_name[] = {0};
static const ProtobufCIntRange recursive_ranges[] = {{1, 0}, {0, 1}};
static const ProtobufCMessageDescriptor recursive = {
    .magic = PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC,
    .name = "test.Nest",
    .short_name = "Nest",
    .sizeof_message = sizeof(ProtobufCMessage) + sizeof(void *),
    .n_fields = 1,
    .fields = &recursive_field,
    .fields_sorted_by_name = recursive_by_name,
    .n_field_ranges = 1,
    .field_ranges = recursive_ranges,
};

static size_t nest(unsigned depth, uint8_t ret[static 32])
{
    size_t len = 0, i;

    for (i = 1; i < depth; i++) {
        memmove(ret + 2, ret, len);
        ret[0] = 0x0a;
        ret[1] = (uint8_t)len;
        len += 2;
    }
    return len;
}

static void pb_check_depth_is_limited(void **state)
{
    uint8_t bytes[32];
    struct err err;

    assert_int_equal(pb_check(&recursive, bytes, nest(PB_DEPTH_MAX, bytes), &err), 0);
    assert_int_equal(pb_check(&recursive, bytes, nest(PB_DEPTH_MAX + 1, bytes), &err), -E2BIG);
    assert_string_equal(err.text, "Nest.inner.inner.inner.inner.inner.inner.inner.inner: "
                                  "the message is nested too deeply");
}

static void pb_check_number_of_fields_is_limited(void **state)
{
    static uint8_t bytes[2 * (PB_FIELDS_MAX + 1) + 8];
    size_t n = PB_FIELDS_MAX, i;
    struct err err;

    for (i = 0; i <= n; i++)
        memcpy(bytes + 2 * i, "\x12\x00", 2);
    assert_int_equal(pb_check(ACQUIRE, bytes, 2 * n, &err), 0);
    assert_int_equal(pb_check(ACQUIRE, bytes, 2 * (n + 1), &err), -E2BIG);
    assert_string_equal(err.text, "AcquireRequest: the message has too many fields");
    /* Elements of a packed field count as well; so do fields that nobody knows. */
    memcpy(bytes, "\x32\xff\xff\x0f", 4);
    memset(bytes + 4, 1, 0x3ffff);
    assert_int_equal(pb_check(LIST, bytes, 4 + 0x3ffff, &err), 0);
    memcpy(bytes, "\x32\x80\x80\x10", 4);
    memset(bytes + 4, 1, 0x40000);
    assert_int_equal(pb_check(LIST, bytes, 4 + 0x40000, &err), -E2BIG);
    for (i = 0; i <= n; i++)
        memcpy(bytes + 2 * i, "\x50\x00", 2);
    assert_int_equal(pb_check(ACQUIRE, bytes, 2 * (n + 1), &err), -E2BIG);
}

static void pb_unpack_arena_limit_is_an_error(void **state)
{
    struct pb_arena arena;
    ProtobufCMessage *message;
    uint8_t bytes[4000];
    struct err err;
    size_t i;

    for (i = 0; i < sizeof(bytes); i += 2)
        memcpy(bytes + i, "\x12\x00", 2);
    pb_arena_init(&arena, 64 << 10);
    assert_int_equal(pb_unpack(&arena, ACQUIRE, bytes, sizeof(bytes), &message, &err), -ENOBUFS);
    assert_string_equal(err.text, "AcquireRequest: takes too much memory");
    pb_arena_reset(&arena);
    assert_int_equal(pb_unpack(&arena, ACQUIRE, bytes, 40, &message, &err), 0);
    pb_arena_done(&arena);
}

static void pb_arena_memory_is_aligned_apart_and_bounded(void **state)
{
    struct pb_arena arena;
    uint8_t *last = NULL, *p;
    size_t i, given = 0;

    pb_arena_init(&arena, 1 << 20);
    for (i = 1;; i = (i * 7 + 13) % 3000 + 1) {
        p = pb_arena_alloc(&arena, i);
        if (!p)
            break;
        assert_int_equal((uintptr_t)p % 16, 0);
        assert_ptr_not_equal(p, last);
        memset(p, 0xa5, i);
        last = p;
        given += i;
    }
    assert_true(given > 1 << 19 && given <= 1 << 20);
    assert_true(arena.used <= 1 << 20);
    assert_null(pb_arena_alloc(&arena, SIZE_MAX));
    pb_arena_reset(&arena);
    assert_true(arena.used <= 256 << 10);
    assert_non_null(pb_arena_alloc(&arena, 1000));
    pb_arena_done(&arena);
    pb_arena_done(&arena);
}

static int unpack_once(void *arg)
{
    struct pb_arena arena;
    ProtobufCMessage *message;
    uint8_t bytes[512];
    int r;

    pb_arena_init(&arena, PB_ARENA_MAX);
    r = pb_unpack(&arena, ACQUIRE, bytes, pack_acquire(bytes), &message, NULL);
    pb_arena_done(&arena);
    return r;
}

static void pb_unpack_without_memory_is_enomem(void **state)
{
    assert_int_equal(fault_each_allocation(unpack_once, NULL, -ENOMEM), 2);
}

/* Once the arena has grown, an unpack takes no memory from malloc at all. */
static void pb_unpack_in_a_grown_arena_allocates_nothing(void **state)
{
    struct pb_arena arena;
    ProtobufCMessage *message;
    uint8_t bytes[512];
    size_t len = pack_acquire(bytes);

    pb_arena_init(&arena, PB_ARENA_MAX);
    assert_int_equal(pb_unpack(&arena, ACQUIRE, bytes, len, &message, NULL), 0);
    pb_arena_reset(&arena);
    fault_memory_from(1);
    assert_int_equal(pb_unpack(&arena, ACQUIRE, bytes, len, &message, NULL), 0);
    assert_false(fault_end());
    pb_arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pb_flag_finds_a_bool_by_its_name),
        cmocka_unit_test(pb_unpack_gives_what_was_packed),
        cmocka_unit_test(pb_unpack_empty_message_is_fine),
        cmocka_unit_test(pb_check_table),
        cmocka_unit_test(pb_unpack_cut_off_anywhere_never_reads_beyond),
        cmocka_unit_test(pb_check_depth_is_limited),
        cmocka_unit_test(pb_check_number_of_fields_is_limited),
        cmocka_unit_test(pb_unpack_arena_limit_is_an_error),
        cmocka_unit_test(pb_arena_memory_is_aligned_apart_and_bounded),
        cmocka_unit_test(pb_unpack_without_memory_is_enomem),
        cmocka_unit_test(pb_unpack_in_a_grown_arena_allocates_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
