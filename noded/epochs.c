#include "noded/epochs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/digest.h"
#include "common/fsutil.h"
#include "common/mem.h"

/* The file is a row of batches. Numbers are in the machine's order; the file stays on its machine.
 *   0  u32 magic    4  u32 number of entries    8  u64 serial, from 1 on, +1 each
 *  16  u32 CRC-32C of bytes 0..15 and the entries    20  u32 zero
 *  24  entries: u32 uid, u32 epoch, u32 flags (1 = closed, 2 = swept) */
#define BATCH_MAGIC       0x68637065u
#define BATCH_HEAD        24u
#define ENTRY_LEN         12u
#define FLAG_CLOSED       1u
#define FLAG_SWEPT        2u
#define BATCH_ENTRIES_MAX 65536u
#define FILE_MAX          (256u << 20)
#define GROWN_MIN         (64u << 10)

struct epochs {
    int fd;
    uint64_t serial; /* of the last batch */
    uint64_t size;
    bool rest; /* of a batch that failed lies behind size */
    char path[];
};

struct batch_head {
    uint32_t magic, n;
    uint64_t serial;
    uint32_t crc, zero;
};

static_assert(sizeof(struct batch_head) == BATCH_HEAD, "layout");

static uint32_t batch_crc(const uint8_t *batch, size_t n)
{
    return digest_crc32c(digest_crc32c(0, batch, 16), batch + BATCH_HEAD, n * ENTRY_LEN);
}

/* Whether a whole, right batch stands at bytes; its head. */
static bool batch_valid(const uint8_t *bytes, size_t len, struct batch_head *ret)
{
    if (len < BATCH_HEAD)
        return false;
    memcpy(ret, bytes, BATCH_HEAD);
    return ret->magic == BATCH_MAGIC && ret->zero == 0 && ret->n > 0 &&
           ret->n <= BATCH_ENTRIES_MAX && (len - BATCH_HEAD) / ENTRY_LEN >= ret->n &&
           batch_crc(bytes, ret->n) == ret->crc;
}

static void batch_tell(const uint8_t *entries, uint32_t n, epochs_entry_fn entry, void *arg)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t words[3];
        memcpy(words, entries + (size_t)i * ENTRY_LEN, sizeof(words));
        entry(&(struct epoch_entry){words[0], words[1], words[2] & FLAG_CLOSED,
                                    words[2] & FLAG_SWEPT},
              arg);
    }
}

/* A batch further on means that what is wrong here had been acknowledged: damage, not a torn end. */
static bool batch_follows(const uint8_t *bytes, size_t len, uint64_t serial)
{
    struct batch_head head;

    for (size_t at = 0; at + BATCH_HEAD <= len; at += 4)
        if (batch_valid(bytes + at, len - at, &head) && head.serial > serial)
            return true;
    return false;
}

static int damaged(const struct epochs *e, size_t at, struct err *err)
{
    return err_set(
        err, -EBADMSG,
        "%s is damaged at byte %zu: which epochs this node has seen is not known any more; if it "
        "can not be"
        " brought back, end every job on this machine, move the file away and start again",
        e->path, at);
}

static int epochs_load(struct epochs *e, epochs_entry_fn entry, void *arg, bool *ret_torn,
                       struct err *err)
{
    auto_free char *text = NULL;
    size_t len = 0, at = 0;
    struct batch_head head;
    int r = fs_read_file(AT_FDCWD, e->path, FILE_MAX, &text, &len);
    const uint8_t *bytes = (const uint8_t *)text;

    if (r < 0)
        return err_set(err, r, "%s: %s", e->path, err_text(r));
    while (at < len && batch_valid(bytes + at, len - at, &head) && head.serial == e->serial + 1) {
        batch_tell(bytes + at + BATCH_HEAD, head.n, entry, arg);
        e->serial = head.serial;
        at += BATCH_HEAD + (size_t)head.n * ENTRY_LEN;
    }
    if (at < len && batch_follows(bytes + at, len - at, e->serial))
        return damaged(e, at, err);
    *ret_torn = at < len;
    e->size = at;
    if (*ret_torn && (ftruncate(e->fd, (off_t)at) < 0 || fdatasync(e->fd) < 0))
        return err_set(err, -errno, "%s: %s", e->path, err_text(errno));
    return 0;
}

