#include "common/posix_acl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/le.h"
#include "common/mem.h"

#define USER  0x02
#define GROUP 0x08
#define NONE  UINT32_MAX /* the id of what names nobody */

struct entry {
    unsigned tag, perm;
    uint32_t id;
};

static size_t value_make(uint8_t *value, const struct entry *entries, size_t n)
{
    le_put_u32(value, 2);
    for (size_t i = 0; i < n; i++) {
        uint8_t *at = value + 4 + 8 * i;
        le_put_u32(at, entries[i].tag | entries[i].perm << 16);
        le_put_u32(at + 4, entries[i].id);
    }
    return 4 + 8 * n;
}

/* User 7 goes, group 7 becomes 9. */
static uint32_t decide(void *arg, bool group, uint32_t id)
{
    (void)arg;
    if (id != 7)
        return id;
    return group ? 9 : POSIX_ACL_GONE;
}

#define LIST_MAX 8

static void posix_acl_entries_go_or_turn_and_all_else_stays(void **state)
{
    static const struct {
        struct entry before[LIST_MAX];
        size_t n_before, n_changed;
        struct entry after[LIST_MAX];
        size_t n_after;
    } cases[] = {
        /* without named ones */
        {{{1, 6, NONE}, {4, 4, NONE}, {0x20, 4, NONE}},
         3,
         0,
         {{1, 6, NONE}, {4, 4, NONE}, {0x20, 4, NONE}},
         3},
        /* the mask stays though nobody is named any more */
        {{{1, 6, NONE}, {USER, 7, 7}, {4, 4, NONE}, {0x10, 7, NONE}, {0x20, 0, NONE}},
         5,
         1,
         {{1, 6, NONE}, {4, 4, NONE}, {0x10, 7, NONE}, {0x20, 0, NONE}},
         4},
        /* others stay; a group turns, its rights unchanged */
        {{{1, 6, NONE},
          {USER, 4, 8},
          {4, 4, NONE},
          {GROUP, 5, 7},
          {0x10, 5, NONE},
          {0x20, 0, NONE}},
         6,
         1,
         {{1, 6, NONE},
          {USER, 4, 8},
          {4, 4, NONE},
          {GROUP, 5, 9},
          {0x10, 5, NONE},
          {0x20, 0, NONE}},
         6},
        /* the group is named already, before it or behind it: no right is added to that entry */
        {{{1, 6, NONE}, {GROUP, 7, 7}, {GROUP, 1, 9}, {0x10, 7, NONE}},
         4,
         1,
         {{1, 6, NONE}, {GROUP, 1, 9}, {0x10, 7, NONE}},
         3},
        {{{1, 6, NONE}, {GROUP, 1, 9}, {GROUP, 7, 7}, {0x10, 7, NONE}},
         4,
         1,
         {{1, 6, NONE}, {GROUP, 1, 9}, {0x10, 7, NONE}},
         3},
        /* a user of that number is no group of it; what names nobody has an id that means nothing */
        {{{1, 6, 7}, {USER, 1, 9}, {GROUP, 7, 7}, {0x10, 7, 7}},
         4,
         1,
         {{1, 6, 7}, {USER, 1, 9}, {GROUP, 7, 9}, {0x10, 7, 7}},
         4},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint8_t value[4 + 8 * LIST_MAX], want[4 + 8 * LIST_MAX];
        size_t len = value_make(value, cases[i].before, cases[i].n_before);
        size_t want_len = value_make(want, cases[i].after, cases[i].n_after);

        assert_int_equal(posix_acl_change(value, &len, decide, NULL), cases[i].n_changed);
        assert_int_equal(len, want_len);
        assert_memory_equal(value, want, want_len);
    }
}

static void posix_acl_what_is_no_list_is_left_alone(void **state)
{
    static const struct entry entry = {USER, 7, 7};
    uint8_t value[16];
    size_t len;

    (void)state;
    len = value_make(value, &entry, 1);
    for (size_t cut = 0; cut < len; cut++) {
        size_t n = cut;
        if (cut == 4)
            continue;
        assert_int_equal(posix_acl_change(value, &n, decide, NULL), 0);
        assert_int_equal(n, cut);
    }
    value[0] = 3;
    assert_int_equal(posix_acl_change(value, &len, decide, NULL), 0);
    assert_int_equal(len, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(posix_acl_entries_go_or_turn_and_all_else_stays),
        cmocka_unit_test(posix_acl_what_is_no_list_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
