/* Parsers of what a person writes. The first byte picks one; what is accepted must come back from its formatter. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/text.h"

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void try_duration(const char *text)
{
    char again[TEXT_DURATION_BUF];
    int64_t ms = -1, back = -1;

    if (text_parse_duration(text, &ms, NULL) != 0)
        return;
    must(ms >= 0);
    must(text_parse_duration(text_format_duration(ms, again), &back, NULL) == 0 && back == ms);
}

static void try_time(const char *text)
{
    char again[TEXT_TIME_BUF];
    int64_t ms = 0, back = 1;

    if (text_parse_time(text, &ms, NULL) != 0)
        return;
    text_format_time(ms, again);
    must(text_parse_time(again, &back, NULL) == 0);
    /* An offset may lead a day beyond the years that can be written. */
    must(back == ms || strncmp(again, "0000", 4) == 0 || strncmp(again, "9999", 4) == 0);
}

static void try_ranges(const char *text)
{
    struct text_range ranges[50];
    size_t n = 0, i, j;

    if (text_parse_ranges(text, ranges, ARRAY_LEN(ranges), &n, NULL) != 0)
        return;
    must(n > 0 && n <= ARRAY_LEN(ranges));
    for (i = 0; i < n; i++) {
        must(ranges[i].first <= ranges[i].last && ranges[i].last != UINT32_MAX);
        for (j = 0; j < i; j++)
            must(ranges[i].last < ranges[j].first || ranges[j].last < ranges[i].first);
    }
}

static void try_numbers(const char *text)
{
    uint32_t u32 = 0;
    uint64_t u64 = 0, size = 0;
    bool is_u32 = text_parse_u32(text, &u32, NULL) == 0,
         is_u64 = text_parse_u64(text, &u64, NULL) == 0;

    must(!is_u32 || (is_u64 && u32 == u64));
    if (is_u64)
        must(text_parse_size(text, &size, NULL) == 0 && size == u64);
    (void)text_parse_size(text, &size, NULL);
    if (text_parse_uid(text, &u32, NULL) == 0)
        must(u32 != 0 && u32 != UINT32_MAX && u32 != 65535);
}

static void try_names(const char *bytes, size_t len)
{
    int (*const checks[])(const char *, size_t, struct err *) = {
        text_check_node, text_check_pool, text_check_job, text_check_owner, text_check_path};
    struct err err;
    size_t i;

    for (i = 0; i < ARRAY_LEN(checks); i++) {
        err.text[0] = '\0';
        if (checks[i](bytes, len, &err) == 0)
            must(text_check(bytes, len, TEXT_PATH_MAX, NULL) == 0 && !memchr(bytes, '\0', len));
        else
            must(text_check(err.text, strlen(err.text), ERR_TEXT_MAX, NULL) == 0 && err.text[0]);
    }
}

/* The fast path of text_check against the plain definition; escaped text is always good. */
static void try_check(const char *bytes, size_t len)
{
    char out[300];
    size_t at = 0, step, n;
    bool good = true;

    for (n = 0; n < len && good; n += step) {
        step = text_char(bytes + n, len - n);
        good = step > 0 && (uint8_t)bytes[n] >= 0x20 && bytes[n] != 0x7f &&
               !((uint8_t)bytes[n] == 0xc2 && (uint8_t)bytes[n + 1] < 0xa0);
    }
    must((text_check(bytes, len, len, &at) == 0) == good && at <= len);
    n = text_escape(bytes, len, out, sizeof(out));
    must(strlen(out) == n && text_check(out, n, sizeof(out), NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const parsers[])(const char *) = {try_duration, try_time, try_ranges,
                                                    try_numbers};
    const char *bytes = (const char *)data + 1;
    char *text;

    if (size == 0 || size > 10000)
        return 0;
    text = mem_must_dup(bytes, size - 1);
    if (data[0] % 8 < ARRAY_LEN(parsers))
        parsers[data[0] % 8](text);
    else if (data[0] % 8 == 4)
        try_names(bytes, size - 1);
    else
        try_check(bytes, size - 1);
    free(text);
    return 0;
}
