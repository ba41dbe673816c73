#include "leased/rpc/reflection.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/grpc.h"
#include "common/pb.h"
#include "grpc/reflection/v1/reflection.pb-c.h"
#include "leased/rpc/descriptors.h"
#include "leased/rpc/method.h"

/* The messages of v1alpha are those of v1 under another name. */
#define REQUEST  Grpc__Reflection__V1__ServerReflectionRequest
#define RESPONSE Grpc__Reflection__V1__ServerReflectionResponse

enum {
    FILES_MAX = 64,
    SERVICES_MAX = 64,
    NAME_MAX_BYTES = 128,
    WHY_BYTES = 256,
};

struct info {
    struct grpc_call *call;
    struct pb_arena arena;
};

/* ---- look-ups ---- */

static int by_name(const void *key, const void *symbol)
{
    return strcmp(key, ((const struct descriptor_symbol *)symbol)->name);
}

static const struct descriptor_file *file_of_symbol(const char *name)
{
    const struct descriptor_symbol *symbol = bsearch(name, descriptor_symbols, n_descriptor_symbols,
                                                     sizeof *descriptor_symbols, by_name);

    return symbol ? &descriptor_files[symbol->file] : NULL;
}

static const struct descriptor_file *file_named(const char *name)
{
    for (size_t i = 0; i < n_descriptor_files; i++)
        if (strcmp(descriptor_files[i].name, name) == 0)
            return &descriptor_files[i];
    return NULL;
}

/* ---- answers ---- */

