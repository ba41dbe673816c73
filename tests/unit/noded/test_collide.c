#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/name_service.h"
#include "noded/collide.h"
#include "noded/reason.h"

#define FIRST 2046820352u
#define LAST  2046821000u

struct fixture {
    char dir[64];
    char nsswitch[96], passwd[96], group[96], subuid[96], subgid[96], login_defs[96];
    struct collide_files files;
    struct collide_question question;
    struct collide_answer answer;
};

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    memcpy(f->dir, "/tmp/xce-test-collide.XXXXXX", 29);
    assert_non_null(mkdtemp(f->dir));
#define PLACE(name)                                                                                \
    (void)snprintf(f->name, sizeof(f->name), "%s/" #name, f->dir);                                 \
    f->files.name = f->name
    PLACE(nsswitch);
    PLACE(passwd);
    PLACE(group);
    PLACE(subuid);
    PLACE(subgid);
    PLACE(login_defs);
    f->files.providers = f->dir;
    f->files.userdb[0] = f->dir;
    put(f->passwd, "root:x:0:0::/:/bin/sh\nalice:x:1000:1000::/:/bin/sh\n");
    put(f->group, "root:x:0:\nalice:x:1000:\n");
    f->question = (struct collide_question){.kind = COLLIDE_RANGE_FILES,
                                            .serial = 7,
                                            .n = 2,
                                            .prefix = "xce-",
                                            .uids = {{FIRST, 0}, {LAST, 0}}};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    (void)unlink(f->nsswitch);
    (void)unlink(f->passwd);
    (void)unlink(f->group);
    (void)unlink(f->subuid);
    (void)unlink(f->subgid);
    (void)unlink(f->login_defs);
    assert_int_equal(rmdir(f->dir), 0);
    free(f);
    return 0;
}

static void ask(struct fixture *f)
{
    collide_ask(&f->question, &f->files, &f->answer);
    assert_int_equal(f->answer.serial, 7);
}

static void expect_one(struct fixture *f, uint32_t uid, enum reason reason, bool whole)
{
    ask(f);
    assert_int_equal(f->answer.n, 1);
    assert_int_equal(f->answer.found[0].uid, uid);
    assert_int_equal(f->answer.found[0].reason, reason);
    assert_int_equal(f->answer.found[0].whole, whole);
}

static void collide_range_without_anybody_is_free(void **state)
{
    struct fixture *f = *state;

    ask(f);
    assert_int_equal(f->answer.n, 0);
}

static void collide_range_finds_users_and_groups(void **state)
{
    struct fixture *f = *state;

    put(f->passwd, "bob:x:2046820352:100::/:/bin/sh\n");
    expect_one(f, FIRST, REASON_ACCOUNT, false);
    /* Whatever its name: files are never ours. */
    put(f->passwd, "xce-1x0000g-1:x:2046821000:100::/:/bin/sh\n");
    expect_one(f, LAST, REASON_ACCOUNT, false);
    put(f->passwd, "bob:x:1000:2046820400::/:/bin/sh\n");
    expect_one(f, 2046820400u, REASON_GROUP, false);
    put(f->passwd, "bob:x:2046821001:100::/:/bin/sh\nal:x:2046820351:100::/:/bin/sh\n");
    ask(f);
    assert_int_equal(f->answer.n, 0);
    put(f->group, "lab:x:2046820999:alice\n");
    expect_one(f, 2046820999u, REASON_GROUP, false);
}

