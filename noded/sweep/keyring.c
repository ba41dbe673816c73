/* Keys: the kernel keeps a user's keyring, his session's and his persistent one when all of his processes are gone.
 *
 * /proc/key-users counts the keys of each uid, whoever holds them. To empty its keyrings takes the uid itself (uids.c). They are
 * made invalid besides: the kernel makes fresh ones for the next holder when it is asked for them, so a uid that is clean has
 * mostly no key at all, and no second look is needed. The same is done to every key of the uid that the uid sees, wherever it
 * is: the next holder could do no more.
 *
 * What no finding is: a keyring that the uid can look at, and no more. A file or socket that somebody else has open keeps the
 * session keyring of who opened it. A key of the uid in it is a finding.
 * The kernel's registry is one for all containers of the machine. */
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mem.h"
#include "noded/sweep/kinds.h"
#include "noded/sweep/uids.h"

#define HOLDERS_MAX 65536
#define GAP_NS      10000000L
#define GAP_MAX_NS  320000000L
/* Permissions of a key's owner: write, search, link, set attributes. */
#define MAY_MORE  0x003c0000UL
#define LINES_LEN 8192 /* a description has 4,095 characters at most */

struct holders {
    struct holder {
        uint32_t uid;
        unsigned keys;
    } * items;
    size_t n, cap;
};

static int holder_add(struct holders *h, uint32_t uid, unsigned keys)
{
    int r = mem_grow(&h->items, &h->cap, h->n + 1, HOLDERS_MAX, sizeof(*h->items));

    if (r == 0)
        h->items[h->n++] = (struct holder){uid, keys};
    return r;
}

/* "uid: usage keys/instantiated in-quota/limit bytes/limit" */
static bool line_parse(const char *line, struct holder *ret)
{
    int end = 0;

    return sscanf(line, " %u: %*d %u/%n", &ret->uid, &ret->keys, &end) == 2 && end;
}

/* Those that are wanted and have keys. 0; -errno. */
static int holders_read(const struct sweep *sweep, struct holders *h)
{
    auto_free char *line = NULL;
    auto_fclose FILE *file = NULL;
    char path[4096];
    size_t cap = 0;

    h->n = 0;
    (void)snprintf(path, sizeof(path), "%s/key-users", sweep->places->proc);
    file = fopen(path, "re");
    if (!file)
        return errno == ENOENT ? 0 : -errno; /* a kernel without keys */
    while (getline(&line, &cap, file) > 0) {
        struct holder one;
        int r = line_parse(line, &one) ? 0 : -EBADMSG;
        if (r == 0 && one.keys && sweep_wants(sweep, one.uid))
            r = holder_add(h, one.uid, one.keys);
        if (r < 0)
            return r;
    }
    return ferror(file) ? -EIO : 0;
}

/* ---- in the child, as the uid ---- */

static long key(int operation, long a, long b)
{
    return syscall(SYS_keyctl, operation, a, b, 0L, 0L);
}

struct key_line {
    long serial;
    uid_t uid;
    bool is_ring;
    bool
        is_loose; /* a keyring that none of the uid's leads to, and that whoever has the uid may only look at */
};

/* "serial flags usage timeout permissions uid gid type description". A persistent keyring is given to whoever asks. */
static bool key_parse(const char *line, struct key_line *ret)
{
    const char *word = line;
    unsigned long permissions = 0;

    for (int i = 0; i < 8; i++) {
        char *end;
        word += strspn(word, " ");
        if (i == 0)
            ret->serial = (long)strtoul(word, &end, 16);
        if (i == 4)
            permissions = strtoul(word, &end, 16);
        if (i == 5)
            ret->uid = (uid_t)strtoul(word, &end, 10);
        if (i == 7)
            ret->is_ring = strncmp(word, "keyring ", 8) == 0;
        word += strcspn(word, " ");
    }
    ret->is_loose = ret->is_ring && !(permissions & MAY_MORE) &&
                    strncmp(word + strspn(word, " "), "_persistent", 11) != 0;
    return *word != '\0';
}

