#include "leased/server_tls.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/cert_make.h"
#include "common/log.h"
#include "common/net/tls_port.h"
#include "common/text.h"
#include "leased/conf.h"
#include "leased/rpc/listener.h"
#include "leased/service/service.h"

struct server_tls {
    struct tls_keys *keys;
    struct tls_port *port;
    struct log_limit refused;
    bool listens;
    server_tls_changed_fn changed;
    void *changed_arg;
};

static struct tls_files files_of(const struct leased_settings *settings)
{
    return (struct tls_files){.certificate = settings->certificate,
                              .key = settings->key,
                              .ca = settings->ca,
                              .crl = settings->crl,
                              .also = settings->ca_key};
}

static int check_replica(const struct cert_identity *identity, const char *path, struct err *err)
{
    char who[CERT_WHO_BUF];

    if (identity->kind == CERT_REPLICA)
        return 0;
    return err_set(err, -EINVAL,
                   "%s: is the certificate of %s, not of a replica (" CERT_URI_REPLICA "ID)", path,
                   cert_who(identity, who));
}

/* The first CA and its key; *ret_pem: all of the CA file. 0; -EINVAL with err. */
static int load_ca(const struct leased_settings *settings, struct cert_ca **ret, char **ret_pem,
                   struct err *err)
{
    AUTO(cert_pem_free) char *pem = NULL;
    AUTO(cert_pem_free) char *key = NULL;
    int r = cert_read_pem(settings->ca, false, &pem, err);

    if (r == 0)
        r = cert_read_pem(settings->ca_key, true, &key, err);
    if (r < 0)
        return r;
    r = cert_ca_load(pem, key, ret, err);
    if (r < 0)
        return err_prefix(err, r, "leased.CAKey");
    *ret_pem = mem_take(pem);
    return 0;
}

int server_tls_check(const void *data, struct err *err)
{
    const struct leased_settings *settings = data;
    const struct tls_files files = files_of(settings);
    AUTO(cert_pem_free) char *pem = NULL;
    struct cert_identity identity;
    struct cert_ca *ca;
    int r;

    if (!settings->certificate[0])
        return 0;
    r = tls_files_check(&files, TLS_SERVER | TLS_CLIENT, &identity, err);
    if (r < 0)
        return r;
    r = check_replica(&identity, settings->certificate, err);
    cert_identity_done(&identity);
    if (r == 0 && settings->ca_key[0] && (r = load_ca(settings, &ca, &pem, err)) == 0)
        cert_ca_free(ca);
    return r;
}

int server_tls_set_ca(const struct leased_settings *settings, struct service *service,
                      struct err *err)
{
    AUTO(cert_pem_free) char *pem = NULL;
    struct cert_ca *ca = NULL;
    int r = settings->ca_key[0] ? load_ca(settings, &ca, &pem, err) : 0;

    if (r == 0)
        service_set_ca(service, ca, pem, settings->node_life_ms);
    return r;
}

/* ---- what the keys and the port tell ---- */

static void news(enum tls_news news, const struct cert_identity *peer, const char *text, void *arg)
{
    const struct server_tls *tls = arg;
    char who[CERT_WHO_BUF];

    switch (news) {
    case TLS_RELOADED:
        log_notice(LOG_FIELDS(.message_id = LOG_ID_RELOADED), "certificates read again, ours is %s",
                   text);
        if (tls->changed)
            tls->changed(tls->changed_arg);
        break;
    case TLS_FAILED:
        log_error(LOG_FIELDS(.message_id = LOG_ID_CONFIG_BAD), "the old certificates stay: %s",
                  text);
        break;
    case TLS_ENDING:
        log_warning(LOG_FIELDS(.message_id = LOG_ID_CONFIG_BAD),
                    "our certificate %s: leasectl cert renew", text);
        break;
    case TLS_CUT:
        log_notice(LOG_FIELDS(.message_id = LOG_ID_DENIED, .actor = peer->name),
                   "%s is disconnected: %s", cert_who(peer, who), text);
        break;
    }
}

