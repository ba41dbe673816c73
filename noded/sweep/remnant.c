#include "noded/sweep/remnant.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
    /* Not waited for, should it be a FIFO: this is asked on the loop. */
    auto_close int fd = open(passwd, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    auto_free char *line = NULL;
    auto_fclose FILE *file = NULL;
    struct stat st;
    size_t cap = 0;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EBADF;
    file = fdopen(fd, "r");
    if (!file)
        return -errno;
    (void)mem_take_fd(&fd);
    while (getline(&line, &cap, file) > 0)
        if (strncmp(line, start, sizeof(start) - 1) == 0)
            return line_parse(line, ret_uid, ret_gid);
    return ferror(file) ? -EIO : -ENOENT;
}
