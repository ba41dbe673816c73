/* The command line of every verb: what is refused, with which status, and that the message names the culprit. Runs the real
 * program; nothing here comes as far as a server. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ctl/verb.h"

#define OUTPUT_MAX 65536
#define WORDS_MAX  24

static const char *program;
static char *environment[] = {(char *)"PATH=/usr/bin:/bin", NULL};

struct run {
    int status;
    char out[OUTPUT_MAX], err[OUTPUT_MAX];
};

static void collect(int out, int err, struct run *run)
{
    struct pollfd fds[] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};
    char *texts[] = {run->out, run->err};
    size_t lens[] = {0, 0};

    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        assert_true(poll(fds, 2, 60000) > 0);
        for (int i = 0; i < 2; i++) {
            ssize_t n;

            if (fds[i].fd < 0 || !fds[i].revents)
                continue;
            n = read(fds[i].fd, texts[i] + lens[i], OUTPUT_MAX - 1 - lens[i]);
            if (n <= 0) {
                close(fds[i].fd);
                fds[i].fd = -1;
                continue;
            }
            lens[i] += (size_t)n;
        }
    }
    run->out[lens[0]] = run->err[lens[1]] = 0;
}

static void run_words(char **words, struct run *run)
{
    posix_spawn_file_actions_t actions;
    int out[2], err[2], status;
    pid_t pid;

    assert_int_equal(pipe(out), 0);
    assert_int_equal(pipe(err), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
    for (int i = 0; i < 2; i++) {
        posix_spawn_file_actions_addclose(&actions, out[i]);
        posix_spawn_file_actions_addclose(&actions, err[i]);
    }
    assert_int_equal(posix_spawn(&pid, program, &actions, NULL, words, environment), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    close(err[1]);
    collect(out[0], err[0], run);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    run->status = WEXITSTATUS(status);
}

/* "acquire --ttl 5": words by blanks. */
static void run_line(const char *line, struct run *run)
{
    char copy[512], *rest = copy, *words[WORDS_MAX];
    int n = 0;

    snprintf(copy, sizeof copy, "leasectl %s", line);
    for (char *word; (word = strsep(&rest, " "));)
        if (*word && n < WORDS_MAX - 1)
            words[n++] = word;
    words[n] = NULL;
    run_words(words, run);
}

