/* Configuration files: home of inih. A table of entries drives reading, checking, `config show --effective` and the
 * manual page; what is in no table is an error.
 *
 *     static const struct conf_entry entries[] = {
 *         {"leased", "Listen", CONF_STRING, offsetof(struct settings, listen), .fallback = "127.0.0.1:7623",
 *          .help = "where to listen"}, ...
 *
 * PATH (/etc/xce/leased.conf), then PATH.d/ *.conf in the order of their names' bytes; a later file wins. Form:
 *     # comment          ; comment            (also " ; comment" behind a value)
 *     [section]
 *     Key = value
 *     List = a, b
 *         c              an indented line goes on with a list; no other type may ("Key =" there is refused)
 * Values cannot hold " #" or " ;", list items cannot begin with # or ;. Only comments may be longer than CONF_LINE_MAX.
 * An unknown section or key, a key twice in one file, a wrong type, a value out of range, bytes that are no text, a line
 * above CONF_LINE_MAX: -EINVAL, and err reads "/etc/xce/leased.conf:12: leased.Listen: ...". A file that anybody but root
 * and the caller could have written is refused with -EPERM.
 * One thread at a time per object. */
#ifndef XCE_COMMON_CONF_H
#define XCE_COMMON_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/text.h"

#define CONF_LINE_MAX    196       /* bytes without line end: what inih reads whole everywhere */
#define CONF_FILE_MAX    (1 << 20) /* bytes */
#define CONF_FILES_MAX   256       /* drop-ins */
#define CONF_LIST_MAX    1024      /* items of a list */
#define CONF_NO_LIMIT_MS INT64_MAX /* CONF_DURATION_NONE: "none" was written */

/* What stands at conf_entry.offset. Pointers live as long as the struct conf. */
enum conf_type {
    CONF_STRING,        /* const char *; min and max are bytes */
    CONF_PATH,          /* const char *; absolute (text_check_path), or empty if min is 0 */
    CONF_BOOL,          /* bool; yes no true false on off 1 0 */
    CONF_U32,           /* uint32_t */
    CONF_U64,           /* uint64_t */
    CONF_SIZE,          /* uint64_t, bytes: 64K, 16M */
    CONF_DURATION,      /* int64_t, ms: 30s, 5m */
    CONF_DURATION_NONE, /* the same, or "none" = CONF_NO_LIMIT_MS */
    CONF_WORD,          /* int: place in words[] */
    CONF_LIST,          /* struct conf_list; by commas and blanks; min and max are items */
    CONF_RANGES,        /* struct conf_ranges: 1000-1999,5000-5999; min and max are ranges */
};

struct conf_list {
    const char *const *items;
    size_t n;
};

struct conf_ranges {
    const struct text_range *items;
    size_t n;
};

struct conf_entry {
    const char *section, *key; /* matched exactly, case included */
    enum conf_type type;
    size_t offset;            /* of the value in the program's settings struct */
    const char *fallback;     /* the default, as one would write it; NULL = must be given */
    uint64_t min, max;        /* in the type's unit; max 0 = the type's own limit */
    const char *const *words; /* CONF_WORD: NULL-terminated */
    bool restart;             /* a reload leaves the old value and says that a restart is needed */
    const char *help;         /* one line */
};

struct conf_table {
    const struct conf_entry *entries;
    size_t n;
    size_t settings_size;
    /* What one entry alone cannot tell. May be NULL. 0; -EINVAL with err. */
    int (*check)(const void *settings, struct err *err);
};

struct conf;

/* A value that comes from elsewhere than a file, and wins over it: an option, the environment. Kept over reloads. */
struct conf_override {
    const char *section, *key, *value;
    const char *origin; /* "XCE_SERVER", "--server" */
};

/* Read path and its drop-ins.
 *   must_exist  path was named by a person: its absence is -ENOENT; else every default holds
 *   overrides   copied; may be NULL with n 0
 * 0; -EINVAL, -EPERM, -ENOENT, -EFBIG, -ENOMEM, -errno of reading; err always says where and what. */
int conf_load(const struct conf_table *table, const char *path, bool must_exist,
              const struct conf_override *overrides, size_t n_overrides, struct conf **ret,
              struct err *err);
void conf_free(struct conf *conf);
AUTO_DEFINE_PTR(struct conf, conf_free);

/* The program's settings struct, filled. Borrowed; const for as long as conf lives. */
const void *conf_settings(const struct conf *conf);

/* Read everything again. On success *conf is the new one and the old one is freed (pointers into it die); on failure the
 * old one stays as it is. Entries marked restart keep their old value; their keys are added to pending (may be NULL),
 * "leased.Listen, leased.State". Errors as conf_load. */
int conf_reload(struct conf **conf, struct buf *pending, struct err *err);

/* One line of `config show --effective`. Strings live as long as conf. */
struct conf_row {
    const struct conf_entry *entry;
    const char *value;  /* as one would write it */
    const char *origin; /* "default", "/etc/xce/leased.conf:12", "XCE_SERVER" */
};

/* Row i of the table, i < table->n. */
void conf_row(const struct conf *conf, size_t i, struct conf_row *ret);

/* All of them, as a file that could be read again, each with its origin as a comment above. */
void conf_print_effective(const struct conf *conf, struct buf *buf);

/* The table itself with types, defaults and help, for a sample file: every key commented out. */
void conf_print_sample(const struct conf_table *table, struct buf *buf);

/* "duration", "size", ... for manual pages. Static. */
const char *conf_type_name(enum conf_type type);

/* Parse one file's bytes as if they stood in a file called name: for --check-config of stdin and the fuzzer. */
int conf_load_bytes(const struct conf_table *table, const char *name, const char *bytes, size_t len,
                    struct conf **ret, struct err *err);

#endif
