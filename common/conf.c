#include "common/conf.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/conf_value.h"
#include "common/fsutil.h"
#include "common/mem.h"

#define BLANKS " \t"

/* One file on its way through inih. */
struct reader {
    struct conf *conf;
    const char *name;         /* of the file */
    const char *bytes, *next; /* all of it, NUL behind; where the next line begins */
    unsigned line;            /* the one given to inih last; 1 = the first */
    bool indented;            /* that line begins with a blank */
    bool in_key;              /* an indented line would go on with a value */
    struct err *err;
    int error; /* the first failure; later lines do not matter any more */
};

__attribute__((format(printf, 3, 4))) static int fail(struct reader *reader, int r,
                                                      const char *format, ...)
{
    struct err why;
    va_list args;
    char text[ERR_TEXT_MAX + 1];

    if (reader->error)
        return reader->error;
    va_start(args, format);
    if (vsnprintf(text, sizeof(text), format, args) < 0)
        text[0] = '\0';
    va_end(args);
    err_set(&why, r, "%s:%u: %s", reader->name, reader->line, text);
    if (reader->err)
        *reader->err = why;
    reader->error = r;
    return r;
}

/* ---- lines, before inih sees them: it would cut or pass over what is wrong here ---- */

static bool is_comment(const char *text)
{
    return *text == '\0' || *text == '#' || *text == ';';
}

/* "[name]" and nothing but a comment behind. */
static int check_section(struct reader *reader, const char *line)
{
    const char *end = strchr(line, ']');

    if (!end)
        return fail(reader, -EINVAL, "\"]\" is missing");
    end++;
    if (!is_comment(end + strspn(end, BLANKS)))
        return fail(reader, -EINVAL, "\"%s\" follows the section's name",
                    end + strspn(end, BLANKS));
    reader->in_key = false;
    return 0;
}

/* A ";" behind a blank or the key's sign begins a comment. Versions of inih differ in whether that holds in a further line
 * of a list: it does. */
static void cut_comment(char *line)
{
    const char *sign = strchr(BLANKS, line[0]) ? NULL : strpbrk(line, "=:");
    char *at;

    for (at = line; *at; at++) {
        if (*at == ';' && (at == line || strchr(BLANKS, at[-1]) || at - 1 == sign)) {
            *at = '\0';
            break;
        }
    }
}

/* "Key =" or "Key= ": what no item of a list looks like, for it holds no blank. */
static bool looks_like_key(const char *text)
{
    size_t word = strcspn(text, BLANKS "=,"), blanks = strspn(text + word, BLANKS);

    if (word == 0 || text[word + blanks] != '=')
        return false;
    return blanks > 0 || (text[word + 1] != '\0' && strchr(BLANKS, text[word + 1]));
}

static int check_line(struct reader *reader, const char *line)
{
    const char *text = line + strspn(line, BLANKS);

    reader->indented = text > line;
    if (is_comment(text))
        return 0;
    if (reader->indented && !reader->in_key)
        return fail(reader, -EINVAL, "is indented: a key begins at the start of its line");
    if (reader->indented && looks_like_key(text))
        return fail(reader, -EINVAL,
                    "is indented and looks like a key: begin it at the start of its line");
    if (*text == '[' && !reader->indented)
        return check_section(reader, text);
    if (!reader->indented && !strpbrk(text, "=:"))
        return fail(reader, -EINVAL, "neither \"key = value\" nor \"[section]\": \"%s\"", text);
    reader->in_key = true;
    return 0;
}

/* A tab is a blank here; every other control character is refused. */
static int check_bytes(struct reader *reader, const char *line, size_t len)
{
    const char *tab;
    size_t at = 0, bad = 0, part;
    int r;

    for (; at < len; at += part + 1) {
        tab = memchr(line + at, '\t', len - at);
        part = tab ? (size_t)(tab - line) - at : len - at;
        r = text_check(line + at, part, part, &bad);
        if (r != 0)
            return fail(reader, -EINVAL, "%s at byte %zu", text_outcome_text(r), at + bad);
    }
    return 0;
}

