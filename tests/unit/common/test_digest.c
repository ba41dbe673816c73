#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/digest.h"
#include "common/mem.h"

/* FIPS 180-4 examples: "abc" and the 448-bit one. */
static void digest_is_sha256_cut(void **state)
{
    static const char long_text[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    uint8_t digest[DIGEST_LEN];

    digest_bytes("abc", 3, digest);
    assert_memory_equal(digest, "\xba\x78\x16\xbf\x8f\x01\xcf\xea\x41\x41\x40\xde\x5d\xae\x22\x23",
                        DIGEST_LEN);
    digest_bytes(long_text, strlen(long_text), digest);
    assert_memory_equal(digest, "\x24\x8d\x6a\x61\xd2\x06\x38\xb8\xe5\xc0\x26\x93\x0c\x3e\x60\x39",
                        DIGEST_LEN);
    digest_pieces(NULL, 0, digest);
    assert_memory_equal(digest, "\xe3\xb0\xc4\x42\x98\xfc\x1c\x14\x9a\xfb\xf4\xc8\x99\x6f\xb9\x24",
                        DIGEST_LEN);
}

static void digest_pieces_equal_the_whole(void **state)
{
    uint8_t whole[DIGEST_LEN], parts[DIGEST_LEN], text[300];
    struct digest_piece pieces[3];
    size_t i;

    for (i = 0; i < sizeof(text); i++)
        text[i] = (uint8_t)(i * 7);
    digest_bytes(text, sizeof(text), whole);
    for (i = 0; i <= sizeof(text); i += 13) {
        pieces[0] = (struct digest_piece){text, i};
        pieces[1] = (struct digest_piece){NULL, 0};
        pieces[2] = (struct digest_piece){text + i, sizeof(text) - i};
        digest_pieces(pieces, 3, parts);
        assert_memory_equal(whole, parts, DIGEST_LEN);
    }
}

/* RFC 3720 B.4 */
static void digest_crc32c_known_values(void **state)
{
    uint8_t zeros[32] = {0}, ones[32], up[32], down[32];
    uint32_t (*const crc[])(uint32_t, const void *, size_t) = {digest_crc32c,
                                                               digest_crc32c_portable};
    size_t i;

    memset(ones, 0xff, sizeof(ones));
    for (i = 0; i < 32; i++) {
        up[i] = (uint8_t)i;
        down[i] = (uint8_t)(31 - i);
    }
    for (i = 0; i < ARRAY_LEN(crc); i++) {
        assert_int_equal(crc[i](0, zeros, 32), 0x8a9136aa);
        assert_int_equal(crc[i](0, ones, 32), 0x62a8ab43);
        assert_int_equal(crc[i](0, up, 32), 0x46dd794e);
        assert_int_equal(crc[i](0, down, 32), 0x113fdb5c);
        assert_int_equal(crc[i](0, "123456789", 9), 0xe3069283);
        assert_int_equal(crc[i](0, "", 0), 0);
    }
}

static void digest_crc32c_both_ways_agree_at_every_length_and_cut(void **state)
{
    uint8_t bytes[100];
    size_t len, cut;
    uint32_t crc;

    digest_random(bytes, sizeof(bytes));
    for (len = 0; len <= sizeof(bytes) - 8; len++) {
        crc = digest_crc32c_portable(0, bytes + len % 8, len);
        assert_int_equal(digest_crc32c(0, bytes + len % 8, len), crc);
        for (cut = 0; cut <= len; cut += 3)
            assert_int_equal(digest_crc32c(digest_crc32c(0, bytes + len % 8, cut),
                                           bytes + len % 8 + cut, len - cut),
                             crc);
    }
}

static void digest_random_is_not_twice_the_same(void **state)
{
    uint8_t a[32] = {0}, b[32] = {0};

    digest_random(a, sizeof(a));
    digest_random(b, sizeof(b));
    assert_memory_not_equal(a, b, sizeof(a));
    digest_random(a, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digest_is_sha256_cut),
        cmocka_unit_test(digest_pieces_equal_the_whole),
        cmocka_unit_test(digest_crc32c_known_values),
        cmocka_unit_test(digest_crc32c_both_ways_agree_at_every_length_and_cut),
        cmocka_unit_test(digest_random_is_not_twice_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
