/* Who may call what: the built-in roles, and that the method table is sound. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "leased/rbac/policy.h"
#include "leased/rpc/method.h"

static struct principal peer(uint32_t uid)
{
    struct principal principal;

    principal_from_peer(uid, uid, NULL, &principal);
    return principal;
}

static struct principal user_in(const char *name, const char *group)
{
    struct principal principal;

    assert_int_equal(principal_from_user(name, &group, group ? 1 : 0, &principal, NULL), 0);
    return principal;
}

static struct principal user(const char *name)
{
    return user_in(name, NULL);
}

static struct principal node(const char *name)
{
    struct principal principal;

    assert_int_equal(principal_from_node(name, &principal, NULL), 0);
    return principal;
}

/* ---- rules to test with: one role, one binding of roles "a,b" ---- */

struct rules {
    Xce__V1__Rules rules;
    Xce__V1__Role roles[4], *role_pointers[4];
    Xce__V1__Right rights[4][8], *right_pointers[4][8];
    Xce__V1__Binding bindings[8], *binding_pointers[8];
    ProtobufCBinaryData bound[8][4];
};

static ProtobufCBinaryData bytes(const char *text)
{
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
}

static void rules_init(struct rules *rules)
{
    memset(rules, 0, sizeof *rules);
    xce__v1__rules__init(&rules->rules);
    rules->rules.roles = rules->role_pointers;
    rules->rules.bindings = rules->binding_pointers;
}

static size_t add_role(struct rules *rules, const char *name)
{
    size_t i = rules->rules.n_roles++;

    xce__v1__role__init(&rules->roles[i]);
    rules->roles[i].name = bytes(name);
    rules->roles[i].rights = rules->right_pointers[i];
    rules->role_pointers[i] = &rules->roles[i];
    return i;
}

static void add_right(struct rules *rules, size_t role, const char *method, Xce__V1__Scope scope)
{
    size_t i = rules->roles[role].n_rights++;

    xce__v1__right__init(&rules->rights[role][i]);
    rules->rights[role][i].method = bytes(method);
    rules->rights[role][i].scope = scope;
    rules->right_pointers[role][i] = &rules->rights[role][i];
}

static void bind_role(struct rules *rules, Xce__V1__Subject subject, const char *name,
                      const char *role)
{
    size_t i = rules->rules.n_bindings++;

    xce__v1__binding__init(&rules->bindings[i]);
    rules->bindings[i].subject = subject;
    rules->bindings[i].name = bytes(name);
    rules->bindings[i].roles = rules->bound[i];
    rules->bindings[i].n_roles = 1;
    rules->bound[i][0] = bytes(role);
    rules->binding_pointers[i] = &rules->bindings[i];
}

#define OWN   XCE__V1__SCOPE__SCOPE_OWN
#define ALL   XCE__V1__SCOPE__SCOPE_ALL
#define LOCAL XCE__V1__SUBJECT__SUBJECT_LOCAL
#define USER  XCE__V1__SUBJECT__SUBJECT_USER
#define GROUP XCE__V1__SUBJECT__SUBJECT_GROUP

/* By both ways, which must agree. NULL = the defaults. */
static enum policy_scope decide(const struct rules *rules, const struct principal *who,
                                const char *method)
{
    struct policy *policy = policy_new(rules ? &rules->rules : NULL);
    enum policy_scope scope = policy_decide(policy, who, method);
    struct policy_reason reason;

    policy_explain(rules ? &rules->rules : NULL, who, method, &reason);
    assert_int_equal(reason.scope, scope);
    assert_true((scope == SCOPE_NONE) == (*reason.right == '\0'));
    if (strcmp(method, METHODS_OF_ALL_USERS) != 0 || scope != SCOPE_OWN)
        assert_true((scope == SCOPE_NONE) == (*reason.role == '\0'));
    policy_free(policy);
    return scope;
}

/* What a user has to whom no rule gives anything. */
static enum policy_scope without_rules(const struct principal *who, const char *method)
{
    bool user = who->kind == PRINCIPAL_LOCAL || who->kind == PRINCIPAL_USER;

    return user && !strcmp(method, "RbacService/Check") ? SCOPE_OWN : SCOPE_NONE;
}

