/* Configuration: whatever the bytes are, they are read or refused with a line; what was read prints to something that
 * reads back to the same values. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf.h"

struct settings {
    const char *text, *path;
    bool yes;
    uint32_t u32;
    uint64_t u64, size;
    int64_t ms, ms_none;
    int word;
    struct conf_list list;
    struct conf_ranges ranges;
};

static const char *const words[] = {"all", "own", NULL};

#define AT(field) offsetof(struct settings, field)
static const struct conf_entry entries[] = {
    {"a", "Text", CONF_STRING, AT(text), .fallback = ""},
    {"a", "Path", CONF_PATH, AT(path), .fallback = "/x"},
    {"a", "Yes", CONF_BOOL, AT(yes), .fallback = "yes"},
    {"a", "U32", CONF_U32, AT(u32), .fallback = "5", .min = 2, .max = 1000},
    {"b", "U64", CONF_U64, AT(u64), .fallback = "6"},
    {"b", "Size", CONF_SIZE, AT(size), .fallback = "4K"},
    {"b", "Ms", CONF_DURATION, AT(ms), .fallback = "1m", .max = 86400000},
    {"b", "MsNone", CONF_DURATION_NONE, AT(ms_none), .fallback = "none"},
    {"c", "Word", CONF_WORD, AT(word), .fallback = "all", .words = words},
    {"c", "List", CONF_LIST, AT(list), .fallback = "a b,c", .max = 20},
    {"c", "Ranges", CONF_RANGES, AT(ranges), .fallback = "1-2,3"},
};
static const struct conf_table table = {entries, ARRAY_LEN(entries), sizeof(struct settings), NULL};

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void compare(const struct settings *a, const struct settings *b)
{
    size_t i;

    must(strcmp(a->text, b->text) == 0 && strcmp(a->path, b->path) == 0);
    must(a->yes == b->yes && a->u32 == b->u32 && a->u64 == b->u64 && a->size == b->size);
    must(a->ms == b->ms && a->ms_none == b->ms_none && a->word == b->word);
    must(a->list.n == b->list.n && a->ranges.n == b->ranges.n);
    for (i = 0; i < a->list.n; i++)
        must(strcmp(a->list.items[i], b->list.items[i]) == 0);
    for (i = 0; i < a->ranges.n; i++)
        must(a->ranges.items[i].first == b->ranges.items[i].first &&
             a->ranges.items[i].last == b->ranges.items[i].last);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct conf *conf = NULL, *again = NULL;
    struct buf text = BUF_INIT(1 << 24);
    struct err err = {0};
    int r;

    r = conf_load_bytes(&table, "file", (const char *)data, size, &conf, &err);
    if (r < 0) {
        must(err.text[0] != '\0' &&
             text_check(err.text, strlen(err.text), ERR_TEXT_MAX, NULL) == 0);
        return 0;
    }
    conf_print_effective(conf, &text);
    must(buf_error(&text) == 0);
    r = conf_load_bytes(&table, "again", buf_str(&text), text.len, &again, &err);
    must(r == 0);
    compare(conf_settings(conf), conf_settings(again));
    conf_free(conf);
    conf_free(again);
    buf_done(&text);
    return 0;
}
