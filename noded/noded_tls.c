/* Who this node is towards servers over TCP: its certificate, kept fresh. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/address.h"
#include "common/log.h"
#include "common/net/loop.h"
#include "common/net/tls_keys.h"
#include "common/text.h"
#include "noded/noded.h"
#include "noded/noded_inside.h"

enum {
    RETRY_MS = 5000,
};

static struct tls_files files_of(const struct noded_settings *settings)
{
    return (struct tls_files){.certificate = settings->certificate,
                              .key = settings->key,
                              .ca = settings->ca,
                              .crl = settings->crl};
}

static bool over_tcp(const struct noded_settings *settings)
{
    for (size_t i = 0; i < settings->servers.n; i++)
        if (!address_is_unix(settings->servers.items[i]))
            return true;
    return false;
}

static void news(enum tls_news news, const struct cert_identity *peer, const char *text, void *arg)
{
    const struct noded *n = arg;
    char who[CERT_WHO_BUF];

    if (news == TLS_RELOADED)
        log_notice(LOG_FIELDS(.message_id = LOG_ID_RELOADED, .node = n->node),
                   "certificates read again, ours is %s", text);
    else if (news == TLS_FAILED)
        log_error(LOG_FIELDS(.message_id = LOG_ID_CONFIG_BAD, .node = n->node),
                  "the old certificates stay: %s", text);
    else
        log_notice(LOG_FIELDS(.message_id = LOG_ID_DENIED, .node = n->node),
                   "%s is disconnected: %s", cert_who(peer, who), text);
}

/* Another node's certificate would get no session: said here, where it can be put right. */
static int check_own(const struct noded *n, const struct cert_identity *own, struct err *err)
{
    char who[CERT_WHO_BUF];

    if (own->kind == CERT_NODE && strcmp(own->name, n->node) == 0)
        return 0;
    return err_set(err, -EINVAL, "%s: is the certificate of %s, and this is node %s",
                   n->settings->certificate, cert_who(own, who), n->node);
}

/* Why there is no session yet; said once. */
static void trouble(struct noded *n, const char *why)
{
    if (strcmp(n->tls_trouble, why) != 0)
        log_error(LOG_FIELDS(.message_id = LOG_ID_CONFIG_BAD, .node = n->node), "no session: %s",
                  why);
    (void)snprintf(n->tls_trouble, sizeof n->tls_trouble, "%s", why);
    n->tls_retry_ms = loop_now_ms(n->loop) + RETRY_MS;
}

static int load(struct noded *n, struct err *err)
{
    const struct tls_files files = files_of(n->settings);
    int r = tls_keys_new(n->loop, &files, news, n, &n->keys, err);

    if (r < 0)
        return r;
    r = check_own(n, tls_keys_identity(n->keys), err);
    if (r < 0)
        noded_tls_end(n);
    return r;
}

void noded_tls_start(struct noded *n)
{
    struct err err = {{0}};

    if (over_tcp(n->settings) && load(n, &err) < 0)
        trouble(n, err.text);
    else
        noded_session_start(n);
}

void noded_tls_beat(struct noded *n)
{
    if (!n->session && loop_now_ms(n->loop) >= n->tls_retry_ms)
        noded_tls_start(n);
}

void noded_tls_reload(struct noded *n)
{
    struct err err = {{0}};

    if (n->keys && tls_keys_reload(n->keys, NULL, &err) < 0)
        log_error(LOG_FIELDS(.message_id = LOG_ID_CONFIG_BAD, .node = n->node),
                  "the old certificates stay: %s", err.text);
}

void noded_tls_end(struct noded *n)
{
    tls_keys_free(n->keys);
    n->keys = NULL;
}

int noded_tls_check(const void *data, struct err *err)
{
    const struct noded_settings *settings = data;
    const struct tls_files files = files_of(settings);

    return over_tcp(settings) ? tls_files_check(&files, TLS_CLIENT, NULL, err) : 0;
}
