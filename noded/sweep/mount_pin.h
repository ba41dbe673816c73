/* A mount by descriptors. Its path in the mount table may lead elsewhere a moment later: whoever owns a folder above renames
 * that, or puts a symlink in its place. What is unmounted by its path then is what somebody else has mounted. */
#ifndef XCE_NODED_SWEEP_MOUNT_PIN_H
#define XCE_NODED_SWEEP_MOUNT_PIN_H

#include <stdint.h>

struct statx;
struct sweep;

struct mount_pin {
    int folder;       /* that holds the mount point */
    int top;          /* the mount itself, O_PATH; -1 = not opened */
    const char *name; /* in the folder; lives as long as the path that was given */
};
#define MOUNT_PIN_NONE ((struct mount_pin){-1, -1, 0})
#define auto_unpin     __attribute__((cleanup(mount_pin_done)))

/* The folder alone: what is mounted there is not touched. No symlink is followed, and no server is waited for: a way that leads
 * to one is -EAGAIN. 0; -errno. */
int mount_pin_folder(struct sweep *sweep, const char *path, struct mount_pin *ret);

/* That and its top. -ESTALE: another is mounted there, or none. Its id is not given to another before mount_pin_done. */
int mount_pin(struct sweep *sweep, const char *path, uint64_t id, struct mount_pin *ret);

void mount_pin_done(struct mount_pin *pin);

/* Take the pinned one off, with all that is mounted below it. If the top is not opened: what is mounted at the name. 0; -errno. */
int mount_pin_detach(const struct mount_pin *pin);

/* What is at the name now, without following. 0; -errno. */
int mount_pin_stat(const struct mount_pin *pin, struct statx *ret);

#endif
