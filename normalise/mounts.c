#include "normalise/mounts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

/* \040 and the like, in place. */
static void unescape(char *text)
{
    char *to = text;

    for (const char *at = text; *at;) {
        if (at[0] == '\\' && at[1] >= '0' && at[1] <= '3' && at[2] && at[3]) {
            *to++ = (char)((at[1] - '0') << 6 | (at[2] - '0') << 3 | (at[3] - '0'));
            at += 4;
        } else {
            *to++ = *at++;
        }
    }
    *to = '\0';
}

/* A word of the mount's own options. */
static bool has_option(const char *options, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = options; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, len) == 0 && (at[len] == ',' || at[len] == '\0'))
            return true;
    return false;
}

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw". Takes line to pieces. False: it has another form. */
static bool line_parse(char *line, struct mount_info *ret)
{
    char *fields[6], *rest = strstr(line, " - "), *type;

    if (!rest)
        return false;
    *rest = '\0';
    rest += strlen(" - ");
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (!(fields[i] = strsep(&line, " ")))
            return false;
    type = strsep(&rest, " ");
    unescape(fields[4]);
    ret->id = strtoull(fields[0], NULL, 10);
    ret->path = fields[4];
    ret->mapped = has_option(fields[5], "idmapped");
    (void)snprintf(ret->type, sizeof ret->type, "%s", type ? type : "");
    return true;
}

int mounts_each(mounts_fn tell, void *arg)
{
    auto_fclose FILE *f = fopen("/proc/self/mountinfo", "re");
    auto_free char *line = NULL;
    size_t size = 0;
    ssize_t n;

    if (!f)
        return -errno;
    while ((n = getline(&line, &size, f)) > 0) {
        struct mount_info info;
        if (line[n - 1] == '\n')
            line[n - 1] = '\0';
        if (line_parse(line, &info) && !tell(arg, &info))
            return 0;
    }
    return ferror(f) ? -EIO : 0;
}
