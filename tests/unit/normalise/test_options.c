#include "normalise/options.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"

#define ARGS_MAX 32

/* The words of a line, behind the program's name. */
static int parse(const char *line, struct options *ret, struct err *err)
{
    static char words[256]; /* outlives the call, as argv does */
    static char *argv[ARGS_MAX];
    char *rest = words, *word;
    int argc = 1;

    assert_true(strlen(line) < sizeof words);
    memcpy(words, line, strlen(line) + 1);
    argv[0] = (char *)(uintptr_t) "xce-normalise";
    while (argc < ARGS_MAX - 1 && (word = strsep(&rest, " ")))
        argv[argc++] = word;
    argv[argc] = NULL;
    return options_parse(argc, argv, ret, err);
}

static void options_ids_are_taken(void **state)
{
    struct options o;

    (void)state;
    assert_int_equal(parse("--from 7 --to 8 /a", &o, NULL), 0);
    assert_int_equal(o.ids.uid, 7);
    assert_int_equal(o.ids.to_uid, 8);
    assert_false(o.ids.groups);
    assert_int_equal(o.n_paths, 1);
    assert_string_equal(o.paths[0], "/a");
    assert_int_equal(o.least, PROOF_DOUBLE_COLLECT);
    assert_true(o.threads >= 1 && o.threads <= 8);
    assert_false(o.dry_run || o.json || o.allow_overlay || o.acl_owned);

    assert_int_equal(parse("/a --from 7:9 --to 8:10 /b", &o, NULL), 0);
    assert_true(o.ids.groups);
    assert_int_equal(o.ids.gid, 9);
    assert_int_equal(o.ids.to_gid, 10);
    assert_int_equal(o.n_paths, 2);
    /* the group alone may be another one, the uid may not be the same */
    assert_int_equal(parse("--from 7:9 --to 8:9 /a", &o, NULL), -EINVAL);
}

static void options_others_are_taken(void **state)
{
    struct options o;

    (void)state;
    assert_int_equal(parse("--from 7 --to 8 --acl owned --threads 64 --proof quota --json --dry-run"
                           " /a",
                           &o, NULL),
                     0);
    assert_true(o.acl_owned && o.json && o.dry_run);
    assert_int_equal(o.threads, 64);
    assert_int_equal(o.least, PROOF_QUOTA);
    assert_int_equal(parse("--from 7 --to 8 --allow-overlay --rate 5 --deadline 9 --max-exceptions "
                           "0 --map /m -- --a",
                           &o, NULL),
                     0);
    assert_true(o.allow_overlay);
    assert_int_equal(o.max_exceptions, 0);
    assert_int_equal(o.rate, 5);
    assert_int_equal(o.deadline_s, 9);
    assert_string_equal(o.map, "/m");
    assert_string_equal(o.paths[0], "--a");
}

static void options_wrong_ones_are_refused_with_a_word_on_what_is_wrong(void **state)
{
    static const struct {
        const char *line, *says;
    } bad[] = {
        {"/a", "--from and --to"},
        {"--from 7 /a", "--from and --to"},
        {"--to 7 /a", "--from and --to"},
        {"--from 7 --to 8", "no path"},
        {"--from 7 --to 7 /a", "same uid"},
        {"--from 7:9 --to 8 /a", "both with a gid"},
        {"--from 7 --to 8:9 /a", "both with a gid"},
        {"--from 7:9 --to 8:9 /a", "same gid"},
        {"--from 0 --to 8 /a", "--from"},
        {"--from 7 --to 0 /a", "--to"},
        {"--from 4294967295 --to 8 /a", "--from"},
        {"--from 7 --to 65535 /a", "--to"},
        {"--from 7:0 --to 8:9 /a", "--from"},
        {"--from 7:9 --to 8:4294967295 /a", "--to"},
        {"--from 7:9: --to 8:9 /a", "--from"},
        {"--from 07 --to 8 /a", "--from"},
        {"--from root --to 8 /a", "--from"},
        {"--from 77777777777777777777777777777777777777 --to 8 /a", "--from"},
        {"--from 7 --to 8 --threads 0 /a", "--threads"},
        {"--from 7 --to 8 --threads 65 /a", "--threads"},
        {"--from 7 --to 8 --rate 0 /a", "--rate"},
        {"--from 7 --to 8 --rate 1000001 /a", "--rate"},
        {"--from 7 --to 8 --proof walk /a", "--proof"},
        {"--from 7 --to 8 --proof none /a", "--proof"},
        {"--from 7 --to 8 --acl some /a", "--acl"},
        {"--from 7 --to 8 --max-exceptions x /a", "--max-exceptions"},
    };
    struct options o;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = {{0}};

        if (parse(bad[i].line, &o, &err) != -EINVAL)
            fail_msg("\"%s\" was taken", bad[i].line);
        if (!strstr(err.text, bad[i].says))
            fail_msg("\"%s\": \"%s\"", bad[i].line, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_ids_are_taken),
        cmocka_unit_test(options_others_are_taken),
        cmocka_unit_test(options_wrong_ones_are_refused_with_a_word_on_what_is_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
