#include "leased/rpc/record.h"

#include <inttypes.h>
#include <string.h>
#include <syslog.h>

#include "common/cert.h"
#include "common/clock.h"
#include "common/digest.h"
#include "common/log.h"
#include "common/text.h"
#include "leased/audit/audit.h"
#include "leased/rbac/methods.h"
#include "xce/v1/common.pb-c.h"

#define LINE_MAX_BYTES (64u << 10)
#define NAMED_MAX      16 /* leases of a batch that are named */
#define WORDS_MAX      512

/* ---- fields of messages, by name: the verbs call the same things by the same names ---- */

/* Of a choice (oneof) only that which was made is there: the others lie in the same place. */
static bool is_there(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const uint32_t *choice = (const void *)((const char *)message + field->quantifier_offset);

    return !(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) || *choice == field->id;
}

static const void *field(const ProtobufCMessage *message, const char *name, ProtobufCType type)
{
    const ProtobufCFieldDescriptor *found;

    if (!message)
        return NULL;
    found = protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
    if (!found || found->type != type || found->label == PROTOBUF_C_LABEL_REPEATED ||
        !is_there(message, found))
        return NULL;
    return (const char *)message + found->offset;
}

static ProtobufCBinaryData bytes_field(const ProtobufCMessage *message, const char *name)
{
    const ProtobufCBinaryData *bytes = field(message, name, PROTOBUF_C_TYPE_BYTES);

    return bytes ? *bytes : (ProtobufCBinaryData){0};
}

static uint64_t lease_field(const ProtobufCMessage *message)
{
    const uint64_t *lease = field(message, "lease", PROTOBUF_C_TYPE_UINT64);

    return lease ? *lease : 0;
}

/* ---- JSON: strings may be any bytes ---- */

/* How many bytes need no thought: ASCII that stands for itself. */
static size_t plain(const char *text, size_t len)
{
    size_t i = 0;

    while (i < len && text[i] >= ' ' && text[i] < 0x7f && text[i] != '"' && text[i] != '\\')
        i++;
    return i;
}

static void add_string(struct buf *buf, const void *bytes, size_t len)
{
    const char *text = bytes;

    buf_addc(buf, '"');
    for (size_t i = 0; i < len && i < WORDS_MAX;) {
        size_t n = plain(text + i, (len < WORDS_MAX ? len : WORDS_MAX) - i);

        if (n) {
            buf_add(buf, text + i, n);
            i += n;
            continue;
        }
        n = text_char(text + i, len - i);
        if (!n)
            buf_adds(buf, "\\ufffd");
        else if (text[i] == '"' || text[i] == '\\')
            buf_add(buf, (const char[]){'\\', text[i]}, 2);
        else if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            buf_addf(buf, "\\u%04x", (unsigned)text[i]);
        else
            buf_add(buf, text + i, n);
        i += n ? n : 1;
    }
    buf_addc(buf, '"');
}

static void add_key(struct buf *buf, const char *key, const void *bytes, size_t len)
{
    if (!len)
        return;
    buf_adds(buf, ",\"");
    buf_adds(buf, key);
    buf_adds(buf, "\":");
    add_string(buf, bytes, len);
}

static void add_text(struct buf *buf, const char *key, const char *text)
{
    add_key(buf, key, text ? text : "", text ? strlen(text) : 0);
}

/* The leases that an acquire was given. */
static void add_leases(struct buf *buf, const struct record *record)
{
    if (!record->n_leases)
        return;
    buf_adds(buf, ",\"leases\":[");
    for (size_t i = 0; i < record->n_leases && i < NAMED_MAX; i++) {
        buf_adds(buf, i ? "," : "");
        buf_add_u64(buf, record->leases[i]);
    }
    buf_adds(buf, "]");
    if (record->n_leases > NAMED_MAX)
        buf_addf(buf, ",\"more_leases\":%zu", record->n_leases - NAMED_MAX);
}

/* By its serial number it can be revoked. */
static void add_certificate(struct buf *buf, const struct record *record)
{
    if (!record->certificate)
        return;
    add_text(buf, "node", record->certificate->name);
    add_text(buf, "serial", record->certificate->serial);
}

static void add_object(struct buf *buf, const struct record *record)
{
    const ProtobufCMessage *request = record->request;
    ProtobufCBinaryData node = bytes_field(request, "node"), name = bytes_field(request, "name");
    const uint32_t *uid = field(request, "uid", PROTOBUF_C_TYPE_UINT32);
    uint64_t lease = lease_field(request);

    if (lease) {
        buf_adds(buf, ",\"lease\":");
        buf_add_u64(buf, lease);
    }
    add_key(buf, "node", node.data, node.len);
    add_key(buf, strncmp(record->method, "PoolService/", 12) ? "name" : "pool", name.data,
            name.len);
    if (uid && *uid)
        buf_addf(buf, ",\"uid\":%" PRIu32, *uid);
    add_leases(buf, record);
    add_certificate(buf, record);
}

