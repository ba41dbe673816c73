/* Raw bytes into TLS, before anything is known of the peer. The first byte: bit 0 = into a client that has said its hello,
 * else into a server; the others say into what pieces the rest is cut. Nothing may open, what is owed stays small, and a
 * session that has failed takes nothing any more. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/net/tls.h"
#include "tests/lib/ca.h"

enum {
    OWED_MAX = 16 * 1024,
};

static const char *const alpns[] = {"h2", "xce-raft/1", NULL};
static struct tls_context *context;

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void begin(void)
{
    struct ca *ca = ca_new("the CA");
    const struct tls_files files = ca_replica(ca, "a");

    must(tls_context_new(&files, &context, NULL) == 0);
    ca_free(ca);
}

static void end(void)
{
    tls_context_unref(context);
}

static void feed(struct tls_session *session, const uint8_t *data, size_t len, size_t piece)
{
    static uint8_t plain[64 * 1024 + TLS_RECEIVE_EXTRA];
    size_t n, owed;
    int r = 0;

    while (len > 0) {
        size_t part = len < piece ? len : piece;
        int now = tls_session_receive(session, data, part, plain, sizeof plain, &n);

        must(n == 0 && now <= 0 && !tls_session_open(session));
        must(r == 0 || now < 0);
        r = now;
        (void)tls_session_out(session, &owed);
        must(owed <= OWED_MAX);
        data += part;
        len -= part;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct tls_session_options options = {.alpns = alpns, .peer = "xce://replica/"};
    struct tls_session *session;
    uint8_t nothing[TLS_RECEIVE_EXTRA];
    size_t n, piece;

    if (!context) {
        begin();
        (void)atexit(end);
    }
    if (len < 1)
        return 0;
    options.server = !(data[0] & 1);
    piece = data[0] >> 1 ? (size_t)(data[0] >> 1) : 60000;
    must(tls_session_new(context, &options, &session) == 0);
    if (!options.server)
        must(tls_session_receive(session, NULL, 0, nothing, sizeof nothing, &n) == 0);
    feed(session, data + 1, len - 1, piece);
    tls_session_free(session);
    return 0;
}
