#include "leased/seed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/rules_file.h"
#include "leased/engine/engine.h"
#include "leased/rbac/policy.h"
#include "xce/v1/command.pb-c.h"

/* The same limits on both ways in. */
_Static_assert(RULES_ROLES_MAX == FSM_ROLES_MAX && RULES_RIGHTS_MAX == FSM_RIGHTS_MAX &&
                   RULES_BINDING_MAX == FSM_BINDINGS_MAX && RULES_BOUND_MAX == FSM_BOUND_MAX,
               "limits of rules");

struct seed {
    struct rules_file file;
    struct pb_arena arena; /* of the message */
    Xce__V1__Rules rules;
};

static ProtobufCBinaryData bytes_of(const char *text)
{
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
}

static void *room(struct seed *seed, size_t n, size_t size)
{
    void *memory = pb_arena_alloc(&seed->arena, (n + 1) * size);

    if (!memory)
        abort();
    return memory;
}

/* ---- from the file to the message ---- */

static Xce__V1__Role *make_role(struct seed *seed, const struct rules_role *from)
{
    Xce__V1__Role *role = room(seed, 1, sizeof *role);

    xce__v1__role__init(role);
    role->name = bytes_of(from->name);
    role->rights = room(seed, from->n_rights, sizeof *role->rights);
    role->n_rights = from->n_rights;
    for (size_t i = 0; i < from->n_rights; i++) {
        role->rights[i] = room(seed, 1, sizeof *role->rights[i]);
        xce__v1__right__init(role->rights[i]);
        role->rights[i]->method = bytes_of(from->rights[i].method);
        role->rights[i]->scope = from->rights[i].all ? XCE__V1__SCOPE__SCOPE_ALL
                                                     : XCE__V1__SCOPE__SCOPE_OWN;
    }
    return role;
}

static Xce__V1__Binding *make_binding(struct seed *seed, const struct rules_binding *from)
{
    Xce__V1__Binding *binding = room(seed, 1, sizeof *binding);

    xce__v1__binding__init(binding);
    binding->subject = (Xce__V1__Subject)from->subject;
    binding->name = bytes_of(from->name);
    binding->roles = room(seed, from->n_roles, sizeof *binding->roles);
    binding->n_roles = from->n_roles;
    for (size_t i = 0; i < from->n_roles; i++)
        binding->roles[i] = bytes_of(from->roles[i]);
    return binding;
}

_Static_assert((int)RULES_LOCAL == XCE__V1__SUBJECT__SUBJECT_LOCAL &&
                   (int)RULES_USER == XCE__V1__SUBJECT__SUBJECT_USER &&
                   (int)RULES_GROUP == XCE__V1__SUBJECT__SUBJECT_GROUP,
               "subjects have one number");

static void make_rules(struct seed *seed)
{
    Xce__V1__Rules *rules = &seed->rules;

    xce__v1__rules__init(rules);
    rules->roles = room(seed, seed->file.n_roles, sizeof *rules->roles);
    for (size_t i = 0; i < seed->file.n_roles; i++)
        rules->roles[rules->n_roles++] = make_role(seed, &seed->file.roles[i]);
    rules->bindings = room(seed, seed->file.n_bindings, sizeof *rules->bindings);
    for (size_t i = 0; i < seed->file.n_bindings; i++)
        rules->bindings[rules->n_bindings++] = make_binding(seed, &seed->file.bindings[i]);
}

/* ---- what is wrong with them, by line ---- */

/* Each right alone, then each binding with all roles. */
static int check_lines(struct seed *seed, const char *path, struct err *err)
{
    Xce__V1__Rules one = seed->rules;

    one.n_bindings = 0;
    one.n_roles = 1;
    for (size_t i = 0; i < seed->rules.n_roles; i++) {
        Xce__V1__Role role = *seed->rules.roles[i];
        const struct rules_role *from = &seed->file.roles[i];

        one.roles = &(Xce__V1__Role *){&role};
        role.n_rights = 0;
        if (policy_check(&one, err) < 0)
            return err_prefix(err, -EINVAL, "%s:%u", path, from->line);
        role.n_rights = 1;
        for (size_t k = 0; k < from->n_rights; k++) {
            role.rights = &seed->rules.roles[i]->rights[k];
            if (policy_check(&one, err) < 0)
                return err_prefix(err, -EINVAL, "%s:%u", path, from->rights[k].line);
        }
    }
    one = seed->rules;
    one.n_bindings = 1;
    for (size_t i = 0; i < seed->rules.n_bindings; i++) {
        one.bindings = &seed->rules.bindings[i];
        if (policy_check(&one, err) < 0)
            return err_prefix(err, -EINVAL, "%s:%u", path, seed->file.bindings[i].line);
    }
    return 0;
}

/* Who may write the file may make himself an administrator. */
static int check_trusted(const char *path, struct err *err)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return err_set(err, -errno, "%s: %s", path, err_text(-errno));
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return err_set(err, -EPERM, "%s: belongs to uid %u, not to root", path, st.st_uid);
    if (st.st_mode & 022)
        return err_set(err, -EPERM, "%s: others than its owner may write it (mode %04o)", path,
                       st.st_mode & 07777u);
    return 0;
}

int seed_read(const char *path, struct seed **ret, struct err *err)
{
    struct seed *seed = mem_must_calloc(1, sizeof *seed);
    int r = check_trusted(path, err);

    pb_arena_init(&seed->arena, PB_ARENA_MAX);
    if (r == 0)
        r = rules_file_read(path, &seed->file, err);
    if (r == 0) {
        make_rules(seed);
        r = check_lines(seed, path, err);
    }
    if (r < 0) {
        seed_free(seed);
        return r;
    }
    *ret = seed;
    return 0;
}

void seed_free(struct seed *seed)
{
    if (!seed)
        return;
    rules_file_done(&seed->file);
    pb_arena_done(&seed->arena);
    free(seed);
}

void seed_plant(const struct seed *seed, struct engine *engine,
                void (*done)(int r, const struct fsm_outcome *outcome, void *arg), void *arg)
{
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdRules change = XCE__V1__CMD_RULES__INIT;
    uint8_t *bytes;
    size_t len;

    change.rules = (Xce__V1__Rules *)&seed->rules;
    command.kind_case = XCE__V1__COMMAND__KIND_RULES;
    command.rules = &change;
    len = xce__v1__command__get_packed_size(&command);
    bytes = mem_must_alloc(len);
    engine_propose(engine, bytes, xce__v1__command__pack(&command, bytes), done, arg);
    free(bytes);
}