static void collide_range_finds_id_maps_and_login_defs(void **state)
{
    struct fixture *f = *state;

    put(f->subuid, "alice:100000:65536\n");
    ask(f);
    assert_int_equal(f->answer.n, 0);
    put(f->subuid, "alice:2046754816:65537\n");
    expect_one(f, FIRST, REASON_ACCOUNT, true);
    put(f->subuid, "");
    put(f->subgid, "1000:2046821000:1");
    expect_one(f, FIRST, REASON_ACCOUNT, true);
    put(f->subgid, "bad line\n:::\nx:y:z\nalice:2046820352:0\n");
    ask(f);
    assert_int_equal(f->answer.n, 0);
    put(f->login_defs, "# UID_MAX 4000000000\nUID_MIN\t\t 1000\nUID_MAX  2046820352 \n");
    expect_one(f, FIRST, REASON_ACCOUNT, true);
    put(f->login_defs, "UID_MIN 1000\nUID_MAX 60000\nSUB_UID_MIN 100000\nSUB_UID_MAX 600100000\n");
    ask(f);
    assert_int_equal(f->answer.n, 0);
}

static void collide_file_that_can_not_be_read_is_a_finding(void **state)
{
    struct fixture *f = *state;
    char below[128];

    (void)snprintf(below, sizeof(below), "%s/below", f->passwd);
    f->files.subuid = below; /* ENOTDIR */
    expect_one(f, FIRST, REASON_SCAN_FAILED, true);
}

/* Nobody is known to have it; neither is it nobody's. */
static void collide_accounts_that_can_not_be_read_are_a_finding(void **state)
{
    struct fixture *f = *state;
    char below[128];

    (void)snprintf(below, sizeof(below), "%s/below", f->subuid);
    put(f->subuid, "");
    f->files.passwd = below; /* ENOTDIR */
    expect_one(f, FIRST, REASON_SCAN_FAILED, false);
    f->files.passwd = f->passwd;
    f->files.group = f->dir; /* it opens, and can not be read */
    expect_one(f, FIRST, REASON_SCAN_FAILED, false);
    put(f->passwd, "bob:x:2046820352:100::/:/bin/sh\n");
    expect_one(f, FIRST, REASON_ACCOUNT, false);
    put(f->passwd, "");
    f->question.kind = COLLIDE_UIDS;
    ask(f);
    assert_int_equal(f->answer.n, 2);
    assert_int_equal(f->answer.found[1].reason, REASON_SCAN_FAILED);
    (void)snprintf(below, sizeof(below), "%s/none", f->dir);
    f->files.group = below;
    ask(f);
    assert_int_equal(f->answer.n, 0);
}

static void collide_more_than_fit_are_counted(void **state)
{
    struct fixture *f = *state;
    FILE *file = fopen(f->passwd, "we");

    for (uint32_t i = 0; i < COLLIDE_ANSWERS_MAX + 5; i++)
        (void)fprintf(file, "u%u:x:%u:1::/:/bin/sh\n", i, FIRST + i);
    assert_int_equal(fclose(file), 0);
    ask(f);
    assert_int_equal(f->answer.n, COLLIDE_ANSWERS_MAX);
    assert_int_equal(f->answer.total, COLLIDE_ANSWERS_MAX + 5);
}

static void collide_uid_is_found_by_number_and_by_its_next_name(void **state)
{
    struct fixture *f = *state;
    char name[NAME_BUF], text[256];

    f->question.kind = COLLIDE_UIDS;
    f->question.n = 3;
    f->question.uids[0] = (struct collide_uid){FIRST, 5};
    f->question.uids[1] = (struct collide_uid){1000, 0};
    f->question.uids[2] = (struct collide_uid){LAST, 7};
    expect_one(f, 1000, REASON_ACCOUNT, false);
    f->question.n = 1;
    (void)name_encode("xce-", FIRST, 5, name);
    (void)snprintf(text, sizeof(text), "sudo:x:27:alice,%s\n", name);
    put(f->group, text);
    expect_one(f, FIRST, REASON_GROUP_MEMBER, false);
    (void)snprintf(text, sizeof(text), "%s:x:77:\n", name);
    put(f->group, text);
    expect_one(f, FIRST, REASON_GROUP, false);
    put(f->group, "");
    (void)snprintf(text, sizeof(text), "%s:x:77:77::/:\n", name);
    put(f->passwd, text);
    expect_one(f, FIRST, REASON_ACCOUNT, false);
    /* The name of another epoch is litter. */
    f->question.uids[0].epoch = 6;
    ask(f);
    assert_int_equal(f->answer.n, 0);
}

