#include "tests/bench/claims_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/digest.h"
#include "xce/v1/lease.pb-c.h"
#include "xce/v1/node.pb-c.h"
#include "xce/v1/pool.pb-c.h"

#define CALL_MS 20000

static struct rig *started; /* for rig_die */

static void end_process(pid_t *pid, int sig)
{
    if (*pid <= 0)
        return;
    (void)kill(*pid, sig);
    (void)waitpid(*pid, NULL, 0);
    *pid = 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    return remove(path);
}

_Noreturn void rig_die(const char *what, const char *more)
{
    fprintf(stderr, "bench: %s%s%s\n", what, more ? ": " : "", more ? more : "");
    if (started) {
        end_process(&started->userdb, SIGKILL);
        end_process(&started->noded, SIGKILL);
        end_process(&started->leased, SIGKILL);
        (void)nftw(started->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    }
    exit(1);
}

static void must(int r, const char *what)
{
    if (r < 0)
        rig_die(what, strerror(-r));
}

static ProtobufCBinaryData bytes_of(const char *text)
{
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
}

/* ---- programs ---- */

pid_t rig_spawn(const char *build, const char *program, const char *folder, const char *name)
{
    char path[PATH_MAX], config[PATH_MAX], log[PATH_MAX];
    pid_t parent = getpid(), pid;

    (void)snprintf(path, sizeof path, "%s/%s", build, program);
    (void)snprintf(config, sizeof config, "%s/%s.conf", folder, name);
    (void)snprintf(log, sizeof log, "%s/%s.log", folder, name);
    pid = fork();
    if (pid < 0)
        rig_die("fork", strerror(errno));
    if (pid > 0)
        return pid;
    /* It ends with us, however we end. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(126);
    (void)dup2(open(log, O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
    (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    (void)execl(path, path, "--config", config, NULL);
    _exit(127);
}

static void write_config(const struct rig *rig, const char *name, const char *text)
{
    char path[PATH_MAX];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s.conf", rig->folder, name);
    file = fopen(path, "we");
    if (!file || fputs(text, file) < 0 || fclose(file) < 0)
        rig_die(path, strerror(errno));
}

void rig_init(struct rig *rig, const char *where)
{
    char *slash;

    memset(rig, 0, sizeof *rig);
    /* build/tests/bench/bench_claims */
    if (readlink("/proc/self/exe", rig->build, sizeof rig->build - 1) < 0)
        rig_die("/proc/self/exe", strerror(errno));
    for (int i = 0; i < 3; i++)
        if ((slash = strrchr(rig->build, '/')))
            *slash = '\0';
    (void)snprintf(rig->folder, sizeof rig->folder, "%s/xce-bench.XXXXXX", where);
    if (!mkdtemp(rig->folder))
        rig_die(rig->folder, strerror(errno));
    started = rig;
    (void)snprintf(rig->target, sizeof rig->target, "unix:%s/leased.sock", rig->folder);
    must(loop_new(&rig->loop), "loop");
}

void rig_done(struct rig *rig)
{
    rig_stop(rig);
    loop_free(rig->loop);
    (void)rmdir(rig->folder);
    started = NULL;
}

/* ---- calls ---- */

struct call {
    const ProtobufCMessageDescriptor *type;
    ProtobufCMessage *reply;
    enum grpc_status status;
    char message[512];
    bool over;
};

static void call_message(struct grpc_request *request, const uint8_t *data, size_t len, void *arg)
{
    struct call *call = arg;

    call->reply = protobuf_c_message_unpack(call->type, NULL, len, data);
}

static void call_end(struct grpc_request *request, enum grpc_status status, const char *message,
                     bool sent, void *arg)
{
    struct call *call = arg;

    call->status = status;
    (void)snprintf(call->message, sizeof call->message, "%s: %s", grpc_status_name(status),
                   message ? message : "");
    call->over = true;
}

static void try_call(struct rig *rig, const char *path, const ProtobufCMessage *message,
                     struct call *call)
{
    static const struct grpc_request_events events = {
        .message = call_message, .end = call_end, .unary = true};
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(len + 1);
    struct grpc_request *request;

    (void)protobuf_c_message_pack(message, bytes);
    must(grpc_request_start(rig->control, path, CALL_MS, NULL, &events, call, &request), path);
    /* Fails when nobody listens yet: then the end comes all the same. */
    if (grpc_request_send(request, bytes, len) >= 0)
        grpc_request_half_close(request);
    free(bytes);
    while (!call->over)
        loop_step(rig->loop, 1000);
}

ProtobufCMessage *rig_call(struct rig *rig, const char *path, const ProtobufCMessage *message,
                           const ProtobufCMessageDescriptor *reply)
{
    struct call call = {.type = reply};

    try_call(rig, path, message, &call);
    if (call.status != GRPC_OK || !call.reply)
        rig_die(path, call.message);
    return call.reply;
}

void rig_until(struct rig *rig, bool (*cond)(struct rig *rig), int seconds, const char *what)
{
    int64_t until = clock_mono_ms() + (int64_t)seconds * 1000;

    while (!cond(rig)) {
        if (clock_mono_ms() > until)
            rig_die("waited in vain for", what);
        loop_step(rig->loop, 20);
    }
}

/* ---- leased ---- */

static bool serves(struct rig *rig)
{
    Xce__V1__ListPoolsRequest ask = XCE__V1__LIST_POOLS_REQUEST__INIT;
    struct call call = {.type = &xce__v1__list_pools_reply__descriptor};

    try_call(rig, "/xce.v1.PoolService/List", &ask.base, &call);
    if (call.reply)
        protobuf_c_message_free_unpacked(call.reply, NULL);
    if (waitpid(rig->leased, NULL, WNOHANG) == rig->leased) {
        rig->leased = 0;
        rig_die("leased has ended", "see its log");
    }
    return call.status == GRPC_OK;
}

static void make_pool(struct rig *rig, uint32_t first, uint32_t n_uids)
{
    Xce__V1__CreatePoolRequest ask = XCE__V1__CREATE_POOL_REQUEST__INIT;
    Xce__V1__RequestId request = XCE__V1__REQUEST_ID__INIT;
    Xce__V1__UidRange range = XCE__V1__UID_RANGE__INIT;
    Xce__V1__PoolSettings settings = XCE__V1__POOL_SETTINGS__INIT;
    uint8_t id[16];

    digest_random(id, sizeof id);
    request.id = (ProtobufCBinaryData){sizeof id, id};
    range.first = first;
    range.last = first + n_uids - 1;
    /* The node of a claim does not answer: it may take its time. */
    settings.ready_timeout_ms = 600000;
    ask.request = &request;
    ask.name = bytes_of("main");
    ask.range = &range;
    ask.directory_none = true;
    ask.settings = &settings;
    protobuf_c_message_free_unpacked(
        rig_call(rig, "/xce.v1.PoolService/Create", &ask.base, &xce__v1__pool_reply__descriptor),
        NULL);
}

void rig_start(struct rig *rig, uint32_t first, uint32_t n_uids)
{
    char text[1024];

    (void)snprintf(text, sizeof text,
                   "[leased]\nSocket = %s/leased.sock\nStateDir = %s/leased\nLostAfter = 10m\n"
                   "LogLevel = warning\n",
                   rig->folder, rig->folder);
    write_config(rig, "leased", text);
    rig->leased = rig_spawn(rig->build, "leased/leased", rig->folder, "leased");
    must(grpc_channel_new(rig->loop, rig->target, NULL, &rig->control), "channel");
    rig_until(rig, serves, 20, "leased to serve");
    make_pool(rig, first, n_uids);
}

void rig_attach(struct rig *rig, const char *target, struct loop *loop)
{
    memset(rig, 0, sizeof *rig);
    rig->loop = loop;
    (void)snprintf(rig->target, sizeof rig->target, "%s", target);
    must(grpc_channel_new(rig->loop, rig->target, NULL, &rig->control), "channel");
}

unsigned rig_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        rig_die("a port", strerror(errno));
    (void)close(fd);
    return ntohs(address.sin_port);
}

