/* What stands in gRPC's headers. The first byte picks the parser. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/grpc_text.h"

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void try_timeout(const char *text, size_t len)
{
    int64_t ms = -1, back = -1;
    char again[GRPC_TIMEOUT_MAX];
    size_t n;

    if (grpc_timeout_parse(text, len, &ms) < 0)
        return;
    must(ms >= 0);
    n = grpc_timeout_format(ms, again);
    must(grpc_timeout_parse(again, n, &back) == 0);
    /* Never shorter, save what is beyond eight digits of seconds (three years). */
    must(back >= ms || back == 99999999000);
}

/* What is encoded is plain ASCII and comes back, cut and mended; encoding it again changes nothing more. */
static void try_message(const char *text)
{
    static char encoded[3 * GRPC_MESSAGE_MAX + 1], decoded[3 * GRPC_MESSAGE_MAX + 1];
    static char again[3 * GRPC_MESSAGE_MAX + 1];
    size_t len = grpc_message_encode(text, encoded);

    must(len < sizeof encoded && encoded[len] == '\0');
    for (size_t i = 0; i < len; i++)
        must(encoded[i] >= 0x20 && encoded[i] <= 0x7e);
    must(grpc_message_decode(encoded, len, decoded) <= GRPC_MESSAGE_MAX);
    must(grpc_message_encode(decoded, again) == len);
    must(memcmp(again, encoded, len) == 0);
}

static void try_decode(const char *text, size_t len)
{
    char *decoded = malloc(len + 1);
    size_t n;

    if (!decoded)
        return;
    n = grpc_message_decode(text, len, decoded);
    must(n <= len && strlen(decoded) == n);
    free(decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text;
    size_t len;

    if (size == 0)
        return 0;
    len = size - 1;
    text = malloc(len + 1);
    if (!text)
        return 0;
    memcpy(text, data + 1, len);
    text[len] = '\0';
    switch (data[0] % 4) {
    case 0:
        try_timeout(text, len);
        break;
    case 1:
        try_message(text);
        break;
    case 2:
        try_decode(text, len);
        break;
    default:
        must(grpc_status_parse(text, len) <= GRPC_UNAUTHENTICATED);
        (void)grpc_content_type(text, len);
        break;
    }
    free(text);
    return 0;
}
