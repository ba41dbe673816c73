/* Rules files: what is read out of them, and that each error names its line. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "common/rules_file.h"

static int parse(const char *text, struct rules_file *ret, struct err *err)
{
    return rules_file_parse("f", text, strlen(text), ret, err);
}

static void rules_file_is_read_whole(void **state)
{
    struct rules_file file;
    struct err err = {{0}};

    (void)state;
    assert_int_equal(parse("# who\n"
                           "revision = 12\n"
                           "\n"
                           "[role look]\n"
                           "  LeaseService/* = own\t\n"
                           "NodeService/List=all\r\n"
                           "; nothing\n"
                           "[role none]\n"
                           "[ bindings ]\n"
                           "local:* = user\n"
                           "user:alice=look ,operator\n"
                           "group:Physics = Dept. = scheduler",
                           &file, &err),
                     0);
    assert_true(file.has_revision);
    assert_int_equal(file.revision, 12);
    assert_int_equal(file.n_roles, 2);
    assert_string_equal(file.roles[0].name, "look");
    assert_int_equal(file.roles[0].n_rights, 2);
    assert_string_equal(file.roles[0].rights[0].method, "LeaseService/*");
    assert_false(file.roles[0].rights[0].all);
    assert_true(file.roles[0].rights[1].all);
    assert_int_equal(file.roles[0].rights[1].line, 6);
    assert_int_equal(file.n_bindings, 3);
    assert_int_equal(file.bindings[0].subject, RULES_LOCAL);
    assert_string_equal(file.bindings[1].roles[1], "operator");
    assert_int_equal(file.bindings[2].subject, RULES_GROUP);
    assert_string_equal(file.bindings[2].name, "Physics = Dept.");
    assert_int_equal(file.bindings[2].line, 12);
    rules_file_done(&file);
}

static void rules_file_that_is_empty_has_no_rules(void **state)
{
    struct rules_file file;

    (void)state;
    assert_int_equal(parse("", &file, NULL), 0);
    assert_false(file.has_revision);
    assert_int_equal(file.n_roles + file.n_bindings, 0);
    rules_file_done(&file);
}

static void rules_file_error_names_its_line(void **state)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"a = b", "f:1: a: stands in no section"},
        {"\nrevision = x", "f:2: revision"},
        {"revision = 1\nrevision = 2", "f:2: revision is there twice"},
        {"[bindings]\nuser:a", "f:2: user:a: there is no ="},
        {"[bindings]\nnode:n1 = user", "f:2: node:n1: must be local:NAME"},
        {"[bindings]\nuser:a b = user", "f:2: user name"},
        {"[bindings]\nuser: = user", "f:2: user name: is empty"},
        {"[bindings]\ngroup: = user", "f:2: group: is empty"},
        {"[bindings]\nuser:a =", "f:2: role"},
        {"[bindings]\nuser:a = User", "f:2: role"},
        {"[bindings]\nuser:a = x,x", "f:2: role x is there twice"},
        {"[bindings]\nuser:a = x\n\nuser:a = y", "f:4: user:a is there since line 2"},
        {"[bindings", "f:1: [bindings: a section ends with ]"},
        {"[roles]", "f:1: [roles]: must be [role NAME] or [bindings]"},
        {"[role]", "f:1: [role]: must be"},
        {"[role Big]", "f:1: role"},
        {"[role a]\n[role a]", "f:2: role a is there since line 1"},
        {"[role a]\nLeaseService = own", "f:2: LeaseService: must be Service/Method"},
        {"[role a]\nLeaseService/G* = own", "f:2: LeaseService/G*"},
        {"[role a]\nA/B = some", "f:2: A/B = some: must be own or all"},
        {"[role a]\nA/B = own\nA/B = all", "f:3: A/B is there since line 2"},
        {"# fine\n\xff", "f:2: "},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rules_file file;
        struct err err = {{0}};

        assert_int_equal(parse(rows[i].text, &file, &err), -EINVAL);
        if (!strstr(err.text, rows[i].says))
            fail_msg("\"%s\" does not say \"%s\"", err.text, rows[i].says);
    }
}

static void expect(const char *start, const char *before, const char *after, int n, int r)
{
    char *text = mem_must_alloc((size_t)n * 64 + 64);
    size_t at = (size_t)snprintf(text, 64, "%s", start);
    struct rules_file file;
    struct err err = {{0}};

    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, 64, "%s%d%s", before, i, after);
    assert_int_equal(parse(text, &file, &err), r);
    if (r == 0)
        rules_file_done(&file);
    else
        assert_non_null(strstr(err.text, "more than"));
    free(text);
}

static void rules_file_has_limits(void **state)
{
    (void)state;
    expect("", "[role r", "]\n", RULES_ROLES_MAX, 0);
    expect("", "[role r", "]\n", RULES_ROLES_MAX + 1, -EINVAL);
    expect("[role a]\n", "A/M", "=own\n", RULES_RIGHTS_MAX, 0);
    expect("[role a]\n", "A/M", "=own\n", RULES_RIGHTS_MAX + 1, -EINVAL);
    expect("[bindings]\n", "user:u", "=a\n", RULES_BINDING_MAX, 0);
    expect("[bindings]\n", "user:u", "=a\n", RULES_BINDING_MAX + 1, -EINVAL);
    expect("[bindings]\nuser:a=x", ",r", "", RULES_BOUND_MAX - 1, 0);
    expect("[bindings]\nuser:a=x", ",r", "", RULES_BOUND_MAX, -EINVAL);
}

static void rules_file_that_is_not_there_is_named(void **state)
{
    struct rules_file file;
    struct err err = {{0}};

    (void)state;
    assert_int_equal(rules_file_read("/nonexistent/rules", &file, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/rules"));
    rules_file_done(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_file_is_read_whole),
        cmocka_unit_test(rules_file_that_is_empty_has_no_rules),
        cmocka_unit_test(rules_file_error_names_its_line),
        cmocka_unit_test(rules_file_has_limits),
        cmocka_unit_test(rules_file_that_is_not_there_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
