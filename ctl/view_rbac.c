/* Rules as JSON and as the file that rbac apply reads. */
#include <inttypes.h>
#include <stdio.h>

#include "common/json.h"
#include "common/mem.h"
#include "ctl/ctl.h"
#include "ctl/view.h"

#define RULES_TEXT_MAX (4u << 20)

struct json *view_role_json(const struct xce_role *role)
{
    struct json *object = json_new_object(), *rights = json_new_array();

    for (size_t i = 0; i < role->n_rights; i++) {
        struct json *right = json_new_object();

        json_set_string(right, "method", role->rights[i].method);
        json_set_string(right, "scope", xce_scope_word(role->rights[i].scope));
        json_append(rights, right);
    }
    json_set_string(object, "name", role->name);
    json_set(object, "rights", rights);
    return object;
}

static struct json *binding_json(const struct xce_binding *binding)
{
    struct json *object = json_new_object();

    json_set_string(object, "subject", xce_subject_word(binding->subject));
    json_set_string(object, "name", binding->name);
    json_set(object, "roles", view_strings_json(binding->roles, binding->n_roles));
    return object;
}

static struct json *rules_json(const struct xce_rules *rules)
{
    struct json *object = json_new_object(), *roles = json_new_array(),
                *bindings = json_new_array();

    for (size_t i = 0; i < rules->n_roles; i++)
        json_append(roles, view_role_json(&rules->roles[i]));
    for (size_t i = 0; i < rules->n_bindings; i++)
        json_append(bindings, binding_json(&rules->bindings[i]));
    json_set_u64(object, "revision", rules->revision);
    json_set(object, "roles", roles);
    json_set(object, "bindings", bindings);
    return object;
}

static void add_role(struct buf *buf, const struct xce_role *role)
{
    buf_addf(buf, "\n[role %s]\n", role->name);
    for (size_t i = 0; i < role->n_rights; i++)
        buf_addf(buf, "%s = %s\n", role->rights[i].method, xce_scope_word(role->rights[i].scope));
}

static void add_binding(struct buf *buf, const struct xce_binding *binding)
{
    buf_addf(buf, "%s:%s =", xce_subject_word(binding->subject), binding->name);
    for (size_t i = 0; i < binding->n_roles; i++)
        buf_addf(buf, "%s %s", i ? "," : "", binding->roles[i]);
    buf_adds(buf, "\n");
}

int view_rules(struct ctl *ctl, const struct xce_rules *rules)
{
    AUTO(buf_done) struct buf buf = BUF_INIT(RULES_TEXT_MAX);

    if (ctl->globals.json)
        return ctl_print_json(ctl, rules_json(rules));
    if (!rules->revision)
        buf_adds(&buf, "# None were ever set: these are the defaults.\n");
    buf_addf(&buf, "revision = %" PRIu64 "\n", rules->revision);
    for (size_t i = 0; i < rules->n_roles; i++)
        add_role(&buf, &rules->roles[i]);
    buf_adds(&buf, "\n[bindings]\n");
    for (size_t i = 0; i < rules->n_bindings; i++)
        add_binding(&buf, &rules->bindings[i]);
    if (buf_error(&buf) < 0)
        return ctl_fail(ctl, XCE_FAILED, "out of memory");
    printf("%s", buf_str(&buf));
    return ctl_finish_stdout(ctl);
}
