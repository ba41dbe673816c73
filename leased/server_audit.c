#include "leased/server_audit.h"

#include <stdio.h>

#include "common/text.h"
#include "leased/audit/audit.h"
#include "leased/conf.h"

int server_audit_open(const struct leased_settings *settings, struct audit **ret, struct err *err)
{
    char path[TEXT_PATH_MAX + 32];
    struct audit_options options = {
        .path = settings->audit_file,
        .size_bytes = settings->audit_size,
        .keep = settings->audit_keep,
    };
    int r;

    *ret = NULL;
    if (!options.size_bytes)
        return 0;
    if (!*options.path) {
        (void)snprintf(path, sizeof path, "%s/audit.log", settings->state_dir);
        options.path = path;
    }
    r = audit_open(&options, ret, err);
    return r < 0 ? err_prefix(err, r, "AuditFile") : 0;
}
