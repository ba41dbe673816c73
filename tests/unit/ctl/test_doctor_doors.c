/* What doctor says of the doors of a machine that is a folder: PAM, sshd, core dumps. */
#include "tests/unit/ctl/doctor_kit.h"

#include <unistd.h>

#define COMMON_LINE(type, success)                                                                 \
    type " [success=" success " ignore=ignore module_unknown=ignore default=die] pam_xce.so%s\n"
#define JOBS_LINES                                                                                 \
    "auth required pam_xce.so\naccount required pam_xce.so\npassword required pam_xce.so\n"        \
    "session required pam_xce.so\n"

/* A machine as the packages of Debian leave it. args: of our lines. */
static void debian(struct doctor *doctor, const char *args)
{
    static const struct {
        const char *name, *ours, *rest;
    } files[] = {
        {"common-auth", COMMON_LINE("auth", "ignore"),
         "auth [success=1 default=ignore] pam_unix.so nullok\nauth requisite pam_deny.so\n"
         "auth required pam_permit.so\n"},
        {"common-account", COMMON_LINE("account", "ignore"),
         "account [success=1 new_authtok_reqd=done default=ignore] pam_unix.so\n"
         "account requisite pam_deny.so\naccount required pam_permit.so\n"},
        {"common-session",
         "session [default=1] pam_permit.so\nsession requisite pam_deny.so\n"
         "session required pam_permit.so\n" COMMON_LINE("session", "ok"),
         "session required pam_unix.so\n"},
        {"common-password",
         "password [success=1 default=ignore] pam_unix.so obscure yescrypt\n"
         "password requisite pam_deny.so\npassword required pam_permit.so\n" COMMON_LINE("password",
                                                                                         "ok"),
         ""},
    };
    char path[64], ours[1024], text[2048];

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        const char *mark = strstr(files[i].ours, "%s");

        snprintf(path, sizeof path, "/etc/pam.d/%s", files[i].name);
        snprintf(ours, sizeof ours, "%.*s%s%s", (int)(mark - files[i].ours), files[i].ours, args,
                 mark + 2);
        snprintf(text, sizeof text, "# made by pam-auth-update\n%s%s", ours, files[i].rest);
        kit_put(doctor, path, text);
    }
    kit_put(doctor, "/etc/pam.d/other",
            "@include common-auth\n@include common-account\n@include common-password\n"
            "@include common-session\n");
    kit_put(doctor, "/etc/pam.d/su",
            "auth sufficient pam_rootok.so\nsession required pam_env.so readenv=1\n"
            "@include common-auth\n@include common-account\n@include common-session\n");
    kit_put(doctor, "/etc/pam.d/passwd", "@include common-password\n");
    kit_put(doctor, "/etc/pam.d/runuser",
            "auth sufficient pam_rootok.so\nsession required pam_unix.so\n");
    kit_put(doctor, "/usr/lib/pam.d/cron",
            "@include common-auth\nsession required pam_loginuid.so\n@include common-account\n"
            "@include common-session\n");
    kit_put(doctor, "/etc/pam.d/xce", JOBS_LINES);
    kit_put(doctor, "/usr/lib/x86_64-linux-gnu/security/pam_permit.so", "");
    kit_put(doctor, "/usr/lib/x86_64-linux-gnu/security/pam_xce.so", "");
}

static void doctor_pam_of_debian_is_well(void **state)
{
    struct doctor *doctor = *state;

    debian(doctor, "");
    doctor_check_pam(doctor);
    kit_expect(doctor, "pam-ok", SEVERITY_OK, "all 4 services");
    assert_int_equal(doctor->n_findings, 1);
}

static void doctor_pam_of_authselect_is_well(void **state)
{
    struct doctor *doctor = *state;

    kit_put(doctor, "/etc/pam.d/system-auth",
            "auth [success=ignore ignore=ignore module_unknown=ignore default=die] pam_xce.so\n"
            "auth required pam_env.so\nauth sufficient pam_unix.so\nauth required pam_deny.so\n"
            "account [success=ignore ignore=ignore module_unknown=ignore default=die] pam_xce.so\n"
            "account required pam_unix.so\naccount sufficient pam_localuser.so\n"
            "account required pam_permit.so\n"
            "password [success=ok ignore=ignore module_unknown=ignore default=die] pam_xce.so\n"
            "password sufficient pam_unix.so\npassword required pam_deny.so\n"
            "session [success=ok ignore=ignore module_unknown=ignore default=die] pam_xce.so\n"
            "-session optional pam_systemd.so\nsession required pam_unix.so\n");
    for (int i = 0; i < 2; i++)
        kit_put(doctor, i ? "/etc/pam.d/sshd" : "/etc/pam.d/su",
                "auth substack system-auth\naccount required pam_nologin.so\n"
                "account include system-auth\npassword include system-auth\n"
                "session include system-auth\nsession optional pam_xauth.so\n");
    kit_put(doctor, "/etc/pam.d/xce", JOBS_LINES);
    doctor_check_pam(doctor);
    kit_expect(doctor, "pam-ok", SEVERITY_OK, "all 2 services");
}