static void collide_uid_with_a_static_record_is_found(void **state)
{
    struct fixture *f = *state;
    char path[128];

    f->question.kind = COLLIDE_UIDS;
    f->question.n = 1;
    (void)snprintf(path, sizeof(path), "%s/%u.group", f->dir, FIRST);
    put(path, "{}");
    expect_one(f, FIRST, REASON_GROUP, false);
    assert_int_equal(unlink(path), 0);
    ask(f);
    assert_int_equal(f->answer.n, 0);
}

static void collide_services_leave_ours_out(void **state)
{
    static const struct {
        const char *line;
        bool systemd;
        const char *services;
    } cases[] = {
        {" files xce systemd\n", true, "systemd"},
        {" files xce systemd\n", false, ""},
        {"xce", true, ""},
        {"\txce sss files ldap", false, "sss ldap"},
        {"files [SUCCESS=merge] xce [NOTFOUND=return] sss", true, "sss"},
        {"files[!UNAVAIL=return]sss", true, "sss"},
        {"xcex filesx systemdx", false, "xcex filesx systemdx"},
        {"", true, ""},
        {"sss [unclosed", true, "sss"},
    };
    char services[64];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_true(name_services(cases[i].line, cases[i].systemd, services, sizeof(services)));
        assert_string_equal(services, cases[i].services);
    }
    assert_false(name_services("sss systemd", true, services, 8));
}

static void send_question(int socket, const struct collide_question *q)
{
    size_t len = offsetof(struct collide_question, uids) + q->n * sizeof(q->uids[0]);

    assert_int_equal(send(socket, q, len, 0), len);
}

