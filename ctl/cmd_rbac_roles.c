/* leasectl rbac roles. */
#include "common/json.h"
#include "ctl/ctl.h"
#include "ctl/verb.h"
#include "ctl/view.h"

/* A right of a role. */
struct row {
    const struct xce_role *role;
    const struct xce_right *right;
};

#define CELL(name) static void cell_##name(const void *row, struct buf *buf)
#define ROW        ((const struct row *)row)

CELL(role)
{
    buf_adds(buf, ROW->role->name);
}

CELL(kind)
{
    buf_adds(buf, ROW->role->builtin ? "builtin" : "custom");
}

CELL(yours)
{
    buf_adds(buf, ROW->role->yours ? "yes" : "no");
}

CELL(method)
{
    if (ROW->right)
        buf_adds(buf, ROW->right->method);
}

CELL(scope)
{
    if (ROW->right)
        buf_adds(buf, xce_scope_word(ROW->right->scope));
}

static const struct output_column columns[] = {
    {"role", true, false, cell_role},   {"kind", true, false, cell_kind},
    {"yours", true, false, cell_yours}, {"method", true, false, cell_method},
    {"scope", true, false, cell_scope},
};

static const struct output_table table = {columns, sizeof columns / sizeof columns[0],
                                          sizeof(struct row)};

static int print_json(struct ctl *ctl, const struct xce_roles *roles)
{
    struct json *object = json_new_object(), *array = json_new_array();

    for (size_t i = 0; i < roles->n; i++) {
        struct json *role = view_role_json(&roles->items[i]);

        json_set_bool(role, "builtin", roles->items[i].builtin);
        json_set_bool(role, "yours", roles->items[i].yours);
        json_append(array, role);
    }
    json_set(object, "roles", array);
    return ctl_print_json(ctl, object);
}

static int print_table(struct ctl *ctl, const struct xce_roles *roles)
{
    struct output *output = output_new(ctl, &table);
    int status = output ? EXIT_OK : EXIT_FAILED;

    for (size_t i = 0; i < roles->n; i++) {
        const struct xce_role *role = &roles->items[i];
        struct row row = {role, NULL};

        for (size_t k = 0; k < role->n_rights && status == EXIT_OK; k++) {
            row.right = &role->rights[k];
            status = output_add(output, &row, 1);
        }
        if (!role->n_rights && status == EXIT_OK)
            status = output_add(output, &row, 1);
    }
    if (status == EXIT_OK)
        return output_print(output);
    output_free(output);
    return status;
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    struct xce_call call = ctl_call(ctl);
    struct xce_roles *roles;
    int status = output_begin(ctl, &table), code;

    (void)memory;
    (void)n_words;
    (void)words;
    if (status != EXIT_OK)
        return status;
    code = xce_rbac_roles(ctl->client, &call, &roles);
    if (code != XCE_OK)
        return ctl_failed(ctl, code);
    status = ctl->globals.json ? print_json(ctl, roles) : print_table(ctl, roles);
    xce_free(roles);
    return status;
}

const struct verb cmd_rbac_roles = {
    .group = "rbac",
    .name = "roles",
    .args = "",
    .summary = "List the roles, the built-in ones too, and what each may do",
    .more =
        "Who may not see all roles sees those that he has. Columns: role kind yours method scope.",
    .exec = exec,
};
