/* A daemon's command line: what ends it, with which code, and what lets it go on. */
#include <getopt.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/log.h"
#include "common/program.h"

struct settings {
    const char *word;
};

static const struct conf_entry entries[] = {
    {"test", "Word", CONF_STRING, offsetof(struct settings, word), "fallback", .max = 16,
     .help = "any word"},
};

static const struct conf_table table = {
    .entries = entries,
    .n = 1,
    .settings_size = sizeof(struct settings),
};

static int level(const void *settings)
{
    (void)settings;
    return LOG_ERR;
}

static const struct program program = {
    .name = "test",
    .purpose = "Tests.",
    .conf_path = "/nonexistent/test.conf",
    .conf = &table,
    .log_level = level,
};

static int start(struct conf **ret, const char *first, const char *second)
{
    char *argv[] = {(char *)"test", (char *)first, (char *)second, NULL};
    int argc = !first ? 1 : !second ? 2 : 3;

    optind = 0; /* getopt begins anew */
    *ret = NULL;
    return program_start(&program, argc, argv, ret);
}

static void program_arguments_that_end_it(void **state)
{
    static const struct {
        const char *first, *second;
        int code;
    } rows[] = {
        {"--version", NULL, 0},     {"--help", NULL, 0},           {"--check-config", NULL, 0},
        {"--show-config", NULL, 0}, {"--nonsense", NULL, 2},       {"argument", NULL, 2},
        {"--config", NULL, 2},      {"--config", "/nowhere/x", 2}, {"--config", "/dev/null/x", 2},
    };
    struct conf *conf;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(start(&conf, rows[i].first, rows[i].second), rows[i].code);
        assert_null(conf);
    }
}

static void program_without_a_file_goes_on_with_defaults(void **state)
{
    struct conf *conf;

    (void)state;
    assert_int_equal(start(&conf, NULL, NULL), PROGRAM_GO_ON);
    assert_string_equal(((const struct settings *)conf_settings(conf))->word, "fallback");
    conf_free(conf);
    log_close();
}

static void program_named_file_counts_and_its_errors_end_it(void **state)
{
    char path[] = "/tmp/xce-program.XXXXXX";
    int fd = mkstemp(path);
    struct conf *conf;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "[test]\nWord = mine\n", 19), 19);
    assert_int_equal(start(&conf, "--config", path), PROGRAM_GO_ON);
    assert_string_equal(((const struct settings *)conf_settings(conf))->word, "mine");
    conf_free(conf);
    log_close();
    assert_int_equal(write(fd, "Wrod = x\n", 9), 9);
    assert_int_equal(start(&conf, "--config", path), 2);
    assert_int_equal(unlink(path), 0);
    (void)close(fd);
}

/* Before there is a loop that takes it, and when there is none any more. */
static void program_is_not_ended_by_a_reload(void **state)
{
    struct conf *conf;
    sigset_t pending;

    (void)state;
    (void)signal(SIGHUP, SIG_IGN); /* as under nohup */
    assert_int_equal(start(&conf, NULL, NULL), PROGRAM_GO_ON);
    assert_int_equal(raise(SIGHUP), 0);
    assert_int_equal(sigpending(&pending), 0);
    assert_int_equal(sigismember(&pending, SIGHUP), 1);
    conf_free(conf);
    log_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(program_arguments_that_end_it),
        cmocka_unit_test(program_without_a_file_goes_on_with_defaults),
        cmocka_unit_test(program_named_file_counts_and_its_errors_end_it),
        cmocka_unit_test(program_is_not_ended_by_a_reload),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
