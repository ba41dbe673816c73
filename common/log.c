#include "common/log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/mem.h"
#include "common/text.h"

/* Text and every field at their longest; one datagram of this size always fits the socket's default buffer. */
#define ENTRY_MAX 8192
/* What a pipe that polls as writable takes at once. */
#define LINE_MAX_BYTES 4096

static struct {
    const char *ident;
    _Atomic int level;
    bool timestamps;
    int journal_fd; /* -1 = stderr */
    _Atomic uint64_t dropped;
    _Atomic uint64_t told; /* of dropped: already reported */
} state = {.level = LOG_INFO, .journal_fd = -1};

static const struct {
    int level;
    const char *name;
} levels[] = {
    {LOG_ERR, "error"}, {LOG_WARNING, "warning"}, {LOG_NOTICE, "notice"},
    {LOG_INFO, "info"}, {LOG_DEBUG, "debug"},
};

int log_level(void)
{
    return atomic_load_explicit(&state.level, memory_order_relaxed);
}

void log_set_level(int level)
{
    atomic_store_explicit(&state.level, level, memory_order_relaxed);
}

int log_level_parse(const char *name, int *ret_level)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(levels); i++) {
        if (strcmp(levels[i].name, name) == 0) {
            *ret_level = levels[i].level;
            return 0;
        }
    }
    return -EINVAL;
}

const char *log_level_name(int level)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(levels); i++)
        if (levels[i].level == level)
            return levels[i].name;
    return level < LOG_ERR ? "error" : "debug";
}

/* Whether stderr is the stream that systemd connected to the journal: $JOURNAL_STREAM is "device:inode" of it. */
static bool stderr_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    char mine[64];
    struct stat st;

    if (!stream || fstat(STDERR_FILENO, &st) < 0)
        return false;
    snprintf(mine, sizeof(mine), "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    return strcmp(stream, mine) == 0;
}

