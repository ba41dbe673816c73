#include "tests/bench/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"

struct asked {
    struct load *load;
    struct grpc_channel *channel;
    bool good;
};

static void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}

static void ask(struct load *load, struct grpc_channel *channel);

static void message(struct grpc_request *request, const uint8_t *data, size_t len, void *arg)
{
    struct asked *asked = arg;

    (void)request;
    if (!asked->load->answered(data, len, asked->load->arg))
        die(asked->load->path, "an answer is not as it should be");
    asked->good = true;
}

static void ended(struct grpc_request *request, enum grpc_status status, const char *text,
                  bool sent, void *arg)
{
    struct asked *asked = arg;
    struct load *load = asked->load;
    struct grpc_channel *channel = asked->channel;
    bool again = true;

    (void)request, (void)sent;
    if (status == GRPC_OK && asked->good)
        load->n_done++;
    else if (load->failed)
        again = load->failed(status, text, load->arg);
    else
        die(load->path, text);
    free(asked);
    load->outstanding--;
    if (again && clock_mono_us() < load->until_us)
        ask(load, channel);
}

static void ask(struct load *load, struct grpc_channel *channel)
{
    static const struct grpc_request_events events = {
        .message = message, .end = ended, .unary = true};
    struct asked *asked = mem_must_calloc(1, sizeof *asked);
    uint8_t bytes[LOAD_REQUEST_MAX];
    struct grpc_request *request;
    size_t len = load->ask(bytes, load->arg);
    int r;

    *asked = (struct asked){.load = load, .channel = channel};
    load->outstanding++;
    if (grpc_request_start(channel, load->path, load->timeout_ms, NULL, &events, asked, &request) <
        0)
        die(load->path, "cannot be asked");
    r = grpc_request_send(request, bytes, len);
    if (r >= 0)
        grpc_request_half_close(request);
}

void load_drain(struct load *load)
{
    while (load->outstanding)
        loop_step(load->loop, 1000);
}

void load_begin(struct load *load, unsigned outstanding, double seconds)
{
    load->n_done = 0;
    load->until_us = clock_mono_us() + (int64_t)(seconds * 1e6);
    for (unsigned i = 0; i < outstanding; i++)
        ask(load, load->channels[i % load->n_channels]);
}

double load_run(struct load *load, unsigned outstanding, double seconds)
{
    int64_t began_us = clock_mono_us();

    load_begin(load, outstanding, seconds);
    load_drain(load);
    return (double)load->n_done * 1e6 / (double)(clock_mono_us() - began_us);
}

double load_once(struct load *load)
{
    int64_t began_us = clock_mono_us();

    load->n_done = 0;
    load->until_us = 0;
    ask(load, load->channels[0]);
    load_drain(load);
    return (double)(clock_mono_us() - began_us);
}

static void note_closed(void *arg)
{
    --*(unsigned *)arg;
}

void load_close(struct load *load)
{
    unsigned open = load->n_channels;

    for (unsigned i = 0; i < load->n_channels; i++)
        grpc_channel_close(load->channels[i], note_closed, &open);
    while (open)
        loop_step(load->loop, 1000);
    load->n_channels = 0;
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

double load_median(double *values, size_t n)
{
    if (n == 0)
        return 0;
    qsort(values, n, sizeof *values, by_value);
    return values[n / 2];
}
