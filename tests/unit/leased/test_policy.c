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

static struct principal user(const char *name)
{
    struct principal principal;

    assert_int_equal(principal_from_user(name, NULL, 0, &principal, NULL), 0);
    return principal;
}

static void policy_certificate_of_root_is_nobody_special(void **state)
{
    struct principal remote = user("root");

    (void)state;
    principal_set_account(&remote, 0, 0);
    assert_int_equal(policy_decide(&remote, "LeaseService/Revoke"), SCOPE_NONE);
    assert_int_equal(policy_decide(&remote, "LeaseService/Get"), SCOPE_NONE);
}

/* Own = the same uid and the same name; an owner without a name only for whom the kernel vouches. */
static void policy_own_is_uid_and_name(void **state)
{
    struct principal alice, bob, number, remote = user("alice"), stranger = user("alice");
    const struct {
        const struct principal *who;
        const char *owner;
        uint32_t uid;
        bool own;
    } rows[] = {
        {&alice, "alice", 1000, true},   {&alice, "alice", 1001, false},
        {&alice, "bob", 1000, false},    {&alice, "#1000", 1000, true},
        {&alice, "#1001", 1000, false},  {&bob, "alice", 1000, false},
        {&number, "alice", 1000, false}, {&number, "#1000", 1000, true},
        {&remote, "alice", 1000, true},  {&remote, "alice", 1001, false},
        {&remote, "#1000", 1000, false}, {&stranger, "alice", 1000, false},
        {&stranger, "alice", 0, false},  {&stranger, "#0", 0, false},
    };

    (void)state;
    principal_from_peer(1000, 1000, "alice", &alice);
    principal_from_peer(1000, 1000, "bob", &bob);
    principal_from_peer(1000, 1000, NULL, &number);
    principal_set_account(&remote, 1000, 1000);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(policy_owns(rows[i].who, rows[i].owner, rows[i].uid), rows[i].own);
        assert_int_equal(policy_sees(rows[i].who, SCOPE_OWN, rows[i].owner, rows[i].uid),
                         rows[i].own);
        assert_false(policy_sees(rows[i].who, SCOPE_NONE, rows[i].owner, rows[i].uid));
        assert_true(policy_sees(rows[i].who, SCOPE_ALL, rows[i].owner, rows[i].uid));
    }
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
        cmocka_unit_test(policy_certificate_of_root_is_nobody_special),
        cmocka_unit_test(policy_own_is_uid_and_name),
        cmocka_unit_test(method_table_is_sound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
