#include "ctl/view_cert.h"

#include <string.h>

#include "common/json.h"
#include "common/text.h"
#include "ctl/ctl.h"
#include "ctl/output.h"

static void cell_kind(const void *row, struct buf *buf)
{
    buf_adds(buf, cert_kind_name(((const struct view_cert *)row)->identity->kind));
}

static void cell_name(const void *row, struct buf *buf)
{
    buf_adds(buf, ((const struct view_cert *)row)->identity->name);
}

static void cell_groups(const void *row, struct buf *buf)
{
    const struct cert_identity *identity = ((const struct view_cert *)row)->identity;

    for (size_t i = 0; i < identity->n_groups; i++)
        buf_addf(buf, "%s%s", i ? "," : "", identity->groups[i]);
}

static void cell_uses(const void *row, struct buf *buf)
{
    unsigned uses = ((const struct view_cert *)row)->uses;

    buf_adds(buf, uses & CERT_USE_SERVER ? "server" : "");
    buf_adds(buf, (uses & CERT_USE_SERVER) && (uses & CERT_USE_CLIENT) ? "," : "");
    buf_adds(buf, uses & CERT_USE_CLIENT ? "client" : "");
}

static void add_time(struct buf *buf, int64_t wall_ms)
{
    char text[TEXT_TIME_BUF];

    buf_adds(buf, text_format_time(wall_ms, text));
}

static void cell_from(const void *row, struct buf *buf)
{
    add_time(buf, ((const struct view_cert *)row)->identity->not_before_ms);
}

static void cell_until(const void *row, struct buf *buf)
{
    add_time(buf, ((const struct view_cert *)row)->identity->not_after_ms);
}

static void cell_serial(const void *row, struct buf *buf)
{
    buf_adds(buf, ((const struct view_cert *)row)->identity->serial);
}

static void cell_issuer(const void *row, struct buf *buf)
{
    buf_adds(buf, ((const struct view_cert *)row)->issuer);
}

static void cell_file(const void *row, struct buf *buf)
{
    const struct view_cert *cert = row;

    buf_adds(buf, cert->file ? cert->file : "");
}

static void cell_key(const void *row, struct buf *buf)
{
    const struct view_cert *cert = row;

    buf_adds(buf, cert->key ? cert->key : "");
}

static const struct output_column columns[] = {
    {"kind", true, false, cell_kind},     {"name", true, false, cell_name},
    {"groups", true, false, cell_groups}, {"uses", true, false, cell_uses},
    {"from", true, false, cell_from},     {"until", true, false, cell_until},
    {"serial", true, false, cell_serial}, {"issuer", true, false, cell_issuer},
    {"file", true, false, cell_file},     {"key", true, false, cell_key},
};

static const struct output_table table = {
    .columns = columns,
    .n_columns = sizeof columns / sizeof columns[0],
    .row_size = sizeof(struct view_cert),
};

static int print_json(struct ctl *ctl, const struct view_cert *cert)
{
    struct json *object = json_new_object(), *groups = json_new_array(), *uses = json_new_array();
    char from[TEXT_TIME_BUF], until[TEXT_TIME_BUF];

    for (size_t i = 0; i < cert->identity->n_groups; i++)
        json_append(groups, json_new_string(cert->identity->groups[i]));
    if (cert->uses & CERT_USE_SERVER)
        json_append(uses, json_new_string("server"));
    if (cert->uses & CERT_USE_CLIENT)
        json_append(uses, json_new_string("client"));
    json_set_string(object, "kind", cert_kind_name(cert->identity->kind));
    json_set_string(object, "name", cert->identity->name);
    json_set(object, "groups", groups);
    json_set(object, "uses", uses);
    json_set_string(object, "from", text_format_time(cert->identity->not_before_ms, from));
    json_set_string(object, "until", text_format_time(cert->identity->not_after_ms, until));
    json_set_string(object, "serial", cert->identity->serial);
    json_set_string(object, "issuer", cert->issuer);
    if (cert->file)
        json_set_string(object, "file", cert->file);
    if (cert->key)
        json_set_string(object, "key", cert->key);
    return ctl_print_json(ctl, object);
}

int view_cert(struct ctl *ctl, const struct view_cert *cert)
{
    return ctl->globals.json ? print_json(ctl, cert) : output_lines(ctl, &table, cert);
}

int view_cert_pem(struct ctl *ctl, const char *pem, const char *file, const char *key)
{
    struct cert_identity identity = {0};
    struct view_cert cert = {.identity = &identity, .file = file, .key = key};
    char issuer[CERT_ISSUER_BUF];
    struct err err = {{0}};
    int status;

    cert.issuer = issuer;
    if (cert_read(pem, strlen(pem), &identity, &cert.uses, issuer, &err) < 0)
        return ctl_fail(ctl, XCE_FAILED, "%s%s%s", file ? file : "", file ? ": " : "", err.text);
    status = view_cert(ctl, &cert);
    cert_identity_done(&identity);
    return status;
}
