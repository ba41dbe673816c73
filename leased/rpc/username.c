#include "leased/rpc/username.h"

#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "common/clock.h"
#include "common/net/loop.h"
#include "leased/rbac/principal.h"

#define KEEP_MS     600000
#define NAMELESS_MS 5000 /* it may get a name */
#define ENTRIES_MAX 4096
#define PATIENCE_MS 500
#define ENTRY_BYTES (64 * 1024)

/* One look-up on a thread of the pool; outlives everything if NSS hangs. */
struct lookup {
    struct usernames *names; /* NULL: nobody wants it any more */
    usernames_look_up_fn look_up;
    uint32_t uid;
    char name[PRINCIPAL_NAME_MAX + 1]; /* "" = none */
};

struct asker {
    void (*done)(const char *name, void *arg);
    void *arg;
    struct asker *next;
};

struct entry {
    uint32_t uid;
    char name[PRINCIPAL_NAME_MAX + 1];
    int64_t until_ms;            /* forget it then */
    struct lookup *lookup;       /* under way; NULL: name is what it said */
    struct loop_timer *patience; /* runs from the first who waits on */
    struct asker *askers;
    struct usernames *names;
    UT_hash_handle hh;
};

struct usernames {
    struct loop *loop;
    usernames_look_up_fn look_up;
    struct entry *entries;
};

int usernames_new(struct loop *loop, usernames_look_up_fn look_up, struct usernames **ret)
{
    struct usernames *names = calloc(1, sizeof *names);

    if (!names)
        return -ENOMEM;
    names->loop = loop;
    names->look_up = look_up;
    *ret = names;
    return 0;
}

static void answer(struct entry *entry, const char *name)
{
    struct asker *asker = entry->askers;

    entry->askers = NULL;
    while (asker) {
        struct asker *next = asker->next;

        asker->done(name, asker->arg);
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
    answer(entry, NULL);
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

static struct entry *find(struct usernames *names, uint32_t uid)
{
    struct entry *entry;

    HASH_FIND(hh, names->entries, &uid, sizeof uid, entry);
    if (entry && !entry->lookup && entry->until_ms < clock_mono_ms()) {
        entry_free(entry);
        return NULL;
    }
    return entry;
}

bool usernames_known(struct usernames *names, uint32_t uid, const char **ret)
{
    const struct entry *entry;

    /* Nobody needs NSS to know root, least of all while the machine boots. */
    *ret = uid == 0 ? "root" : NULL;
    if (uid == 0)
        return true;
    entry = find(names, uid);
    if (!entry || entry->lookup)
        return false;
    *ret = *entry->name ? entry->name : NULL;
    return true;
}

void usernames_nss(uint32_t uid, char *ret)
{
    struct passwd entry, *found = NULL;
    char *buffer = malloc(ENTRY_BYTES);

    if (buffer && getpwuid_r(uid, &entry, buffer, ENTRY_BYTES, &found) == 0 && found &&
        strlen(found->pw_name) <= PRINCIPAL_NAME_MAX)
        memcpy(ret, found->pw_name, strlen(found->pw_name) + 1);
    free(buffer);
}

static void work(void *arg)
{
    struct lookup *lookup = arg;

    lookup->look_up(lookup->uid, lookup->name);
}

static void worked(int r, void *arg)
{
    struct lookup *lookup = arg;
    struct entry *entry = NULL;

    if (lookup->names)
        HASH_FIND(hh, lookup->names->entries, &lookup->uid, sizeof lookup->uid, entry);
    if (entry) {
        entry->lookup = NULL;
        loop_timer_stop(entry->patience);
        memcpy(entry->name, lookup->name, sizeof entry->name);
        entry->until_ms = r < 0 ? 0 : clock_mono_ms() + (*entry->name ? KEEP_MS : NAMELESS_MS);
        answer(entry, *entry->name ? entry->name : NULL);
    }
    free(lookup);
}

static void impatient(void *arg)
{
    answer(arg, NULL);
}

static int start(struct entry *entry)
{
    struct lookup *lookup = calloc(1, sizeof *lookup);
    int r = lookup ? 0 : -ENOMEM;

    if (r == 0) {
        lookup->names = entry->names;
        lookup->look_up = entry->names->look_up;
        lookup->uid = entry->uid;
        r = loop_work_submit(entry->names->loop, work, worked, lookup);
    }
    if (r < 0) {
        free(lookup);
        return r;
    }
    entry->lookup = lookup;
    return 0;
}

static int make(struct usernames *names, uint32_t uid, struct entry **ret)
{
    struct entry *entry = calloc(1, sizeof *entry), *oldest = names->entries;
    int r;

    if (!entry)
        return -ENOMEM;
    entry->uid = uid;
    entry->names = names;
    r = loop_timer_new(names->loop, impatient, entry, &entry->patience);
    if (r < 0) {
        free(entry);
        return r;
    }
    if (HASH_COUNT(names->entries) >= ENTRIES_MAX && oldest)
        entry_free(oldest);
    HASH_ADD(hh, names->entries, uid, sizeof entry->uid, entry);
    r = start(entry);
    if (r < 0) {
        entry_free(entry);
        return r;
    }
    *ret = entry;
    return 0;
}

int usernames_ask(struct usernames *names, uint32_t uid, void (*done)(const char *name, void *arg),
                  void *arg)
{
    struct entry *entry = find(names, uid);
    struct asker *asker = calloc(1, sizeof *asker);
    int r = asker ? 0 : -ENOMEM;

    if (r == 0 && !entry)
        r = make(names, uid, &entry);
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
