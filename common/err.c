#include "common/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/text.h"

/* Longer than the text, since escaping may lengthen what is in it, and so that the cut is seen. */
#define ERR_RAW_MAX 1024

__attribute__((format(printf, 2, 0))) static void format_raw(char raw[static ERR_RAW_MAX],
                                                             const char *format, va_list args)
{
    int saved = errno;

    if (vsnprintf(raw, ERR_RAW_MAX, format, args) < 0)
        raw[0] = '\0';
    errno = saved;
}

/* What is in it already may have been escaped before (err_prefix): only what a terminal would act on is changed. */
static void set_text(struct err *err, const char *raw)
{
    text_clean(raw, strlen(raw), err->text, sizeof(err->text));
}

int err_set(struct err *err, int r, const char *format, ...)
{
    char raw[ERR_RAW_MAX];
    va_list args;

    if (!err)
        return r;
    va_start(args, format);
    format_raw(raw, format, args);
    va_end(args);
    set_text(err, raw);
    return r;
}

int err_prefix(struct err *err, int r, const char *format, ...)
{
    char raw[ERR_RAW_MAX];
    va_list args;
    size_t len;

    if (!err)
        return r;
    va_start(args, format);
    format_raw(raw, format, args);
    va_end(args);
    len = strlen(raw);
    if (len > ERR_RAW_MAX - sizeof(err->text) - 2)
        len = ERR_RAW_MAX - sizeof(err->text) - 2;
    snprintf(raw + len, sizeof(raw) - len, ": %s", err->text);
    set_text(err, raw);
    return r;
}

const char *err_name(int r)
{
    const char *name;

    if (r == 0)
        return "0";
    name = strerrorname_np(r < 0 ? -r : r);
    return name ? name : "EUNKNOWN";
}

const char *err_text(int r)
{
    const char *text = strerrordesc_np(r < 0 ? -r : r);

    return text ? text : "Unknown error";
}
