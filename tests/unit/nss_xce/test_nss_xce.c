/* The entry points, as a hostile host process calls them. Names bear the numbers of the ways in which such modules have
 * failed (docs/map.md lists them). */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "map/name.h"
#include "nss_xce/nss_xce.h"
#include "tests/lib/map_fixture.h"

#define BASE FIXTURE_BASE

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ASAN
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ASAN
#endif

char nss_test_path[96];

struct answer {
    struct passwd pw;
    struct group gr;
    char buf[1024];
    int error;
};

static enum nss_status by_uid(uint32_t uid, struct answer *a)
{
    return _nss_xce_getpwuid_r(uid, &a->pw, a->buf, sizeof(a->buf), &a->error);
}

static enum nss_status by_name(const char *name, struct answer *a)
{
    return _nss_xce_getpwnam_r(name, &a->pw, a->buf, sizeof(a->buf), &a->error);
}

static enum nss_status group_by_gid(uint32_t gid, struct answer *a)
{
    return _nss_xce_getgrgid_r(gid, &a->gr, a->buf, sizeof(a->buf), &a->error);
}

static enum nss_status group_by_name(const char *name, struct answer *a)
{
    return _nss_xce_getgrnam_r(name, &a->gr, a->buf, sizeof(a->buf), &a->error);
}

static double now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Ask until the answer is `want`; at most `seconds`. What the module remembers for a second it may take two to see. */
static void comes(enum nss_status want, uint32_t uid, double seconds)
{
    const struct timespec pause = {0, 2000000};
    double from = now_s();
    struct answer a;

    while (by_uid(uid, &a) != want) {
        if (now_s() - from > seconds)
            fail_msg("no such answer within %.1f s", seconds);
        (void)nanosleep(&pause, NULL);
    }
}

static int count_lines(const char *path)
{
    FILE *f = fopen(path, "re");
    int n = 0, c;

    assert_non_null(f);
    while ((c = getc(f)) != EOF)
        n += c == '\n';
    assert_int_equal(fclose(f), 0);
    return n;
}

