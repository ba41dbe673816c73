/* What libpam would make of stacks, read from texts. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ctl/pam_stack.h"

#define OURS "pam_ours.so"

struct file {
    const char *name, *text;
};

static char *give(const char *name, char *ret_path, size_t size, void *arg)
{
    for (const struct file *file = arg; file->name; file++) {
        if (strcmp(file->name, name) != 0)
            continue;
        snprintf(ret_path, size, "/etc/pam.d/%s", name);
        return strdup(file->text);
    }
    return NULL;
}

static int read_one(const char *text, enum pam_stack_type type, struct pam_stack *ret)
{
    struct file files[] = {{"s", text}, {NULL, NULL}};

    return pam_stack_read(ret, give, files, "s", type);
}

static void pam_stack_lines_are_read_as_libpam_reads_them(void **state)
{
    static const struct {
        const char *text;
        const char *modules; /* of auth: "a.so[args] b.so[] " */
    } cases[] = {
        {"", ""},
        {"# auth required a.so\n\n   \n", ""},
        {"auth required a.so", "a.so[] "},
        {"auth\trequired\ta.so  x=1 y \r\n", "a.so[x=1 y] "},
        {"AUTH Required a.so\naccount required b.so\n", "a.so[] "},
        {"-auth optional a.so\n", "a.so[] "},
        {"auth required a.so # auth required b.so\nauth required c.so", "a.so[] c.so[] "},
        {"auth required \\\n  a.so \\\n  x \\\n\nauth required b.so", "a.so[x] b.so[] "},
        {"auth required a.so \\", "a.so[\\] "},
        {"# comment \\\nauth required a.so\n", "a.so[] "},
        {"auth [success=1 default=ignore] a.so\n", "a.so[] "},
        {"auth [ success=ok \\\n default=die ] /lib/security/a.so x\n", "/lib/security/a.so[x] "},
        {"auth required a.so [x=y z]\n", "a.so[[x=y z]] "},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        AUTO(pam_stack_done) struct pam_stack stack = {0};
        char got[256] = "";

        if (read_one(cases[i].text, PAM_STACK_AUTH, &stack) != 0)
            fail_msg("%s: %s", cases[i].text, stack.why);
        for (size_t k = 0; k < stack.n; k++)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s[%s] ", stack.lines[k].module,
                     stack.lines[k].args);
        if (strcmp(got, cases[i].modules) != 0)
            fail_msg("%s: got %s, not %s", cases[i].text, got, cases[i].modules);
    }
}

