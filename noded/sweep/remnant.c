#include "noded/sweep/remnant.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define SYSTEM_MAX 999 /* where no pool can be */

/* "xce-remnant:x:998:997:...". */
static int line_parse(const char *line, uint32_t *ret_uid, uint32_t *ret_gid)
{
    uint32_t uid, gid;

    if (sscanf(line, "%*[^:]:%*[^:]:%9" SCNu32 ":%9" SCNu32 ":", &uid, &gid) != 2 || uid == 0 ||
        gid == 0 || uid > SYSTEM_MAX || gid > SYSTEM_MAX)
        return -ERANGE;
    *ret_uid = uid;
    *ret_gid = gid;
    return 0;
}

int remnant_find(const char *passwd, uint32_t *ret_uid, uint32_t *ret_gid)
{
    static const char start[] = REMNANT_USER ":";
    auto_free char *line = NULL;
    auto_fclose FILE *file = fopen(passwd, "re");
    size_t cap = 0;

    if (!file)
        return -errno;
    while (getline(&line, &cap, file) > 0)
        if (strncmp(line, start, sizeof(start) - 1) == 0)
            return line_parse(line, ret_uid, ret_gid);
    return ferror(file) ? -EIO : -ENOENT;
}
