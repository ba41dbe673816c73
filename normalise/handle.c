#include "normalise/handle.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "common/mem.h"

union file_handle_room {
    struct file_handle head;
    char bytes[sizeof(struct file_handle) + HANDLE_MAX];
};

#define PAYLOAD offsetof(struct file_handle, f_handle)

int handle_get(int dir_fd, const char *name, struct handle *ret)
{
    union file_handle_room room;
    int mount_id;

    room.head.handle_bytes = HANDLE_MAX;
    if (name_to_handle_at(dir_fd, name, &room.head, &mount_id, 0) < 0)
        return -errno;
    ret->type = room.head.handle_type;
    ret->len = room.head.handle_bytes;
    memcpy(ret->bytes, room.bytes + PAYLOAD, ret->len);
    return 0;
}

int handle_open(int mount_fd, const struct handle *handle)
{
    union file_handle_room room;
    int fd;

    room.head.handle_bytes = handle->len;
    room.head.handle_type = handle->type;
    memcpy(room.bytes + PAYLOAD, handle->bytes, handle->len);
    fd = open_by_handle_at(mount_fd, &room.head,
                           O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return fd >= 0 ? fd : errno == ESTALE ? -ENOENT : -errno;
}

bool handle_try(int fd)
{
    struct handle handle;
    struct stat here, there;
    auto_close int again = handle_get(fd, ".", &handle) < 0 ? -1 : handle_open(fd, &handle);

    return again >= 0 && fstat(fd, &here) == 0 && fstat(again, &there) == 0 &&
           here.st_ino == there.st_ino && here.st_dev == there.st_dev;
}