static int count_fds(void)
{
    int n = 0;

    for (int fd = 0; fd < 4096; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void wait_for_this_map(const struct map_fixture *f)
{
    const struct timespec pause = {0, 2000000};
    double from = now_s();
    struct answer a;

    while (by_uid(BASE, &a) != NSS_STATUS_SUCCESS || strcmp(a.pw.pw_dir, f->dir) != 0) {
        if (now_s() - from > 60)
            fail_msg("the new map is not found");
        (void)nanosleep(&pause, NULL);
    }
}

static int setup(void **state)
{
    struct map_fixture *f = malloc(sizeof(*f));
    struct map_lease mark = fixture_lease(BASE, 1);

    fixture_begin(f);
    fixture_start(f);
    fixture_shape(f, 16);
    mark.home = f->dir;
    assert_int_equal(map_writer_set(f->writer, &mark), 0);
    (void)snprintf(nss_test_path, sizeof(nss_test_path), "%s", f->path);
    wait_for_this_map(f);
    fixture_set(f, BASE, 1);
    *state = f;
    return 0;
}

/* So that the next test need not wait until it shows that this map was removed. */
static void supersede(const char *path)
{
    static const uint32_t superseded = XCE_MAP_SUPERSEDED;
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    assert_int_equal(
        pwrite(fd, &superseded, sizeof(superseded), offsetof(struct xce_map_header, state)),
        sizeof(superseded));
    (void)close(fd);
}

static int teardown(void **state)
{
    supersede(((struct map_fixture *)*state)->path);
    fixture_end(*state);
    free(*state);
    return 0;
}

static void nss_four_ways_to_one_lease(void **state)
{
    struct answer a;

    (void)state;
    assert_int_equal(by_uid(BASE, &a), NSS_STATUS_SUCCESS);
    assert_string_equal(a.pw.pw_name, "xce-1w00000-1");
    assert_string_equal(a.pw.pw_passwd, "x");
    assert_string_equal(a.pw.pw_gecos, "xce lease");
    assert_string_equal(a.pw.pw_dir, "/nonexistent");
    assert_string_equal(a.pw.pw_shell, "/usr/sbin/nologin");
    assert_int_equal(a.pw.pw_uid, BASE);
    assert_int_equal(a.pw.pw_gid, BASE);
    assert_int_equal(by_name("xce-1w00000-1", &a), NSS_STATUS_SUCCESS);
    assert_int_equal(a.pw.pw_uid, BASE);
    assert_int_equal(group_by_gid(BASE, &a), NSS_STATUS_SUCCESS);
    assert_string_equal(a.gr.gr_name, "xce-1w00000-1");
    assert_string_equal(a.gr.gr_passwd, "x");
    assert_null(a.gr.gr_mem[0]);
    assert_int_equal(group_by_name("xce-1w00000-1", &a), NSS_STATUS_SUCCESS);
    assert_int_equal(a.gr.gr_gid, BASE);
    assert_int_equal(by_uid(BASE + 1, &a), NSS_STATUS_NOTFOUND);
    assert_int_equal(group_by_gid(BASE + 1, &a), NSS_STATUS_NOTFOUND);
}

static void nss_f8_descriptor_of_the_host_is_left_alone(void **state)
{
    struct map_fixture *f = *state;
    int pair[2], kind;
    socklen_t len = sizeof(kind);
    struct answer a;
    pid_t pid = fork();

    if (pid == 0) {
        /* whatever the module might have open goes, and its numbers go to sockets */
        for (int fd = 3; fd < 1024; fd++)
            (void)close(fd);
        for (int i = 0; i < 64; i++)
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
                _exit(1);
        fixture_shape(f, 17);
        if (by_uid(BASE, &a) != NSS_STATUS_SUCCESS)
            _exit(2);
        for (int fd = 3; fd < 3 + 128; fd++)
            if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &len) < 0)
                _exit(3);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &kind, 0), pid);
    assert_int_equal(kind, 0);
}

static void *look_once(void *arg)
{
    struct answer a;

    atomic_fetch_add((_Atomic int *)arg, by_uid(BASE, &a) == NSS_STATUS_SUCCESS);
    return NULL;
}

static void nss_f9_thousand_threads_leave_nothing_behind(void **state)
{
    static pthread_t threads[1000];
    _Atomic int found = 0;
    int fds = count_fds();
    pthread_attr_t small;

    (void)state;
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, 65536), 0);
    fixture_shape(*state, 18);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(pthread_create(&threads[i], &small, look_once, &found), 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(found, 1000);
    assert_int_equal(count_fds(), fds);
    (void)pthread_attr_destroy(&small);
}

struct storm {
    _Atomic int stop, ready;
    _Atomic uint64_t looked, wrong;
};

static void *look_on(void *arg)
{
    struct storm *storm = arg;
    struct answer a;

    atomic_fetch_add(&storm->ready, 1);
    while (!atomic_load(&storm->stop)) {
        bool good = by_uid(BASE, &a) == NSS_STATUS_SUCCESS && a.pw.pw_uid == BASE &&
                    strcmp(a.pw.pw_dir, "/nonexistent") == 0 &&
                    by_name("xce-1w00000-1", &a) == NSS_STATUS_SUCCESS &&
                    group_by_gid(BASE, &a) == NSS_STATUS_SUCCESS &&
                    strcmp(a.gr.gr_name, "xce-1w00000-1") == 0 &&
                    by_uid(BASE + 1, &a) == NSS_STATUS_NOTFOUND;

        atomic_fetch_add(&storm->looked, 1);
        atomic_fetch_add(&storm->wrong, !good);
    }
    return NULL;
}

