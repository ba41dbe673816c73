#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/le.h"

static void le_put_begins_with_the_lowest_byte_and_touches_no_other(void **state)
{
    uint8_t bytes[14] = {0};

    le_put_u32(bytes + 1, 0xf1020304u);
    le_put_u64(bytes + 5, 0xf5060708090a0b0cu);
    assert_memory_equal(bytes, "\0\x04\x03\x02\xf1\x0c\x0b\x0a\x09\x08\x07\x06\xf5\0", 14);
}

static void le_get_reads_what_put_wrote(void **state)
{
    static const uint8_t bytes[] = {0, 0x04, 0x03, 0x02, 0xf1, 0x0c, 0x0b, 0x0a, 0xf9};

    assert_int_equal(le_get_u32(bytes + 1), 0xf1020304u);
    assert_int_equal(le_get_u64(bytes + 1), 0xf90a0b0cf1020304u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(le_put_begins_with_the_lowest_byte_and_touches_no_other),
        cmocka_unit_test(le_get_reads_what_put_wrote),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
