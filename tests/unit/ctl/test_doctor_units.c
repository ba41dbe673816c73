/* What doctor says of units as systemd may have them, and of an xce-userdbd that answers as it should or not. */
#include "tests/unit/ctl/doctor_kit.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ctl/doctor_units.h"
#include "tests/lib/map_fixture.h"

#define S_US 1000000u

/* As the package leaves it. */
static struct doctor_unit packaged(void)
{
    return (struct doctor_unit){
        .load = "loaded",
        .active = "active",
        .file_state = "enabled",
        .restart = "always",
        .watchdog_us = 10 * S_US,
        .abort_us = 3 * S_US,
        .restart_us = 200000,
        .watchdog_signal = SIGABRT,
        .limit_burst = 5,
    };
}

static void doctor_units_as_packaged_are_well(void **state)
{
    struct doctor *doctor = *state;
    struct doctor_unit unit = packaged();

    doctor_judge_noded(doctor, &unit);
    assert_int_equal(doctor->n_findings, 0);
}

static void doctor_units_watchdog_must_be_in_time(void **state)
{
    static const struct {
        uint64_t watchdog_us, abort_us, restart_us;
        int signal;
        const char *id; /* NULL = nothing */
        const char *says;
    } cases[] = {
        {0, 3 * S_US, 0, SIGABRT, "units-watchdog-off", "no watchdog"},
        {UINT64_MAX, 0, 0, SIGABRT, "units-watchdog-off", "no watchdog"},
        {30 * S_US, 5 * S_US, 200000, SIGABRT, "units-watchdog-late", "only after 35s200ms"},
        {30 * S_US, 0, 0, SIGABRT, NULL, NULL},
        {25 * S_US, 5 * S_US, 0, SIGABRT, NULL, NULL},
        {25 * S_US, 5 * S_US, 1000, SIGABRT, "units-watchdog-late", "30s1ms"},
        /* Nothing to wait for after that. */
        {25 * S_US, 90 * S_US, 0, SIGKILL, NULL, NULL},
        {10 * S_US, UINT64_MAX, 0, SIGABRT, "units-watchdog-late", "only after infinity"},
        {10 * S_US, 0, UINT64_MAX, SIGABRT, "units-watchdog-late", "only after infinity"},
    };
    struct doctor *doctor = *state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct doctor_unit unit = packaged();

        kit_again(doctor);
        unit.watchdog_us = cases[i].watchdog_us;
        unit.abort_us = cases[i].abort_us;
        unit.restart_us = cases[i].restart_us;
        unit.watchdog_signal = cases[i].signal;
        doctor_judge_noded(doctor, &unit);
        if (doctor->n_findings != (cases[i].id != NULL))
            fail_msg("case %zu: %zu findings", i, doctor->n_findings);
        if (cases[i].id)
            kit_expect(doctor, cases[i].id, doctor->findings[0].severity, cases[i].says);
    }
}

static void doctor_units_must_come_back(void **state)
{
    static const struct {
        const char *restart;
        uint64_t limit_us;
        uint32_t burst;
        const char *id;
    } cases[] = {
        {"on-failure", 0, 5, NULL},
        {"no", 0, 5, "units-restart"},
        {"on-success", 0, 5, "units-restart"},
        {"on-abort", 0, 5, "units-restart"},
        {"on-watchdog", 0, 5, "units-restart"},
        {"always", 10 * S_US, 5, "units-start-limit"},
        {"always", 10 * S_US, 0, NULL},
        /* Not so often: 200 ms from one start to the next. */
        {"always", 10 * S_US, 50, NULL},
        {"always", 10 * S_US, 49, "units-start-limit"},
        {"always", UINT64_MAX, 5, "units-start-limit"},
    };
    struct doctor *doctor = *state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct doctor_unit unit = packaged();

        kit_again(doctor);
        snprintf(unit.restart, sizeof unit.restart, "%s", cases[i].restart);
        unit.limit_us = cases[i].limit_us;
        unit.limit_burst = cases[i].burst;
        doctor_judge_noded(doctor, &unit);
        if (doctor->n_findings != (cases[i].id != NULL) ||
            (cases[i].id && !kit_found(doctor, cases[i].id)))
            fail_msg("case %zu: %zu findings", i, doctor->n_findings);
    }
}

static void doctor_units_of_no_node_are_no_matter(void **state)
{
    struct doctor *doctor = *state;
    struct doctor_unit unit = {.load = "not-found", .active = "inactive"};

    doctor_judge_noded(doctor, &unit);
    unit = (struct doctor_unit){.load = "loaded", .active = "inactive", .file_state = "disabled"};
    doctor_judge_noded(doctor, &unit);
    assert_int_equal(doctor->n_findings, 0);
    unit = packaged();
    snprintf(unit.file_state, sizeof unit.file_state, "disabled");
    unit.stale = true;
    doctor_judge_noded(doctor, &unit);
    kit_expect(doctor, "units-disabled", SEVERITY_WARNING, "it is disabled");
    kit_expect(doctor, "units-stale", SEVERITY_WARNING, "has changed");
}