static void note_closed(void *arg)
{
    *(bool *)arg = true;
}

static void close_channel(struct rig *rig, struct grpc_channel **channel)
{
    bool closed = false;

    if (!*channel)
        return;
    grpc_channel_close(*channel, note_closed, &closed);
    while (!closed)
        loop_step(rig->loop, 1000);
    *channel = NULL;
}

static int empty_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    return ftw->level > 0 ? remove(path) : 0;
}

void rig_stop(struct rig *rig)
{
    loop_timer_free(rig->beat);
    rig->beat = NULL;
    close_channel(rig, &rig->node_channel);
    close_channel(rig, &rig->control);
    end_process(&rig->userdb, SIGTERM);
    end_process(&rig->noded, SIGTERM);
    end_process(&rig->leased, SIGTERM);
    if (*rig->folder)
        (void)nftw(rig->folder, empty_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    rig->welcome = rig->position = 0;
}

/* ---- the node ---- */

static void say(struct rig *rig, const Xce__V1__SessionUp *up)
{
    uint8_t bytes[512];
    size_t len = xce__v1__session_up__get_packed_size(up);

    if (len > sizeof bytes)
        rig_die("a session's message is too long", NULL);
    (void)xce__v1__session_up__pack(up, bytes);
    if (rig->session)
        must(grpc_request_send(rig->session, bytes, len), "session");
}

static void beat(void *arg)
{
    struct rig *rig = arg;
    Xce__V1__SessionUp up = XCE__V1__SESSION_UP__INIT;
    Xce__V1__Heartbeat heartbeat = XCE__V1__HEARTBEAT__INIT;

    heartbeat.seq = 1;
    heartbeat.watermark = heartbeat.pass_began = rig->position;
    up.body_case = XCE__V1__SESSION_UP__BODY_HEARTBEAT;
    up.heartbeat = &heartbeat;
    say(rig, &up);
}

static uint64_t varint(const uint8_t *data, size_t len, size_t *at)
{
    uint64_t value = 0;

    for (unsigned shift = 0; *at < len && shift < 64; shift += 7) {
        value |= (uint64_t)(data[*at] & 0x7f) << shift;
        if (!(data[(*at)++] & 0x80))
            break;
    }
    return value;
}

/* Of the many changes only Changes.revision (field 1) is read; Changes is field 2 of SessionDown. */
uint64_t rig_changes_revision(const uint8_t *data, size_t len)
{
    size_t at = 1;

    if (len == 0 || data[0] != 0x12)
        return 0;
    (void)varint(data, len, &at);
    while (at < len) {
        uint64_t key = varint(data, len, &at), value = varint(data, len, &at);

        if (key == 0x08)
            return value;
        if ((key & 7) == 2)
            at += value;
    }
    return 0;
}

static void session_message(struct grpc_request *request, const uint8_t *data, size_t len,
                            void *arg)
{
    struct rig *rig = arg;
    Xce__V1__SessionDown *down;
    uint64_t revision = rig_changes_revision(data, len);

    if (revision)
        rig->position = revision;
    if (len && data[0] == 0x12)
        return;
    down = xce__v1__session_down__unpack(NULL, len, data);
    if (down && down->body_case == XCE__V1__SESSION_DOWN__BODY_WELCOME) {
        rig->welcome = down->welcome->revision;
        rig->heartbeat_ms = down->welcome->heartbeat_ms;
    }
    xce__v1__session_down__free_unpacked(down, NULL);
}

static void session_end(struct grpc_request *request, enum grpc_status status, const char *message,
                        bool sent, void *arg)
{
    struct rig *rig = arg;

    rig->session = NULL;
    if (status != GRPC_CANCELLED)
        rig_die("the node's session has ended", message);
}

static bool node_ready(struct rig *rig)
{
    Xce__V1__NodeKey key = XCE__V1__NODE_KEY__INIT;
    struct call call = {.type = &xce__v1__node_reply__descriptor};
    const Xce__V1__NodeReply *reply;
    bool ready;

    key.node = bytes_of(RIG_NODE);
    try_call(rig, "/xce.v1.NodeService/Get", &key.base, &call);
    reply = (const Xce__V1__NodeReply *)call.reply;
    ready = reply && reply->node && reply->node->state == XCE__V1__NODE_STATE__NODE_STATE_READY;
    if (call.reply)
        protobuf_c_message_free_unpacked(call.reply, NULL);
    if (rig->session && rig->position)
        beat(rig);
    return ready;
}

void rig_node(struct rig *rig)
{
    static const struct grpc_request_events events = {.message = session_message,
                                                      .end = session_end};
    Xce__V1__SessionUp up = XCE__V1__SESSION_UP__INIT;
    Xce__V1__Hello hello = XCE__V1__HELLO__INIT;

    must(grpc_channel_new(rig->loop, rig->target, NULL, &rig->node_channel), "channel");
    must(grpc_request_start(rig->node_channel, "/xce.v1.NodeService/Session", 0, NULL, &events, rig,
                            &rig->session),
         "session");
    hello.node = bytes_of(RIG_NODE);
    hello.machine_id = bytes_of("11111111111111111111111111111111");
    hello.boot_id = bytes_of("22222222222222222222222222222222");
    up.body_case = XCE__V1__SESSION_UP__BODY_HELLO;
    up.hello = &hello;
    say(rig, &up);
    rig_until(rig, node_ready, 20, "the node to be ready");
    must(loop_timer_new(rig->loop, beat, rig, &rig->beat), "timer");
    loop_timer_start(rig->beat, rig->heartbeat_ms, rig->heartbeat_ms);
}

void rig_noded(struct rig *rig)
{
    char text[1024];

    (void)snprintf(text, sizeof text,
                   "[noded]\nServer = %s\nNode = " RIG_NODE "\nRuntimeDir = %s/run\n"
                   "StateDir = %s/noded\nNscd =\nLogLevel = warning\n",
                   rig->target, rig->folder, rig->folder);
    write_config(rig, "noded", text);
    rig->noded = rig_spawn(rig->build, "noded/noded", rig->folder, "noded");
    rig_until(rig, node_ready, 30, "noded to be ready");
}

/* A connection to a unix socket as soon as somebody listens there. */
static int connect_soon(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || strlen(path) >= sizeof address.sun_path)
        rig_die(path, "no socket");
    memcpy(address.sun_path, path, strlen(path) + 1);
    for (int i = 0; i < 1000; i++) {
        if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
            return fd;
        (void)usleep(10000);
    }
    rig_die(path, strerror(errno));
}