static void doctor_pam_without_our_module_is_an_error(void **state)
{
    struct doctor *doctor = *state;

    kit_put(doctor, "/etc/pam.d/su", "account required pam_unix.so\n");
    doctor_check_pam(doctor);
    kit_expect(doctor, "pam-missing", SEVERITY_ERROR, "no service of PAM asks pam_xce.so");
    kit_expect(doctor, "pam-jobs-missing", SEVERITY_ERROR, "/etc/pam.d/xce is missing");
}

static void doctor_pam_not_there_is_no_matter(void **state)
{
    struct doctor *doctor = *state;

    doctor_check_pam(doctor);
    assert_int_equal(doctor->n_findings, 0);
}

/* One file more, or another one than Debian's, and what is said of it. */
static void doctor_pam_odd_stacks_are_told(void **state)
{
    static const struct {
        const char *file, *text, *id, *says;
        enum severity severity;
    } cases[] = {
        {"/etc/pam.d/sshd", "account required pam_unix.so\n@include common-session\n",
         "pam-missing", "account of sshd: ", SEVERITY_ERROR},
        {"/etc/pam.d/vsftpd", "@include common-account\nsession required pam_unix.so\n",
         "pam-missing", "session of vsftpd: ", SEVERITY_WARNING},
        {"/etc/pam.d/sshd", "auth required pam_unix.so\n@include common-account\n", "pam-missing",
         "auth of sshd: ", SEVERITY_WARNING},
        {"/etc/pam.d/sudo", "account sufficient pam_ldap.so\n@include common-account\n",
         "pam-before", "account of sudo (pam_ldap.so, /etc/pam.d/sudo:1): ", SEVERITY_WARNING},
        {"/etc/pam.d/sshd", "account optional pam_xce.so\naccount required pam_unix.so\n",
         "pam-weak", "account of sshd: ", SEVERITY_ERROR},
        {"/etc/pam.d/login", "account required pam_xce.so\n@include common-account\n",
         "pam-lockout", "account of login: ", SEVERITY_WARNING},
        {"/etc/pam.d/login",
         "account [success=1 default=ignore] pam_unix.so\n"
         "account [ignore=ignore default=die] pam_xce.so\naccount requisite pam_deny.so\n"
         "account required pam_permit.so\n",
         "pam-harm", "account of login: ", SEVERITY_ERROR},
        {"/etc/pam.d/login",
         "account required pam_xce.so services=xce,login\naccount required pam_unix.so\n",
         "pam-services", "/etc/pam.d/login:1: services=xce,login: ", SEVERITY_WARNING},
        {"/etc/pam.d/login", "account include login\n", "pam-damaged",
         "login (/etc/pam.d/login:1: files include one another", SEVERITY_WARNING},
        {"/etc/pam.d/login", "auth include gone\n", "pam-damaged",
         "login (/etc/pam.d/login:1: includes a file that is not there)", SEVERITY_WARNING},
        {"/etc/pam.d/xce",
         "account required pam_xce.so\nauth required pam_xce.so\n"
         "password required pam_xce.so\n",
         "pam-jobs", "session is missing", SEVERITY_ERROR},
        {"/etc/pam.d/xce", JOBS_LINES "session optional pam_systemd.so\n", "pam-jobs",
         "session has another module", SEVERITY_ERROR},
        {"/etc/pam.d/xce", "@include common-account\n" JOBS_LINES, "pam-jobs",
         "account has another module", SEVERITY_ERROR},
        {"/etc/pam.d/xce",
         "auth required pam_xce.so\naccount required pam_xce.so services=batch,slurm\n"
         "password required pam_xce.so\nsession required pam_xce.so\n",
         "pam-jobs", "account has services= without \"xce\"", SEVERITY_ERROR},
        {"/etc/pam.d/xce",
         "auth required pam_xce.so\naccount [success=ignore default=die] pam_xce.so\n"
         "password required pam_xce.so\nsession required pam_xce.so\n",
         "pam-jobs", "account lets nobody in", SEVERITY_ERROR},
    };
    struct doctor *doctor = *state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kit_again(doctor);
        debian(doctor, "");
        kit_put(doctor, cases[i].file, cases[i].text);
        doctor_check_pam(doctor);
        kit_expect(doctor, cases[i].id, cases[i].severity, cases[i].says);
        if (strcmp(cases[i].file, "/etc/pam.d/xce") != 0)
            assert_int_equal(unlink(tmp_path(doctor->root, "%s", cases[i].file + 1)), 0);
    }
}

