/* leasectl rbac check: may somebody, and by which rule. */
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "ctl/ctl.h"
#include "ctl/verb.h"

struct check_options {
    struct option_list groups;
};

static const struct option_entry options[] = {
    {"group", 'g', OPTION_LIST, offsetof(struct check_options, groups), "GROUP",
     "an O of the user's certificate; may be repeated", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

/* "alice" and "user:alice", "local:alice", "node:n1", "root", "self". */
static int parse_subject(struct ctl *ctl, const char *word, struct xce_question *ret)
{
    static const struct {
        const char *prefix;
        int principal;
    } kinds[] = {{"user:", XCE_PRINCIPAL_USER},
                 {"local:", XCE_PRINCIPAL_LOCAL},
                 {"node:", XCE_PRINCIPAL_NODE}};

    ret->principal = XCE_PRINCIPAL_USER;
    ret->name = word;
    if (!strcmp(word, "root") || !strcmp(word, "self")) {
        ret->principal = *word == 'r' ? XCE_PRINCIPAL_ROOT : XCE_PRINCIPAL_SELF;
        ret->name = NULL;
        return EXIT_OK;
    }
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (!strncmp(word, kinds[i].prefix, strlen(kinds[i].prefix))) {
            ret->principal = kinds[i].principal;
            ret->name = word + strlen(kinds[i].prefix);
            return EXIT_OK;
        }
    return strchr(word, ':') ? ctl_usage(ctl,
                                         "%s: must be NAME, user:NAME, local:NAME, node:NAME, root "
                                         "or self",
                                         word)
                             : EXIT_OK;
}

static int print_json(struct ctl *ctl, const struct xce_decision *decision)
{
    struct json *object = json_new_object();
    bool none = decision->scope == XCE_SCOPE_NONE;

    json_set_bool(object, "allowed", decision->allowed);
    json_set_string(object, "scope", xce_scope_word(decision->scope));
    json_set_string(object, "subject", none ? NULL : decision->subject);
    json_set_string(object, "role", none ? NULL : decision->role);
    json_set_string(object, "right", none ? NULL : decision->right);
    return ctl_print_json(ctl, object);
}

static int print(struct ctl *ctl, const struct xce_decision *decision)
{
    int status;

    if (ctl->globals.json) {
        status = print_json(ctl, decision);
    } else {
        printf("%s", decision->allowed ? "yes" : "no");
        if (decision->scope == XCE_SCOPE_NONE)
            printf(": no role gives this method\n");
        else if (!*decision->subject)
            printf(": everybody may ask about himself\n");
        else
            printf(": %s has role %s, which gives %s = %s\n", decision->subject, decision->role,
                   decision->right, xce_scope_word(decision->scope));
        status = ctl_finish_stdout(ctl);
    }
    return status == EXIT_OK && !decision->allowed ? EXIT_NOT_FOUND : status;
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct check_options *given = memory;
    struct xce_question question = {
        .groups = given->groups.items,
        .n_groups = given->groups.n,
        .method = words[1],
        .owner = n_words > 2 ? words[2] : NULL,
    };
    struct xce_call call = ctl_call(ctl);
    struct xce_decision *decision;
    int status = parse_subject(ctl, words[0], &question), code;

    if (status == EXIT_OK && given->groups.n && question.principal != XCE_PRINCIPAL_USER)
        status = ctl_usage(ctl, "--group: only users of certificates have groups");
    if (status == EXIT_OK)
        status = ctl_connect(ctl);
    if (status != EXIT_OK)
        return status;
    code = xce_rbac_check(ctl->client, &call, &question, &decision);
    if (code != XCE_OK)
        return ctl_failed(ctl, code);
    status = print(ctl, decision);
    xce_free(decision);
    return status;
}

const struct verb cmd_rbac_check = {
    .group = "rbac",
    .name = "check",
    .args = "USER METHOD [OWNER]",
    .summary = "Say whether somebody may, and which rule decided",
    .more = "USER is NAME or user:NAME (of a certificate), local:NAME (on leased's machine), "
            "node:NAME,\n"
            "root, or self. METHOD is like LeaseService/Release; OWNER is whose object it is "
            "(default:\n"
            "his own). Exit status 0: he may; 3: he may not.",
    .options = options,
    .memory = sizeof(struct check_options),
    .words_least = 2,
    .words_most = 3,
    .exec = exec,
};
