/* A leased of one's own to measure: the real program on a folder of its own, a control connection, and a node of which
 * there is only the session. Whatever fails ends the program with a message; what it started ends with it. */
#ifndef XCE_TESTS_BENCH_CLAIMS_RIG_H
#define XCE_TESTS_BENCH_CLAIMS_RIG_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/net/grpc.h"
#include "common/net/loop.h"

#define RIG_NODE "n1"

struct rig {
    char build[256]; /* folder of the build */
    char folder[256], target[320];
    pid_t leased, noded, userdb; /* 0 = not running */
    struct loop *loop;
    struct grpc_channel *control, *node_channel;
    struct grpc_request *session;
    uint64_t welcome, position; /* revisions of the node's session; 0 = none yet */
    int64_t now_ms;             /* cluster time in the last reply */
    struct loop_timer *beat;
    int64_t heartbeat_ms;
};

/* where: the folder to make one in, on the file system to be measured. */
void rig_init(struct rig *rig, const char *where);
void rig_done(struct rig *rig);

/* Start leased on an empty folder, make a pool of n uids. */
void rig_start(struct rig *rig, uint32_t first, uint32_t n_uids);
/* The same for a leased that somebody else runs: only calls, and the node. Instead of rig_init; ends with rig_stop. */
void rig_attach(struct rig *rig, const char *target, struct loop *loop);

/* A program of that build folder ("leased/leased") with the config and log of that name in folder. It ends with us. */
pid_t rig_spawn(const char *build, const char *program, const char *folder, const char *name);

/* A port of loopback that is nobody's now. */
unsigned rig_free_port(void);

/* The node RIG_NODE begins its session and is trusted with leases. It listens, and reports nothing. */
void rig_node(struct rig *rig);
/* The same by the real noded, on the folder too. */
void rig_noded(struct rig *rig);
/* xce-userdbd over the map of that noded: it has been asked for each of these uids. How many of them are leases. */
unsigned rig_userdb(struct rig *rig, uint32_t first, uint32_t n_uids);
/* End the programs, empty the folder. */
void rig_stop(struct rig *rig);

/* One unary call; the reply is to be freed with protobuf_c_message_free_unpacked. */
ProtobufCMessage *rig_call(struct rig *rig, const char *path, const ProtobufCMessage *message,
                           const ProtobufCMessageDescriptor *reply);

/* Run the loop until cond; dies after seconds. */
void rig_until(struct rig *rig, bool (*cond)(struct rig *rig), int seconds, const char *what);

/* Of what leased says to a session: Changes.revision; 0 = none, or it is another message. */
uint64_t rig_changes_revision(const uint8_t *data, size_t len);

/* Resident memory of a process, MiB; the time it has had a core, all its threads, in seconds. */
double rig_rss_mib(pid_t pid);
double rig_cpu_s(pid_t pid);

_Noreturn void rig_die(const char *what, const char *more);

#endif