/* One line, len bytes, for inih's buffer of size bytes. A comment may be of any length: it goes no further. */
static int take_line(struct reader *reader, const char *line, size_t len, char *ret, size_t size)
{
    size_t blanks = strspn(line, BLANKS);

    if (check_bytes(reader, line, len) < 0)
        return -EINVAL;
    if (blanks >= len || is_comment(line + blanks))
        len = 0;
    if (len > CONF_LINE_MAX || len >= size)
        return fail(reader, -EINVAL, "the line is %zu bytes long, at most %d", len, CONF_LINE_MAX);
    memcpy(ret, line, len);
    ret[len] = '\0';
    cut_comment(ret);
    return check_line(reader, ret);
}

/* fgets for inih: one line without its end, or NULL when all is read or something is wrong. */
static char *next_line(char *ret, int size, void *arg)
{
    struct reader *reader = arg;
    const char *line = reader->next, *end = strchrnul(line, '\n');
    size_t len = (size_t)(end - line);

    if (reader->error || *line == '\0')
        return NULL;
    reader->next = *end ? end + 1 : end;
    reader->line++;
    if (len > 0 && line[len - 1] == '\r')
        len--;
    return take_line(reader, line, len, ret, (size_t)size) < 0 ? NULL : ret;
}

/* ---- keys ---- */

/* The table's entry, or table->n. */
static size_t find_entry(const struct conf_table *table, const char *section, const char *key)
{
    size_t i;

    for (i = 0; i < table->n; i++)
        if (strcmp(table->entries[i].section, section) == 0 &&
            strcmp(table->entries[i].key, key) == 0)
            break;
    return i;
}

static bool has_section(const struct conf_table *table, const char *section)
{
    size_t i;

    for (i = 0; i < table->n; i++)
        if (strcmp(table->entries[i].section, section) == 0)
            return true;
    return false;
}

/* A key that differs in case alone, or stands in another section. */
static int fail_unknown(struct reader *reader, const char *section, const char *key)
{
    const struct conf_table *table = reader->conf->table;
    size_t i;

    if (section[0] == '\0')
        return fail(reader, -EINVAL, "%s stands before the first [section]", key);
    if (!has_section(table, section))
        return fail(reader, -EINVAL, "unknown section [%s] (of key %s)", section, key);
    for (i = 0; i < table->n; i++)
        if (strcasecmp(table->entries[i].key, key) == 0)
            return fail(reader, -EINVAL, "unknown key %s.%s (is %s.%s meant?)", section, key,
                        table->entries[i].section, table->entries[i].key);
    return fail(reader, -EINVAL, "unknown key %s.%s", section, key);
}

/* "Key=x" among the items of a list is more likely a key that somebody indented. */
static int check_items(struct reader *reader, const char *text)
{
    const struct conf_table *table = reader->conf->table;
    size_t len, i;

    for (text += strspn(text, BLANKS ","); *text; text += len, text += strspn(text, BLANKS ",")) {
        len = strcspn(text, BLANKS ",");
        for (i = 0; i < table->n; i++) {
            size_t key = strlen(table->entries[i].key);

            if (key < len && text[key] == '=' && strncmp(text, table->entries[i].key, key) == 0)
                return fail(reader, -EINVAL,
                            "%s= inside a list: begin a key at the start of its line",
                            table->entries[i].key);
        }
    }
    return 0;
}

/* A list goes on in an indented line. */
static int append_value(struct reader *reader, size_t i, const char *more)
{
    struct conf *conf = reader->conf;
    const struct conf_entry *entry = &conf->table->entries[i];
    struct conf_value *value = &conf->values[i];
    AUTO(buf_done) struct buf joined = BUF_INIT(CONF_FILE_MAX);
    auto_free char *origin = NULL;
    struct err why;
    size_t len = strlen(value->text);
    const char *gap = len > 0 && value->text[len - 1] != ',' ? ", " : " ";
    int r;

    if (entry->type != CONF_LIST && entry->type != CONF_RANGES)
        return fail(reader, -EINVAL, "%s.%s: goes on in an indented line, which only a list may",
                    entry->section, entry->key);
    origin = value->origin ? strdup(value->origin) : NULL;
    buf_addf(&joined, "%s%s%s", value->text, more[0] == ',' || len == 0 ? "" : gap, more);
    if (buf_error(&joined) || !origin)
        return fail(reader, -ENOMEM, "no memory");
    r = conf_value_set(value, entry, buf_str(&joined), origin, conf->settings, &why);
    return r < 0 ? fail(reader, r, "%s.%s: %s", entry->section, entry->key, why.text) : 0;
}

