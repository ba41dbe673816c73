/* The daemon as a whole: built bottom up, wired, run until told to stop, torn down. */
#ifndef XCE_NODED_NODED_H
#define XCE_NODED_NODED_H

struct conf;
struct err;

/* The one argument of the process that asks name services (collide_serve). */
#define NODED_ACCOUNTS_OPTION "--ask-name-services"

/* Run with these settings; *conf may be replaced by a reload. program: how to start this program again, for the process that
 * asks name services. The exit code: 0 told to stop; 1 could not start, which was logged. */
int noded_run(struct conf **conf, const char *program);

/* Beside noded: end what is here when its validity has passed and noded does not do it, because it is stopped, stuck or can
 * not start. Settings are those of conf_path, or the default ones if that is not sound: it must run then, too. The exit code. */
#define NODED_STANDBY_OPTION "--stand-by"
int noded_standby(const char *conf_path, const char *program);

/* For --check-config: what the files are worth that settings name. 0; -EINVAL with err. */
int noded_tls_check(const void *settings, struct err *err);

#endif
