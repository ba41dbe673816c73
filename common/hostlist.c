#include "common/hostlist.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"

/* So many digits fit into a u64, whatever they are. */
#define DIGITS_MAX 18
/* Every part of an item adds at least one byte to a name. */
#define PARTS_MAX TEXT_NODE_MAX

struct span {
    uint64_t first, last;
    unsigned width; /* digits, with leading zeros; 0 = as many as needed */
};

/* A piece of an item: literal text, or a bracket's spans, of which [span, n] stands for the number that is up. */
struct part {
    const char *literal;
    size_t len;
    size_t first_span, n_spans; /* in the parser's spans; n_spans 0 = literal */
    size_t span;
    uint64_t value;
};

struct parser {
    const char *text;
    size_t len, at, max;
    struct part parts[PARTS_MAX];
    size_t n_parts;
    struct span *spans; /* of the current item */
    size_t n_spans, cap_spans;
    struct buf bytes; /* the names, each with its NUL */
    size_t *offsets;  /* where each begins */
    size_t n, cap;
    struct err *err;
};

/* ---- parse ---- */

static int fail_at(struct parser *p, size_t at, const char *what)
{
    char shown[120];

    text_escape(p->text, p->len, shown, sizeof(shown));
    return err_set(p->err, -EINVAL, "%s: byte %zu: %s", shown, at, what);
}

static int too_many(struct parser *p)
{
    return err_set(p->err, -E2BIG, "more than %zu names", p->max);
}

/* Whether the text goes on with c; passed over if so. */
static bool skip(struct parser *p, char c)
{
    if (p->at == p->len || p->text[p->at] != c)
        return false;
    p->at++;
    return true;
}

static int parse_number(struct parser *p, uint64_t *ret, unsigned *ret_digits)
{
    size_t start = p->at;
    uint64_t value = 0;

    for (; p->at < p->len && p->text[p->at] >= '0' && p->text[p->at] <= '9'; p->at++) {
        if (p->at - start == DIGITS_MAX)
            return fail_at(p, start, "the number is too long");
        value = value * 10 + (uint64_t)(p->text[p->at] - '0');
    }
    if (p->at == start)
        return fail_at(p, start, "a number is expected");
    *ret = value;
    *ret_digits = (unsigned)(p->at - start);
    return 0;
}

static int parse_span(struct parser *p)
{
    size_t start = p->at, second;
    unsigned first_digits, last_digits;
    bool padded;
    struct span span;
    int r;

    r = parse_number(p, &span.first, &first_digits);
    if (r < 0)
        return r;
    padded = first_digits > 1 && p->text[start] == '0';
    span.last = span.first;
    if (skip(p, '-')) {
        second = p->at;
        r = parse_number(p, &span.last, &last_digits);
        if (r < 0)
            return r;
        if (last_digits > 1 && p->text[second] == '0')
            padded = true;
        if (padded && last_digits != first_digits)
            return fail_at(p, start, "both ends of a padded range need the same width");
        if (span.last < span.first)
            return fail_at(p, start, "the range runs backwards");
    }
    span.width = padded ? first_digits : 0;
    r = mem_grow(&p->spans, &p->cap_spans, p->n_spans + 1, p->max, sizeof(span));
    if (r < 0)
        return r == -ENOBUFS ? too_many(p) : r;
    p->spans[p->n_spans++] = span;
    return 0;
}

static int parse_bracket(struct parser *p, struct part *part)
{
    int r;

    part->first_span = p->n_spans;
    do {
        r = parse_span(p);
        if (r < 0)
            return r;
    } while (skip(p, ','));
    if (!skip(p, ']'))
        return fail_at(p, p->at,
                       p->at == p->len ? "\"]\" is missing" : "\",\" or \"]\" is expected");
    part->n_spans = p->n_spans - part->first_span;
    return 0;
}

static void parse_literal(struct parser *p, struct part *part)
{
    size_t start = p->at;

    while (p->at < p->len && !memchr("[],", p->text[p->at], 3))
        p->at++;
    part->literal = p->text + start;
    part->len = p->at - start;
}

/* Up to the comma or the end. */
static int parse_item(struct parser *p)
{
    struct part *part;
    int r;

    p->n_parts = p->n_spans = 0;
    while (p->at < p->len && p->text[p->at] != ',') {
        if (p->n_parts == PARTS_MAX)
            return fail_at(p, p->at, "the name is too long");
        part = &p->parts[p->n_parts++];
        *part = (struct part){0};
        if (p->text[p->at] == ']')
            return fail_at(p, p->at, "\"]\" without \"[\"");
        if (!skip(p, '[')) {
            parse_literal(p, part);
            continue;
        }
        r = parse_bracket(p, part);
        if (r < 0)
            return r;
    }
    return p->n_parts ? 0 : fail_at(p, p->at, "a name is expected");
}

/* ---- write out ---- */

static void rewind_part(struct parser *p, struct part *part)
{
    part->span = part->first_span;
    if (part->n_spans > 0)
        part->value = p->spans[part->span].first;
}

