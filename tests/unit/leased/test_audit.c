/* The audit file: whole lines, rotation, and a disk that is full. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/cert.h"
#include "common/clock.h"
#include "common/fsutil.h"
#include "common/log.h"
#include "leased/audit/audit.h"
#include "leased/rbac/methods.h"
#include "leased/rpc/record.h"
#include "tests/lib/fault.h"
#include "tests/lib/tmp.h"
#include "xce/v1/lease.pb-c.h"
#include "xce/v1/node.pb-c.h"

struct fixture {
    const char *folder;
    char path[256];
    struct audit *audit;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    log_set_level(LOG_ERR);
    f->folder = tmp_dir();
    (void)snprintf(f->path, sizeof f->path, "%s/audit.log", f->folder);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    audit_close(f->audit);
    tmp_remove(f->folder);
    free(f);
    return 0;
}

static void open_it(struct fixture *f, uint64_t size_bytes, unsigned keep)
{
    struct err err = {{0}};

    assert_int_equal(
        audit_open(&(struct audit_options){f->path, size_bytes, keep}, &f->audit, &err), 0);
}

static void close_it(struct fixture *f)
{
    audit_close(f->audit);
    f->audit = NULL;
}

static char *contents(const char *path)
{
    char *text = NULL;

    return fs_read_file(AT_FDCWD, path, 64 << 20, &text, NULL) == 0 ? text : NULL;
}

static void expect(const char *path, const char *wanted)
{
    char *text = contents(path);

    assert_non_null(text);
    assert_string_equal(text, wanted);
    free(text);
}

static void audit_lines_are_kept_in_order(void **state)
{
    struct fixture *f = *state;
    struct stat st;

    open_it(f, 1 << 20, 2);
    audit_write(f->audit, "one\n", 4, false);
    audit_write(f->audit, "two\n", 4, true);
    audit_write(f->audit, "three\n", 6, false);
    close_it(f);
    expect(f->path, "one\ntwo\nthree\n");
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_true(st.st_blocks < 128); /* nothing stays reserved */
    open_it(f, 1 << 20, 2);
    audit_write(f->audit, "four\n", 5, false);
    close_it(f);
    expect(f->path, "one\ntwo\nthree\nfour\n");
}

static void audit_urgent_line_is_there_at_once(void **state)
{
    struct fixture *f = *state;
    int64_t end_ms = clock_mono_ms() + 60000;
    char *text = NULL;

    open_it(f, 1 << 20, 2);
    audit_write(f->audit, "now\n", 4, true);
    while (!text && clock_mono_ms() < end_ms) {
        text = contents(f->path);
        if (text && strcmp(text, "now\n") != 0) {
            free(text);
            text = NULL;
        }
    }
    assert_non_null(text);
    free(text);
}

static void audit_rotates_and_keeps_so_many(void **state)
{
    struct fixture *f = *state;
    char line[32], path[300], *text;
    unsigned files = 0, lines = 0;

    open_it(f, 1000, 3);
    for (int i = 0; i < 2000; i++) {
        (void)snprintf(line, sizeof line, "line %04d\n", i);
        audit_write(f->audit, line, strlen(line), true);
        if (i % 50 == 49) { /* a batch each */
            close_it(f);
            open_it(f, 1000, 3);
        }
    }
    close_it(f);
    for (int i = 0; i < 10; i++) {
        (void)snprintf(path, sizeof path, i ? "%s.%d" : "%s", f->path, i);
        text = contents(path);
        if (!text)
            continue;
        files++;
        for (const char *p = text; *p; p++)
            lines += *p == '\n';
        assert_true(strlen(text) <= 1500);
        free(text);
    }
    assert_int_equal(files, 4);
    assert_true(lines >= 150);
    text = contents(f->path);
    assert_non_null(strstr(text, "line 1999\n"));
    free(text);
}

static void audit_of_others_is_refused(void **state)
{
    struct fixture *f = *state;
    struct err err = {{0}};
    struct audit_options options = {f->path, 1000, 1};

    assert_int_equal(mkfifo(f->path, 0600), 0);
    assert_true(audit_open(&options, &f->audit, &err) < 0);
    assert_int_equal(unlink(f->path), 0);
    assert_int_equal(symlink("/etc/passwd", f->path), 0);
    assert_int_equal(audit_open(&options, &f->audit, &err), -ELOOP);
    assert_int_equal(unlink(f->path), 0);
    close(open(f->path, O_CREAT | O_WRONLY, 0644));
    assert_int_equal(chmod(f->path, 0644), 0);
    assert_int_equal(audit_open(&options, &f->audit, &err), -EPERM);
    assert_non_null(strstr(err.text, f->path));
}

