#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/daemon.h"
#include "common/mem.h"
#include "tests/lib/tmp.h"

struct manager {
    int fd;
    char text[4096];
};

/* A service manager that listens at $NOTIFY_SOCKET. */
static int setup(void **state)
{
    struct manager *manager = calloc(1, sizeof(*manager));
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", tmp_path(tmp_dir(), "notify"));
    manager->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(manager->fd, (struct sockaddr *)&address, sizeof(address)), 0);
    setenv("NOTIFY_SOCKET", address.sun_path, 1);
    *state = manager;
    return 0;
}

static int teardown(void **state)
{
    struct manager *manager = *state;

    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    close(manager->fd);
    free(manager);
    return 0;
}

static const char *heard(void **state)
{
    struct manager *manager = *state;
    ssize_t n = recv(manager->fd, manager->text, sizeof(manager->text) - 1, 0);

    manager->text[n > 0 ? n : 0] = '\0';
    return manager->text;
}

static void daemon_tells_its_states(void **state)
{
    daemon_ready("%d leases", 3);
    assert_string_equal(heard(state), "READY=1\nSTATUS=3 leases");
    daemon_status("going on");
    assert_string_equal(heard(state), "STATUS=going on");
    daemon_reloading();
    assert_int_equal(strncmp(heard(state), "RELOADING=1\nMONOTONIC_USEC=", 27), 0);
    daemon_stopping("bye");
    assert_string_equal(heard(state), "STOPPING=1\nSTATUS=bye");
    daemon_watchdog();
    assert_string_equal(heard(state), "WATCHDOG=1");
}

/* A name out of foreign hands must not become a message of its own. */
static void daemon_status_is_one_line(void **state)
{
    daemon_status("job %s", "a\nSTOPPING=1");
    assert_string_equal(heard(state), "STATUS=job a\\x0aSTOPPING=1");
}

static void daemon_without_manager_does_nothing(void **state)
{
    unsetenv("NOTIFY_SOCKET");
    daemon_ready("x");
    daemon_watchdog();
    assert_string_equal(heard(state), "");
    assert_int_equal(daemon_watchdog_ms(), 0);
    assert_int_equal(daemon_listen_fds(), 0);
}

static void daemon_watchdog_is_half_the_patience(void **state)
{
    char pid[32];

    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    setenv("WATCHDOG_USEC", "20000000", 1);
    setenv("WATCHDOG_PID", pid, 1);
    assert_int_equal(daemon_watchdog_ms(), 10000);
    setenv("WATCHDOG_PID", "1", 1);
    assert_int_equal(daemon_watchdog_ms(), 0);
}

#define DAEMON_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DAEMON_TEST(daemon_tells_its_states),
        DAEMON_TEST(daemon_status_is_one_line),
        DAEMON_TEST(daemon_without_manager_does_nothing),
        DAEMON_TEST(daemon_watchdog_is_half_the_patience),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
