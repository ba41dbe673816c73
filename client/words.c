/* The words for the numbers of the API. */
#include "xce/client.h"

#include <stddef.h>

#define WORD(words, i)                                                                             \
    ((i) >= 0 && (size_t)(i) < sizeof(words) / sizeof((words)[0]) && (words)[i] ? (words)[i]       \
                                                                                : "unknown")

const char *xce_code_name(int code)
{
    static const char *const words[] = {
        [XCE_OK] = "ok",
        [XCE_FAILED] = "failed",
        [XCE_INVALID] = "invalid_argument",
        [XCE_NOT_FOUND] = "not_found",
        [XCE_UNREACHABLE] = "unavailable",
        [XCE_TIMEOUT] = "deadline_exceeded",
        [XCE_EXHAUSTED] = "resource_exhausted",
        [XCE_EXISTS] = "already_exists",
        [XCE_PRECONDITION] = "failed_precondition",
        [XCE_UNSUPPORTED] = "unimplemented",
        [XCE_CANCELLED] = "cancelled",
    };

    return WORD(words, code);
}

const char *xce_replica_role_word(int role)
{
    static const char *const words[] = {
        [XCE_REPLICA_VOTER] = "voter",
        [XCE_REPLICA_LEARNER] = "learner",
    };

    return WORD(words, role);
}

const char *xce_scope_word(int scope)
{
    static const char *const words[] = {
        [XCE_SCOPE_NONE] = "none",
        [XCE_SCOPE_OWN] = "own",
        [XCE_SCOPE_ALL] = "all",
    };

    return WORD(words, scope);
}

const char *xce_subject_word(int subject)
{
    static const char *const words[] = {
        [XCE_SUBJECT_LOCAL] = "local",
        [XCE_SUBJECT_USER] = "user",
        [XCE_SUBJECT_GROUP] = "group",
    };

    return WORD(words, subject);
}

const char *xce_lease_state_word(int state)
{
    static const char *const words[] = {
        [XCE_GRANTED] = "granted",   [XCE_ACTIVE] = "active",
        [XCE_DRAINING] = "draining", [XCE_NORMALISING] = "normalising",
        [XCE_COOLING] = "cooling",   [XCE_RETIRED] = "retired",
        [XCE_FREE] = "free",
    };

    return WORD(words, state);
}

const char *xce_proof_word(int proof)
{
    static const char *const words[] = {
        [XCE_PROOF_PENDING] = "pending", [XCE_PROOF_READY] = "ready",
        [XCE_PROOF_REFUSED] = "refused", [XCE_PROOF_CLEAN] = "clean",
        [XCE_PROOF_DIRTY] = "dirty",     [XCE_PROOF_FENCED] = "fenced",
    };

    return WORD(words, proof);
}

const char *xce_path_proof_word(int proof)
{
    static const char *const words[] = {
        [XCE_PATH_PENDING] = "pending", [XCE_PATH_CLEAN] = "clean",
        [XCE_PATH_BLOCKED] = "blocked", [XCE_PATH_UNPROVEN] = "unproven",
        [XCE_PATH_WAIVED] = "waived",
    };

    return WORD(words, proof);
}

const char *xce_pool_state_word(int state)
{
    static const char *const words[] = {
        [XCE_POOL_OPEN] = "open",
        [XCE_POOL_RETIRING] = "retiring",
    };

    return WORD(words, state);
}

const char *xce_node_state_word(int state)
{
    static const char *const words[] = {
        [XCE_NODE_READY] = "ready",       [XCE_NODE_DRAINING] = "draining",
        [XCE_NODE_CORDONED] = "cordoned", [XCE_NODE_LOST] = "lost",
        [XCE_NODE_UNKNOWN] = "unknown",   [XCE_NODE_FENCED] = "fenced",
    };

    return WORD(words, state);
}