static void audit_torn_line_is_ended(void **state)
{
    struct fixture *f = *state;
    int fd = open(f->path, O_CREAT | O_WRONLY, 0600);
    char *text;

    assert_int_equal(write(fd, "whole\nhalf", 10), 10);
    close(fd);
    open_it(f, 1 << 20, 1);
    audit_write(f->audit, "next\n", 5, false);
    close_it(f);
    text = contents(f->path);
    assert_non_null(text);
    assert_int_equal(strncmp(text, "whole\nhalf\n{\"time\":", 18), 0);
    assert_non_null(strstr(text, "\"lost\":1}\nnext\n"));
    free(text);
}

/* ---- a disk that is full ---- */

static void wait_until(struct fixture *f, bool wanted)
{
    char why[AUDIT_WHY_MAX];
    int64_t end_ms = clock_mono_ms() + 60000;

    while (audit_ok(f->audit, why) != wanted && clock_mono_ms() < end_ms)
        (void)usleep(10000);
    assert_int_equal(audit_ok(f->audit, why), wanted);
}

/* No more room can be had: that is said, and what is written meanwhile is there, in the room that was reserved. */
static void audit_without_room_says_so_before_a_line_is_lost(void **state)
{
    struct fixture *f = *state;
    char why[AUDIT_WHY_MAX], line[1024], *text;
    unsigned n = 0;

    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
    open_it(f, 64 << 20, 1);
    assert_true(audit_ok(f->audit, why));
    fault_disk(FAULT_SPACE, 1, ENOSPC, true);
    for (; n < 500; n++)
        audit_write(f->audit, line, sizeof line, true);
    wait_until(f, false);
    (void)audit_ok(f->audit, why);
    assert_non_null(strstr(why, f->path));
    for (; n < 1000; n++)
        audit_write(f->audit, line, sizeof line, true);
    assert_true(fault_end());
    wait_until(f, true);
    close_it(f);
    text = contents(f->path);
    assert_non_null(text);
    assert_int_equal(strlen(text), n * sizeof line);
    free(text);
}

static void audit_without_room_at_the_start_is_not_well(void **state)
{
    struct fixture *f = *state;
    char why[AUDIT_WHY_MAX];

    fault_disk(FAULT_SPACE, 1, ENOSPC, true);
    open_it(f, 64 << 20, 1);
    assert_false(audit_ok(f->audit, why));
    assert_true(fault_end());
    wait_until(f, true);
}

static void audit_lost_lines_are_counted(void **state)
{
    struct fixture *f = *state;
    char *text;

    open_it(f, 64 << 20, 1);
    fault_disk(FAULT_WRITE, 1, ENOSPC, true);
    audit_write(f->audit, "one\n", 4, true);
    audit_write(f->audit, "two\n", 4, true);
    wait_until(f, false);
    assert_true(fault_end());
    wait_until(f, true);
    audit_write(f->audit, "three\n", 6, true);
    close_it(f);
    text = contents(f->path);
    assert_non_null(text);
    assert_int_equal(strncmp(text, "{\"time\":", 8), 0);
    assert_non_null(strstr(text, "\"lost\":2}\nthree\n"));
    free(text);
}

/* Half of a line gets through, and what was begun can not be taken back: it is ended, and nothing is glued to it. */
static void audit_line_cut_short_spoils_no_other(void **state)
{
    struct fixture *f = *state;
    char *text;

    open_it(f, 64 << 20, 1);
    fault_disk(FAULT_WRITE | FAULT_SPACE | FAULT_SHORT, 1, ENOSPC, true);
    audit_write(f->audit, "12345678\n", 9, true);
    wait_until(f, false);
    assert_true(fault_end());
    wait_until(f, true);
    audit_write(f->audit, "next\n", 5, true);
    close_it(f);
    text = contents(f->path);
    assert_non_null(text);
    assert_non_null(strstr(text, "\n{\"time\":"));
    assert_non_null(strstr(text, "\"lost\":1}\nnext\n"));
    free(text);
}

static void audit_that_can_not_rotate_goes_on(void **state)
{
    struct fixture *f = *state;
    char *text;

    open_it(f, 10, 1);
    audit_write(f->audit, "12345678\n", 9, true);
    close_it(f);
    open_it(f, 10, 1);
    fault_disk(FAULT_OPEN, 1, ENOSPC, true);
    audit_write(f->audit, "next\n", 5, true);
    wait_until(f, false);
    assert_true(fault_end());
    expect(f->path, "12345678\nnext\n");
    audit_write(f->audit, "last\n", 5, true);
    wait_until(f, true);
    close_it(f);
    text = contents(f->path);
    assert_non_null(text);
    assert_non_null(strstr(text, "last\n"));
    free(text);
}

