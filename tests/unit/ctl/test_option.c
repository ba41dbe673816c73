/* Options as tables. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ctl/option.h"
#include "xce/client.h"

struct given {
    bool flag;
    const char *text, *word, *maybe;
    struct option_list list;
    uint32_t u32;
    uint64_t u64;
    struct option_number number;
    int64_t duration_ms, ttl_ms;
};

struct globals {
    bool json;
};

static const char *const words[] = {"one", "two", NULL};

#define AT(field) offsetof(struct given, field)

static const struct option_entry entries[] = {
    {"flag", 'f', OPTION_FLAG, AT(flag), NULL, "", NULL},
    {"text", 't', OPTION_TEXT, AT(text), "TEXT", "", NULL},
    {"word", 0, OPTION_WORD, AT(word), "WORD", "", words},
    {"maybe", 'm', OPTION_OPTIONAL, AT(maybe), "one|two", "", words},
    {"list", 'l', OPTION_LIST, AT(list), "ITEM", "", NULL},
    {"u32", 0, OPTION_U32, AT(u32), "N", "", NULL},
    {"u64", 0, OPTION_U64, AT(u64), "N", "", NULL},
    {"number", 0, OPTION_NUMBER, AT(number), "N", "", NULL},
    {"duration", 0, OPTION_DURATION, AT(duration_ms), "TIME", "", NULL},
    {"ttl", 0, OPTION_TTL, AT(ttl_ms), "TIME|none", "", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

static const struct option_entry global_entries[] = {
    {"json", 0, OPTION_FLAG, offsetof(struct globals, json), NULL, "", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

struct fixture {
    struct given given;
    struct globals globals;
    struct option_set sets[2];
    struct err err;
    char *argv[16];
    int argc, first;
};

/* Parse "a b c" as `verb a b c`. */
static int parse(struct fixture *f, bool stop, const char *line)
{
    static char memory[512];
    char *rest = memory;

    option_done(f->sets, 2);
    memset(f, 0, sizeof *f);
    f->sets[0] = (struct option_set){entries, &f->given};
    f->sets[1] = (struct option_set){global_entries, &f->globals};
    snprintf(memory, sizeof memory, "verb %s", line);
    for (char *word; (word = strsep(&rest, " "));)
        if (f->argc < 15)
            f->argv[f->argc++] = word;
    return option_parse(f->argc, f->argv, stop, f->sets, 2, &f->first, &f->err);
}

static void option_every_type_is_taken(void **state)
{
    struct fixture f = {0};

    (void)state;
    assert_int_equal(
        parse(&f, false,
              "-f --text=x --word two --maybe=two -l a --list b --u32 4294967295 --u64 "
              "18446744073709551615 --number 0 --duration 1h30m --ttl none --json"),
        -EINVAL);
    /* 15 words are the fixture's most: in two goes. */
    assert_int_equal(parse(&f, false, "-f --text=x --word two --maybe=two -l a --list b --json"),
                     0);
    assert_true(f.given.flag);
    assert_string_equal(f.given.text, "x");
    assert_string_equal(f.given.word, "two");
    assert_string_equal(f.given.maybe, "two");
    assert_int_equal(f.given.list.n, 2);
    assert_string_equal(f.given.list.items[1], "b");
    assert_true(f.globals.json);
    assert_int_equal(parse(&f, false, "--u32 4294967295 --u64 18446744073709551615 --number 0"), 0);
    assert_int_equal(f.given.u32, UINT32_MAX);
    assert_true(f.given.u64 == UINT64_MAX);
    assert_true(f.given.number.given);
    assert_int_equal(parse(&f, false, "--duration 1h30m --ttl none --maybe"), 0);
    assert_int_equal(f.given.duration_ms, 5400000);
    assert_int_equal(f.given.ttl_ms, XCE_TTL_NONE);
    assert_string_equal(f.given.maybe, "one");
    option_done(f.sets, 2);
    assert_int_equal(f.given.list.n, 0);
}

static void option_bad_values_name_the_option(void **state)
{
    static const struct {
        const char *line, *says;
    } cases[] = {
        {"--text", "--text: needs a value"},
        {"-t", "--text: needs a value"},
        {"--text=", "--text: the value is empty"},
        {"--text a --text b", "--text: given twice"},
        {"--flag=1", "--flag: takes no value"},
        {"--nosuch", "--nosuch: no such option"},
        {"-z", "-z: no such option"},
        {"-fz", "-z: no such option"},
        {"--word three", "--word: three: must be one of: one, two"},
        {"--maybe=three", "--maybe: three: must be one of: one, two"},
        {"--u32 0", "--u32: 0: must be above 0"},
        {"--u32 4294967296", "--u32: 4294967296: must be below"},
        {"--u32 -1", "--u32: "},
        {"--u32 0x10", "--u32: "},
        {"--u32 1e3", "--u32: "},
        {"--u64 18446744073709551616", "--u64: "},
        {"--number x", "--number: "},
        {"--duration 30", "--duration: "},
        {"--duration 0", "--duration: 0: must be above 0"},
        {"--duration none", "--duration: none: must be a time"},
        {"--duration 5 m", "--duration: "},
        {"--ttl 0", "--ttl: 0: must be above 0 (or none)"},
        {"--ttl -5s", "--ttl: "},
        {"--ttl never", "--ttl: "},
    };
    struct fixture f = {0};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(parse(&f, false, cases[i].line), -EINVAL);
        if (strncmp(f.err.text, cases[i].says, strlen(cases[i].says)) != 0)
            fail_msg("%s: said \"%s\", not \"%s...\"", cases[i].line, f.err.text, cases[i].says);
    }
    option_done(f.sets, 2);
}

static void option_words_and_options_mix_until_dashes(void **state)
{
    struct fixture f = {0};

    (void)state;
    assert_int_equal(parse(&f, false, "a --flag b -- --json"), 0);
    assert_true(f.given.flag);
    assert_false(f.globals.json);
    assert_int_equal(f.argc - f.first, 3);
    assert_string_equal(f.argv[f.first + 2], "--json");
}

static void option_stop_leaves_another_programs_options(void **state)
{
    struct fixture f = {0};

    (void)state;
    assert_int_equal(parse(&f, true, "--json cmd --flag --help"), 0);
    assert_true(f.globals.json);
    assert_false(f.given.flag);
    assert_int_equal(f.argc - f.first, 3);
    assert_string_equal(f.argv[f.first], "cmd");
}

static void option_spelling_shows_letter_and_value(void **state)
{
    char text[80];

    (void)state;
    assert_string_equal(option_spelling(&entries[0], text, sizeof text), "-f, --flag");
    assert_string_equal(option_spelling(&entries[1], text, sizeof text), "-t, --text TEXT");
    assert_string_equal(option_spelling(&entries[3], text, sizeof text), "-m, --maybe[=one|two]");
    assert_string_equal(option_spelling(&entries[2], text, sizeof text), "    --word WORD");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(option_every_type_is_taken),
        cmocka_unit_test(option_bad_values_name_the_option),
        cmocka_unit_test(option_words_and_options_mix_until_dashes),
        cmocka_unit_test(option_stop_leaves_another_programs_options),
        cmocka_unit_test(option_spelling_shows_letter_and_value),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
