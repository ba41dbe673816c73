#include "leased/rpc/username.h"

#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "common/clock.h"
#include "common/net/loop.h"

#define FRESH_MS    60000
#define NAMELESS_MS 5000   /* it may get a name */
#define STALE_MS    600000 /* so long an answer stands in for one that does not come */
#define ENTRIES_MAX 4096
#define PATIENCE_MS 500
#define ENTRY_BYTES (64 * 1024)
#define KEY_MAX     (PRINCIPAL_NAME_MAX + 2)

/* One look-up on a thread of the pool; outlives everything if NSS hangs. */
struct lookup {
    struct usernames *names; /* NULL: nobody wants it any more */
    usernames_look_up_fn look_up;
    char key[KEY_MAX];
    uint32_t uid;
    int r;
    struct username who;
};

struct asker {
    usernames_done_fn done;
    void *arg;
    struct asker *next;
};

struct entry {
    char key[KEY_MAX]; /* "=alice", or "1000" */
    uint32_t uid;
    int r; /* 0, USERNAME_NONE; -EAGAIN: never answered */
    struct username who;
    int64_t fresh_ms, stale_ms;  /* until then it is an answer; one that stands in */
    struct lookup *lookup;       /* under way */
    struct loop_timer *patience; /* runs from the first who waits on */
    struct asker *askers;
    struct usernames *names;
    UT_hash_handle hh;
};

struct usernames {
    struct loop *loop;
    const struct clock *clock;
    usernames_look_up_fn look_up;
    struct entry *entries;
};

static const struct username root = {.name = "root"};

int usernames_new(struct loop *loop, const struct clock *clock, usernames_look_up_fn look_up,
                  struct usernames **ret)
{
    struct usernames *names = calloc(1, sizeof *names);

    if (!names)
        return -ENOMEM;
    names->loop = loop;
    names->clock = clock;
    names->look_up = look_up;
    *ret = names;
    return 0;
}

static void answer(struct entry *entry, int r)
{
    struct asker *asker = entry->askers;
    struct username who = entry->who;

    entry->askers = NULL;
    while (asker) {
        struct asker *next = asker->next;

        asker->done(r, r == 0 ? &who : NULL, asker->arg);
        free(asker);
        asker = next;
    }
}

static void entry_free(struct entry *entry)
{
    HASH_DEL(entry->names->entries, entry);
    if (entry->lookup)
        entry->lookup->names = NULL;
    loop_timer_free(entry->patience);
    answer(entry, -ECANCELED);
    free(entry);
}

void usernames_free(struct usernames *names)
{
    struct entry *entry, *next;

    if (!names)
        return;
    HASH_ITER(hh, names->entries, entry, next)
    entry_free(entry);
    free(names);
}

/* ---- finding ---- */

static void make_key(const char *name, uint32_t uid, char ret[static KEY_MAX])
{
    if (name)
        (void)snprintf(ret, KEY_MAX, "=%s", name);
    else
        (void)snprintf(ret, KEY_MAX, "%u", uid);
}

static struct entry *find(struct usernames *names, const char *name, uint32_t uid)
{
    char key[KEY_MAX];
    struct entry *entry;

    make_key(name, uid, key);
    HASH_FIND_STR(names->entries, key, entry);
    return entry;
}

int usernames_known(struct usernames *names, const char *name, uint32_t uid,
                    const struct username **ret)
{
    const struct entry *entry;

    /* Nobody needs NSS to know root, least of all while the machine boots. */
    *ret = &root;
    if (!name && uid == 0)
        return 0;
    entry = find(names, name, uid);
    if (!entry || entry->r < 0 || entry->fresh_ms < clock_mono(names->clock))
        return -EAGAIN;
    *ret = &entry->who;
    return entry->r;
}

/* ---- looking up ---- */

/* What getpwnam_r and getpwuid_r may say for "no such account" beside 0 and no entry. */
static bool means_none(int native)
{
    return native == ENOENT || native == ESRCH;
}

