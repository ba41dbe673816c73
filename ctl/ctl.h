/* What every verb works with: the global options, the client, and the way errors go out.
 *
 * Data goes to stdout, messages to stderr; with --json an error is an object on stdout. */
#ifndef XCE_CTL_CTL_H
#define XCE_CTL_CTL_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl/option.h"
#include "ctl/verb.h"
#include "xce/client.h"

struct json;

/* Exit statuses. Documented in leasectl(1): numbers never change. */
enum {
    EXIT_OK = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NOT_FOUND = 3,
    EXIT_UNREACHABLE = 4,
    EXIT_TIMEOUT = 5,
    EXIT_EXHAUSTED = 6,
};

struct ctl_globals {
    const char *server;
    const char *conf;
    bool json;
    int64_t timeout_ms;
    const char *columns;
    bool no_headings;
    bool quiet;
    bool stale; /* of verbs that only read */
    bool help;
    bool version;
};

extern const struct option_entry ctl_global_options[];
/* Of verbs that have `stale`, into struct ctl_globals as well. */
extern const struct option_entry ctl_stale_options[];

struct ctl {
    struct ctl_globals globals;
    const struct verb *verb;
    struct xce_client *client;  /* NULL until it is needed */
    bool (*give_up)(void *arg); /* of every call: xce_call; NULL = never */
    /* Errors go there, too: false while stdout is another program's, and once an error is there, so that --json prints one
     * object. */
    bool json_on_stdout;
};

/* The client, made now if it must. An exit status. */
int ctl_connect(struct ctl *ctl);

/* How a call of this verb is made: --timeout. */
struct xce_call ctl_call(const struct ctl *ctl);

/* Say what is wrong and give the exit status for it. */
int ctl_usage(struct ctl *ctl, const char *format, ...) __attribute__((format(printf, 2, 3)));
int ctl_fail(struct ctl *ctl, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What the client says about the call that just failed with code. */
int ctl_failed(struct ctl *ctl, int code);
/* Whether the change that just failed with code may have been done: a server may have seen it, and has not refused it. */
bool ctl_may_be_done(const struct ctl *ctl, int code);
/* What the client says about a change that may be repeated, and that it may have been done if that is so. */
#define CTL_TOLD_MAX (XCE_MESSAGE_MAX + 64)
const char *ctl_told(const struct ctl *ctl, int code, char ret[static CTL_TOLD_MAX]);
/* Say that, and give the exit status for it. */
int ctl_failed_change(struct ctl *ctl, int code);

/* The exit status of an enum xce_code. */
int ctl_exit(int code);

/* A message for people: to stderr, unless -q. Foreign text in it is made safe. */
void ctl_say(const struct ctl *ctl, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Print a value to stdout and free it. An exit status. */
int ctl_print_json(struct ctl *ctl, struct json *value);
/* The same as one line, flushed: for streams. */
int ctl_print_json_line(struct ctl *ctl, struct json *value);

/* Flush stdout: EXIT_OK, or EXIT_FAILED when it could not be written (a closed pipe is not told about). */
int ctl_finish_stdout(struct ctl *ctl);

#endif
