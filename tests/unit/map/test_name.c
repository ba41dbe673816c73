/* The names of leases: tables of what decodes and what does not, and round trips. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "map/name.h"

static const struct {
    const char *prefix;
    uint32_t uid, epoch;
    const char *name;
} known[] = {
    {"xce-", 1, 1, "xce-1-1"},
    {"xce-", 31, 32, "xce-z-10"},
    {"xce-", 1023, 1024, "xce-zz-100"},
    {"xce-", 0x78000000, 1, "xce-1w00000-1"},
    {"xce-", 0x7800ffff, 47, "xce-1w01zzz-1f"},
    {"xce-", UINT32_MAX, UINT32_MAX, "xce-3zzzzzz-3zzzzzz"},
    {"a-", 18, 20, "a-j-m"},
    {"abcdefghijklmn0-", UINT32_MAX, UINT32_MAX, "abcdefghijklmn0-3zzzzzz-3zzzzzz"},
};

static void name_known_pairs_agree_both_ways(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        char name[NAME_BUF];
        uint32_t uid = 0, epoch = 0;
        size_t len = name_encode(known[i].prefix, known[i].uid, known[i].epoch, name);

        assert_string_equal(name, known[i].name);
        assert_int_equal(len, strlen(known[i].name));
        assert_true(len <= NAME_MAX_LEN);
        assert_int_equal(name_decode(known[i].prefix, name, len, &uid, &epoch), 0);
        assert_int_equal(uid, known[i].uid);
        assert_int_equal(epoch, known[i].epoch);
    }
}

static const char *const foreign[] = {
    "",
    "x",
    "xce",
    "xce-",
    "xce--",
    "xce-1",
    "xce-1-",
    "xce--1",
    "xce-1--1",
    "xce-1-1-",
    "xce-1-1-1",
    "xce-1-1 ",
    " xce-1-1",
    "xce-1-1\n",
    "root",
    "nobody",
    "0",
    "0x78000000",
    "2013265920",
    "xcf-1-1",
    "XCE-1-1",
    "Xce-1-1",
    "xce_1-1",
    "xce-1_1",
    "xce-1.1",
    /* zeros: as a number, in front */
    "xce-0-1",
    "xce-1-0",
    "xce-01-1",
    "xce-1-01",
    "xce-0000000-1",
    "xce-01w00000-1",
    /* letters that Crockford reads as others, and capitals */
    "xce-i-1",
    "xce-l-1",
    "xce-o-1",
    "xce-u-1",
    "xce-A-1",
    "xce-1-I",
    "xce-1-O",
    "xce-1w0000O-1",
    "xce-1W00000-1",
    /* above 32 bits, in either number; eight digits */
    "xce-4000000-1",
    "xce-zzzzzzz-1",
    "xce-1-4000000",
    "xce-1-zzzzzzz",
    "xce-10000000-1",
    "xce-1-10000000",
    "xce-100000000000-1",
    /* signs, blanks, other writing */
    "xce-+1-1",
    "xce--1-1",
    "xce-1-+1",
    "xce- 1-1",
    "xce-1- 1",
    "xce-1/1",
    "xce-1:1",
    "xce-1-1:",
    "xce-\xc3\xa9-1",
    "xce-\xff-1",
    "xce-1-\x80",
    "xce-1-1xce-1-1xce-1-1xce-1-1xce-1-1",
};

static void name_other_forms_are_foreign(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        uint32_t uid = 7, epoch = 8;

        if (name_decode("xce-", foreign[i], strlen(foreign[i]), &uid, &epoch) != NAME_FOREIGN)
            fail_msg("\"%s\" decodes to %u, %u", foreign[i], uid, epoch);
        assert_int_equal(uid, 7);
        assert_int_equal(epoch, 8);
    }
}

static void name_with_nul_inside_is_foreign(void **state)
{
    uint32_t uid, epoch;

    (void)state;
    assert_int_equal(name_decode("xce-", "xce-1\0-1", 8, &uid, &epoch), NAME_FOREIGN);
    assert_int_equal(name_decode("xce-", "xce-1-1\0", 8, &uid, &epoch), NAME_FOREIGN);
    assert_int_equal(name_decode("xce-", "\0ce-1-1", 7, &uid, &epoch), NAME_FOREIGN);
}

