/* What a call was, for the audit file and the journal: one line for each that changes something, and for each that is
 * denied. Words of the caller stand in it as they came, made safe. */
#ifndef XCE_LEASED_RPC_RECORD_H
#define XCE_LEASED_RPC_RECORD_H

#include <protobuf-c/protobuf-c.h>

#include "common/buf.h"
#include "common/log.h"
#include "common/net/grpc.h"
#include "common/text.h"
#include "leased/rbac/methods.h"
#include "leased/rbac/principal.h"

#define RECORD_CALLERS     64 /* rows of counts; who shares one with whom is chance */
#define RECORD_REFUSALS    20 /* lines of one caller and method in this time */
#define RECORD_STRANGERS   20 /* of all strangers, whatever they call */
#define RECORD_REFUSALS_MS 60000

struct audit;
struct cert_identity;

struct record {
    const struct principal *principal;
    const char *method;              /* "LeaseService/Release" */
    const ProtobufCMessage *request; /* NULL: it was not read */
    const uint64_t *leases;          /* that an acquire was given */
    size_t n_leases;
    /* How it ended; below 0: the caller left before it was answered, what was asked may have been done. */
    int status;
    const char *message; /* of a refusal; of what has no request: what was done. May be NULL */
    const struct cert_identity *certificate; /* that was made; may be NULL */
};

/* Where it goes, and what is kept from line to line. */
struct recorder {
    struct audit *audit; /* borrowed; NULL = the journal alone */
    /* What one can have as many of as he likes: denials, and whatever a stranger is refused. Each method counts for itself
     * (the last place: those that there are not), so what is cheap to be denied hides nothing else. */
    uint8_t refusals[RECORD_CALLERS][METHODS_MAX + 1];
    int64_t refusals_since_ms;
    uint32_t salt;
    struct log_limit strangers;
    uint64_t left_out; /* lines, since the last that was written */
    struct buf line;
    int64_t time_ms;
    char time[TEXT_TIME_BUF];
};

void recorder_init(struct recorder *recorder);
void recorder_done(struct recorder *recorder);

/* Write what there is to write of this call. */
void record_call(struct recorder *recorder, const struct record *record);

/* The line for the file, with its newline; until the next one. NULL: no memory. */
const char *recorder_line(struct recorder *recorder, const struct record *record, int64_t wall_ms);

#endif
