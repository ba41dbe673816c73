/* Requests out of foreign hands. The first byte picks the type; what pb_check lets through, protobuf-c takes, and packs
 * again to something that is let through. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/pb.h"
#include "common/text.h"
#include "xce/v1/command.pb-c.h"
#include "xce/v1/lease.pb-c.h"
#include "xce/v1/node.pb-c.h"
#include "xce/v1/pool.pb-c.h"

static const ProtobufCMessageDescriptor *const types[] = {
    &xce__v1__acquire_request__descriptor,
    &xce__v1__renew_request__descriptor,
    &xce__v1__release_request__descriptor,
    &xce__v1__revoke_request__descriptor,
    &xce__v1__lease_key__descriptor,
    &xce__v1__list_leases_request__descriptor,
    &xce__v1__watch_request__descriptor,
    &xce__v1__history_request__descriptor,
    &xce__v1__lease__descriptor,
    &xce__v1__explain_reply__descriptor,
    &xce__v1__list_leases_reply__descriptor,
    &xce__v1__watch_event__descriptor,
};

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void pack_again(const ProtobufCMessage *message, const ProtobufCMessageDescriptor *type)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = mem_must_alloc(len);

    must(protobuf_c_message_pack(message, bytes) == len);
    must(pb_check(type, bytes, len, NULL) == 0);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const ProtobufCMessageDescriptor *type;
    ProtobufCMessage *message = NULL;
    struct pb_arena arena;
    struct err err = {0};
    int r, checked;

    if (size == 0)
        return 0;
    type = types[data[0] % ARRAY_LEN(types)];
    pb_arena_init(&arena, PB_ARENA_MAX);
    checked = pb_check(type, data + 1, size - 1, &err);
    must((err.text[0] == '\0') == (checked == 0));
    must(text_check(err.text, strlen(err.text), ERR_TEXT_MAX, NULL) == 0);
    r = pb_unpack(&arena, type, data + 1, size - 1, &message, NULL);
    must(r == checked);
    if (r == 0)
        pack_again(message, type);
    pb_arena_done(&arena);
    return 0;
}
