/* Bytes of a client of xce-userdbd, cut into pieces, over a sound map of three leases. What goes back are whole replies, each
 * a call's or a piece of its list, in bounded memory. The first byte: how long the pieces are, and whether lists are given. */
#include <errno.h>
#include <stdlib.h>

#include "tests/fuzz/map_image.h"
#include "userdb/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_reply(const char *text, size_t len)
{
    AUTO(json_node_free) struct json_node *reply = NULL;
    const char *error = NULL;
    bool continues = false;

    must(json_read(text, len, &reply) == 0);
    must(json_node_is_object(json_node_member(reply, "parameters")));
    (void)json_node_string(json_node_member(reply, "error"), &error);
    (void)json_node_bool(json_node_member(reply, "continues"), &continues);
    must(!error || (strncmp(error, "io.systemd.UserDatabase.", 24) == 0 && !continues) ||
         strncmp(error, "org.varlink.service.", 20) == 0);
}

/* Take some of what is to be sent, and with the last of it look at each reply. */
static void receive(struct session *session, struct buf *received, size_t most)
{
    size_t n = session->out.len < most ? session->out.len : most, len;

    must(session->out.len <= SESSION_OUT_MAX && session->in.len <= 2 * SESSION_CALL_MAX);
    buf_add(received, session->out.data, n);
    session_sent(session, n);
    if (session->out.len > 0)
        return;
    for (size_t at = 0; at < received->len; at += len + 1) {
        len = strlen(received->data + at);
        must(at + len < received->len);
        check_reply(received->data + at, len);
    }
    buf_reset(received);
}

static void converse(const struct answers *answers, const uint8_t *data, size_t size, size_t step)
{
    AUTO(buf_done) struct buf received = BUF_INIT(SIZE_MAX);
    struct session session;
    int r = 0;

    session_init(&session);
    while (r >= 0) {
        r = session_work(&session, answers);
        if (session.out.len > 0) {
            receive(&session, &received, step * 64);
        } else if (r == 0) {
            size_t n = size < step ? size : step;

            must(session_hungry(&session));
            if (n == 0)
                break;
            r = session_feed(&session, (const char *)data, n);
            data += n;
            size -= n;
        }
    }
    must(r == 0 || r == -EBADMSG || r == -EMSGSIZE);
    session_done(&session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char image[IMAGE_BYTES] __attribute__((aligned(64)));
    struct leases leases = {.map = {image, IMAGE_BYTES}};
    struct answers answers = {.leases = &leases};
    uint8_t first = size ? data[0] : 0;

    if (image[0] == 0)
        image_make(image);
    answers.enumerate = first & 0x80;
    if (size)
        converse(&answers, data + 1, size - 1, first & 0x7f ? first & 0x7f : 4096);
    return 0;
}
