/* The folder of a replica: who it is, and whether its log is whole. What the library keeps there is read, never written; of a
 * snapshot's installation that a crash cut off, the rest is done.
 *
 *   replica              who: "xce-replica 1", id, name, cluster, begin, and a checksum; one "key value" a line
 *   metadata1, metadata2 term and vote (the library's)
 *   FIRST-LAST           closed segment: entries FIRST to LAST, 16 digits each; never written again
 *   open-N               open segment; its end may be torn
 *   snapshot-TERM-INDEX-TIME, and the same with .meta
 *
 * The raft id is the folder's random id: a replica whose folder was lost comes back under another id, for the old one may
 * have voted. Synchronous: for the start. */
#ifndef XCE_LEASED_ENGINE_RAFT_FOLDER_H
#define XCE_LEASED_ENGINE_RAFT_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "leased/engine/replica.h"

enum raft_begin {
    RAFT_BEGIN_NO = 0,    /* it has begun, or waits to be added */
    RAFT_BEGIN_FIRST = 1, /* it is the first replica of a new cluster */
    RAFT_BEGIN_STATE = 2, /* the same, with the state that the single replica had */
};

struct raft_identity {
    uint64_t id;
    char name[REPLICA_NAME_MAX + 1];
    uint8_t cluster[REPLICA_CLUSTER_LEN]; /* zeros: not known yet */
    enum raft_begin begin;
};

/* Of a folder that is new: a random id. */
void raft_identity_new(struct raft_identity *identity, const char *name);
/* 0; -ENOENT nobody lives there; -EBADMSG damaged; -errno. why: a sentence. */
int raft_identity_read(const char *folder, struct raft_identity *ret,
                       char why[static ENGINE_WHY_MAX]);
/* Atomic, durable; makes the folder. 0; -errno. */
int raft_identity_write(const char *folder, const struct raft_identity *identity,
                        char why[static ENGINE_WHY_MAX]);

/* Read every segment and the metadata of snapshots: sums, places, that nothing is missing in between. A torn end of what is
 * still open is no damage. name is said in the way back.
 * 0; -EBADMSG damaged, why names file and way back; -errno. */
int raft_folder_check(const char *folder, const char *name, char why[static ENGINE_WHY_MAX]);

/* The sentence for a file of the folder that makes no sense to its reader. Returns -EBADMSG. */
int raft_folder_complain(const char *folder, const char *name, const char *file, const char *what,
                         char why[static ENGINE_WHY_MAX]);

/* The file of the newest snapshot, "" without. */
int raft_folder_newest_snapshot(const char *folder, char ret[static 128]);

#endif
