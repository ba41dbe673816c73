#include "leased/fsm/intern.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "leased/fsm/hash.h"

struct intern_string {
    uint32_t refs;
    uint32_t id;
    uint32_t next; /* in the chain of its head, or of free ids */
    uint32_t hash;
    uint32_t len;
    char text[];
};

static struct intern_string *of(const char *string)
{
    return CONTAINER_OF(string, struct intern_string, text);
}

static size_t cost(size_t len)
{
    return sizeof(struct intern_string) + len + 1 + sizeof(void *) + sizeof(uint32_t);
}

void intern_init(struct intern *intern, uint64_t key)
{
    *intern = (struct intern){.key = key, .n_heads = 64, .n_ids = 1};
    intern->heads = mem_must_calloc(intern->n_heads, sizeof(*intern->heads));
}

void intern_done(struct intern *intern)
{
    for (uint32_t id = 1; id < intern->n_ids; id++)
        free(intern->by_id[id]);
    free(intern->by_id);
    free(intern->heads);
    *intern = (struct intern){0};
}

static void grow_heads(struct intern *intern)
{
    uint32_t n = intern->n_heads * 2;
    uint32_t *heads = mem_must_calloc(n, sizeof(*heads));

    for (uint32_t id = 1; id < intern->n_ids; id++) {
        struct intern_string *s = intern->by_id[id];

        if (!s->refs)
            continue;
        s->next = heads[s->hash & (n - 1)];
        heads[s->hash & (n - 1)] = id;
    }
    free(intern->heads);
    intern->heads = heads;
    intern->n_heads = n;
}

static struct intern_string *find(const struct intern *intern, uint32_t hash, const void *bytes,
                                  size_t len)
{
    for (uint32_t id = intern->heads[hash & (intern->n_heads - 1)]; id;) {
        struct intern_string *s = intern->by_id[id];

        if (s->hash == hash && s->len == len && memcmp(s->text, bytes, len) == 0)
            return s;
        id = s->next;
    }
    return NULL;
}

/* A freed id keeps a stub without text, so that by_id never holds NULL. */
static uint32_t take_id(struct intern *intern)
{
    uint32_t id = intern->free_id;

    if (id) {
        intern->free_id = intern->by_id[id]->next;
        free(intern->by_id[id]);
        return id;
    }
    if (intern->n_ids >= intern->cap_ids) {
        intern->cap_ids = intern->cap_ids ? intern->cap_ids * 2 : 64;
        intern->by_id = mem_must_realloc(intern->by_id, intern->cap_ids, sizeof(*intern->by_id));
    }
    return intern->n_ids++;
}

const char *intern_add(struct intern *intern, const void *bytes, size_t len)
{
    uint32_t hash = (uint32_t)hash_bytes(intern->key, bytes, len);
    struct intern_string *s;

    if (!len)
        return NULL;
    s = find(intern, hash, bytes, len);
    if (s) {
        s->refs++;
        return s->text;
    }
    if (intern->n_strings >= intern->n_heads)
        grow_heads(intern);
    s = mem_must_alloc(sizeof(*s) + len + 1);
    *s = (struct intern_string){.refs = 1, .hash = hash, .len = (uint32_t)len};
    memcpy(s->text, bytes, len);
    s->text[len] = '\0';
    s->id = take_id(intern);
    intern->by_id[s->id] = s;
    s->next = intern->heads[hash & (intern->n_heads - 1)];
    intern->heads[hash & (intern->n_heads - 1)] = s->id;
    intern->n_strings++;
    intern->bytes += cost(len);
    return s->text;
}

const char *intern_text(struct intern *intern, const char *text)
{
    return text ? intern_add(intern, text, strlen(text)) : NULL;
}

const char *intern_ref(const char *string)
{
    if (string)
        of(string)->refs++;
    return string;
}

void intern_put(struct intern *intern, const char *string)
{
    struct intern_string *s, *stub;
    uint32_t *at;

    if (!string)
        return;
    s = of(string);
    assert(s->refs > 0);
    if (--s->refs)
        return;
    at = &intern->heads[s->hash & (intern->n_heads - 1)];
    while (*at != s->id)
        at = &intern->by_id[*at]->next;
    *at = s->next;
    intern->n_strings--;
    intern->bytes -= cost(s->len);
    stub = mem_must_realloc(s, 1, sizeof(*s));
    stub->next = intern->free_id;
    intern->free_id = stub->id;
    intern->by_id[stub->id] = stub;
}

const char *intern_find(const struct intern *intern, const void *bytes, size_t len)
{
    struct intern_string *s;

    if (!len)
        return NULL;
    s = find(intern, (uint32_t)hash_bytes(intern->key, bytes, len), bytes, len);
    return s ? s->text : NULL;
}

uint32_t intern_refs(const char *string)
{
    return of(string)->refs;
}

uint32_t intern_id(const char *string)
{
    return string ? of(string)->id : 0;
}

const char *intern_string(const struct intern *intern, uint32_t id)
{
    assert(id < intern->n_ids);
    return id ? intern->by_id[id]->text : NULL;
}
