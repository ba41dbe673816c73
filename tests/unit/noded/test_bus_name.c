/* Uids in names of users and units. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <unistd.h>

#include "map/name.h"
#include "noded/unit/bus.h"

static void bus_unit_names_table(void **state)
{
    static const struct {
        const char *unit;
        uint32_t uid; /* 0 = none */
    } cases[] = {
        {"xce-2013265920.slice", 2013265920u},
        {"xce-2013265920-7.slice", 2013265920u},
        {"xce-2013265920-7-1.slice", 0},
        {"xce-.slice", 0},
        {"xce.slice", 0},
        {"xce-02.slice", 0},
        {"xce-4294967296.slice", 0},
        {"user-2013265920.slice", 2013265920u},
        {"user@2013265920.service", 2013265920u},
        {"user-runtime-dir@2013265920.service", 2013265920u},
        {"user@2013265920.servicex", 0},
        {"xuser-2013265920.slice", 0},
        {"ssh.service", 0},
        {"", 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t uid = 0;
        bool found = bus_name_uid(cases[i].unit, &uid);
        if (found != (cases[i].uid != 0) || (found && uid != cases[i].uid))
            fail_msg("%s", cases[i].unit);
    }
}

static void bus_users_by_number_and_by_any_name_of_a_lease(void **state)
{
    char name[NAME_BUF];
    uint32_t uid = 0;

    assert_true(bus_user_uid("xce-", "2013265920", &uid));
    assert_int_equal(uid, 2013265920u);
    (void)name_encode("xce-", 2013265921u, 9, name);
    assert_true(bus_user_uid("xce-", name, &uid));
    assert_int_equal(uid, 2013265921u);
    assert_false(bus_user_uid("job-", name, &uid));
    assert_false(bus_user_uid("xce-", "", &uid));
    assert_false(bus_user_uid("xce-", "root", &uid));
    assert_false(bus_user_uid("xce-", "12x", &uid));
    assert_false(bus_user_uid("xce-", "-1", &uid));
}

static void never(uint32_t uid, const char *unit, bool failed, void *arg)
{
    fail_msg("%s", unit);
}

static void bus_without_systemd_finds_nothing(void **state)
{
    struct bus *bus;

    if (access("/run/systemd/system", F_OK) == 0) {
        print_message("systemd is PID 1 here\n");
        skip();
    }
    bus = bus_new("xce-");
    assert_int_equal(bus_units(bus, 1, UINT32_MAX, never, NULL), BUS_NO_MANAGER);
    assert_int_equal(bus_stop(bus, "x.service", 10), 0);
    bus_free(bus);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bus_unit_names_table),
        cmocka_unit_test(bus_users_by_number_and_by_any_name_of_a_lease),
        cmocka_unit_test(bus_without_systemd_finds_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
