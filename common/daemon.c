#include "common/daemon.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include "common/err.h"
#include "common/log.h"
#include "common/text.h"

#define STATUS_MAX 512

static void notify(const char *message)
{
    int r = sd_notify(0, message);

    if (r < 0)
        log_debug(NULL, "service manager not told: %s", err_text(r));
}

/* state, then the status line: one line, whatever was in it. */
__attribute__((format(printf, 2, 0))) static void notify_status(const char *state,
                                                                const char *format, va_list args)
{
    char raw[STATUS_MAX], text[STATUS_MAX], message[STATUS_MAX + 64];

    if (vsnprintf(raw, sizeof(raw), format, args) < 0)
        raw[0] = '\0';
    text_clean(raw, strlen(raw), text, sizeof(text));
    snprintf(message, sizeof(message), "%sSTATUS=%s", state, text);
    notify(message);
}

void daemon_ready(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    notify_status("READY=1\n", format, args);
    va_end(args);
}

void daemon_status(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    notify_status("", format, args);
    va_end(args);
}

void daemon_reloading(void)
{
    char message[64];
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(message, sizeof(message), "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
             (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    notify(message);
}

void daemon_stopping(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    notify_status("STOPPING=1\n", format, args);
    va_end(args);
}

int64_t daemon_watchdog_ms(void)
{
    uint64_t patience_us = 0;
    int64_t ms;

    if (sd_watchdog_enabled(0, &patience_us) <= 0)
        return 0;
    ms = (int64_t)(patience_us / 2000);
    return ms > 0 ? ms : 1;
}

void daemon_watchdog(void)
{
    notify("WATCHDOG=1");
}

int daemon_listen_fds(void)
{
    return sd_listen_fds(1);
}