/* ---- xce-userdbd ---- */

enum {
    UID = FIXTURE_BASE + 3,
};

struct provider {
    int fd;
    const char *user, *group, *nobody; /* answers; NULL: none comes; "": it hangs up */
};

static void answer(const struct provider *provider, int fd)
{
    char call[4096] = "";
    ssize_t n = read(fd, call, sizeof call - 1);
    const char *text = strstr(call, "65534")           ? provider->nobody
                       : strstr(call, "GetUserRecord") ? provider->user
                                                       : provider->group;

    if (n > 0 && text && *text)
        (void)!write(fd, text, strlen(text) + 1);
    /* Until the caller gives up. */
    while (!text && read(fd, call, sizeof call) > 0)
        ;
}

static void *provide(void *arg)
{
    const struct provider *provider = arg;

    for (;;) {
        int fd = accept(provider->fd, NULL, NULL);

        if (fd < 0)
            return NULL;
        answer(provider, fd);
        close(fd);
    }
}

#define RECORD(kind, name) "{\"parameters\": {\"record\": {\"" kind "\": \"" name "\"}}}"
#define NO_RECORD          "{\"error\": \"io.systemd.UserDatabase.NoRecordFound\", \"parameters\": {}}"
#define LEASE              "xce-1w00003-1"

static void doctor_userdb_must_say_what_the_map_says(void **state)
{
    static const struct {
        const char *user, *group, *nobody, *id, *says;
        enum severity severity;
    } cases[] = {
        {RECORD("userName", LEASE), RECORD("groupName", LEASE), NO_RECORD, "userdb-ok", "1 leases",
         SEVERITY_OK},
        {RECORD("userName", "xce-1w00003-2"), "", NO_RECORD, "userdb-wrong",
         "says xce-1w00003-2 of uid 2013265923, and xce-1w00003-1 is true", SEVERITY_ERROR},
        {NO_RECORD, "", NO_RECORD, "userdb-wrong",
         "says io.systemd.UserDatabase.NoRecordFound of uid 2013265923", SEVERITY_ERROR},
        {RECORD("userName", LEASE), NO_RECORD, NO_RECORD, "userdb-wrong", "NoRecordFound of uid",
         SEVERITY_ERROR},
        {"", "", RECORD("userName", "nobody"), "userdb-wrong", "says nobody of uid 65534",
         SEVERITY_ERROR},
        {"", "", "{\"parameters\": 3", "userdb-wrong", "does not speak its language",
         SEVERITY_ERROR},
        {"[]", "", NO_RECORD, "userdb-wrong", "says no record of uid", SEVERITY_ERROR},
        {"", "", "", "userdb-hangs", "does not answer", SEVERITY_ERROR},
        {NULL, "", NO_RECORD, "userdb-hangs", "does not answer", SEVERITY_ERROR},
    };
    struct doctor *doctor = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct provider provider = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    struct map_fixture map;
    pthread_t thread;

    if (geteuid() != 0)
        skip();
    fixture_begin(&map);
    fixture_start(&map);
    fixture_shape(&map, 16);
    fixture_set(&map, UID, 1);
    assert_int_equal(map_open(map.path, &doctor->map, NULL, NULL), 0);
    doctor->have_map = true;
    assert_int_equal(fs_mkdir_p(tmp_path(doctor->root, "run/systemd/userdb"), 0755), 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s%s", doctor->root, DOCTOR_USERDB_SOCKET);
    assert_int_equal(bind(provider.fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(provider.fd, 16), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kit_again(doctor);
        provider.user = cases[i].user;
        provider.group = cases[i].group;
        provider.nobody = cases[i].nobody;
        assert_int_equal(pthread_create(&thread, NULL, provide, &provider), 0);
        doctor_check_userdb(doctor);
        pthread_cancel(thread);
        pthread_join(thread, NULL);
        kit_expect(doctor, cases[i].id, cases[i].severity, cases[i].says);
        assert_int_equal(doctor->n_findings, 1);
    }
    close(provider.fd);
    fixture_end(&map);
}

static void doctor_userdb_that_is_down_matters_if_it_is_wanted(void **state)
{
    struct doctor *doctor = *state;

    doctor_check_userdb(doctor);
    assert_int_equal(doctor->n_findings, 0);
    doctor->wants_userdbd = true;
    doctor_check_userdb(doctor);
    kit_expect(doctor, "userdb-down", SEVERITY_WARNING, "does not listen");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(doctor_units_as_packaged_are_well),
        KIT_TEST(doctor_units_watchdog_must_be_in_time),
        KIT_TEST(doctor_units_must_come_back),
        KIT_TEST(doctor_units_of_no_node_are_no_matter),
        KIT_TEST(doctor_userdb_must_say_what_the_map_says),
        KIT_TEST(doctor_userdb_that_is_down_matters_if_it_is_wanted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
