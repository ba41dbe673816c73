/* Our own certificate, key, CA bundle and CRL: loaded from files, kept fresh, and the streams that stand on them.
 *
 * One set serves both directions: a replica accepts and connects with the same certificate. Files are read again on
 * tls_keys_reload (SIGHUP) and when one of them has changed (looked at every TLS_KEYS_LOOK_MS; a change is taken when the
 * files have been the same for two looks, so that a certificate and its key may be replaced one after the other). A set
 * that does not hold together is refused whole, with the reason, and the old one stays; so is one whose certificate is
 * another's than our first (kind and name), or may not be used for all that the first may.
 * Streams go on over a reload. Each, and each handshake under way, is looked at again under the new CA and CRL, and cut when
 * its peer's certificate does not pass any more; it is cut, too, within a second after a certificate of the peer's chain has
 * expired.
 *
 * TLS 1.3 alone. The peer must show a certificate that chains to the CA, is within its dates, not revoked (if there is a
 * CRL: one is needed then from every CA of the chain), and whose extended key usage names its role: serverAuth of who was
 * connected to, clientAuth of who connected. No session is resumed, no early data.
 * One loop, one thread. */
#ifndef XCE_COMMON_NET_TLS_KEYS_H
#define XCE_COMMON_NET_TLS_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cert.h"
#include "common/err.h"

struct loop;
struct tls_keys;

#define TLS_KEYS_LOOK_MS 1000

/* For those who have no certificate yet: see tls_files.certificate. */
#define TLS_ALPN_ENROLL "xce-enroll/1"

/* Paths of PEM files. */
struct tls_files {
    /* NULL or "" (and no key) = we are nobody, and may connect by TLS_ALPN_ENROLL alone; else ours, then
     * the intermediates up to, not including, the CA */
    const char *certificate;
    const char *key;  /* not encrypted; for nobody else than its owner and group to read */
    const char *ca;   /* whom we trust: one or more CA certificates */
    const char *crl;  /* NULL or "" = none; else one list for each CA that occurs */
    const char *also; /* NULL or "" = none; not read here, only looked at for changes */
};

enum tls_news {
    TLS_RELOADED = 1, /* new files are in use; text says until when our certificate is good */
    TLS_FAILED = 2,   /* what the files hold now can not be used; text says why */
    TLS_CUT = 3,      /* a stream of `peer` is cut; text says why */
    TLS_ENDING =
        4, /* two thirds of our certificate's life are over; text says when it ends. Again each day */
};

/* peer is NULL unless TLS_CUT. Nothing of the keys, ports and streams may be called in it, save to read them. */
typedef void (*tls_news_fn)(enum tls_news news, const struct cert_identity *peer, const char *text,
                            void *arg);

/* Load the files. Paths are copied. 0; -EINVAL with err naming file and reason; -ENOMEM. */
int tls_keys_new(struct loop *loop, const struct tls_files *files, tls_news_fn news, void *arg,
                 struct tls_keys **ret, struct err *err);

/* Load them again now; files NULL: the same paths. 0; errors as above, the old set stays. */
int tls_keys_reload(struct tls_keys *keys, const struct tls_files *files, struct err *err);

/* Who we are by our certificate in use. Until the next reload. */
const struct cert_identity *tls_keys_identity(const struct tls_keys *keys);

/* Whether a server that our CA stands for has turned us away for our certificate since the last load. */
bool tls_keys_refused(const struct tls_keys *keys);

/* Nothing new stands on it; it goes with the last stream and port, and must do so before the loop. NULL does nothing. */
void tls_keys_free(struct tls_keys *keys);

/* Whether the files could be used, without keeping anything: --check-config.
 *   uses  the extended key usages that our own certificate needs (enum tls_use, ORed)
 *   ret   who it is; cert_identity_done is the caller's. May be NULL
 * 0; -EINVAL, -ENOMEM with err. */
enum tls_use {
    TLS_SERVER = 1,
    TLS_CLIENT = 2,
};
int tls_files_check(const struct tls_files *files, unsigned uses, struct cert_identity *ret,
                    struct err *err);

#endif
