#include "client/attempt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"

struct call_attempt {
    LIST_ENTRY(call_attempt) link;
    struct xce_client *client;
    struct grpc_request *request;
    attempt_end_fn fn; /* NULL = cut */
    void *arg;
    uint8_t *reply;
    size_t reply_len;
    unsigned n_replies;
    size_t server;
};

static void attempt_free(struct call_attempt *attempt)
{
    LIST_REMOVE(attempt, link);
    free(attempt->reply);
    free(attempt);
}

static void on_message(struct grpc_request *request, const uint8_t *data, size_t len, void *arg)
{
    struct call_attempt *attempt = arg;

    (void)request;
    if (attempt->n_replies++ || !attempt->fn)
        return;
    attempt->reply = malloc(len + 1);
    if (!attempt->reply)
        return;
    memcpy(attempt->reply, data, len);
    attempt->reply_len = len;
}

static void tell(struct call_attempt *attempt, const struct attempt_end *known, const char *message)
{
    struct attempt_end end = *known;
    char text[XCE_MESSAGE_MAX];

    if (end.status == GRPC_OK && attempt->n_replies != 1) {
        end.status = GRPC_DATA_LOSS;
        message = attempt->n_replies ? "the server answered twice" : "the server's answer is empty";
    } else if (end.status == GRPC_OK && !attempt->reply) {
        end.status = GRPC_DATA_LOSS;
        message = "out of memory";
    }
    if (end.status == GRPC_OK) {
        end.message = "";
        end.reply = attempt->reply;
        end.reply_len = attempt->reply_len;
    } else if (end.status == GRPC_UNAVAILABLE && !end.sent) {
        client_name_server(attempt->client, attempt->server, message, text);
        end.message = text;
    } else {
        end.message = message && message[0] ? message : grpc_status_name(end.status);
    }
    attempt->fn(&end, attempt->arg);
}

static void on_end(struct grpc_request *request, enum grpc_status status, const char *message,
                   bool sent, void *arg)
{
    struct call_attempt *attempt = arg;

    attempt->request = NULL;
    if (attempt->fn)
        tell(attempt,
             &(struct attempt_end){.status = status,
                                   .sent = sent,
                                   .answered = grpc_request_answered(request),
                                   .server = attempt->server},
             message);
    attempt_free(attempt);
}

static const struct grpc_request_events events = {.message = on_message, .end = on_end};

int attempt_start(struct xce_client *client, const struct attempt_spec *spec, attempt_end_fn fn,
                  void *arg, struct call_attempt **ret)
{
    struct call_attempt *attempt = calloc(1, sizeof *attempt);
    struct grpc_channel *channel;
    int r;

    if (!attempt)
        return -ENOMEM;
    attempt->client = client;
    attempt->server = client->current;
    LIST_INSERT_HEAD(&client->attempts, attempt, link);
    r = client_channel(client, &channel);
    if (r >= 0)
        r = grpc_request_start(channel, spec->path, spec->timeout_ms, NULL, &events, attempt,
                               &attempt->request);
    if (r < 0) {
        attempt_free(attempt);
        return r;
    }
    r = grpc_request_send(attempt->request, spec->request, spec->request_len);
    if (r < 0 && r != -EPIPE) {
        /* Its end comes later and finds nobody. */
        grpc_request_cancel(attempt->request);
        return r;
    }
    /* EPIPE: it is over already (nobody listens); its end comes and says why. */
    if (r >= 0)
        grpc_request_half_close(attempt->request);
    attempt->fn = fn;
    attempt->arg = arg;
    *ret = attempt;
    return 0;
}

void attempt_cut(struct call_attempt *attempt)
{
    attempt->fn = NULL;
    grpc_request_cancel(attempt->request);
}
