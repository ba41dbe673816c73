/* Pieces that the verbs of all services share. */
#ifndef XCE_CLIENT_VERB_H
#define XCE_CLIENT_VERB_H

#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include "client/client.h"
#include "client/op.h"
#include "client/result.h"

#define OUT_OF_MEMORY(client) client_fail(client, XCE_FAILED, "out of memory")

/* A struct op_spec, of all but the request. The file defines SERVICE: the service's name, "PoolService". */
#define VERB(kind_, verb, reply_, take_)                                                           \
    {                                                                                              \
        .kind = kind_, .path = "/xce.v1." SERVICE "/" verb,                                        \
        .reply = &xce__v1__##reply_##__descriptor, .take = take_                                   \
    }

/* A string as a `bytes` field; borrowed. NULL is empty. */
static inline ProtobufCBinaryData verb_bytes(const char *text)
{
    ProtobufCBinaryData bytes = {0};

    if (text) {
        bytes.len = strlen(text);
        /* protobuf-c does not write to what it packs. */
        bytes.data = (uint8_t *)(uintptr_t)text;
    }
    return bytes;
}

/* op_run of the verb with this request, for a result of size bytes. */
static inline int verb_run(struct xce_client *client, const struct xce_call *call,
                           struct op_spec *spec, const ProtobufCMessage *request, size_t size,
                           void *ret)
{
    spec->request = request;
    return op_run(client, call, spec, result_new(size), ret);
}

#endif
