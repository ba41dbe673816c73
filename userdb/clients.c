#include "userdb/clients.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/err.h"
#include "common/log.h"

#define READ_BYTES 4096
#define PIECES     16 /* of work in one turn */
/* What the kernel keeps for who does not read is charged to us: all places together stay well below MemoryMax. */
#define SEND_BYTES 16384

void clients_init(struct clients *clients)
{
    clients->n = 0;
    clients->moves = 0;
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        clients->all[i].fd = -1;
}

static void cut(struct clients *clients, struct client *client)
{
    client->fd = mem_close(client->fd);
    session_done(&client->session);
    clients->n--;
}

void clients_done(struct clients *clients)
{
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        if (clients->all[i].fd >= 0)
            cut(clients, &clients->all[i]);
}

static void moved(struct clients *clients, struct client *client, int64_t now_ms)
{
    client->moved_ms = now_ms;
    client->moved = ++clients->moves;
}

/* ---- places ---- */

static int by_uid(const void *a, const void *b)
{
    uid_t x = *(const uid_t *)a, y = *(const uid_t *)b;

    return x < y ? -1 : x > y;
}

/* All places are taken: by whom most of them. Of those who have equally many, the highest: who has a range of uids of his own
 * (subuid) comes as another each time, and root and the system's users stand before people, who stand before such ranges. */
static uid_t greediest(const struct clients *clients)
{
    uid_t uids[CLIENTS_MAX], ret = 0;
    unsigned n = 0, most = 0;

    for (size_t i = 0; i < CLIENTS_MAX; i++)
        uids[i] = clients->all[i].uid;
    qsort(uids, CLIENTS_MAX, sizeof(uids[0]), by_uid);
    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        n = i > 0 && uids[i] == uids[i - 1] ? n + 1 : 1;
        if (n >= most) {
            most = n;
            ret = uids[i];
        }
    }
    return ret;
}

static void make_room(struct clients *clients)
{
    static struct log_limit limit = {.interval_ms = 60000, .burst = 1};
    uid_t uid = greediest(clients);
    struct client *quiet = NULL;
    unsigned held;

    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        struct client *client = &clients->all[i];

        if (client->uid == uid && (!quiet || client->moved < quiet->moved))
            quiet = client;
    }
    if (log_limit_ok(&limit, &held))
        log_notice(NULL, "%u clients are connected, most of them of uid %u: its quietest are cut",
                   clients->n, (unsigned)uid);
    cut(clients, quiet);
}

void clients_add(struct clients *clients, int fd, uid_t uid, int64_t now_ms)
{
    struct client *client = clients->all;
    int bytes = SEND_BYTES;

    if (clients->n == CLIENTS_MAX)
        make_room(clients);
    while (client->fd >= 0)
        client++;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    client->fd = fd;
    client->uid = uid;
    session_init(&client->session);
    moved(clients, client, now_ms);
    clients->n++;
}

void clients_tidy(struct clients *clients, int64_t now_ms)
{
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        if (clients->all[i].fd >= 0 && now_ms - clients->all[i].moved_ms >= CLIENTS_IDLE_MS)
            cut(clients, &clients->all[i]);
}

/* ---- a turn ---- */

short client_events(const struct client *client)
{
    if (client->session.out.len > 0)
        return POLLOUT;
    return session_hungry(&client->session) ? POLLIN : 0;
}

bool client_busy(const struct client *client)
{
    return client->session.out.len == 0 && !session_hungry(&client->session);
}

/* 0; 1 something came; negative: it is over. */
static int take_in(struct client *client)
{
    char bytes[READ_BYTES];
    ssize_t n;

    if (!session_hungry(&client->session))
        return 0;
    n = recv(client->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    if (n == 0)
        return -ECONNRESET;
    return session_feed(&client->session, bytes, (size_t)n) < 0 ? -EMSGSIZE : 1;
}

static int give_out(struct client *client)
{
    const struct buf *out = &client->session.out;
    ssize_t n;

    if (out->len == 0)
        return 0;
    n = send(client->fd, out->data, out->len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    session_sent(&client->session, (size_t)n);
    return 1;
}

/* Negative: it is over; else whether bytes went. */
static int turn(struct client *client, const struct answers *answers)
{
    int in = take_in(client), worked = 1, out;

    if (in < 0)
        return in;
    for (int i = 0; i < PIECES && worked > 0; i++)
        worked = session_work(&client->session, answers);
    /* What was answered before the bad call is still told. */
    out = give_out(client);
    if (worked < 0)
        return worked;
    return out < 0 ? out : in || out;
}

void client_turn(struct clients *clients, struct client *client, const struct answers *answers,
                 int64_t now_ms)
{
    int r = turn(client, answers);

    if (r > 0)
        moved(clients, client, now_ms);
    if (r < 0) {
        log_debug(NULL, "a client of uid %u is over: %s", (unsigned)client->uid, err_text(r));
        cut(clients, client);
    }
}