/* lint: flat (one table) */
static void usage_errors_are_2_and_name_the_culprit(void **state)
{
    static const struct {
        const char *line, *says;
    } cases[] = {
        {"", "which verb?"},
        {"nosuch", "nosuch: no such verb"},
        {"pool", "pool: which verb?"},
        {"pool nosuch", "pool nosuch: no such verb"},
        {"--nosuch list", "--nosuch: no such option"},
        {"--timeout 5 list", "--timeout: "},
        {"--timeout", "--timeout: needs a value"},
        {"--server tcp:localhost:1 list", "--server: tcp:localhost:1: a server is written unix:"},
        {"--server unix:relative list", "--server: unix:relative: the path of a socket begins"},
        {"--config /nonexistent/x list", "/nonexistent/x"},
        {"acquire extra", "acquire: takes no words"},
        {"acquire --ttl 5", "acquire: --ttl: \"5\" has no unit"},
        {"acquire --ttl 0", "acquire: --ttl: 0: must be above 0 (or none)"},
        {"acquire --ttl -3s", "acquire: --ttl: "},
        {"acquire --count 0", "acquire: --count: 0"},
        {"acquire --count 1025", "--count: 1025: at most 1024"},
        {"acquire --count many", "acquire: --count: "},
        {"acquire --count 2 --job j", "--job: j: names one lease"},
        {"acquire --count 2 --print env", "--print: env is of one lease"},
        {"acquire --print yaml", "acquire: --print: yaml: must be one of"},
        {"acquire --nodes n[1", "--nodes: n[1: byte"},
        {"acquire --nodes n[3-1]", "--nodes: n[3-1]: byte"},
        {"acquire --nodes a,,b", "--nodes: "},
        {"acquire --owner no-such-user-here", "--owner: no-such-user-here: no such user"},
        {"acquire --owner 4294967296", "--owner: "},
        {"acquire --owner 12:x", "--owner: 12:x: "},
        {"acquire --gids no-such-group-here", "--gids: no-such-group-here: no such group"},
        {"acquire --gids 1,,2", "--gids: an empty word"},
        {"acquire --request-id short", "--request-id: short: has 5 bytes"},
        {"acquire --request-id 0123456789abcdef@soon", "--request-id: 0123456789abcdef@soon"},
        {"acquire --job a --job b", "acquire: --job: given twice"},
        {"acquire -o nosuch", "--columns: nosuch: no such column"},
        {"acquire -o lease,,uid", "--columns: : no such column"},
        {"renew", "which lease?"},
        {"renew 1 2", "renew: too many words"},
        {"renew 1 --wait", "--wait: is for --add-nodes"},
        {"renew 1 --add-nodes n[3-1]", "--add-nodes: n[3-1]: byte 2"},
        {"renew 1 --ttl none", "renew: --ttl: none: must be a time"},
        {"release", "which lease?"},
        {"release 1 --job x", "give one of TARGET"},
        {"release --owner root 5", "--owner: goes with --job"},
        {"release 5 --wait=never", "release: --wait: never: must be one of: clean, free"},
        {"release 5 --wait --node n1", "--wait: is for a whole lease"},
        {"release 99999999999999999999999", "TARGET: "},
        {"release 0", "TARGET: 0 is no lease"},
        {"revoke 5", "--reason: must be given"},
        {"show", "which lease?"},
        {"show --uid 0", "show: --uid: 0"},
        {"show --uid 4294967296", "show: --uid: 4294967296: must be below"},
        {"show --uid 1 --lease 2", "give one of TARGET"},
        {"list extra", "list: takes no words"},
        {"list --state gone", "--state: gone: no such state"},
        {"list --state active,", "--state: : no such state"},
        {"list --owner no-such-user-here", "--owner: no-such-user-here"},
        {"watch --since x", "watch: --since: "},
        {"watch --since -1", "watch: --since: "},
        {"explain", "which lease?"},
        {"history", "which lease?"},
        {"history --uid 1 --at yesterday", "--at: \"yesterday\""},
        {"history --uid 1 --limit 0", "history: --limit: 0"},
        {"exec", "exec: [--] COMMAND [ARG...] is missing"},
        {"exec --ttl x -- true", "exec: --ttl: "},
        {"exec --property", "exec: --property: needs a value"},
        {"exec --property MemoryMax -- true", "--property: MemoryMax: must be NAME=VALUE"},
        {"exec --setenv =x -- true", "--setenv: =x: must be NAME=VALUE"},
        {"pool create", "pool create: NAME is missing"},
        {"pool create a b", "pool create: too many words"},
        {"pool create main", "--range: must be given"},
        {"pool create main --range 2013265920-2013331455", "--directory-ranges: must be given"},
        {"pool create main --range 5-1 --directory-ranges none", "--range: "},
        {"pool create main --range 1-2,4-5 --directory-ranges none", "--range: "},
        {"pool create main --range 5-9 --directory-ranges 3-1", "--directory-ranges: "},
        {"pool create main --range 5-9 --directory-ranges none --ttl-max none",
         "pool create: --ttl-max: none"},
        {"pool create main --range 5-9 --directory-ranges none --witnesses some",
         "pool create: --witnesses: some: must be one of"},
        {"pool list extra", "pool list: takes no words"},
        {"cluster status extra", "cluster status: takes no words"},
        {"cluster init extra", "cluster init: takes no words"},
        {"pool show", "pool show: NAME is missing"},
        {"pool set main", "set: nothing to set"},
        {"pool set main --last 0", "pool set: --last: 0"},
        {"pool suggest --count 0", "pool suggest: --count: 0"},
        {"pool suggest --directory-ranges x", "--directory-ranges: "},
        {"pool unblock main", "pool unblock: NAME UID is missing"},
        {"pool unblock main 2013265920", "--reason: must be given"},
        {"pool unblock main x --reason y", "UID: "},
        {"pool retire", "pool retire: NAME is missing"},
        {"node list extra", "node list: takes no words"},
        {"node list --state asleep", "node list: --state: asleep"},
        {"node show", "node show: NODES is missing"},
        {"node show n[1", "NODES: n[1"},
        {"node drain n1", "--reason: must be given"},
        {"node drain --reason x", "node drain: NODES is missing"},
        {"node undrain", "node undrain: NODES is missing"},
        {"node cordon n1", "--reason: must be given"},
        {"node sweep", "node sweep: NODES is missing"},
        {"node fence n1", "--reason: must be given"},
        {"node forget n1", "--reason: must be given"},
        {"doctor extra", "doctor: takes no words"},
        {"config show extra", "config show: takes no words"},
    };
    static struct run run;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run_line(cases[i].line, &run);
        if (run.status != 2)
            fail_msg("leasectl %s: exit %d, not 2; said: %s", cases[i].line, run.status, run.err);
        if (!strstr(run.err, cases[i].says))
            fail_msg("leasectl %s: said \"%s\", not \"%s\"", cases[i].line, run.err, cases[i].says);
        if (run.out[0])
            fail_msg("leasectl %s: wrote to stdout: %s", cases[i].line, run.out);
    }
}

