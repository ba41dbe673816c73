/* The bytes of log entries, and what is made of commands that are none. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "leased/fsm/command.h"
#include "tests/lib/fsm_kit.h"

static struct kit kit;

static int start(void **state)
{
    kit_start(&kit, 4, 1);
    return 0;
}

static int end(void **state)
{
    kit_done(&kit);
    return 0;
}

struct entry {
    struct buf buf;
    struct pb_arena arena;
    struct command_entry decoded;
    const char *what;
};

static int decode(struct entry *e, const void *bytes, size_t len)
{
    return command_entry_decode(&e->arena, bytes, len, &e->decoded, &e->what);
}

static void entry_init(struct entry *e)
{
    *e = (struct entry){0};
    buf_init(&e->buf, COMMAND_ENTRY_MAX);
    pb_arena_init(&e->arena, PB_ARENA_MAX);
}

static void entry_done(struct entry *e)
{
    buf_done(&e->buf);
    pb_arena_done(&e->arena);
}

static void add_tick(struct entry *e, uint32_t at_most)
{
    Xce__V1__CmdTick tick = XCE__V1__CMD_TICK__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    uint8_t bytes[64];

    tick.at_most = at_most;
    command.kind_case = XCE__V1__COMMAND__KIND_TICK;
    command.tick = &tick;
    command_entry_append(&e->buf, bytes, xce__v1__command__pack(&command, bytes));
}

static void command_entry_comes_back_as_it_was_written(void **state)
{
    struct entry e;

    entry_init(&e);
    command_entry_begin(&e.buf, 123456789012, 1700000000000);
    assert_int_equal(command_entry_finish(&e.buf), -EINVAL);
    for (uint32_t i = 0; i < 1000; i++)
        add_tick(&e, i * 7);
    assert_int_equal(command_entry_finish(&e.buf), 0);
    assert_int_equal(decode(&e, e.buf.data, e.buf.len), 0);
    assert_int_equal(e.decoded.now_ms, 123456789012);
    assert_int_equal(e.decoded.wall_ms, 1700000000000);
    assert_int_equal(e.decoded.n, 1000);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(e.decoded.commands[i]->kind_case, XCE__V1__COMMAND__KIND_TICK);
        assert_int_equal(e.decoded.commands[i]->tick->at_most, i * 7);
    }
    entry_done(&e);
}

/* The same bytes as protobuf's own packing of an Entry, behind the version. */
static void command_entry_is_a_packed_entry(void **state)
{
    Xce__V1__Entry *entry;
    struct entry e;

    entry_init(&e);
    command_entry_begin(&e.buf, 1000, 2000);
    add_tick(&e, 5);
    entry = xce__v1__entry__unpack(NULL, e.buf.len - 1, (uint8_t *)e.buf.data + 1);
    assert_non_null(entry);
    assert_int_equal(e.buf.data[0], COMMAND_VERSION);
    assert_int_equal(entry->now_ms, 1000);
    assert_int_equal(entry->wall_ms, 2000);
    assert_int_equal(entry->n_commands, 1);
    assert_int_equal(entry->commands[0]->tick->at_most, 5);
    xce__v1__entry__free_unpacked(entry, NULL);
    entry_done(&e);
}

static void command_entry_that_is_none_is_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        int r;
    } rows[] = {
        {"", 0, -EBADMSG},
        {"\x01", 1, -EBADMSG},
        {"\x01\x08\x05", 3, -EBADMSG},
        {"\x02\x1a\x00", 3, FSM_UNSUPPORTED},
        {"\x00", 1, FSM_UNSUPPORTED},
        {"\x01\x1a\x05", 3, -EBADMSG},
        {"\x01\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, -EBADMSG},
        {"\x01\x1a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80", 13, -EBADMSG},
        {"\x01\x1a\x00\x22\x00", 5, -EBADMSG},
        {"\x01\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x1a\x00", 14, -EBADMSG},
        {"\x01\x08\x80\x80\x80\x80\x80\x80\x20\x1a\x00", 11, 0},
        {"\x01\x08\x81\x80\x80\x80\x80\x80\x20\x1a\x00", 11, -EBADMSG},
        {"\x01\x1a\x02\x52\x05", 5, -EBADMSG},
        {"\x01\x1a\x00", 3, 0},
    };
    struct entry e;

    entry_init(&e);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int r = decode(&e, rows[i].bytes, rows[i].len);

        if (r != rows[i].r)
            fail_msg("row %zu: %d %s", i, r, e.what ? e.what : "");
        assert_int_equal(e.what != NULL, r != 0);
    }
    entry_done(&e);
}