/* Also: what is mapped does not grow with the number of maps. */
static void nss_f11_map_is_replaced_under_eight_readers(void **state)
{
    struct map_fixture *f = *state;
    struct storm storm = {0};
    pthread_t readers[8];
    int rounds = fixture_long() ? 10000 : 500, before, fds = count_fds();

    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, look_on, &storm), 0);
    while (atomic_load(&storm.ready) < 8)
        (void)sched_yield();
    before = count_lines("/proc/self/maps");
    for (int i = 0; i < rounds; i++)
        fixture_shape(f, 16 + (uint32_t)i % 1000);
    atomic_store(&storm.stop, 1);
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    print_message("%d maps, %ju rounds of look-ups, %ju wrong\n", rounds, (uintmax_t)storm.looked,
                  (uintmax_t)storm.wrong);
    assert_int_equal(storm.wrong, 0);
    assert_int_equal(count_fds(), fds);
    assert_true(count_lines("/proc/self/maps") < before + 40);
}

static void nss_f16_small_buffers_lose_no_entry(void **state)
{
    struct map_fixture *f = *state;
    struct passwd pw;
    struct group gr;
    char buf[256];
    int error, n = 0;

    for (uint32_t i = 0; i < 16; i += 3)
        fixture_set(f, BASE + i, 1);
    assert_int_equal(_nss_xce_setpwent(0), NSS_STATUS_SUCCESS);
    for (uint32_t uid = BASE; uid < BASE + 16; uid += 3, n++) {
        size_t len = 0;

        while (_nss_xce_getpwent_r(&pw, buf, len, &error) == NSS_STATUS_TRYAGAIN) {
            assert_int_equal(error, ERANGE);
            len++;
        }
        assert_int_equal(pw.pw_uid, uid);
    }
    assert_int_equal(_nss_xce_getpwent_r(&pw, buf, sizeof(buf), &error), NSS_STATUS_NOTFOUND);
    assert_int_equal(_nss_xce_endpwent(), NSS_STATUS_SUCCESS);
    assert_int_equal(_nss_xce_setgrent(0), NSS_STATUS_SUCCESS);
    for (uint32_t gid = BASE; gid < BASE + 16; gid += 3, n--) {
        size_t len = 0;

        while (_nss_xce_getgrent_r(&gr, buf, len, &error) == NSS_STATUS_TRYAGAIN)
            len++;
        assert_int_equal(gr.gr_gid, gid);
    }
    assert_int_equal(_nss_xce_getgrent_r(&gr, buf, sizeof(buf), &error), NSS_STATUS_NOTFOUND);
    assert_int_equal(n, 0);
}

static void nss_f17_enumeration_ends_and_begins_again(void **state)
{
    struct answer a;

    for (uint32_t i = 0; i < 5; i++)
        fixture_set(*state, BASE + i, 7);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(_nss_xce_setpwent(round % 2), NSS_STATUS_SUCCESS);
        for (uint32_t i = 0; i < 5; i++) {
            assert_int_equal(_nss_xce_getpwent_r(&a.pw, a.buf, sizeof(a.buf), &a.error),
                             NSS_STATUS_SUCCESS);
            assert_int_equal(a.pw.pw_uid, BASE + i);
        }
        for (int i = 0; i < 5; i++)
            assert_int_equal(_nss_xce_getpwent_r(&a.pw, a.buf, sizeof(a.buf), &a.error),
                             NSS_STATUS_NOTFOUND);
        if (round == 1)
            assert_int_equal(_nss_xce_endpwent(), NSS_STATUS_SUCCESS);
    }
    /* never set, never ended, map replaced in the middle */
    assert_int_equal(_nss_xce_setpwent(0), NSS_STATUS_SUCCESS);
    assert_int_equal(_nss_xce_getpwent_r(&a.pw, a.buf, sizeof(a.buf), &a.error),
                     NSS_STATUS_SUCCESS);
    fixture_shape(*state, 500);
    for (uint32_t i = 1; i < 5; i++) {
        assert_int_equal(_nss_xce_getpwent_r(&a.pw, a.buf, sizeof(a.buf), &a.error),
                         NSS_STATUS_SUCCESS);
        assert_int_equal(a.pw.pw_uid, BASE + i);
    }
}

