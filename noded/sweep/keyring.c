/* Keys: the kernel keeps a user's keyring, his session's and his persistent one when all of his processes are gone.
 *
 * /proc/key-users counts the keys of each uid, whoever holds them. To empty its keyrings takes the uid itself (uids.c). They are
 * made invalid besides: the kernel makes fresh ones for the next holder when it is asked for them, so a uid that is clean has
 * mostly no key at all, and no second look is needed. The same is done to every key of the uid that the uid sees, wherever it
 * is: the next holder could do no more.
 *
 * What no finding is: a session's or a process's keyring that the uid can look at, and no more. A file or socket that somebody
 * else has open keeps those of who opened it. A key of the uid in it is a finding.
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
#define LOOSE_MAX   1024 /* of one uid; what is beyond counts as a key */
#define GAP_NS      10000000L
#define GAP_MAX_NS  320000000L
#define AGAIN_MS    100
/* Permissions of a key's owner: write, search, link, set attributes. */
#define MAY_MORE        0x003c0000UL
#define LINES_LEN       8192 /* a description has 4,095 characters at most */
#define DESCRIPTION_LEN 5120

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

struct key_seen {
    long serial;
    bool is_ring;
    bool
        is_loose; /* a keyring to which nothing leads, and that whoever has the uid may only look at */
};

/* Of the kernel's keyrings those that nobody comes to by the uid: a process keeps them, or a file that it had opened, or a user
 * namespace. A user's own (_uid.N, _uid_ses.N, _persistent.N) are given to whoever asks. */