int usernames_nss(const char *name, uint32_t uid, struct username *ret)
{
    struct passwd entry, *found = NULL;
    char *buffer = malloc(ENTRY_BYTES);
    int native, r = USERNAME_NONE;

    if (!buffer)
        return -ENOMEM;
    native = name ? getpwnam_r(name, &entry, buffer, ENTRY_BYTES, &found)
                  : getpwuid_r(uid, &entry, buffer, ENTRY_BYTES, &found);
    if (native && !means_none(native))
        r = -native;
    /* A directory may find ALICE for alice. */
    if (native == 0 && found && *found->pw_name && strlen(found->pw_name) <= PRINCIPAL_NAME_MAX &&
        (!name || !strcmp(found->pw_name, name))) {
        ret->uid = found->pw_uid;
        ret->gid = found->pw_gid;
        memcpy(ret->name, found->pw_name, strlen(found->pw_name) + 1);
        r = 0;
    }
    free(buffer);
    return r;
}

static void work(void *arg)
{
    struct lookup *lookup = arg;

    lookup->r = lookup->look_up(*lookup->key == '=' ? lookup->key + 1 : NULL, lookup->uid,
                                &lookup->who);
}

/* What stands for an answer that does not come. */
static int stand_in(const struct entry *entry)
{
    return entry->r >= 0 && clock_mono(entry->names->clock) < entry->stale_ms ? entry->r : -EAGAIN;
}

static void worked(int r, void *arg)
{
    struct lookup *lookup = arg;
    struct entry *entry = NULL;

    if (lookup->names)
        HASH_FIND_STR(lookup->names->entries, lookup->key, entry);
    if (entry) {
        int64_t now_ms = clock_mono(entry->names->clock);

        entry->lookup = NULL;
        loop_timer_stop(entry->patience);
        if (r == 0 && lookup->r >= 0) {
            entry->r = lookup->r;
            entry->who = lookup->who;
            entry->fresh_ms = now_ms + (entry->r == 0 ? FRESH_MS : NAMELESS_MS);
            entry->stale_ms = now_ms + (entry->r == 0 ? STALE_MS : NAMELESS_MS);
        }
        answer(entry, stand_in(entry));
    }
    free(lookup);
}

static void impatient(void *arg)
{
    answer(arg, stand_in(arg));
}

static int start(struct entry *entry)
{
    struct lookup *lookup = calloc(1, sizeof *lookup);
    int r = lookup ? 0 : -ENOMEM;

    if (r == 0) {
        lookup->names = entry->names;
        lookup->look_up = entry->names->look_up;
        memcpy(lookup->key, entry->key, sizeof lookup->key);
        lookup->uid = entry->uid;
        r = loop_work_submit_slow(entry->names->loop, work, worked, lookup);
    }
    if (r < 0) {
        free(lookup);
        return r;
    }
    entry->lookup = lookup;
    return 0;
}

static int make(struct usernames *names, const char *name, uint32_t uid, struct entry **ret)
{
    struct entry *entry = calloc(1, sizeof *entry), *oldest = names->entries;
    int r;

    if (!entry)
        return -ENOMEM;
    make_key(name, uid, entry->key);
    entry->uid = uid;
    entry->r = -EAGAIN;
    entry->names = names;
    r = loop_timer_new(names->loop, impatient, entry, &entry->patience);
    if (r < 0) {
        free(entry);
        return r;
    }
    if (HASH_COUNT(names->entries) >= ENTRIES_MAX && oldest)
        entry_free(oldest);
    HASH_ADD_STR(names->entries, key, entry);
    r = start(entry);
    if (r < 0) {
        entry_free(entry);
        return r;
    }
    *ret = entry;
    return 0;
}

int usernames_ask(struct usernames *names, const char *name, uint32_t uid, usernames_done_fn done,
                  void *arg)
{
    struct entry *entry = find(names, name, uid);
    struct asker *asker = calloc(1, sizeof *asker);
    int r = asker ? 0 : -ENOMEM;

    if (r == 0 && !entry)
        r = make(names, name, uid, &entry);
    else if (r == 0 && !entry->lookup)
        r = start(entry);
    if (r < 0) {
        free(asker);
        return r;
    }
    /* Those who come later must not hold up those who wait already. */
    if (!entry->askers)
        loop_timer_start(entry->patience, PATIENCE_MS, 0);
    asker->done = done;
    asker->arg = arg;
    asker->next = entry->askers;
    entry->askers = asker;
    return 0;
}

void usernames_forget(struct usernames *names, void *arg)
{
    struct entry *entry, *next;

    HASH_ITER(hh, names->entries, entry, next)
    {
        struct asker **place = &entry->askers;

        while (*place && (*place)->arg != arg)
            place = &(*place)->next;
        if (*place) {
            struct asker *asker = *place;

            *place = asker->next;
            free(asker);
        }
    }
}
