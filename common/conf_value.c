#include "common/conf_value.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

/* The columns that a printed list keeps to; every line of it stays below CONF_LINE_MAX. */
#define LIST_COLUMNS 100

/* What a text became, until it is known to be good. */
struct parsed {
    union {
        bool yes;
        int word;
        uint32_t u32;
        uint64_t u64;
        int64_t ms;
    };
    void *items;
    char *split;
    size_t n;
};

/* The largest that a type can hold, where the entry names no max. */
static uint64_t limit_of(const struct conf_entry *entry)
{
    if (entry->max)
        return entry->max;
    switch (entry->type) {
    case CONF_U32:
        return UINT32_MAX;
    case CONF_LIST:
    case CONF_RANGES:
        return CONF_LIST_MAX;
    case CONF_DURATION:
    case CONF_DURATION_NONE:
        return INT64_MAX - 1;
    case CONF_PATH:
        return TEXT_PATH_MAX;
    default:
        return UINT64_MAX;
    }
}

void conf_format_bound(const struct conf_entry *entry, uint64_t bound,
                       char ret[static TEXT_DURATION_BUF])
{
    if (entry->type == CONF_DURATION || entry->type == CONF_DURATION_NONE)
        text_format_duration((int64_t)bound, ret);
    else
        snprintf(ret, TEXT_DURATION_BUF, "%" PRIu64, bound);
}

static int check_bounds(const struct conf_entry *entry, uint64_t number, const char *what,
                        struct err *err)
{
    char bound[TEXT_DURATION_BUF];

    if (number < entry->min) {
        conf_format_bound(entry, entry->min, bound);
        return err_set(err, -EINVAL, "%s, at least %s", what, bound);
    }
    if (number > limit_of(entry)) {
        conf_format_bound(entry, limit_of(entry), bound);
        return err_set(err, -EINVAL, "%s, at most %s", what, bound);
    }
    return 0;
}

/* ---- one parser a type ---- */

static int parse_string(const struct conf_entry *entry, const char *text, struct err *err)
{
    char what[64];
    size_t len = strlen(text);

    snprintf(what, sizeof(what), "is %zu bytes long", len);
    if (check_bounds(entry, len, len ? what : "is empty", err) < 0)
        return -EINVAL;
    if (entry->type == CONF_PATH && len > 0)
        return text_check_path(text, len, err);
    return 0;
}

static int parse_bool(const char *text, bool *ret, struct err *err)
{
    static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};
    size_t i;

    for (i = 0; i < ARRAY_LEN(words); i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *ret = i % 2;
            return 0;
        }
    }
    return err_set(err, -EINVAL, "\"%s\" is neither yes nor no", text);
}

static int parse_number(const struct conf_entry *entry, const char *text, uint64_t *ret,
                        struct err *err)
{
    char what[128];
    int r;

    r = entry->type == CONF_SIZE ? text_parse_size(text, ret, err) : text_parse_u64(text, ret, err);
    if (r < 0)
        return -EINVAL;
    snprintf(what, sizeof(what), "%s is out of range", text);
    return check_bounds(entry, *ret, what, err);
}

static int parse_duration(const struct conf_entry *entry, const char *text, int64_t *ret,
                          struct err *err)
{
    char what[128];
    int r = text_parse_duration(text, ret, err);

    if (r == TEXT_NO_LIMIT && entry->type == CONF_DURATION_NONE) {
        *ret = CONF_NO_LIMIT_MS;
        return 0;
    }
    if (r == TEXT_NO_LIMIT)
        return err_set(err, -EINVAL, "\"none\" is not possible here, a duration is needed");
    if (r < 0)
        return -EINVAL;
    snprintf(what, sizeof(what), "%s is out of range", text);
    return check_bounds(entry, (uint64_t)*ret, what, err);
}

static int parse_word(const struct conf_entry *entry, const char *text, int *ret, struct err *err)
{
    char known[200];
    struct buf buf;
    int i;

    buf_init_fixed(&buf, known, sizeof(known));
    for (i = 0; entry->words[i]; i++) {
        if (strcmp(text, entry->words[i]) == 0) {
            *ret = i;
            return 0;
        }
        buf_addf(&buf, "%s%s", i ? ", " : "", entry->words[i]);
    }
    return err_set(err, -EINVAL, "\"%s\" is none of: %s", text, known);
}

/* Cut at commas and blanks, in place. A comma may end the list (it goes on in the next line), two in a row may not. */
static int split_list(char *text, const char **items, size_t max, size_t *ret_n, struct err *err)
{
    size_t n = 0, len;
    bool comma = true;

    for (text += strspn(text, " \t"); *text; text += strspn(text, " \t")) {
        if (*text == ',') {
            if (comma)
                return err_set(err, -EINVAL, "an item of the list is empty");
            comma = true;
            text++;
            continue;
        }
        if (n == max)
            return err_set(err, -EINVAL, "has more than %zu items", max);
        if (*text == '#' || *text == ';')
            return err_set(err, -EINVAL, "an item of the list begins with \"%c\"", *text);
        len = strcspn(text, ", \t");
        items[n++] = text;
        text += len;
        comma = *text == ',';
        if (*text)
            *text++ = '\0';
    }
    *ret_n = n;
    return 0;
}

static int parse_list(const struct conf_entry *entry, const char *text, struct parsed *parsed,
                      struct err *err)
{
    size_t max = (size_t)limit_of(entry);
    char what[64];
    int r;