static void reply(struct info *info, const REQUEST *request, RESPONSE *response)
{
    size_t len;
    uint8_t *bytes;

    response->original_request = (REQUEST *)(uintptr_t)request;
    response->valid_host = request->host;
    len = protobuf_c_message_get_packed_size(&response->base);
    bytes = grpc_message_new(len);
    if (!bytes) {
        grpc_call_finish(info->call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    (void)protobuf_c_message_pack(&response->base, bytes);
    /* A client that asks faster than it reads waits. */
    if (grpc_call_send_owned(info->call, bytes, len) == GRPC_FULL)
        grpc_call_pause(info->call);
}

static void reply_error(struct info *info, const REQUEST *request, enum grpc_status code,
                        const char *why)
{
    Grpc__Reflection__V1__ErrorResponse error = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;
    RESPONSE response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;

    error.error_code = code;
    error.error_message = (char *)(uintptr_t)why;
    response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
    response.error_response = &error;
    reply(info, request, &response);
}

static void reply_not_found(struct info *info, const REQUEST *request, const char *kind,
                            const char *name)
{
    char why[WHY_BYTES];

    (void)snprintf(why, sizeof why, "no %s \"%.128s\"", kind, name);
    /* What was cut may have been cut inside a character; names of ours are ASCII, so nothing is lost. */
    for (char *c = why; *c; c++)
        if (*c & 0x80)
            *c = '?';
    reply_error(info, request, GRPC_NOT_FOUND, why);
}

static void reply_file(struct info *info, const REQUEST *request,
                       const struct descriptor_file *file)
{
    Grpc__Reflection__V1__FileDescriptorResponse files =
        GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
    RESPONSE response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    ProtobufCBinaryData data[FILES_MAX];

    for (; files.n_file_descriptor_proto < file->n_closure &&
           files.n_file_descriptor_proto < FILES_MAX;
         files.n_file_descriptor_proto++) {
        const struct descriptor_file
            *one = &descriptor_files[file->closure[files.n_file_descriptor_proto]];

        data[files.n_file_descriptor_proto] = (ProtobufCBinaryData){
            .data = (uint8_t *)(uintptr_t)one->bytes, .len = one->len};
    }
    files.file_descriptor_proto = data;
    response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
    response.file_descriptor_response = &files;
    reply(info, request, &response);
}

/* We have no extensions; of a type that there is that is an answer too. */
static void reply_extensions(struct info *info, const REQUEST *request, const char *type)
{
    Grpc__Reflection__V1__ExtensionNumberResponse numbers =
        GRPC__REFLECTION__V1__EXTENSION_NUMBER_RESPONSE__INIT;
    RESPONSE response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;

    if (!file_of_symbol(type)) {
        reply_not_found(info, request, "type", type);
        return;
    }
    numbers.base_type_name = (char *)(uintptr_t)type;
    response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ALL_EXTENSION_NUMBERS_RESPONSE;
    response.all_extension_numbers_response = &numbers;
    reply(info, request, &response);
}

/* The services of the method table, which is sorted by path. How many. */
static size_t list_services(char names[][NAME_MAX_BYTES])
{
    const struct rpc_method *method;
    size_t n = 0;

    for (size_t i = 0; (method = rpc_method_at(i)) && n < SERVICES_MAX; i++) {
        const char *service = method->path + 1;
        size_t len = strcspn(service, "/");

        if (n > 0 && strlen(names[n - 1]) == len && memcmp(names[n - 1], service, len) == 0)
            continue;
        (void)snprintf(names[n++], NAME_MAX_BYTES, "%.*s", (int)len, service);
    }
    return n;
}

static void reply_services(struct info *info, const REQUEST *request)
{
    Grpc__Reflection__V1__ListServiceResponse list =
        GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
    RESPONSE response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    Grpc__Reflection__V1__ServiceResponse services[SERVICES_MAX], *pointers[SERVICES_MAX];
    char names[SERVICES_MAX][NAME_MAX_BYTES];

    list.n_service = list_services(names);
    for (size_t i = 0; i < list.n_service; i++) {
        grpc__reflection__v1__service_response__init(&services[i]);
        services[i].name = names[i];
        pointers[i] = &services[i];
    }
    list.service = pointers;
    response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
    response.list_services_response = &list;
    reply(info, request, &response);
}

static void answer(struct info *info, const REQUEST *request)
{
    const struct descriptor_file *file;

    switch (request->message_request_case) {
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
        reply_services(info, request);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
        file = file_named(request->file_by_filename);
        if (file)
            reply_file(info, request, file);
        else
            reply_not_found(info, request, "file", request->file_by_filename);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        file = file_of_symbol(request->file_containing_symbol);
        if (file)
            reply_file(info, request, file);
        else
            reply_not_found(info, request, "symbol", request->file_containing_symbol);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION:
        reply_not_found(info, request, "extension of type",
                        request->file_containing_extension->containing_type);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE:
        reply_extensions(info, request, request->all_extension_numbers_of_type);
        break;
    default:
        reply_error(info, request, GRPC_INVALID_ARGUMENT, "the request asks for nothing we know");
        break;
    }
}

/* ---- the call ---- */

static void info_message(struct grpc_call *call, const uint8_t *data, size_t len, void *arg)
{
    struct info *info = arg;
    ProtobufCMessage *request;
    struct err err = {{0}};

    if (pb_unpack(&info->arena, &grpc__reflection__v1__server_reflection_request__descriptor, data,
                  len, &request, &err) < 0)
        grpc_call_finish(call, GRPC_INVALID_ARGUMENT, err.text);
    else
        answer(info, (const REQUEST *)request);
    pb_arena_reset(&info->arena);
}

static void info_half_closed(struct grpc_call *call, void *arg)
{
    (void)arg;
    grpc_call_finish(call, GRPC_OK, NULL);
}

static void info_writable(struct grpc_call *call, void *arg)
{
    (void)arg;
    grpc_call_resume(call);
}

static void info_end(struct grpc_call *call, void *arg)
{
    struct info *info = arg;

    (void)call;
    pb_arena_done(&info->arena);
    free(info);
}

static const struct grpc_call_events info_events = {
    .message = info_message,
    .half_closed = info_half_closed,
    .writable = info_writable,
    .end = info_end,
};

void reflection_info(struct grpc_call *call, struct rpc_server *server)
{
    struct info *info = calloc(1, sizeof *info);

    (void)server;
    if (!info) {
        grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    info->call = call;
    pb_arena_init(&info->arena, PB_ARENA_MAX);
    grpc_call_bind(call, &info_events, info);
}
