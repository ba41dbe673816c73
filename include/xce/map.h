/* The uid map, /run/xce/uidmap: what noded tells the rest of its machine about leases. Layout by offset, and how to read
 * it. No code; map/read.h is the reader, map/write.h the one writer.
 *
 *   0           header, 4096 bytes
 *   pairs_at    n_pairs x 512 bytes: home and shell, shared by the leases that have the same
 *   records_at  n_records x 128 bytes: one for each uid of each range, in the order of the ranges
 *   blocks_at   n_blocks x 64 bytes: supplementary gids
 *
 * Numbers are in the machine's byte order; the file never leaves the machine and does not outlive its boot. It is
 * allocated in full before it gets its name, so that neither reader nor writer can meet a hole, and its size never
 * changes. Other ranges mean another file: written whole, renamed over this one, and then `state` here says superseded.
 *
 * The writer
 *   One process, which holds a lock on /run/xce/uidmap.lock. It changes a record so:
 *     1. intent.target = 0; the new record (even seq, check) into intent.record; intent.target = count << 32 | index + 1
 *     2. record.seq odd; the other words of the record; record.seq = the even one
 *   with a release fence behind each step. Homes, shells and gids go to places that no record refers to, before step 1;
 *   a place is used again only after step 2 took the last reference away.
 *
 * The reader
 *   1. Open (O_NOFOLLOW), demand a regular file of root without write permission for others, of the size that the header
 *      says, whose `check` is right; map it read only; close the descriptor.
 *   2. On each look-up: if state is not XCE_MAP_ALIVE, begin again at 1. Neither on a uid outside of all ranges nor on a
 *      name of another form is anything else looked at. A name gives uid and epoch by arithmetic (map/name.h).
 *   3. s = seq, with acquire. If s is even: copy the record word by word, and the pair and the blocks that the copy
 *      names, if wanted; acquire fence; if seq is not s any more, begin again at 3.
 *      If s is odd, the writer is at it, or died at it: intent.record is the new one. Copy target, with acquire, record,
 *      pair and blocks, and after an acquire fence target again: if it changed or does not name this record, begin again
 *      at 3. After some rounds give up: not found.
 *   4. Trust the copy only now, and only so far: check right, uid as asked, state one that has a name, each length within
 *      its field, NUL where a string ends. By name: epoch as decoded and the name equal, byte by byte. Anything else: not
 *      found.
 *   Never use an offset or a length that was not compared with the size of the mapping after it was read.
 *
 * check makes the sum of the 64-bit words of what it covers, itself among them, XCE_MAP_SUM: any single wrong bit
 * shows. */
#ifndef XCE_MAP_H
#define XCE_MAP_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "xce/limits.h"

#define XCE_MAP_PATH_DEFAULT "/run/xce/uidmap"

#define XCE_MAP_MAGIC   UINT64_C(0x70616d6469656378) /* "xceidmap" on a little-endian machine */
#define XCE_MAP_SUM     UINT64_C(0x9e3779b97f4a7c15)
#define XCE_MAP_VERSION 1

#define XCE_MAP_PAGE   4096
#define XCE_MAP_PAIRS  128
#define XCE_MAP_BLOCK  64
#define XCE_MAP_NOPAIR 0xffff

enum xce_map_state {
    XCE_MAP_ALIVE = 1,
    XCE_MAP_SUPERSEDED = 2,
};

enum xce_map_writer_state {
    XCE_MAP_WRITER_RUNNING = 1,
    XCE_MAP_WRITER_ENDED = 2, /* it went in order */
};

/* State of a record: the lease's, in the numbers of the API. Those that have a name on this machine are named 1..5. */
enum xce_map_lease {
    /* never leased, or retired: no name. The epoch stays: no lower one is ever written again. */
    XCE_MAP_NONE = 0,
    XCE_MAP_GRANTED = 1,
    XCE_MAP_ACTIVE = 2,
    XCE_MAP_DRAINING = 3,
    XCE_MAP_NORMALISING = 4,
    XCE_MAP_COOLING = 5,
};

/* Flags of a record. The lease is *here*: member, granted or active, not closed. */
enum xce_map_flag {
    XCE_MAP_MEMBER = 1 << 0,     /* this machine is a member */
    XCE_MAP_CLOSED = 1 << 1,     /* admission is closed for this epoch, for good */
    XCE_MAP_SAID_READY = 1 << 2, /* it said READY for it; until it is closed */
    XCE_MAP_SAID_CLEAN = 1 << 3, /* noded's own note */
};

struct xce_map_range {
    uint32_t first;  /* uid; ascending, no overlap */
    uint32_t count;  /* > 0 */
    uint32_t record; /* index of its first record: the sum of the counts before */
    uint32_t zero;
};

