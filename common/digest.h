/* Digests, checksums, random bytes: home of libcrypto's hashing. */
#ifndef XCE_COMMON_DIGEST_H
#define XCE_COMMON_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define DIGEST_LEN 16

struct digest_piece {
    const void *bytes;
    size_t len;
};

/* SHA-256 of the pieces one after another, cut to its first 16 bytes. No allocation. Any thread.
 * Pieces are not told apart by the digest: the caller's encoding must do that. Cannot fail: a library that cannot hash
 * aborts. */
void digest_pieces(const struct digest_piece *pieces, size_t n, uint8_t ret[static DIGEST_LEN]);
void digest_bytes(const void *bytes, size_t len, uint8_t ret[static DIGEST_LEN]);

/* The whole of SHA-256. */
#define DIGEST_SHA256_LEN 32
void digest_sha256(const void *bytes, size_t len, uint8_t ret[static DIGEST_SHA256_LEN]);

/* CRC-32C (Castagnoli, reflected 0x82F63B78, as in iSCSI, RFC 3720 B.4). Start with crc 0; feed the result on for the
 * next piece. The same on every machine; uses SSE4.2 where the processor has it. Any thread. */
uint32_t digest_crc32c(uint32_t crc, const void *bytes, size_t len);
/* The same without SSE4.2, for what has none. */
uint32_t digest_crc32c_portable(uint32_t crc, const void *bytes, size_t len);

/* Random bytes of the kernel, good for keys. Waits only before the pool has been filled once, early in the boot.
 * Cannot fail: a kernel without getrandom aborts. Any thread. */
void digest_random(void *ret, size_t len);

#endif
