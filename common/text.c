#include "common/text.h"

#include <errno.h>
#include <string.h>

/* One character at in[0..len): its length in bytes, 0 if it is no UTF-8. len > 0. */
static size_t decode(const uint8_t *in, size_t len, uint32_t *ret_code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n, i;
    uint32_t code;

    if (in[0] < 0x80) {
        *ret_code = in[0];
        return 1;
    }
    n = in[0] >= 0xf0 ? 4 : in[0] >= 0xe0 ? 3 : in[0] >= 0xc2 ? 2 : 0;
    if (n == 0 || in[0] > 0xf4 || n > len)
        return 0;
    code = in[0] & (0x7fU >> n);
    for (i = 1; i < n; i++) {
        if ((in[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (in[i] & 0x3f);
    }
    if (code < least[n] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    *ret_code = code;
    return n;
}

static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code <= 0x9f);
}

/* Characters that one does not see, or that turn the direction of what follows: a terminal would show another text. */
static bool is_hidden(uint32_t code)
{
    return code == 0xad || code == 0x61c || (code >= 0x200b && code <= 0x200f) ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) ||
           code == 0xfeff || (code >= 0xfff0 && code <= 0xfffb) || code >= 0xe0000;
}

static bool is_blank(uint32_t code)
{
    return code == ' ' || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
           code == 0x202f || code == 0x205f || code == 0x3000;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* How many bytes at the start are plain printable ASCII, in whole words. The subtractions may also flag a byte beside a
 * bad one: the slow loop then decides. */
static size_t skip_plain(const uint8_t *in, size_t len)
{
    const uint64_t ones = 0x0101010101010101U, high = ones << 7;
    uint64_t word, del;
    size_t at;

    for (at = 0; at + 8 <= len; at += 8) {
        memcpy(&word, in + at, 8);
        del = word ^ (ones * 0x7f);
        if ((word | (word - ones * 0x20) | (del - ones)) & high)
            break;
    }
    return at;
}

int text_check(const void *bytes, size_t len, size_t max, size_t *ret_at)
{
    const uint8_t *in = bytes;
    size_t at, step;
    uint32_t code = 0;
    int r = 0;

    at = skip_plain(in, len < max ? len : max);
    for (; at < len; at += step) {
        step = decode(in + at, len - at, &code);
        if (step == 0)
            r = TEXT_NOT_UTF8;
        else if (at + step > max)
            r = TEXT_TOO_LONG;
        else if (code == 0)
            r = TEXT_NUL;
        else if (is_control(code))
            r = TEXT_CONTROL;
        if (r != 0)
            break;
    }
    if (r != 0 && ret_at)
        *ret_at = at;
    return r;
}

int text_check_utf8(const void *bytes, size_t len, size_t *ret_at)
{
    const uint8_t *in = bytes;
    size_t at, step = 0;
    uint32_t code = 0;

    for (at = skip_plain(in, len); at < len; at += step) {
        step = decode(in + at, len - at, &code);
        if (step > 0 && code != 0)
            continue;
        if (ret_at)
            *ret_at = at;
        return step ? TEXT_NUL : TEXT_NOT_UTF8;
    }
    return 0;
}

size_t text_char(const void *bytes, size_t len)
{
    uint32_t code;

    return len ? decode(bytes, len, &code) : 0;
}

const char *text_outcome_text(int outcome)
{
    switch (outcome) {
    case TEXT_EMPTY:
        return "is empty";
    case TEXT_TOO_LONG:
        return "is too long";
    case TEXT_NUL:
        return "holds a NUL byte";
    case TEXT_CONTROL:
        return "holds a control character";
    case TEXT_NOT_UTF8:
        return "is not UTF-8";
    case TEXT_NO_LIMIT:
        return "is without limit";
    default:
        return "is good";
    }
}

int text_require(const char *what, const void *bytes, size_t len, size_t max, struct err *err)
{
    size_t at = 0;
    int r = text_check(bytes, len, max, &at);

    if (r == 0)
        return 0;
    if (r == TEXT_TOO_LONG)
        return err_set(err, -EINVAL, "%s: is too long: %zu bytes, at most %zu", what, len, max);
    return err_set(err, -EINVAL, "%s: %s at byte %zu", what, text_outcome_text(r), at);
}

/* ---- names ---- */

static int bad_char(const char *what, const char *name, size_t len, size_t at, struct err *err)
{
    char shown[TEXT_NODE_MAX * 2];
    uint32_t code;
    size_t n = decode((const uint8_t *)name + at, len - at, &code);
    char c[20];

    text_escape(name, len, shown, sizeof(shown));
    text_escape(name + at, n ? n : 1, c, sizeof(c));
    return err_set(err, -EINVAL, "%s \"%s\": \"%s\" is not allowed there (byte %zu)", what, shown,
                   c, at);
}

/* What every name must be: not empty, not too long, text. */
static int check_name(const char *what, const char *bytes, size_t len, size_t max, struct err *err)
{
    if (len == 0)
        return err_set(err, -EINVAL, "%s: is empty", what);
    return text_require(what, bytes, len, max, err);
}

/* Every byte must be a letter, a digit, or one of also; above: bytes of other UTF-8 characters, too. */
static int check_chars(const char *what, const char *bytes, size_t len, const char *also,
                       bool above, struct err *err)
{
    size_t i;

    for (i = 0; i < len; i++) {
        if (is_letter(bytes[i]) || is_digit(bytes[i]) || strchr(also, bytes[i]))
            continue;
        if (above && (uint8_t)bytes[i] >= 0x80)
            continue;
        return bad_char(what, bytes, len, i, err);
    }
    return 0;
}

int text_check_node(const char *bytes, size_t len, struct err *err)
{
    int r;
    size_t i;

    r = check_name("node name", bytes, len, TEXT_NODE_MAX, err);
    if (r == 0)
        r = check_chars("node name", bytes, len, "-._", false, err);
    if (r < 0)
        return r;
    if (!is_letter(bytes[0]) && !is_digit(bytes[0]))
        return bad_char("node name", bytes, len, 0, err);
    if (!is_letter(bytes[len - 1]) && !is_digit(bytes[len - 1]))
        return bad_char("node name", bytes, len, len - 1, err);
    for (i = 1; i < len; i++)
        if (bytes[i] == '.' && bytes[i - 1] == '.')
            return bad_char("node name", bytes, len, i, err);
    return 0;
}

int text_check_pool(const char *bytes, size_t len, struct err *err)
{
    int r;
    size_t i;

    r = check_name("pool name", bytes, len, TEXT_POOL_MAX, err);
    if (r < 0)
        return r;
    for (i = 0; i < len; i++)
        if (!(bytes[i] >= 'a' && bytes[i] <= 'z') && (i == 0 || !is_digit(bytes[i])) &&
            (i == 0 || i == len - 1 || bytes[i] != '-'))
            return bad_char("pool name", bytes, len, i, err);
    return 0;
}

int text_check_job(const char *bytes, size_t len, struct err *err)
{
    int r;
    size_t at, step;
    uint32_t code = 0;

    r = check_name("job name", bytes, len, TEXT_JOB_MAX, err);
    if (r < 0)
        return r;
    if (bytes[0] == '-')
        return bad_char("job name", bytes, len, 0, err);
    for (at = 0; at < len; at += step) {
        step = decode((const uint8_t *)bytes + at, len - at, &code);
        if (is_blank(code) || is_hidden(code))
            return bad_char("job name", bytes, len, at, err);
    }
    return 0;
}

int text_check_owner(const char *bytes, size_t len, struct err *err)
{
    int r;
    size_t i, digits = 0, dots = 0;

    r = check_name("user name", bytes, len, TEXT_OWNER_MAX, err);
    if (r == 0)
        r = check_chars("user name", bytes, len, "-_.@\\$+", true, err);
    if (r < 0)
        return r;
    for (i = 0; i < len; i++) {
        digits += is_digit(bytes[i]);
        dots += bytes[i] == '.';
    }
    if (bytes[0] == '-')
        return bad_char("user name", bytes, len, 0, err);
    if (digits == len || (dots == len && len <= 2))
        return err_set(err, -EINVAL, "user name \"%.*s\": %s", (int)len, bytes,
                       digits ? "all digits would be taken for a uid" : "is no name");
    return 0;
}

int text_check_path(const char *bytes, size_t len, struct err *err)
{
    size_t at, part;
    int r;

    r = check_name("path", bytes, len, TEXT_PATH_MAX, err);
    if (r < 0)
        return r;
    if (bytes[0] != '/')
        return err_set(err, -EINVAL, "path \"%.*s\": must begin with /", (int)len, bytes);
    for (at = 1; at < len; at += part + 1) {
        const char *slash = memchr(bytes + at, '/', len - at);

        part = slash ? (size_t)(slash - bytes) - at : len - at;
        if (part == 0 || (part == 1 && bytes[at] == '.') ||
            (part == 2 && bytes[at] == '.' && bytes[at + 1] == '.'))
            return err_set(err, -EINVAL,
                           "path \"%.*s\": has an empty, \".\" or \"..\" part at byte %zu",
                           (int)len, bytes, at);
    }
    if (len > 1 && bytes[len - 1] == '/')
        return err_set(err, -EINVAL, "path \"%.*s\": must not end with /", (int)len, bytes);
    return 0;
}

/* ---- escape ---- */

/* What one character becomes; the length in ret. */
static size_t escape_one(const uint8_t *in, size_t n, bool plain, char ret[static 16])
{
    static const char digits[] = "0123456789abcdef";
    size_t i;

    if (plain) {
        memcpy(ret, in, n);
        return n;
    }
    if (in[0] == '\\') {
        ret[0] = ret[1] = '\\';
        return 2;
    }
    for (i = 0; i < n; i++) {
        ret[4 * i] = '\\';
        ret[4 * i + 1] = 'x';
        ret[4 * i + 2] = digits[in[i] >> 4];
        ret[4 * i + 3] = digits[in[i] & 15];
    }
    return 4 * n;
}

static size_t escape(const uint8_t *in, size_t len, bool backslash, char *ret, size_t size)
{
    size_t at, step, n, out = 0, safe = 0;
    char one[16];
    uint32_t code = 0;
    bool plain;

    for (at = 0; at < len; at += step) {
        step = decode(in + at, len - at, &code);
        plain = step > 0 && !is_control(code) && !is_hidden(code) && !(backslash && code == '\\');
        if (step == 0)
            step = 1;
        n = escape_one(in + at, step, plain, one);
        if (out + n >= size) {
            /* safe is where "..." still fits behind what was written whole. */
            memcpy(ret + safe, "...", 4);
            return safe + 3;
        }
        memcpy(ret + out, one, n);
        out += n;
        if (out + 4 <= size)
            safe = out;
    }
    ret[out] = '\0';
    return out;
}

size_t text_escape(const void *bytes, size_t len, char *ret, size_t size)
{
    return escape(bytes, len, true, ret, size);
}

size_t text_clean(const void *bytes, size_t len, char *ret, size_t size)
{
    return escape(bytes, len, false, ret, size);
}