static void *enumerate(void *arg)
{
    _Atomic uint8_t *seen = arg;
    struct answer a;

    while (_nss_xce_getpwent_r(&a.pw, a.buf, sizeof(a.buf), &a.error) == NSS_STATUS_SUCCESS)
        atomic_fetch_add(&seen[a.pw.pw_uid - BASE], 1);
    return NULL;
}

static void nss_enumeration_by_four_threads_gives_each_lease_once(void **state)
{
    static _Atomic uint8_t seen[2000];
    pthread_t threads[4];

    fixture_shape(*state, 2000);
    for (uint32_t i = 0; i < 2000; i++)
        fixture_set(*state, BASE + i, 2);
    assert_int_equal(_nss_xce_setpwent(0), NSS_STATUS_SUCCESS);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, enumerate, seen), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 2000; i++)
        assert_int_equal(seen[i], 1);
}

static void nss_f18_reserved_ids_and_names_are_nobody_here(void **state)
{
    static const uint32_t ids[] = {0,     1,     999,   1000,   4242,       60001,      61184,
                                   65519, 65534, 65535, 524288, 2000000000, 0x80000000, UINT32_MAX};
    static const char *const names[] = {"root", "nobody", "daemon", "systemd-network", "0", "-1"};
    struct answer a;

    (void)state;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        assert_int_equal(by_uid(ids[i], &a), NSS_STATUS_NOTFOUND);
        assert_int_equal(group_by_gid(ids[i], &a), NSS_STATUS_NOTFOUND);
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_int_equal(by_name(names[i], &a), NSS_STATUS_NOTFOUND);
        assert_int_equal(group_by_name(names[i], &a), NSS_STATUS_NOTFOUND);
    }
}

static void nss_f19_odd_names_are_not_found(void **state)
{
    char long_name[301];
    const char *const names[] = {"",
                                 "x.y",
                                 "a/b",
                                 "a:b",
                                 "a\nb",
                                 "\xc3\xbc",
                                 "\xff",
                                 long_name,
                                 "xce-",
                                 "xce--1",
                                 "xce-1w00000",
                                 "xce-1w00000-",
                                 "xce-1-",
                                 "xce-\x01",
                                 "%n%s",
                                 "../..",
                                 "xce-1w00000-1 ",
                                 "XCE-1W00000-1",
                                 "xce-01w00000-1",
                                 "xce-1w00000-01",
                                 "xce-1w0000o-1",
                                 "xce-1w00000-1\n"};
    struct answer a;

    (void)state;
    memset(long_name, 'n', 300);
    long_name[300] = '\0';
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_int_equal(by_name(names[i], &a), NSS_STATUS_NOTFOUND);
        assert_int_equal(group_by_name(names[i], &a), NSS_STATUS_NOTFOUND);
    }
}

static void *look_for_huge_names(void *arg)
{
    char *name = arg;
    struct answer a;
    uintptr_t found;

    found = by_name(name, &a) == NSS_STATUS_NOTFOUND;
    memset(name, '1', 64);
    memcpy(name, "xce-", 4);
    found += by_name(name, &a) == NSS_STATUS_NOTFOUND;
    memcpy(name, "xce-1w00000-", 12);
    found += by_name(name, &a) == NSS_STATUS_NOTFOUND;
    found += group_by_name(name, &a) == NSS_STATUS_NOTFOUND;
    return (void *)found;
}

static void nss_f20_huge_names_need_no_stack(void **state)
{
    size_t len = 16u << 20;
    char *name = malloc(len + 1);
    pthread_attr_t small;
    pthread_t thread;
    void *found;

    (void)state;
    assert_non_null(name);
    memset(name, 'x', len);
    name[len] = '\0';
    assert_int_equal(pthread_attr_init(&small), 0);
    /* all that it may use is a hundredth of the name */
    assert_int_equal(pthread_attr_setstacksize(&small, 65536), 0);
    assert_int_equal(pthread_create(&thread, &small, look_for_huge_names, name), 0);
    assert_int_equal(pthread_join(thread, &found), 0);
    assert_int_equal((uintptr_t)found, 4);
    (void)pthread_attr_destroy(&small);
    free(name);
}

