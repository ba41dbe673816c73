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