static bool of_replicas(const char *method)
{
    return methods_at(methods_find(method))->replicas;
}

/* ---- the defaults ---- */

static void policy_root_has_all_of_every_method(void **state)
{
    const struct principal root = peer(0);
    const struct rpc_method *method;
    struct rules nothing;

    (void)state;
    rules_init(&nothing);
    for (size_t i = 0; (method = rpc_method_at(i)); i++) {
        if (of_replicas(method->permission))
            continue; /* shown by the test below */
        assert_int_equal(decide(NULL, &root, method->permission), SCOPE_ALL);
        assert_int_equal(decide(&nothing, &root, method->permission), SCOPE_ALL);
    }
}

static void policy_what_is_between_replicas_no_rule_gives_to_others(void **state)
{
    static const char *const theirs[] = {"ClusterService/Overlap", "ClusterService/Past"};
    const struct principal root = peer(0), admin = user_in("a", "xce-admin"), n1 = node("n1");
    const struct rpc_method *method;
    struct principal replica;
    struct rules rules;
    struct err err;

    (void)state;
    rules_init(&rules);
    add_right(&rules, add_role(&rules, "wide"), "*", ALL);
    bind_role(&rules, GROUP, "xce-admin", "wide");
    assert_int_equal(principal_from_replica("c1", &replica, NULL), 0);
    for (size_t i = 0; (method = rpc_method_at(i)); i++)
        assert_int_equal(decide(&rules, &replica, method->permission),
                         of_replicas(method->permission) ? SCOPE_ALL : SCOPE_NONE);
    for (size_t i = 0; i < ARRAY_LEN(theirs); i++) {
        struct rules named;

        assert_int_equal(decide(&rules, &root, theirs[i]), SCOPE_NONE);
        assert_int_equal(decide(&rules, &admin, theirs[i]), SCOPE_NONE);
        assert_int_equal(decide(&rules, &n1, theirs[i]), SCOPE_NONE);
        rules_init(&named);
        add_right(&named, add_role(&named, "named"), theirs[i], ALL);
        assert_int_equal(policy_check(&named.rules, &err), -EINVAL);
    }
}

/* No rules against rules that give all: who has the same under both is not asked about. */
static void policy_says_whom_rules_concern(void **state)
{
    struct principal who[6] = {peer(0), peer(1000), user("alice"), user_in("bob", "hpc"),
                               node("n1")};
    struct principal stranger;
    const struct rpc_method *method;
    struct rules nothing, wide;

    (void)state;
    assert_int_equal(principal_from_replica("c1", &who[5], NULL), 0);
    principal_stranger(&stranger);
    rules_init(&nothing);
    rules_init(&wide);
    add_right(&wide, add_role(&wide, "wide"), "*", ALL);
    bind_role(&wide, LOCAL, "*", "wide");
    bind_role(&wide, USER, "*", "wide");
    for (size_t i = 0; (method = rpc_method_at(i)); i++) {
        for (size_t k = 0; k < sizeof who / sizeof who[0]; k++)
            assert_int_equal(policy_is_by_rules(&who[k], method->permission),
                             decide(&nothing, &who[k], method->permission) !=
                                 decide(&wide, &who[k], method->permission));
        assert_false(policy_is_by_rules(&stranger, method->permission));
    }
}

static void policy_without_a_binding_is_nothing(void **state)
{
    const struct principal nobody[] = {{.kind = PRINCIPAL_NOBODY, .key = "uid:0", .local = true},
                                       user("alice"),
                                       user("root"),
                                       user_in("a", "wheel")};
    const struct rpc_method *method;

    (void)state;
    for (size_t i = 0; (method = rpc_method_at(i)); i++)
        for (size_t k = 0; k < sizeof nobody / sizeof nobody[0]; k++)
            assert_int_equal(decide(NULL, &nobody[k], method->permission),
                             without_rules(&nobody[k], method->permission));
}

