/* One call of NodeService.Enroll: with a token, for this node's first certificate; with the certificate in use, for a newer
 * one of the same key.
 *
 *     begun ─▶ asked a server ─ answer ─▶ certificate written, token removed ─▶ ended(0)
 *                             ─ failure ─▶ ended(-errno), and the next try asks the next server
 *
 * With a token the key is always a new one: the old one may be why the certificate was revoked. It waits beside the old one
 * (Key= and ".new") from before it is asked for, so an answer that is lost costs nothing: the token is spent on the key that
 * waits. The certificate is written first, then the key takes its place, and the token goes last: whoever finds a certificate
 * and a key that do not belong together finds the token, too, and what it is good for. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/address.h"
#include "common/cert_make.h"
#include "common/fsutil.h"
#include "common/log.h"
#include "common/net/grpc.h"
#include "common/net/tls_port.h"
#include "common/pb.h"
#include "common/text.h"
#include "common/token_file.h"
#include "noded/noded_inside.h"
#include "xce/v1/node.pb-c.h"

#define METHOD "/xce.v1.NodeService/Enroll"

enum {
    CALL_MS = 15000,
};

struct enrolment {
    struct noded *n;
    bool renew;
    noded_enrolled_fn ended;
    struct tls_keys *keys; /* of nobody: trusts the CA, shows nothing; NULL: renewal */
    struct grpc_channel *channel;
    struct grpc_request *request;
    const char *server;
    uint8_t secret[TOKEN_SECRET_LEN];
    char *key; /* PEM */
    struct pb_arena arena;
    ProtobufCMessage *reply;
    bool cancelled;
};

static void enrolment_free(struct enrolment *e)
{
    if (e->channel)
        grpc_channel_close(e->channel, NULL, NULL);
    tls_keys_free(e->keys);
    cert_pem_free(e->key);
    explicit_bzero(e->secret, sizeof e->secret);
    pb_arena_done(&e->arena);
    free(e);
}

/* ---- what is there ---- */

static int read_token(struct enrolment *e, struct token_file *ret, char **ret_text, struct err *err)
{
    const char *path = e->n->settings->enroll_token;
    struct stat st;
    int r;

    if (stat(path, &st) == 0 && (st.st_mode & 077))
        return err_set(err, -EPERM, "%s: mode %03o: others than its owner can read the token", path,
                       st.st_mode & 0777u);
    r = fs_read_file(AT_FDCWD, path, TOKEN_FILE_MAX, ret_text, NULL);
    if (r < 0)
        return err_set(err, r, "%s: %s", path, err_text(r));
    r = token_file_parse(*ret_text, ret, err);
    if (r < 0)
        return err_prefix(err, r, "%s", path);
    if (strcmp(ret->node, e->n->node) != 0)
        return err_set(err, -EINVAL, "%s: is for node %s, and this is %s", path, ret->node,
                       e->n->node);
    memcpy(e->secret, ret->secret, sizeof e->secret);
    return 0;
}

static int write_file(const char *path, const char *text, mode_t mode, struct err *err)
{
    int r = fs_write_file(AT_FDCWD, path, text, strlen(text), mode);

    return r < 0 ? err_set(err, r, "%s: %s", path, err_text(r)) : 0;
}

static void name_new_key(const struct enrolment *e, char ret[static PATH_MAX])
{
    (void)snprintf(ret, PATH_MAX, "%s.new", e->n->settings->key);
}

/* The key that waits, made now if there is none. */
static int take_new_key(struct enrolment *e, struct err *err)
{
    char path[PATH_MAX];
    int r;

    name_new_key(e, path);
    if (access(path, F_OK) == 0)
        return cert_read_pem(path, true, &e->key, err);
    r = cert_key_make(&e->key);
    if (r < 0)
        return err_set(err, r, "the key could not be made");
    return write_file(path, e->key, 0600, err);
}