int epochs_open(const char *path, epochs_entry_fn entry, void *arg, struct epochs **ret,
                bool *ret_torn, struct err *err)
{
    size_t len = strlen(path) + 1;
    struct epochs *e = calloc(1, sizeof(*e) + len);
    int r;

    if (!e)
        return err_set(err, -ENOMEM, "%s: %s", path, err_text(-ENOMEM));
    memcpy(e->path, path, len);
    e->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (e->fd < 0)
        r = err_set(err, -errno, "%s: %s", path, err_text(errno));
    else
        r = epochs_load(e, entry, arg, ret_torn, err);
    if (r == 0 && e->size == 0)
        r = fs_sync_parent(AT_FDCWD, path);
    if (r < 0) {
        epochs_close(e);
        return r;
    }
    *ret = e;
    return 0;
}

void epochs_close(struct epochs *e)
{
    if (!e)
        return;
    (void)mem_close(e->fd);
    free(e);
}

/* Batches of all entries, one after another, in fresh memory. */
static uint8_t *batches_pack(const struct epoch_entry *entries, size_t n, uint64_t serial,
                             size_t *ret_len)
{
    size_t n_batches = (n + BATCH_ENTRIES_MAX - 1) / BATCH_ENTRIES_MAX;
    uint8_t *bytes = calloc(1, n_batches * BATCH_HEAD + n * ENTRY_LEN + 1);
    size_t at = 0;

    for (size_t done = 0; bytes && done < n;) {
        struct batch_head head = {.magic = BATCH_MAGIC, .serial = ++serial};
        head.n = (uint32_t)(n - done < BATCH_ENTRIES_MAX ? n - done : BATCH_ENTRIES_MAX);
        for (uint32_t i = 0; i < head.n; i++) {
            const struct epoch_entry *e = &entries[done + i];
            uint32_t words[3] = {e->uid, e->epoch,
                                 (e->closed ? FLAG_CLOSED : 0) | (e->swept ? FLAG_SWEPT : 0)};
            memcpy(bytes + at + BATCH_HEAD + (size_t)i * ENTRY_LEN, words, sizeof(words));
        }
        memcpy(bytes + at, &head, BATCH_HEAD);
        head.crc = batch_crc(bytes + at, head.n);
        memcpy(bytes + at, &head, BATCH_HEAD);
        at += BATCH_HEAD + (size_t)head.n * ENTRY_LEN;
        done += head.n;
    }
    *ret_len = at;
    return bytes;
}

static int write_at(int fd, const uint8_t *bytes, size_t len, uint64_t at)
{
    while (len) {
        ssize_t n = pwrite(fd, bytes, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        bytes += n;
        len -= (size_t)n;
        at += (uint64_t)n;
    }
    return fdatasync(fd) < 0 ? -errno : 0;
}

static int rest_cut(struct epochs *e)
{
    if (e->rest && ftruncate(e->fd, (off_t)e->size) < 0)
        return -errno;
    e->rest = false;
    return 0;
}

int epochs_append(struct epochs *e, const struct epoch_entry *entries, size_t n)
{
    auto_free uint8_t *bytes = NULL;
    size_t len = 0;
    int r;

    if (n == 0)
        return 0;
    bytes = batches_pack(entries, n, e->serial, &len);
    if (!bytes)
        return -ENOMEM;
    /* Nobody relies on what failed, but it must not lie in the way of the next one. */
    r = rest_cut(e);
    if (r < 0)
        return r;
    r = write_at(e->fd, bytes, len, e->size);
    if (r < 0) {
        e->rest = true;
        (void)rest_cut(e);
        return r;
    }
    e->size += len;
    e->serial += (n + BATCH_ENTRIES_MAX - 1) / BATCH_ENTRIES_MAX;
    return 0;
}

bool epochs_grown(const struct epochs *e, size_t n)
{
    return e->size > GROWN_MIN && e->size / 4 > n * ENTRY_LEN;
}

int epochs_rewrite(struct epochs *e, const struct epoch_entry *entries, size_t n)
{
    auto_free uint8_t *bytes = NULL;
    size_t len = 0;
    int fd, r;

    bytes = batches_pack(entries, n, 0, &len);
    if (!bytes)
        return -ENOMEM;
    r = fs_write_file(AT_FDCWD, e->path, bytes, len, 0600);
    if (r < 0)
        return r;
    /* The new one has the name now: an append to the old one would be lost. */
    fd = open(e->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    r = fd < 0 ? -errno : 0;
    (void)mem_close(e->fd);
    e->fd = fd;
    e->rest = false;
    if (r < 0)
        return r;
    e->size = len;
    e->serial = (n + BATCH_ENTRIES_MAX - 1) / BATCH_ENTRIES_MAX;
    return 0;
}
