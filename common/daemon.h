/* What a daemon tells its service manager: home of sd-daemon. Without a manager ($NOTIFY_SOCKET) nothing happens.
 * A failure to tell is not an error of the daemon: it is logged at debug. One thread. */
#ifndef XCE_COMMON_DAEMON_H
#define XCE_COMMON_DAEMON_H

#include <stdint.h>

/* Ready to serve, also after a reload. The status is what `systemctl status` shows. */
void daemon_ready(const char *format, ...) __attribute__((format(printf, 1, 2)));
void daemon_status(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A reload begins (Type=notify-reload needs the time, too); ends with daemon_ready. */
void daemon_reloading(void);
void daemon_stopping(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* How often to call daemon_watchdog: half the manager's patience, ms; 0 = nobody watches. */
int64_t daemon_watchdog_ms(void);
void daemon_watchdog(void);

/* The listening sockets that the manager passed, from descriptor 3 on: their number, or -errno. Call once. */
int daemon_listen_fds(void);

#endif
