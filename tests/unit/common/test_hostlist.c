#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/hostlist.h"

/* The list joined by blanks, or the error. */
static const char *expanded(const char *text, size_t max)
{
    static char joined[4096];
    AUTO(hostlist_done) struct hostlist list = {0};
    struct err err = {0};
    struct buf buf;
    size_t i;
    int r;

    buf_init_fixed(&buf, joined, sizeof(joined));
    r = hostlist_expand(text, strlen(text), max, &list, &err);
    if (r < 0)
        buf_addf(&buf, "%s! %s", err_name(r), err.text);
    for (i = 0; i < list.n; i++)
        buf_addf(&buf, "%s%s", i ? " " : "", list.names[i]);
    assert_int_equal(buf_error(&buf), 0);
    return joined;
}

static void hostlist_expand_accept_table(void **state)
{
    static const char *const rows[][2] = {
        {"n1", "n1"},
        {"n1,n2", "n1 n2"},
        {"n[1-3]", "n1 n2 n3"},
        {"n[01-03,20]", "n01 n02 n03 n20"},
        {"n[08-11]", "n08 n09 n10 n11"},
        {"n[9-11]", "n9 n10 n11"},
        {"n[0-2]", "n0 n1 n2"},
        {"n[007]", "n007"},
        {"n[5]", "n5"},
        {"a[1-2]b[01-02]", "a1b01 a1b02 a2b01 a2b02"},
        {"[1-2]a", "1a 2a"},
        {"[1-2][8-9]", "18 19 28 29"},
        {"r[1-2]n[1,3-4].example.org,login",
         "r1n1.example.org r1n3.example.org r1n4.example.org r2n1.example.org r2n3.example.org "
         "r2n4.example.org login"},
        {"b,a,b,c,a", "b a c"},
        {"n[1-3],n[2-4]", "n1 n2 n3 n4"},
        {"n[1,1,1]", "n1"},
        {"n[999999999999999998-999999999999999999]", "n999999999999999998 n999999999999999999"},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++)
        assert_string_equal(expanded(rows[i][0], 0), rows[i][1]);
}

static void hostlist_expand_reject_table(void **state)
{
    static const char *const rows[][2] = {
        {"", "EINVAL! the list of nodes is empty"},
        {",", "EINVAL! ,: byte 0: a name is expected"},
        {"a,", "EINVAL! a,: byte 2: a name is expected"},
        {"a,,b", "EINVAL! a,,b: byte 2: a name is expected"},
        {"n[3-1]", "EINVAL! n[3-1]: byte 2: the range runs backwards"},
        {"n[01-2]", "EINVAL! n[01-2]: byte 2: both ends of a padded range need the same width"},
        {"n[1-02]", "EINVAL! n[1-02]: byte 2: both ends of a padded range need the same width"},
        {"n[01-100]", "EINVAL! n[01-100]: byte 2: both ends of a padded range need the same width"},
        {"n[", "EINVAL! n[: byte 2: a number is expected"},
        {"n[]", "EINVAL! n[]: byte 2: a number is expected"},
        {"n[1", "EINVAL! n[1: byte 3: \"]\" is missing"},
        {"n[1-", "EINVAL! n[1-: byte 4: a number is expected"},
        {"n[1-]", "EINVAL! n[1-]: byte 4: a number is expected"},
        {"n[-1]", "EINVAL! n[-1]: byte 2: a number is expected"},
        {"n[1,]", "EINVAL! n[1,]: byte 4: a number is expected"},
        {"n[1 -2]", "EINVAL! n[1 -2]: byte 3: \",\" or \"]\" is expected"},
        {"n[1-2-3]", "EINVAL! n[1-2-3]: byte 5: \",\" or \"]\" is expected"},
        {"n[[1]]", "EINVAL! n[[1]]: byte 2: a number is expected"},
        {"n1]", "EINVAL! n1]: byte 2: \"]\" without \"[\""},
        {"n[a-b]", "EINVAL! n[a-b]: byte 2: a number is expected"},
        {"n[1-9999999999999999999]",
         "EINVAL! n[1-9999999999999999999]: byte 4: the number is too long"},
        {"ok,n 1",
         "EINVAL! ok,n 1: byte 3: node name \"n 1\": \" \" is not allowed there (byte 1)"},
        {"n[1-70000]", "E2BIG! more than 65536 names"},
        {"n[0-999999999999999999]", "E2BIG! more than 65536 names"},
        {"[1-300][1-300]", "E2BIG! more than 65536 names"},
        {"a[1-99]b[1-99]c[1-99]d[1-99]", "E2BIG! more than 65536 names"},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++)
        assert_string_equal(expanded(rows[i][0], 0), rows[i][1]);
}

static void hostlist_expand_limit_counts_every_name(void **state)
{
    assert_string_equal(expanded("n[1-3]", 3), "n1 n2 n3");
    assert_string_equal(expanded("n[1-4]", 3), "E2BIG! more than 3 names");
    assert_string_equal(expanded("a,a,a,a", 3), "E2BIG! more than 3 names");
}

