/* Who may call what: the built-in roles, and that the method table is sound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "leased/rbac/policy.h"
#include "leased/rpc/method.h"

static struct principal peer(uint32_t uid)
{
    struct principal principal;

    principal_from_peer(uid, uid, NULL, &principal);
    return principal;
}

static void policy_root_has_all_of_every_method(void **state)
{
    const struct principal root = peer(0);
    const struct rpc_method *method;

    (void)state;
    for (size_t i = 0; (method = rpc_method_at(i)); i++)
        assert_int_equal(policy_decide(&root, method->permission), SCOPE_ALL);
}

static void policy_other_user_never_has_all(void **state)
{
    const struct principal user = peer(1000);
    const struct rpc_method *method;

    (void)state;
    for (size_t i = 0; (method = rpc_method_at(i)); i++)
        assert_int_not_equal(policy_decide(&user, method->permission), SCOPE_ALL);
}

static void policy_other_user_table(void **state)
{
    static const struct {
        const char *method;
        enum policy_scope scope;
    } rows[] = {
        {"LeaseService/Acquire", SCOPE_OWN},
        {"LeaseService/Watch", SCOPE_OWN},
        {"LeaseService/Revoke", SCOPE_NONE},
        {"NodeService/Session", SCOPE_NONE},
        {"NodeService/List", SCOPE_NONE},
        {"PoolService/Create", SCOPE_NONE},
        {"PoolService/List", SCOPE_OWN},
        {"LeaseService/Nonsense", SCOPE_NONE},
        {"", SCOPE_NONE},
        {"/xce.v1.LeaseService/Get", SCOPE_NONE},
    };
    const struct principal user = peer(1000);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(policy_decide(&user, rows[i].method), rows[i].scope);
}

static void policy_root_elsewhere_is_nobody_special(void **state)
{
    struct principal remote = peer(0);

    (void)state;
    remote.local = false;
    assert_int_equal(policy_decide(&remote, "LeaseService/Revoke"), SCOPE_NONE);
    assert_int_equal(policy_decide(&remote, "LeaseService/Get"), SCOPE_OWN);
}

static void policy_own_scope_sees_own_only(void **state)
{
    const struct principal user = peer(1000);

    (void)state;
    assert_true(policy_sees(&user, SCOPE_OWN, 1000));
    assert_false(policy_sees(&user, SCOPE_OWN, 1001));
    assert_false(policy_sees(&user, SCOPE_NONE, 1000));
    assert_true(policy_sees(&user, SCOPE_ALL, 1001));
}

static void principal_unknown_name_is_a_number(void **state)
{
    struct principal principal;
    char longest[PRINCIPAL_NAME_MAX + 2];

    (void)state;
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    principal_from_peer(1000, 100, "", &principal);
    assert_string_equal(principal.name, "#1000");
    principal_from_peer(4294967294u, 100, longest, &principal);
    assert_string_equal(principal.name, "#4294967294");
    assert_string_equal(principal.key, "uid:4294967294");
}

static void method_table_is_sound(void **state)
{
    (void)state;
    assert_int_equal(rpc_method_check(), 0);
    assert_non_null(rpc_method_find("/xce.v1.LeaseService/Acquire"));
    assert_null(rpc_method_find("/xce.v1.LeaseService/acquire"));
    assert_null(rpc_method_find("/xce.v1.LeaseService/"));
    assert_null(rpc_method_find(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policy_root_has_all_of_every_method),
        cmocka_unit_test(policy_other_user_never_has_all),
        cmocka_unit_test(policy_other_user_table),
        cmocka_unit_test(policy_root_elsewhere_is_nobody_special),
        cmocka_unit_test(policy_own_scope_sees_own_only),
        cmocka_unit_test(principal_unknown_name_is_a_number),
        cmocka_unit_test(method_table_is_sound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
