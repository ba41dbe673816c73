/* Lists of uids, and of what was found about them. */
#include <stdint.h>
#include <stdlib.h>

#include "common/mem.h"
#include "noded/noded_inside.h"

void uid_list_add(struct uid_list *list, const struct state_epoch *entry)
{
    mem_must_grow(&list->items, &list->cap, list->n + 1, sizeof(*list->items));
    list->items[list->n++] = *entry;
}

bool uid_list_has(const struct uid_list *list, uint32_t uid)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->items[i].uid == uid)
            return true;
    return false;
}

void verdicts_add(struct verdicts *v, uint32_t uid, uint32_t epoch, unsigned reason,
                  const char *detail)
{
    mem_must_grow(&v->items, &v->cap, v->n + 1, sizeof(*v->items));
    v->items[v->n++] = (struct state_verdict){uid, epoch, reason, mem_must_strdup(detail)};
}

void verdicts_done(struct verdicts *v)
{
    for (size_t i = 0; i < v->n; i++)
        free((char *)(uintptr_t)v->items[i].detail);
    free(v->items);
    *v = (struct verdicts){0};
}

const struct state_verdict *verdicts_of(const struct verdicts *v, uint32_t uid)
{
    for (size_t i = 0; i < v->n; i++)
        if (v->items[i].uid == uid)
            return &v->items[i];
    return NULL;
}