static void command_entry_damaged_anywhere_applies_nothing(void **state)
{
    struct entry e;
    uint64_t digest = fsm_digest(kit.fsm);

    entry_init(&e);
    command_entry_begin(&e.buf, kit.now_ms, 0);
    add_tick(&e, 1);
    command_entry_append(&e.buf, (const uint8_t *)"\x52\x05", 2);
    assert_int_equal(kit_apply_bytes(&kit, (uint8_t *)e.buf.data, e.buf.len), -EBADMSG);
    assert_int_equal(fsm_digest(kit.fsm), digest);
    assert_int_equal(kit_apply_bytes(&kit, (const uint8_t *)"\x07", 1), FSM_UNSUPPORTED);
    entry_done(&e);
}

static void command_that_is_not_known_is_skipped_the_same_everywhere(void **state)
{
    struct entry e;

    entry_init(&e);
    command_entry_begin(&e.buf, kit.now_ms, 0);
    command_entry_append(&e.buf, NULL, 0);
    assert_int_equal(kit_apply_bytes(&kit, (uint8_t *)e.buf.data, e.buf.len), 0);
    assert_int_equal(kit.out.code, FSM_UNSUPPORTED);
    /* Field 4000, length 2: a command of a later version. */
    command_entry_begin(&e.buf, kit.now_ms, 0);
    command_entry_append(&e.buf, (const uint8_t *)"\x82\xfa\x01\x02\x08\x01", 6);
    assert_int_equal(kit_apply_bytes(&kit, (uint8_t *)e.buf.data, e.buf.len), 0);
    assert_int_equal(kit.out.code, FSM_UNSUPPORTED);
    entry_done(&e);
}

static void command_before_init_is_refused(void **state)
{
    Xce__V1__CmdInit init = XCE__V1__CMD_INIT__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    uint8_t incarnation[16] = {0};
    static const char *const prefixes[] = {"",   "-",    "x",   "X-",
                                           "1-", "x-y-", "x.-", "abcdefghijklmnop-"};
    struct kit fresh;

    kit_init(&fresh);
    assert_int_equal(kit_tick(&fresh), FSM_PRECONDITION);
    assert_int_equal(kit_acquire(&fresh, &(struct kit_grant){0}), FSM_PRECONDITION);
    command.kind_case = XCE__V1__COMMAND__KIND_INIT;
    command.init = &init;
    init.incarnation = (ProtobufCBinaryData){16, incarnation};
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        init.prefix = (ProtobufCBinaryData){strlen(prefixes[i]), (uint8_t *)prefixes[i]};
        assert_int_equal(kit_apply(&fresh, &command), FSM_INVALID);
    }
    init.prefix = (ProtobufCBinaryData){3, (uint8_t *)"ab-"};
    init.incarnation.len = 15;
    assert_int_equal(kit_apply(&fresh, &command), FSM_INVALID);
    init.incarnation.len = 16;
    assert_int_equal(kit_apply(&fresh, &command), FSM_OK);
    assert_string_equal(fsm_prefix(fresh.fsm), "ab-");
    assert_int_equal(kit_apply(&fresh, &command), FSM_OK);
    incarnation[0] = 1;
    assert_int_equal(kit_apply(&fresh, &command), FSM_PRECONDITION);
    assert_int_equal(fsm_incarnation(fresh.fsm)[0], 0);
    kit_done(&fresh);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(command_entry_comes_back_as_it_was_written),
        TEST(command_entry_is_a_packed_entry),
        TEST(command_entry_that_is_none_is_refused),
        TEST(command_entry_damaged_anywhere_applies_nothing),
        TEST(command_that_is_not_known_is_skipped_the_same_everywhere),
        TEST(command_before_init_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
