/* What is remembered of units. In place of PID 1 a process answers that knows one service, in a mount namespace of its own. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#include <cmocka.h>

#include "noded/unit/bus.h"

#define SERVICE   "other.service"
#define TRANSIENT "/run/systemd/transient"
#define UID       2013265920u
#define UID_TEXT  "2013265920"

/* What the manager says; shared with it. */
struct manager {
    bool listed;
    char load[16], user[16];
    unsigned n_users; /* how often it was asked for the user */
    unsigned
        leave_at; /* it goes away instead of an answer to that call from now on, and is there again; 0 = no */
};

static struct manager *manager;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            print_error("%s:%d: %s\n", __FILE__, __LINE__, #condition);                            \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* ---- the manager ---- */

static int units_answer(sd_bus_message *call)
{
    sd_bus_message *m = NULL;

    CHECK(sd_bus_message_new_method_return(call, &m) >= 0);
    CHECK(sd_bus_message_open_container(m, 'a', "(ssssssouso)") >= 0);
    if (manager->listed)
        CHECK(sd_bus_message_append(m, "(ssssssouso)", SERVICE, "", manager->load, "active",
                                    "running", "", "/unit", 0, "", "/") >= 0);
    CHECK(sd_bus_message_close_container(m) >= 0 && sd_bus_message_send(m) >= 0);
    sd_bus_message_unref(m);
    return 1;
}

static int property_answer(sd_bus_message *call)
{
    const char *interface, *property;

    CHECK(sd_bus_message_read(call, "ss", &interface, &property) >= 0);
    if (strcmp(property, "UnitsLoadFinishTimestampMonotonic") == 0)
        return sd_bus_reply_method_return(call, "v", "t", (uint64_t)1);
    if (strcmp(property, "SupplementaryGroups") == 0 || strcmp(property, "TriggeredBy") == 0)
        return sd_bus_reply_method_return(call, "v", "as", 0);
    if (strcmp(property, "User") != 0)
        return sd_bus_reply_method_return(call, "v", "s", "");
    manager->n_users++;
    return sd_bus_reply_method_return(call, "v", "s", manager->user);
}

static int call_answer(sd_bus_message *call, void *arg, sd_bus_error *error)
{
    (void)error;
    if (manager->leave_at && --manager->leave_at == 0) {
        *(bool *)arg = true;
        return 1;
    }
    if (sd_bus_message_is_method_call(call, NULL, "ListUnits"))
        return units_answer(call);
    if (sd_bus_message_is_method_call(call, NULL, "Get"))
        return property_answer(call);
    return 0;
}

/* One connection, until either end has enough of it. */
static void manager_serve(int listen_fd)
{
    sd_bus *bus = NULL;
    bool leaves = false;
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    CHECK(fd >= 0 && sd_bus_new(&bus) >= 0 && sd_bus_set_fd(bus, fd, fd) >= 0);
    CHECK(sd_bus_set_server(
              bus, 1,
              SD_ID128_MAKE(01, 02, 03, 04, 05, 06, 07, 08, 09, 0a, 0b, 0c, 0d, 0e, 0f, 10)) >= 0);
    CHECK(sd_bus_add_filter(bus, NULL, call_answer, &leaves) >= 0 && sd_bus_start(bus) >= 0);
    while (!leaves) {
        int r = sd_bus_process(bus, NULL);
        if (r < 0 || (r == 0 && sd_bus_wait(bus, UINT64_MAX) < 0))
            break;
    }
    sd_bus_close(bus);
    sd_bus_unref(bus);
}

static void manager_start(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/run/systemd/private"};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pid_t parent = getpid();

    CHECK(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    CHECK(mount("tmpfs", "/run", "tmpfs", 0, "mode=0755") == 0);
    CHECK(mkdir("/run/systemd", 0755) == 0 && mkdir("/run/systemd/system", 0755) == 0);
    CHECK(mkdir(TRANSIENT, 0755) == 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    CHECK(listen(fd, 1) == 0);
    if (fork() == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        CHECK(getppid() == parent);
        for (;;)
            manager_serve(fd);
    }
    (void)close(fd);
}

/* ---- what is found ---- */

static void unit_count(uint32_t uid, const char *unit, bool failed, void *arg)
{
    unsigned *n = arg;

    CHECK(uid == UID && strcmp(unit, SERVICE) == 0 && !failed);
    (*n)++;
}

static bool is_found(struct bus *bus)
{
    unsigned n = 0;

    CHECK(bus_units(bus, UID, UID, unit_count, &n) == 0);
    return n > 0;
}

static void says(const char *load, const char *user)
{
    manager->listed = true;
    (void)snprintf(manager->load, sizeof(manager->load), "%s", load);
    (void)snprintf(manager->user, sizeof(manager->user), "%s", user);
}

/* Call test with the manager, in a child. */
static void with_manager(void (*test)(struct bus *bus))
{
    pid_t pid;
    int status;

    if (geteuid() != 0) {
        print_message("needs root: a mount namespace\n");
        skip();
    }
    manager = mmap(NULL, sizeof(*manager), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                   0);
    assert_true(manager != MAP_FAILED);
    pid = fork();
    if (pid == 0) {
        manager_start();
        struct bus *bus = bus_new("xce-");
        test(bus);
        bus_free(bus);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    (void)munmap(manager, sizeof(*manager));
}

static void loaded_is_asked_about_once(struct bus *bus)
{
    says("loaded", UID_TEXT);
    for (int i = 0; i < 5; i++)
        CHECK(is_found(bus));
    CHECK(manager->n_users == 1);
}

static void bus_units_that_are_loaded_are_remembered(void **state)
{
    (void)state;
    with_manager(loaded_is_asked_about_once);
}

/* Others name it, before it is there. */
static void not_found_is_asked_about_again(struct bus *bus)
{
    says("not-found", "");
    CHECK(!is_found(bus));
    says("loaded", UID_TEXT);
    CHECK(is_found(bus));
}

static void bus_units_that_were_not_found_are_not_remembered(void **state)
{
    (void)state;
    with_manager(not_found_is_asked_about_again);
}

/* The manager has let go of it, and reads its file anew. */
static void unlisted_is_asked_about_again(struct bus *bus)
{
    says("loaded", "");
    CHECK(!is_found(bus));
    manager->listed = false;
    CHECK(!is_found(bus));
    says("loaded", UID_TEXT);
    CHECK(is_found(bus));
}

static void bus_units_that_went_are_forgotten(void **state)
{
    (void)state;
    with_manager(unlisted_is_asked_about_again);
}

static void transient_is_asked_about_again(struct bus *bus)
{
    says("loaded", "");
    CHECK(!is_found(bus));
    CHECK(close(open(TRANSIENT "/" SERVICE, O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) == 0);
    says("loaded", UID_TEXT);
    CHECK(is_found(bus));
    CHECK(unlink(TRANSIENT "/" SERVICE) == 0);
    says("loaded", "");
    CHECK(!is_found(bus));
}

static void bus_units_that_become_transient_are_forgotten(void **state)
{
    (void)state;
    with_manager(transient_is_asked_about_again);
}

/* It is executed anew, at any moment of a look. */
static void who_goes_away_is_waited_for(struct bus *bus)
{
    says("not-found", UID_TEXT); /* asked about each time */
    for (unsigned at = 1; at <= 5; at++) {
        manager->leave_at = at;
        CHECK(is_found(bus));
        CHECK(manager->leave_at == 0);
    }
    manager->leave_at = 1;
    CHECK(bus_loaded(bus, SERVICE) == 0 && manager->leave_at == 0);
    manager->leave_at = 1;
    CHECK(bus_stop(bus, SERVICE, 1000) == 0 && manager->leave_at == 0);
}

static void bus_units_are_asked_for_again_when_the_manager_is_executed_anew(void **state)
{
    (void)state;
    with_manager(who_goes_away_is_waited_for);
}

/* Whether nobody listens, or nobody has made the socket yet. */
static void who_stays_away_is_an_error(struct bus *bus)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/run/systemd/private"};
    unsigned n = 0;

    CHECK(unlink(address.sun_path) == 0);
    CHECK(bus_units(bus, UID, UID, unit_count, &n) == -ENOENT);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    CHECK(bus_units(bus, UID, UID, unit_count, &n) == -ECONNREFUSED);
    CHECK(bus_loaded(bus, SERVICE) == -ECONNREFUSED && n == 0);
    (void)close(fd);
}

static void bus_units_of_a_manager_that_stays_away_are_an_error(void **state)
{
    (void)state;
    with_manager(who_stays_away_is_an_error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bus_units_that_are_loaded_are_remembered),
        cmocka_unit_test(bus_units_that_were_not_found_are_not_remembered),
        cmocka_unit_test(bus_units_that_went_are_forgotten),
        cmocka_unit_test(bus_units_that_become_transient_are_forgotten),
        cmocka_unit_test(bus_units_are_asked_for_again_when_the_manager_is_executed_anew),
        cmocka_unit_test(bus_units_of_a_manager_that_stays_away_are_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
