#include "common/json.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"

/* jansson's integers are signed. A u64 above them is kept as an object with this key, which no caller can set, and its
 * digits as a string; print_value turns it back. */
#define BIG_KEY "\001u64"

/* A value that nobody else owns yet. */
struct json {
    json_t *value;
    bool failed;
};

/* ---- build ---- */

/* Takes value, NULL when there was no memory for it. */
static struct json *wrap(json_t *value)
{
    struct json *json = value ? calloc(1, sizeof(*json)) : NULL;

    if (json)
        json->value = value;
    else
        json_decref(value);
    return json;
}

struct json *json_new_object(void)
{
    return wrap(json_object());
}

struct json *json_new_array(void)
{
    return wrap(json_array());
}

/* U+FFFD for each byte that is no UTF-8. */
static json_t *repaired(const char *bytes, size_t len)
{
    AUTO(buf_done) struct buf text = BUF_INIT(SIZE_MAX);
    size_t at, step;

    for (at = 0; at < len; at += step ? step : 1) {
        step = text_char(bytes + at, len - at);
        if (step > 0)
            buf_add(&text, bytes + at, step);
        else
            buf_adds(&text, "\xef\xbf\xbd");
    }
    return buf_error(&text) ? NULL : json_stringn_nocheck(buf_str(&text), text.len);
}

static json_t *make_string(const char *bytes, size_t len)
{
    json_t *value = json_stringn(bytes, len);

    /* NULL: no UTF-8, or no memory; then repaired() fails as well. */
    return value ? value : repaired(bytes, len);
}

struct json *json_new_string(const char *text)
{
    return text ? wrap(make_string(text, strlen(text))) : json_new_null();
}

struct json *json_new_bytes(const void *bytes, size_t len)
{
    return wrap(make_string(len ? bytes : "", len));
}

static json_t *make_u64(uint64_t value)
{
    struct buf digits;
    char text[24];

    if (value <= INT64_MAX)
        return json_integer((json_int_t)value);
    buf_init_fixed(&digits, text, sizeof(text));
    buf_add_u64(&digits, value);
    return json_pack("{s:s}", BIG_KEY, text);
}

struct json *json_new_u64(uint64_t value)
{
    return wrap(make_u64(value));
}

struct json *json_new_i64(int64_t value)
{
    return wrap(json_integer(value));
}

struct json *json_new_double(double value)
{
    return wrap(isfinite(value) ? json_real(value) : json_null());
}

struct json *json_new_bool(bool value)
{
    return wrap(json_boolean(value));
}

struct json *json_new_null(void)
{
    return wrap(json_null());
}

void json_free(struct json *value)
{
    if (!value)
        return;
    json_decref(value->value);
    free(value);
}

/* The value out of its wrapping; NULL if it is not whole. */
static json_t *unwrap(struct json *json)
{
    json_t *value = json && !json->failed ? json_incref(json->value) : NULL;

    json_free(json);
    return value;
}

/* Takes value, also on failure. */
static void set_value(struct json *object, const char *key, json_t *value)
{
    if (!object) {
        json_decref(value);
        return;
    }
    assert(!json_object_get(object->value, key));
    if (json_object_set_new(object->value, key, value) < 0)
        object->failed = true;
}

void json_set(struct json *object, const char *key, struct json *value)
{
    set_value(object, key, unwrap(value));
}

void json_append(struct json *array, struct json *value)
{
    json_t *inner = unwrap(value);

    if (!array)
        json_decref(inner);
    else if (json_array_append_new(array->value, inner) < 0)
        array->failed = true;
}

void json_set_string(struct json *object, const char *key, const char *text)
{
    set_value(object, key, text ? make_string(text, strlen(text)) : json_null());
}

void json_set_u64(struct json *object, const char *key, uint64_t value)
{
    set_value(object, key, make_u64(value));
}

void json_set_i64(struct json *object, const char *key, int64_t value)
{
    set_value(object, key, json_integer(value));
}

void json_set_bool(struct json *object, const char *key, bool value)
{
    set_value(object, key, json_boolean(value));
}

void json_set_time(struct json *object, const char *key, int64_t wall_ms)
{
    char text[TEXT_TIME_BUF];

    json_set_string(object, key, wall_ms ? text_format_time(wall_ms, text) : NULL);
}

struct json *json_error(const char *code, const char *message)
{
    struct json *error = json_new_object(), *outer = json_new_object();