static void nss_f21_answers_outlive_the_map(void **state)
{
    struct answer pw, gr, a;

    assert_int_equal(by_uid(BASE, &pw), NSS_STATUS_SUCCESS);
    assert_int_equal(group_by_gid(BASE, &gr), NSS_STATUS_SUCCESS);
    fixture_shape(*state, 33);
    assert_int_equal(map_writer_retire(((struct map_fixture *)*state)->writer, BASE, 1, 2), 0);
    assert_int_equal(by_uid(BASE, &a), NSS_STATUS_NOTFOUND);
    assert_string_equal(pw.pw.pw_name, "xce-1w00000-1");
    assert_string_equal(pw.pw.pw_shell, "/usr/sbin/nologin");
    assert_string_equal(gr.gr.gr_name, "xce-1w00000-1");
    assert_true(pw.pw.pw_name >= pw.buf && pw.pw.pw_shell < pw.buf + sizeof(pw.buf));
    assert_true(gr.gr.gr_name >= gr.buf && (char *)gr.gr.gr_mem >= gr.buf);
}

static void check_errno(struct map_fixture *f, uint32_t uid, enum nss_status want)
{
    struct answer a = {.error = 4711};

    (void)f;
    errno = EPERM;
    assert_int_equal(by_uid(uid, &a), want);
    assert_int_equal(errno, EPERM);
    assert_int_equal(a.error, 4711);
}

static void nss_f23_errno_of_the_caller_survives(void **state)
{
    struct map_fixture *f = *state;
    struct passwd pw;
    char buf[8];

    check_errno(f, BASE, NSS_STATUS_SUCCESS);
    check_errno(f, BASE + 1, NSS_STATUS_NOTFOUND);
    check_errno(f, 0, NSS_STATUS_NOTFOUND);
    fixture_shape(f, 44);
    check_errno(f, BASE, NSS_STATUS_SUCCESS);
    /* errnop is errno's address when glibc calls */
    errno = EPERM;
    assert_int_equal(_nss_xce_getpwuid_r(BASE, &pw, buf, sizeof(buf), &errno), NSS_STATUS_TRYAGAIN);
    assert_int_equal(errno, ERANGE);
    nss_test_path[strlen(nss_test_path) - 1] = 0;
    fixture_shape(f, 45);
    check_errno(f, BASE, NSS_STATUS_NOTFOUND);
    check_errno(f, BASE, NSS_STATUS_NOTFOUND);
}

static void nss_f24_f27_without_a_map_it_is_quick_and_not_unavail(void **state)
{
    struct map_fixture *f = *state;
    struct answer a;
    double from;

    map_writer_free(f->writer, true);
    f->writer = NULL;
    assert_int_equal(unlink(f->path), 0);
    /* what it had mapped goes on; a process that begins now has nothing */
    assert_int_equal(by_uid(BASE, &a), NSS_STATUS_SUCCESS);
    fixture_start(f);
    fixture_shape(f, 3);
    comes(NSS_STATUS_NOTFOUND, BASE, 60);
    assert_int_equal(chmod(f->path, 0666), 0);
    fixture_shape(f, 4);
    assert_int_equal(chmod(f->path, 0666), 0);
    assert_int_equal(by_uid(BASE, &a), NSS_STATUS_NOTFOUND);
    from = now_s();
    for (int i = 0; i < 100000; i++) {
        assert_true(by_uid(BASE, &a) == NSS_STATUS_NOTFOUND);
        assert_true(by_name("xce-1w00000-1", &a) == NSS_STATUS_NOTFOUND);
        assert_true(group_by_name("nosuch", &a) == NSS_STATUS_NOTFOUND);
    }
    assert_true((now_s() - from) / 300000 < 10e-6);
    assert_int_equal(_nss_xce_setpwent(0), NSS_STATUS_SUCCESS);
    assert_int_equal(_nss_xce_getpwent_r(&a.pw, a.buf, sizeof(a.buf), &a.error),
                     NSS_STATUS_NOTFOUND);
    /* and when it can be trusted again, it is found */
    fixture_set(f, BASE, 9);
    assert_int_equal(chmod(f->path, 0644), 0);
    comes(NSS_STATUS_SUCCESS, BASE, 60);
}

