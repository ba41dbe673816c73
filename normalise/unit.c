#include "normalise/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/mem.h"
#include "normalise/handle.h"
#include "normalise/inode.h"

static struct unit *unit_make(struct root *root, struct unit *parent, const void *bytes, size_t len)
{
    struct unit *unit = malloc(sizeof *unit + len);

    if (!unit)
        return NULL;
    *unit = (struct unit){.root = root, .parent = parent, .waits = 1, .len = (uint8_t)len};
    memcpy(unit->bytes, bytes, len);
    return unit;
}

int unit_new_root(struct root *root, struct unit **ret)
{
    *ret = unit_make(root, NULL, "", 0);
    return *ret ? 0 : -ENOMEM;
}

static int unit_by_handle(struct unit *parent, int fd, const char *name, struct unit **ret)
{
    struct handle handle;
    struct unit *unit;
    int r = handle_get(fd, name, &handle);

    if (r < 0)
        return r;
    unit = unit_make(parent->root, parent, handle.bytes, handle.len);
    if (!unit)
        return -ENOMEM;
    unit->by_handle = true;
    unit->type = handle.type;
    *ret = unit;
    return 0;
}

static int unit_by_name(struct unit *parent, int fd, const char *name, struct unit **ret)
{
    struct statx st;
    int r = inode_stat(fd, name, &st);

    if (r < 0)
        return r;
    *ret = unit_make(parent->root, parent, name, strlen(name)); /* at most NAME_MAX */
    if (!*ret)
        return -ENOMEM;
    (*ret)->ino = st.stx_ino;
    return 0;
}

int unit_new(struct unit *parent, int fd, const char *name, struct unit **ret)
{
    return parent->root->handles ? unit_by_handle(parent, fd, name, ret)
                                 : unit_by_name(parent, fd, name, ret);
}

void unit_free(struct unit *unit)
{
    free(unit);
}

static int folder_open(int dir_fd, const char *name)
{
    struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
        .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    long fd = syscall(SYS_openat2, dir_fd, name, &how, sizeof how);

    return fd < 0 ? -errno : (int)fd;
}

static int step_open(int dir_fd, const struct unit *unit)
{
    char name[NAME_MAX + 1];
    struct statx st;
    int r;

    memcpy(name, unit->bytes, unit->len);
    name[unit->len] = '\0';
    auto_close int fd = folder_open(dir_fd, name);
    if (fd < 0)
        return fd;
    r = inode_stat(fd, "", &st);
    if (r < 0)
        return r;
    return st.stx_ino == unit->ino ? mem_take_fd(&fd) : -ENOENT;
}

/* By the way down, step for step: as many opens as it lies deep. */
static int way_open(const struct unit *unit)
{
    const struct unit **way;
    size_t n = 0;
    int fd;

    for (const struct unit *at = unit; at->parent; at = at->parent)
        n++;
    way = calloc(n, sizeof(*way));
    if (!way)
        return -ENOMEM;
    for (const struct unit *at = unit; at->parent; at = at->parent)
        way[--n] = at;
    fd = folder_open(unit->root->fd, ".");
    for (; fd >= 0; n++) {
        auto_close int above = fd;
        fd = step_open(above, way[n]);
        if (way[n] == unit)
            break;
    }
    free(way);
    return fd;
}

static int by_handle(const struct unit *unit)
{
    struct handle handle = {.type = unit->type, .len = unit->len};

    memcpy(handle.bytes, unit->bytes, unit->len);
    return handle_open(unit->root->fd, &handle);
}

int unit_open(const struct unit *unit)
{
    if (!unit->parent)
        return folder_open(unit->root->fd, ".");
    return unit->by_handle ? by_handle(unit) : way_open(unit);
}