static void collide_process_answers_until_its_socket_ends(void **state)
{
    struct fixture *f = *state;
    int sockets[2], status;
    pid_t pid;

    put(f->nsswitch, "passwd: files xce # comment\ngroup:files\n initgroups : xce\nhosts: dns\n");
    put(f->passwd, "bob:x:2046820352:100::/:/bin/sh\n");
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
    pid = fork();
    if (pid == 0) {
        (void)close(sockets[0]);
        collide_serve(sockets[1], &f->files);
        _exit(0);
    }
    (void)close(sockets[1]);
    for (int i = 0; i < 3; i++) {
        send_question(sockets[0], &f->question);
        assert_true(recv(sockets[0], &f->answer, sizeof(f->answer), 0) > 0);
        assert_int_equal(f->answer.n, 1);
        assert_int_equal(f->answer.found[0].uid, FIRST);
        /* Services are configured anew when they change. */
        put(f->nsswitch, "passwd: files\n");
    }
    (void)close(sockets[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* In a process of its own, as services are configured for good. */
static void ask_services(struct fixture *f, const char *nsswitch)
{
    int sockets[2], status;
    pid_t pid;

    if (nsswitch)
        put(f->nsswitch, nsswitch);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
    pid = fork();
    if (pid == 0) {
        (void)close(sockets[0]);
        collide_serve(sockets[1], &f->files);
        _exit(0);
    }
    (void)close(sockets[1]);
    send_question(sockets[0], &f->question);
    assert_true(recv(sockets[0], &f->answer, sizeof(f->answer), 0) > 0);
    (void)close(sockets[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Two questions; between them by lets go on what kept the file from being read. */
static void ask_twice(struct fixture *f, void (*by)(struct fixture *f), uint32_t ret_n[static 2])
{
    int sockets[2], status;
    pid_t pid;

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
    pid = fork();
    if (pid == 0) {
        (void)close(sockets[0]);
        collide_serve(sockets[1], &f->files);
        _exit(0);
    }
    (void)close(sockets[1]);
    for (int i = 0; i < 2; i++) {
        send_question(sockets[0], &f->question);
        assert_true(recv(sockets[0], &f->answer, sizeof(f->answer), 0) > 0);
        ret_n[i] = f->answer.n;
        if (i == 0) {
            assert_int_equal(f->answer.n, f->question.n);
            assert_int_equal(f->answer.found[0].reason, REASON_SCAN_FAILED);
            by(f);
        }
    }
    (void)close(sockets[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* A folder in its place: it can be opened, and not be read. */
static void folder_away(struct fixture *f)
{
    assert_int_equal(rmdir(f->nsswitch), 0);
    put(f->nsswitch, "passwd: files\n");
}

static void collide_services_that_are_not_known_may_have_anybody(void **state)
{
    struct fixture *f = *state;
    uint32_t n[2];

    f->question = (struct collide_question){
        .kind = COLLIDE_UIDS, .n = 2, .prefix = "xce-", .uids = {{FIRST, 0}, {LAST, 0}}};
    assert_int_equal(mkdir(f->nsswitch, 0700), 0);
    ask_twice(f, folder_away, n);
    assert_int_equal(n[1], 0);
}

struct rewriter {
    const char *path;
    atomic_bool begun;
};

/* As an editor that writes in place, and not all at once: until it is done, it has just written. */
static void *rewrite(void *arg)
{
    struct rewriter *r = arg;
    FILE *file = fopen(r->path, "we");
    struct timespec times[2];

    assert_non_null(file);
    (void)fputs("# a comment\n", file);
    (void)fflush(file);
    (void)clock_gettime(CLOCK_REALTIME, &times[1]);
    times[0] = times[1];
    times[1].tv_sec++;
    assert_int_equal(futimens(fileno(file), times), 0);
    atomic_store(&r->begun, true);
    (void)usleep(100000);
    (void)fputs("passwd: xceup\n", file);
    (void)fclose(file);
    return NULL;
}

static void collide_services_are_not_taken_out_of_half_a_file(void **state)
{
    struct fixture *f = *state;
    struct rewriter r = {.path = f->nsswitch};
    pthread_t thread;

    f->question = (struct collide_question){
        .kind = COLLIDE_UIDS, .n = 1, .prefix = "xce-", .uids = {{LAST, 0}}};
    assert_int_equal(pthread_create(&thread, NULL, rewrite, &r), 0);
    while (!atomic_load(&r.begun))
        (void)sched_yield();
    ask_services(f, NULL);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(f->answer.n, 1);
    assert_int_equal(f->answer.found[0].reason, REASON_ACCOUNT);
}

/* FIRST is nobody's, LAST is xceup's. */
static void collide_service_that_is_down_may_have_anybody(void **state)
{
    static const struct {
        const char *nsswitch;
        uint32_t n;
        enum reason of_first, of_last;
    } cases[] = {
        {"passwd: xceup\n", 1, 0, REASON_ACCOUNT},
        {"group: xceup\n", 1, 0, REASON_GROUP},
        {"passwd: files xcenone xceup\ngroup: xcenone\n", 1, 0, REASON_ACCOUNT},
        {"passwd: xcedown\n", 2, REASON_SCAN_FAILED, REASON_SCAN_FAILED},
        {"group: xcedown\n", 2, REASON_SCAN_FAILED, REASON_SCAN_FAILED},
        {"passwd: xcedown xceup\n", 2, REASON_SCAN_FAILED, REASON_ACCOUNT},
        {"passwd: xceup xcedown\n", 2, REASON_SCAN_FAILED, REASON_ACCOUNT},
        {"passwd: xcedown\ngroup: xceup\n", 2, REASON_SCAN_FAILED, REASON_GROUP},
    };
    struct fixture *f = *state;

    f->question = (struct collide_question){
        .kind = COLLIDE_UIDS, .n = 2, .prefix = "xce-", .uids = {{FIRST, 0}, {LAST, 0}}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        enum reason of_first = 0, of_last = 0;
        ask_services(f, cases[i].nsswitch);
        for (uint32_t j = 0; j < f->answer.n; j++)
            *(f->answer.found[j].uid == FIRST ? &of_first : &of_last) = f->answer.found[j].reason;
        assert_int_equal(f->answer.n, cases[i].n);
        assert_int_equal(of_first, cases[i].of_first);
        assert_int_equal(of_last, cases[i].of_last);
    }
}

/* The one that xceup lists has LAST. */
static void collide_list_of_a_service_that_is_down_may_have_anybody(void **state)
{
    static const struct {
        const char *nsswitch;
        uint32_t n;
        enum reason of_first, of_last;
    } cases[] = {
        {"passwd: xceup\n", 1, 0, REASON_ACCOUNT},
        {"group: xceup\n", 1, 0, REASON_GROUP},
        {"passwd: files xcenone xceup\ngroup: xcenone\n", 1, 0, REASON_ACCOUNT},
        {"passwd: xcedown\n", 1, REASON_SCAN_FAILED, 0},
        {"group: xcedown\n", 1, REASON_SCAN_FAILED, 0},
        {"passwd: xcedown xceup\n", 2, REASON_SCAN_FAILED, REASON_ACCOUNT},
        {"passwd: xceup xcedown\n", 2, REASON_SCAN_FAILED, REASON_ACCOUNT},
        {"passwd: xcedown\ngroup: xceup\n", 2, REASON_SCAN_FAILED, REASON_GROUP},
    };
    struct fixture *f = *state;

    f->question.kind = COLLIDE_RANGE;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        enum reason of_first = 0, of_last = 0;
        ask_services(f, cases[i].nsswitch);
        for (uint32_t j = 0; j < f->answer.n; j++)
            *(f->answer.found[j].uid == FIRST ? &of_first : &of_last) = f->answer.found[j].reason;
        assert_int_equal(f->answer.n, cases[i].n);
        assert_int_equal(of_first, cases[i].of_first);
        assert_int_equal(of_last, cases[i].of_last);
    }
}

/* Sockets in the folder where systemd finds its providers. */
static void collide_providers_are_others_unless_named_as_ours(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *name;
        bool others;
    } cases[] = {
        {"io.xce.Lease", false},
        {"io.systemd.DynamicUser", false},
        {".hidden", false},
        {"com.excelero.Users", true},
        {"io.xce.Lease2", true},
        {"net.io.xce.Lease", true},
        {"org.example.Directory", true},
    };

    assert_int_equal(unlink(f->passwd) + unlink(f->group), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char path[128];
        (void)snprintf(path, sizeof(path), "%s/%s", f->dir, cases[i].name);
        put(path, "");
        if (name_systemd_has_others(f->dir) != cases[i].others)
            fail_msg("%s", cases[i].name);
        assert_int_equal(unlink(path), 0);
    }
}

int main(void)
{
#define COLLIDE_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        COLLIDE_TEST(collide_range_without_anybody_is_free),
        COLLIDE_TEST(collide_range_finds_users_and_groups),
        COLLIDE_TEST(collide_range_finds_id_maps_and_login_defs),
        COLLIDE_TEST(collide_file_that_can_not_be_read_is_a_finding),
        COLLIDE_TEST(collide_accounts_that_can_not_be_read_are_a_finding),
        COLLIDE_TEST(collide_more_than_fit_are_counted),
        COLLIDE_TEST(collide_uid_is_found_by_number_and_by_its_next_name),
        COLLIDE_TEST(collide_uid_with_a_static_record_is_found),
        COLLIDE_TEST(collide_services_leave_ours_out),
        COLLIDE_TEST(collide_providers_are_others_unless_named_as_ours),
        COLLIDE_TEST(collide_process_answers_until_its_socket_ends),
        COLLIDE_TEST(collide_services_that_are_not_known_may_have_anybody),
        COLLIDE_TEST(collide_services_are_not_taken_out_of_half_a_file),
        COLLIDE_TEST(collide_service_that_is_down_may_have_anybody),
        COLLIDE_TEST(collide_list_of_a_service_that_is_down_may_have_anybody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
