/* The log of a program: to the journal with fields, or one readable line on stderr with the same ids.
 *
 * When stderr is connected to the journal ($JOURNAL_STREAM) each entry goes there as one datagram of the native protocol
 * with MESSAGE, PRIORITY, SYSLOG_IDENTIFIER, CODE_*, MESSAGE_ID and XCE_LEASE, XCE_UID, XCE_EPOCH, XCE_NODE, XCE_JOB,
 * XCE_ACTOR. Else "leased: warning: text (lease 12, uid 2013265920, epoch 3, node n1)".
 *
 * Never blocks: what the journal or a pipe does not take at once is dropped, counted, and told about later. Messages are
 * cut at LOG_TEXT_MAX, foreign bytes come escaped, so a log line is one line. errno is kept.
 * An error is logged once, where it stops climbing. Library code logs at debug only.
 * log_open, log_close and log_set_level belong to main, before other threads start; the rest may be called anywhere. */
#ifndef XCE_COMMON_LOG_H
#define XCE_COMMON_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <syslog.h> /* LOG_ERR, LOG_WARNING, LOG_NOTICE, LOG_INFO, LOG_DEBUG */

#include "common/log_id.h"

#define LOG_TEXT_MAX 2047

/* What an entry is about. Zero or NULL = not about such. Strings are copied. */
struct log_fields {
    const char *message_id; /* out of log_id.h */
    uint64_t lease;
    uint32_t uid;
    uint32_t epoch;
    const char *node;
    const char *job;
    const char *actor; /* who asked for it: a user's name, "uid 1000", "node n1" */
};

/* log_info(LOG_FIELDS(.lease = id, .node = name), "ready"), or log_info(NULL, "..."). No newline at the end. */
#define LOG_FIELDS(...)          (&(const struct log_fields){__VA_ARGS__})
#define log_error(fields, ...)   log_at(LOG_ERR, fields, __VA_ARGS__)
#define log_warning(fields, ...) log_at(LOG_WARNING, fields, __VA_ARGS__)
#define log_notice(fields, ...)  log_at(LOG_NOTICE, fields, __VA_ARGS__)
#define log_info(fields, ...)    log_at(LOG_INFO, fields, __VA_ARGS__)
#define log_debug(fields, ...)   log_at(LOG_DEBUG, fields, __VA_ARGS__)
#define log_at(level, fields, ...)                                                                 \
    do {                                                                                           \
        if ((level) <= log_level())                                                                \
            log_write(level, fields, __FILE__, __LINE__, __VA_ARGS__);                             \
    } while (0)

struct log_options {
    const char *ident; /* name of the program, borrowed for ever */
    int level;         /* the least urgent that is written, LOG_ERR..LOG_DEBUG; 0 = LOG_INFO */
    bool timestamps;   /* lines on stderr begin with the time (daemons) */
    const char *journal_socket; /* NULL = /run/systemd/journal/socket */
};

/* Before it, entries go to stderr at LOG_INFO. Cannot fail: without a journal it is stderr. */
void log_open(const struct log_options *options);
void log_close(void);

int log_level(void);
void log_set_level(int level);
/* "error", "warning", "notice", "info", "debug". 0; -EINVAL no such level. */
int log_level_parse(const char *name, int *ret_level);
const char *log_level_name(int level);

/* Whether entries go to the journal. */
bool log_is_journal(void);
/* Entries dropped since the start because nobody took them. */
uint64_t log_dropped(void);

void log_write(int level, const struct log_fields *fields, const char *file, int line,
               const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Something that a peer can cause at will is logged through one of these, static or inside its owner; all zero but the
 * two limits. One thread, or the owner's lock. */
struct log_limit {
    int64_t interval_ms;
    unsigned burst; /* entries in an interval */
    int64_t began_ms;
    unsigned written, held;
};

/* Whether to write now; *ret_held = how many were held back since the last that was written, to be named in it. */
bool log_limit_ok(struct log_limit *limit, unsigned *ret_held);

#endif