static void *look_until_cancelled(void *arg)
{
    struct answer a;

    (void)arg;
    for (;;) {
        (void)by_uid(BASE, &a);
        (void)by_name("xce-1w00000-1", &a);
        pthread_testcancel();
    }
    return NULL;
}

static void nss_f28_cancelled_threads_take_nothing_with_them(void **state)
{
    struct map_fixture *f = *state;
    int fds = count_fds(), rounds = fixture_long() ? 5000 : 100;
    pthread_t threads[4];
    struct answer a;

#ifdef ASAN
    /* It does not forget the frames of a thread that is cancelled, and takes the next one's stack for them. */
    skip();
#endif
    for (int i = 0; i < rounds; i++) {
        for (int k = 0; k < 4; k++)
            assert_int_equal(pthread_create(&threads[k], NULL, look_until_cancelled, NULL), 0);
        fixture_shape(f, 16 + (uint32_t)i % 300);
        for (int k = 0; k < 4; k++)
            assert_int_equal(pthread_cancel(threads[k]), 0);
        for (int k = 0; k < 4; k++)
            assert_int_equal(pthread_join(threads[k], NULL), 0);
        assert_int_equal(by_uid(BASE, &a), NSS_STATUS_SUCCESS);
    }
    assert_int_equal(count_fds(), fds);
}

static void *mix_groups(void *arg)
{
    _Atomic int *wrong = arg;
    struct answer a;

    for (int i = 0; i < 200; i++) {
        long int start = 1, size = 4;
        gid_t *groups = malloc(4 * sizeof(gid_t));
        int error;

        groups[0] = BASE + 2;
        if (_nss_xce_initgroups_dyn("xce-1w00002-5", BASE + 2, &start, &size, &groups, -1,
                                    &error) != NSS_STATUS_SUCCESS ||
            start != 21 || groups[1] != 100 || groups[20] != 119 ||
            group_by_name("xce-1w00002-5", &a) != NSS_STATUS_SUCCESS)
            atomic_fetch_add(wrong, 1);
        free(groups);
    }
    return NULL;
}

static struct map_lease lease_with_gids(uint32_t gids[20])
{
    struct map_lease lease = fixture_lease(BASE + 2, 5);

    for (uint32_t i = 0; i < 20; i++)
        gids[i] = 100 + i;
    lease.gids = gids;
    lease.n_gids = 20;
    return lease;
}

static void nss_f32_groups_in_twelve_threads(void **state)
{
    struct map_fixture *f = *state;
    uint32_t gids[20];
    const struct map_lease lease = lease_with_gids(gids);
    pthread_t threads[12];
    _Atomic int wrong = 0;

    assert_int_equal(map_writer_set(f->writer, &lease), 0);
    for (int i = 0; i < 12; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, mix_groups, &wrong), 0);
    for (int i = 0; i < 12; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(wrong, 0);
}

static void nss_f33_initgroups_of_others_is_not_ours(void **state)
{
    long int start = 0, size = 4;
    gid_t array[4] = {1, 2, 3, 4}, *groups = array;
    int error = 4711;

    (void)state;
    assert_int_equal(_nss_xce_initgroups_dyn("root", 0, &start, &size, &groups, -1, &error),
                     NSS_STATUS_NOTFOUND);
    assert_int_equal(
        _nss_xce_initgroups_dyn("xce-1w00000-2", BASE, &start, &size, &groups, -1, &error),
        NSS_STATUS_NOTFOUND);
    /* a lease without supplementary groups is ours none the less */
    assert_int_equal(
        _nss_xce_initgroups_dyn("xce-1w00000-1", BASE, &start, &size, &groups, -1, &error),
        NSS_STATUS_SUCCESS);
    assert_int_equal(start, 0);
    assert_int_equal(error, 4711);
    assert_ptr_equal(groups, array);
    assert_int_equal(array[0], 1);
}

