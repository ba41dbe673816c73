/* Words for a shell: what a real sh makes of them. */
#include <errno.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ctl/quote.h"

/* What sh prints for `printf %s WORD`. */
static void shell_reads(const char *word, char *ret, size_t size)
{
    char script[1024];
    char *argv[] = {(char *)"sh", (char *)"-c", script, NULL}, *env[] = {NULL};
    posix_spawn_file_actions_t actions;
    int fds[2], status;
    size_t len = 0;
    ssize_t n;
    pid_t pid;

    snprintf(script, sizeof script, "printf %%s %s", word);
    assert_int_equal(pipe(fds), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, fds[0]);
    assert_int_equal(posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, env), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    while (len < size - 1 && (n = read(fds[0], ret + len, size - 1 - len)) > 0)
        len += (size_t)n;
    ret[len] = 0;
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void quote_a_shell_gives_every_word_back(void **state)
{
    static const char *const words[] = {
        "plain", "",     "two words", "it's", "''",    "$HOME",    "`id`",
        "$(id)", "a\"b", "*",         "~",    "~root", "a\nb",     "\\",
        "\\n",   "-n",   "a;b",       "a&b",  "#x",    "x#y",      "\xc3\xbc\xe2\x82\xac",
        "a=b",   "[a]",  "{a,b}",     "!x",   "\t",    "\x1b[31m",
    };
    char back[256];

    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        AUTO(buf_done) struct buf buf = BUF_INIT(512);

        quote_word(&buf, words[i]);
        assert_int_equal(buf_error(&buf), 0);
        shell_reads(buf_str(&buf), back, sizeof back);
        assert_string_equal(back, words[i]);
    }
}

static void quote_plain_words_stay_as_they_are(void **state)
{
    AUTO(buf_done) struct buf buf = BUF_INIT(512);

    (void)state;
    quote_word(&buf, "xce-1v00000-3");
    buf_addc(&buf, ' ');
    quote_word(&buf, "a/b.c:d@e,f=g+h%i");
    assert_string_equal(buf_str(&buf), "xce-1v00000-3 a/b.c:d@e,f=g+h%i");
}

static void quote_knows_what_word_splitting_breaks(void **state)
{
    (void)state;
    assert_true(quote_splits_whole("--property=SystemCallFilter=~@keyring"));
    assert_true(quote_splits_whole("--property=CapabilityBoundingSet="));
    assert_false(quote_splits_whole("a b"));
    assert_false(quote_splits_whole("a*"));
    assert_false(quote_splits_whole("a?"));
    assert_false(quote_splits_whole("[a]"));
    assert_false(quote_splits_whole("a\nb"));
    assert_false(quote_splits_whole("a\\b"));
    assert_false(quote_splits_whole(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quote_a_shell_gives_every_word_back),
        cmocka_unit_test(quote_plain_words_stay_as_they_are),
        cmocka_unit_test(quote_knows_what_word_splitting_breaks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
