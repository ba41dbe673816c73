#include "common/net/grpc_text.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static const struct {
    const char *name, *digits;
} statuses[] = {
    {"OK", "0"},
    {"CANCELLED", "1"},
    {"UNKNOWN", "2"},
    {"INVALID_ARGUMENT", "3"},
    {"DEADLINE_EXCEEDED", "4"},
    {"NOT_FOUND", "5"},
    {"ALREADY_EXISTS", "6"},
    {"PERMISSION_DENIED", "7"},
    {"RESOURCE_EXHAUSTED", "8"},
    {"FAILED_PRECONDITION", "9"},
    {"ABORTED", "10"},
    {"OUT_OF_RANGE", "11"},
    {"UNIMPLEMENTED", "12"},
    {"INTERNAL", "13"},
    {"UNAVAILABLE", "14"},
    {"DATA_LOSS", "15"},
    {"UNAUTHENTICATED", "16"},
};

enum {
    N_STATUSES = sizeof statuses / sizeof *statuses,
};

static size_t status_index(enum grpc_status status)
{
    return (size_t)status < N_STATUSES ? (size_t)status : GRPC_UNKNOWN;
}

const char *grpc_status_name(enum grpc_status status)
{
    return statuses[status_index(status)].name;
}

const char *grpc_status_digits(enum grpc_status status)
{
    return statuses[status_index(status)].digits;
}

enum grpc_status grpc_status_parse(const char *text, size_t len)
{
    for (size_t i = 0; i < N_STATUSES; i++)
        if (strlen(statuses[i].digits) == len && memcmp(statuses[i].digits, text, len) == 0)
            return (enum grpc_status)i;
    return GRPC_UNKNOWN;
}

bool grpc_content_type(const char *text, size_t len)
{
    static const char type[] = "application/grpc";

    if (len < sizeof type - 1 || memcmp(text, type, sizeof type - 1) != 0)
        return false;
    return len == sizeof type - 1 || text[sizeof type - 1] == '+' || text[sizeof type - 1] == ';';
}

/* ---- timeouts ---- */

static const struct {
    char unit;
    int64_t ns;
} units[] = {
    {'n', 1},          {'u', 1000},        {'m', 1000000},
    {'S', 1000000000}, {'M', 60000000000}, {'H', 3600000000000},
};

enum {
    DIGITS_MAX = 8,
    NS_PER_MS = 1000000,
};

int grpc_timeout_parse(const char *text, size_t len, int64_t *ret_ms)
{
    int64_t value = 0;

    if (len < 2 || len > DIGITS_MAX + 1)
        return -EINVAL;
    for (size_t i = 0; i < len - 1; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -EINVAL;
        value = value * 10 + (text[i] - '0');
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (units[i].unit != text[len - 1])
            continue;
        *ret_ms = units[i].ns >= NS_PER_MS ? value * (units[i].ns / NS_PER_MS)
                                           : (value * units[i].ns + NS_PER_MS - 1) / NS_PER_MS;
        return 0;
    }
    return -EINVAL;
}

size_t grpc_timeout_format(int64_t timeout_ms, char ret[GRPC_TIMEOUT_MAX])
{
    const int64_t most = 99999999;
    char digits[GRPC_TIMEOUT_MAX];
    size_t n = 0, len = 0;
    char unit = 'm';

    if (timeout_ms < 0)
        timeout_ms = 0;
    if (timeout_ms > most) {
        timeout_ms = timeout_ms / 1000 + (timeout_ms % 1000 != 0);
        unit = 'S';
    }
    if (timeout_ms > most)
        timeout_ms = most;
    do
        digits[n++] = (char)('0' + timeout_ms % 10);
    while ((timeout_ms /= 10) > 0);
    while (n > 0)
        ret[len++] = digits[--n];
    ret[len++] = unit;
    ret[len] = '\0';
    return len;
}

/* ---- messages ---- */

/* Length of the UTF-8 character at text; 0 = it is none. */
static size_t character(const unsigned char *text)
{
    static const struct {
        unsigned char low, high, second_low, second_high;
        size_t len;
    } kinds[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };

    if (text[0] < 0x80)
        return 1;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (text[0] < kinds[i].low || text[0] > kinds[i].high)
            continue;
        if (text[1] < kinds[i].second_low || text[1] > kinds[i].second_high)
            return 0;
        for (size_t k = 2; k < kinds[i].len; k++)
            if (text[k] < 0x80 || text[k] > 0xbf)
                return 0;
        return kinds[i].len;
    }
    return 0;
}

static size_t encode_byte(unsigned char c, char *ret)
{
    static const char hex[] = "0123456789ABCDEF";

    if (c >= 0x20 && c <= 0x7e && c != '%') {
        ret[0] = (char)c;
        return 1;
    }
    ret[0] = '%';
    ret[1] = hex[c >> 4];
    ret[2] = hex[c & 15];
    return 3;
}

size_t grpc_message_encode(const char *message, char *ret)
{
    static const unsigned char replacement[] = {0xef, 0xbf, 0xbd, 0};
    const unsigned char *in = (const unsigned char *)message;
    size_t taken = 0, len = 0;

    while (*in) {
        size_t n = character(in);
        const unsigned char *from = n ? in : replacement;
        size_t size = n ? n : sizeof replacement - 1;

        if (taken + size > GRPC_MESSAGE_MAX)
            break;
        for (size_t i = 0; i < size; i++)
            len += encode_byte(from[i], ret + len);
        taken += size;
        in += n ? n : 1;
    }
    ret[len] = '\0';
    return len;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

size_t grpc_message_decode(const char *text, size_t len, char *ret)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (c == '%' && i + 2 < len && hex_value(text[i + 1]) >= 0 && hex_value(text[i + 2]) >= 0) {
            c = (char)(hex_value(text[i + 1]) << 4 | hex_value(text[i + 2]));
            i += 2;
        }
        ret[n++] = c ? c : '?';
    }
    ret[n] = '\0';
    return n;
}
