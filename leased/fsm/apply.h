/* The commands: one function each, called by fsm_apply with the state, the command, and an outcome that says FSM_OK.
 *
 * They check first and change then: a command that fails has changed nothing. Memory out of apply_alloc lives until the
 * next entry. */
#ifndef XCE_LEASED_FSM_APPLY_H
#define XCE_LEASED_FSM_APPLY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/text.h"
#include "leased/fsm/state.h"
#include "xce/limits.h"
#include "xce/v1/command.pb-c.h"

_Static_assert(XCE_HOME_LEN_MAX == XCE_SHELL_LEN_MAX, "home and shell are checked alike");

/* Bytes that are kept. What is free text (reasons, details) is cut; what names something is refused. */
#define APPLY_NAME_MAX  64 /* nodes, machine and boot ids */
#define APPLY_POOL_MAX  32
#define APPLY_JOB_MAX   128
#define APPLY_OWNER_MAX 64
#define APPLY_PATH_MAX  XCE_HOME_LEN_MAX /* as much as a node's map takes */
#define APPLY_NOTE_MAX  160

typedef void (*apply_fn)(struct fsm *fsm, const Xce__V1__Command *command,
                         struct fsm_outcome *outcome);

void apply_init(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome);
/* acquire.c */
void apply_acquire(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome);
/* renew.c: what is done to one lease under its epoch */
void apply_renew(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome);
void apply_release(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome);
void apply_revoke(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome);
/* hello.c */
void apply_hello(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome);
void apply_node_lost(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome);
void apply_watermarks(struct fsm *fsm, const Xce__V1__Command *command,
                      struct fsm_outcome *outcome);
/* report.c */
void apply_report(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome);
/* verb.c */
void apply_node_verb(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome);
/* expiry.c */
void apply_tick(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome);
void apply_grace(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome);
/* pool.c */
void apply_pool_create(struct fsm *fsm, const Xce__V1__Command *command,
                       struct fsm_outcome *outcome);
void apply_pool_set(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome);
void apply_pool_retire(struct fsm *fsm, const Xce__V1__Command *command,
                       struct fsm_outcome *outcome);
void apply_unblock(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome);

/* incarnation.c */
void apply_restore(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome);
void apply_confirm(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome);
/* token.c */
void apply_token(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome);
void apply_enroll(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome);
/* rules.c */
void apply_rules(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome);

/* ---- what several of them need (check.c) ---- */

/* A time span of a message, as people write it: "90s", "1h30m". Returns ret. */
char *apply_span(int64_t ms, char ret[static TEXT_DURATION_BUF]);
/* Whether a pool allows this ttl; else the outcome says what it allows. */
bool apply_ttl(const struct fsm_pool *pool, int64_t ttl_ms, struct fsm_outcome *outcome);
/* Bytes in the arena; never NULL. */
void *apply_alloc(struct fsm *fsm, size_t size);
/* Whether these bytes are text without control characters, 1..max bytes (empty_ok: 0..max); else the outcome says which
 * field is not. */
bool apply_text(ProtobufCBinaryData text, const char *field, size_t max, bool empty_ok,
                struct fsm_outcome *outcome);
/* With a NUL behind it, in the arena. */
const char *apply_string(struct fsm *fsm, ProtobufCBinaryData text);
/* Free text, cut to APPLY_NOTE_MAX; NULL = none, or not text. */
const char *apply_note(struct fsm *fsm, ProtobufCBinaryData text);
/* Who asked, for people; NULL = leased itself. */
const char *apply_actor(struct fsm *fsm, const Xce__V1__Command *command);
/* The node, if that is its session; else NULL, and the outcome says FSM_IGNORED. */
struct node *apply_session(struct fsm *fsm, ProtobufCBinaryData name, uint64_t session,
                           struct fsm_outcome *outcome);
/* The node or pool of that name; else NULL, and the outcome says what is wrong. */
struct node *apply_node(struct fsm *fsm, ProtobufCBinaryData name, struct fsm_outcome *outcome);
struct pool *apply_pool(struct fsm *fsm, ProtobufCBinaryData name, struct fsm_outcome *outcome);

#endif
