/* Who this node is towards servers over TCP: its certificate, kept fresh. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/address.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/net/loop.h"
#include "common/net/tls_keys.h"
#include "common/text.h"
#include "noded/noded.h"
#include "noded/noded_inside.h"

enum {
    RETRY_MS = 5000,
    RENEW_RETRY_MS = 600000,
    RENEW_RETRY_LEAST_MS = 1000,
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
    else if (news == TLS_CUT)
        log_notice(LOG_FIELDS(.message_id = LOG_ID_DENIED, .node = n->node),
                   "%s is disconnected: %s", cert_who(peer, who), text);
    else if (!n->settings->renew)
        log_warning(LOG_FIELDS(.message_id = LOG_ID_CONFIG_BAD, .node = n->node),
                    "our certificate %s, and noded.Renew is off", text);
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

static void enrolled(struct noded *n, int r, const char *why)
{
    if (r < 0)
        trouble(n, why);
    else
        noded_tls_start(n);
}

static bool has_token(const struct noded *n)
{
    return n->settings->enroll_token[0] && access(n->settings->enroll_token, F_OK) == 0;
}

/* Without a certificate that is good, a token is worth one. */
static int enroll(struct noded *n, struct err *err)
{
    struct err no_certificate = *err;
    int r;

    if (!has_token(n))
        return -ENOKEY;
    r = noded_enroll(n, false, enrolled, err);
    return r < 0 ? err_set(err, r, "%s; %s", no_certificate.text, err->text) : 0;
}

void noded_tls_start(struct noded *n)
{
    struct err err = {{0}};

    if (over_tcp(n->settings) && load(n, &err) < 0) {
        if (enroll(n, &err) < 0)
            trouble(n, err.text);
        return;
    }
    n->tls_trouble[0] = '\0';
    noded_session_start(n);
}

/* ---- renewal ---- */

static void renewed(struct noded *n, int r, const char *why)
{
    const struct cert_identity *own = tls_keys_identity(n->keys);
    int64_t left_ms = own->not_after_ms - clock_wall_ms(), wait_ms = left_ms / 8;

    if (wait_ms > RENEW_RETRY_MS)
        wait_ms = RENEW_RETRY_MS;
    if (wait_ms < RENEW_RETRY_LEAST_MS)
        wait_ms = RENEW_RETRY_LEAST_MS;
    n->renew_ms = loop_now_ms(n->loop) + wait_ms;
    if (r < 0)
        log_warning(LOG_FIELDS(.message_id = LOG_ID_ENROLLED, .node = n->node),
                    "the certificate is not renewed yet, and ends in %lld s: %s",
                    (long long)(left_ms / 1000), why);
    else
        noded_tls_reload(n);
}

/* Two thirds of its life are over. Only what leased has made is renewed there: others have their own ways. */
static bool is_due(const struct noded *n)
{
    const struct cert_identity *own = tls_keys_identity(n->keys);
    int64_t life_ms = own->not_after_ms - own->not_before_ms;

    return n->settings->renew && clock_wall_ms() >= own->not_before_ms + life_ms / 3 * 2 &&
           loop_now_ms(n->loop) >= n->renew_ms;
}

/* It has ended, or is revoked: nobody takes it, not to renew it either. Who brought a token wants another. */
static bool wants_another(const struct noded *n)
{
    return tls_keys_refused(n->keys) && !session_server(n->session) && has_token(n) &&
           loop_now_ms(n->loop) >= n->tls_retry_ms;
}

static void enrolled_again(struct noded *n, int r, const char *why)
{
    if (r < 0) {
        trouble(n, why);
        return;
    }
    n->tls_trouble[0] = '\0';
    noded_tls_reload(n);
}

static void renew_if_due(struct noded *n)
{
    struct err err = {{0}};

    if (!n->keys || n->enrolment)
        return;
    if (wants_another(n)) {
        if (noded_enroll(n, false, enrolled_again, &err) < 0)
            trouble(n, err.text);
    } else if (is_due(n) && noded_enroll(n, true, renewed, &err) < 0) {
        renewed(n, -EIO, err.text);
    }
}

void noded_tls_beat(struct noded *n)
{
    if (!n->session && !n->enrolment && loop_now_ms(n->loop) >= n->tls_retry_ms)
        noded_tls_start(n);
    else
        renew_if_due(n);
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

    /* What enrolment will bring can not be looked at yet. */
    if (!over_tcp(settings) ||
        (settings->enroll_token[0] && access(settings->certificate, F_OK) < 0))
        return 0;
    return tls_files_check(&files, TLS_CLIENT, NULL, err);
}
