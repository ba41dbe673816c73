#include "leased/fsm/rules.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/mem.h"
#include "common/text.h"
#include "leased/fsm/apply.h"
#include "leased/fsm/state.h"

#define METHOD_MAX 96

void rules_done(struct rules *rules)
{
    free(rules->bytes);
    pb_arena_done(&rules->arena);
    memset(rules, 0, sizeof(*rules));
}

/* ---- one by one ---- */

static bool is_all(ProtobufCBinaryData name)
{
    return name.len == 1 && *name.data == '*';
}

/* One asterisk, a service and an asterisk, or a service and a method. */
static int check_method(ProtobufCBinaryData method, struct err *err)
{
    size_t slash = 0;

    if (is_all(method))
        return 0;
    for (size_t i = 0; i < method.len; i++) {
        uint8_t c = method.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (c == '/' && !slash && i)
            slash = i;
        else if (!letter && !(c == '*' && slash && i == slash + 1 && method.len == i + 1))
            slash = method.len; /* no method ends with its slash */
    }
    if (method.len <= METHOD_MAX && slash && slash + 1 < method.len)
        return 0;
    return err_set(err, -1, "method: must be Service/Method, Service/* or *");
}

static int check_right(const Xce__V1__Right *right, struct err *err)
{
    if (right->scope != XCE__V1__SCOPE__SCOPE_OWN && right->scope != XCE__V1__SCOPE__SCOPE_ALL)
        return err_set(err, -1, "scope: must be own or all");
    return check_method(right->method, err);
}

static int check_subject(const Xce__V1__Binding *binding, struct err *err)
{
    const char *name = (const char *)binding->name.data;
    size_t len = binding->name.len;

    switch (binding->subject) {
    case XCE__V1__SUBJECT__SUBJECT_LOCAL:
    case XCE__V1__SUBJECT__SUBJECT_USER:
        return is_all(binding->name) ? 0 : text_check_owner(name, len, err);
    case XCE__V1__SUBJECT__SUBJECT_GROUP:
        return len ? text_require("group", name, len, APPLY_OWNER_MAX, err)
                   : err_set(err, -1, "group: is empty");
    default:
        return err_set(err, -1, "subject: must be local, user or group");
    }
}

/* ---- order ---- */