static void hostlist_expand_nul_and_foreign_bytes_refused(void **state)
{
    struct hostlist list = {0};
    struct err err;

    assert_int_equal(hostlist_expand("a\0b", 3, 0, &list, &err), -EINVAL);
    assert_string_equal(err.text, "a\\x00b: byte 0: node name: holds a NUL byte at byte 1");
    assert_int_equal(hostlist_expand("\xff", 1, 0, &list, &err), -EINVAL);
    assert_int_equal(hostlist_expand("a\x1b[0m", 5, 0, &list, &err), -EINVAL);
    assert_null(strchr(err.text, '\x1b'));
}

static void hostlist_expand_largest_is_whole(void **state)
{
    AUTO(hostlist_done) struct hostlist list = {0};
    AUTO(buf_done) struct buf short_form = BUF_INIT(4096);

    assert_int_equal(hostlist_expand("n[00001-65536]", 14, 0, &list, NULL), 0);
    assert_int_equal(list.n, 65536);
    assert_string_equal(list.names[0], "n00001");
    assert_string_equal(list.names[65535], "n65536");
    assert_true(hostlist_contains(&list, "n40000"));
    assert_false(hostlist_contains(&list, "n0"));
    assert_int_equal(hostlist_collapse(list.names, list.n, &short_form), 0);
    assert_string_equal(buf_str(&short_form), "n[00001-65536]");
}

static void hostlist_collapse_table(void **state)
{
    static const char *const rows[][2] = {
        {"n1", "n1"},
        {"n1,n1", "n1"},
        {"n2,n1", "n[1-2]"},
        {"n1,n3,n2,n7", "n[1-3,7]"},
        {"n01,n02,n03,n20", "n[01-03,20]"},
        {"n08,n09,n10,n11", "n[08-11]"},
        {"n9,n10,n11", "n[9-11]"},
        {"n98,n99,n100", "n[98-100]"},
        {"n098,n099,n100", "n[098-100]"},
        {"n1,n01", "n[1,01]"},
        {"n1,n2,n01,n02", "n[1-2,01-02]"},
        {"b,a,c", "a,b,c"},
        {"login,n1,n2", "login,n[1-2]"},
        {"n1.example.org,n2.example.org,n2.example.com", "n2.example.com,n[1-2].example.org"},
        {"a1b1,a1b2,a2b1", "a1b[1-2],a2b1"},
        {"1,2,3", "[1-3]"},
        {"n,n1", "n,n1"},
        {"n0,n1", "n[0-1]"},
        {"n00,n01", "n[00-01]"},
    };
    AUTO(hostlist_done) struct hostlist list = {0};
    struct buf buf = BUF_INIT(4096);
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        hostlist_done(&list);
        buf_reset(&buf);
        assert_int_equal(hostlist_expand(rows[i][0], strlen(rows[i][0]), 0, &list, NULL), 0);
        assert_int_equal(hostlist_collapse(list.names, list.n, &buf), 0);
        assert_string_equal(buf_str(&buf), rows[i][1]);
    }
    buf_done(&buf);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* What collapses must expand to the same set, whatever the mixture of widths. */
static void hostlist_collapse_expands_to_the_same_set(void **state)
{
    static const char *const formats[] = {"n%u", "n%02u", "n%03u", "a%ub%02u", "x%u.example.org"};
    char names[300][64];
    const char *pointers[300];
    AUTO(hostlist_done) struct hostlist once = {0}, again = {0};
    AUTO(buf_done) struct buf list = BUF_INIT(65536), collapsed = BUF_INIT(65536);
    unsigned i, seed = 7;

    for (i = 0; i < ARRAY_LEN(names); i++) {
        seed = seed * 1103515245 + 12345;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(names[i], sizeof(names[i]), formats[seed >> 16 & 3], (seed >> 20) % 130,
                 seed >> 28);
#pragma GCC diagnostic pop
        pointers[i] = names[i];
        buf_addf(&list, "%s%s", i ? "," : "", names[i]);
    }
    assert_int_equal(hostlist_expand(list.data, list.len, 0, &once, NULL), 0);
    assert_int_equal(hostlist_collapse(pointers, ARRAY_LEN(pointers), &collapsed), 0);
    assert_int_equal(hostlist_expand(collapsed.data, collapsed.len, 0, &again, NULL), 0);
    assert_int_equal(once.n, again.n);
    qsort(once.names, once.n, sizeof(char *), compare);
    qsort(again.names, again.n, sizeof(char *), compare);
    for (i = 0; i < once.n; i++)
        assert_string_equal(once.names[i], again.names[i]);
}

static void hostlist_collapse_too_long_says_so(void **state)
{
    static const char *const names[] = {"abcdef", "ghijkl"};
    struct buf buf = BUF_INIT(8);

    assert_int_equal(hostlist_collapse(names, 2, &buf), -ENOBUFS);
    buf_done(&buf);
    assert_int_equal(hostlist_collapse(NULL, 0, &buf), 0);
    assert_string_equal(buf_str(&buf), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostlist_expand_accept_table),
        cmocka_unit_test(hostlist_expand_reject_table),
        cmocka_unit_test(hostlist_expand_limit_counts_every_name),
        cmocka_unit_test(hostlist_expand_nul_and_foreign_bytes_refused),
        cmocka_unit_test(hostlist_expand_largest_is_whole),
        cmocka_unit_test(hostlist_collapse_table),
        cmocka_unit_test(hostlist_collapse_expands_to_the_same_set),
        cmocka_unit_test(hostlist_collapse_too_long_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