static void doctor_pam_closed_and_saved_files_are_no_matter(void **state)
{
    struct doctor *doctor = *state;

    debian(doctor, "");
    kit_put(doctor, "/etc/pam.d/closed", "account required pam_deny.so\n@include common-session\n");
    kit_put(doctor, "/etc/pam.d/sshd.dpkg-old", "account required pam_unix.so\n");
    kit_put(doctor, "/etc/pam.d/sshd~", "account required pam_unix.so\n");
    doctor_check_pam(doctor);
    kit_expect(doctor, "pam-ok", SEVERITY_OK, "services");
    assert_int_equal(doctor->n_findings, 1);
}

static void doctor_pam_many_services_are_one_finding(void **state)
{
    struct doctor *doctor = *state;
    char path[64];

    debian(doctor, "");
    for (unsigned i = 0; i < 100; i++) {
        snprintf(path, sizeof path, "/etc/pam.d/service%02u", i);
        kit_put(doctor, path, "account required pam_unix.so\nsession required pam_unix.so\n");
    }
    doctor_check_pam(doctor);
    kit_expect(doctor, "pam-missing", SEVERITY_WARNING, "service00, service01, ");
    kit_expect(doctor, "pam-missing", SEVERITY_WARNING, "more: does not ask");
    assert_int_equal(doctor->n_findings, 2);
}

static void doctor_pam_ranges_and_prefix_are_those_of_the_map(void **state)
{
    struct doctor *doctor = *state;

    snprintf(doctor->prefix, sizeof doctor->prefix, "xce-");
    doctor_add_range(doctor, 2013265920, 2013331455);
    debian(doctor, "");
    doctor_check_pam(doctor);
    kit_expect(doctor, "pam-ok", SEVERITY_OK, "");
    kit_again(doctor);
    doctor_add_range(doctor, 1900000000, 1900000999);
    doctor_check_pam(doctor);
    kit_expect(doctor, "pam-ranges", SEVERITY_WARNING, "1900000000-1900000999 is in no ranges=");
    assert_int_equal(doctor->n_findings, 1);
    kit_again(doctor);
    debian(doctor, " ranges=2013265920-2013331455,1900000000-1900001000");
    doctor_check_pam(doctor);
    kit_expect(doctor, "pam-ok", SEVERITY_OK, "");
    kit_again(doctor);
    debian(doctor, " ranges=none prefix=job-");
    doctor_check_pam(doctor);
    assert_int_equal(doctor->n_findings, 3);
    kit_expect(doctor, "pam-prefix", SEVERITY_WARNING,
               "begin with xce-, and pam_xce.so would look for job-");
}

static void doctor_pam_module_is_there_and_roots(void **state)
{
    struct doctor *doctor = *state;
    const char *module = "/usr/lib/x86_64-linux-gnu/security/pam_xce.so";

    debian(doctor, "");
    assert_int_equal(chmod(tmp_path(doctor->root, "%s", module + 1), 0666), 0);
    doctor_check_pam(doctor);
    kit_expect(doctor, "pam-module-owner", SEVERITY_ERROR,
               "/usr/lib/x86_64-linux-gnu/security/pam_xce.so: ");
    kit_again(doctor);
    assert_int_equal(unlink(tmp_path(doctor->root, "%s", module + 1)), 0);
    doctor_check_pam(doctor);
    kit_expect(doctor, "pam-module", SEVERITY_ERROR, "is not among the modules");
}

/* ---- sshd ---- */

