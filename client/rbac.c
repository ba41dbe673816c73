/* RbacService. */
#include "client/verb.h"
#include "xce/client_rbac.h"
#include "xce/v1/rbac.pb-c.h"

#define SERVICE   "RbacService"
#define ARENA_MAX (16u << 20)

/* ---- results: bytes fields become strings in the arena ---- */

/* NULL = no memory. */
static void *room(struct pb_arena *arena, size_t n, size_t size)
{
    return pb_arena_alloc(arena, (n + 1) * size);
}

static const char *text_of(struct pb_arena *arena, ProtobufCBinaryData bytes)
{
    char *text = room(arena, bytes.len, 1);

    if (!text)
        return NULL;
    if (bytes.len)
        memcpy(text, bytes.data, bytes.len);
    text[bytes.len] = '\0';
    return text;
}

static const struct xce_right *take_rights(struct pb_arena *arena, Xce__V1__Right *const *from,
                                           size_t n)
{
    struct xce_right *rights = room(arena, n, sizeof *rights);

    for (size_t i = 0; rights && i < n; i++) {
        rights[i].method = text_of(arena, from[i]->method);
        rights[i].scope = (int)from[i]->scope;
        if (!rights[i].method)
            return NULL;
    }
    return rights;
}

static bool take_role(struct pb_arena *arena, const Xce__V1__Role *from, struct xce_role *ret)
{
    *ret = (struct xce_role){
        .name = text_of(arena, from->name),
        .rights = take_rights(arena, from->rights, from->n_rights),
        .n_rights = from->n_rights,
    };
    return ret->name && ret->rights;
}

static bool take_binding(struct pb_arena *arena, const Xce__V1__Binding *from,
                         struct xce_binding *ret)
{
    const char **roles = room(arena, from->n_roles, sizeof *roles);

    *ret = (struct xce_binding){.subject = (int)from->subject,
                                .name = text_of(arena, from->name),
                                .roles = roles,
                                .n_roles = from->n_roles};
    for (size_t i = 0; roles && i < from->n_roles; i++) {
        roles[i] = text_of(arena, from->roles[i]);
        if (!roles[i])
            return false;
    }
    return ret->name && roles;
}

static int take_rules(struct xce_client *client, const ProtobufCMessage *message, void *result)
{
    const Xce__V1__RulesReply *reply = (const Xce__V1__RulesReply *)message;
    const Xce__V1__Rules *from = reply->rules;
    struct pb_arena *arena = result_arena(result);
    struct xce_rules *rules = result;
    struct xce_binding *bindings;
    struct xce_role *roles;

    client_saw_info(client, reply->info);
    if (!from)
        return client_fail(client, XCE_FAILED, "the server's answer holds no rules");
    roles = room(arena, from->n_roles, sizeof *roles);
    bindings = room(arena, from->n_bindings, sizeof *bindings);
    if (!roles || !bindings)
        return OUT_OF_MEMORY(client);
    for (size_t i = 0; i < from->n_roles; i++)
        if (!take_role(arena, from->roles[i], &roles[i]))
            return OUT_OF_MEMORY(client);
    for (size_t i = 0; i < from->n_bindings; i++)
        if (!take_binding(arena, from->bindings[i], &bindings[i]))
            return OUT_OF_MEMORY(client);
    *rules = (struct xce_rules){
        .revision = reply->revision,
        .roles = roles,
        .n_roles = from->n_roles,
        .bindings = bindings,
        .n_bindings = from->n_bindings,
    };
    return XCE_OK;
}

int xce_rbac_get(struct xce_client *client, const struct xce_call *call, struct xce_rules **ret)
{
    struct op_spec spec = VERB(OP_READ, "GetConfig", rules_reply, take_rules);
    Xce__V1__GetRulesRequest request = XCE__V1__GET_RULES_REQUEST__INIT;

    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}

/* ---- set ---- */

static Xce__V1__Role *put_role(struct pb_arena *arena, const struct xce_role *from)
{
    Xce__V1__Role *role = room(arena, 1, sizeof *role);
    Xce__V1__Right *rights = room(arena, from->n_rights, sizeof *rights);

    if (!role || !rights)
        return NULL;
    xce__v1__role__init(role);
    role->name = verb_bytes(from->name);
    role->rights = room(arena, from->n_rights, sizeof *role->rights);
    if (!role->rights)
        return NULL;
    for (size_t i = 0; i < from->n_rights; i++) {
        xce__v1__right__init(&rights[i]);
        rights[i].method = verb_bytes(from->rights[i].method);
        rights[i].scope = (Xce__V1__Scope)from->rights[i].scope;
        role->rights[i] = &rights[i];
    }
    role->n_rights = from->n_rights;
    return role;
}

