#include "noded/sweep/proc.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LINKS_OF_ONE    3 /* of the folder of threads: its own two, and one for each */
#define STATUS_BLANK(c) ((c) == ' ' || (c) == '\t')

/* Decimal, after blanks. Where it ended; NULL = no number, or above 32 bits. */
static const char *number_parse(const char *p, const char *end, uint32_t *ret)
{
    uint64_t value = 0;
    const char *digits;

    while (p < end && STATUS_BLANK(*p))
        p++;
    for (digits = p; p < end && *p >= '0' && *p <= '9'; p++) {
        value = value * 10 + (uint64_t)(*p - '0');
        if (value > UINT32_MAX)
            return NULL;
    }
    if (p == digits)
        return NULL;
    *ret = (uint32_t)value;
    return p;
}

static bool four_parse(const char *p, const char *end, uint32_t ret[static 4])
{
    for (int i = 0; i < 4; i++)
        if (!(p = number_parse(p, end, &ret[i])))
            return false;
    return true;
}

enum {
    HAVE_STATE = 1,
    HAVE_UIDS = 2,
    HAVE_GIDS = 4,
    HAVE_GROUPS = 8,
    HAVE_ALL = 15,
    HAVE_THREADS = 16, /* comes last, and not always */
};

static int line_parse(const char *line, const char *end, struct proc_status *ret)
{
    if (strncmp(line, "Name:", 5) == 0) {
        ret->name = line + 5 + (line + 5 < end && STATUS_BLANK(line[5]));
        ret->name_len = (size_t)(end - ret->name);
    } else if (strncmp(line, "State:", 6) == 0) {
        const char *p = line + 6;
        while (p < end && STATUS_BLANK(*p))
            p++;
        ret->state = p < end ? *p : '?';
        return HAVE_STATE;
    } else if (strncmp(line, "Uid:", 4) == 0) {
        return four_parse(line + 4, end, ret->uids) ? HAVE_UIDS : -EBADMSG;
    } else if (strncmp(line, "Gid:", 4) == 0) {
        return four_parse(line + 4, end, ret->gids) ? HAVE_GIDS : -EBADMSG;
    } else if (strncmp(line, "Groups:", 7) == 0) {
        ret->groups = line + 7;
        ret->groups_end = end;
        return HAVE_GROUPS;
    } else if (strncmp(line, "Threads:", 8) == 0) {
        return number_parse(line + 8, end, &ret->n_threads) ? HAVE_THREADS : -EBADMSG;
    }
    return 0;
}

/* "Threads:" is missing of a process that is just being reaped: it counts as one thread. Most lines are of no interest: that is
 * seen by their first letter. */
int proc_parse_status(const char *text, struct proc_status *ret)
{
    int have = 0;

    *ret = (struct proc_status){.n_threads = 1, .name = ""};
    while (*text && have != (HAVE_ALL | HAVE_THREADS)) {
        const char *end = strchrnul(text, '\n');
        int r = strchr("NSUGT", *text) ? line_parse(text, end, ret) : 0;
        if (r < 0)
            return r;
        have |= r;
        if (!*end)
            break;
        text = end + 1;
    }
    return (have & HAVE_ALL) == HAVE_ALL ? 0 : -EBADMSG;
}

int proc_next_group(struct proc_status *status, uint32_t *ret)
{
    const char *next = number_parse(status->groups, status->groups_end, ret);

    if (!next)
        return 0;
    status->groups = next;
    return 1;
}

bool proc_has_one_thread(int dir_fd, const char *tasks)
{
    struct stat st;

    return fstatat(dir_fd, tasks, &st, 0) == 0 && st.st_nlink <= LINKS_OF_ONE;
}

pid_t proc_parse_pid(const char *name)
{
    char *end;
    unsigned long pid;

    if (*name < '1' || *name > '9')
        return 0;
    pid = strtoul(name, &end, 10);
    return *end || pid > INT32_MAX ? 0 : (pid_t)pid;
}