static void usage_error_with_json_is_an_object_on_stdout(void **state)
{
    static const char *const lines[] = {"--json acquire --ttl 5", "acquire --ttl 5 --json",
                                        "--json nosuch", "pool create --json",
                                        "acquire --print uid --json"};
    static struct run run;

    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        run_line(lines[i], &run);
        assert_int_equal(run.status, 2);
        assert_string_equal(run.err, "");
        assert_non_null(strstr(run.out, "{\n  \"error\": {\n    \"code\": \"invalid_argument\",\n"
                                        "    \"message\": \""));
    }
}

static void usage_escapes_of_a_terminal_are_not_printed(void **state)
{
    char *words[] = {(char *)"leasectl", (char *)"\x1b]0;x\x07\n", NULL};
    static struct run run;

    (void)state;
    run_words(words, &run);
    assert_int_equal(run.status, 2);
    assert_null(strchr(run.err, 0x1b));
    assert_null(strchr(run.err, 7));
    assert_non_null(strstr(run.err, "\\x1b]0;x\\x07\\x0a: no such verb"));
}

static void usage_help_of_every_verb_and_group(void **state)
{
    static const char *const groups[] = {"pool", "node", "config"};
    static struct run run;
    const struct verb *verb;
    char line[128];

    (void)state;
    for (size_t i = 0; (verb = verb_at(i)); i++) {
        snprintf(line, sizeof line, "%s %s --help", verb->group ? verb->group : "", verb->name);
        run_line(line, &run);
        assert_int_equal(run.status, 0);
        assert_string_equal(run.err, "");
        assert_non_null(strstr(run.out, "Usage: leasectl "));
        assert_non_null(strstr(run.out, verb->summary));
        for (const struct option_entry *entry = verb->options; entry && entry->name; entry++) {
            snprintf(line, sizeof line, "--%s", entry->name);
            assert_non_null(strstr(run.out, line));
        }
    }
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        snprintf(line, sizeof line, "%s --help", groups[i]);
        run_line(line, &run);
        assert_int_equal(run.status, 0);
        assert_non_null(strstr(run.out, "Verbs:"));
    }
    run_line("--help", &run);
    assert_int_equal(run.status, 0);
    for (size_t i = 0; (verb = verb_at(i)); i++)
        assert_non_null(strstr(run.out, verb->summary));
    run_line("--version", &run);
    assert_int_equal(run.status, 0);
    assert_string_equal(run.out, "leasectl " XCE_VERSION "\n");
}

static void usage_no_server_is_4_and_names_it(void **state)
{
    static struct run run;

    (void)state;
    run_line("--server unix:/nonexistent/leased.sock --timeout 1s list", &run);
    assert_int_equal(run.status, 4);
    assert_non_null(strstr(run.err, "unix:/nonexistent/leased.sock"));
    assert_string_equal(run.out, "");
    run_line("--server unix:/nonexistent/leased.sock --timeout 1s --json acquire", &run);
    assert_int_equal(run.status, 4);
    assert_string_equal(run.err, "");
    assert_non_null(strstr(run.out, "\"code\": \"unavailable\""));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usage_errors_are_2_and_name_the_culprit),
        cmocka_unit_test(usage_error_with_json_is_an_object_on_stdout),
        cmocka_unit_test(usage_escapes_of_a_terminal_are_not_printed),
        cmocka_unit_test(usage_help_of_every_verb_and_group),
        cmocka_unit_test(usage_no_server_is_4_and_names_it),
    };

    if (argc < 2) {
        fprintf(stderr, "usage: test_usage PATH-OF-LEASECTL\n");
        return 2;
    }
    program = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
