/* Rules files: whatever is taken is within its limits and refers to itself alone. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/rules_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rules_file file;
    struct err err = {{0}};

    if (rules_file_parse("fuzz", (const char *)data, size, &file, &err) < 0) {
        must(*err.text && !file.roles);
        rules_file_done(&file);
        return 0;
    }
    must(file.n_roles <= RULES_ROLES_MAX && file.n_bindings <= RULES_BINDING_MAX);
    for (size_t i = 0; i < file.n_roles; i++) {
        must(file.roles[i].n_rights <= RULES_RIGHTS_MAX && strlen(file.roles[i].name) <= 32);
        for (size_t k = 0; k < file.roles[i].n_rights; k++)
            must(strlen(file.roles[i].rights[k].method) > 0);
    }
    for (size_t i = 0; i < file.n_bindings; i++) {
        must(file.bindings[i].n_roles > 0 && file.bindings[i].n_roles <= RULES_BOUND_MAX);
        must(*rules_subject_word(file.bindings[i].subject) && *file.bindings[i].name);
    }
    rules_file_done(&file);
    return 0;
}