/* The name sits at the end of its allocation, without a NUL: a sanitizer sees each byte read too far. */
static void name_without_nul_is_read_to_its_length(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        for (size_t len = 0; len <= strlen(known[i].name); len++) {
            char *name = malloc(len + (len == 0));
            uint32_t uid, epoch;

            assert_non_null(name);
            memcpy(name, known[i].name, len);
            (void)name_decode(known[i].prefix, name, len, &uid, &epoch);
            free(name);
        }
    }
}

static void name_huge_is_foreign(void **state)
{
    size_t len = 16u << 20;
    char *name = malloc(len);
    uint32_t uid, epoch;

    (void)state;
    assert_non_null(name);
    memset(name, '1', len);
    memcpy(name, "xce-", 4);
    assert_int_equal(name_decode("xce-", name, len, &uid, &epoch), NAME_FOREIGN);
    free(name);
}

static void name_prefix_table(void **state)
{
    static const char *const good[] = {"xce-", "a-", "a1-", "z9z9-", "abcdefghijklmno-"};
    static const char *const bad[] = {
        "",
        "-",
        "a",
        "xce",
        "1-",
        "-a-",
        "a--",
        "a-b-",
        "A-",
        "aB-",
        "a_-",
        "a b-",
        "a.-",
        "\xc3\xa9-",
        "a\xff-",
        "x:-",
        "x/-",
        "xce-\n",
        "abcdefghijklmnop-",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!name_prefix_valid(good[i]))
            fail_msg("good prefix \"%s\" refused", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (name_prefix_valid(bad[i]))
            fail_msg("bad prefix \"%s\" accepted", bad[i]);
}

/* A prefix that begins another one must not take the other cluster's names. */
static void name_of_longer_prefix_is_foreign(void **state)
{
    uint32_t uid, epoch;

    (void)state;
    assert_int_equal(name_decode("xce-", "xce1-1-1", 8, &uid, &epoch), NAME_FOREIGN);
    assert_int_equal(name_decode("xce1-", "xce-1-1", 7, &uid, &epoch), NAME_FOREIGN);
    assert_int_equal(name_decode("x-", "xce-1-1", 7, &uid, &epoch), NAME_FOREIGN);
}

static uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 32) >> (*seed >> 27 & 31);
}

static void check_form(const char *name)
{
    assert_in_range(name[0], 'a', 'z');
    assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-"), strlen(name));
}

static void name_round_trips(void **state)
{
    uint64_t seed = 42;

    (void)state;
    for (int i = 0; i < 200000; i++) {
        uint32_t uid = next_random(&seed), epoch = next_random(&seed), got_uid = 0, got_epoch = 0;
        char name[NAME_BUF];
        size_t len;

        uid += uid == 0;
        epoch += epoch == 0;
        len = name_encode("xce-", uid, epoch, name);
        check_form(name);
        assert_int_equal(name_decode("xce-", name, len, &got_uid, &got_epoch), 0);
        assert_int_equal(got_uid, uid);
        assert_int_equal(got_epoch, epoch);
    }
}

/* Whatever decodes, encodes to the same bytes: one name for each pair. */
static void name_changed_byte_decodes_canonically_or_not_at_all(void **state)
{
    const char *name = "xce-1w01zzz-1f";
    size_t len = strlen(name);

    (void)state;
    for (size_t at = 0; at < len; at++) {
        for (int c = 0; c < 256; c++) {
            char changed[NAME_BUF], again[NAME_BUF];
            uint32_t uid, epoch;

            memcpy(changed, name, len + 1);
            changed[at] = (char)c;
            if (name_decode("xce-", changed, len, &uid, &epoch) != 0)
                continue;
            assert_int_equal(name_encode("xce-", uid, epoch, again), len);
            assert_memory_equal(again, changed, len);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(name_known_pairs_agree_both_ways),
        cmocka_unit_test(name_other_forms_are_foreign),
        cmocka_unit_test(name_with_nul_inside_is_foreign),
        cmocka_unit_test(name_without_nul_is_read_to_its_length),
        cmocka_unit_test(name_huge_is_foreign),
        cmocka_unit_test(name_prefix_table),
        cmocka_unit_test(name_of_longer_prefix_is_foreign),
        cmocka_unit_test(name_round_trips),
        cmocka_unit_test(name_changed_byte_decodes_canonically_or_not_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