static void policy_default_table(void **state)
{
    const struct principal local = peer(1000), n1 = node("n1"), admin = user_in("a", "xce-admin"),
                           operator= user_in("o", "xce-operator"),
                           scheduler = user_in("s", "xce-scheduler"),
                           plain = user_in("u", "xce-user");
    const struct {
        const struct principal *who;
        const char *method;
        enum policy_scope scope;
    } rows[] = {
        {&local, "LeaseService/Acquire", SCOPE_OWN},
        {&local, "LeaseService/Watch", SCOPE_OWN},
        {&local, "LeaseService/Revoke", SCOPE_NONE},
        {&local, "NodeService/Session", SCOPE_NONE},
        {&local, "NodeService/List", SCOPE_NONE},
        {&local, "PoolService/Create", SCOPE_NONE},
        {&local, "PoolService/List", SCOPE_OWN},
        {&local, "RbacService/GetConfig", SCOPE_NONE},
        {&local, "RbacService/ListRoles", SCOPE_OWN},
        {&local, "LeaseService/Nonsense", SCOPE_NONE},
        {&local, "", SCOPE_NONE},
        {&local, "/xce.v1.LeaseService/Get", SCOPE_NONE},
        {&plain, "LeaseService/Acquire", SCOPE_OWN},
        {&plain, "NodeService/Drain", SCOPE_NONE},
        {&n1, "NodeService/Session", SCOPE_OWN},
        {&n1, "NodeService/Get", SCOPE_OWN},
        {&n1, "NodeService/Drain", SCOPE_NONE},
        {&n1, "LeaseService/List", SCOPE_NONE},
        {&n1, "RbacService/UpdateConfig", SCOPE_NONE},
        {&admin, "RbacService/UpdateConfig", SCOPE_ALL},
        {&admin, "NodeService/Fence", SCOPE_ALL},
        {&operator, "NodeService/Drain", SCOPE_ALL},
        {&operator, "NodeService/Fence", SCOPE_NONE},
        {&operator, "LeaseService/Revoke", SCOPE_ALL},
        {&operator, "LeaseService/Acquire", SCOPE_NONE},
        {&operator, "RbacService/UpdateConfig", SCOPE_NONE},
        {&scheduler, "LeaseService/Acquire", SCOPE_ALL},
        {&scheduler, "LeaseService/Revoke", SCOPE_NONE},
        {&scheduler, "NodeService/Drain", SCOPE_NONE},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(decide(NULL, rows[i].who, rows[i].method), rows[i].scope);
}

/* ---- rules ---- */

static void policy_rights_add_up_and_the_widest_counts(void **state)
{
    const struct principal alice = user_in("alice", "hpc"), bob = user("bob");
    struct rules rules;

    (void)state;
    rules_init(&rules);
    add_right(&rules, add_role(&rules, "all"), "LeaseService/Get", ALL);
    add_right(&rules, add_role(&rules, "own"), "LeaseService/*", OWN);
    bind_role(&rules, GROUP, "hpc", "all");
    bind_role(&rules, USER, "alice", "own");
    assert_int_equal(decide(&rules, &alice, "LeaseService/Get"), SCOPE_ALL);
    assert_int_equal(decide(&rules, &alice, "LeaseService/List"), SCOPE_OWN);
    assert_int_equal(decide(&rules, &alice, "PoolService/List"), SCOPE_NONE);
    assert_int_equal(decide(&rules, &bob, "LeaseService/Get"), SCOPE_NONE);
}

/* The kinds are apart: who is alice on the socket is not alice of a certificate, nor a group or node of that name. */
static void policy_names_of_kinds_do_not_mix(void **state)
{
    struct principal local, remote = user("alice"), member = user_in("x", "alice"),
                            machine = node("alice");
    const struct principal *const who[] = {&local, &remote, &member};
    const Xce__V1__Subject subjects[] = {LOCAL, USER, GROUP};

    (void)state;
    principal_from_peer(1000, 1000, "alice", &local);
    for (size_t i = 0; i < 3; i++) {
        struct rules rules;

        rules_init(&rules);
        bind_role(&rules, subjects[i], "alice", "admin");
        for (size_t k = 0; k < 3; k++)
            assert_int_equal(decide(&rules, who[k], "NodeService/Fence"),
                             i == k ? SCOPE_ALL : SCOPE_NONE);
        assert_int_equal(decide(&rules, &machine, "NodeService/Fence"), SCOPE_NONE);
    }
}

static void policy_star_is_everybody_of_a_kind(void **state)
{
    const struct principal local = peer(1000), remote = user("bob"), machine = node("n1");
    struct rules rules;

    (void)state;
    rules_init(&rules);
    bind_role(&rules, USER, "*", "user");
    assert_int_equal(decide(&rules, &remote, "LeaseService/Get"), SCOPE_OWN);
    assert_int_equal(decide(&rules, &local, "LeaseService/Get"), SCOPE_NONE);
    assert_int_equal(decide(&rules, &machine, "LeaseService/Get"), SCOPE_NONE);
}

/* Nothing of a pool is one's own: own must not become a right to change it. */
static void policy_own_is_no_right_where_nothing_is_owned(void **state)
{
    const struct principal bob = user("bob");
    struct rules rules;

    (void)state;
    rules_init(&rules);
    add_right(&rules, add_role(&rules, "wide"), "*", OWN);
    bind_role(&rules, USER, "bob", "wide");
    for (size_t i = 0; methods_at(i); i++)
        assert_int_equal(decide(&rules, &bob, methods_at(i)->name),
                         methods_at(i)->all_only ? SCOPE_NONE : SCOPE_OWN);
}

static void policy_role_that_does_not_exist_gives_nothing(void **state)
{
    const struct principal bob = user("bob");
    struct rules rules;

    (void)state;
    rules_init(&rules);
    bind_role(&rules, USER, "bob", "later");
    for (size_t i = 0; methods_at(i); i++)
        assert_int_equal(decide(&rules, &bob, methods_at(i)->name),
                         without_rules(&bob, methods_at(i)->name));
}

static void policy_reason_names_binding_role_and_right(void **state)
{
    const struct principal bob = user_in("bob", "hpc");
    struct policy_reason reason;
    struct rules rules;

    (void)state;
    rules_init(&rules);
    add_right(&rules, add_role(&rules, "look"), "NodeService/*", ALL);
    bind_role(&rules, USER, "bob", "user");
    bind_role(&rules, GROUP, "hpc", "look");
    policy_explain(&rules.rules, &bob, "NodeService/Drain", &reason);
    assert_string_equal(reason.subject, "group:hpc");
    assert_string_equal(reason.role, "look");
    assert_string_equal(reason.right, "NodeService/*");
    policy_explain(&rules.rules, &bob, "LeaseService/Get", &reason);
    assert_string_equal(reason.subject, "user:bob");
    assert_string_equal(reason.right, "LeaseService/Get");
    policy_explain(&rules.rules, &bob, "PoolService/Retire", &reason);
    assert_int_equal(reason.scope, SCOPE_NONE);
}

static uint32_t roll(uint32_t *random, uint32_t n)
{
    *random = *random * 1664525u + 1013904223u;
    return (*random >> 16) % n;
}

/* Whatever rules and callers there are, what is explained is what is decided. */
static void policy_explains_what_it_decides(void **state)
{
    static const char *const names[] = {"alice", "bob", "*"}, *const rights[] = {
                                                                  "*", "LeaseService/*",
                                                                  "LeaseService/Get",
                                                                  "PoolService/Set",
                                                                  "NodeService/Session"};
    static const char *const roles[] = {"user", "operator", "r0", "r1", "missing"};
    const struct principal who[] = {user_in("alice", "bob"), user("bob"), peer(1000),
                                    node("alice")};
    uint32_t random = 1;

    (void)state;
    for (int round = 0; round < 500; round++) {
        struct rules rules;

        rules_init(&rules);
        for (int i = 0; i < 2; i++) {
            size_t role = add_role(&rules, i ? "r1" : "r0");

            for (uint32_t k = roll(&random, 4); k; k--)
                add_right(&rules, role, rights[roll(&random, 5)], roll(&random, 2) ? OWN : ALL);
        }
        for (uint32_t subject = LOCAL; subject <= GROUP; subject++)
            for (uint32_t k = roll(&random, 3); k; k--)
                bind_role(&rules, (Xce__V1__Subject)subject, names[k], roles[roll(&random, 5)]);
        for (size_t k = 0; k < sizeof who / sizeof who[0]; k++)
            for (size_t i = 0; methods_at(i); i++)
                (void)decide(&rules, &who[k], methods_at(i)->name);
    }
}

static void policy_check_names_what_is_wrong(void **state)
{
    static const struct {
        const char *role, *right, *bound, *says;
        Xce__V1__Scope scope;
    } rows[] = {
        {"fine", "LeaseService/Get", "fine", NULL, OWN},
        {"fine", "LeaseService/*", "operator", NULL, OWN},
        {"fine", "*", "fine", NULL, OWN},
        {"admin", "LeaseService/Get", "user", "built in", OWN},
        {"r", "LeaseService/Gett", "r", "no method LeaseService/Gett", ALL},
        {"r", "Nothing/*", "r", "no method Nothing/*", ALL},
        {"r", "LeaseService/G*", "r", "no method LeaseService/G*", ALL},
        {"r", "PoolService/Set", "r", "scope must be all", OWN},
        {"r", "PoolService/Set", "r", NULL, ALL},
        {"r", "LeaseService/Get", "s", "no role s", ALL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err err = {{0}};
        struct rules rules;

        rules_init(&rules);
        add_right(&rules, add_role(&rules, rows[i].role), rows[i].right, rows[i].scope);
        bind_role(&rules, USER, "bob", rows[i].bound);
        assert_int_equal(policy_check(&rules.rules, &err) == 0, rows[i].says == NULL);
        if (rows[i].says)
            assert_non_null(strstr(err.text, rows[i].says));
    }
    assert_int_equal(policy_check(policy_defaults(), NULL), 0);
}

static void methods_are_sorted_and_served(void **state)
{
    const struct rpc_method *method;

    (void)state;
    for (size_t i = 1; methods_at(i); i++)
        assert_true(strcmp(methods_at(i - 1)->name, methods_at(i)->name) < 0);
    for (size_t i = 0; methods_at(i); i++) {
        bool served = false;

        for (size_t k = 0; (method = rpc_method_at(k)); k++)
            served = served || !strcmp(method->permission, methods_at(i)->name);
        assert_true(served);
        assert_int_equal(methods_at(i)->scopes[BUILTIN_ADMIN],
                         methods_at(i)->replicas ? SCOPE_NONE : SCOPE_ALL);
        for (int role = 0; role < N_BUILTIN_ROLES; role++)
            assert_false(methods_at(i)->all_only && methods_at(i)->scopes[role] == SCOPE_OWN);
    }
}

static void policy_node_sees_itself_alone(void **state)
{
    const struct principal n1 = node("n1"), alice = user("n1");

    (void)state;
    assert_true(policy_sees_node(&n1, SCOPE_OWN, "n1"));
    assert_false(policy_sees_node(&n1, SCOPE_OWN, "n2"));
    assert_false(policy_sees_node(&n1, SCOPE_NONE, "n1"));
    assert_false(policy_sees_node(&alice, SCOPE_OWN, "n1"));
    assert_true(policy_sees_node(&alice, SCOPE_ALL, "n2"));
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
        cmocka_unit_test(policy_what_is_between_replicas_no_rule_gives_to_others),
        cmocka_unit_test(policy_without_a_binding_is_nothing),
        cmocka_unit_test(policy_default_table),
        cmocka_unit_test(policy_rights_add_up_and_the_widest_counts),
        cmocka_unit_test(policy_names_of_kinds_do_not_mix),
        cmocka_unit_test(policy_star_is_everybody_of_a_kind),
        cmocka_unit_test(policy_own_is_no_right_where_nothing_is_owned),
        cmocka_unit_test(policy_role_that_does_not_exist_gives_nothing),
        cmocka_unit_test(policy_reason_names_binding_role_and_right),
        cmocka_unit_test(policy_explains_what_it_decides),
        cmocka_unit_test(policy_check_names_what_is_wrong),
        cmocka_unit_test(policy_says_whom_rules_concern),
        cmocka_unit_test(methods_are_sorted_and_served),
        cmocka_unit_test(policy_node_sees_itself_alone),
        cmocka_unit_test(policy_own_is_uid_and_name),
        cmocka_unit_test(method_table_is_sound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
