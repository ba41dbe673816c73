/* What doctor says of a machine that is a folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "ctl/doctor.h"
#include "tests/lib/tmp.h"

struct fixture {
    struct doctor doctor;
};

static int setup(void **state)
{
    static struct fixture f;
    const char *root = tmp_dir();

    f = (struct fixture){.doctor = {.root = root}};
    doctor_add_range(&f.doctor, 2013265920, 2013331455);
    assert_int_equal(mkdir(tmp_path(root, "etc"), 0755), 0);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    doctor_done(&f->doctor);
    return 0;
}

static void put(struct fixture *f, const char *name, const char *text)
{
    FILE *file = fopen(tmp_path(f->doctor.root, "etc/%s", name), "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Whether a finding of that severity has text in its message. */
static bool said(const struct fixture *f, enum severity severity, const char *text)
{
    for (size_t i = 0; i < f->doctor.n_findings; i++)
        if (f->doctor.findings[i].severity == severity &&
            strstr(f->doctor.findings[i].message, text))
            return true;
    return false;
}

/* Forget what was found. */
static void again(struct fixture *f)
{
    struct doctor kept = f->doctor;

    doctor_done(&f->doctor);
    kept.findings = NULL;
    kept.n_findings = 0;
    f->doctor = kept;
}

static void doctor_nsswitch_orders_are_judged(void **state)
{
    static const struct {
        const char *passwd, *group, *says;
        enum severity severity;
    } cases[] = {
        {"files xce systemd", "files xce systemd", "xce is asked", SEVERITY_OK},
        {"files xce systemd", "files systemd", "group: xce is missing", SEVERITY_ERROR},
        {"files systemd", "files xce systemd", "passwd: xce is missing", SEVERITY_ERROR},
        {"files systemd xce", "files xce", "passwd: xce stands behind", SEVERITY_WARNING},
        {"files sss xce", "files xce", "passwd: xce stands behind", SEVERITY_WARNING},
        {"files [NOTFOUND=return] xce", "files xce", "passwd: [NOTFOUND=return]", SEVERITY_ERROR},
        {"files xce", "files xce [SUCCESS=merge] systemd", "group: [SUCCESS=merge]",
         SEVERITY_WARNING},
        {"xce files systemd", "xce files systemd", "passwd: xce stands before files",
         SEVERITY_NOTE},
        {"files xcel systemd", "files xce", "passwd: xce is missing", SEVERITY_ERROR},
        {"files # xce", "files xce", "passwd: xce is missing", SEVERITY_ERROR},
    };
    struct fixture *f = *state;
    char text[256];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        again(f);
        snprintf(text, sizeof text, "# x\npasswd:\t%s\nshadow: files\ngroup: %s\n", cases[i].passwd,
                 cases[i].group);
        put(f, "nsswitch.conf", text);
        doctor_check_nsswitch(&f->doctor);
        if (!said(f, cases[i].severity, cases[i].says))
            fail_msg("passwd: %s, group: %s: not said: %s", cases[i].passwd, cases[i].group,
                     cases[i].says);
    }
}

static void doctor_nsswitch_initgroups_without_xce_is_an_error(void **state)
{
    struct fixture *f = *state;

    put(f, "nsswitch.conf", "passwd: files xce\ngroup: files xce\ninitgroups: files systemd\n");
    doctor_check_nsswitch(&f->doctor);
    assert_true(said(f, SEVERITY_ERROR, "initgroups: xce is missing"));
}

static void doctor_nsswitch_missing_is_an_error(void **state)
{
    struct fixture *f = *state;

    doctor_check_nsswitch(&f->doctor);
    assert_true(said(f, SEVERITY_ERROR, "/etc/nsswitch.conf can not be read"));
}

static void doctor_accounts_in_a_pool_are_errors(void **state)
{
    struct fixture *f = *state;

    put(f, "passwd", "root:x:0:0::/:/bin/sh\nmallory:x:2013265925:100::/:/bin/sh\n");
    put(f, "group", "root:x:0:\nclub:x:2013331455:\nsudo:x:27:alice,xce-1w00000-3\n");
    doctor_check_accounts(&f->doctor);
    assert_true(said(f, SEVERITY_ERROR, "/etc/passwd: mallory has id 2013265925"));
    assert_true(said(f, SEVERITY_ERROR, "/etc/group: club has id 2013331455"));
    assert_true(said(f, SEVERITY_ERROR, "xce-1w00000-3, a lease's name, is a member of sudo"));
    assert_false(said(f, SEVERITY_ERROR, "root"));
}

static void doctor_accounts_outside_are_no_matter(void **state)
{
    struct fixture *f = *state;

    put(f, "passwd", "a:x:2013265919:1::/:/bin/sh\nb:x:2013331456:1::/:/bin/sh\nbroken\n::::\n\n");
    put(f, "group", "a:x:2013265919:a,b\n\n:\n");
    doctor_check_accounts(&f->doctor);
    assert_int_equal(f->doctor.n_findings, 1);
    assert_true(said(f, SEVERITY_OK, "no account"));
}

static void doctor_many_collisions_are_counted(void **state)
{
    struct fixture *f = *state;
    char text[4096] = "";

    for (unsigned i = 0; i < 40; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "u%u:x:%u:1::/:/\n", i,
                 2013265920 + i);
    put(f, "passwd", text);
    doctor_check_accounts(&f->doctor);
    assert_int_equal(f->doctor.n_findings, 17);
    assert_true(said(f, SEVERITY_ERROR, "and 24 more"));
}