static int set_from_file(struct reader *reader, size_t i, const char *text)
{
    struct conf *conf = reader->conf;
    const struct conf_entry *entry = &conf->table->entries[i];
    struct conf_value *value = &conf->values[i];
    auto_free char *origin = NULL;
    struct err why;
    int r;

    if (value->file == conf->files)
        return fail(reader, -EINVAL, "%s.%s is there twice, before at %s", entry->section,
                    entry->key, value->origin);
    if (asprintf(&origin, "%s:%u", reader->name, reader->line) < 0) {
        origin = NULL;
        return fail(reader, -ENOMEM, "no memory");
    }
    r = conf_value_set(value, entry, text, origin, conf->settings, &why);
    if (r < 0)
        return fail(reader, r, "%s.%s: %s", entry->section, entry->key, why.text);
    value->file = conf->files;
    return 0;
}

static int handle_key(struct reader *reader, const char *section, const char *key, const char *text)
{
    size_t i = find_entry(reader->conf->table, section, key);
    const char *comment = strstr(text, " #");

    if (i == reader->conf->table->n)
        return fail_unknown(reader, section, key);
    if (comment || text[0] == '#')
        return fail(reader, -EINVAL, "%s.%s: a comment with # needs a line of its own", section,
                    key);
    if (reader->conf->table->entries[i].type == CONF_LIST && check_items(reader, text) < 0)
        return reader->error;
    return reader->indented ? append_value(reader, i, text) : set_from_file(reader, i, text);
}

/* inih's callback: 0 = error, 1 = go on. */
static int handle(void *arg, const char *section, const char *key, const char *text)
{
    struct reader *reader = arg;

    if (reader->error)
        return 0;
    return handle_key(reader, section, key, text ? text : "") == 0;
}

/* bytes end in NUL. */
static int read_bytes(struct conf *conf, const char *name, const char *bytes, size_t len,
                      struct err *err)
{
    struct reader reader = {.conf = conf, .name = name, .bytes = bytes, .next = bytes, .err = err};
    const char *nul = memchr(bytes, '\0', len);
    int r;

    conf->files++;
    if (nul) {
        for (; reader.next < nul; reader.next++)
            reader.line += *reader.next == '\n';
        reader.line++;
        return fail(&reader, -EINVAL, "holds a NUL byte");
    }
    if (strncmp(bytes, "\xef\xbb\xbf", 3) == 0)
        reader.next += 3;
    r = ini_parse_stream(next_line, &reader, handle, &reader);
    if (r == -2)
        return fail(&reader, -ENOMEM, "no memory");
    if (r != 0 && !reader.error) {
        reader.line = (unsigned)r;
        fail(&reader, -EINVAL, "neither \"key = value\" nor \"[section]\"");
    }
    return reader.error;
}

/* ---- files ---- */

/* Whoever can write it can become whoever reads it. */
static int check_trusted(int fd, const char *path, struct err *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_set(err, -errno, "%s: %s", path, err_text(errno));
    if (!S_ISREG(st.st_mode))
        return err_set(err, -EPERM, "%s: is not a regular file", path);
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return err_set(err, -EPERM, "%s: belongs to uid %u, not to root", path, st.st_uid);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return err_set(err, -EPERM, "%s: others than its owner may write it (mode %04o)", path,
                       st.st_mode & 07777);
    return 0;
}

static int read_file(struct conf *conf, const char *path, bool must_exist, struct err *err)
{
    auto_close int fd = -1;
    auto_free char *bytes = NULL;
    size_t len;
    int r;

    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT && !must_exist)
        return 0;
    if (fd < 0)
        return err_set(err, -errno, "%s: %s", path, err_text(errno));
    r = check_trusted(fd, path, err);
    if (r < 0)
        return r;
    r = fs_read_fd(fd, CONF_FILE_MAX, &bytes, &len);
    if (r == -EFBIG)
        return err_set(err, r, "%s: is larger than %d bytes", path, CONF_FILE_MAX);
    if (r < 0)
        return err_set(err, r, "%s: %s", path, err_text(r));
    return read_bytes(conf, path, bytes, len, err);
}

