/* The arguments for systemd-run. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ctl/launch.h"
#include "ctl/quote.h"

static struct xce_lease lease(void)
{
    return (struct xce_lease){
        .lease = 7, .uid = 2013265920, .gid = 2013265920, .epoch = 3, .name = "xce-1v00000-3"};
}

static bool has(const struct launch *launch, const char *arg)
{
    for (size_t i = 0; i < launch->n; i++)
        if (!strcmp(launch->args[i], arg))
            return true;
    return false;
}

static void launch_identity_is_name_gid_and_slice(void **state)
{
    struct xce_lease leased = lease();
    struct launch launch;

    (void)state;
    assert_int_equal(launch_make(&leased, &launch), 0);
    assert_true(has(&launch, "--property=User=xce-1v00000-3"));
    assert_true(has(&launch, "--property=Group=2013265920"));
    assert_true(has(&launch, "--property=Slice=xce-2013265920-3.slice"));
    assert_int_equal(has(&launch, "--property=PAMName=xce"), access("/etc/pam.d/xce", F_OK) == 0);
    launch_done(&launch);
}

static void launch_every_argument_survives_word_splitting(void **state)
{
    struct xce_lease leased = lease();
    struct launch launch;

    (void)state;
    assert_int_equal(launch_make(&leased, &launch), 0);
    assert_true(launch.n > 40);
    for (size_t i = 0; i < launch.n; i++)
        if (!quote_splits_whole(launch.args[i]))
            fail_msg("%s is not one word", launch.args[i]);
    launch_done(&launch);
}

static void launch_closes_what_a_job_could_get_out_by(void **state)
{
    static const char *const musts[] = {
        "NoNewPrivileges=yes",
        "PrivateTmp=yes",
        "PrivateIPC=yes",
        "PrivateUsers=yes",
        "ProtectSystem=strict",
        "RestrictSUIDSGID=yes",
        "CapabilityBoundingSet=",
        "SystemCallFilter=~@keyring",
        "RemoveIPC=yes",
        "KillMode=control-group",
        "InaccessiblePaths=-/run/dbus",
        "InaccessiblePaths=-/var/spool/cron",
    };
    struct xce_lease leased = lease();
    struct launch launch;
    char arg[128];

    (void)state;
    assert_int_equal(launch_make(&leased, &launch), 0);
    for (size_t i = 0; i < sizeof musts / sizeof musts[0]; i++) {
        snprintf(arg, sizeof arg, "--property=%s", musts[i]);
        if (!has(&launch, arg))
            fail_msg("%s is missing", arg);
    }
    launch_done(&launch);
}

static void launch_a_name_of_two_words_is_refused(void **state)
{
    struct xce_lease leased = lease();
    struct launch launch;

    (void)state;
    leased.name = "root --property=User=root";
    assert_int_equal(launch_make(&leased, &launch), -EINVAL);
    assert_int_equal(launch.n, 0);
    leased.name = "a*";
    assert_int_equal(launch_make(&leased, &launch), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launch_identity_is_name_gid_and_slice),
        cmocka_unit_test(launch_every_argument_survives_word_splitting),
        cmocka_unit_test(launch_closes_what_a_job_could_get_out_by),
        cmocka_unit_test(launch_a_name_of_two_words_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