static void add_request_id(struct buf *buf, const ProtobufCMessage *request)
{
    ProtobufCMessage *const *id = field(request, "request", PROTOBUF_C_TYPE_MESSAGE);
    static const char digits[] = "0123456789abcdef";
    const Xce__V1__RequestId *message;
    char hex[2 * 64];
    size_t n = 0;

    if (!id || !*id || (*id)->descriptor != &xce__v1__request_id__descriptor)
        return;
    message = (const Xce__V1__RequestId *)*id;
    buf_adds(buf, ",\"request\":\"");
    for (; n < message->id.len && n < sizeof hex / 2; n++) {
        hex[2 * n] = digits[message->id.data[n] >> 4];
        hex[2 * n + 1] = digits[message->id.data[n] & 15];
    }
    buf_add(buf, hex, 2 * n);
    buf_addc(buf, '"');
}

static const char *outcome(const struct record *record)
{
    return record->status < 0 ? "LEFT" : grpc_status_name((enum grpc_status)record->status);
}

static void record_line(const struct record *record, const char *time, uint64_t left_out,
                        struct buf *buf)
{
    ProtobufCBinaryData reason = bytes_field(record->request, "reason");

    buf_adds(buf, "{\"time\":\"");
    buf_adds(buf, time);
    buf_addc(buf, '"');
    add_text(buf, "principal", record->principal->key);
    add_text(buf, "name", record->principal->name);
    add_text(buf, "method", record->method);
    add_object(buf, record);
    add_text(buf, "outcome", outcome(record));
    add_request_id(buf, record->request);
    add_key(buf, "reason", reason.data, reason.len);
    add_text(buf, "message", record->message);
    if (left_out) {
        buf_adds(buf, ",\"left_out\":");
        buf_add_u64(buf, left_out);
    }
    buf_adds(buf, "}\n");
}

/* ---- where it goes ---- */

static void to_journal(const struct record *record)
{
    ProtobufCBinaryData node = bytes_field(record->request, "node"),
                        reason = bytes_field(record->request, "reason");
    char name[TEXT_NODE_MAX * 4 + 1], why[WORDS_MAX];
    bool ok = record->status == GRPC_OK;

    (void)text_escape(node.data, node.len, name, sizeof name);
    (void)text_escape(reason.data, reason.len, why, sizeof why);
    log_notice(LOG_FIELDS(.message_id = LOG_ID_ACT, .actor = record->principal->key,
                          .lease = lease_field(record->request), .node = *name ? name : NULL),
               "%s by %s: %s%s%s%s%s", record->method, record->principal->name, outcome(record),
               ok || !record->message ? "" : ": ", ok || !record->message ? "" : record->message,
               *why ? ", reason: " : "", why);
}

void recorder_init(struct recorder *recorder)
{
    memset(recorder, 0, sizeof *recorder);
    recorder->strangers = (struct log_limit){.interval_ms = RECORD_REFUSALS_MS,
                                             .burst = RECORD_STRANGERS};
    digest_random(&recorder->salt, sizeof recorder->salt);
    buf_init(&recorder->line, LINE_MAX_BYTES);
}

void recorder_done(struct recorder *recorder)
{
    buf_done(&recorder->line);
}

const char *recorder_line(struct recorder *recorder, const struct record *record, int64_t wall_ms)
{
    if (wall_ms != recorder->time_ms || !*recorder->time)
        (void)text_format_time(wall_ms, recorder->time);
    recorder->time_ms = wall_ms;
    buf_reset(&recorder->line);
    record_line(record, recorder->time, recorder->left_out, &recorder->line);
    return buf_error(&recorder->line) == 0 ? buf_str(&recorder->line) : NULL;
}

/* The count of this caller and method: callers by FNV-1a, from a start that nobody knows. */
static uint8_t *count_of(struct recorder *recorder, const struct record *record)
{
    uint32_t hash = 2166136261u ^ recorder->salt;

    for (const char *key = record->principal->key; *key; key++)
        hash = (hash ^ (uint8_t)*key) * 16777619u;
    return &recorder->refusals[(hash >> 16) % RECORD_CALLERS][methods_find(record->method)];
}

static bool has_room(struct recorder *recorder, const struct record *record)
{
    int64_t now_ms = clock_coarse_ms();
    uint8_t *count = count_of(recorder, record);

    if (now_ms - recorder->refusals_since_ms >= RECORD_REFUSALS_MS) {
        memset(recorder->refusals, 0, sizeof recorder->refusals);
        recorder->refusals_since_ms = now_ms;
    }
    if (*count >= RECORD_REFUSALS)
        return false;
    ++*count;
    return true;
}

/* Whether one more is too many: nobody washes the files out by what he may not. */
static bool is_left_out(struct recorder *recorder, const struct record *record)
{
    unsigned held;

    if (record->principal->kind == PRINCIPAL_STRANGER)
        return record->status != GRPC_OK && !log_limit_ok(&recorder->strangers, &held);
    return record->status == GRPC_PERMISSION_DENIED && !has_room(recorder, record);
}

void record_call(struct recorder *recorder, const struct record *record)
{
    enum method_kind kind = methods_kind(record->method);
    bool denied = record->status == GRPC_PERMISSION_DENIED;
    const char *line;

    if (kind == METHOD_READ && !denied)
        return;
    if (kind == METHOD_ACT && !denied)
        to_journal(record);
    if (!recorder->audit)
        return;
    if (is_left_out(recorder, record)) {
        recorder->left_out++;
        return;
    }
    line = recorder_line(recorder, record, clock_wall_ms());
    if (!line)
        return;
    audit_write(recorder->audit, line, recorder->line.len, kind == METHOD_ACT && !denied);
    recorder->left_out = 0;
}
