#include "map/name.h"

#include <string.h>

#define DIGIT_BITS 5
/* 7 digits hold 35 bits: the first of seven may be at most 3. */
#define DIGITS_MAX 7

static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";

/* Value of a byte plus one; 0 = no digit. */
static const uint8_t values[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
    ['g'] = 17, ['h'] = 18, ['j'] = 19, ['k'] = 20, ['m'] = 21, ['n'] = 22, ['p'] = 23, ['q'] = 24,
    ['r'] = 25, ['s'] = 26, ['t'] = 27, ['v'] = 28, ['w'] = 29, ['x'] = 30, ['y'] = 31, ['z'] = 32,
};

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

bool name_prefix_valid(const char *prefix)
{
    size_t len = strnlen(prefix, NAME_PREFIX_MAX + 1);

    if (len < 2 || len > NAME_PREFIX_MAX || prefix[len - 1] != '-' || !is_lower(prefix[0]))
        return false;
    for (size_t i = 1; i < len - 1; i++)
        if (!is_lower(prefix[i]) && !(prefix[i] >= '0' && prefix[i] <= '9'))
            return false;
    return true;
}

static size_t put_number(char *at, uint32_t n)
{
    size_t len = (31 - (size_t)__builtin_clz(n)) / DIGIT_BITS + 1;

    for (size_t i = len; i-- > 0; n >>= DIGIT_BITS)
        at[i] = digits[n & 31];
    return len;
}

size_t name_encode(const char *prefix, uint32_t uid, uint32_t epoch, char ret[static NAME_BUF])
{
    size_t len = strnlen(prefix, NAME_PREFIX_MAX);

    memcpy(ret, prefix, len);
    len += put_number(ret + len, uid);
    ret[len++] = '-';
    len += put_number(ret + len, epoch);
    ret[len] = '\0';
    return len;
}

/* Digits of a number from *at on, up to the first byte that is none. False: no digit, a leading zero, above 32 bits. */
static inline bool take_number(const char **at, const char *end, uint32_t *ret)
{
    const char *from = *at, *p = from;
    uint64_t n = 0;
    uint8_t v;

    while (p < end && p - from <= DIGITS_MAX && (v = values[(unsigned char)*p]) != 0) {
        n = n << DIGIT_BITS | (uint64_t)(v - 1);
        p++;
    }
    if (p == from || *from == '0' || n > UINT32_MAX)
        return false;
    *at = p;
    *ret = (uint32_t)n;
    return true;
}

int name_decode_numbers(const char *numbers, size_t len, uint32_t *ret_uid, uint32_t *ret_epoch)
{
    const char *at = numbers, *end = numbers + len;
    uint32_t uid, epoch;

    if (!take_number(&at, end, &uid) || at == end || *at++ != '-')
        return NAME_FOREIGN;
    if (!take_number(&at, end, &epoch) || at != end)
        return NAME_FOREIGN;
    *ret_uid = uid;
    *ret_epoch = epoch;
    return 0;
}

bool name_possible(const char *name)
{
    char prefix[NAME_PREFIX_MAX + 1];
    size_t len = strnlen(name, NAME_MAX_LEN + 1), prefix_len = 0;
    uint32_t uid, epoch;

    while (prefix_len < len && prefix_len < NAME_PREFIX_MAX && name[prefix_len] != '-') {
        prefix[prefix_len] = name[prefix_len];
        prefix_len++;
    }
    if (len > NAME_MAX_LEN || prefix_len == NAME_PREFIX_MAX || prefix_len == len)
        return false;
    prefix[prefix_len++] = '-';
    prefix[prefix_len] = '\0';
    return name_prefix_valid(prefix) &&
           name_decode_numbers(name + prefix_len, len - prefix_len, &uid, &epoch) == 0;
}

int name_decode_uid(const char *numbers, uint32_t *ret_uid)
{
    uint64_t n = 0;
    uint8_t v;
    int i = 0;

    /* NUL is no digit: it ends the number, and is not gone past. */
    while (i <= DIGITS_MAX && (v = values[(unsigned char)numbers[i]]) != 0) {
        n = n << DIGIT_BITS | (uint64_t)(v - 1);
        i++;
    }
    if (i == 0 || n > UINT32_MAX || numbers[0] == '0' || numbers[i] != '-')
        return NAME_FOREIGN;
    *ret_uid = (uint32_t)n;
    return 0;
}

int name_decode(const char *prefix, const char *name, size_t len, uint32_t *ret_uid,
                uint32_t *ret_epoch)
{
    size_t prefix_len = strnlen(prefix, NAME_PREFIX_MAX);

    if (len <= prefix_len || len > NAME_MAX_LEN || memcmp(name, prefix, prefix_len) != 0)
        return NAME_FOREIGN;
    return name_decode_numbers(name + prefix_len, len - prefix_len, ret_uid, ret_epoch);
}
