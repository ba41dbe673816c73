/* The name of a lease: "<prefix><uid>-<epoch>", both numbers in lowercase Crockford base32 (0-9 a-h j k m n p-t v-z)
 * without leading zeros. Decoding is arithmetic; only the canonical form decodes, so each (uid, epoch) has one name.
 * libc only: no allocation, no locale, any thread, also inside a foreign process. */
#ifndef XCE_MAP_NAME_H
#define XCE_MAP_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAME_PREFIX_DEFAULT "xce-"
/* "[a-z][a-z0-9]*-": so that no name is all digits, a number with 0x, or starts with a dash. */
#define NAME_PREFIX_MAX 16 /* bytes, without NUL */
/* prefix, 7 digits, dash, 7 digits */
#define NAME_MAX_LEN 31
#define NAME_BUF     (NAME_MAX_LEN + 1)

enum {
    NAME_FOREIGN = 1, /* not of our form: another service may know it */
};

/* Whether prefix may be a cluster's: the form above, 2..NAME_PREFIX_MAX bytes. */
bool name_prefix_valid(const char *prefix);

/* Write the name of (uid, epoch) with its NUL; the length without it. prefix must be valid, uid and epoch > 0: zero
 * cannot be written without a leading zero, so no name bears it. */
size_t name_encode(const char *prefix, uint32_t uid, uint32_t epoch, char ret[static NAME_BUF]);

/* Take a name apart. name need not end in NUL. 0; NAME_FOREIGN, ret_* unset. */
int name_decode(const char *prefix, const char *name, size_t len, uint32_t *ret_uid,
                uint32_t *ret_epoch);

/* The same for what stands behind the prefix. */
int name_decode_numbers(const char *numbers, size_t len, uint32_t *ret_uid, uint32_t *ret_epoch);

/* Whether it is the name of a lease under some prefix: what can be said of a name without knowing the cluster's. name ends
 * in NUL; at most NAME_MAX_LEN + 1 bytes are read. */
bool name_possible(const char *name);

/* The uid alone, out of what stands behind the prefix and ends in NUL; at most 9 bytes are read. 0; NAME_FOREIGN. */
int name_decode_uid(const char *numbers, uint32_t *ret_uid);

#endif
