/* Pieces that the verbs of all services share. */
#ifndef XCE_CLIENT_VERB_H
#define XCE_CLIENT_VERB_H

#include <string.h>

#include <protobuf-c/protobuf-c.h>

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

#endif
