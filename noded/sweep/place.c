#include "noded/sweep/place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "noded/sweep/mount_table.h"
#include "noded/sweep/sweep.h"

#define LINKS_MAX 16

/* What is mounted on the way to a path: on its first len bytes, a file system that is not entered. */
struct way {
    const char *path;
    bool served[PATH_MAX];
};

static void mount_note(struct sweep *sweep, const struct mount_entry *entry, void *arg)
{
    struct way *way = arg;
    size_t len = strlen(entry->path);
    enum mount_class class;

    /* The machine's own root, of whatever type: with it hangs everything. */
    if (len <= 1 || len >= PATH_MAX || strncmp(way->path, entry->path, len) != 0 ||
        (way->path[len] != '/' && way->path[len] != '\0'))
        return;
    class = mount_classify(sweep, entry);
    way->served[len] = class != MOUNT_LOCAL &&
                       class != MOUNT_EMPTY; /* the last one hides the others */
}

/* 0 it may be touched; -EREMOTE; -errno, reported. */
static int way_look(struct sweep *sweep, const char *path)
{
    struct way way = {.path = path};
    int r = mount_table_each(sweep, mount_note, &way);

    for (size_t len = 0; r == 0 && len < PATH_MAX; len++)
        if (way.served[len])
            r = -EREMOTE;
    return r;
}

/* The link at the first `at` bytes of path leads to target: what the whole leads to, without "." and "..", since what comes
 * before it is no link. */
static int link_follow(char path[PATH_MAX], size_t at, const char *target)
{
    char whole[2 * PATH_MAX], *rest = whole, *word;
    size_t len = 0, up = at;

    while (up > 0 && path[up - 1] != '/')
        up--;
    if (snprintf(whole, sizeof(whole), "%.*s%s%s", *target == '/' ? 0 : (int)up, path, target,
                 path + at) >= PATH_MAX)
        return -ENAMETOOLONG;
    while ((word = strsep(&rest, "/"))) {
        if (strcmp(word, "..") == 0) {
            while (len > 0 && path[--len] != '/')
                ;
        } else if (*word && strcmp(word, ".") != 0) {
            len += (size_t)snprintf(path + len, PATH_MAX - len, "/%s", word);
        }
    }
    path[len] = '\0';
    return 0;
}

/* 0 it has no link in it; 1 it had, and path is where that leads; -errno. */
static int first_link(char path[PATH_MAX])
{
    for (size_t at = 1; path[at - 1]; at++) {
        char end = path[at], target[PATH_MAX];
        ssize_t len;
        if (end != '/' && end != '\0')
            continue;
        path[at] = '\0';
        len = readlink(path, target, sizeof(target) - 1);
        path[at] = end;
        if (len >= 0) {
            target[len] = '\0';
            return link_follow(path, at, target) < 0 ? -ENAMETOOLONG : 1;
        }
        if (errno != EINVAL)
            return -errno;
    }
    return 0;
}

/* 0 and its path without links; -ENOENT; -EREMOTE a server answers for it; -errno. */
static int place_find(struct sweep *sweep, const char *shown, char path[PATH_MAX])
{
    if (snprintf(path, PATH_MAX, "%s", shown) >= PATH_MAX)
        return -ENAMETOOLONG;
    for (int links = 0; links < LINKS_MAX; links++) {
        int r = way_look(sweep, path);
        if (r == 0)
            r = first_link(path);
        if (r <= 0)
            return r;
    }
    return -ELOOP;
}

void place_each(struct sweep *sweep, const char *path, folder_entry_fn entry, const void *arg)
{
    char found[PATH_MAX];
    int r = place_find(sweep, path, found);

    if (r == 0)
        folder_each(sweep, AT_FDCWD, found, path, entry, arg);
    else if (r == -EREMOTE)
        sweep_found(sweep, 0, REASON_SCAN_FAILED, "%s: it is on a file system that is not entered",
                    path);
    else if (r != -ENOENT)
        sweep_failed(sweep, path, r);
}
