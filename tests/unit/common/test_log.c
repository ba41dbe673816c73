#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "tests/lib/tmp.h"

/* stderr is a pipe that the test reads; a journal's socket may stand beside it. */
struct fixture {
    int saved_stderr;
    int read_end;
    int journal; /* -1 = none */
    const char *journal_path;
    char text[65536];
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    int ends[2];

    f->journal = -1;
    f->saved_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    close(ends[1]);
    f->read_end = ends[0];
    unsetenv("JOURNAL_STREAM");
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    log_close();
    log_set_level(LOG_INFO);
    dup2(f->saved_stderr, STDERR_FILENO);
    close(f->saved_stderr);
    close(f->read_end);
    mem_close(f->journal);
    free(f);
    return 0;
}

static void open_log(struct fixture *f, bool timestamps)
{
    log_open(&(struct log_options){
        .ident = "leased", .timestamps = timestamps, .journal_socket = f->journal_path});
}

/* As under systemd: a journal that listens, and $JOURNAL_STREAM that names stderr. */
static void with_journal(struct fixture *f)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char stream[64];
    struct stat st;

    f->journal_path = tmp_path(tmp_dir(), "journal");
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->journal_path);
    f->journal = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(f->journal, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(fstat(STDERR_FILENO, &st), 0);
    snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
}

static const char *read_stderr(struct fixture *f)
{
    struct pollfd poll_fd = {.fd = f->read_end, .events = POLLIN};
    ssize_t n = 0;

    if (poll(&poll_fd, 1, 0) == 1)
        n = read(f->read_end, f->text, sizeof(f->text) - 1);
    f->text[n > 0 ? n : 0] = '\0';
    return f->text;
}

static const char *read_journal(struct fixture *f)
{
    ssize_t n = recv(f->journal, f->text, sizeof(f->text) - 1, 0);

    f->text[n > 0 ? n : 0] = '\0';
    return f->text;
}

static void log_on_stderr_is_one_line_with_ids(void **state)
{
    struct fixture *f = *state;

    open_log(f, false);
    assert_false(log_is_journal());
    log_info(NULL, "plain %d", 5);
    assert_string_equal(read_stderr(f), "leased: plain 5\n");
    log_warning(LOG_FIELDS(.lease = 12, .uid = 2013265920, .epoch = 3, .node = "n1", .job = "j\n1",
                           .actor = "root"),
                "two\nlines \x1b[1m");
    assert_string_equal(read_stderr(f), "leased: warning: two\\x0alines \\x1b[1m (lease 12, uid "
                                        "2013265920, epoch 3, node n1, job j\\x0a1, by root)\n");
    log_error(LOG_FIELDS(.job = "j1"), "x");
    assert_string_equal(read_stderr(f), "leased: error: x (job j1)\n");
    log_error(LOG_FIELDS(.message_id = LOG_ID_DENIED), "x");
    assert_string_equal(read_stderr(f), "leased: error: x\n");
}

static void log_before_open_works(void **state)
{
    log_error(NULL, "early");
    assert_string_equal(read_stderr(*state), "error: early\n");
}

static void log_timestamps_are_rfc3339(void **state)
{
    struct fixture *f = *state;

    open_log(f, true);
    log_info(NULL, "x");
    read_stderr(f);
    assert_int_equal(strlen(f->text), 24 + strlen(" leased: x\n"));
    assert_int_equal(f->text[23], 'Z');
    assert_string_equal(f->text + 24, " leased: x\n");
}

static void log_to_journal_has_fields(void **state)
{
    struct fixture *f = *state;

    with_journal(f);
    open_log(f, false);
    assert_true(log_is_journal());
    log_notice(LOG_FIELDS(.message_id = LOG_ID_LEASE_GRANTED, .lease = UINT64_MAX, .uid = 5,
                          .epoch = 6, .node = "n1", .job = "a\nPRIORITY=0", .actor = "uid 1000"),
               "granted");
    read_journal(f);
    assert_non_null(strstr(f->text, "PRIORITY=5\nMESSAGE=granted\nCODE_FILE="));
    assert_non_null(strstr(f->text, "\nSYSLOG_IDENTIFIER=leased\n"));
    assert_non_null(strstr(f->text, "\nMESSAGE_ID=" LOG_ID_LEASE_GRANTED "\n"));
    assert_non_null(strstr(f->text, "\nXCE_LEASE=18446744073709551615\nXCE_UID=5\nXCE_EPOCH=6\n"
                                    "XCE_NODE=n1\nXCE_JOB=a\\x0aPRIORITY=0\nXCE_ACTOR=uid 1000\n"));
    assert_string_equal(read_stderr(f), "");
    log_notice(NULL, "no ids");
    assert_null(strstr(read_journal(f), "XCE_"));
}

static void log_foreign_journal_stream_is_not_ours(void **state)
{
    struct fixture *f = *state;

    with_journal(f);
    setenv("JOURNAL_STREAM", "1:1", 1);
    open_log(f, false);
    assert_false(log_is_journal());
}

