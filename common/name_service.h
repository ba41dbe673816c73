/* One name service of nsswitch.conf at a time, by its own entry points: of a row of services glibc tells only what the last
 * one said, and of that one nothing but an errno, which is the same for "nobody has it", for the end of a list, and for "my
 * server is down".
 *
 * Foreign code that may hang: off the loop. Not "files", which glibc has inside, and which can be read as well. */
#ifndef XCE_COMMON_NAME_SERVICE_H
#define XCE_COMMON_NAME_SERVICE_H

#include <grp.h>
#include <nss.h>
#include <pwd.h>
#include <stdbool.h>
#include <stddef.h>

#define NAME_SERVICES_MAX 256 /* bytes of the services of a database */

/* The services of a database in a line of nsswitch.conf that are to be asked: without ours, without "files", without
 * [actions]; "systemd" only if asked for.
 *   line   behind the colon
 *   ret    the names, a space between two
 * false = it does not fit. */
bool name_services(const char *line, bool systemd, char *ret, size_t size);

/* Whether nss-systemd shows accounts of somebody else than systemd and us: a socket in this folder is theirs. */
bool name_systemd_has_others(const char *folder);

/* What it has not got is NULL. */
struct name_service {
    const char *name; /* borrowed */
    enum nss_status (*user_by_id)(uid_t, struct passwd *, char *, size_t, int *);
    enum nss_status (*user_by_name)(const char *, struct passwd *, char *, size_t, int *);
    enum nss_status (*users_begin)(int);
    enum nss_status (*users_next)(struct passwd *, char *, size_t, int *);
    enum nss_status (*users_end)(void);
    enum nss_status (*group_by_id)(gid_t, struct group *, char *, size_t, int *);
    enum nss_status (*group_by_name)(const char *, struct group *, char *, size_t, int *);
    enum nss_status (*groups_begin)(int);
    enum nss_status (*groups_next)(struct group *, char *, size_t, int *);
    enum nss_status (*groups_end)(void);
    void *handle;
};

/* 0; -ENOENT it is named but not installed: nobody's account is there; -ELIBACC it is there and can not be loaded. */
int name_service_open(const char *name, struct name_service *ret);
void name_service_close(struct name_service *service);

#endif
