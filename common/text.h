/* Text at the edge: foreign bytes are checked here once, and everybody behind may trust them.
 *
 * Checks and parsers of what a person wrote. Each parser wants the whole string (no blanks around it, no rest), is
 * independent of the locale, and names the offending token in *err (which may be NULL).
 * libc only, no allocation, any thread. */
#ifndef XCE_COMMON_TEXT_H
#define XCE_COMMON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* Longest accepted, bytes without NUL. */
#define TEXT_NODE_MAX  64 /* a host name as the kernel keeps it */
#define TEXT_POOL_MAX  32
#define TEXT_JOB_MAX   128
#define TEXT_OWNER_MAX 64
#define TEXT_NOTE_MAX  1024 /* reasons, details: free text */
#define TEXT_PATH_MAX  4095

enum text_outcome {
    TEXT_EMPTY = 1,     /* no bytes, where some are needed */
    TEXT_TOO_LONG = 2,  /* more than max */
    TEXT_NUL = 3,       /* a NUL byte inside */
    TEXT_CONTROL = 4,   /* a control character: below 0x20, 0x7f, U+0080 to U+009F */
    TEXT_NOT_UTF8 = 5,  /* no UTF-8: cut short, overlong, a surrogate, above U+10FFFF */
    TEXT_NO_LIMIT = 10, /* text_parse_duration: "none" */
};

/* ---- foreign bytes ---- */

/* Whether bytes are UTF-8 without NUL and control characters, at most max bytes. Empty is fine.
 *   ret_at  may be NULL; where it is wrong, 0..len; written only with a positive outcome
 * 0; TEXT_TOO_LONG, TEXT_NUL, TEXT_CONTROL, TEXT_NOT_UTF8. O(len), ASCII eight bytes at a step. */
int text_check(const void *bytes, size_t len, size_t max, size_t *ret_at);

/* Whether bytes are UTF-8 without NUL, control characters allowed. 0; TEXT_NUL, TEXT_NOT_UTF8, *ret_at as above. */
int text_check_utf8(const void *bytes, size_t len, size_t *ret_at);

/* Length in bytes of the character that the bytes begin with; 0 = they begin with none (len may be 0). */
size_t text_char(const void *bytes, size_t len);

/* What an outcome means: "holds a NUL byte". Static. */
const char *text_outcome_text(int outcome);

/* text_check for a field that a person sent: 0; -EINVAL, err "job: holds a NUL byte at byte 3". what = the field. */
int text_require(const char *what, const void *bytes, size_t len, size_t max, struct err *err);

/* Names. 0; -EINVAL, err says which name and what is wrong with it.
 *   node   letters, digits, "-", "." and "_", 1..64; begins and ends with a letter or digit; no ".."; compared as bytes
 *   pool   lowercase letters, digits and "-", 1..32; begins with a letter, does not end with "-"
 *   job    any text without blanks, 1..128 bytes, not beginning with "-" (schedulers write 17.batch, 12_[3], ƒabc)
 *   owner  a user name as useradd or a directory gives it, 1..64: letters (any UTF-8 letter, too), digits and
 *          "-", "_", ".", "@", "\", "$", "+"; does not begin with "-", is not all digits, not "." nor ".."
 *   path   absolute, 1..4095, valid text; no "//", no "." or ".." part, no "/" at the end save "/" itself */
int text_check_node(const char *bytes, size_t len, struct err *err);
int text_check_pool(const char *bytes, size_t len, struct err *err);
int text_check_job(const char *bytes, size_t len, struct err *err);
int text_check_owner(const char *bytes, size_t len, struct err *err);
int text_check_path(const char *bytes, size_t len, struct err *err);

/* Make foreign bytes safe for a terminal or a log: printable UTF-8 as it is, "\" as "\\", what is no UTF-8, control
 * characters, line separators and the characters that turn writing direction as \xNN for each byte. Always ends with
 * NUL (size >= 4), "..." at the end when it did not fit. The length without NUL. */
size_t text_escape(const void *bytes, size_t len, char *ret, size_t size);
/* The same, but "\" stays: for a sentence that may hold escaped text already. */
size_t text_clean(const void *bytes, size_t len, char *ret, size_t size);

/* ---- numbers ---- */

/* Decimal digits only: no sign, blank, 0x or leading zero ("0" itself is fine). 0; -EINVAL, -ERANGE. */
int text_parse_u32(const char *text, uint32_t *ret, struct err *err);
int text_parse_u64(const char *text, uint64_t *ret, struct err *err);
/* A uid that may be given to somebody: neither 0 nor 4294967295 (-1) nor 65535 (-1 of old). */
int text_parse_uid(const char *text, uint32_t *ret, struct err *err);

/* Bytes: "65536", "64K", "64M", "2G", "1T" (powers of 1024). 0; -EINVAL, -ERANGE. */
int text_parse_size(const char *text, uint64_t *ret, struct err *err);

/* Time spans: parts of number and unit, each unit once and getting smaller: "30d", "1h", "5m", "30s", "500ms", "1h30m".
 * A bare number has no unit and is refused, save "0". Up to 100 years. 0; TEXT_NO_LIMIT "none" (*ret_ms unset);
 * -EINVAL, -ERANGE. */
int text_parse_duration(const char *text, int64_t *ret_ms, struct err *err);
#define TEXT_DURATION_BUF 48
/* The shortest that parses to the same: "1h30m"; "0". ms >= 0. Returns ret. */
char *text_format_duration(int64_t ms, char ret[static TEXT_DURATION_BUF]);

/* Inclusive. */
struct text_range {
    uint32_t first, last;
};

/* "A-B", "A-B,C-D", "A" for A-A: kept as written, at most max of them. Overlap, A > B and 4294967295 are refused.
 * 0; -EINVAL, -ERANGE a number above 32 bits, -ENOBUFS more than max. */
int text_parse_ranges(const char *text, struct text_range *ret, size_t max, size_t *ret_n,
                      struct err *err);

/* ---- wall time ---- */

#define TEXT_TIME_BUF 32
/* RFC 3339 in UTC with ms: "2025-11-29T16:05:00.123Z". Years 0000 to 9999; outside that the nearest. Returns ret. */
char *text_format_time(int64_t wall_ms, char ret[static TEXT_TIME_BUF]);
/* RFC 3339: "2025-11-29T16:05:00[.123](Z|+01:00)"; also lowercase t and z, a blank for T, "@SECONDS" since 1970. Digits
 * beyond ms are cut. A time without zone is refused: it would depend on the machine. 0; -EINVAL. */
int text_parse_time(const char *text, int64_t *ret_wall_ms, struct err *err);

#endif