/* ---- lines ---- */

static void line(const struct record *record, const char *wanted)
{
    struct recorder recorder;

    recorder_init(&recorder);
    assert_string_equal(recorder_line(&recorder, record, 1000), wanted);
    recorder_done(&recorder);
}

static void record_says_who_did_what_to_what(void **state)
{
    Xce__V1__RevokeRequest revoke = XCE__V1__REVOKE_REQUEST__INIT;
    Xce__V1__RequestId id = XCE__V1__REQUEST_ID__INIT;
    const struct cert_identity made = {.kind = CERT_NODE, .name = "n1", .serial = "4a01"};
    uint64_t leases[20];
    struct principal alice;

    (void)state;
    assert_int_equal(principal_from_user("alice", NULL, 0, &alice, NULL), 0);
    id.id = (ProtobufCBinaryData){2, (uint8_t *)"\x01\xff"};
    revoke.request = &id;
    revoke.lease = 12;
    revoke.reason = (ProtobufCBinaryData){10, (uint8_t *)"a\"b\\c\n\xff\xc3\xa9."};
    line(
        &(struct record){&alice, "LeaseService/Revoke", &revoke.base, NULL, 0, GRPC_OK, NULL, NULL},
        "{\"time\":\"1970-01-01T00:00:01.000Z\",\"principal\":\"user:alice\",\"name\":\"alice\","
        "\"method\":\"LeaseService/Revoke\",\"lease\":12,\"outcome\":\"OK\",\"request\":\"01ff\","
        "\"reason\":\"a\\\"b\\\\c\\u000a\\ufffd\xc3\xa9.\"}\n");
    line(&(struct record){&alice, "NodeService/Drain", NULL, NULL, 0, GRPC_PERMISSION_DENIED,
                          "not permitted", NULL},
         "{\"time\":\"1970-01-01T00:00:01.000Z\",\"principal\":\"user:alice\",\"name\":\"alice\","
         "\"method\":\"NodeService/Drain\",\"outcome\":\"PERMISSION_DENIED\","
         "\"message\":\"not permitted\"}\n");
    for (size_t i = 0; i < 20; i++)
        leases[i] = i + 1;
    line(&(struct record){&alice, "LeaseService/Acquire", NULL, leases, 20, -1, NULL, NULL},
         "{\"time\":\"1970-01-01T00:00:01.000Z\",\"principal\":\"user:alice\",\"name\":\"alice\","
         "\"method\":\"LeaseService/Acquire\",\"leases\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16],"
         "\"more_leases\":4,\"outcome\":\"LEFT\"}\n");
    line(&(struct record){&alice, "NodeService/Enroll", NULL, NULL, 0, GRPC_OK, NULL, &made},
         "{\"time\":\"1970-01-01T00:00:01.000Z\",\"principal\":\"user:alice\",\"name\":\"alice\","
         "\"method\":\"NodeService/"
         "Enroll\",\"node\":\"n1\",\"serial\":\"4a01\",\"outcome\":\"OK\"}\n");
}

static unsigned occurrences(const char *text, const char *wanted)
{
    unsigned n = 0;

    for (const char *at = text; (at = strstr(at, wanted)); at++)
        n++;
    return n;
}

static void denied_at(struct recorder *recorder, const struct principal *who, const char *method,
                      int status, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        record_call(recorder, &(struct record){.principal = who,
                                               .method = method,
                                               .status = status,
                                               .message = status == GRPC_OK ? NULL : "no"});
}

static void denied(struct recorder *recorder, const struct principal *who, int status, unsigned n)
{
    denied_at(recorder, who, "NodeService/Enroll", status, n);
}

/* Whoever reaches the port washes nothing out of the files. */
static void record_of_one_who_is_denied_over_and_over_is_limited(void **state)
{
    struct fixture *f = *state;
    struct recorder recorder;
    struct principal stranger, alice;
    char *text;

    open_it(f, 0, 1);
    recorder_init(&recorder);
    recorder.audit = f->audit;
    principal_stranger(&stranger);
    assert_int_equal(principal_from_user("alice", NULL, 0, &alice, NULL), 0);
    denied(&recorder, &stranger, GRPC_PERMISSION_DENIED, 100);
    denied(&recorder, &stranger, GRPC_INVALID_ARGUMENT, 100);
    denied(&recorder, &alice, GRPC_PERMISSION_DENIED, 300);
    denied(&recorder, &stranger, GRPC_OK, 1);
    close_it(f);
    text = contents(f->path);
    assert_non_null(text);
    assert_int_equal(occurrences(text, "_DENIED\",\"message\":\"no\"}\n"), 39);
    assert_int_equal(occurrences(text, "INVALID_ARGUMENT"), 0);
    assert_int_equal(occurrences(text, "user:alice"), 20);
    assert_int_equal(occurrences(text, "\"message\":\"no\",\"left_out\":180}\n"), 1);
    assert_int_equal(occurrences(text, "\"outcome\":\"OK\",\"left_out\":280}\n"), 1);
    free(text);
    recorder_done(&recorder);
}

