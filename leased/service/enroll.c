/* NodeService.Token and .Enroll: how a machine gets the certificate of a node, and a newer one later. */
#include "leased/service/enroll.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cert_make.h"
#include "common/digest.h"
#include "common/log.h"
#include "common/text.h"
#include "leased/service/internal.h"
#include "xce/v1/node.pb-c.h"

#define TTL_DEFAULT_MS 3600000

_Static_assert(CERT_KEY_HASH_LEN == FSM_TOKEN_HASH, "a token is spent on the hash of a key");

/* What certificates are made with. */
struct enroll {
    struct cert_ca *ca;
    char *ca_pem;
    int64_t life_ms;
    struct log_limit refused; /* anybody may try tokens */
};

void service_set_ca(struct service *service, struct cert_ca *ca, const char *ca_pem,
                    int64_t life_ms)
{
    struct enroll *enroll = service->enroll;

    if (!enroll) {
        enroll = service->enroll = mem_must_calloc(1, sizeof *enroll);
        enroll->refused = (struct log_limit){.interval_ms = 10000, .burst = 10};
    }
    cert_ca_free(enroll->ca);
    free(enroll->ca_pem);
    enroll->ca = ca;
    enroll->ca_pem = ca_pem ? mem_must_strdup(ca_pem) : NULL;
    enroll->life_ms = life_ms;
}

void enroll_free(struct enroll *enroll)
{
    if (!enroll)
        return;
    cert_ca_free(enroll->ca);
    free(enroll->ca_pem);
    free(enroll);
}

static bool can_sign(const struct service *service, struct service_request *request)
{
    if (service->enroll && service->enroll->ca)
        return true;
    service_refuse(request, -EOPNOTSUPP,
                   "this replica makes no certificates: leased.CAKey is not set");
    return false;
}

/* ---- tokens ---- */

static int64_t ttl_of(const Xce__V1__TokenRequest *message)
{
    return message->ttl_ms ? message->ttl_ms : TTL_DEFAULT_MS;
}

static void token_made(struct service *service, struct service_request *request,
                       const struct fsm_outcome *outcome)
{
    const Xce__V1__TokenRequest *message = (const Xce__V1__TokenRequest *)request->message;
    Xce__V1__TokenReply reply = XCE__V1__TOKEN_REPLY__INIT;
    Xce__V1__ReplyInfo info;

    (void)outcome;
    if (!can_sign(service, request))
        return;
    service_reply_info(service, &info);
    reply.info = &info;
    reply.ca.data = (uint8_t *)service->enroll->ca_pem;
    reply.ca.len = strlen(service->enroll->ca_pem);
    reply.ttl_ms = ttl_of(message);
    service_reply(request, &reply.base);
}

void service_node_token(struct service *service, struct service_request *request)
{
    const Xce__V1__TokenRequest *message = (const Xce__V1__TokenRequest *)request->message;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdToken token = XCE__V1__CMD_TOKEN__INIT;

    if (!can_sign(service, request))
        return;
    token.node = message->node;
    token.hash = message->hash;
    token.ttl_ms = ttl_of(message);
    command.kind_case = XCE__V1__COMMAND__KIND_TOKEN;
    command.token = &token;
    service_propose(service, request, message->request, &command, token_made);
}

/* ---- certificates ---- */

static int read_request(const struct service_request *request, struct cert_request **ret,
                        struct err *err)
{
    const Xce__V1__EnrollRequest *message = (const Xce__V1__EnrollRequest *)request->message;
    int r = cert_request_read(message->csr.data, message->csr.len, ret, err);

    if (r < 0)
        return err_prefix(err, r, "csr");
    if (cert_request_identity(*ret)->kind == CERT_NODE)
        return 0;
    cert_request_free(*ret);
    return err_set(err, -EINVAL, "csr: names no node (" CERT_URI_NODE "NAME)");
}

static void give(struct service *service, struct service_request *request, const char *pem,
                 const struct cert_identity *identity)
{
    Xce__V1__EnrollReply reply = XCE__V1__ENROLL_REPLY__INIT;
    Xce__V1__ReplyInfo info;
    char until[TEXT_TIME_BUF];

    log_notice(LOG_FIELDS(.message_id = LOG_ID_ENROLLED, .node = identity->name,
                          .actor = request->principal.name),
               "certificate made, serial %s, good until %s", identity->serial,
               text_format_time(identity->not_after_ms, until));
    service_reply_info(service, &info);
    reply.info = &info;
    reply.certificate.data = (uint8_t *)(uintptr_t)pem;
    reply.certificate.len = strlen(pem);
    reply.ca.data = (uint8_t *)service->enroll->ca_pem;
    reply.ca.len = strlen(service->enroll->ca_pem);
    request->certificate = identity;
    service_reply(request, &reply.base);
}