static bool is_unreachable(const char *name)
{
    static const char *const names[] = {"_ses", "_pid", "_tid", ".user_reg"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Behind the next semicolon, if there is one. */
static const char *field_next(const char *at)
{
    at += strcspn(at, ";");
    return *at ? at + 1 : at;
}

/* "type;uid;gid;permissions;description". False: it is none of ours, or can not be looked at. */
static bool key_look(long serial, struct key_seen *ret)
{
    char text[DESCRIPTION_LEN];
    long len = syscall(SYS_keyctl, KEYCTL_DESCRIBE, serial, text, sizeof(text), 0L);

    if (len <= 0 || len > (long)sizeof(text))
        return false;
    const char *uid = field_next(text), *permissions = field_next(field_next(uid));
    if ((uid_t)strtoul(uid, NULL, 10) != getuid())
        return false;
    ret->serial = serial;
    ret->is_ring = strncmp(text, "keyring;", 8) == 0;
    ret->is_loose = ret->is_ring && !(strtoul(permissions, NULL, 16) & MAY_MORE) &&
                    is_unreachable(field_next(permissions));
    return true;
}

/* "serial flags usage timeout permissions uid gid type description". Whoever made the key has chosen the description: it may
 * have line breaks, and what follows them may look like a line. So only the serial is taken, and the kernel asked about it. */
static bool line_look(const char *line, struct key_seen *ret)
{
    char *end;
    unsigned long serial = strtoul(line, &end, 16);

    /* From 2^31 on they mean the keyrings of whoever asks. */
    return end != line && *end == ' ' && serial > 0 && serial <= INT32_MAX &&
           key_look((long)serial, ret);
}

struct loose {
    int32_t serials[LOOSE_MAX];
    int n;
};

/* Each once, in however many lines it is named. */
static void loose_note(struct loose *loose, long serial)
{
    for (int i = 0; i < loose->n; i++)
        if (loose->serials[i] == serial)
            return;
    if (loose->n < LOOSE_MAX)
        loose->serials[loose->n++] = (int32_t)serial;
}

/* Call fn for each key of ours that we see. How many are loose; -errno. */
static int keys_each(void (*fn)(const struct key_seen *key))
{
    auto_close int fd = open("/proc/keys", O_RDONLY | O_CLOEXEC);
    struct loose loose = {.n = 0};
    char text[LINES_LEN];
    size_t len = 0;
    ssize_t n = 0;

    while (fd >= 0 && (n = read(fd, text + len, sizeof(text) - len)) > 0) {
        char *line = text, *end;
        len += (size_t)n;
        for (; (end = memchr(line, '\n', len)); line = end + 1) {
            struct key_seen one;
            *end = '\0';
            len -= (size_t)(end + 1 - line);
            if (!line_look(line, &one))
                continue;
            if (one.is_loose)
                loose_note(&loose, one.serial);
            if (fn)
                fn(&one);
        }
        memmove(text, line, len);
    }
    return fd < 0 || n < 0 ? -errno : loose.n;
}

static int loose_count(void)
{
    return keys_each(NULL);
}

/* Whoever has a key in its session may do with it what its possessor may. */
static bool key_possess(long id)
{
    return key(KEYCTL_LINK, id, KEY_SPEC_SESSION_KEYRING) == 0;
}

static void ring_end(long id)
{
    (void)key(KEYCTL_CLEAR, id, 0);
    (void)key(KEYCTL_INVALIDATE, id, 0);
}

/* By this name whoever asks is its possessor; of one that may not be linked he is that by this name alone. From its end until
 * the kernel has collected it neither of the two names leads anywhere (ENOKEY): the other one waits for the next time. */
static void user_ring_take(long id)
{
    if (!key_possess(id))
        ring_end(id);
}

static void key_end(const struct key_seen *one)
{
    if (one->serial == key(KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0))
        return;
    (void)key_possess(one->serial);
    if (one->is_ring)
        ring_end(one->serial);
    else
        (void)key(KEYCTL_INVALIDATE, one->serial, 0);
}

/* What fails is still counted afterwards. */
static int keys_end(void)
{
    (void)key(KEYCTL_CLEAR, KEY_SPEC_SESSION_KEYRING, 0); /* of the uid before */
    (void)key(KEYCTL_GET_PERSISTENT, -1, KEY_SPEC_SESSION_KEYRING);
    user_ring_take(KEY_SPEC_USER_KEYRING);
    user_ring_take(KEY_SPEC_USER_SESSION_KEYRING);
    return keys_each(key_end);
}

/* ---- the parent ---- */

/* Have it done as each of them; those whose keys are not all loose are kept. They have been counted before: what has gone since
 * is taken for one that is there, and nothing comes to be of a uid under which nothing runs. 0; -errno. */
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
    for (size_t i = 0; i < h->n; i++) {
        unsigned n_loose = loose[i] > 0 ? (unsigned)loose[i] : 0;
        if (h->items[i].keys > n_loose)
            h->items[kept++] = (struct holder){uids[i], h->items[i].keys - n_loose};
    }
    h->n = kept;
    return r;
}

static int holders_look(struct sweep *sweep, struct holders *h)
{
    int r = holders_read(sweep, h);

    return r < 0 ? r : holders_act(sweep, h, loose_count);
}

/* The kernel collects what is invalid, and what a process or a user namespace held that has ended, a moment later. */
static int gone_await(struct sweep *sweep, struct holders *left, int64_t until_ms)
{
    struct timespec gap = {.tv_nsec = GAP_NS};
    int r;

    while ((r = holders_look(sweep, left)) == 0 && left->n && clock_mono_ms() < until_ms) {
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

/* Every job of systemd leaves keyrings. What is gone has been looked for again: that does not make another round.
 *
 * To end what is there may make fresh keyrings, which are ended with it. So each time is followed by a longer wait in which
 * nothing is made: the kernel's collector, however slow, comes to an end of it. */
static int holders_end(struct sweep *sweep, struct holders *h)
{
    int64_t deadline_ms = clock_mono_ms() + sweep_patience_ms(sweep, REASON_KEYRING);
    int r;

    for (int64_t wait_ms = AGAIN_MS;; wait_ms *= 2) {
        int64_t until_ms = clock_mono_ms() + wait_ms;
        r = holders_act(sweep, h, keys_end);
        if (r == 0)
            r = gone_await(sweep, h, until_ms < deadline_ms ? until_ms : deadline_ms);
        if (r < 0 || h->n == 0 || clock_mono_ms() >= deadline_ms)
            return r;
    }
}

void sweep_keyrings(struct sweep *sweep)
{
    struct holders holders = {0};
    int r = holders_look(sweep, &holders);

    if (r == 0 && holders.n && sweep->remove) {
        r = holders_end(sweep, &holders);
        if (holders.n)
            sweep_waited_in_vain(sweep, REASON_KEYRING);
    }
    report(sweep, &holders);
    if (r < 0)
        sweep_failed(sweep, "keyrings", r);
    free(holders.items);
}
