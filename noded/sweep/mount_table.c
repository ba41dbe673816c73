#include "noded/sweep/mount_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/mem.h"
#include "noded/sweep/sweep.h"

/* "\040" and the like, in place. */
static void octal_decode(char *text)
{
    char *to = text;

    for (const char *p = text; *p;) {
        if (p[0] == '\\' && p[1] >= '0' && p[1] <= '3' && p[2] >= '0' && p[2] <= '7' &&
            p[3] >= '0' && p[3] <= '7') {
            *to++ = (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0'));
            p += 4;
        } else {
            *to++ = *p++;
        }
    }
    *to = '\0';
}

static bool number(const char *text, uint64_t *ret)
{
    char *end = NULL;

    if (!text || *text < '0' || *text > '9')
        return false;
    *ret = strtoull(text, &end, 10);
    return *end == '\0';
}

/* "36 35 98:0 /root /mount-point options optional... - type source super-options". The path is decoded, so it may hold
 * anything; " - " can not stand before the mark: blanks are written as octal. */
static bool line_parse(char *line, struct mount_entry *ret)
{
    char *super = strstr(line, " - "), *fields = line, *id, *parent;

    if (!super)
        return false;
    *super = '\0';
    super += 3;
    id = strsep(&fields, " ");
    parent = strsep(&fields, " ");
    (void)strsep(&fields, " ");
    ret->root = strsep(&fields, " ");
    ret->path = strsep(&fields, " ");
    ret->type = strsep(&super, " ");
    (void)strsep(&super, " ");
    ret->options = strsep(&super, "\n");
    if (!number(id, &ret->id) || !number(parent, &ret->parent) || !ret->path || !ret->options)
        return false;
    octal_decode(ret->path);
    return true;
}

static int table_read(struct sweep *sweep, const char *path, mount_fn fn, void *arg)
{
    auto_free char *line = NULL;
    auto_fclose FILE *file = fopen(path, "re");
    size_t cap = 0;

    if (!file)
        return -errno;
    while (getline(&line, &cap, file) > 0) {
        struct mount_entry entry;
        if (!line_parse(line, &entry))
            return -EBADMSG;
        fn(sweep, &entry, arg);
    }
    return ferror(file) ? -EIO : 0;
}

int mount_table_each(struct sweep *sweep, mount_fn fn, void *arg)
{
    char path[4096];
    int r;

    (void)snprintf(path, sizeof(path), "%s/thread-self/mountinfo", sweep->places->proc);
    r = table_read(sweep, path, fn, arg);
    if (r < 0)
        sweep_failed(sweep, path, r);
    return r;
}

int mount_table_of(struct sweep *sweep, pid_t pid, mount_fn fn, void *arg)
{
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/%d/mountinfo", sweep->places->proc, pid);
    return table_read(sweep, path, fn, arg);
}

static bool listed(const char *const *list, size_t n, const char *type)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], type) == 0)
            return true;
    return false;
}

/* Only the user of user_id= is let in by the kernel, not even root is. */
static bool fuse_of_another(const struct sweep *sweep, const char *options)
{
    static const char key[] = "user_id=";
    bool another = false;

    for (const char *p = options; *p; p += strcspn(p, ","), p += *p == ',') {
        size_t len = strcspn(p, ",");
        if (len == strlen("allow_other") && memcmp(p, "allow_other", len) == 0)
            return false;
        if (strncmp(p, key, sizeof(key) - 1) == 0)
            another = !sweep_wants(sweep, (uint32_t)strtoul(p + sizeof(key) - 1, NULL, 10));
    }
    return another;
}

enum mount_class mount_classify(const struct sweep *sweep, const struct mount_entry *entry)
{
    static const char *const local[] = {
        "bcachefs", "bpf",    "btrfs", "cramfs", "devtmpfs", "erofs",     "exfat",   "ext2",
        "ext3",     "ext4",   "f2fs",  "hfs",    "hfsplus",  "hugetlbfs", "iso9660", "jfs",
        "minix",    "mqueue", "msdos", "nilfs2", "ntfs3",    "overlay",   "ramfs",   "reiserfs",
        "squashfs", "tmpfs",  "udf",   "ufs",    "vfat",     "xfs",       "zfs",
    };
    static const char *const empty[] = {
        "binfmt_misc", "cgroup",    "cgroup2", "configfs", "debugfs", "devpts",  "efivarfs",
        "fusectl",     "nfsd",      "nsfs",    "proc",     "pstore",  "resctrl", "rpc_pipefs",
        "securityfs",  "selinuxfs", "smackfs", "sysfs",    "tracefs",
    };

    if (listed(local, ARRAY_LEN(local), entry->type))
        return MOUNT_LOCAL;
    if (listed(empty, ARRAY_LEN(empty), entry->type))
        return MOUNT_EMPTY;
    if ((strcmp(entry->type, "fuse") == 0 || strncmp(entry->type, "fuse.", 5) == 0 ||
         strcmp(entry->type, "fuseblk") == 0) &&
        fuse_of_another(sweep, entry->options))
        return MOUNT_PRIVATE;
    return MOUNT_SERVED;
}
