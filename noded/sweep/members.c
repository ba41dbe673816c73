/* Groups that list a lease's name. Groups are the administrator's: nothing is changed, he is told. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "map/name.h"
#include "noded/sweep/kinds.h"

static void member_look(struct sweep *sweep, const char *member, const char *group)
{
    uint32_t uid, epoch;

    if (name_decode(sweep->places->prefix, member, strlen(member), &uid, &epoch) == 0 &&
        sweep_wants(sweep, uid))
        sweep_found(sweep, uid, REASON_GROUP_MEMBER, "%s is in group %s", member, group);
}

/* "name:password:gid:member,member". */
static void line_look(struct sweep *sweep, char *line)
{
    char *rest = line;
    const char *group = strsep(&rest, ":");

    (void)strsep(&rest, ":");
    (void)strsep(&rest, ":");
    for (char *member; rest && (member = strsep(&rest, ",\n"));)
        if (*member)
            member_look(sweep, member, group);
}

void sweep_members(struct sweep *sweep)
{
    auto_free char *line = NULL;
    auto_fclose FILE *file = NULL;
    size_t cap = 0;

    if (!sweep->places->group_file)
        return;
    file = fopen(sweep->places->group_file, "re");
    if (!file) {
        if (errno != ENOENT)
            sweep_failed(sweep, sweep->places->group_file, errno);
        return;
    }
    while (getline(&line, &cap, file) > 0)
        line_look(sweep, line);
    if (ferror(file))
        sweep_failed(sweep, sweep->places->group_file, EIO);
}
