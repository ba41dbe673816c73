/* Who asks: what each kind of peer is called, and which certificates name nobody. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "leased/rbac/principal.h"

#define MANY (PRINCIPAL_GROUPS_MAX + 1)

static char longest[PRINCIPAL_NAME_MAX + 1], too_long[PRINCIPAL_NAME_MAX + 2];

static void principal_of_a_peer_is_its_uid(void **state)
{
    struct principal principal;

    (void)state;
    principal_from_peer(0, 0, "root", &principal);
    assert_int_equal(principal.kind, PRINCIPAL_ROOT);
    principal_from_peer(1000, 100, "alice", &principal);
    assert_int_equal(principal.kind, PRINCIPAL_LOCAL);
    assert_string_equal(principal.key, "uid:1000");
    assert_string_equal(principal.name, "alice");
    assert_true(principal.has_uid && principal.local);
    assert_int_equal(principal.gid, 100);
    /* No name makes root: the kernel's uid does. */
    principal_from_peer(1000, 0, "root", &principal);
    assert_int_equal(principal.kind, PRINCIPAL_LOCAL);
}

static void principal_unknown_name_is_a_number(void **state)
{
    struct principal principal;

    (void)state;
    principal_from_peer(1000, 100, "", &principal);
    assert_string_equal(principal.name, "#1000");
    principal_from_peer(4294967294u, 100, too_long, &principal);
    assert_string_equal(principal.name, "#4294967294");
    assert_string_equal(principal.key, "uid:4294967294");
}

static void principal_of_a_user_has_name_and_groups(void **state)
{
    const char *groups[] = {"hpc", "Physics Dept.", longest};
    struct principal principal;

    (void)state;
    assert_int_equal(principal_from_user("alice", groups, 3, &principal, NULL), 0);
    assert_int_equal(principal.kind, PRINCIPAL_USER);
    assert_string_equal(principal.key, "user:alice");
    assert_int_equal(principal.n_groups, 3);
    for (unsigned i = 0; i < 3; i++)
        assert_string_equal(principal_group(&principal, i), groups[i]);
    assert_false(principal.has_uid || principal.local);
    principal_set_account(&principal, 1000, 100);
    assert_true(principal.has_uid);
    assert_string_equal(principal.key, "user:alice");
    assert_int_equal(principal_from_user(longest, NULL, 0, &principal, NULL), 0);
    assert_string_equal(principal.key + strlen("user:"), longest);
}

static void principal_of_a_machine_owns_nothing(void **state)
{
    struct principal principal;

    (void)state;
    assert_int_equal(principal_from_node("n1", &principal, NULL), 0);
    assert_int_equal(principal.kind, PRINCIPAL_NODE);
    assert_string_equal(principal.key, "node:n1");
    assert_false(principal.has_uid);
    assert_int_equal(principal_from_replica("1", &principal, NULL), 0);
    assert_int_equal(principal.kind, PRINCIPAL_REPLICA);
    assert_string_equal(principal.key, "replica:1");
}

static void principal_of_nonsense_is_refused(void **state)
{
    static const char *const users[] = {"",   "#1000", "1000", "a b",   "-x",
                                        "..", "a/b",   "a\nb", too_long};
    static const char *const nodes[] = {"", "n1/../n2", "n 1", "-n", too_long};
    struct principal principal = {.kind = PRINCIPAL_NOBODY};
    struct err err = {{0}};

    (void)state;
    for (size_t i = 0; i < sizeof users / sizeof users[0]; i++) {
        assert_int_equal(principal_from_user(users[i], NULL, 0, &principal, &err), -EACCES);
        assert_non_null(strstr(err.text, "certificate"));
    }
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
        assert_int_equal(principal_from_node(nodes[i], &principal, &err), -EACCES);
        assert_int_equal(principal_from_replica(nodes[i], &principal, &err), -EACCES);
    }
    assert_int_equal(principal.kind, PRINCIPAL_NOBODY);
}

static void principal_of_bad_groups_is_refused(void **state)
{
    static const char *const bad[] = {"", "a\nb", "\xff", too_long};
    const char *groups[MANY];
    struct principal principal;

    (void)state;
    for (size_t i = 0; i < MANY; i++)
        groups[i] = longest;
    assert_int_equal(principal_from_user("a", groups, MANY - 1, &principal, NULL), 0);
    assert_string_equal(principal_group(&principal, MANY - 2), longest);
    assert_int_equal(principal_from_user("a", groups, MANY, &principal, NULL), -EACCES);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(principal_from_user("a", &bad[i], 1, &principal, NULL), -EACCES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(principal_of_a_peer_is_its_uid),
        cmocka_unit_test(principal_unknown_name_is_a_number),
        cmocka_unit_test(principal_of_a_user_has_name_and_groups),
        cmocka_unit_test(principal_of_a_machine_owns_nothing),
        cmocka_unit_test(principal_of_nonsense_is_refused),
        cmocka_unit_test(principal_of_bad_groups_is_refused),
    };

    memset(longest, 'a', sizeof longest - 1);
    memset(too_long, 'a', sizeof too_long - 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
