#include "userdb/server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/daemon.h"
#include "common/err.h"
#include "common/log.h"
#include "userdb/clients.h"
#include "userdb/conf.h"

#define DEADLINE_MS 2000
/* Without a watchdog; with one it is a quarter of its patience, if that is less. */
#define TICK_MS 500
#define ACCEPTS 64
#define BACKLOG 1024

enum { FD_SIGNAL, FD_LISTEN, FD_CLIENTS };

struct server {
    struct conf **conf;
    int signal_fd, listen_fd;
    struct leases leases;
    struct answers answers;
    struct clients clients;
    int64_t tick_ms, ticked_ms;
    bool has_watchdog, ending;
    bool
        full; /* no descriptor or memory was left for another client: until the next tick nobody is taken, or we would spin */
    struct pollfd fds[FD_CLIENTS + CLIENTS_MAX];
    struct client *watched[FD_CLIENTS + CLIENTS_MAX]; /* whose descriptor that is */
    unsigned n_fds;
};

static const struct userdb_settings *settings(const struct server *server)
{
    return conf_settings(*server->conf);
}

/* ---- the socket ---- */

/* A socket that nobody listens at any more is in our way; any other file is not ours to remove. */
static int remove_stale(const char *path)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(st.st_mode))
        return -EEXIST;
    return unlink(path) < 0 ? -errno : 0;
}

/* Everybody may ask: what we tell is in the map, which everybody may read. */
static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r;

    if (fd < 0)
        return -errno;
    if (strlen(path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    memcpy(address.sun_path, path, strlen(path) + 1);
    r = remove_stale(path);
    if (r < 0)
        return r;
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 || chmod(path, 0666) < 0 ||
        listen(fd, BACKLOG) < 0)
        return -errno;
    return mem_take_fd(&fd);
}

static void take_client(struct server *server, int fd, int64_t now_ms)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        (void)close(fd);
    else
        clients_add(&server->clients, fd, peer.uid, now_ms);
}

