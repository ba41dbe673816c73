/* The daemon as a whole: built bottom up, wired, run until told to stop, torn down. */
#ifndef XCE_NODED_NODED_H
#define XCE_NODED_NODED_H

struct conf;

/* The one argument of the process that asks name services (collide_serve). */
#define NODED_ACCOUNTS_OPTION "--ask-name-services"

/* Run with these settings; *conf may be replaced by a reload. program: how to start this program again, for the process that
 * asks name services. The exit code: 0 told to stop; 1 could not start, which was logged. */
int noded_run(struct conf **conf, const char *program);

#endif
