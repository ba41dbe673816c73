#include "leased/rpc/status.h"

#include <errno.h>
#include <stddef.h>

#include "leased/fsm/fsm.h"

struct row {
    int r;
    enum grpc_status status;
    const char *text;
};

static const struct row rows[] = {
    {0, GRPC_OK, ""},
    {FSM_INVALID, GRPC_INVALID_ARGUMENT, "the request can not be right"},
    {FSM_NOT_FOUND, GRPC_NOT_FOUND, "no such object, or none that you may see"},
    {FSM_EXISTS, GRPC_ALREADY_EXISTS, "it exists already"},
    {FSM_EXHAUSTED, GRPC_RESOURCE_EXHAUSTED, "no free uid"},
    {FSM_STALE, GRPC_FAILED_PRECONDITION, "the lease has gone on since"},
    {FSM_PRECONDITION, GRPC_FAILED_PRECONDITION, "not possible in this state"},
    {FSM_REQUEST_REUSED, GRPC_INVALID_ARGUMENT, "this request id came with another payload"},
    {FSM_REQUEST_OLD, GRPC_FAILED_PRECONDITION, "the request is older than what is remembered"},
    {FSM_QUOTA, GRPC_RESOURCE_EXHAUSTED, "the owner has as many leases as the pool allows"},
    {FSM_UNSUPPORTED, GRPC_UNIMPLEMENTED, "not supported by this version"},
    {FSM_NOT_READY, GRPC_ABORTED, "a member node was not ready"},
    {FSM_IGNORED, GRPC_ABORTED, "a newer session of this node has begun"},
    {-EINVAL, GRPC_INVALID_ARGUMENT, "the request can not be right"},
    {-EACCES, GRPC_PERMISSION_DENIED, "not permitted"},
    {-ENOENT, GRPC_NOT_FOUND, "no such object"},
    {-ETIME, GRPC_DEADLINE_EXCEEDED, "the deadline passed"},
    {-ENOSPC, GRPC_RESOURCE_EXHAUSTED, "the disk is full"},
    {-ENOBUFS, GRPC_RESOURCE_EXHAUSTED, "too many requests are waiting"},
    {-EIO, GRPC_UNAVAILABLE, "the disk fails"},
    {-EAGAIN, GRPC_UNAVAILABLE, "there is no leader"},
    {-ECONNABORTED, GRPC_UNAVAILABLE, "the outcome is unknown: ask again with the same request id"},
    {-ECANCELED, GRPC_UNAVAILABLE, "leased is shutting down"},
    {-ESHUTDOWN, GRPC_UNAVAILABLE, "leased must start anew"},
    {-EMSGSIZE, GRPC_RESOURCE_EXHAUSTED, "the request is longer than any may be"},
    {-EOPNOTSUPP, GRPC_UNIMPLEMENTED, "not available"},
    {-EBADMSG, GRPC_INVALID_ARGUMENT, "the message is malformed"},
    {-ENOMEM, GRPC_RESOURCE_EXHAUSTED, "leased is out of memory"},
};

static const struct row *find(int r)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].r == r)
            return &rows[i];
    return NULL;
}

enum grpc_status rpc_status(int r)
{
    const struct row *row = find(r);

    return row ? row->status : GRPC_INTERNAL;
}

const char *rpc_status_text(int r)
{
    const struct row *row = find(r);

    return row ? row->text : "internal error";
}
