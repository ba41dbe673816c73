#include "leased/engine/raft_link_inner.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- its streams ---- */

static void pair_open(void *arg)
{
    (void)arg;
}

/* OUT: bytes of the library, to be carried. */
static void pair_data(const uint8_t *data, size_t len, void *arg)
{
    struct link *link = arg;
    uint8_t *out = link->links->out;

    if (link->kind != LINK_OUT) {
        raft_link_end(link, "the library writes where it should read");
        return;
    }
    raft_link_begin_frame(out, FRAME_DATA, len);
    memcpy(out + FRAME_HEADER_LEN, data, len);
    raft_link_write(link, out, FRAME_HEADER_LEN + len);
}

/* IN: the library has taken what it was given. */
static void pair_writable(void *arg)
{
    transport_read(((struct link *)arg)->net, true);
}

static void pair_closed(int r, void *arg)
{
    (void)r;
    raft_link_end(arg, "the library closed it");
}

static const struct transport_events pair_events = {pair_open, pair_data, pair_writable,
                                                    pair_closed};

/* The library's half of a new socket pair; ours is link->pair. NULL: no descriptors or no memory. */
static struct uv_stream_s *make_pair(struct link *link)
{
    struct uv_pipe_s *stream;
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
        return NULL;
    if (transport_unix_new(link->links->options.loop, fds[0], &pair_events, link, &link->pair) <
        0) {
        link->pair = NULL;
        (void)close(fds[1]);
        return NULL;
    }
    stream = raft_malloc(sizeof *stream);
    if (stream)
        (void)uv_pipe_init(loop_uv(link->links->options.loop), stream, 0);
    if (!stream || uv_pipe_open(stream, fds[1]) < 0) {
        (void)close(fds[1]);
        if (stream)
            uv_close((struct uv_handle_s *)stream, (uv_close_cb)raft_free);
        return NULL;
    }
    return (struct uv_stream_s *)stream;
}

void raft_link_ready_out(struct link *link)
{
    struct raft_uv_connect *connect = link->connect;
    struct uv_stream_s *stream = make_pair(link);

    if (!stream) {
        raft_link_end(link, "no descriptor for it");
        return;
    }
    link->connect = NULL;
    link->connected(connect, stream, 0);
}

void raft_link_ready_in(struct link *link)
{
    char address[REPLICA_NAME_MAX + REPLICA_ADDRESS_MAX + 2];
    struct uv_stream_s *stream;

    if (!link->links->accept) {
        raft_link_end(link, "not yet");
        return;
    }
    stream = make_pair(link);
    if (!stream) {
        raft_link_end(link, "no descriptor for it");
        return;
    }
    (void)snprintf(address, sizeof address, "%s@%s", link->name, link->address);
    link->links->accept(&link->links->transport, link->id, address, stream);
}

/* ---- its transport ---- */

bool raft_address_split(const char *text, char name[static REPLICA_NAME_MAX + 1],
                        char address[static REPLICA_ADDRESS_MAX + 1])
{
    const char *at = strchr(text, '@');

    if (!at || at == text || at - text > REPLICA_NAME_MAX || strlen(at + 1) > REPLICA_ADDRESS_MAX)
        return false;
    memcpy(name, text, (size_t)(at - text));
    name[at - text] = '\0';
    memcpy(address, at + 1, strlen(at + 1) + 1);
    return true;
}

static int uv_links_init(struct raft_uv_transport *transport, raft_id id, const char *address)
{
    (void)transport, (void)id, (void)address;
    return 0;
}

static int uv_links_listen(struct raft_uv_transport *transport, raft_uv_accept_cb cb)
{
    ((struct raft_links *)transport->impl)->accept = cb;
    return 0;
}

static int uv_links_connect(struct raft_uv_transport *transport, struct raft_uv_connect *req,
                            raft_id id, const char *address, raft_uv_connect_cb cb)
{
    struct raft_links *links = transport->impl;
    struct link *link = raft_link_new(links, LINK_OUT);

    if (!link)
        return RAFT_NOMEM;
    link->id = id;
    link->connect = req;
    link->connected = cb;
    if (!raft_address_split(address, link->name, link->address))
        raft_link_end(link, "its address is not of the form NAME@HOST:PORT");
    else
        raft_link_connect(link);
    return 0;
}

static void uv_links_close(struct raft_uv_transport *transport, raft_uv_transport_close_cb cb)
{
    struct raft_links *links = transport->impl;
    struct link *link;

    links->closing = true;
    links->closed = cb;
    LIST_FOREACH(link, &links->all, all)
    raft_link_end(link, "leased stops");
    loop_soon_start(links->soon);
}

void raft_link_init_transport(struct raft_links *links)
{
    links->transport = (struct raft_uv_transport){
        .version = 1,
        .impl = links,
        .init = uv_links_init,
        .listen = uv_links_listen,
        .connect = uv_links_connect,
        .close = uv_links_close,
    };
}
