/* Limits that more than one part of xce-lease relies on. No code. */
#ifndef XCE_LIMITS_H
#define XCE_LIMITS_H

/* Lease names: "<prefix><uid>-<epoch>", bytes without the NUL. */
#define XCE_NAME_LEN_MAX   31
#define XCE_PREFIX_LEN_MAX 16

/* What passwd shows of a lease, bytes without the NUL. Printable, no ':'. */
#define XCE_GECOS_LEN_MAX 37
#define XCE_HOME_LEN_MAX  240
#define XCE_SHELL_LEN_MAX 240

/* Supplementary gids of one lease. */
#define XCE_GIDS_MAX 256

/* Pools (one range each) and uids in all of them together, of one map. */
#define XCE_RANGES_MAX 64
#define XCE_UIDS_MAX   4194304u

/* No uid outside of this is ever leased, */
#define XCE_UID_MIN 1000u
#define XCE_UID_MAX 0x7ffdffffu
/* nor one of these {first, last}: system accounts; systemd's homed and nspawn; its dynamic users, nobody and the 16-bit
 * -1; containers and their id mappings; foreign images, everything above and -1. */
/* clang-format off */
#define XCE_RESERVED_UIDS \
    {0, 999}, {60001, 60577}, {61184, 65535}, {524288, 1879048191}, {0x7ffe0000, 0xffffffff}
/* clang-format on */

#endif
