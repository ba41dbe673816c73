/* Ranges that belong to others: id maps of users (subuid, subgid), what login.defs gives to useradd. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/mem.h"
#include "noded/collide.h"
#include "noded/reason.h"

void collide_add(struct collide_answer *answer, uint32_t uid, unsigned reason, bool whole,
                 const char *format, ...)
{
    struct collide_found *found = NULL;
    va_list args;

    for (uint32_t i = 0; !found && i < answer->n; i++)
        if (answer->found[i].uid == uid && answer->found[i].whole == whole)
            found = &answer->found[i];
    if (found && (found->reason != REASON_SCAN_FAILED || reason == REASON_SCAN_FAILED))
        return;
    if (!found) {
        answer->total++;
        if (answer->n == COLLIDE_ANSWERS_MAX)
            return;
        found = &answer->found[answer->n++];
    }
    *found = (struct collide_found){.uid = uid, .reason = reason, .whole = whole};
    va_start(args, format);
    (void)vsnprintf(found->detail, sizeof(found->detail), format, args);
    va_end(args);
}

static bool number_parse(const char *text, uint64_t *ret)
{
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *ret = strtoull(text, &end, 0);
    return errno == 0 && end[strspn(end, " \t\r\n")] == '\0';
}

/* NULL: there is nothing to be read; that it can not be is told of. */
static FILE *file_open(const char *path, uint32_t first, struct collide_answer *ret)
{
    FILE *file = fopen(path, "re");

    if (!file && errno != ENOENT)
        collide_add(ret, first, REASON_SCAN_FAILED, true, "%s: %s", path, err_text(errno));
    return file;
}

/* "name:first:count" */
static void id_map_look(const char *path, uint32_t first, uint32_t last, struct collide_answer *ret)
{
    auto_free char *line = NULL;
    auto_fclose FILE *file = file_open(path, first, ret);
    size_t cap = 0;

    if (!file)
        return;
    while (getline(&line, &cap, file) > 0) {
        char *rest = line;
        const char *name = strsep(&rest, ":"), *from = strsep(&rest, ":");
        uint64_t start, count;
        if (!from || !rest || !number_parse(from, &start) || !number_parse(rest, &count))
            continue;
        if (count && start <= last && start + count - 1 >= first)
            collide_add(ret, first, REASON_ACCOUNT, true, "%s gives %s ids from %llu on", path,
                        name, (unsigned long long)start);
    }
}

struct span {
    const char *min_key, *max_key;
    uint64_t min, max;
    bool has_min, has_max;
};

static void key_look(struct span *spans, size_t n, const char *key, const char *value)
{
    uint64_t number;

    for (size_t i = 0; i < n; i++) {
        if (strcmp(key, spans[i].min_key) == 0 && number_parse(value, &number)) {
            spans[i].min = number;
            spans[i].has_min = true;
        } else if (strcmp(key, spans[i].max_key) == 0 && number_parse(value, &number)) {
            spans[i].max = number;
            spans[i].has_max = true;
        }
    }
}

static void login_defs_look(const char *path, uint32_t first, uint32_t last,
                            struct collide_answer *ret)
{
    struct span spans[] = {
        {"UID_MIN", "UID_MAX"},         {"SYS_UID_MIN", "SYS_UID_MAX"},
        {"GID_MIN", "GID_MAX"},         {"SYS_GID_MIN", "SYS_GID_MAX"},
        {"SUB_UID_MIN", "SUB_UID_MAX"}, {"SUB_GID_MIN", "SUB_GID_MAX"},
    };
    auto_free char *line = NULL;
    auto_fclose FILE *file = file_open(path, first, ret);
    size_t cap = 0;

    if (!file)
        return;
    while (getline(&line, &cap, file) > 0) {
        char *rest = line + strspn(line, " \t"), *key = strsep(&rest, " \t");
        if (*key != '#' && rest)
            key_look(spans, ARRAY_LEN(spans), key, rest + strspn(rest, " \t"));
    }
    for (size_t i = 0; i < ARRAY_LEN(spans); i++)
        if (spans[i].has_min && spans[i].has_max && spans[i].min <= last && spans[i].max >= first)
            collide_add(ret, first, REASON_ACCOUNT, true, "%s: %s to %s overlap", path,
                        spans[i].min_key, spans[i].max_key);
}

void collide_maps(uint32_t first, uint32_t last, const struct collide_files *files,
                  struct collide_answer *ret)
{
    id_map_look(files->subuid, first, last, ret);
    id_map_look(files->subgid, first, last, ret);
    login_defs_look(files->login_defs, first, last, ret);
}
