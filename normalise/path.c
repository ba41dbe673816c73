#include "normalise/path.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "normalise/root.h"

static void folder_add(const struct root *root, int dir_fd, struct buf *buf)
{
    char link[64], path[PATH_MAX];
    ssize_t n;

    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", dir_fd);
    n = readlink(link, path, sizeof path);
    /* In a mount of our own, paths begin at its top. */
    if (root->own_mount || n <= 0)
        buf_adds(buf, root->real);
    if (n <= 0)
        buf_adds(buf, "/...");
    else if (!(root->own_mount && n == 1))
        buf_add(buf, path, (size_t)n);
}

void path_of(const struct root *root, int dir_fd, const char *name, struct buf *buf)
{
    if (dir_fd >= 0) {
        folder_add(root, dir_fd, buf);
    } else {
        buf_adds(buf, root->real);
        buf_adds(buf, "/...");
    }
    if (*name)
        buf_addc(buf, '/');
    buf_adds(buf, name);
}
