/* What uids a machine has taken, from real files and the machine's own NSS. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/mem.h"
#include "leased/service/overlap.h"

#define OF_THE_MACHINE                                                                             \
    .prefix = "xce-", .passwd = "/etc/passwd", .group = "/etc/group",                              \
    .nsswitch = "/etc/nsswitch.conf"

struct files {
    char login_defs[64], subuid[64], subgid[64];
};

static void write_file(char path[64], const char *text)
{
    int fd;

    (void)snprintf(path, 64, "/tmp/xce-overlap.XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
}

static struct overlap gather(const char *login_defs, const char *subuid)
{
    struct files files;
    struct overlap overlap;

    write_file(files.login_defs, login_defs);
    write_file(files.subuid, subuid);
    write_file(files.subgid, "");
    assert_int_equal(overlap_gather(&(struct overlap_sources){.login_defs = files.login_defs,
                                                              .subuid = files.subuid,
                                                              .subgid = files.subgid,
                                                              OF_THE_MACHINE},
                                    &overlap),
                     0);
    (void)unlink(files.login_defs);
    (void)unlink(files.subuid);
    (void)unlink(files.subgid);
    return overlap;
}

static void overlap_silent_files_take_the_suite_defaults(void **state)
{
    struct overlap overlap = gather("", "");

    (void)state;
    assert_non_null(overlap_find(&overlap, 1000, 1000));
    assert_non_null(overlap_find(&overlap, 60000, 60000));
    assert_non_null(overlap_find(&overlap, 600100000, 600100000));
    assert_null(overlap_find(&overlap, 2013265920, 2013331455));
    overlap_done(&overlap);
}

static void overlap_login_defs_values_win(void **state)
{
    struct overlap overlap = gather(
        "# UID_MIN 5\nUID_MIN\t2013265920\n  UID_MAX 2013265930\nUID_MAXX 7\n", "");

    (void)state;
    assert_non_null(overlap_find(&overlap, 2013265930, 2013265940));
    assert_null(overlap_find(&overlap, 2013265931, 2013265940));
    overlap_done(&overlap);
}

static void overlap_subuid_lines_count(void **state)
{
    struct overlap overlap = gather(
        "", "alice:2013265920:65536\nbroken\n#x:1:2\nbob:4294967290:100\ncarol:99999999999:1\n");
    const struct overlap_taken *taken = overlap_find(&overlap, 2013331455, 2013331455);

    (void)state;
    assert_non_null(taken);
    assert_non_null(strstr(taken->what, "alice"));
    assert_null(overlap_find(&overlap, 2013331456, 2013331456));
    assert_non_null(overlap_find(&overlap, 4294967293u, 4294967293u));
    overlap_done(&overlap);
}

static void overlap_accounts_and_groups_of_the_machine_count(void **state)
{
    struct overlap overlap = gather("", "");
    const struct overlap_taken *root = overlap_find(&overlap, 0, 0);

    (void)state;
    assert_non_null(root);
    assert_non_null(strstr(root->what, "root"));
    assert_non_null(overlap_find(&overlap, 65534, 65534));
    overlap_done(&overlap);
}

/* Against a plain look at every entry. */
static void overlap_find_answers_as_a_walk_does(void **state)
{
    struct overlap overlap = gather("UID_MIN 7\nUID_MAX 7\n",
                                    "a:2000000000:1000\nb:2000000100:10\nc:2000000990:20\n"
                                    "d:2000005000:1\ne:1999999000:2\n");

    (void)state;
    for (uint32_t first = 1999998990; first < 2000006000; first += 3)
        for (uint32_t count = 1; count < 2000; count += 77) {
            uint32_t last = first + count - 1;
            bool taken = false;

            for (size_t i = 0; i < overlap.n; i++)
                taken |= overlap.taken[i].first <= last && overlap.taken[i].last >= first;
            if (taken != !!overlap_find(&overlap, first, last))
                fail_msg("%u-%u", first, last);
        }
    assert_string_equal(strrchr(overlap_find(&overlap, 2000000105, 2000000995)->what, ' '), " c");
    overlap_done(&overlap);
}