static void pam_stack_what_can_not_be_told_is_refused(void **state)
{
    static const struct {
        struct file files[4];
        const char *why;
    } cases[] = {
        {{{"s", "auth required a.so\nauht required b.so\n"}}, "s:2: begins with no type"},
        {{{"s", "auth required\n"}}, "s:1: names no module"},
        {{{"s", "@include gone\n"}}, "s:1: includes a file that is not there"},
        {{{"s", "auth include gone\n"}}, "s:1: includes a file that is not there"},
        {{{"s", "auth substack gone\n"}}, "s:1: includes a file that is not there"},
        {{{"s", "@include\n"}}, "s:1: includes nothing"},
        {{{"s", "@include s\n"}}, "s:1: files include one another"},
        {{{"s", "auth include t"}, {"t", "\nauth substack s"}}, "files include one another"},
        /* Not endless, but as good as. */
        {{{"s", "@include t\n@include t\n@include t\n@include t\n"},
          {"t",
           "@include u\n@include u\n@include u\n@include u\n@include u\n@include u\n@include u\n"},
          {"u",
           "@include v\n@include v\n@include v\n@include v\n@include v\n@include v\n@include v\n"}},
         "includes a file that is not there"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        AUTO(pam_stack_done) struct pam_stack stack = {0};

        assert_int_equal(
            pam_stack_read(&stack, give, (void *)(uintptr_t)cases[i].files, "s", PAM_STACK_AUTH),
            -EBADMSG);
        if (!strstr(stack.why, cases[i].why))
            fail_msg("case %zu: %s, not: %s", i, stack.why, cases[i].why);
    }
}

static void pam_stack_files_without_end_are_bounded(void **state)
{
    struct file wide[] = {{"s", NULL}, {"t", "auth required a.so\n"}, {NULL, NULL}};
    char text[300 * 11 + 1] = "";
    AUTO(pam_stack_done) struct pam_stack stack = {0}, none = {0}, lines = {0};
    char *many;

    (void)state;
    for (size_t i = 0; i < 300; i++)
        memcpy(text + i * 11, "@include t\n", 12);
    wide[0].text = text;
    assert_int_equal(pam_stack_read(&stack, give, wide, "s", PAM_STACK_AUTH), -EBADMSG);
    assert_int_equal(pam_stack_read(&none, give, wide, "gone", PAM_STACK_AUTH), -ENOENT);
    many = malloc(5000 * 19 + 1);
    assert_non_null(many);
    for (size_t i = 0; i < 5000; i++)
        memcpy(many + i * 19, "auth required a.so\n", 20);
    assert_int_equal(read_one(many, PAM_STACK_AUTH, &lines), -EBADMSG);
    assert_non_null(strstr(lines.why, "too many lines"));
    free(many);
}

static void pam_stack_long_lines_are_read(void **state)
{
    AUTO(pam_stack_done) struct pam_stack stack = {0};
    size_t len = 200000;
    char *text = malloc(len + 64);

    (void)state;
    assert_non_null(text);
    memcpy(text, "auth required a.so ", 19);
    memset(text + 19, 'x', len);
    memcpy(text + 19 + len, "\nauth required b.so\n", 21);
    assert_int_equal(read_one(text, PAM_STACK_AUTH, &stack), 0);
    assert_int_equal(stack.n, 2);
    assert_int_equal(strlen(stack.lines[0].args), len);
    free(text);
}

#define DEBIAN_ACCOUNT                                                                             \
    "account [success=1 new_authtok_reqd=done default=ignore] pam_unix.so\n"                       \
    "account requisite pam_deny.so\naccount required pam_permit.so\n"
#define DEBIAN_SESSION                                                                             \
    "session [default=1] pam_permit.so\nsession requisite pam_deny.so\n"                           \
    "session required pam_permit.so\n"
#define GOOD "[success=ignore ignore=ignore module_unknown=ignore default=die] pam_ours.so\n"

/* Who comes in: an ordinary user (we ignore him), one we refuse, anybody without our file; and whether we are asked.
 * lint: flat (a table of stacks) */
static void pam_stack_decides_as_libpam_does(void **state)
{
    static const struct {
        enum pam_stack_type type;
        bool ignored, refused, unknown, asked;
        struct file files[4];
    } cases[] = {
        {PAM_STACK_ACCOUNT, true, false, true, true, {{"s", "account " GOOD DEBIAN_ACCOUNT}}},
        {PAM_STACK_ACCOUNT, true, true, true, false, {{"s", DEBIAN_ACCOUNT}}},
        /* The jump of the line above leads into pam_deny. */
        {PAM_STACK_ACCOUNT,
         false,
         false,
         false,
         false,
         {{"s", "account [success=1 default=ignore] pam_unix.so\naccount " GOOD
                "account requisite pam_deny.so\naccount required pam_permit.so\n"}}},
        {PAM_STACK_ACCOUNT,
         true,
         false,
         false,
         true,
         {{"s", "account required pam_ours.so\naccount required pam_unix.so\n"}}},
        {PAM_STACK_ACCOUNT,
         true,
         false,
         false,
         true,
         {{"s", "account requisite pam_ours.so\naccount required pam_unix.so\n"}}},
        {PAM_STACK_ACCOUNT,
         true,
         true,
         true,
         true,
         {{"s", "account optional pam_ours.so\naccount required pam_unix.so\n"}}},
        {PAM_STACK_ACCOUNT,
         true,
         true,
         true,
         true,
         {{"s", "account sufficient pam_ours.so\naccount required pam_unix.so\n"}}},
        /* A word that is no control is all bad. */
        {PAM_STACK_ACCOUNT,
         false,
         false,
         false,
         true,
         {{"s", "account requird pam_ours.so\naccount required pam_unix.so\n"}}},
        /* A line above that is enough. */
        {PAM_STACK_ACCOUNT,
         true,
         true,
         true,
         false,
         {{"s", "account sufficient pam_localuser.so\naccount " GOOD DEBIAN_ACCOUNT}}},
        /* After a failure nothing is enough any more. */
        {PAM_STACK_ACCOUNT,
         true,
         false,
         false,
         true,
         {{"s", "account required pam_ours.so\naccount sufficient pam_localuser.so\n"}}},
        {PAM_STACK_SESSION,
         true,
         false,
         true,
         true,
         {{"s", DEBIAN_SESSION
           "session [success=ok ignore=ignore module_unknown=ignore default=die] pam_ours.so\n"
           "session required pam_unix.so\n"}}},
        /* Nobody decides. */
        {PAM_STACK_SESSION, false, false, false, true, {{"s", "session required pam_ours.so\n"}}},
        /* root's own door of auth is not everybody's. */
        {PAM_STACK_AUTH,
         true,
         false,
         true,
         true,
         {{"s", "auth sufficient pam_rootok.so\n@include c\n"},
          {"c", "auth " GOOD "auth required pam_unix.so\n"}}},
        {PAM_STACK_AUTH,
         true,
         false,
         true,
         true,
         {{"s", "auth include c\nauth required pam_unix.so\n"}, {"c", "auth " GOOD}}},
        /* die ends its substack alone, and what it has come to stays. */
        {PAM_STACK_AUTH,
         true,
         false,
         true,
         true,
         {{"s", "auth substack c\nauth sufficient pam_x.so\n"},
          {"c", "auth " GOOD "auth required pam_unix.so\n"}}},
        /* done in a substack does not end the rest. */
        {PAM_STACK_AUTH,
         true,
         false,
         true,
         true,
         {{"s", "auth substack c\nauth " GOOD}, {"c", "auth sufficient pam_unix.so\n"}}},
        /* reset: what the substack has come to is forgotten. */
        {PAM_STACK_AUTH,
         true,
         true,
         true,
         true,
         {{"s", "auth required pam_x.so\nauth substack c\n"},
          {"c", "auth [default=bad ignore=ignore] pam_ours.so\nauth [default=reset] pam_y.so\n"}}},
        /* A jump counts a substack as one line. */
        {PAM_STACK_AUTH,
         true,
         true,
         true,
         false,
         {{"s",
           "auth [success=1 default=ignore] pam_x.so\nauth substack c\nauth required pam_y.so\n"},
          {"c", "auth " GOOD "auth required pam_deny.so\n"}}},
        /* One that leads too far fails. */
        {PAM_STACK_AUTH,
         false,
         false,
         false,
         false,
         {{"s", "auth [success=2 default=ignore] pam_x.so\nauth required pam_y.so\n"}}},
        {PAM_STACK_AUTH, false, false, false, false, {{"s", ""}}},
        {PAM_STACK_PASSWORD,
         true,
         false,
         true,
         true,
         {{"s", "password required pam_unix.so\npassword [success=ok ignore=ignore "
                "module_unknown=ignore authtok_err=die default=ignore] pam_ours.so\n"}}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        AUTO(pam_stack_done) struct pam_stack stack = {0};
        struct pam_stack_verdict refused;

        if (pam_stack_read(&stack, give, (void *)(uintptr_t)cases[i].files, "s", cases[i].type) !=
            0)
            fail_msg("case %zu: %s", i, stack.why);
        refused = pam_stack_run(&stack, OURS, PAM_STACK_REFUSES);
        if (pam_stack_run(&stack, OURS, PAM_STACK_IGNORE).lets_in != cases[i].ignored ||
            refused.lets_in != cases[i].refused || refused.asked != cases[i].asked ||
            pam_stack_run(&stack, OURS, PAM_STACK_UNKNOWN).lets_in != cases[i].unknown)
            fail_msg("case %zu: refused: lets in %d, asked %d", i, refused.lets_in, refused.asked);
    }
}

static void pam_stack_without_our_line_jumps_count_anew(void **state)
{
    AUTO(pam_stack_done) struct pam_stack stack = {0};

    (void)state;
    assert_int_equal(read_one("account [success=1 default=ignore] pam_unix.so\n"
                              "account required pam_ours.so\n"
                              "account requisite pam_deny.so\naccount required pam_permit.so\n",
                              PAM_STACK_ACCOUNT, &stack),
                     0);
    assert_false(pam_stack_run(&stack, OURS, PAM_STACK_IGNORE).lets_in);
    assert_true(pam_stack_run(&stack, OURS, PAM_STACK_ABSENT).lets_in);
}

static void pam_stack_the_line_that_ended_it_is_told(void **state)
{
    AUTO(pam_stack_done) struct pam_stack stack = {0};
    struct pam_stack_verdict verdict;

    (void)state;
    assert_int_equal(read_one("account optional pam_x.so\n\naccount sufficient pam_y.so\n"
                              "account required pam_ours.so\n",
                              PAM_STACK_ACCOUNT, &stack),
                     0);
    verdict = pam_stack_run(&stack, OURS, PAM_STACK_REFUSES);
    assert_non_null(verdict.end);
    assert_string_equal(verdict.end->module, "pam_y.so");
    assert_int_equal(verdict.end->number, 3);
    assert_string_equal(verdict.end->file, "/etc/pam.d/s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pam_stack_lines_are_read_as_libpam_reads_them),
        cmocka_unit_test(pam_stack_what_can_not_be_told_is_refused),
        cmocka_unit_test(pam_stack_files_without_end_are_bounded),
        cmocka_unit_test(pam_stack_long_lines_are_read),
        cmocka_unit_test(pam_stack_decides_as_libpam_does),
        cmocka_unit_test(pam_stack_without_our_line_jumps_count_anew),
        cmocka_unit_test(pam_stack_the_line_that_ended_it_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