/* What costs nothing does not hide what would have cost much, of him nor of anybody. */
static void record_of_each_method_that_is_denied_is_there(void **state)
{
    static const char *const acts[] = {"NodeService/Fence", "NodeService/Token",
                                       "RbacService/UpdateConfig", "NodeService/Of/Nobody"};
    struct fixture *f = *state;
    struct recorder recorder;
    struct principal alice;
    char *text;

    open_it(f, 0, 1);
    recorder_init(&recorder);
    recorder.audit = f->audit;
    assert_int_equal(principal_from_user("alice", NULL, 0, &alice, NULL), 0);
    for (size_t i = 0; methods_at(i); i++)
        if (methods_kind(methods_at(i)->name) == METHOD_READ)
            denied_at(&recorder, &alice, methods_at(i)->name, GRPC_PERMISSION_DENIED, 300);
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++)
        denied_at(&recorder, &alice, acts[i], GRPC_PERMISSION_DENIED, 1);
    close_it(f);
    text = contents(f->path);
    assert_non_null(text);
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++)
        assert_int_equal(occurrences(text, acts[i]), 1);
    free(text);
    recorder_done(&recorder);
}

/* Its other fields lie in the same place. */
static void record_names_the_key_that_was_asked_for(void **state)
{
    Xce__V1__LeaseKey key = XCE__V1__LEASE_KEY__INIT;
    const struct principal nobody = {.key = "-", .name = "-"};
    struct record record = {&nobody, "LeaseService/Get", &key.base, NULL, 0, GRPC_OK, NULL};

    (void)state;
    key.key_case = XCE__V1__LEASE_KEY__KEY_LEASE;
    key.lease = 12;
    line(&record, "{\"time\":\"1970-01-01T00:00:01.000Z\",\"principal\":\"-\",\"name\":\"-\","
                  "\"method\":\"LeaseService/Get\",\"lease\":12,\"outcome\":\"OK\"}\n");
    key.key_case = XCE__V1__LEASE_KEY__KEY_NAME;
    key.name = (ProtobufCBinaryData){5, (uint8_t *)"xce-1"};
    line(&record, "{\"time\":\"1970-01-01T00:00:01.000Z\",\"principal\":\"-\",\"name\":\"-\","
                  "\"method\":\"LeaseService/Get\",\"name\":\"xce-1\",\"outcome\":\"OK\"}\n");
}

/* What is refused for its length is recorded, too. */
static void record_of_long_words_is_cut_short(void **state)
{
    static char long_words[70000];
    Xce__V1__RevokeRequest revoke = XCE__V1__REVOKE_REQUEST__INIT;
    struct recorder recorder;
    struct principal alice;
    const char *text;

    (void)state;
    memset(long_words, 'a', sizeof long_words);
    assert_int_equal(principal_from_user("alice", NULL, 0, &alice, NULL), 0);
    revoke.reason = (ProtobufCBinaryData){sizeof long_words, (uint8_t *)long_words};
    recorder_init(&recorder);
    text = recorder_line(&recorder,
                         &(struct record){&alice, "LeaseService/Revoke", &revoke.base, NULL, 0,
                                          GRPC_INVALID_ARGUMENT, "too long", NULL},
                         1000);
    assert_non_null(text);
    assert_in_range(strlen(text), 512, 1024);
    assert_non_null(strstr(text, "aaa\",\"message\":\"too long\"}"));
    recorder_done(&recorder);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(audit_lines_are_kept_in_order),
        TEST(audit_urgent_line_is_there_at_once),
        TEST(audit_rotates_and_keeps_so_many),
        TEST(audit_of_others_is_refused),
        TEST(audit_torn_line_is_ended),
        TEST(audit_without_room_says_so_before_a_line_is_lost),
        TEST(audit_without_room_at_the_start_is_not_well),
        TEST(audit_lost_lines_are_counted),
        TEST(audit_line_cut_short_spoils_no_other),
        TEST(audit_that_can_not_rotate_goes_on),
        cmocka_unit_test(record_says_who_did_what_to_what),
        TEST(record_of_one_who_is_denied_over_and_over_is_limited),
        TEST(record_of_each_method_that_is_denied_is_there),
        cmocka_unit_test(record_names_the_key_that_was_asked_for),
        cmocka_unit_test(record_of_long_words_is_cut_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
