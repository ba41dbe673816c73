/* One value of a configuration: its text, where it came from, and how it gets into the settings struct. Of conf*.c alone. */
#ifndef XCE_COMMON_CONF_VALUE_H
#define XCE_COMMON_CONF_VALUE_H

#include "common/conf.h"

struct conf_value {
    char *text;   /* as written; strings in settings point here */
    char *origin; /* NULL = default */
    int file;     /* number of the file that set it; 0 = none */
    void *items;  /* of lists and ranges */
    char *split;  /* a list's text, cut into its items */
};

/* Parse text as entry says and put it into settings; the value keeps copies of text and origin (may be NULL).
 * 0; -EINVAL with err ("30x: unknown unit ..."), -ENOMEM: value and settings unchanged. */
int conf_value_set(struct conf_value *value, const struct conf_entry *entry, const char *text,
                   const char *origin, void *settings, struct err *err);
void conf_value_done(struct conf_value *value);

/* Add "Key = value" as one would write it in a file, a long list over several lines. */
void conf_value_print(const struct conf_value *value, const struct conf_entry *entry,
                      struct buf *buf);

/* min or max of an entry as text. */
void conf_format_bound(const struct conf_entry *entry, uint64_t bound,
                       char ret[static TEXT_DURATION_BUF]);

struct conf {
    const struct conf_table *table;
    char *path;
    bool must_exist;
    struct conf_override *overrides; /* strings owned */
    size_t n_overrides;
    struct conf_value *values; /* as many as the table has entries */
    void *settings;
    int files; /* read so far */
};

#endif
