#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/buf.h"
#include "common/text.h"
#include "tests/lib/fault.h"

static void buf_empty_is_a_string(void **state)
{
    struct buf buf = BUF_INIT(10);
    char *text = NULL;
    size_t len = 99;

    assert_string_equal(buf_str(&buf), "");
    assert_int_equal(buf_error(&buf), 0);
    assert_int_equal(buf_take(&buf, &text, &len), 0);
    assert_string_equal(text, "");
    assert_int_equal(len, 0);
    free(text);
    buf_done(&buf);
    buf_done(&buf);
}

static void buf_add_in_every_way_gives_the_whole(void **state)
{
    AUTO(buf_done) struct buf buf = BUF_INIT(1000);
    char *room;

    buf_adds(&buf, "a");
    buf_addc(&buf, 'b');
    buf_add(&buf, "c\0d", 3);
    buf_addf(&buf, "%d", -5);
    buf_add_u64(&buf, 0);
    buf_add_u64(&buf, UINT64_MAX);
    buf_add_hex(&buf, "\x00\xff\x1a", 3);
    room = buf_reserve(&buf, 4);
    memcpy(room, "xy", 2);
    buf_commit(&buf, 2);
    buf_add(&buf, NULL, 0);
    assert_int_equal(buf_error(&buf), 0);
    assert_int_equal(buf.len, 36);
    assert_memory_equal(buf.data,
                        "abc\0d-5018446744073709551615"
                        "00ff1a"
                        "xy",
                        37);
}

static void buf_add_little_endian(void **state)
{
    AUTO(buf_done) struct buf buf = BUF_INIT(100);

    buf_put_u8(&buf, 0x01);
    buf_put_u16(&buf, 0x0203);
    buf_put_u32(&buf, 0x04050607);
    buf_put_u64(&buf, 0x08090a0b0c0d0e0fU);
    assert_int_equal(buf.len, 15);
    assert_memory_equal(buf.data, "\x01\x03\x02\x07\x06\x05\x04\x0f\x0e\x0d\x0c\x0b\x0a\x09\x08",
                        15);
}

static void buf_limit_is_exact_and_sticks(void **state)
{
    AUTO(buf_done) struct buf buf = BUF_INIT(5);
    char *text = NULL;

    buf_adds(&buf, "abc");
    buf_adds(&buf, "de");
    assert_int_equal(buf_error(&buf), 0);
    buf_addc(&buf, 'f');
    assert_int_equal(buf_error(&buf), -ENOBUFS);
    buf_cut(&buf, 2);
    buf_adds(&buf, "");
    buf_adds(&buf, "x");
    assert_string_equal(buf_str(&buf), "ab");
    assert_int_equal(buf_error(&buf), -ENOBUFS);
    assert_int_equal(buf_take(&buf, &text, NULL), -ENOBUFS);
    assert_null(text);
    buf_adds(&buf, "again");
    assert_int_equal(buf_error(&buf), 0);
    assert_string_equal(buf_str(&buf), "again");
}

static void buf_fixed_never_leaves_its_memory(void **state)
{
    char memory[8] = "#######";
    struct buf buf;

    buf_init_fixed(&buf, memory, 5);
    assert_string_equal(memory, "");
    buf_addf(&buf, "%s", "abcd");
    assert_int_equal(buf_error(&buf), 0);
    buf_addc(&buf, 'e');
    assert_int_equal(buf_error(&buf), -ENOBUFS);
    assert_memory_equal(memory, "abcd\0##", 8);
    buf_done(&buf);
    assert_string_equal(memory, "");
    buf_adds(&buf, "wxyz");
    assert_string_equal(memory, "wxyz");
    buf_init_fixed(&buf, memory, 1);
    buf_adds(&buf, "");
    assert_int_equal(buf_error(&buf), 0);
    buf_addc(&buf, 'x');
    assert_int_equal(buf_error(&buf), -ENOBUFS);
}

static void buf_addf_longer_than_its_stack_is_whole(void **state)
{
    AUTO(buf_done) struct buf buf = BUF_INIT(SIZE_MAX);
    int n;

    for (n = 250; n < 260; n++) {
        buf_reset(&buf);
        buf_addf(&buf, "%*d", n, 7);
        assert_int_equal(buf.len, n);
        assert_int_equal(buf.data[n - 1], '7');
        assert_int_equal(buf.data[n], '\0');
    }
}

static void buf_growth_keeps_what_was_there(void **state)
{
    AUTO(buf_done) struct buf buf = BUF_INIT(100000);
    unsigned i;

    for (i = 0; i < 100000; i++)
        buf_addc(&buf, (char)('a' + i % 26));
    assert_int_equal(buf_error(&buf), 0);
    for (i = 0; i < 100000; i++)
        assert_int_equal(buf.data[i], 'a' + i % 26);
    assert_true(buf.cap <= 100001);
}

/* In pieces or at once, escaping gives the same, wherever the pieces meet. */
static void buf_add_escaped_equals_text_escape(void **state)
{
    static const char piece[] = "x\xe2\x82\xac\n\\\xff\xf0\x9f\x98\x80\xc3\xbc";
    char in[400], out[2000];
    struct buf buf = BUF_INIT(4000);
    size_t i, len;

    for (i = 0; i < sizeof(in); i++)
        in[i] = piece[i % (sizeof(piece) - 1)];
    for (len = 0; len <= sizeof(in); len++) {
        buf_reset(&buf);
        buf_add_escaped(&buf, in, len);
        assert_int_equal(text_escape(in, len, out, sizeof(out)), buf.len);
        assert_string_equal(buf_str(&buf), out);
    }
    buf_done(&buf);
}

static void buf_huge_lengths_fail_cleanly(void **state)
{
    AUTO(buf_done) struct buf buf = BUF_INIT(SIZE_MAX);

    buf_adds(&buf, "x");
    assert_null(buf_reserve(&buf, SIZE_MAX));
    assert_int_equal(buf_error(&buf), -ENOBUFS);
    buf_reset(&buf);
    assert_null(buf_reserve(&buf, SIZE_MAX - 2));
    assert_int_equal(buf_error(&buf), -ENOMEM);
    buf_reset(&buf);
    buf_add_hex(&buf, "", SIZE_MAX);
    assert_int_equal(buf_error(&buf), -ENOBUFS);
}

static int build(void *arg)
{
    AUTO(buf_done) struct buf buf = BUF_INIT(5000);
    unsigned i;

    for (i = 0; i < 1000; i++)
        buf_addf(&buf, "%u", i);
    return buf_error(&buf);
}

static void buf_each_allocation_failing_is_enomem(void **state)
{
    assert_true(fault_each_allocation(build, NULL, -ENOMEM) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buf_empty_is_a_string),
        cmocka_unit_test(buf_add_in_every_way_gives_the_whole),
        cmocka_unit_test(buf_add_little_endian),
        cmocka_unit_test(buf_limit_is_exact_and_sticks),
        cmocka_unit_test(buf_fixed_never_leaves_its_memory),
        cmocka_unit_test(buf_addf_longer_than_its_stack_is_whole),
        cmocka_unit_test(buf_growth_keeps_what_was_there),
        cmocka_unit_test(buf_add_escaped_equals_text_escape),
        cmocka_unit_test(buf_huge_lengths_fail_cleanly),
        cmocka_unit_test(buf_each_allocation_failing_is_enomem),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