static Xce__V1__Binding *put_binding(struct pb_arena *arena, const struct xce_binding *from)
{
    Xce__V1__Binding *binding = room(arena, 1, sizeof *binding);

    if (!binding)
        return NULL;
    xce__v1__binding__init(binding);
    binding->subject = (Xce__V1__Subject)from->subject;
    binding->name = verb_bytes(from->name);
    binding->roles = room(arena, from->n_roles, sizeof *binding->roles);
    if (!binding->roles)
        return NULL;
    for (size_t i = 0; i < from->n_roles; i++)
        binding->roles[i] = verb_bytes(from->roles[i]);
    binding->n_roles = from->n_roles;
    return binding;
}

static bool put_rules(struct pb_arena *arena, const struct xce_rules *from, Xce__V1__Rules *ret)
{
    ret->roles = room(arena, from->n_roles, sizeof *ret->roles);
    ret->bindings = room(arena, from->n_bindings, sizeof *ret->bindings);
    if (!ret->roles || !ret->bindings)
        return false;
    for (; ret->n_roles < from->n_roles; ret->n_roles++)
        if (!(ret->roles[ret->n_roles] = put_role(arena, &from->roles[ret->n_roles])))
            return false;
    for (; ret->n_bindings < from->n_bindings; ret->n_bindings++)
        if (!(ret->bindings[ret->n_bindings] = put_binding(arena,
                                                           &from->bindings[ret->n_bindings])))
            return false;
    return true;
}

int xce_rbac_set(struct xce_client *client, const struct xce_call *call,
                 const struct xce_rules *rules, struct xce_rules **ret)
{
    struct op_spec spec = VERB(OP_CHANGE, "UpdateConfig", rules_reply, take_rules);
    Xce__V1__UpdateRulesRequest request = XCE__V1__UPDATE_RULES_REQUEST__INIT;
    Xce__V1__Rules message = XCE__V1__RULES__INIT;
    struct pb_arena arena;
    int code;

    pb_arena_init(&arena, ARENA_MAX);
    if (put_rules(&arena, rules, &message)) {
        request.expected = rules->revision;
        request.rules = &message;
        code = verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
    } else {
        code = OUT_OF_MEMORY(client);
    }
    pb_arena_done(&arena);
    return code;
}

/* ---- roles, check ---- */

static int take_roles(struct xce_client *client, const ProtobufCMessage *message, void *result)
{
    const Xce__V1__ListRolesReply *reply = (const Xce__V1__ListRolesReply *)message;
    struct pb_arena *arena = result_arena(result);
    struct xce_role *items = room(arena, reply->n_roles, sizeof *items);
    struct xce_roles *roles = result;

    if (!items)
        return OUT_OF_MEMORY(client);
    for (size_t i = 0; i < reply->n_roles; i++) {
        const Xce__V1__ListedRole *from = reply->roles[i];

        items[i] = (struct xce_role){
            .name = from->name,
            .rights = take_rights(arena, from->rights, from->n_rights),
            .n_rights = from->n_rights,
            .builtin = from->builtin,
            .yours = from->yours,
        };
        if (!items[i].rights)
            return OUT_OF_MEMORY(client);
    }
    roles->items = items;
    roles->n = reply->n_roles;
    return XCE_OK;
}

int xce_rbac_roles(struct xce_client *client, const struct xce_call *call, struct xce_roles **ret)
{
    struct op_spec spec = VERB(OP_READ, "ListRoles", list_roles_reply, take_roles);
    Xce__V1__ListRolesRequest request = XCE__V1__LIST_ROLES_REQUEST__INIT;

    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}

static int take_check(struct xce_client *client, const ProtobufCMessage *message, void *result)
{
    const Xce__V1__CheckReply *reply = (const Xce__V1__CheckReply *)message;

    client_saw_info(client, reply->info);
    *(struct xce_decision *)result = (struct xce_decision){
        .allowed = reply->allowed,
        .scope = (int)reply->scope,
        .subject = reply->subject,
        .role = reply->role,
        .right = reply->method,
    };
    return XCE_OK;
}

int xce_rbac_check(struct xce_client *client, const struct xce_call *call,
                   const struct xce_question *question, struct xce_decision **ret)
{
    struct op_spec spec = VERB(OP_READ, "Check", check_reply, take_check);
    Xce__V1__CheckRequest request = XCE__V1__CHECK_REQUEST__INIT;
    struct pb_arena arena;
    int code;

    pb_arena_init(&arena, ARENA_MAX);
    request.groups = room(&arena, question->n_groups, sizeof *request.groups);
    if (request.groups) {
        request.kind = (Xce__V1__PrincipalKind)question->principal;
        request.name = verb_bytes(question->name);
        request.method = verb_bytes(question->method);
        request.owner = verb_bytes(question->owner);
        for (size_t i = 0; i < question->n_groups; i++)
            request.groups[i] = verb_bytes(question->groups[i]);
        request.n_groups = question->n_groups;
        code = verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
    } else {
        code = OUT_OF_MEMORY(client);
    }
    pb_arena_done(&arena);
    return code;
}
