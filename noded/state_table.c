#include "noded/state_table.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define TABLE_FIRST 256

/* Uids of a pool come in rows: spread them (Fibonacci hashing), or the rows would meet each other. */
static size_t place_of(const struct table *t, uint32_t uid)
{
    return (size_t)((uid * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (t->cap - 1);
}

struct seen *table_find(const struct table *t, uint32_t uid)
{
    if (!t->cap)
        return NULL;
    for (size_t at = place_of(t, uid); t->seen[at].uid; at = (at + 1) & (t->cap - 1))
        if (t->seen[at].uid == uid)
            return &t->seen[at];
    return NULL;
}

static struct seen *place_free(struct table *t, uint32_t uid)
{
    size_t at = place_of(t, uid);

    while (t->seen[at].uid)
        at = (at + 1) & (t->cap - 1);
    return &t->seen[at];
}

static void table_grow(struct table *t)
{
    struct table bigger = {.n = t->n, .cap = t->cap ? t->cap * 2 : TABLE_FIRST};

    bigger.seen = mem_must_calloc(bigger.cap, sizeof(*bigger.seen));
    for (size_t i = 0; i < t->cap; i++)
        if (t->seen[i].uid)
            *place_free(&bigger, t->seen[i].uid) = t->seen[i];
    free(t->seen);
    *t = bigger;
}

struct seen *table_put(struct table *t, uint32_t uid)
{
    struct seen *seen = table_find(t, uid);

    if (seen)
        return seen;
    if ((t->n + 1) * 4 > t->cap * 3)
        table_grow(t);
    seen = place_free(t, uid);
    seen->uid = uid;
    t->n++;
    return seen;
}

struct seen *table_next(const struct table *t, size_t *at)
{
    for (; *at < t->cap; (*at)++)
        if (t->seen[*at].uid)
            return &t->seen[(*at)++];
    return NULL;
}

void table_done(struct table *t)
{
    free(t->seen);
    *t = (struct table){0};
}

/* ---- by lease ---- */

static size_t index_place(const struct lease_index *index, uint64_t lease)
{
    return (size_t)((lease * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (index->cap - 1);
}

static void index_set(struct lease_index *index, uint64_t lease, uint32_t uid)
{
    size_t at = index_place(index, lease);

    while (index->uids[at] && index->uids[at] != uid)
        at = (at + 1) & (index->cap - 1);
    index->n += !index->uids[at];
    index->uids[at] = uid;
}

/* Of the leases that there are. */
static void index_make(struct lease_index *index, const struct table *table)
{
    struct lease_index fresh = {.cap = TABLE_FIRST};
    const struct seen *seen;
    size_t n = 0;

    for (size_t at = 0; (seen = table_next(table, &at));)
        n += seen->slot != NULL;
    while (fresh.cap < (n + 1) * 2)
        fresh.cap *= 2;
    fresh.uids = mem_must_calloc(fresh.cap, sizeof(*fresh.uids));
    for (size_t at = 0; (seen = table_next(table, &at));)
        if (seen->slot)
            index_set(&fresh, seen->slot->lease, seen->uid);
    free(index->uids);
    *index = fresh;
}

void lease_index_put(struct lease_index *index, const struct table *table, uint64_t lease,
                     uint32_t uid)
{
    if ((index->n + 1) * 4 > index->cap * 3)
        index_make(index, table);
    else
        index_set(index, lease, uid);
}

uint32_t lease_index_find(const struct lease_index *index, const struct table *table,
                          uint64_t lease)
{
    if (!index->cap)
        return 0;
    for (size_t at = index_place(index, lease); index->uids[at]; at = (at + 1) & (index->cap - 1)) {
        const struct seen *seen = table_find(table, index->uids[at]);
        if (seen && seen->slot && seen->slot->lease == lease)
            return seen->uid;
    }
    return 0;
}

void lease_index_done(struct lease_index *index)
{
    free(index->uids);
    *index = (struct lease_index){0};
}

void uids_add(struct uids *u, uint32_t uid)
{
    mem_must_grow(&u->items, &u->cap, u->n + 1, sizeof(uid));
    u->items[u->n++] = uid;
}

void uids_done(struct uids *u)
{
    free(u->items);
    *u = (struct uids){0};
}

/* In one piece: there may be many of them at once. */
struct waiting_lease *waiting_new(const struct state_lease *lease)
{
    size_t gecos = strlen(lease->gecos) + 1, home = strlen(lease->home) + 1;
    size_t shell = strlen(lease->shell) + 1, gids = lease->n_gids * sizeof(uint32_t);
    struct waiting_lease *w = mem_must_calloc(1, sizeof(*w) + gids + gecos + home + shell);
    char *text = (char *)w->gids + gids;

    w->home = (uint16_t)gecos;
    w->shell = (uint16_t)(gecos + home);
    w->n_gids = lease->n_gids;
    w->text = text;
    if (gids)
        memcpy(w->gids, lease->gids, gids);
    memcpy(text, lease->gecos, gecos);
    memcpy(text + w->home, lease->home, home);
    memcpy(text + w->shell, lease->shell, shell);
    return w;
}

void waiting_free(struct waiting_lease *w)
{
    free(w);
}