static int is_drop_in(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);

    return entry->d_name[0] != '.' && len > 5 && strcmp(entry->d_name + len - 5, ".conf") == 0;
}

/* By bytes, whatever the locale. */
static int compare_drop_ins(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int read_drop_in(struct conf *conf, const char *folder, const char *name, struct err *err)
{
    auto_free char *path = NULL;

    if (asprintf(&path, "%s/%s", folder, name) < 0) {
        path = NULL;
        return err_set(err, -ENOMEM, "%s: no memory", folder);
    }
    return read_file(conf, path, true, err);
}

static int read_drop_ins(struct conf *conf, struct err *err)
{
    auto_free char *folder = NULL;
    struct dirent **entries = NULL;
    int n, i, r = 0;

    if (asprintf(&folder, "%s.d", conf->path) < 0) {
        folder = NULL;
        return err_set(err, -ENOMEM, "%s: no memory", conf->path);
    }
    n = scandir(folder, &entries, is_drop_in, compare_drop_ins);
    if (n < 0)
        return errno == ENOENT ? 0 : err_set(err, -errno, "%s: %s", folder, err_text(errno));
    if (n > CONF_FILES_MAX)
        r = err_set(err, -EFBIG, "%s: more than %d files", folder, CONF_FILES_MAX);
    for (i = 0; i < n && r == 0; i++)
        r = read_drop_in(conf, folder, entries[i]->d_name, err);
    for (i = 0; i < n; i++)
        free(entries[i]);
    free(entries);
    return r;
}

/* ---- the whole ---- */

static int apply_override(struct conf *conf, const struct conf_override *override, struct err *err)
{
    size_t i = find_entry(conf->table, override->section, override->key);
    struct err why;
    int r;

    if (i == conf->table->n)
        return err_set(err, -EINVAL, "%s: unknown key %s.%s", override->origin, override->section,
                       override->key);
    r = text_require(override->key, override->value, strlen(override->value), TEXT_PATH_MAX, &why);
    if (r == 0)
        r = conf_value_set(&conf->values[i], &conf->table->entries[i], override->value,
                           override->origin, conf->settings, &why);
    return r < 0 ? err_set(err, r, "%s: %s", override->origin, why.text) : 0;
}

static int apply_default(struct conf *conf, size_t i, struct err *err)
{
    const struct conf_entry *entry = &conf->table->entries[i];
    struct err why;
    int r;

    if (!entry->fallback)
        return err_set(err, -EINVAL, "%s: %s.%s must be set", conf->path, entry->section,
                       entry->key);
    r = conf_value_set(&conf->values[i], entry, entry->fallback, NULL, conf->settings, &why);
    return r < 0 ? err_set(err, r, "default of %s.%s: %s", entry->section, entry->key, why.text)
                 : 0;
}

/* What the entries cannot tell alone. */
static int check_whole(const struct conf *conf, struct err *err)
{
    struct err why = {0};
    int r;

    r = conf->table->check ? conf->table->check(conf->settings, &why) : 0;
    return r < 0 ? err_set(err, r, "%s: %s", conf->path, why.text) : 0;
}

/* What no file may set or none did set. */
static int complete(struct conf *conf, struct err *err)
{
    size_t i;
    int r;

    for (i = 0; i < conf->n_overrides; i++) {
        r = apply_override(conf, &conf->overrides[i], err);
        if (r < 0)
            return r;
    }
    for (i = 0; i < conf->table->n; i++) {
        r = conf->values[i].text ? 0 : apply_default(conf, i, err);
        if (r < 0)
            return r;
    }
    return check_whole(conf, err);
}

static bool copy_override(const struct conf_override *from, struct conf_override *to)
{
    *to = (struct conf_override){.section = strdup(from->section),
                                 .key = strdup(from->key),
                                 .value = strdup(from->value),
                                 .origin = strdup(from->origin)};
    return to->section && to->key && to->value && to->origin;
}

static int conf_new(const struct conf_table *table, const char *path,
                    const struct conf_override *overrides, size_t n_overrides, struct conf **ret)
{
    AUTO(conf_free) struct conf *conf = calloc(1, sizeof(*conf));
    size_t i;

    if (!conf)
        return -ENOMEM;
    conf->table = table;
    conf->path = strdup(path);
    conf->values = calloc(table->n ? table->n : 1, sizeof(*conf->values));
    conf->settings = calloc(1, table->settings_size ? table->settings_size : 1);
    conf->overrides = calloc(n_overrides ? n_overrides : 1, sizeof(*conf->overrides));
    if (!conf->path || !conf->values || !conf->settings || !conf->overrides)
        return -ENOMEM;
    for (i = 0; i < n_overrides; i++) {
        conf->n_overrides++;
        if (!copy_override(&overrides[i], &conf->overrides[i]))
            return -ENOMEM;
    }
    *ret = mem_take(conf);
    return 0;
}

int conf_load(const struct conf_table *table, const char *path, bool must_exist,
              const struct conf_override *overrides, size_t n_overrides, struct conf **ret,
              struct err *err)
{
    AUTO(conf_free) struct conf *conf = NULL;
    int r;

    r = conf_new(table, path, overrides, n_overrides, &conf);
    if (r < 0)
        return err_set(err, r, "%s: no memory", path);
    conf->must_exist = must_exist;
    r = read_file(conf, path, must_exist, err);
    if (r == 0)
        r = read_drop_ins(conf, err);
    if (r == 0)
        r = complete(conf, err);
    if (r < 0)
        return r;
    *ret = mem_take(conf);
    return 0;
}

int conf_load_bytes(const struct conf_table *table, const char *name, const char *bytes, size_t len,
                    struct conf **ret, struct err *err)
{
    AUTO(conf_free) struct conf *conf = NULL;
    auto_free char *copy = NULL;
    int r;

    if (len > CONF_FILE_MAX)
        return err_set(err, -EFBIG, "%s: is larger than %d bytes", name, CONF_FILE_MAX);
    copy = mem_dup(bytes, len);
    r = copy ? conf_new(table, name, NULL, 0, &conf) : -ENOMEM;
    if (r < 0)
        return err_set(err, r, "%s: no memory", name);
    r = read_bytes(conf, name, copy, len, err);
    if (r == 0)
        r = complete(conf, err);
    if (r < 0)
        return r;
    *ret = mem_take(conf);
    return 0;
}

void conf_free(struct conf *conf)
{
    size_t i;

    if (!conf)
        return;
    for (i = 0; conf->values && i < conf->table->n; i++)
        conf_value_done(&conf->values[i]);
    for (i = 0; i < conf->n_overrides; i++) {
        free((char *)conf->overrides[i].section);
        free((char *)conf->overrides[i].key);
        free((char *)conf->overrides[i].value);
        free((char *)conf->overrides[i].origin);
    }
    free(conf->overrides);
    free(conf->values);
    free(conf->settings);
    free(conf->path);
    free(conf);
}

const void *conf_settings(const struct conf *conf)
{
    return conf->settings;
}

/* Where a reload may not change a value, put the old one back. */
static int keep_old(const struct conf *old, struct conf *new, struct buf *pending, struct err *err)
{
    const struct conf_entry *entry;
    size_t i;
    int r;

    for (i = 0; i < old->table->n; i++) {
        entry = &old->table->entries[i];
        if (!entry->restart || strcmp(old->values[i].text, new->values[i].text) == 0)
            continue;
        r = conf_value_set(&new->values[i], entry, old->values[i].text, old->values[i].origin,
                           new->settings, err);
        if (r < 0)
            return r;
        if (pending)
            buf_addf(pending, "%s%s.%s", pending->len ? ", " : "", entry->section, entry->key);
    }
    return check_whole(new, err);
}

int conf_reload(struct conf **conf, struct buf *pending, struct err *err)
{
    const struct conf *old = *conf;
    AUTO(conf_free) struct conf *new = NULL;
    int r;

    r = conf_load(old->table, old->path, old->must_exist, old->overrides, old->n_overrides, &new,
                  err);
    if (r == 0)
        r = keep_old(old, new, pending, err);
    if (r < 0)
        return r;
    conf_free(*conf);
    *conf = mem_take(new);
    return 0;
}
