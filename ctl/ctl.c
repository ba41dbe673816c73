#include "ctl/ctl.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/json.h"
#include "common/text.h"

enum {
    MESSAGE_MAX = 2048,
    /* A person waits at the terminal: no server for so long is an answer, unless --timeout says otherwise. */
    PATIENCE_MS = 5000,
};

const struct option_entry ctl_global_options[] = {
    {"server", 0, OPTION_TEXT, offsetof(struct ctl_globals, server), "ADDRESS",
     "where leased is: unix:/PATH or HOST:PORT (default: $XCE_SERVER, client.conf)", NULL},
    {"config", 0, OPTION_TEXT, offsetof(struct ctl_globals, conf), "FILE",
     "read this instead of /etc/xce/client.conf", NULL},
    {"json", 0, OPTION_FLAG, offsetof(struct ctl_globals, json), NULL, "print JSON", NULL},
    {"timeout", 0, OPTION_DURATION, offsetof(struct ctl_globals, timeout_ms), "TIME",
     "give up after so long (default: 30s)", NULL},
    {"columns", 'o', OPTION_TEXT, offsetof(struct ctl_globals, columns), "COLUMNS",
     "columns of a table, by commas", NULL},
    {"no-headings", 0, OPTION_FLAG, offsetof(struct ctl_globals, no_headings), NULL,
     "a table without its first line", NULL},
    {"quiet", 'q', OPTION_FLAG, offsetof(struct ctl_globals, quiet), NULL,
     "only results and errors", NULL},
    {"help", 'h', OPTION_FLAG, offsetof(struct ctl_globals, help), NULL, "print this", NULL},
    {"version", 0, OPTION_FLAG, offsetof(struct ctl_globals, version), NULL, "print the version",
     NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

const struct option_entry ctl_stale_options[] = {
    {"stale", 0, OPTION_FLAG, offsetof(struct ctl_globals, stale), NULL,
     "what the server that is asked knows, maybe old: needs no leader", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

int ctl_exit(int code)
{
    return code >= 0 && code <= EXIT_EXHAUSTED ? code : EXIT_FAILED;
}

int ctl_connect(struct ctl *ctl)
{
    struct xce_client_options options = {
        .server = ctl->globals.server,
        .conf = ctl->globals.conf,
        .timeout_ms = ctl->globals.timeout_ms,
        .patience_ms = ctl->globals.timeout_ms ? ctl->globals.timeout_ms : PATIENCE_MS,
    };
    char why[XCE_MESSAGE_MAX];
    int code;

    if (ctl->client)
        return EXIT_OK;
    code = xce_client_new(&options, &ctl->client, why);
    if (code != XCE_OK)
        return ctl_fail(ctl, code, "%s", why);
    return EXIT_OK;
}

struct xce_call ctl_call(const struct ctl *ctl)
{
    return (struct xce_call){.timeout_ms = ctl->globals.timeout_ms,
                             .stale = ctl->globals.stale,
                             .give_up = ctl->give_up};
}

/* ---- messages ---- */

/* Format and make safe for a terminal. text has MESSAGE_MAX bytes. */
__attribute__((format(printf, 2, 0))) static void safe(char *text, const char *format, va_list args)
{
    char raw[MESSAGE_MAX];

    vsnprintf(raw, sizeof raw, format, args);
    text_escape(raw, strlen(raw), text, MESSAGE_MAX);
}

void ctl_say(const struct ctl *ctl, const char *format, ...)
{
    char text[MESSAGE_MAX];
    va_list args;

    if (ctl->globals.quiet)
        return;
    va_start(args, format);
    safe(text, format, args);
    va_end(args);
    fprintf(stderr, "leasectl: %s\n", text);
}

static void print_error(struct ctl *ctl, int code, const char *text)
{
    struct json *error;

    if (ctl->globals.json && ctl->json_on_stdout) {
        error = json_error(xce_code_name(code), text);
        (void)json_write(error, JSON_PRETTY, stdout);
        (void)fflush(stdout);
        json_free(error);
        ctl->json_on_stdout = false;
        return;
    }
    fprintf(stderr, "leasectl: %s\n", text);
}

int ctl_usage(struct ctl *ctl, const char *format, ...)
{
    const struct verb *verb = ctl->verb;
    char text[MESSAGE_MAX];
    va_list args;

    va_start(args, format);
    safe(text, format, args);
    va_end(args);
    print_error(ctl, XCE_INVALID, text);
    if (!ctl->globals.json)
        fprintf(stderr, "Try: leasectl%s%s%s%s --help\n", verb && verb->group ? " " : "",
                verb && verb->group ? verb->group : "", verb ? " " : "", verb ? verb->name : "");
    return EXIT_USAGE;
}

int ctl_fail(struct ctl *ctl, int code, const char *format, ...)
{
    char text[MESSAGE_MAX];
    va_list args;

    va_start(args, format);
    safe(text, format, args);
    va_end(args);
    print_error(ctl, code, text);
    return ctl_exit(code);
}

int ctl_failed(struct ctl *ctl, int code)
{
    /* The client has made it safe already; twice would show its backslashes double. */
    print_error(ctl, code, xce_client_message(ctl->client));
    return ctl_exit(code);
}

bool ctl_may_be_done(const struct ctl *ctl, int code)
{
    struct xce_request seen;

    xce_client_request(ctl->client, &seen);
    return seen.id_len && (code == XCE_TIMEOUT || code == XCE_UNREACHABLE ||
                           code == XCE_CANCELLED || code == XCE_FAILED);
}

const char *ctl_told(const struct ctl *ctl, int code, char ret[static CTL_TOLD_MAX])
{
    (void)snprintf(ret, CTL_TOLD_MAX, "%s%s", xce_client_message(ctl->client),
                   ctl_may_be_done(ctl, code) ? "; it may have been done: repeating it does no harm"
                                              : "");
    return ret;
}

int ctl_failed_change(struct ctl *ctl, int code)
{
    char text[CTL_TOLD_MAX];

    print_error(ctl, code, ctl_told(ctl, code, text));
    return ctl_exit(code);
}

/* ---- stdout ---- */

int ctl_finish_stdout(struct ctl *ctl)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return EXIT_OK;
    if (errno != EPIPE)
        fprintf(stderr, "leasectl: stdout: %s\n", err_text(errno));
    (void)ctl;
    return EXIT_FAILED;
}

static int print_json(struct ctl *ctl, struct json *value, enum json_style style)
{
    int r = json_write(value, style, stdout);

    json_free(value);
    if (r == -ENOMEM) {
        fprintf(stderr, "leasectl: out of memory\n");
        return EXIT_FAILED;
    }
    return ctl_finish_stdout(ctl);
}

int ctl_print_json(struct ctl *ctl, struct json *value)
{
    return print_json(ctl, value, JSON_PRETTY);
}

int ctl_print_json_line(struct ctl *ctl, struct json *value)
{
    return print_json(ctl, value, JSON_LINE);
}