    parsed->split = strdup(text);
    parsed->items = calloc(max ? max : 1, sizeof(char *));
    if (!parsed->split || !parsed->items)
        return err_set(err, -ENOMEM, "no memory");
    r = split_list(parsed->split, parsed->items, max, &parsed->n, err);
    if (r < 0)
        return r;
    snprintf(what, sizeof(what), "has %zu items", parsed->n);
    return check_bounds(entry, parsed->n, what, err);
}

/* The items of a list in the form that text_parse_ranges reads. */
static int join_ranges(const struct parsed *list, struct buf *buf)
{
    const char *const *items = list->items;
    size_t i;

    for (i = 0; i < list->n; i++)
        buf_addf(buf, "%s%s", i ? "," : "", items[i]);
    return buf_error(buf);
}

static int parse_ranges(const struct conf_entry *entry, const char *text, struct parsed *parsed,
                        struct err *err)
{
    AUTO(buf_done) struct buf joined = BUF_INIT(CONF_FILE_MAX);
    struct parsed list = {0};
    int r;

    r = parse_list(entry, text, &list, err);
    if (r == 0)
        r = join_ranges(&list, &joined);
    parsed->items = calloc(list.n ? list.n : 1, sizeof(struct text_range));
    if (r == 0 && !parsed->items)
        r = err_set(err, -ENOMEM, "no memory");
    if (r == 0 && list.n > 0)
        r = text_parse_ranges(buf_str(&joined), parsed->items, list.n, &parsed->n, err);
    free(list.items);
    free(list.split);
    return r == -ERANGE ? -EINVAL : r;
}

static int parse_value(const struct conf_entry *entry, const char *text, struct parsed *parsed,
                       struct err *err)
{
    int r;

    switch (entry->type) {
    case CONF_STRING:
    case CONF_PATH:
        return parse_string(entry, text, err);
    case CONF_BOOL:
        return parse_bool(text, &parsed->yes, err);
    case CONF_U32:
        r = parse_number(entry, text, &parsed->u64, err);
        parsed->u32 = (uint32_t)parsed->u64;
        return r;
    case CONF_U64:
    case CONF_SIZE:
        return parse_number(entry, text, &parsed->u64, err);
    case CONF_DURATION:
    case CONF_DURATION_NONE:
        return parse_duration(entry, text, &parsed->ms, err);
    case CONF_WORD:
        return parse_word(entry, text, &parsed->word, err);
    case CONF_LIST:
        return parse_list(entry, text, parsed, err);
    case CONF_RANGES:
        return parse_ranges(entry, text, parsed, err);
    }
    return err_set(err, -EINVAL, "has no type");
}

/* ---- into the settings ---- */

static void store(const struct conf_entry *entry, const struct conf_value *value,
                  const struct parsed *parsed, void *at)
{
    switch (entry->type) {
    case CONF_STRING:
    case CONF_PATH:
        *(const char **)at = value->text;
        break;
    case CONF_BOOL:
        *(bool *)at = parsed->yes;
        break;
    case CONF_U32:
        *(uint32_t *)at = parsed->u32;
        break;
    case CONF_U64:
    case CONF_SIZE:
        *(uint64_t *)at = parsed->u64;
        break;
    case CONF_DURATION:
    case CONF_DURATION_NONE:
        *(int64_t *)at = parsed->ms;
        break;
    case CONF_WORD:
        *(int *)at = parsed->word;
        break;
    case CONF_LIST:
        *(struct conf_list *)at = (struct conf_list){value->items, parsed->n};
        break;
    case CONF_RANGES:
        *(struct conf_ranges *)at = (struct conf_ranges){value->items, parsed->n};
        break;
    }
}

int conf_value_set(struct conf_value *value, const struct conf_entry *entry, const char *text,
                   const char *origin, void *settings, struct err *err)
{
    struct parsed parsed = {0};
    struct conf_value new = {.file = value->file};
    int r;

    r = parse_value(entry, text, &parsed, err);
    new.items = parsed.items;
    new.split = parsed.split;
    new.text = strdup(text);
    new.origin = origin ? strdup(origin) : NULL;
    if (r == 0 && (!new.text || (origin && !new.origin)))
        r = err_set(err, -ENOMEM, "no memory");
    if (r < 0) {
        conf_value_done(&new);
        return r;
    }
    conf_value_done(value);
    *value = new;
    store(entry, value, &parsed, (char *)settings + entry->offset);
    return 0;
}

void conf_value_done(struct conf_value *value)
{
    free(value->text);
    free(value->origin);
    free(value->items);
    free(value->split);
    *value = (struct conf_value){0};
}

/* ---- out again ---- */

/* A longer item has a line of its own. What indents is one byte: what could be read fits again. */
static void print_list(const char *text, size_t column, struct buf *buf)
{
    const char *before = "";
    size_t len;

    for (text += strspn(text, " \t,"); *text; text += len + strspn(text + len, " \t,")) {
        len = strcspn(text, " \t,");
        if (column + len > LIST_COLUMNS) {
            before = "\n\t";
            column = 1;
        }
        buf_adds(buf, before);
        buf_add(buf, text, len);
        column += len + 2;
        before = ", ";
    }
}

void conf_value_print(const struct conf_value *value, const struct conf_entry *entry,
                      struct buf *buf)
{
    size_t key = strlen(entry->key);
    bool list = entry->type == CONF_LIST || entry->type == CONF_RANGES;

    /* Blanks around the sign are left out where the line would become too long by them. */
    buf_addf(buf, "%s%s", entry->key,
             !list && key + 3 + strlen(value->text) > CONF_LINE_MAX ? "=" : " = ");
    if (list)
        print_list(value->text, key + 3, buf);
    else
        buf_adds(buf, value->text);
}
