#include "noded/retired.h"

#include <stdlib.h>

#include "common/mem.h"

void retired_done(struct retired_list *list)
{
    free(list->items);
    *list = (struct retired_list){0};
}

void retired_add(struct retired_list *list, uint32_t uid)
{
    uint64_t nr = ++list->nr;

    mem_must_grow(&list->items, &list->cap, list->n + 1, sizeof(*list->items));
    list->items[list->n++] = (struct retired){uid, nr, nr};
}

bool retired_has(const struct retired_list *list, uint32_t uid)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->items[i].uid == uid)
            return true;
    return false;
}

static int by_uid(const void *a, const void *b)
{
    const struct retired *x = a, *y = b;

    if (x->uid != y->uid)
        return x->uid < y->uid ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

void retired_tidy(struct retired_list *list, bool (*keep)(uint32_t uid, void *arg), void *arg)
{
    size_t kept = 0;

    if (list->n)
        qsort(list->items, list->n, sizeof(*list->items), by_uid);
    for (size_t i = 0; i < list->n; i++) {
        const struct retired *item = &list->items[i];
        struct retired *before = kept ? &list->items[kept - 1] : NULL;
        if (before && before->uid == item->uid)
            before->last = item->last > before->last ? item->last : before->last;
        else if (keep(item->uid, arg))
            list->items[kept++] = *item;
    }
    list->n = kept;
}

bool retired_wanted(const struct retired_list *list, uint64_t nr)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->items[i].first <= nr)
            return true;
    return false;
}

void retired_walked(struct retired_list *list, uint64_t nr)
{
    size_t kept = 0;

    for (size_t i = 0; i < list->n; i++) {
        struct retired item = list->items[i];
        if (item.last <= nr)
            continue;
        if (item.first <= nr)
            item.first = nr + 1;
        list->items[kept++] = item;
    }
    list->n = kept;
}