/* Call fn for each key of ours that we see. How many are loose; -errno. */
static int keys_each(void (*fn)(const struct key_line *key))
{
    auto_close int fd = open("/proc/keys", O_RDONLY | O_CLOEXEC);
    char text[LINES_LEN];
    size_t len = 0;
    ssize_t n = 0;
    int loose = 0;

    while (fd >= 0 && (n = read(fd, text + len, sizeof(text) - len)) > 0) {
        char *line = text, *end;
        len += (size_t)n;
        for (; (end = memchr(line, '\n', len)); line = end + 1) {
            struct key_line one;
            *end = '\0';
            len -= (size_t)(end + 1 - line);
            if (!key_parse(line, &one) || one.uid != getuid())
                continue;
            loose += one.is_loose;
            if (fn)
                fn(&one);
        }
        memmove(text, line, len);
    }
    return fd < 0 || n < 0 ? -errno : loose;
}

static int loose_count(void)
{
    return keys_each(NULL);
}

/* Whoever has a key in its session may do with it what its possessor may. */
static void key_possess(long id)
{
    (void)key(KEYCTL_LINK, id, KEY_SPEC_SESSION_KEYRING);
}

static void key_end(const struct key_line *one)
{
    if (one->serial == key(KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0))
        return;
    key_possess(one->serial);
    if (one->is_ring)
        (void)key(KEYCTL_CLEAR, one->serial, 0);
    (void)key(KEYCTL_INVALIDATE, one->serial, 0);
}

/* What fails is still counted afterwards. */
static int keys_end(void)
{
    (void)key(KEYCTL_CLEAR, KEY_SPEC_SESSION_KEYRING, 0); /* of the uid before */
    (void)key(KEYCTL_GET_PERSISTENT, -1, KEY_SPEC_SESSION_KEYRING);
    key_possess(KEY_SPEC_USER_KEYRING);
    key_possess(KEY_SPEC_USER_SESSION_KEYRING);
    return keys_each(key_end);
}

/* ---- the parent ---- */

/* Have it done as each of them; those whose keys are not all loose are kept. 0; -errno. */
static int holders_act(struct sweep *sweep, struct holders *h, uids_act_fn act)
{
    auto_free uint32_t *uids = calloc(h->n + 1, sizeof(*uids));
    auto_free int *loose = calloc(h->n + 1, sizeof(*loose));
    size_t kept = 0;
    int r;

    if (!uids || !loose)
        return -ENOMEM;
    for (size_t i = 0; i < h->n; i++)
        uids[i] = h->items[i].uid;
    r = h->n ? uids_act(sweep, uids, h->n, act, loose) : 0;
    for (size_t i = 0; i < h->n; i++)
        if (h->items[i].keys > (unsigned)loose[i])
            h->items[kept++] = (struct holder){uids[i], h->items[i].keys - (unsigned)loose[i]};
    h->n = kept;
    return r;
}

static int holders_look(struct sweep *sweep, struct holders *h)
{
    int r = holders_read(sweep, h);

    return r < 0 ? r : holders_act(sweep, h, loose_count);
}

/* The kernel collects what is invalid, and what a process or a user namespace held that has ended, a moment later. */
static int gone_await(struct sweep *sweep, struct holders *left)
{
    int64_t deadline_ms = clock_mono_ms() + sweep->wait_ms;
    struct timespec gap = {.tv_nsec = GAP_NS};
    int r;

    while ((r = holders_look(sweep, left)) == 0 && left->n && clock_mono_ms() < deadline_ms) {
        (void)nanosleep(&gap, NULL);
        gap.tv_nsec = gap.tv_nsec < GAP_MAX_NS ? gap.tv_nsec * 2 : GAP_MAX_NS;
    }
    return r;
}

static void report(struct sweep *sweep, const struct holders *h)
{
    for (size_t i = 0; i < h->n; i++)
        sweep_found(sweep, h->items[i].uid, REASON_KEYRING, "%u keys", h->items[i].keys);
}

/* Every job of systemd leaves keyrings. What is gone has been looked for again: that does not make another round. */
static int holders_end(struct sweep *sweep, struct holders *had)
{
    struct holders left = {0};
    int r = holders_act(sweep, had, keys_end);

    if (r == 0)
        r = gone_await(sweep, &left);
    report(sweep, r < 0 ? had : &left);
    free(left.items);
    return r;
}

void sweep_keyrings(struct sweep *sweep)
{
    struct holders holders = {0};
    int r = holders_look(sweep, &holders);

    if (r == 0 && holders.n && sweep->remove)
        r = holders_end(sweep, &holders);
    else
        report(sweep, &holders);
    if (r < 0)
        sweep_failed(sweep, "keyrings", r);
    free(holders.items);
}
