/* The bytes of a snapshot.
 *
 *   offset 0   "XCE-FSM\n"
 *          8   u32 SNAPSHOT_VERSION
 *         12   u32 CRC-32C of all that follows
 *         16   u64 length of all that follows the length
 *         24   head, floors, pools by name, nodes by name, oaths, leases by id, requests oldest first,
 *              rules (from version 2 on), tokens (3), what a restored backup has left behind (4; from 5 on behind a byte
 *              that says whether there is any), findings that leave by themselves: uid, revision (5); from 6 on place in the pool's
 *              list, uid, revision; who speaks beside nodes, and in which boots their machines spoke before (7)
 *
 * Little-endian; strings as in codec.h. Canonical: the same state gives the same bytes. Derived state is not in it.
 * Earlier ones read earlier versions: a state where no machine has had two boots is written as version 6, if no uid has two
 * findings as 5, without any that leaves by itself as 4, and if it never was a backup as 3. */
#ifndef XCE_LEASED_FSM_SNAPSHOT_H
#define XCE_LEASED_FSM_SNAPSHOT_H

#define SNAPSHOT_MAGIC    "XCE-FSM\n"
#define SNAPSHOT_VERSION  7
#define SNAPSHOT_DOUBLED  6
#define SNAPSHOT_PASSING  5
#define SNAPSHOT_RESTORED 4
#define SNAPSHOT_PLAIN    3
#define SNAPSHOT_OLDEST   1 /* without rules and tokens; still read */
#define SNAPSHOT_HEAD     24
#define SNAPSHOT_CRC_FROM 16

#endif