/* The right to it is proved. */
static void sign(struct service *service, struct service_request *request,
                 const struct cert_request *asked)
{
    const struct enroll *enroll = service->enroll;
    const struct cert_want want = {.kind = CERT_NODE,
                                   .name = cert_request_identity(asked)->name,
                                   .life_ms = enroll->life_ms,
                                   .or_shorter = true};
    AUTO(cert_pem_free) char *pem = NULL;
    struct cert_identity identity = {0};
    struct err err = {{0}};

    if (cert_issue(enroll->ca, &want, asked, &pem, &identity, &err) < 0) {
        log_error(LOG_FIELDS(.message_id = LOG_ID_ENROLLED, .node = want.name),
                  "no certificate can be made: %s", err.text);
        service_refuse(request, FSM_PRECONDITION, "no certificate can be made: %s", err.text);
        return;
    }
    give(service, request, pem, &identity);
    cert_identity_done(&identity);
}

static void spent(struct service *service, struct service_request *request,
                  const struct fsm_outcome *outcome)
{
    struct cert_request *asked;
    struct err err = {{0}};

    (void)outcome;
    if (!can_sign(service, request))
        return;
    if (read_request(request, &asked, &err) < 0) {
        service_refuse(request, -EINVAL, "%s", err.text);
        return;
    }
    sign(service, request, asked);
    cert_request_free(asked);
}

/* Unknown, ended, another node's, spent on another key: all the same to whoever tries. */
static void refuse_token(struct service *service, struct service_request *request, const char *node)
{
    unsigned held;

    if (log_limit_ok(&service->enroll->refused, &held))
        log_notice(LOG_FIELDS(.message_id = LOG_ID_DENIED, .node = node),
                   "enrolment refused: the token is not good%s",
                   held ? " (and others before it)" : "");
    service_refuse(request, -EACCES, "the token is not good for node %s", node);
}

static void spend(struct service *service, struct service_request *request,
                  const struct cert_request *asked)
{
    const Xce__V1__EnrollRequest *message = (const Xce__V1__EnrollRequest *)request->message;
    const char *node = cert_request_identity(asked)->name;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdEnroll enroll = XCE__V1__CMD_ENROLL__INIT;
    uint8_t hash[FSM_TOKEN_HASH], key[FSM_TOKEN_HASH];

    digest_sha256(message->token.data, message->token.len, hash);
    cert_request_key_hash(asked, key);
    /* A stranger's guess costs no entry of the log. */
    if (!fsm_token_good(service_fsm(service), engine_now_ms(service->deps.engine), hash, key,
                        node)) {
        refuse_token(service, request, node);
        return;
    }
    enroll.node.data = (uint8_t *)(uintptr_t)node;
    enroll.node.len = strlen(node);
    enroll.hash.data = hash;
    enroll.hash.len = sizeof hash;
    enroll.key.data = key;
    enroll.key.len = sizeof key;
    command.kind_case = XCE__V1__COMMAND__KIND_ENROLL;
    command.enroll = &enroll;
    service_propose_for(service, request, &command, spent);
}

/* Of whom an administrator has said that it is off, or is none of ours any more, somebody else may have the certificate. This
 * keeps only those out who do not say hello: a certificate that is good is a node, and a hello registers it again, or takes
 * its fence off. The lock is revocation. */
static bool is_registered(struct service *service, struct service_request *request)
{
    const char *name = request->principal.name;
    const struct fsm_node *node = fsm_node(service_fsm(service), name);

    if (node && node->state != NODE_FENCED)
        return true;
    service_refuse(request, FSM_PRECONDITION, "node %s is %s: no session, no newer certificate",
                   name, node ? "fenced" : "not registered");
    return false;
}

/* A node's own certificate is worth a newer one, while it is a node. */
static void renew(struct service *service, struct service_request *request,
                  const struct cert_request *asked)
{
    const struct principal *caller = &request->principal;

    if (caller->kind != PRINCIPAL_NODE ||
        strcmp(caller->name, cert_request_identity(asked)->name) != 0)
        service_refuse(request, -EACCES, "csr: names node %s, which you are not",
                       cert_request_identity(asked)->name);
    else if (is_registered(service, request))
        sign(service, request, asked);
}

static void enroll_now(struct service *service, struct service_request *request)
{
    const Xce__V1__EnrollRequest *message = (const Xce__V1__EnrollRequest *)request->message;
    struct cert_request *asked;
    struct err err = {{0}};

    if (read_request(request, &asked, &err) < 0) {
        service_refuse(request, -EINVAL, "%s", err.text);
        return;
    }
    if (message->token.len > 0)
        spend(service, request, asked);
    else
        renew(service, request, asked);
    cert_request_free(asked);
}

void service_node_enroll(struct service *service, struct service_request *request)
{
    if (can_sign(service, request))
        service_read(service, request, enroll_now);
}
