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
#define ENTRIES_MAX 4096
#define PATIENCE_MS 500
#define ENTRY_BYTES (64 * 1024)

/* One look-up on a thread of the pool; outlives everything if NSS hangs. */
struct lookup {
    struct usernames *names; /* NULL: nobody wants it any more */
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
    bool known;
    int64_t until_ms;      /* known: forget then */
    struct lookup *lookup; /* under way */
    struct loop_timer *patience;
    struct asker *askers;
    struct usernames *names;
    UT_hash_handle hh;
};

struct usernames {
    struct loop *loop;
    struct entry *entries;
};

int usernames_new(struct loop *loop, struct usernames **ret)
{
    struct usernames *names = calloc(1, sizeof *names);

    if (!names)
        return -ENOMEM;
    names->loop = loop;
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
    if (entry && entry->known && entry->until_ms < clock_mono_ms()) {
        entry_free(entry);
        return NULL;
    }
    return entry;
}

const char *usernames_known(struct usernames *names, uint32_t uid)
{
    const struct entry *entry;

    /* Nobody needs NSS to know root, least of all while the machine boots. */
    if (uid == 0)
        return "root";
    entry = find(names, uid);
    return entry && entry->known && *entry->name ? entry->name : NULL;
}

static void work(void *arg)
{
    struct lookup *lookup = arg;
    struct passwd entry, *found = NULL;
    char *buffer = malloc(ENTRY_BYTES);

    if (buffer && getpwuid_r(lookup->uid, &entry, buffer, ENTRY_BYTES, &found) == 0 && found &&
        strlen(found->pw_name) <= PRINCIPAL_NAME_MAX)
        memcpy(lookup->name, found->pw_name, strlen(found->pw_name) + 1);
    free(buffer);
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
        entry->known = r == 0;
        entry->until_ms = clock_mono_ms() + KEEP_MS;
        memcpy(entry->name, lookup->name, sizeof entry->name);
        answer(entry, *entry->name ? entry->name : NULL);
        if (!entry->known)
            entry_free(entry);
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
    struct asker *asker;
    int r = 0;

    if (!entry)
        r = make(names, uid, &entry);
    else if (entry->known)
        r = start(entry); /* known to have no name: ask again, it may have got one */
    if (r < 0)
        return r;
    asker = calloc(1, sizeof *asker);
    if (!asker)
        return -ENOMEM;
    asker->done = done;
    asker->arg = arg;
    asker->next = entry->askers;
    entry->askers = asker;
    loop_timer_start(entry->patience, PATIENCE_MS, 0);
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