struct xce_map_record {
    uint32_t seq;      /*   0  odd: being written */
    uint32_t epoch;    /*   4 */
    uint32_t uid;      /*   8  0: never leased */
    uint32_t gid;      /*  12  = uid */
    uint64_t lease;    /*  16  serial number */
    uint64_t revision; /*  24  of the change that this is */
    uint8_t state;     /*  32  enum xce_map_lease */
    uint8_t flags;     /*  33  enum xce_map_flag */
    uint8_t name_len;  /*  34 */
    uint8_t gecos_len; /*  35 */
    uint16_t pair;     /*  36  index; XCE_MAP_NOPAIR: none, state is XCE_MAP_NONE */
    uint16_t n_gids;   /*  38  supplementary */
    uint32_t block;    /*  40  index of the first of its blocks; 0 if n_gids is 0 */
    uint32_t zero;     /*  44 */
    char text[72];     /*  48  name NUL 'x' NUL gecos NUL, zeros behind */
    uint64_t check;    /* 120  over the record, seq even */
};

/* home NUL shell NUL, zeros behind */
struct xce_map_pair {
    uint64_t check;     /*   0  over the pair */
    uint16_t home_len;  /*   8 */
    uint16_t shell_len; /*  10 */
    uint32_t zero;      /*  12 */
    char text[496];     /*  16 */
};

/* A lease with n_gids > 0 has (n_gids + 1) * 4 bytes from its block on, in adjacent blocks: a 32-bit sum, then the gids.
 * The sum is that of all gids, and n_gids, and the low half of XCE_MAP_SUM. */
#define XCE_MAP_BLOCKS_OF(n_gids) (((n_gids) + 1 + 15) / 16)

struct xce_map_header {
    uint64_t magic;       /*    0 */
    uint16_t version;     /*    8  of the layout */
    uint16_t compat;      /*   10  oldest reader that understands it */
    uint32_t header_size; /*   12  XCE_MAP_PAGE */
    uint64_t file_size;   /*   16 */
    uint32_t record_size; /*   24 */
    uint32_t pair_size;   /*   28 */
    uint32_t block_size;  /*   32 */
    uint32_t n_pairs;     /*   36 */
    uint32_t n_blocks;    /*   40 */
    uint32_t zero0;       /*   44 */
    uint64_t pairs_at;    /*   48 */
    uint64_t blocks_at;   /*   56 */

    /* one cache line: what each look-up needs */
    uint32_t state;      /*   64  enum xce_map_state; taken as 0 in the check */
    uint32_t first_uid;  /*   68  lowest of all ranges; without ranges 1, */
    uint32_t last_uid;   /*   72  highest; without ranges 0 */
    uint32_t n_ranges;   /*   76 */
    uint64_t records_at; /*   80 */
    uint32_t n_records;  /*   88 */
    uint32_t prefix_len; /*   92 */
    char prefix[32];     /*   96  zeros behind */

    struct xce_map_range ranges[XCE_RANGES_MAX]; /*  128 */
    uint8_t zero1[2040 - 1152];                  /* 1152 */
    uint64_t check;                              /* 2040  over bytes 0..2047 */

    /* What changes while the file lives; each a word of its own. */
    uint64_t revision; /* 2048  every change up to this one is in the map */
    uint32_t synced;   /* 2056  1: noded had caught up with the cluster when it wrote revision */
    uint32_t writer;   /* 2060  enum xce_map_writer_state */
    uint64_t beat_boot_ms; /* 2064  CLOCK_BOOTTIME when noded was last alive */
    /* 2072  and when it sent the last heartbeat that a leader answered; 0 = none */
    uint64_t heard_boot_ms;
    uint32_t writer_starts; /* 2080  processes that have written this file */
    uint32_t zero2;         /* 2084 */
    /* 2088  of the cluster's state that revision belongs to, zeros behind */
    uint8_t incarnation[32];
    uint8_t zero3[2176 - 2120];

    /* The record that is being changed, or was last. */
    uint64_t intent_target; /* 2176  count << 32 | index + 1; 0 = being written, or none */
    uint8_t zero4[120];
    struct xce_map_record intent; /* 2304 */
    uint8_t zero5[4096 - 2432];
};

static_assert(sizeof(struct xce_map_record) == 128, "layout");
static_assert(offsetof(struct xce_map_record, text) == 48, "layout");
static_assert(offsetof(struct xce_map_record, check) == 120, "layout");
static_assert(sizeof(struct xce_map_pair) == 512, "layout");
static_assert(sizeof(struct xce_map_range) == 16, "layout");
static_assert(sizeof(struct xce_map_header) == XCE_MAP_PAGE, "layout");
static_assert(offsetof(struct xce_map_header, state) == 64, "layout");
static_assert(offsetof(struct xce_map_header, ranges) == 128, "layout");
static_assert(offsetof(struct xce_map_header, check) == 2040, "layout");
static_assert(offsetof(struct xce_map_header, intent_target) == 2176, "layout");
static_assert(offsetof(struct xce_map_header, intent) == 2304, "layout");
static_assert(sizeof(((struct xce_map_record *)0)->text) ==
                  XCE_NAME_LEN_MAX + 1 + 2 + XCE_GECOS_LEN_MAX + 1,
              "layout");

#endif