    json_set_string(error, "code", code);
    json_set_string(error, "message", message);
    json_set(outer, "error", error);
    return outer;
}

/* ---- print ---- */

struct printer {
    struct buf *buf;
    bool pretty;
    unsigned depth;
    int error; /* of jansson */
};

static void print_value(struct printer *p, const json_t *value);

static void new_line(struct printer *p)
{
    unsigned i;

    if (!p->pretty)
        return;
    buf_addc(p->buf, '\n');
    for (i = 0; i < p->depth; i++)
        buf_adds(p->buf, "  ");
}

/* The bytes are valid UTF-8. What JSON must not show as it is, and DEL, goes out as an escape. */
static void print_string(struct printer *p, const char *bytes, size_t len)
{
    size_t at, start = 0;
    uint8_t c;

    buf_addc(p->buf, '"');
    for (at = 0; at < len; at++) {
        c = (uint8_t)bytes[at];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)
            continue;
        buf_add(p->buf, bytes + start, at - start);
        start = at + 1;
        if (c == '"' || c == '\\')
            buf_addf(p->buf, "\\%c", c);
        else if (c == '\n')
            buf_adds(p->buf, "\\n");
        else
            buf_addf(p->buf, "\\u%04x", c);
    }
    buf_add(p->buf, bytes + start, len - start);
    buf_addc(p->buf, '"');
}

static void print_integer(struct printer *p, json_int_t value)
{
    if (value < 0)
        buf_addc(p->buf, '-');
    buf_add_u64(p->buf, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

static int add_dumped(const char *bytes, size_t len, void *arg)
{
    struct printer *p = arg;

    buf_add(p->buf, bytes, len);
    return buf_error(p->buf) ? -1 : 0;
}

static void print_plain(struct printer *p, const json_t *value)
{
    if (json_is_string(value))
        print_string(p, json_string_value(value), json_string_length(value));
    else if (json_is_integer(value))
        print_integer(p, json_integer_value(value));
    else if (json_dump_callback(value, add_dumped, p, JSON_ENCODE_ANY) < 0 && !buf_error(p->buf))
        p->error = -ENOMEM;
}

static void print_key(struct printer *p, const char *key)
{
    print_string(p, key, strlen(key));
    buf_adds(p->buf, ": ");
}

static void print_object(struct printer *p, const json_t *object)
{
    const json_t *big = json_object_get(object, BIG_KEY);
    const char *key, *before = "";
    json_t *value;

    if (big) {
        buf_adds(p->buf, json_string_value(big));
        return;
    }
    buf_addc(p->buf, '{');
    p->depth++;
    json_object_foreach((json_t *)object, key, value)
    {
        buf_adds(p->buf, before);
        new_line(p);
        print_key(p, key);
        print_value(p, value);
        before = p->pretty ? "," : ", ";
    }
    p->depth--;
    if (before[0])
        new_line(p);
    buf_addc(p->buf, '}');
}

static void print_array(struct printer *p, const json_t *array)
{
    size_t i, n = json_array_size(array);

    buf_addc(p->buf, '[');
    p->depth++;
    for (i = 0; i < n; i++) {
        if (i > 0)
            buf_adds(p->buf, p->pretty ? "," : ", ");
        new_line(p);
        print_value(p, json_array_get(array, i));
    }
    p->depth--;
    if (n > 0)
        new_line(p);
    buf_addc(p->buf, ']');
}

static void print_value(struct printer *p, const json_t *value)
{
    if (json_is_object(value))
        print_object(p, value);
    else if (json_is_array(value))
        print_array(p, value);
    else
        print_plain(p, value);
}

int json_print(const struct json *value, enum json_style style, struct buf *buf)
{
    struct printer p = {.buf = buf, .pretty = style == JSON_PRETTY};

    if (!value || value->failed)
        return -ENOMEM;
    print_value(&p, value->value);
    return p.error ? p.error : buf_error(buf);
}

int json_write(const struct json *value, enum json_style style, FILE *file)
{
    AUTO(buf_done) struct buf text = BUF_INIT(SIZE_MAX);
    int r;

    r = json_print(value, style, &text);
    if (r < 0)
        return r;
    buf_addc(&text, '\n');
    if (buf_error(&text))
        return buf_error(&text);
    errno = 0;
    if (fwrite(text.data, 1, text.len, file) != text.len || fflush(file) != 0)
        return errno ? -errno : -EIO;
    return 0;
}