#define THREADS 4

static void *gather_often(void *arg)
{
    const struct overlap_sources nss_alone = {.login_defs = "/nonexistent",
                                              .subuid = "/nonexistent",
                                              .subgid = "/nonexistent",
                                              OF_THE_MACHINE};
    size_t *least = arg;

    for (int i = 0; i < 300; i++) {
        struct overlap overlap;

        assert_int_equal(overlap_gather(&nss_alone, &overlap), 0);
        *least = overlap.n < *least ? overlap.n : *least;
        overlap_done(&overlap);
    }
    return NULL;
}

static void overlap_threads_see_every_account_each(void **state)
{
    size_t alone = SIZE_MAX, least[THREADS];
    pthread_t threads[THREADS];

    (void)state;
    (void)gather_often(&alone);
    memset(least, 0xff, sizeof least);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, gather_often, &least[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(least[i], alone);
    }
}

static void overlap_unreadable_file_is_an_error(void **state)
{
    struct overlap overlap;
    struct overlap_sources sources = {.login_defs = "/nonexistent",
                                      .subuid = "/nonexistent",
                                      .subgid = "/nonexistent",
                                      OF_THE_MACHINE};

    (void)state;
    sources.login_defs = "/proc/self/mem/x";
    assert_int_equal(overlap_gather(&sources, &overlap), -ENOTDIR);
    sources.login_defs = "/nonexistent";
    sources.passwd = "/proc/self/mem/x";
    assert_int_equal(overlap_gather(&sources, &overlap), -ENOTDIR);
    sources.passwd = "/"; /* it opens, and can not be read */
    assert_int_equal(overlap_gather(&sources, &overlap), -EIO);
    sources.passwd = "/nonexistent";
    sources.group = "/";
    assert_int_equal(overlap_gather(&sources, &overlap), -EIO);
    sources.group = "/nonexistent";
    assert_int_equal(overlap_gather(&sources, &overlap), 0);
    overlap_done(&overlap);
}

/* tests/lib/nss_service.c */
#define XCEUP_HAS 2046821000u

static void overlap_service_that_is_down_may_have_anybody(void **state)
{
    static const struct {
        const char *nsswitch;
        int r;
        const char *what; /* has the one that xceup lists */
    } cases[] = {
        {"passwd: files\ngroup: files\n", 0, NULL},
        {"passwd: files xcenone # xcedown\nhosts: xcedown\n", 0, NULL},
        {"passwd: files xceup\n", 0, "account u"},
        {"group:\txceup [NOTFOUND=return] files\n", 0, "group u"},
        {"passwd: files xcedown\n", -EHOSTDOWN, NULL},
        {"passwd: xcedown files\n", -EHOSTDOWN, NULL},
        {" group : xcedown xceup\n", -EHOSTDOWN, NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char nsswitch[64];
        struct overlap_sources sources = {.login_defs = "/nonexistent",
                                          .subuid = "/nonexistent",
                                          .subgid = "/nonexistent",
                                          OF_THE_MACHINE};
        struct overlap overlap;
        const struct overlap_taken *taken;

        write_file(nsswitch, cases[i].nsswitch);
        sources.nsswitch = nsswitch;
        assert_int_equal(overlap_gather(&sources, &overlap), cases[i].r);
        taken = overlap_find(&overlap, XCEUP_HAS, XCEUP_HAS);
        assert_int_equal(!!taken, !!cases[i].what);
        if (taken)
            assert_string_equal(taken->what, cases[i].what);
        overlap_done(&overlap);
        (void)unlink(nsswitch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlap_silent_files_take_the_suite_defaults),
        cmocka_unit_test(overlap_login_defs_values_win),
        cmocka_unit_test(overlap_subuid_lines_count),
        cmocka_unit_test(overlap_accounts_and_groups_of_the_machine_count),
        cmocka_unit_test(overlap_find_answers_as_a_walk_does),
        cmocka_unit_test(overlap_threads_see_every_account_each),
        cmocka_unit_test(overlap_unreadable_file_is_an_error),
        cmocka_unit_test(overlap_service_that_is_down_may_have_anybody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
