#include <string.h>

#include "common/conf_value.h"

const char *conf_type_name(enum conf_type type)
{
    switch (type) {
    case CONF_STRING:
        return "string";
    case CONF_PATH:
        return "path";
    case CONF_BOOL:
        return "yes|no";
    case CONF_U32:
    case CONF_U64:
        return "number";
    case CONF_SIZE:
        return "size";
    case CONF_DURATION:
        return "duration";
    case CONF_DURATION_NONE:
        return "duration|none";
    case CONF_WORD:
        return "word";
    case CONF_LIST:
        return "list";
    case CONF_RANGES:
        return "uid ranges";
    }
    return "";
}

void conf_row(const struct conf *conf, size_t i, struct conf_row *ret)
{
    const struct conf_value *value = &conf->values[i];

    *ret = (struct conf_row){.entry = &conf->table->entries[i],
                             .value = value->text,
                             .origin = value->origin ? value->origin : "default"};
}

/* Whether entry i is the first of its section. */
static bool begins_section(const struct conf_table *table, size_t i)
{
    return i == 0 || strcmp(table->entries[i].section, table->entries[i - 1].section) != 0;
}

static void print_section(const struct conf_table *table, size_t i, struct buf *buf)
{
    if (begins_section(table, i))
        buf_addf(buf, "%s[%s]\n", i ? "\n" : "", table->entries[i].section);
}

void conf_print_effective(const struct conf *conf, struct buf *buf)
{
    const struct conf_table *table = conf->table;
    struct conf_row row;
    size_t i;

    for (i = 0; i < table->n; i++) {
        print_section(table, i, buf);
        conf_row(conf, i, &row);
        buf_addf(buf, "# %s\n", row.origin);
        conf_value_print(&conf->values[i], row.entry, buf);
        buf_addc(buf, '\n');
    }
}

static void print_words(const struct conf_entry *entry, struct buf *buf)
{
    size_t i;

    for (i = 0; entry->words[i]; i++)
        buf_addf(buf, "%s%s", i ? "|" : "", entry->words[i]);
}

/* "number, 1 to 64", "duration, at least 1s" */
static void print_type(const struct conf_entry *entry, struct buf *buf)
{
    char low[TEXT_DURATION_BUF], high[TEXT_DURATION_BUF];

    if (entry->type == CONF_WORD) {
        print_words(entry, buf);
        return;
    }
    buf_adds(buf, conf_type_name(entry->type));
    conf_format_bound(entry, entry->min, low);
    conf_format_bound(entry, entry->max, high);
    if (entry->min && entry->max)
        buf_addf(buf, ", %s to %s", low, high);
    else if (entry->min)
        buf_addf(buf, ", at least %s", low);
    else if (entry->max)
        buf_addf(buf, ", at most %s", high);
}

void conf_print_sample(const struct conf_table *table, struct buf *buf)
{
    const struct conf_entry *entry;
    size_t i;

    for (i = 0; i < table->n; i++) {
        entry = &table->entries[i];
        print_section(table, i, buf);
        buf_addf(buf, "# %s (", entry->help ? entry->help : entry->key);
        print_type(entry, buf);
        buf_addf(buf, "%s)\n#%s = %s\n", entry->restart ? "; takes a restart" : "", entry->key,
                 entry->fallback ? entry->fallback : "");
    }
}
