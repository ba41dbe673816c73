/* Releases that were handed to this node while leased was away, as they are kept on disk: what and in which form. Pure, save
 * load and set_aside.
 *
 *   xce-deferred 1
 *   release LEASE UID EPOCH CALLER SINCE ID      numbers; SINCE: wall clock, ms; ID: hex
 *   sum CRC                                      CRC-32C of all before, hex
 */
#ifndef XCE_NODED_DEFERRED_H
#define XCE_NODED_DEFERRED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

#define DEFERRED_MAX       1024
#define DEFERRED_ID_MAX    64
#define DEFERRED_ID_MIN    16
#define DEFERRED_FILE_MAX  (1 << 20)
#define DEFERRED_ASIDE_MAX 300

struct deferred_release {
    uint64_t lease;
    uint32_t uid, epoch;
    uint32_t caller; /* uid, as the kernel says */
    int64_t since_ms;
    uint8_t id[DEFERRED_ID_MAX]; /* of the request */
    size_t id_len;
    /* not in the file */
    bool writing, kept; /* it is being written; it is on disk */
    int64_t said_ms;    /* to leased, in this session; 0 = not yet */
};

struct deferred {
    struct deferred_release items[DEFERRED_MAX]; /* in the order in which they came; one of a uid */
    size_t n;
};

struct deferred_release *deferred_find(struct deferred *list, uint32_t uid, uint32_t epoch);
void deferred_drop(struct deferred *list, struct deferred_release *item);

/* The file's contents; ret is initialised. */
void deferred_write(const struct deferred *list, struct buf *ret);
/* 0; -EBADMSG it is not such a file, or not whole: list is empty. text is taken apart. */
int deferred_read(char *text, struct deferred *ret);

/* What the file at path holds; none = nothing. 0; -EBADMSG, -EFBIG it is damaged; -errno. */
int deferred_load(const char *path, struct deferred *ret);
/* Give it another name, which is told. 0; -errno. */
int deferred_set_aside(const char *path, char ret[static DEFERRED_ASIDE_MAX]);

#endif