static int put_new_key(const struct enrolment *e, struct err *err)
{
    const char *key = e->n->settings->key;
    char path[PATH_MAX];
    int r;

    name_new_key(e, path);
    r = rename(path, key) < 0 ? -errno : fs_sync_parent(AT_FDCWD, key);
    return r < 0 ? err_set(err, r, "%s: %s", key, err_text(r)) : 0;
}

/* The token is not good for it, and nothing will be. */
static void drop_new_key(const struct enrolment *e)
{
    char path[PATH_MAX];

    name_new_key(e, path);
    (void)unlink(path);
}

/* Whom to trust: the configured CA file; where there is none yet, what came with the token. */
static int take_ca(const struct enrolment *e, const struct token_file *token, struct err *err)
{
    const char *path = e->n->settings->ca;

    if (access(path, F_OK) == 0)
        return 0;
    if (!token->ca[0])
        return err_set(err, -ENOENT, "%s: is not there, and the token brings no CA", path);
    return write_file(path, token->ca, 0644, err);
}

static int prepare_first(struct enrolment *e, struct err *err)
{
    struct tls_files files = {.ca = e->n->settings->ca, .crl = e->n->settings->crl};
    AUTO(cert_pem_free) char *text = NULL;
    struct token_file token;
    int r = read_token(e, &token, &text, err);

    if (r == 0)
        r = take_ca(e, &token, err);
    if (r == 0)
        r = take_new_key(e, err);
    if (r == 0)
        r = tls_keys_new(e->n->loop, &files, NULL, NULL, &e->keys, err);
    return r;
}

/* ---- the answer ---- */

/* It must be this node's, of this key. */
static int check_certificate(const struct enrolment *e, const char *pem, struct err *err)
{
    struct cert_identity identity;
    struct cert_request *given = NULL, *own = NULL;
    uint8_t a[CERT_KEY_HASH_LEN], b[CERT_KEY_HASH_LEN];
    char who[CERT_WHO_BUF];
    int r = cert_read(pem, strlen(pem), &identity, NULL, NULL, err);

    if (r < 0)
        return r;
    if (identity.kind != CERT_NODE || strcmp(identity.name, e->n->node) != 0)
        r = err_set(err, -EBADMSG, "the server gave the certificate of %s",
                    cert_who(&identity, who));
    cert_identity_done(&identity);
    if (r == 0)
        r = cert_request_of_certificate(pem, &given, err);
    if (r == 0)
        r = cert_request_of_key(e->key, &own, err);
    if (r == 0) {
        cert_request_key_hash(given, a);
        cert_request_key_hash(own, b);
        if (memcmp(a, b, sizeof a) != 0)
            r = err_set(err, -EBADMSG, "the server gave a certificate of another key");
    }
    cert_request_free(given);
    cert_request_free(own);
    return r;
}

static int take_certificate(struct enrolment *e, struct err *err)
{
    const Xce__V1__EnrollReply *reply = (const Xce__V1__EnrollReply *)e->reply;
    auto_free char *pem = reply ? mem_dup(reply->certificate.data, reply->certificate.len) : NULL;
    int r;

    if (!pem || memchr(pem, '\0', reply->certificate.len))
        return err_set(err, -EBADMSG, "the server's answer holds no certificate");
    r = check_certificate(e, pem, err);
    if (r == 0)
        r = write_file(e->n->settings->certificate, pem, 0644, err);
    if (r == 0 && !e->renew)
        r = put_new_key(e, err);
    if (r < 0)
        return r;
    if (!e->renew && unlink(e->n->settings->enroll_token) < 0)
        log_warning(LOG_FIELDS(.node = e->n->node), "%s: %s", e->n->settings->enroll_token,
                    err_text(errno));
    log_notice(LOG_FIELDS(.message_id = LOG_ID_ENROLLED, .node = e->n->node), "%s at %s",
               e->renew ? "the certificate is renewed" : "enrolled", e->server);
    return 0;
}

static void on_message(struct grpc_request *request, const uint8_t *data, size_t len, void *arg)
{
    struct enrolment *e = arg;

    (void)request;
    (void)pb_unpack(&e->arena, &xce__v1__enroll_reply__descriptor, data, len, &e->reply, NULL);
}