/* The next number of a bracket; false = it began anew. */
static bool step_part(struct parser *p, struct part *part)
{
    if (part->n_spans == 0)
        return false;
    if (part->value < p->spans[part->span].last) {
        part->value++;
        return true;
    }
    if (part->span + 1 < part->first_span + part->n_spans) {
        part->value = p->spans[++part->span].first;
        return true;
    }
    rewind_part(p, part);
    return false;
}

/* The last bracket runs fastest. false = all have been. */
static bool step_item(struct parser *p)
{
    size_t i;

    for (i = p->n_parts; i > 0; i--)
        if (step_part(p, &p->parts[i - 1]))
            return true;
    return false;
}

static int add_name(struct parser *p, size_t item_at)
{
    size_t start = p->bytes.len, i;
    struct err why;
    int r;

    if (p->n == p->max)
        return too_many(p);
    r = mem_grow(&p->offsets, &p->cap, p->n + 1, p->max, sizeof(*p->offsets));
    if (r < 0)
        return r;
    for (i = 0; i < p->n_parts; i++) {
        const struct part *part = &p->parts[i];

        if (part->n_spans == 0)
            buf_add(&p->bytes, part->literal, part->len);
        else
            buf_addf(&p->bytes, "%0*llu", (int)p->spans[part->span].width,
                     (unsigned long long)part->value);
    }
    r = buf_error(&p->bytes);
    if (r == 0 && text_check_node(p->bytes.data + start, p->bytes.len - start, &why) < 0)
        return fail_at(p, item_at, why.text);
    buf_addc(&p->bytes, '\0');
    p->offsets[p->n++] = start;
    return buf_error(&p->bytes);
}

static int expand_item(struct parser *p)
{
    size_t item_at = p->at, i;
    int r;

    r = parse_item(p);
    if (r < 0)
        return r;
    for (i = 0; i < p->n_parts; i++)
        rewind_part(p, &p->parts[i]);
    do {
        r = add_name(p, item_at);
        if (r < 0)
            return r;
    } while (step_item(p));
    return 0;
}

/* ---- duplicates ---- */

static int compare_names(const void *a, const void *b)
{
    const char *const *left = a, *const *right = b;
    int r = strcmp(*left, *right);

    /* Equal names by place, which is the order of the addresses: the first one stays. */
    return r ? r : (*left > *right) - (*left < *right);
}

/* Mark every later copy of a name by cutting it to nothing, then close the gaps. */
static int drop_duplicates(struct hostlist *list)
{
    auto_free char **sorted = NULL;
    size_t i, n = 0;

    sorted = calloc(list->n, sizeof(*sorted));
    if (!sorted)
        return -ENOMEM;
    memcpy(sorted, list->names, list->n * sizeof(*sorted));
    qsort(sorted, list->n, sizeof(*sorted), compare_names);
    for (i = list->n - 1; i > 0; i--)
        if (strcmp(sorted[i], sorted[i - 1]) == 0)
            sorted[i][0] = '\0';
    for (i = 0; i < list->n; i++)
        if (list->names[i][0])
            list->names[n++] = list->names[i];
    list->n = n;
    return 0;
}

static int finish(struct parser *p, struct hostlist *ret)
{
    AUTO(hostlist_done) struct hostlist list = {0};
    size_t i;
    int r;

    r = buf_take(&p->bytes, &list.bytes, NULL);
    if (r < 0)
        return r;
    list.names = calloc(p->n, sizeof(*list.names));
    if (!list.names)
        return -ENOMEM;
    list.n = p->n;
    for (i = 0; i < p->n; i++)
        list.names[i] = list.bytes + p->offsets[i];
    r = drop_duplicates(&list);
    if (r < 0)
        return r;
    *ret = list;
    list = (struct hostlist){0};
    return 0;
}

static int expand_all(struct parser *p)
{
    int r;

    do {
        r = expand_item(p);
        if (r < 0)
            return r;
    } while (skip(p, ','));
    return 0;
}

int hostlist_expand(const char *text, size_t len, size_t max, struct hostlist *ret, struct err *err)
{
    struct parser p = {.text = text, .len = len, .err = err};
    int r;

    p.max = max > 0 && max < HOSTLIST_MAX ? max : HOSTLIST_MAX;
    if (len == 0)
        return err_set(err, -EINVAL, "the list of nodes is empty");
    if (len > HOSTLIST_TEXT_MAX)
        return err_set(err, -E2BIG, "the list of nodes is longer than %d bytes", HOSTLIST_TEXT_MAX);
    buf_init(&p.bytes, p.max * (TEXT_NODE_MAX + 1) + HOSTLIST_TEXT_MAX);
    r = expand_all(&p);
    if (r == 0)
        r = finish(&p, ret);
    if (r == -ENOMEM || r == -ENOBUFS)
        err_set(err, r, "no memory for the list of nodes");
    free(p.spans);
    free(p.offsets);
    buf_done(&p.bytes);
    return r;
}

void hostlist_done(struct hostlist *list)
{
    free(list->names);
    free(list->bytes);
    *list = (struct hostlist){0};
}

bool hostlist_contains(const struct hostlist *list, const char *name)
{
    size_t i;

    for (i = 0; i < list->n; i++)
        if (strcmp(list->names[i], name) == 0)
            return true;
    return false;
}