static void nss_initgroups_keeps_to_the_limit(void **state)
{
    struct map_fixture *f = *state;
    uint32_t gids[20];
    const struct map_lease lease = lease_with_gids(gids);
    int error;

    assert_int_equal(map_writer_set(f->writer, &lease), 0);
    for (long int limit = -1; limit < 30; limit++) {
        for (long int at = 0; at < 3; at++) {
            long int start = at, size = 3, want = at + 19;
            gid_t *groups = malloc(3 * sizeof(gid_t));

            if (limit > 0 && want > limit)
                want = limit > 3 ? limit : 3;
            /* the primary group, 105, is left out */
            assert_int_equal(_nss_xce_initgroups_dyn("xce-1w00002-5", 105, &start, &size, &groups,
                                                     limit, &error),
                             NSS_STATUS_SUCCESS);
            assert_int_equal(start, want);
            assert_true(size >= start && (limit <= 3 || size <= limit));
            for (long int i = at; i < start; i++)
                assert_int_equal(groups[i], 100 + i - at + (i - at >= 5));
            free(groups);
        }
    }
}

static void nss_f38_old_name_ends_with_the_lease(void **state)
{
    struct map_fixture *f = *state;
    struct answer a;

    assert_int_equal(by_name("xce-1w00000-1", &a), NSS_STATUS_SUCCESS);
    assert_int_equal(map_writer_retire(f->writer, BASE, 1, 2), 0);
    assert_int_equal(by_name("xce-1w00000-1", &a), NSS_STATUS_NOTFOUND);
    assert_int_equal(group_by_name("xce-1w00000-1", &a), NSS_STATUS_NOTFOUND);
    assert_int_equal(by_uid(BASE, &a), NSS_STATUS_NOTFOUND);
    fixture_set(f, BASE, 2);
    assert_int_equal(by_name("xce-1w00000-1", &a), NSS_STATUS_NOTFOUND);
    assert_int_equal(by_uid(BASE, &a), NSS_STATUS_SUCCESS);
    assert_string_equal(a.pw.pw_name, "xce-1w00000-2");
}

static void nss_map_removed_behind_the_writer_is_found_again(void **state)
{
    struct map_fixture *f = *state;
    struct answer a;

    /* The writer dies with its file; the next one makes another, and cannot tell the readers of the first. */
    map_writer_free(f->writer, false);
    assert_int_equal(unlink(f->path), 0);
    assert_int_equal(by_uid(BASE, &a), NSS_STATUS_SUCCESS);
    fixture_start(f);
    fixture_shape(f, 16);
    fixture_set(f, BASE + 7, 3);
    comes(NSS_STATUS_SUCCESS, BASE + 7, 60);
    assert_int_equal(by_uid(BASE, &a), NSS_STATUS_NOTFOUND);
}

static void nss_f48_map_of_another_is_not_believed(void **state)
{
    struct map_fixture *f = *state;
    struct answer a;

    fixture_shape(f, 20);
    assert_int_equal(chown(f->path, 1000, 0), 0);
    assert_int_equal(by_uid(BASE, &a), NSS_STATUS_NOTFOUND);
    assert_int_equal(chown(f->path, 0, 0), 0);
    comes(NSS_STATUS_SUCCESS, BASE, 60);
}

