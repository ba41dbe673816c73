/* One keyed hash for the tables inside the FSM and for its digest.
 *
 * The key of the tables is drawn from the cluster's incarnation: equal on every replica, not known to those who choose
 * job names and request ids. Nothing that leaves the FSM depends on the order in a table. */
#ifndef XCE_LEASED_FSM_HASH_H
#define XCE_LEASED_FSM_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t hash_mix(uint64_t a, uint64_t b)
{
    __extension__ unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Eight bytes more into the state. */
static inline uint64_t hash_word(uint64_t state, uint64_t word)
{
    return hash_mix(state ^ 0x9e3779b97f4a7c15u, word ^ 0xd6e8feb86659fd93u) + word;
}

static inline uint64_t hash_bytes(uint64_t key, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    uint64_t state = hash_word(key, len);
    uint64_t word;

    for (; len >= sizeof(word); p += sizeof(word), len -= sizeof(word)) {
        memcpy(&word, p, sizeof(word));
        state = hash_word(state, word);
    }
    if (len) {
        word = 0;
        memcpy(&word, p, len);
        state = hash_word(state, word);
    }
    return hash_mix(state, 0xa0761d6478bd642fu);
}

#endif