static void take_clients(struct server *server, int64_t now_ms)
{
    static struct log_limit limit = {.interval_ms = 60000, .burst = 1};
    unsigned held;
    int fd = 0;

    for (int i = 0; i < ACCEPTS && fd >= 0; i++) {
        fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            take_client(server, fd, now_ms);
    }
    /* Who is left comes in the next turn. */
    if (fd >= 0 || errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
        return;
    server->full = true;
    if (log_limit_ok(&limit, &held))
        log_error(NULL, "a client can not be taken: %s", err_text(errno));
}

/* ---- signals and time ---- */

static int take_signals(void)
{
    sigset_t ours, deadly;

    (void)sigemptyset(&ours);
    (void)sigaddset(&ours, SIGTERM);
    (void)sigaddset(&ours, SIGINT);
    (void)sigaddset(&ours, SIGHUP);
    /* It must end us, also if our parent ignored it or held it back. */
    (void)sigemptyset(&deadly);
    (void)sigaddset(&deadly, SIGALRM);
    (void)signal(SIGALRM, SIG_DFL);
    if (sigprocmask(SIG_BLOCK, &ours, NULL) < 0 || sigprocmask(SIG_UNBLOCK, &deadly, NULL) < 0)
        return -1;
    return signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void say_ready(const struct server *server)
{
    daemon_ready("tells of leases at %s", settings(server)->socket);
}

static void reload(struct server *server)
{
    AUTO(buf_done) struct buf pending = BUF_INIT(4096);
    struct err err = {{0}};

    daemon_reloading();
    if (conf_reload(server->conf, &pending, &err) < 0) {
        log_error(NULL, "the configuration stays as it was: %s", err.text);
    } else {
        log_set_level(userdb_conf_log_level(settings(server)));
        server->leases.path = settings(server)->map;
        server->answers.enumerate = settings(server)->enumerate;
        if (pending.len)
            log_warning(NULL, "changed, and needs a restart: %s", buf_str(&pending));
    }
    say_ready(server);
}

static void take_signal(struct server *server)
{
    struct signalfd_siginfo info;

    if (read(server->signal_fd, &info, sizeof(info)) != sizeof(info))
        return;
    if (info.ssi_signo == SIGHUP)
        reload(server);
    else
        server->ending = true;
}

/* The kernel ends us unless this comes again in time. */
static void prove_alive(void)
{
    const struct itimerval deadline = {.it_value = {DEADLINE_MS / 1000, DEADLINE_MS % 1000 * 1000}};

    (void)setitimer(ITIMER_REAL, &deadline, NULL);
}

static void tick(struct server *server, int64_t now_ms)
{
    if (now_ms - server->ticked_ms < server->tick_ms)
        return;
    server->ticked_ms = now_ms;
    server->full = false;
    if (server->has_watchdog)
        daemon_watchdog();
    clients_tidy(&server->clients, now_ms);
}

/* ---- the loop ---- */

static void watch(struct server *server, int fd, short events)
{
    server->fds[server->n_fds++] = (struct pollfd){.fd = fd, .events = events};
}

/* What to wait for, and how long at most. No more descriptors than there are: poll(2) takes none above the limit of them. */
static int prepare(struct server *server, int64_t now_ms)
{
    int64_t left_ms = server->ticked_ms + server->tick_ms - now_ms;
    bool busy = false;

    server->n_fds = 0;
    watch(server, server->signal_fd, POLLIN);
    watch(server, server->full ? -1 : server->listen_fd, POLLIN);
    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        struct client *client = &server->clients.all[i];

        if (client->fd < 0)
            continue;
        server->watched[server->n_fds] = client;
        watch(server, client->fd, client_events(client));
        busy = busy || client_busy(client);
    }
    return busy || left_ms < 0 ? 0 : (int)left_ms;
}

/* 0; -errno: it can not go on. */
static int turn(struct server *server)
{
    int64_t now_ms = clock_mono_ms();
    int timeout_ms = prepare(server, now_ms);

    prove_alive();
    if (poll(server->fds, server->n_fds, timeout_ms) < 0)
        return errno == EINTR ? 0 : -errno;
    now_ms = clock_mono_ms();
    tick(server, now_ms);
    leases_refresh(&server->leases, now_ms);
    for (unsigned i = FD_CLIENTS; i < server->n_fds; i++) {
        struct client *client = server->watched[i];

        if (client->fd >= 0 && (server->fds[i].revents || client_busy(client)))
            client_turn(&server->clients, client, &server->answers, now_ms);
    }
    if (server->fds[FD_SIGNAL].revents)
        take_signal(server);
    if (server->fds[FD_LISTEN].revents)
        take_clients(server, now_ms);
    return 0;
}

static int serve(struct server *server)
{
    int r = 0;

    say_ready(server);
    while (r == 0 && !server->ending)
        r = turn(server);
    if (r == 0)
        daemon_stopping("told to end");
    return r;
}

static int begin(struct server *server)
{
    int64_t quarter_ms = daemon_watchdog_ms() / 2;

    server->has_watchdog = daemon_watchdog_ms() > 0;
    server->tick_ms = server->has_watchdog && quarter_ms < TICK_MS ? quarter_ms : TICK_MS;
    server->signal_fd = take_signals();
    if (server->signal_fd < 0)
        return -errno;
    server->listen_fd = listen_at(settings(server)->socket);
    return server->listen_fd < 0 ? server->listen_fd : 0;
}

static void end(struct server *server)
{
    clients_done(&server->clients);
    /* A file without a listener costs clients nothing; it is for people that it goes. */
    if (server->listen_fd >= 0)
        (void)unlink(settings(server)->socket);
    server->listen_fd = mem_close(server->listen_fd);
    server->signal_fd = mem_close(server->signal_fd);
    leases_done(&server->leases);
}

int server_run(struct conf **conf)
{
    auto_free struct server *server = calloc(1, sizeof(*server));
    int r;

    if (!server)
        return -ENOMEM;
    server->conf = conf;
    server->signal_fd = server->listen_fd = -1;
    server->leases.path = settings(server)->map;
    server->answers = (struct answers){&server->leases, settings(server)->enumerate};
    clients_init(&server->clients);
    r = begin(server);
    if (r == 0)
        r = serve(server);
    if (r < 0)
        log_error(NULL, "%s: %s", settings(server)->socket, err_text(r));
    end(server);
    return r;
}
