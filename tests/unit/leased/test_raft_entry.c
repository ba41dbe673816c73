#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "leased/engine/raft_entry.h"

static const uint8_t bytes[] = "some commands";

static size_t make(uint8_t *ret, size_t len)
{
    const struct raft_entry_view entry = {0x123456789a, 7, RAFT_ENTRY_COMMANDS, bytes, len};

    raft_entry_encode(&entry, ret);
    return raft_entry_size(len);
}

static void raft_entry_encoded_decodes_to_itself(void **state)
{
    uint8_t packed[64];
    struct raft_entry_view view;

    (void)state;
    for (size_t len = 0; len < sizeof bytes; len++) {
        size_t size = make(packed, len);

        assert_int_equal(size % 8, 0);
        assert_int_equal(raft_entry_decode(packed, size, &view), 0);
        assert_true(view.index == 0x123456789a && view.term == 7);
        assert_int_equal(view.kind, RAFT_ENTRY_COMMANDS);
        assert_int_equal(view.len, len);
        assert_memory_equal(view.bytes, bytes, len);
    }
}

static void raft_entry_with_any_bit_flipped_is_refused(void **state)
{
    uint8_t packed[64];
    size_t size = make(packed, 13);
    struct raft_entry_view view;

    (void)state;
    /* What pads the end is the library's to check. */
    for (size_t bit = 0; bit < (RAFT_ENTRY_HEADER + 13) * 8; bit++) {
        packed[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(raft_entry_decode(packed, size, &view), -EBADMSG);
        packed[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(raft_entry_decode(packed, size, &view), 0);
}

static void raft_entry_of_another_length_is_refused(void **state)
{
    uint8_t packed[72] = {0};
    size_t size = make(packed, 13);
    struct raft_entry_view view;

    (void)state;
    for (size_t len = 0; len < sizeof packed; len++)
        assert_int_equal(raft_entry_decode(packed, len, &view), len == size ? 0 : -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(raft_entry_encoded_decodes_to_itself),
        cmocka_unit_test(raft_entry_with_any_bit_flipped_is_refused),
        cmocka_unit_test(raft_entry_of_another_length_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
