#include "ctl/account.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "ctl/ctl.h"

enum {
    GROUPS_MAX = 64,
};

static bool is_number(const char *text)
{
    return text[0] && strspn(text, "0123456789") == strlen(text);
}

/* "UID:GID": the caller takes the word of whoever typed it. */
static int numeric_pair(struct ctl *ctl, const char *text, char *name, size_t size,
                        struct xce_owner *ret)
{
    const char *colon = strchr(text, ':');
    struct passwd *entry;
    struct err err = {0};
    char uid[16];

    if ((size_t)(colon - text) >= sizeof uid)
        return ctl_usage(ctl, "--owner: %s: must be USER, UID or UID:GID", text);
    memcpy(uid, text, (size_t)(colon - text));
    uid[colon - text] = 0;
    if (text_parse_u32(uid, &ret->uid, &err) < 0 || text_parse_u32(colon + 1, &ret->gid, &err) < 0)
        return ctl_usage(ctl, "--owner: %s: %s", text, err.text);
    entry = getpwuid(ret->uid);
    snprintf(name, size, "%s", entry ? entry->pw_name : "");
    ret->name = name;
    return EXIT_OK;
}

int account_owner(struct ctl *ctl, const char *text, char *name, size_t size, struct xce_owner *ret)
{
    struct passwd *entry;
    struct err err = {0};
    uint32_t uid;

    if (strchr(text, ':'))
        return numeric_pair(ctl, text, name, size, ret);
    errno = 0;
    if (!is_number(text)) {
        entry = getpwnam(text);
    } else if (text_parse_u32(text, &uid, &err) < 0) {
        return ctl_usage(ctl, "--owner: %s", err.text);
    } else {
        entry = getpwuid(uid);
    }
    if (!entry && errno && errno != ENOENT && errno != ESRCH)
        return ctl_fail(ctl, XCE_FAILED, "--owner: %s: %s", text, err_text(errno));
    if (!entry)
        return ctl_usage(ctl, "--owner: %s: no such user on this machine%s", text,
                         is_number(text) ? " (UID:GID takes one that it does not know)" : "");
    if (strlen(entry->pw_name) >= size)
        return ctl_usage(ctl, "--owner: the name of uid %u is too long", entry->pw_uid);
    snprintf(name, size, "%s", entry->pw_name);
    *ret = (struct xce_owner){name, entry->pw_uid, entry->pw_gid};
    return EXIT_OK;
}

static int one_gid(struct ctl *ctl, const char *text, uint32_t *ret)
{
    struct group *entry;
    struct err err = {0};

    if (is_number(text)) {
        if (text_parse_u32(text, ret, &err) < 0)
            return ctl_usage(ctl, "--gids: %s", err.text);
        return EXIT_OK;
    }
    errno = 0;
    entry = text[0] ? getgrnam(text) : NULL;
    if (!entry)
        return ctl_usage(ctl, "--gids: %s: no such group on this machine",
                         text[0] ? text : "an empty word");
    *ret = entry->gr_gid;
    return EXIT_OK;
}

int account_gids(struct ctl *ctl, const char *text, uint32_t **ret, size_t *ret_n)
{
    uint32_t *gids = calloc(GROUPS_MAX, sizeof *gids);
    char *copy = strdup(text), *rest = copy, *word;
    int status = gids && copy ? EXIT_OK : ctl_fail(ctl, XCE_FAILED, "out of memory");
    size_t n = 0;

    while (status == EXIT_OK && (word = strsep(&rest, ","))) {
        if (n == GROUPS_MAX)
            status = ctl_usage(ctl, "--gids: more than %d of them", GROUPS_MAX);
        else
            status = one_gid(ctl, word, &gids[n++]);
    }
    free(copy);
    if (status != EXIT_OK) {
        free(gids);
        return status;
    }
    *ret = gids;
    *ret_n = n;
    return EXIT_OK;
}
