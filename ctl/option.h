/* Options as tables: one entry serves parsing, --help and completion.
 *
 * A value goes to entry.offset of the verb's own struct; what is not given stays zero. Repeating an option that is no list
 * is an error: nobody can tell which one was meant. */
#ifndef XCE_CTL_OPTION_H
#define XCE_CTL_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum option_type {
    OPTION_FLAG,     /* bool */
    OPTION_TEXT,     /* const char *, not empty */
    OPTION_LIST,     /* struct option_list: may be repeated; not empty */
    OPTION_U32,      /* uint32_t, above 0 */
    OPTION_U64,      /* uint64_t, above 0 */
    OPTION_NUMBER,   /* struct option_number: 0 is a value too */
    OPTION_DURATION, /* int64_t ms, above 0 */
    OPTION_TTL,      /* int64_t ms, above 0; XCE_TTL_NONE for "none" */
    OPTION_WORD,     /* const char *: one of words, itself out of that list */
    OPTION_OPTIONAL, /* as OPTION_WORD, but the word may be left out (--wait, --wait=free): the first then */
};

struct option_list {
    const char **items;
    size_t n;
};

struct option_number {
    bool given;
    uint64_t value;
};

struct option_entry {
    const char *name;
    char letter; /* 0 = none */
    enum option_type type;
    size_t offset;
    const char *arg;          /* what --help calls the value */
    const char *help;         /* one line */
    const char *const *words; /* OPTION_WORD, OPTION_OPTIONAL: NULL-terminated */
};

/* Entries end with one whose name is NULL; memory is where their values go. */
struct option_set {
    const struct option_entry *entries;
    void *memory;
};

/* Read argv[1..argc), argv[0] being a name for messages. Sets are searched in order. stop: the first word that is no option
 * ends them, else options and words may be mixed; "--" always ends them.
 * *ret_first = index of the first word that is left; the words are moved to the end of argv.
 * 0; -EINVAL, err names the option; -ENOMEM. */
int option_parse(int argc, char **argv, bool stop, const struct option_set *sets, size_t n_sets,
                 int *ret_first, struct err *err);

/* Free what lists hold. */
void option_done(const struct option_set *sets, size_t n_sets);

/* The spellings for --help: "-o, --columns COLUMNS". Returns ret. */
const char *option_spelling(const struct option_entry *entry, char *ret, size_t size);

#endif
