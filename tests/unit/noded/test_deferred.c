/* What is kept of releases that were handed over: the file, whole or not at all. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/digest.h"
#include "noded/deferred.h"

static struct deferred list, again;

static void fill(size_t n)
{
    list.n = n;
    for (size_t i = 0; i < n; i++) {
        list.items[i] = (struct deferred_release){.lease = UINT64_MAX - i,
                                                  .uid = 2000000000u + (uint32_t)i,
                                                  .epoch = UINT32_MAX,
                                                  .caller = 65534,
                                                  .since_ms = INT64_C(1) << 41,
                                                  .id_len = i % 2 ? 16 : DEFERRED_ID_MAX};
        memset(list.items[i].id, (int)(0x80 + i % 128), list.items[i].id_len);
    }
}

static char *written(void)
{
    struct buf text = BUF_INIT(DEFERRED_FILE_MAX);
    char *copy;

    deferred_write(&list, &text);
    assert_int_equal(buf_error(&text), 0);
    copy = strdup(buf_str(&text));
    buf_done(&text);
    return copy;
}

static void deferred_of_any_number_is_read_as_it_was_written(void **state)
{
    static const size_t numbers[] = {0, 1, 2, DEFERRED_MAX};

    for (size_t i = 0; i < 4; i++) {
        char *text;

        fill(numbers[i]);
        text = written();
        assert_int_equal(deferred_read(text, &again), 0);
        free(text);
        assert_int_equal(again.n, list.n);
        for (size_t j = 0; j < list.n; j++) {
            list.items[j].kept = true; /* what is read is on disk */
            assert_memory_equal(&again.items[j], &list.items[j], sizeof(list.items[j]));
        }
    }
}

static void deferred_that_is_not_whole_is_nothing(void **state)
{
    size_t len;
    char *text;

    fill(3);
    text = written();
    len = strlen(text);
    for (size_t i = 0; i < len; i++) {
        char *copy = strdup(text);

        copy[i] ^= 1;
        assert_int_equal(deferred_read(copy, &again), -EBADMSG);
        assert_int_equal(again.n, 0);
        memcpy(copy, text, len);
        copy[i] = '\0';
        assert_int_equal(deferred_read(copy, &again), -EBADMSG);
        free(copy);
    }
    free(text);
}

/* With the right sum all the same. */
static void deferred_with_a_line_that_can_not_be_is_nothing(void **state)
{
    static const char *const lines[] = {
        "release 1 2 3 4 5 6\n",
        "release 1 2 3 4 5 zz112233445566778899aabbccddeeff\n",
        "release 1 2 3 4 00112233445566778899aabbccddeeff\n",
        "revoke 1 2 3 4 5 00112233445566778899aabbccddeeff\n",
    };

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char text[256];
        int n = snprintf(text, sizeof(text), "xce-deferred 1\n%s", lines[i]);

        (void)snprintf(text + n, sizeof(text) - (size_t)n, "sum %08x\n",
                       digest_crc32c(0, text, (size_t)n));
        assert_int_equal(deferred_read(text, &again), -EBADMSG);
    }
}

static void deferred_that_is_dropped_leaves_the_others(void **state)
{
    fill(3);
    assert_null(deferred_find(&list, list.items[1].uid, 7));
    deferred_drop(&list, deferred_find(&list, list.items[1].uid, UINT32_MAX));
    assert_int_equal(list.n, 2);
    assert_int_equal(list.items[1].lease, UINT64_MAX - 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deferred_of_any_number_is_read_as_it_was_written),
        cmocka_unit_test(deferred_that_is_not_whole_is_nothing),
        cmocka_unit_test(deferred_with_a_line_that_can_not_be_is_nothing),
        cmocka_unit_test(deferred_that_is_dropped_leaves_the_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