/* Whether it is a user. */
static bool ask_user(int fd, uint32_t uid)
{
    char bytes[2048];
    size_t len = 0;
    ssize_t n = snprintf(bytes, sizeof bytes,
                         "{\"method\":\"io.systemd.UserDatabase.GetUserRecord\","
                         "\"parameters\":{\"uid\":%u,\"service\":\"io.xce.Lease\"}}",
                         uid);

    if (send(fd, bytes, (size_t)n + 1, MSG_NOSIGNAL) != n + 1)
        rig_die("xce-userdbd is asked", strerror(errno));
    do {
        n = recv(fd, bytes + len, sizeof bytes - len, 0);
        if (n <= 0)
            rig_die("xce-userdbd answers", n < 0 ? strerror(errno) : "it is gone");
        len += (size_t)n;
    } while (bytes[len - 1] != '\0');
    return strstr(bytes, "\"userName\"") != NULL;
}

unsigned rig_userdb(struct rig *rig, uint32_t first, uint32_t n_uids)
{
    char text[1024], path[320];
    unsigned n = 0;
    int fd;

    (void)snprintf(path, sizeof path, "%s/io.xce.Lease", rig->folder);
    (void)snprintf(text, sizeof text, "[userdbd]\nSocket = %s\nMap = %s/run/uidmap\n", path,
                   rig->folder);
    write_config(rig, "userdbd", text);
    rig->userdb = rig_spawn(rig->build, "userdb/xce-userdbd", rig->folder, "userdbd");
    fd = connect_soon(path);
    for (uint32_t i = 0; i < n_uids; i++)
        n += ask_user(fd, first + i);
    (void)close(fd);
    return n;
}

double rig_rss_mib(pid_t pid)
{
    char path[64], line[256];
    unsigned long kib = 0;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    file = fopen(path, "re");
    if (!file)
        rig_die(path, strerror(errno));
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "VmRSS: %lu kB", &kib) == 1)
            break;
    (void)fclose(file);
    return (double)kib / 1024;
}

double rig_cpu_s(pid_t pid)
{
    unsigned long user, kernel;
    char path[64], text[1024], *at;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    /* After the name, which may hold anything: eleven fields, then both times. */
    if (!file || !fgets(text, sizeof text, file) || !(at = strrchr(text, ')')) ||
        sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel) != 2)
        rig_die(path, "cannot be read");
    (void)fclose(file);
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}