static void refused(const char *address, const char *why, void *arg)
{
    struct server_tls *tls = arg;
    unsigned held;

    if (log_limit_ok(&tls->refused, &held))
        log_notice(LOG_FIELDS(.message_id = LOG_ID_DENIED), "%s refused: %s%s", address, why,
                   held ? " (and others before it)" : "");
}

/* ---- life ---- */

int server_tls_new(struct loop *loop, const struct leased_settings *settings,
                   struct server_tls **ret)
{
    const struct tls_files files = files_of(settings);
    struct server_tls *tls;
    struct err err = {{0}};
    char until[TEXT_TIME_BUF];
    int r = server_tls_check(settings, &err);

    *ret = NULL;
    if (r == 0 && !settings->certificate[0])
        return 0;
    tls = calloc(1, sizeof *tls);
    if (!tls)
        return -ENOMEM;
    tls->refused = (struct log_limit){.interval_ms = 10000, .burst = 20};
    if (r == 0)
        r = tls_keys_new(loop, &files, news, tls, &tls->keys, &err);
    if (r == 0)
        r = tls_port_new(loop, tls->keys, refused, tls, &tls->port);
    if (r < 0) {
        log_error(LOG_FIELDS(.message_id = LOG_ID_CONFIG_BAD), "%s",
                  err.text[0] ? err.text : err_text(r));
        server_tls_free(tls);
        return r;
    }
    log_info(NULL, "replica %s by its certificate, good until %s",
             tls_keys_identity(tls->keys)->name,
             text_format_time(tls_keys_identity(tls->keys)->not_after_ms, until));
    *ret = tls;
    return 0;
}

struct tls_keys *server_tls_keys(struct server_tls *tls)
{
    return tls ? tls->keys : NULL;
}

struct tls_port *server_tls_port(struct server_tls *tls)
{
    return tls ? tls->port : NULL;
}

int server_tls_serve(struct server_tls *tls, struct rpc_server *rpc,
                     const struct leased_settings *settings)
{
    struct err err = {{0}};
    int r;

    if (!tls || tls->listens)
        return 0;
    r = rpc_server_serve_tls(rpc, tls->port);
    for (size_t i = 0; r == 0 && i < settings->listen.n; i++) {
        r = tls_port_listen(tls->port, settings->listen.items[i], &err);
        if (r == 0)
            log_info(NULL, "listening on %s", settings->listen.items[i]);
    }
    if (r < 0)
        log_error(NULL, "leased.Listen: %s", err.text[0] ? err.text : err_text(r));
    tls->listens = r == 0;
    return r;
}

void server_tls_on_change(struct server_tls *tls, server_tls_changed_fn changed, void *arg)
{
    if (!tls)
        return;
    tls->changed = changed;
    tls->changed_arg = arg;
}

int server_tls_reload(struct server_tls *tls, const struct leased_settings *settings)
{
    const struct tls_files files = files_of(settings);
    struct err err = {{0}};
    int r;

    if (!tls)
        return 0;
    r = settings->certificate[0] ? server_tls_check(settings, &err)
                                 : err_set(&err, -EINVAL,
                                           "leased.Certificate is needed until the "
                                           "next start");
    if (r == 0)
        r = tls_keys_reload(tls->keys, &files, &err);
    if (r < 0)
        log_error(LOG_FIELDS(.message_id = LOG_ID_CONFIG_BAD), "the old certificates stay: %s",
                  err.text);
    return r;
}

void server_tls_stop(struct server_tls *tls)
{
    if (!tls)
        return;
    tls_port_free(tls->port);
    tls->port = NULL;
}

void server_tls_free(struct server_tls *tls)
{
    if (!tls)
        return;
    tls_port_free(tls->port);
    tls_keys_free(tls->keys);
    free(tls);
}