static void doctor_ranges_that_overlap_are_errors(void **state)
{
    struct fixture *f = *state;

    put(f, "login.defs",
        "# UID_MAX 1\nUID_MIN\t\t 1000\nUID_MAX 2013265920\nSUB_UID_COUNT 65536\n");
    put(f, "subuid", "alice:100000:65536\nbob:2013331455:1\nbad\nworse:x:y\nzero:2013331455:0\n");
    put(f, "subgid", "carol:2013265000:920\n");
    doctor_check_ranges(&f->doctor);
    assert_true(said(f, SEVERITY_ERROR, "/etc/login.defs: UID_MIN: 1000-2013265920 overlaps"));
    assert_true(said(f, SEVERITY_ERROR, "/etc/subuid: 2013331455-2013331455 overlaps"));
    assert_int_equal(f->doctor.n_findings, 2);
}

static void doctor_ranges_of_a_fresh_machine_are_fine(void **state)
{
    struct fixture *f = *state;

    doctor_check_ranges(&f->doctor);
    assert_int_equal(f->doctor.n_findings, 1);
    assert_true(said(f, SEVERITY_OK, "leave the pools alone"));
}

static void doctor_permissions_of_others_are_errors(void **state)
{
    struct fixture *f = *state;
    const char *root = f->doctor.root;

    assert_int_equal(mkdir(tmp_path(root, "etc/xce"), 0755), 0);
    put(f, "xce/client.conf", "");
    doctor_check_permissions(&f->doctor);
    assert_true(said(f, SEVERITY_OK, "as they should be"));
    again(f);
    assert_int_equal(chmod(tmp_path(root, "etc/xce/client.conf"), 0666), 0);
    doctor_check_permissions(&f->doctor);
    assert_true(said(f, SEVERITY_ERROR, "/etc/xce/client.conf has mode 0666"));
    again(f);
    assert_int_equal(mkdir(tmp_path(root, "run"), 0755), 0);
    assert_int_equal(mkdir(tmp_path(root, "run/xce"), 0755), 0);
    assert_int_equal(mkdir(tmp_path(root, "run/xce/uidmap"), 0755), 0);
    doctor_check_permissions(&f->doctor);
    assert_true(said(f, SEVERITY_ERROR, "/run/xce/uidmap is not what it should be"));
}

static void doctor_map_that_is_none_is_told(void **state)
{
    struct fixture *f = *state;
    FILE *file;

    doctor_check_map(&f->doctor);
    assert_true(said(f, SEVERITY_ERROR, "/run/xce/uidmap is missing"));
    again(f);
    assert_int_equal(mkdir(tmp_path(f->doctor.root, "run"), 0755), 0);
    assert_int_equal(mkdir(tmp_path(f->doctor.root, "run/xce"), 0755), 0);
    file = fopen(tmp_path(f->doctor.root, "run/xce/uidmap"), "w");
    assert_non_null(file);
    for (int i = 0; i < 4096; i++)
        assert_int_equal(fputc('x', file), 'x');
    assert_int_equal(fclose(file), 0);
    doctor_check_map(&f->doctor);
    assert_true(said(f, SEVERITY_ERROR, "/run/xce/uidmap can not be used"));
    assert_false(f->doctor.have_map);
}

static void doctor_remnant_is_a_user_of_the_system(void **state)
{
    static const struct {
        const char *passwd, *id;
    } rows[] = {
        {"root:x:0:0::/:/bin/sh\n", "remnant-missing"},
        {"", "remnant-missing"},
        {"xce-remnants:x:998:997::/:/bin/sh\n", "remnant-missing"},
        {"root:x:0:0::/:/bin/sh\nxce-remnant:x:998:997::/:/usr/sbin/nologin\n", "remnant-ok"},
        {"xce-remnant:x:998:997::/:/usr/sbin/nologin\n", "remnant-ok"},
        {"xce-remnant:x:0:997::/:/usr/sbin/nologin\n", "remnant-ids"},
        {"xce-remnant:x:1000:997::/:/usr/sbin/nologin\n", "remnant-ids"},
        {"xce-remnant:x:998\n", "remnant-ids"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put(f, "passwd", rows[i].passwd);
        doctor_check_remnant(&f->doctor);
        assert_int_equal(f->doctor.n_findings, 1);
        assert_string_equal(f->doctor.findings[0].id, rows[i].id);
        again(f);
    }
    f->doctor.no_node = true;
    doctor_check_remnant(&f->doctor);
    assert_int_equal(f->doctor.n_findings, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(doctor_nsswitch_orders_are_judged),
        TEST(doctor_nsswitch_initgroups_without_xce_is_an_error),
        TEST(doctor_nsswitch_missing_is_an_error),
        TEST(doctor_accounts_in_a_pool_are_errors),
        TEST(doctor_accounts_outside_are_no_matter),
        TEST(doctor_many_collisions_are_counted),
        TEST(doctor_ranges_that_overlap_are_errors),
        TEST(doctor_ranges_of_a_fresh_machine_are_fine),
        TEST(doctor_permissions_of_others_are_errors),
        TEST(doctor_map_that_is_none_is_told),
        TEST(doctor_remnant_is_a_user_of_the_system),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