static int connect_journal(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    auto_close int fd = -1;

    if (strlen(path) >= sizeof(address.sun_path))
        return -1;
    memcpy(address.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return -1;
    return mem_take_fd(&fd);
}

void log_open(const struct log_options *options)
{
    log_close();
    state.ident = options->ident;
    state.timestamps = options->timestamps;
    log_set_level(options->level ? options->level : LOG_INFO);
    if (stderr_is_journal())
        state.journal_fd = connect_journal(options->journal_socket ? options->journal_socket
                                                                   : "/run/systemd/journal/socket");
}

void log_close(void)
{
    state.journal_fd = mem_close(state.journal_fd);
    state.ident = NULL;
    state.timestamps = false;
}

bool log_is_journal(void)
{
    return state.journal_fd >= 0;
}

uint64_t log_dropped(void)
{
    return atomic_load(&state.dropped);
}

/* ---- the journal's native protocol: "KEY=value\n"; values are one line each, for they come cleaned ---- */

static void add_text(struct buf *entry, const char *key, const char *value)
{
    if (!value || value[0] == '\0')
        return;
    buf_adds(entry, key);
    buf_addc(entry, '=');
    buf_add_escaped(entry, value, strnlen(value, 256));
    buf_addc(entry, '\n');
}

static void add_number(struct buf *entry, const char *key, uint64_t value)
{
    buf_adds(entry, key);
    buf_addc(entry, '=');
    buf_add_u64(entry, value);
    buf_addc(entry, '\n');
}

static void add_fields(struct buf *entry, const struct log_fields *fields)
{
    add_text(entry, "MESSAGE_ID", fields->message_id);
    if (fields->lease)
        add_number(entry, "XCE_LEASE", fields->lease);
    if (fields->uid)
        add_number(entry, "XCE_UID", fields->uid);
    if (fields->epoch)
        add_number(entry, "XCE_EPOCH", fields->epoch);
    add_text(entry, "XCE_NODE", fields->node);
    add_text(entry, "XCE_JOB", fields->job);
    add_text(entry, "XCE_ACTOR", fields->actor);
}

/* Whether the journal took it. A journal that is gone or whose queue is full is not waited for. */
static bool send_entry(const struct buf *entry)
{
    ssize_t n;

    do
        n = send(state.journal_fd, entry->data, entry->len, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n >= 0;
}

static bool to_journal(int level, const struct log_fields *fields, const char *file, int line,
                       const char *text)
{
    char memory[ENTRY_MAX];
    struct buf entry;

    buf_init_fixed(&entry, memory, sizeof(memory));
    buf_addf(&entry, "PRIORITY=%d\nMESSAGE=%s\nCODE_FILE=%s\nCODE_LINE=%d\n", level, text, file,
             line);
    add_text(&entry, "SYSLOG_IDENTIFIER", state.ident);
    if (fields)
        add_fields(&entry, fields);
    return buf_error(&entry) == 0 && send_entry(&entry);
}

/* ---- stderr ---- */

static void add_id(struct buf *out, const char **before, const char *name, uint64_t value)
{
    if (!value)
        return;
    buf_addf(out, "%s%s %llu", *before, name, (unsigned long long)value);
    *before = ", ";
}

static void add_word(struct buf *out, const char **before, const char *name, const char *value)
{
    if (!value || value[0] == '\0')
        return;
    buf_addf(out, "%s%s ", *before, name);
    buf_add_escaped(out, value, strnlen(value, 256));
    *before = ", ";
}

static void add_ids(struct buf *out, const struct log_fields *fields)
{
    const char *before = " (";

    add_id(out, &before, "lease", fields->lease);
    add_id(out, &before, "uid", fields->uid);
    add_id(out, &before, "epoch", fields->epoch);
    add_word(out, &before, "node", fields->node);
    add_word(out, &before, "job", fields->job);
    add_word(out, &before, "by", fields->actor);
    if (before[0] == ',')
        buf_addc(out, ')');
}

/* A terminal that is stopped, or a pipe that nobody empties, must not stop us: ask first, then write at most what fits. */
static bool write_line(const struct buf *line)
{
    struct pollfd poll_fd = {.fd = STDERR_FILENO, .events = POLLOUT};
    ssize_t n;

    if (poll(&poll_fd, 1, 0) != 1 || !(poll_fd.revents & POLLOUT))
        return false;
    do
        n = send(STDERR_FILENO, line->data, line->len, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == ENOTSOCK) {
        do
            n = write(STDERR_FILENO, line->data, line->len);
        while (n < 0 && errno == EINTR);
    }
    return n == (ssize_t)line->len;
}

static bool to_stderr(int level, const struct log_fields *fields, const char *text)
{
    char memory[LINE_MAX_BYTES], when[TEXT_TIME_BUF];
    struct buf line;

    buf_init_fixed(&line, memory, sizeof(memory));
    if (state.timestamps)
        buf_addf(&line, "%s ", text_format_time(clock_wall_ms(), when));
    if (state.ident)
        buf_addf(&line, "%s: ", state.ident);
    if (level != LOG_INFO)
        buf_addf(&line, "%s: ", log_level_name(level));
    buf_adds(&line, text);
    if (fields)
        add_ids(&line, fields);
    buf_addc(&line, '\n');
    return buf_error(&line) == 0 && write_line(&line);
}

static bool deliver(int level, const struct log_fields *fields, const char *file, int line,
                    const char *text)
{
    if (state.journal_fd >= 0)
        return to_journal(level, fields, file, line, text);
    return to_stderr(level, fields, text);
}

/* Somebody takes entries again: say how many are missing. */
static void tell_dropped(void)
{
    uint64_t dropped = atomic_load(&state.dropped), told = atomic_load(&state.told);
    char text[128];

    if (dropped == told || !atomic_compare_exchange_strong(&state.told, &told, dropped))
        return;
    snprintf(text, sizeof(text), "%llu log entries were lost: nobody took them",
             (unsigned long long)(dropped - told));
    if (!deliver(LOG_WARNING, LOG_FIELDS(.message_id = LOG_ID_LOG_DROPPED), __FILE__, __LINE__,
                 text))
        atomic_fetch_sub(&state.told, dropped - told);
}

void log_write(int level, const struct log_fields *fields, const char *file, int line,
               const char *format, ...)
{
    char raw[LOG_TEXT_MAX + 1], text[LOG_TEXT_MAX + 1];
    int saved = errno;
    va_list args;

    if (level > log_level())
        return;
    va_start(args, format);
    if (vsnprintf(raw, sizeof(raw), format, args) < 0)
        raw[0] = '\0';
    va_end(args);
    text_clean(raw, strlen(raw), text, sizeof(text));
    if (deliver(level, fields, file, line, text))
        tell_dropped();
    else
        atomic_fetch_add(&state.dropped, 1);
    errno = saved;
}

bool log_limit_ok(struct log_limit *limit, unsigned *ret_held)
{
    int64_t now_ms = clock_coarse_ms();

    if (limit->written == 0 || now_ms - limit->began_ms >= limit->interval_ms) {
        limit->began_ms = now_ms;
        limit->written = 0;
    }
    if (limit->written >= limit->burst) {
        limit->held++;
        return false;
    }
    limit->written++;
    *ret_held = limit->held;
    limit->held = 0;
    return true;
}
