/* leasectl rbac apply: replace the rules by those of a file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "common/rules_file.h"
#include "ctl/ctl.h"
#include "ctl/verb.h"
#include "ctl/view.h"

struct apply_options {
    bool force, dry_run;
};

static const struct option_entry options[] = {
    {"force", 0, OPTION_FLAG, offsetof(struct apply_options, force), NULL,
     "whatever revision the file says that it replaces", NULL},
    {"dry-run", 0, OPTION_FLAG, offsetof(struct apply_options, dry_run), NULL, "only read the file",
     NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

/* The file, as the client takes it: points into it. */
struct converted {
    struct xce_rules rules;
    struct xce_role *roles;
    struct xce_right *rights; /* of all roles */
    struct xce_binding *bindings;
};

static void convert(const struct rules_file *file, struct converted *ret)
{
    size_t n_rights = 0, at = 0;

    for (size_t i = 0; i < file->n_roles; i++)
        n_rights += file->roles[i].n_rights;
    ret->roles = mem_must_calloc(file->n_roles + 1, sizeof *ret->roles);
    ret->rights = mem_must_calloc(n_rights + 1, sizeof *ret->rights);
    ret->bindings = mem_must_calloc(file->n_bindings + 1, sizeof *ret->bindings);
    for (size_t i = 0; i < file->n_roles; i++) {
        const struct rules_role *role = &file->roles[i];

        ret->roles[i] = (struct xce_role){
            .name = role->name, .rights = ret->rights + at, .n_rights = role->n_rights};
        for (size_t k = 0; k < role->n_rights; k++)
            ret->rights[at++] = (struct xce_right){.method = role->rights[k].method,
                                                   .scope = role->rights[k].all ? XCE_SCOPE_ALL
                                                                                : XCE_SCOPE_OWN};
    }
    for (size_t i = 0; i < file->n_bindings; i++)
        ret->bindings[i] = (struct xce_binding){.subject = (int)file->bindings[i].subject,
                                                .name = file->bindings[i].name,
                                                .roles = file->bindings[i].roles,
                                                .n_roles = file->bindings[i].n_roles};
    ret->rules = (struct xce_rules){
        .revision = file->revision,
        .roles = ret->roles,
        .n_roles = file->n_roles,
        .bindings = ret->bindings,
        .n_bindings = file->n_bindings,
    };
}

_Static_assert((int)RULES_LOCAL == XCE_SUBJECT_LOCAL && (int)RULES_USER == XCE_SUBJECT_USER &&
                   (int)RULES_GROUP == XCE_SUBJECT_GROUP,
               "subjects have one number");

static int read_stdin(struct rules_file *ret, struct err *err)
{
    char *bytes;
    size_t len;
    int r = fs_read_fd(STDIN_FILENO, RULES_FILE_MAX, &bytes, &len);

    memset(ret, 0, sizeof *ret);
    if (r < 0)
        return err_set(err, r, "stdin: %s", err_text(r));
    r = rules_file_parse("stdin", bytes, len, ret, err);
    free(bytes);
    return r;
}

/* The revision to replace, where the file names none. An exit status. */
static int current_revision(struct ctl *ctl, uint64_t *ret)
{
    struct xce_call call = ctl_call(ctl);
    struct xce_rules *rules;
    int code = xce_rbac_get(ctl->client, &call, &rules);

    if (code != XCE_OK)
        return ctl_failed(ctl, code);
    *ret = rules->revision;
    xce_free(rules);
    return EXIT_OK;
}

static int apply(struct ctl *ctl, const struct apply_options *given, const struct rules_file *file)
{
    struct xce_call call = ctl_call(ctl);
    struct converted converted = {0};
    struct xce_rules *now;
    int status = ctl_connect(ctl), code;

    if (status != EXIT_OK)
        return status;
    convert(file, &converted);
    if (!file->has_revision || given->force)
        status = current_revision(ctl, &converted.rules.revision);
    if (status == EXIT_OK) {
        code = xce_rbac_set(ctl->client, &call, &converted.rules, &now);
        if (code != XCE_OK) {
            status = ctl_failed_change(ctl, code);
        } else {
            if (ctl->globals.json)
                status = view_rules(ctl, now);
            else
                ctl_say(ctl, "the rules are at revision %llu", (unsigned long long)now->revision);
            xce_free(now);
        }
    }
    free(converted.roles);
    free(converted.rights);
    free(converted.bindings);
    return status;
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct apply_options *given = memory;
    struct rules_file file;
    struct err err = {{0}};
    int status = EXIT_OK;
    int r = strcmp(words[0], "-") ? rules_file_read(words[0], &file, &err)
                                  : read_stdin(&file, &err);

    (void)n_words;
    if (r < 0)
        return ctl_usage(ctl, "%s", err.text);
    if (!given->dry_run)
        status = apply(ctl, given, &file);
    rules_file_done(&file);
    return status;
}

const struct verb cmd_rbac_apply = {
    .group = "rbac",
    .name = "apply",
    .args = "FILE|-",
    .summary = "Replace the rules by those of a file",
    .more = "All of them at once. A file that begins with a revision (as rbac show writes it) "
            "replaces\n"
            "only that one: if somebody has changed the rules since, nothing happens.",
    .options = options,
    .memory = sizeof(struct apply_options),
    .words_least = 1,
    .words_most = 1,
    .exec = exec,
};
