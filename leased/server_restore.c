#include "leased/server_restore.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/digest.h"
#include "common/err.h"
#include "common/fsutil.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/net/loop.h"
#include "common/net/tls_keys.h"
#include "common/text.h"
#include "leased/audit/audit.h"
#include "leased/conf.h"
#include "leased/engine/engine.h"
#include "leased/engine/replica.h"
#include "leased/fsm/command.h"
#include "leased/fsm/fsm.h"
#include "leased/rpc/record.h"
#include "leased/server_audit.h"
#include "leased/server_tls.h"
#include "xce/v1/command.pb-c.h"

#define BACKUP_MAX ((size_t)1 << 30)
/* Revisions and ids go on above the seconds of the wall clock, so many times: no cluster lives through as many a second.
 * Lease ids have to stay below FSM_LEASE_ID_MAX. */
#define NUMBERS_PER_SECOND UINT64_C(1000000)
#define LEASES_PER_SECOND  UINT64_C(1000)

/* Two restores of one backup leave out different epochs, if they are less than 12 days apart. */
#define GAP_LEAST   1024
#define GAP_SECONDS (1 << 20)

#define OPEN_ELSEWHERE "%s: leased runs and has it open: stop it first"

struct act {
    const struct leased_settings *settings;
    const struct restore_options *options;
    char replica[TEXT_NODE_MAX + 1]; /* our name, of a replica */
    char engine[PATH_MAX], restored[PATH_MAX], raft[PATH_MAX], aside[PATH_MAX];
    int locks[2];
    struct fsm *fsm;
    uint8_t *state;
    size_t len;
    uint64_t backup; /* revision */
    struct principal who;
    struct audit *audit; /* NULL: none, or not opened yet */
    bool moved;
    char why[ENGINE_WHY_MAX + PATH_MAX];
};

