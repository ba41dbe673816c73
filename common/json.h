/* Builders for the stable --json output: home of jansson (whose own names begin with json_, too: hence json_new_*).
 * Reading is in common/json_read.h.
 *
 * Keys keep the order in which they were set. Numbers are exact over all of u64 and i64. Strings may be any bytes: what is
 * no UTF-8 becomes U+FFFD, so the output is always valid JSON.
 * Failure sticks: a builder that could not get memory makes NULL, every call takes NULL, an object or array that was given
 * NULL is spoilt, and json_print of it answers -ENOMEM. So a run of calls needs no checks.
 * A value has one owner: handing it to an object or array gives it away, also on failure, and it must not be touched any
 * more: fill it first. One thread per value. */
#ifndef XCE_COMMON_JSON_H
#define XCE_COMMON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/buf.h"

struct json;

struct json *json_new_object(void);
struct json *json_new_array(void);
struct json *json_new_string(const char *text); /* NULL = null */
struct json *json_new_bytes(const void *bytes, size_t len);
struct json *json_new_u64(uint64_t value);
struct json *json_new_i64(int64_t value);
struct json *json_new_double(double value); /* not finite = null */
struct json *json_new_bool(bool value);
struct json *json_new_null(void);
void json_free(struct json *value);
AUTO_DEFINE_PTR(struct json, json_free);

/* Set a key of an object, value given away. A key twice is a bug (assert). */
void json_set(struct json *object, const char *key, struct json *value);
/* Add to the end of an array, value given away. */
void json_append(struct json *array, struct json *value);

/* Short for json_set(object, key, json_new_...(value)). */
void json_set_string(struct json *object, const char *key, const char *text);
void json_set_u64(struct json *object, const char *key, uint64_t value);
void json_set_i64(struct json *object, const char *key, int64_t value);
void json_set_bool(struct json *object, const char *key, bool value);
/* Wall time, ms: RFC 3339; null when 0. */
void json_set_time(struct json *object, const char *key, int64_t wall_ms);

enum json_style {
    JSON_LINE,   /* one line */
    JSON_PRETTY, /* two blanks of indent */
};

/* Add the text to buf, without a newline at its end. value is borrowed.
 * 0; -ENOMEM a builder or the writing failed; buf's sticky error. */
int json_print(const struct json *value, enum json_style style, struct buf *buf);

/* The text and a newline to a stream. 0; -ENOMEM; -errno of writing. */
int json_write(const struct json *value, enum json_style style, FILE *file);

/* {"error": {"code": code, "message": message}}; never NULL but without memory. */
struct json *json_error(const char *code, const char *message);

#endif
