/* A flat folder: each entry once. */
#ifndef XCE_NODED_SWEEP_FOLDER_H
#define XCE_NODED_SWEEP_FOLDER_H

struct statx;
struct sweep;

typedef void (*folder_entry_fn)(struct sweep *sweep, int dir_fd, const char *name,
                                const struct statx *st, const void *arg);

/* Call entry for every entry of the folder at path below dir_fd, one that is absent has none. What can not be looked at is
 * reported as `shown`. */
void folder_each(struct sweep *sweep, int dir_fd, const char *path, const char *shown,
                 folder_entry_fn entry, const void *arg);

#endif