static int say(struct act *act, int r, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int say(struct act *act, int r, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    (void)vsnprintf(act->why, sizeof act->why, format, ap);
    va_end(ap);
    return r;
}

/* ---- the backup ---- */

/* The entry that makes a new incarnation of it, in no log. */
static int begin_anew(struct act *act)
{
    AUTO(buf_done) struct buf entry = BUF_INIT(COMMAND_ENTRY_MAX);
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdRestore restore = XCE__V1__CMD_RESTORE__INIT;
    uint8_t incarnation[16], bytes[128];
    int64_t wall_ms = clock_wall_ms();
    struct fsm_restored restored;
    int r;

    digest_random(incarnation, sizeof incarnation);
    restore.incarnation = (ProtobufCBinaryData){sizeof incarnation, incarnation};
    restore.above = (uint64_t)(wall_ms / 1000) * NUMBERS_PER_SECOND;
    restore.above_lease = (uint64_t)(wall_ms / 1000) * LEASES_PER_SECOND;
    restore.gap = GAP_LEAST + (uint32_t)(wall_ms / 1000 % GAP_SECONDS);
    command.kind_case = XCE__V1__COMMAND__KIND_RESTORE;
    command.restore = &restore;
    command_entry_begin(&entry, fsm_now_ms(act->fsm), wall_ms);
    command_entry_append(&entry, bytes, xce__v1__command__pack(&command, bytes));
    r = command_entry_finish(&entry);
    if (r == 0)
        r = fsm_apply(act->fsm, (const uint8_t *)entry.data, entry.len, NULL);
    fsm_get_restored(act->fsm, &restored);
    if (r != 0 || !restored.waits)
        return say(act, -EIO, "%s: the state can not begin anew", act->options->file);
    return 0;
}

static int read_backup(struct act *act, const char *bytes, size_t len)
{
    const char *file = act->options->file, *wrong = "";
    int r = fsm_restore(act->fsm, (const uint8_t *)bytes, len, &wrong);

    if (r == -EBADMSG)
        return say(act, r, "%s: is no whole backup: %s", file, wrong);
    if (r < 0)
        return say(act, r, "%s: %s", file, err_text(r));
    if (!fsm_initialised(act->fsm))
        return say(act, -EINVAL, "%s: a backup of a state that had not begun", file);
    if (strcmp(fsm_prefix(act->fsm), act->settings->prefix) != 0)
        return say(act, -EINVAL, "%s: its names begin with \"%s\", but leased.Prefix is \"%s\"",
                   file, fsm_prefix(act->fsm), act->settings->prefix);
    act->backup = fsm_revision(act->fsm);
    r = begin_anew(act);
    if (r < 0)
        return r;
    r = fsm_snapshot(act->fsm, &act->state, &act->len);
    return r < 0 ? say(act, r, "%s: %s", file, err_text(r)) : 0;
}

/* ---- where it goes ---- */

/* leased reads what it owns itself. The backup has been read: it may be root's. */
static int become_owner(struct act *act)
{
    const char *folder = act->settings->state_dir;
    struct stat st;
    int r = fs_mkdir_p(folder, 0700);

    if (r < 0 || stat(folder, &st) < 0)
        return say(act, r < 0 ? r : -errno, "%s: %s", folder, strerror(r < 0 ? -r : errno));
    if (geteuid() == st.st_uid)
        return 0;
    if (geteuid() != 0)
        return say(act, -EPERM, "%s: is not yours: restore as root", folder);
    if (setgroups(0, NULL) < 0 || setgid(st.st_gid) < 0 || setuid(st.st_uid) < 0)
        return say(act, -errno, "cannot become uid %u, whose %s is: %s", st.st_uid, folder,
                   strerror(errno));
    return 0;
}

static int name_replica(struct act *act)
{
    struct server_tls *tls = NULL;
    struct loop *loop;
    int r;

    if (act->settings->engine != LEASED_RAFT)
        return 0;
    r = loop_new(&loop);
    if (r < 0)
        return say(act, r, "the event loop: %s", err_text(r));
    r = server_tls_new(loop, act->settings, &tls);
    if (r < 0)
        r = say(act, r, "the certificate can not be used");
    else if (!tls)
        r = say(act, -EINVAL, "leased.Engine is raft, and no Certificate= names this replica");
    else
        (void)snprintf(act->replica, sizeof act->replica, "%s",
                       tls_keys_identity(server_tls_keys(tls))->name);
    server_tls_free(tls);
    loop_free(loop);
    return r;
}

/* The single replica locks its file (engine/sqlite_open.c). What is not there is nobody's. */
static int lock_engine(struct act *act)
{
    int fd = open(act->engine, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);

    if (fd < 0)
        return errno == ENOENT ? 0 : say(act, -errno, "%s: %s", act->engine, strerror(errno));
    act->locks[0] = fd;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return say(act, -EBUSY, OPEN_ELSEWHERE, act->engine);
    return say(act, -errno, "%s: %s", act->engine, strerror(errno));
}

/* One of several locks a file in its folder (engine/raft_open.c): a lock of another kind, which flock() does not see. */
static int lock_raft(struct act *act)
{
    char path[PATH_MAX + 8];
    struct err err = {{0}};
    struct stat st;
    int r;

    (void)snprintf(path, sizeof path, "%s/lock", act->raft);
    if (lstat(path, &st) < 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? 0
                   : say(act, -errno, "%s: %s", path, strerror(errno));
    r = fs_lock_file(path, &act->locks[1], &err);
    if (r == -EBUSY)
        return say(act, r, OPEN_ELSEWHERE, path);
    return r < 0 ? say(act, r, "%s", err.text) : 0;
}

static int check_stopped(struct act *act)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd, r = lock_engine(act);

    if (r == 0)
        r = lock_raft(act);
    if (r < 0 || strlen(act->settings->socket) >= sizeof address.sun_path)
        return r;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return say(act, -errno, "socket: %s", strerror(errno));
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", act->settings->socket);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        r = say(act, -EBUSY, "%s: leased answers there: stop it first", act->settings->socket);
    (void)close(fd);
    return r;
}

static bool there(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

static int check_empty(struct act *act)
{
    char wal[PATH_MAX + 8], why[ENGINE_WHY_MAX];
    const char *found = NULL;

    (void)snprintf(wal, sizeof wal, "%s-wal", act->engine);
    if (there(act->engine))
        found = act->engine;
    else if (there(wal))
        found = wal;
    else if (replica_inhabited(act->raft, why) != 0)
        found = act->raft;
    if (!found || act->options->set_aside)
        return 0;
    return say(act, -EEXIST,
               "%s: there is a state already; --set-aside moves it away (it is kept) and takes the "
               "backup in its place",
               found);
}

/* ---- the act ---- */

/* A folder that nobody had before; several within a second get a number. */
static int make_aside(struct act *act)
{
    size_t len = strlen(act->aside);

    for (unsigned i = 2; mkdir(act->aside, 0700) < 0; i++) {
        if (errno != EEXIST || i > 99)
            return -errno;
        (void)snprintf(act->aside + len, sizeof act->aside - len, "-%u", i);
    }
    act->moved = true;
    return 0;
}

static int move(struct act *act, const char *from)
{
    char to[PATH_MAX];
    int r = 0;

    if (!there(from))
        return 0;
    if (!act->moved)
        r = make_aside(act);
    if (r == 0 && snprintf(to, sizeof to, "%s%s", act->aside, strrchr(from, '/')) >= (int)sizeof to)
        r = -ENAMETOOLONG;
    if (r == 0 && (rename(from, to) < 0 || (r = fs_sync_parent(AT_FDCWD, to)) < 0))
        r = r < 0 ? r : -errno;
    return r < 0 ? say(act, r, "%s: cannot be moved to %s: %s", from, act->aside, strerror(-r)) : 0;
}

/* The single one's first: while a replica's folder is there, nothing else is looked at. */
static int set_aside(struct act *act)
{
    char wal[PATH_MAX + 8];
    int r = move(act, act->engine);

    (void)snprintf(wal, sizeof wal, "%s-wal", act->engine);
    if (r == 0)
        r = move(act, wal);
    if (r == 0)
        r = move(act, act->raft);
    if (r == 0 && act->moved && (r = fs_sync_parent(AT_FDCWD, act->aside)) < 0)
        r = say(act, r, "%s: %s", act->aside, strerror(-r));
    return r;
}

static int put_in_place(struct act *act)
{
    char why[ENGINE_WHY_MAX];
    int r = 0;

    if (rename(act->restored, act->engine) < 0 || (r = fs_sync_parent(AT_FDCWD, act->engine)) < 0)
        return say(act, r < 0 ? r : -errno, "%s: cannot be made: %s", act->engine,
                   strerror(r < 0 ? -r : errno));
    if (act->settings->engine != LEASED_RAFT)
        return 0;
    r = replica_prepare(act->raft, act->replica, true, why);
    if (r < 0)
        return say(act, r,
                   "%s; the restored state is there: start leased, then leasectl cluster init",
                   why);
    return 0;
}

/* ---- the record: what an administrator does is written down, or not done ---- */

static void know_caller(struct act *act)
{
    principal_from_peer(getuid(), getgid(), getuid() == 0 ? "root" : NULL, &act->who);
}

static int open_audit(struct act *act)
{
    char why[AUDIT_WHY_MAX];
    struct err err = {{0}};
    int r = server_audit_open(act->settings, &act->audit, &err);

    if (r < 0)
        return say(act, r, "%s", err.text);
    if (act->audit && !audit_ok(act->audit, why))
        return say(act, -ENOSPC, "the audit file can not be written: %s", why);
    return 0;
}

static void record(struct act *act, int r)
{
    char what[sizeof act->why];
    struct recorder recorder;
    const char *line;

    if (!act->audit)
        return;
    (void)snprintf(what, sizeof what, "%s: revision %" PRIu64 "%s%s", act->options->file,
                   act->backup, act->moved ? "; what was there is in " : "",
                   act->moved ? act->aside : "");
    recorder_init(&recorder);
    line = recorder_line(&recorder,
                         &(struct record){.principal = &act->who,
                                          .method = "ClusterService/Restore",
                                          .status = r == 0 ? GRPC_OK : GRPC_FAILED_PRECONDITION,
                                          .message = r == 0 ? what : act->why},
                         clock_wall_ms());
    if (line)
        audit_write(act->audit, line, recorder.line.len, true);
    recorder_done(&recorder);
    audit_close(mem_take(act->audit));
}

static int run(struct act *act, const char *bytes, size_t len)
{
    int r = read_backup(act, bytes, len);

    if (r == 0)
        r = become_owner(act);
    if (r == 0)
        r = name_replica(act);
    if (r == 0)
        r = check_stopped(act);
    if (r == 0)
        r = check_empty(act);
    if (r == 0)
        r = engine_make_sqlite(act->restored, act->state, act->len, act->why);
    if (r == 0)
        r = open_audit(act);
    if (r == 0)
        r = set_aside(act);
    if (r == 0)
        r = put_in_place(act);
    record(act, r);
    return r;
}

/* ---- words ---- */

static void count(const struct act *act, size_t *ret_leases, size_t *ret_nodes)
{
    const struct fsm_lease *lease = NULL;
    const struct fsm_node *node = NULL;

    *ret_leases = *ret_nodes = 0;
    while ((lease = fsm_lease_next(act->fsm, lease ? lease->id : 0)))
        ++*ret_leases;
    while ((node = fsm_node_next(act->fsm, node)))
        ++*ret_nodes;
}

static void print(struct json *object)
{
    (void)json_write(object, JSON_PRETTY, stdout);
    json_free(object);
}

static void tell_done(const struct act *act)
{
    struct json *object;
    size_t n_leases, n_nodes;

    count(act, &n_leases, &n_nodes);
    if (!act->options->json) {
        (void)printf("%s: the state of revision %" PRIu64
                     ", with %zu leases and %zu nodes, is restored\n",
                     act->options->file, act->backup, n_leases, n_nodes);
        if (act->moved)
            (void)printf("what was there is in %s\n", act->aside);
        (void)printf(
            "start leased, then: leasectl cluster status, leasectl cluster confirm NODES\n");
        return;
    }
    object = json_new_object();
    json_set_string(object, "file", act->options->file);
    json_set_u64(object, "backup_revision", act->backup);
    json_set_u64(object, "revision", fsm_revision(act->fsm));
    json_set_u64(object, "leases", n_leases);
    json_set_u64(object, "nodes", n_nodes);
    json_set_string(object, "aside", act->moved ? act->aside : NULL);
    print(object);
}

static void tell_failed(const struct act *act)
{
    if (act->options->json)
        print(json_error("failed_precondition", act->why));
    else
        (void)fprintf(stderr, "leased: %s\n", act->why);
}

static int make_paths(struct act *act)
{
    const char *folder = act->settings->state_dir;
    char stamp[32];
    time_t now = time(NULL);
    struct tm utc;

    (void)strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", gmtime_r(&now, &utc));
    if (snprintf(act->engine, sizeof act->engine, "%s/engine.db", folder) >= PATH_MAX - 64 ||
        snprintf(act->restored, sizeof act->restored, "%s/engine.db.restored", folder) >=
            PATH_MAX ||
        snprintf(act->raft, sizeof act->raft, "%s/raft", folder) >= PATH_MAX ||
        snprintf(act->aside, sizeof act->aside, "%s/aside-%s", folder, stamp) >= PATH_MAX - 8)
        return say(act, -ENAMETOOLONG, "%s: is too long", folder);
    return 0;
}

int server_restore(const struct leased_settings *settings, const struct restore_options *options)
{
    struct act *act = mem_must_calloc(1, sizeof *act);
    auto_free char *bytes = NULL;
    size_t len = 0;
    int r;

    act->settings = settings;
    act->options = options;
    act->locks[0] = act->locks[1] = -1;
    know_caller(act);
    r = make_paths(act);
    if (r == 0 && (r = fsm_new(&act->fsm)) < 0)
        r = say(act, r, "%s", err_text(r));
    if (r == 0 && (r = fs_read_file(AT_FDCWD, options->file, BACKUP_MAX, &bytes, &len)) < 0)
        r = say(act, r, "%s: %s", options->file, err_text(r));
    if (r == 0)
        r = run(act, bytes, len);
    if (r == 0)
        tell_done(act);
    else
        tell_failed(act);
    fsm_free(act->fsm);
    free(act->state);
    for (size_t i = 0; i < 2; i++)
        if (act->locks[i] >= 0)
            (void)close(act->locks[i]);
    free(act);
    return r == 0 ? 0 : 1;
}