static void on_end(struct grpc_request *request, enum grpc_status status, const char *message,
                   bool sent, void *arg)
{
    struct enrolment *e = arg;
    struct noded *n = e->n;
    noded_enrolled_fn ended = e->ended;
    bool cancelled = e->cancelled;
    struct err err = {{0}};
    int r;

    (void)request, (void)sent;
    if (status == GRPC_OK)
        r = take_certificate(e, &err);
    else
        r = err_set(&err, -EIO, "%s: %s%s%s", e->server, grpc_status_name(status),
                    *message ? ": " : "", message);
    if (status == GRPC_PERMISSION_DENIED && !e->renew)
        drop_new_key(e);
    n->enrolment = NULL;
    if (r < 0)
        n->enrol_server++;
    enrolment_free(e);
    noded_offload_done(n);
    if (cancelled)
        noded_touch(n);
    else
        ended(n, r, err.text);
}

static const struct grpc_request_events events = {
    .message = on_message, .end = on_end, .unary = true};

/* ---- asking ---- */

/* The next server over TCP in the row. */
static const char *next_server(struct noded *n)
{
    const struct conf_list *servers = &n->settings->servers;

    for (size_t i = 0; i < servers->n; i++) {
        const char *server = servers->items[(n->enrol_server + i) % servers->n];

        if (!address_is_unix(server)) {
            n->enrol_server = (n->enrol_server + i) % servers->n;
            return server;
        }
    }
    return NULL;
}

static int send_request(struct enrolment *e, struct err *err)
{
    Xce__V1__EnrollRequest message = XCE__V1__ENROLL_REQUEST__INIT;
    AUTO(cert_pem_free) char *csr = NULL;
    uint8_t *bytes;
    size_t len;
    int r = cert_request_make(e->key, CERT_NODE, e->n->node, &csr, err);

    if (r < 0)
        return r;
    message.csr.data = (uint8_t *)csr;
    message.csr.len = strlen(csr);
    if (!e->renew) {
        message.token.data = e->secret;
        message.token.len = sizeof e->secret;
    }
    r = grpc_request_start(e->channel, METHOD, CALL_MS, NULL, &events, e, &e->request);
    if (r < 0)
        return err_set(err, r, "%s: %s", e->server, err_text(r));
    len = xce__v1__enroll_request__get_packed_size(&message);
    bytes = grpc_message_new(len);
    if (bytes) {
        (void)xce__v1__enroll_request__pack(&message, bytes);
        (void)grpc_request_send_owned(e->request, bytes, len);
        grpc_request_half_close(e->request);
    } else {
        grpc_request_cancel(e->request);
    }
    return 0;
}

int noded_enroll(struct noded *n, bool renew, noded_enrolled_fn ended, struct err *err)
{
    struct enrolment *e = mem_must_calloc(1, sizeof *e);
    int r;

    e->n = n;
    e->renew = renew;
    e->ended = ended;
    e->server = next_server(n);
    pb_arena_init(&e->arena, PB_ARENA_MAX);
    r = !e->server ? err_set(err, -EINVAL, "noded.Server names none over TCP")
        : renew    ? cert_read_pem(n->settings->key, true, &e->key, err)
                   : prepare_first(e, err);
    if (r == 0) {
        r = grpc_channel_tls_new(n->loop, e->server, renew ? n->keys : e->keys, CERT_URI_REPLICA,
                                 renew ? NULL : TLS_ALPN_ENROLL, NULL, &e->channel);
        if (r < 0)
            (void)err_set(err, r, "%s: %s", e->server, err_text(r));
    }
    if (r == 0)
        r = send_request(e, err);
    if (r < 0) {
        enrolment_free(e);
        return r;
    }
    n->enrolment = e;
    n->n_jobs++;
    return 0;
}

void noded_enroll_cancel(struct noded *n)
{
    if (!n->enrolment)
        return;
    n->enrolment->cancelled = true;
    grpc_request_cancel(n->enrolment->request);
}