static void log_without_journal_socket_falls_back_to_stderr(void **state)
{
    struct fixture *f = *state;

    with_journal(f);
    f->journal_path = "/nonexistent/socket";
    open_log(f, false);
    log_info(NULL, "x");
    assert_string_equal(read_stderr(f), "leased: x\n");
}

/* Nobody reads the journal: entries are dropped, nothing waits, and what was lost is told when somebody does. */
static void log_full_journal_never_blocks_and_tells(void **state)
{
    struct fixture *f = *state;
    uint64_t before = log_dropped();
    unsigned i, sent = 0;

    with_journal(f);
    open_log(f, false);
    for (i = 0; i < 5000; i++)
        log_info(NULL, "entry %u", i);
    assert_true(log_dropped() > before);
    while (read_journal(f)[0])
        sent++;
    assert_int_equal(sent + (log_dropped() - before), 5000);
    log_info(NULL, "again");
    assert_non_null(strstr(read_journal(f), "MESSAGE=again\n"));
    assert_non_null(strstr(read_journal(f), " log entries were lost"));
    assert_non_null(strstr(f->text, "MESSAGE_ID=" LOG_ID_LOG_DROPPED));
    log_info(NULL, "once");
    assert_non_null(strstr(read_journal(f), "MESSAGE=once\n"));
    assert_string_equal(read_journal(f), "");
}

static void log_full_pipe_never_blocks(void **state)
{
    struct fixture *f = *state;
    uint64_t before = log_dropped();
    unsigned i;

    open_log(f, false);
    for (i = 0; i < 5000; i++)
        log_info(NULL, "entry %060u", i);
    assert_true(log_dropped() > before);
    while (read_stderr(f)[0])
        ;
    log_info(NULL, "again");
    assert_non_null(strstr(read_stderr(f), "leased: again\nleased: warning: "));
}

/* The reader is gone: no SIGPIPE, no failure. */
static void log_broken_journal_is_survived(void **state)
{
    struct fixture *f = *state;
    uint64_t before = log_dropped();

    with_journal(f);
    open_log(f, false);
    f->journal = mem_close(f->journal);
    errno = EXDEV;
    log_error(NULL, "x");
    assert_int_equal(errno, EXDEV);
    assert_int_equal(log_dropped(), before + 1);
}

static void log_longest_message_is_cut_not_lost(void **state)
{
    struct fixture *f = *state;
    char text[5000];

    memset(text, '\x01', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    with_journal(f);
    open_log(f, false);
    log_error(LOG_FIELDS(.job = text, .node = text, .actor = text), "%s", text);
    assert_non_null(strstr(read_journal(f), "\\x01...\nCODE_FILE="));
    assert_non_null(strstr(f->text, "XCE_ACTOR=\\x01"));
    log_close();
    unsetenv("JOURNAL_STREAM");
    open_log(f, false);
    log_error(NULL, "%s", text);
    assert_int_equal(f->text[strlen(read_stderr(f)) - 1], '\n');
}

static void log_level_holds_back(void **state)
{
    struct fixture *f = *state;
    int level = 0;

    open_log(f, false);
    log_debug(NULL, "no");
    assert_string_equal(read_stderr(f), "");
    log_set_level(LOG_DEBUG);
    log_debug(NULL, "yes");
    assert_string_equal(read_stderr(f), "leased: debug: yes\n");
    log_set_level(LOG_ERR);
    log_warning(NULL, "no");
    log_write(LOG_WARNING, NULL, "f", 1, "no");
    assert_string_equal(read_stderr(f), "");
    assert_int_equal(log_level_parse("warning", &level), 0);
    assert_int_equal(level, LOG_WARNING);
    assert_int_equal(log_level_parse("loud", &level), -EINVAL);
    assert_int_equal(level, LOG_WARNING);
    assert_string_equal(log_level_name(LOG_NOTICE), "notice");
}

static void log_limit_lets_a_burst_through_and_counts_the_rest(void **state)
{
    struct log_limit limit = {.interval_ms = 60000, .burst = 3};
    unsigned i, written = 0, held = 99;

    for (i = 0; i < 10; i++)
        written += log_limit_ok(&limit, &held);
    assert_int_equal(written, 3);
    assert_int_equal(held, 0);
    limit.began_ms -= 60000;
    assert_true(log_limit_ok(&limit, &held));
    assert_int_equal(held, 7);
}

#define LOG_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOG_TEST(log_on_stderr_is_one_line_with_ids),
        LOG_TEST(log_before_open_works),
        LOG_TEST(log_timestamps_are_rfc3339),
        LOG_TEST(log_to_journal_has_fields),
        LOG_TEST(log_foreign_journal_stream_is_not_ours),
        LOG_TEST(log_without_journal_socket_falls_back_to_stderr),
        LOG_TEST(log_full_journal_never_blocks_and_tells),
        LOG_TEST(log_full_pipe_never_blocks),
        LOG_TEST(log_broken_journal_is_survived),
        LOG_TEST(log_longest_message_is_cut_not_lost),
        LOG_TEST(log_level_holds_back),
        cmocka_unit_test(log_limit_lets_a_burst_through_and_counts_the_rest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