static void doctor_sshd_use_pam_is_found_as_sshd_finds_it(void **state)
{
    static const struct {
        const char *conf, *drop_in; /* NULL: it is not there */
        const char *id;
    } cases[] = {
        {NULL, NULL, "sshd-usepam"},
        {"", NULL, "sshd-usepam"},
        {"UsePAM yes\n", NULL, "sshd-ok"},
        {"  usepam=YES\r\nUsePAM no\n", NULL, "sshd-ok"},
        {"UsePAM \"yes\" # no\n", NULL, "sshd-ok"},
        {"UsePAM no\nUsePAM yes\n", NULL, "sshd-usepam"},
        {"#UsePAM yes\n", NULL, "sshd-usepam"},
        {"Match User x\nUsePAM yes\n", NULL, "sshd-usepam"},
        {"UsePAMs yes\n", NULL, "sshd-usepam"},
        {"Include /etc/ssh/sshd_config.d/*.conf\nUsePAM yes\n", "UsePAM no\n", "sshd-usepam"},
        {"Include sshd_config.d/*.conf\nUsePAM no\n", "UsePAM yes\n", "sshd-ok"},
        {"Include \"sshd_config.d/a.conf\" b\n", "UsePAM yes\n", "sshd-ok"},
        {"UsePAM yes\nInclude sshd_config.d/*.conf\n", "UsePAM no\n", "sshd-ok"},
        /* A Match ends with its file. */
        {"Include sshd_config.d/*.conf\nUsePAM yes\n", "Match all\nPermitTTY no\n", "sshd-ok"},
        {"Include sshd_config.d/*.conf\n", "Include sshd_config.d/*.conf\n", "sshd-usepam"},
    };
    struct doctor *doctor = *state;

    doctor_check_sshd(doctor);
    assert_int_equal(doctor->n_findings, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kit_again(doctor);
        kit_put(doctor, "/usr/sbin/sshd", "");
        if (cases[i].conf)
            kit_put(doctor, "/etc/ssh/sshd_config", cases[i].conf);
        if (cases[i].drop_in)
            kit_put(doctor, "/etc/ssh/sshd_config.d/a.conf", cases[i].drop_in);
        doctor_check_sshd(doctor);
        if (!kit_found(doctor, cases[i].id))
            fail_msg("case %zu: no %s", i, cases[i].id);
        if (cases[i].drop_in)
            assert_int_equal(unlink(tmp_path(doctor->root, "etc/ssh/sshd_config.d/a.conf")), 0);
    }
}

/* ---- core dumps ---- */

static void doctor_coredump_patterns_are_judged(void **state)
{
    static const struct {
        const char *pattern, *id, *says;
    } cases[] = {
        {"core\n", "coredump-ok", "files \"core\""},
        {"\n", "coredump-ok", "no core dumps"},
        {"/var/crash/core.%p\n", "coredump-folder", "/var/crash/core.%p"},
        {"/var/tmp/core.%p\n", "coredump-ok", "removes them"},
        {"|/usr/lib/systemd/systemd-coredump %P %u %g\n", "coredump-ok", "systemd-coredump"},
        {"|/usr/share/apport/apport -p%p\n", "coredump-handler", "/usr/share/apport/apport, "},
        {"| handler\n", "coredump-handler", "go to handler, "},
        {"|\n", "coredump-handler", "go to , "},
    };
    struct doctor *doctor = *state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kit_again(doctor);
        kit_put(doctor, "/proc/sys/kernel/core_pattern", cases[i].pattern);
        doctor_check_coredump(doctor);
        kit_expect(doctor, cases[i].id,
                   !strcmp(cases[i].id, "coredump-ok")       ? SEVERITY_OK
                   : !strcmp(cases[i].id, "coredump-folder") ? SEVERITY_NOTE
                                                             : SEVERITY_WARNING,
                   cases[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(doctor_pam_of_debian_is_well),
        KIT_TEST(doctor_pam_of_authselect_is_well),
        KIT_TEST(doctor_pam_without_our_module_is_an_error),
        KIT_TEST(doctor_pam_not_there_is_no_matter),
        KIT_TEST(doctor_pam_odd_stacks_are_told),
        KIT_TEST(doctor_pam_closed_and_saved_files_are_no_matter),
        KIT_TEST(doctor_pam_many_services_are_one_finding),
        KIT_TEST(doctor_pam_ranges_and_prefix_are_those_of_the_map),
        KIT_TEST(doctor_pam_module_is_there_and_roots),
        KIT_TEST(doctor_sshd_use_pam_is_found_as_sshd_finds_it),
        KIT_TEST(doctor_coredump_patterns_are_judged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
