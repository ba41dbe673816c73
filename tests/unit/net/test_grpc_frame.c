#include "common/net/grpc_frame.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    LIMIT = 100000,
    BIG = 90000,
};

static uint8_t wire[200000];

/* Append one message of len bytes, each n. */
static size_t add(size_t at, size_t len, uint8_t n)
{
    grpc_frame_head(wire + at, (uint32_t)len);
    memset(wire + at + GRPC_FRAME_HEAD, n, len);
    return at + GRPC_FRAME_HEAD + len;
}

/* Feed wire[0..len) in pieces; the number of messages, each checked to be filled with its number. */
static unsigned feed(struct grpc_frame_reader *reader, size_t len, size_t piece)
{
    unsigned n = 0;

    for (size_t at = 0; at < len; at += piece) {
        const uint8_t *data = wire + at, *message;
        size_t left = len - at < piece ? len - at : piece, message_len;
        int r;

        do {
            r = grpc_frame_take(reader, &data, &left, &message, &message_len);
            assert_in_range(r, GRPC_FRAME_MORE, GRPC_FRAME_MESSAGE);
            if (r == GRPC_FRAME_MESSAGE) {
                n++;
                for (size_t i = 0; i < message_len; i++)
                    assert_int_equal(message[i], (uint8_t)n);
            }
        } while (left > 0);
    }
    return n;
}

static void grpc_frame_any_cut_gives_the_same_messages(void **state)
{
    static const size_t sizes[] = {0, 1, 4, 5, 100, 0, 4096, 70000, 0};
    static const size_t pieces[] = {1, 2, 3, 5, 7, 64, 4095, 16384, 100000, sizeof wire};
    struct grpc_budget held = {.limit = LIMIT};
    size_t len = 0;

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        len = add(len, sizes[i], (uint8_t)(i + 1));
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct grpc_frame_reader reader = {.limit_bytes = LIMIT, .budget = &held};

        assert_int_equal(feed(&reader, len, pieces[i]), sizeof sizes / sizeof *sizes);
        assert_true(grpc_frame_at_boundary(&reader));
        grpc_frame_done(&reader);
        assert_int_equal(held.bytes, 0);
    }
}

static void grpc_frame_whole_message_is_not_copied(void **state)
{
    struct grpc_frame_reader reader = {.limit_bytes = LIMIT};
    size_t len = add(0, 1000, 1), message_len;
    const uint8_t *data = wire, *message;

    (void)state;
    assert_int_equal(grpc_frame_take(&reader, &data, &len, &message, &message_len),
                     GRPC_FRAME_MESSAGE);
    assert_ptr_equal(message, wire + GRPC_FRAME_HEAD);
    assert_int_equal(message_len, 1000);
    assert_int_equal(len, 0);
}

static void grpc_frame_bad_heads_are_told_apart(void **state)
{
    static const struct {
        uint8_t head[GRPC_FRAME_HEAD];
        int expect;
    } table[] = {
        {{1, 0, 0, 0, 1}, GRPC_FRAME_COMPRESSED},
        {{2, 0, 0, 0, 1}, GRPC_FRAME_BAD_FLAG},
        {{255, 255, 255, 255, 255}, GRPC_FRAME_BAD_FLAG},
        {{0, 255, 255, 255, 255}, GRPC_FRAME_TOO_LARGE},
        {{0, 0, 1, 0x86, 0xa1}, GRPC_FRAME_TOO_LARGE}, /* LIMIT + 1 */
        {{0, 0, 1, 0x86, 0xa0}, GRPC_FRAME_MORE},      /* LIMIT */
        {{0, 0, 0, 0, 0}, GRPC_FRAME_MESSAGE},
    };

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct grpc_frame_reader reader = {.limit_bytes = LIMIT};
        const uint8_t *data = table[i].head, *message;
        size_t len = GRPC_FRAME_HEAD, message_len;

        assert_int_equal(grpc_frame_take(&reader, &data, &len, &message, &message_len),
                         table[i].expect);
        grpc_frame_done(&reader);
    }
}

static void grpc_frame_a_length_alone_allocates_nothing(void **state)
{
    size_t len = 8, message_len;
    struct grpc_budget held = {.limit = LIMIT};
    struct grpc_frame_reader reader = {.limit_bytes = LIMIT, .budget = &held};
    const uint8_t *data = wire, *message;

    (void)state;
    (void)add(0, BIG, 1);
    assert_int_equal(grpc_frame_take(&reader, &data, &len, &message, &message_len),
                     GRPC_FRAME_MORE);
    assert_true(held.bytes <= 4096);
    assert_false(grpc_frame_at_boundary(&reader));
    grpc_frame_done(&reader);
}

static void grpc_frame_unfinished_messages_share_a_limit(void **state)
{
    struct grpc_budget held = {.limit = 2 * LIMIT};
    struct grpc_frame_reader readers[3];
    int r = 0;

    (void)state;
    (void)add(0, BIG, 1);
    for (int i = 0; i < 3; i++) {
        const uint8_t *data = wire, *message;
        size_t len = BIG, message_len;

        readers[i] = (struct grpc_frame_reader){.limit_bytes = LIMIT, .budget = &held};
        r = grpc_frame_take(&readers[i], &data, &len, &message, &message_len);
        assert_int_equal(r, i < 2 ? GRPC_FRAME_MORE : GRPC_FRAME_HELD);
    }
    for (int i = 0; i < 3; i++)
        grpc_frame_done(&readers[i]);
    assert_int_equal(held.bytes, 0);
}

static void grpc_budget_is_taken_of_all_above_or_of_none(void **state)
{
    struct grpc_budget all = {.limit = 100}, users = {.limit = 75, .above = &all};
    struct grpc_budget alice = {.limit = 50, .above = &users}, bob = alice;
    struct grpc_budget node = {.limit = 50, .above = &all};

    (void)state;
    assert_null(grpc_budget_take(&alice, 50));
    assert_ptr_equal(grpc_budget_take(&alice, 1), &alice);
    assert_ptr_equal(grpc_budget_take(&bob, 26), &users);
    assert_null(grpc_budget_take(&bob, 25));
    assert_ptr_equal(grpc_budget_take(&node, 26), &all);
    assert_null(grpc_budget_take(&node, 25));
    assert_ptr_equal(grpc_budget_take(&node, SIZE_MAX), &node);
    grpc_budget_give(&alice, 50);
    assert_int_equal(users.bytes, 25);
    assert_int_equal(all.bytes, 50);
    grpc_budget_give(&bob, 25);
    grpc_budget_give(&node, 25);
    assert_int_equal(all.bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grpc_frame_any_cut_gives_the_same_messages),
        cmocka_unit_test(grpc_frame_whole_message_is_not_copied),
        cmocka_unit_test(grpc_frame_bad_heads_are_told_apart),
        cmocka_unit_test(grpc_frame_a_length_alone_allocates_nothing),
        cmocka_unit_test(grpc_frame_unfinished_messages_share_a_limit),
        cmocka_unit_test(grpc_budget_is_taken_of_all_above_or_of_none),
    };
    return cmocka_run_group_tests_name("grpc_frame", tests, NULL, NULL);
}
