#define OPENSSL_SUPPRESS_DEPRECATED 1

#include "common/digest.h"

#include <errno.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/err.h"
#include "common/log.h"

/* ---- SHA-256 ---- */

/* The low-level calls on purpose: the state lives on our stack. EVP looks the algorithm up and allocates at each digest,
 * which takes more than twice as long as the hashing of a small request. */
void digest_pieces(const struct digest_piece *pieces, size_t n, uint8_t ret[static DIGEST_LEN])
{
    unsigned char whole[SHA256_DIGEST_LENGTH];
    SHA256_CTX context;
    int ok;
    size_t i;

    ok = SHA256_Init(&context);
    for (i = 0; i < n; i++)
        if (pieces[i].len > 0)
            ok &= SHA256_Update(&context, pieces[i].bytes, pieces[i].len);
    ok &= SHA256_Final(whole, &context);
    if (!ok) {
        log_error(NULL, "libcrypto cannot hash");
        abort();
    }
    memcpy(ret, whole, DIGEST_LEN);
}

void digest_sha256(const void *bytes, size_t len, uint8_t ret[static DIGEST_SHA256_LEN])
{
    if (!SHA256(bytes, len, ret)) {
        log_error(NULL, "libcrypto cannot hash");
        abort();
    }
}

void digest_bytes(const void *bytes, size_t len, uint8_t ret[static DIGEST_LEN])
{
    const struct digest_piece piece = {bytes, len};

    digest_pieces(&piece, 1, ret);
}

/* ---- CRC-32C: the byte-wise table method of D. Sarwate (CACM 31/8, 1988) ---- */

#define CRC32C_REFLECTED 0x82f63b78U

static uint32_t crc_table[256];
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;

static void make_crc_table(void)
{
    uint32_t i, crc;
    int bit;

    for (i = 0; i < 256; i++) {
        crc = i;
        for (bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ CRC32C_REFLECTED : crc >> 1;
        crc_table[i] = crc;
    }
}

static uint32_t crc_by_table(uint32_t crc, const uint8_t *in, size_t len)
{
    pthread_once(&crc_once, make_crc_table);
    for (; len > 0; len--)
        crc = crc >> 8 ^ crc_table[(crc ^ *in++) & 0xff];
    return crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t crc_by_sse42(uint32_t crc, const uint8_t *in,
                                                               size_t len)
{
    uint64_t wide = crc, word;

    for (; len >= 8; len -= 8, in += 8) {
        memcpy(&word, in, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; len > 0; len--)
        crc = __builtin_ia32_crc32qi(crc, *in++);
    return crc;
}
#endif

uint32_t digest_crc32c_portable(uint32_t crc, const void *bytes, size_t len)
{
    return ~crc_by_table(~crc, bytes, len);
}

uint32_t digest_crc32c(uint32_t crc, const void *bytes, size_t len)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2"))
        return ~crc_by_sse42(~crc, bytes, len);
#endif
    return digest_crc32c_portable(crc, bytes, len);
}

/* ---- random ---- */

void digest_random(void *ret, size_t len)
{
    uint8_t *out = ret;
    ssize_t n;

    while (len > 0) {
        n = getrandom(out, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            log_error(NULL, "getrandom: %s", err_text(errno));
            abort();
        }
        out += n;
        len -= (size_t)n;
    }
}