static void nss_damaged_map_is_not_believed(void **state)
{
    struct map_fixture *f = *state;
    struct answer a;
    int fd;

    fixture_shape(f, 20);
    fd = open(f->path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "y", 1, offsetof(struct xce_map_header, prefix)), 1);
    assert_int_equal(by_uid(BASE, &a), NSS_STATUS_NOTFOUND);
    assert_int_equal(by_name("yce-1w00000-1", &a), NSS_STATUS_NOTFOUND);
    assert_int_equal(pwrite(fd, "x", 1, offsetof(struct xce_map_header, prefix)), 1);
    comes(NSS_STATUS_SUCCESS, BASE, 60);
    /* damage that comes later */
    assert_int_equal(pwrite(fd, "y", 1, offsetof(struct xce_map_header, prefix)), 1);
    assert_int_equal(by_name("xce-1w00000-1", &a), NSS_STATUS_NOTFOUND);
    assert_int_equal(by_name("yce-1w00000-1", &a), NSS_STATUS_NOTFOUND);
    assert_int_equal(close(fd), 0);
}

static void nss_child_of_fork_goes_on(void **state)
{
    struct map_fixture *f = *state;
    struct storm storm = {0};
    pthread_t readers[4];
    int status;

    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, look_on, &storm), 0);
    for (int i = 0; i < (fixture_long() ? 2000 : 60); i++) {
        pid_t pid;

        fixture_shape(f, 16 + (uint32_t)i % 7);
        pid = fork();
        if (pid == 0) {
            struct answer a;

            for (int k = 0; k < 100; k++)
                if (by_uid(BASE, &a) != NSS_STATUS_SUCCESS)
                    _exit(1);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    atomic_store(&storm.stop, 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    assert_int_equal(storm.wrong, 0);
}

static _Atomic int in_handler;

static void look_in_handler(int sig)
{
    struct answer a;

    (void)sig;
    if (by_uid(BASE, &a) == NSS_STATUS_SUCCESS)
        atomic_fetch_add(&in_handler, 1);
}

static void nss_look_up_in_a_signal_handler(void **state)
{
    struct map_fixture *f = *state;
    const struct sigaction action = {.sa_handler = look_in_handler};
    const struct itimerspec every = {{0, 50000}, {0, 50000}}, never = {0};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct answer a;
    timer_t timer;

    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    assert_int_equal(timer_settime(timer, 0, &every, NULL), 0);
    for (uint32_t i = 0; i < 300 || atomic_load(&in_handler) < 20; i++) {
        fixture_shape(f, 16 + i % 300);
        for (int k = 0; k < 50; k++)
            assert_int_equal(by_uid(BASE, &a), NSS_STATUS_SUCCESS);
    }
    assert_int_equal(timer_settime(timer, 0, &never, NULL), 0);
    assert_int_equal(timer_delete(timer), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(nss_four_ways_to_one_lease),
        CASE(nss_f8_descriptor_of_the_host_is_left_alone),
        CASE(nss_f9_thousand_threads_leave_nothing_behind),
        CASE(nss_f11_map_is_replaced_under_eight_readers),
        CASE(nss_f16_small_buffers_lose_no_entry),
        CASE(nss_f17_enumeration_ends_and_begins_again),
        CASE(nss_enumeration_by_four_threads_gives_each_lease_once),
        CASE(nss_f18_reserved_ids_and_names_are_nobody_here),
        CASE(nss_f19_odd_names_are_not_found),
        CASE(nss_f20_huge_names_need_no_stack),
        CASE(nss_f21_answers_outlive_the_map),
        CASE(nss_f23_errno_of_the_caller_survives),
        CASE(nss_f24_f27_without_a_map_it_is_quick_and_not_unavail),
        CASE(nss_f28_cancelled_threads_take_nothing_with_them),
        CASE(nss_f32_groups_in_twelve_threads),
        CASE(nss_f33_initgroups_of_others_is_not_ours),
        CASE(nss_initgroups_keeps_to_the_limit),
        CASE(nss_f38_old_name_ends_with_the_lease),
        CASE(nss_map_removed_behind_the_writer_is_found_again),
        CASE(nss_f48_map_of_another_is_not_believed),
        CASE(nss_damaged_map_is_not_believed),
        CASE(nss_child_of_fork_goes_on),
        CASE(nss_look_up_in_a_signal_handler),
    };

    if (fixture_cannot_run())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
