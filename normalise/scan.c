#include "normalise/scan.h"

#include <assert.h>
#include <errno.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#include "common/mem.h"

/* XFS_IOC_BULKSTAT of Linux 5.5 and later; see ioctl_xfs_bulkstat(2). */
struct request {
    uint64_t ino; /* in: where to begin; out: where to go on */
    uint32_t flags;
    uint32_t n_wanted, n_given;
    uint32_t group;
    uint64_t zero[5];
};

struct inode {
    uint64_t ino, size, blocks, xflags;
    int64_t atime, mtime, ctime, btime;
    uint32_t gen, uid, gid, projid;
    uint32_t atime_ns, mtime_ns, ctime_ns, btime_ns;
    uint32_t block_size, rdev, cow_extent_size, extent_size;
    uint32_t links, extents, attribute_extents;
    uint16_t version, fork_offset;
    uint16_t sick, checked, mode, zero;
    uint64_t extents64;
    uint64_t zeros[6];
};

static_assert(sizeof(struct request) == 64, "layout");
static_assert(sizeof(struct inode) == 192, "layout");
static_assert(offsetof(struct inode, uid) == 68, "layout");
static_assert(offsetof(struct inode, links) == 112, "layout");

#define AT_ONCE  512
#define BULKSTAT _IOR('X', 127, struct request)

struct page {
    struct request request;
    struct inode inodes[AT_ONCE];
};

static void page_look(const struct page *page, const struct ids *ids, scan_fn tell, void *arg)
{
    for (uint32_t i = 0; i < page->request.n_given; i++) {
        const struct inode *inode = &page->inodes[i];
        if (inode->uid == ids->uid || (ids->groups && inode->gid == ids->gid))
            tell(arg, inode->ino, inode->links);
    }
}

int scan_inodes(int fd, const struct ids *ids, const _Atomic bool *stop, scan_fn tell, void *arg)
{
    auto_free struct page *page = NULL;
    struct statfs fs;

    if (fstatfs(fd, &fs) < 0)
        return -errno;
    if (fs.f_type != XFS_SUPER_MAGIC)
        return SCAN_NONE;
    page = calloc(1, sizeof *page);
    if (!page)
        return -ENOMEM;
    do {
        if (atomic_load(stop))
            return -ECANCELED;
        page->request.n_wanted = AT_ONCE;
        page->request.n_given = 0;
        if (ioctl(fd, BULKSTAT, page) < 0)
            return errno == ENOTTY ? SCAN_NONE : -errno;
        page_look(page, ids, tell, arg);
    } while (page->request.n_given);
    return 0;
}