static int compare_bytes(ProtobufCBinaryData a, ProtobufCBinaryData b)
{
    size_t least = a.len < b.len ? a.len : b.len;
    int order = least ? memcmp(a.data, b.data, least) : 0;

    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_rights(const void *a, const void *b)
{
    return compare_bytes((*(Xce__V1__Right *const *)a)->method,
                         (*(Xce__V1__Right *const *)b)->method);
}

static int compare_roles(const void *a, const void *b)
{
    return compare_bytes((*(Xce__V1__Role *const *)a)->name, (*(Xce__V1__Role *const *)b)->name);
}

static int compare_names(const void *a, const void *b)
{
    return compare_bytes(*(const ProtobufCBinaryData *)a, *(const ProtobufCBinaryData *)b);
}

static int compare_bindings(const void *a, const void *b)
{
    const Xce__V1__Binding *x = *(Xce__V1__Binding *const *)a, *y = *(Xce__V1__Binding *const *)b;

    return x->subject != y->subject ? (x->subject > y->subject) - (x->subject < y->subject)
                                    : compare_bytes(x->name, y->name);
}

/* Sort; whether no two are equal. */
static bool sort(void *items, size_t n, size_t size, int (*compare)(const void *, const void *))
{
    if (n)
        qsort(items, n, size, compare);
    for (size_t i = 1; i < n; i++)
        if (compare((char *)items + (i - 1) * size, (char *)items + i * size) == 0)
            return false;
    return true;
}

/* ---- all together: a sorted copy of what we know of, in the arena of the entry ---- */

static int copy_role(struct fsm *fsm, const Xce__V1__Role *from, Xce__V1__Role *ret,
                     struct err *err)
{
    int r = text_check_pool((const char *)from->name.data, from->name.len, err);

    if (r < 0)
        return err_prefix(err, r, "role");
    if (from->n_rights > FSM_RIGHTS_MAX)
        return err_set(err, -1, "rights: %zu of them, at most %d", from->n_rights, FSM_RIGHTS_MAX);
    xce__v1__role__init(ret);
    ret->name = from->name;
    ret->rights = apply_alloc(fsm, (from->n_rights + 1) * sizeof(*ret->rights));
    for (size_t i = 0; i < from->n_rights; i++) {
        if (check_right(from->rights[i], err) < 0)
            return -1;
        ret->rights[i] = apply_alloc(fsm, sizeof(Xce__V1__Right));
        xce__v1__right__init(ret->rights[i]);
        ret->rights[i]->method = from->rights[i]->method;
        ret->rights[i]->scope = from->rights[i]->scope;
    }
    ret->n_rights = from->n_rights;
    if (!sort(ret->rights, ret->n_rights, sizeof(*ret->rights), compare_rights))
        return err_set(err, -1, "a method is there twice");
    return 0;
}

static int copy_binding(struct fsm *fsm, const Xce__V1__Binding *from, Xce__V1__Binding *ret,
                        struct err *err)
{
    if (check_subject(from, err) < 0)
        return -1;
    if (!from->n_roles || from->n_roles > FSM_BOUND_MAX)
        return err_set(err, -1, "roles: %zu of them, must be 1 to %d", from->n_roles,
                       FSM_BOUND_MAX);
    xce__v1__binding__init(ret);
    ret->subject = from->subject;
    ret->name = from->name;
    ret->roles = apply_alloc(fsm, from->n_roles * sizeof(*ret->roles));
    for (size_t i = 0; i < from->n_roles; i++) {
        if (text_check_pool((const char *)from->roles[i].data, from->roles[i].len, err) < 0)
            return err_prefix(err, -1, "roles");
        ret->roles[i] = from->roles[i];
    }
    ret->n_roles = from->n_roles;
    if (!sort(ret->roles, ret->n_roles, sizeof(*ret->roles), compare_names))
        return err_set(err, -1, "roles: one is there twice");
    return 0;
}

static int copy_roles(struct fsm *fsm, const Xce__V1__Rules *from, Xce__V1__Rules *ret,
                      struct err *err)
{
    if (from->n_roles > FSM_ROLES_MAX)
        return err_set(err, -1, "roles: %zu of them, at most %d", from->n_roles, FSM_ROLES_MAX);
    ret->roles = apply_alloc(fsm, (from->n_roles + 1) * sizeof(*ret->roles));
    for (size_t i = 0; i < from->n_roles; i++) {
        ret->roles[i] = apply_alloc(fsm, sizeof(Xce__V1__Role));
        if (copy_role(fsm, from->roles[i], ret->roles[i], err) < 0)
            return err_prefix(err, -1, "roles[%zu]", i);
    }
    ret->n_roles = from->n_roles;
    if (!sort(ret->roles, ret->n_roles, sizeof(*ret->roles), compare_roles))
        return err_set(err, -1, "roles: one is there twice");
    return 0;
}

static int copy_bindings(struct fsm *fsm, const Xce__V1__Rules *from, Xce__V1__Rules *ret,
                         struct err *err)
{
    if (from->n_bindings > FSM_BINDINGS_MAX)
        return err_set(err, -1, "bindings: %zu of them, at most %d", from->n_bindings,
                       FSM_BINDINGS_MAX);
    ret->bindings = apply_alloc(fsm, (from->n_bindings + 1) * sizeof(*ret->bindings));
    for (size_t i = 0; i < from->n_bindings; i++) {
        ret->bindings[i] = apply_alloc(fsm, sizeof(Xce__V1__Binding));
        if (copy_binding(fsm, from->bindings[i], ret->bindings[i], err) < 0)
            return err_prefix(err, -1, "bindings[%zu]", i);
    }
    ret->n_bindings = from->n_bindings;
    if (!sort(ret->bindings, ret->n_bindings, sizeof(*ret->bindings), compare_bindings))
        return err_set(err, -1, "bindings: a subject is there twice");
    return 0;
}

/* The packed canonical form of from, on the heap; NULL, and err says what is wrong. */
static uint8_t *make_canonical(struct fsm *fsm, const Xce__V1__Rules *from, size_t *ret_len,
                               struct err *err)
{
    Xce__V1__Rules rules = XCE__V1__RULES__INIT;
    uint8_t *bytes;
    size_t len;

    if (copy_roles(fsm, from, &rules, err) < 0 || copy_bindings(fsm, from, &rules, err) < 0)
        return NULL;
    len = xce__v1__rules__get_packed_size(&rules);
    if (len > FSM_RULES_BYTES) {
        (void)err_set(err, -1, "%zu bytes, at most %d", len, FSM_RULES_BYTES);
        return NULL;
    }
    bytes = mem_must_alloc(len);
    *ret_len = xce__v1__rules__pack(&rules, bytes);
    return bytes;
}

static void take(struct rules *rules, uint8_t *bytes, size_t len)
{
    ProtobufCMessage *message;

    free(rules->bytes);
    rules->bytes = bytes;
    rules->len = len;
    if (!rules->arena.max)
        pb_arena_init(&rules->arena, PB_ARENA_MAX);
    pb_arena_reset(&rules->arena);
    /* Our own bytes, so it is memory that is lacking. */
    if (pb_unpack(&rules->arena, &xce__v1__rules__descriptor, bytes, len, &message, NULL) < 0)
        abort();
    rules->message = (const Xce__V1__Rules *)message;
}

void apply_rules(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome)
{
    const Xce__V1__CmdRules *cmd = command->rules;
    static const Xce__V1__Rules none = XCE__V1__RULES__INIT;
    struct rules *rules = &fsm->rules;
    struct err err = {{0}};
    uint8_t *bytes;
    size_t len;

    if (cmd->expected != rules->revision) {
        fsm_fail(outcome, FSM_STALE,
                 "the rules have changed: their revision is %" PRIu64 ", not %" PRIu64
                 "; read them again",
                 rules->revision, cmd->expected);
        return;
    }
    bytes = make_canonical(fsm, cmd->rules ? cmd->rules : &none, &len, &err);
    if (!bytes) {
        fsm_fail(outcome, FSM_INVALID, "rules: %s", err.text);
        return;
    }
    if (rules->bytes && rules->len == len && !memcmp(rules->bytes, bytes, len)) {
        free(bytes);
        return;
    }
    take(rules, bytes, len);
    fsm_changed_rules(fsm);
}

bool rules_restore(struct fsm *fsm, const uint8_t *bytes, size_t len)
{
    ProtobufCMessage *message;
    uint8_t *canonical;
    size_t canonical_len;

    if (pb_unpack(&fsm->arena, &xce__v1__rules__descriptor, bytes, len, &message, NULL) < 0)
        return false;
    canonical = make_canonical(fsm, (const Xce__V1__Rules *)message, &canonical_len, NULL);
    if (!canonical)
        return false;
    if (canonical_len != len || (len && memcmp(canonical, bytes, len) != 0)) {
        free(canonical);
        return false;
    }
    take(&fsm->rules, canonical, len);
    return true;
}

const Xce__V1__Rules *fsm_rules(const struct fsm *fsm)
{
    return fsm->rules.message;
}

uint64_t fsm_rules_revision(const struct fsm *fsm)
{
    return fsm->rules.revision;
}
