/* What glibc calls. The contract is in glibc's manual, "Extending NSS".
 *
 * SUCCESS, NOTFOUND, or TRYAGAIN with ERANGE when the buffer is too small; ENOMEM with TRYAGAIN from initgroups_dyn alone.
 * Never UNAVAIL: glibc would tell the caller of getpwnam("nosuch") of an error, only because noded is not there.
 * *errnop is set with TRYAGAIN, else left alone. Any number of threads. */
#ifndef XCE_NSS_NSS_XCE_H
#define XCE_NSS_NSS_XCE_H

#include <grp.h>
#include <nss.h>
#include <pwd.h>
#include <stddef.h>
#include <sys/types.h>

#define XCE_EXPORT __attribute__((visibility("default")))

/* By key: no lock, allocation, descriptor, environment; see cache.h. */
XCE_EXPORT enum nss_status _nss_xce_getpwuid_r(uid_t uid, struct passwd *ret, char *buf, size_t len,
                                               int *errnop);
XCE_EXPORT enum nss_status _nss_xce_getpwnam_r(const char *name, struct passwd *ret, char *buf,
                                               size_t len, int *errnop);
XCE_EXPORT enum nss_status _nss_xce_getgrgid_r(gid_t gid, struct group *ret, char *buf, size_t len,
                                               int *errnop);
XCE_EXPORT enum nss_status _nss_xce_getgrnam_r(const char *name, struct group *ret, char *buf,
                                               size_t len, int *errnop);

/* Adds the supplementary gids of the lease to *groups, which has *start of *size; grows it by realloc(3), as the contract
 * wants, but not above limit if that is positive. SUCCESS also if there are none: the user is ours. */
XCE_EXPORT enum nss_status _nss_xce_initgroups_dyn(const char *user, gid_t group, long int *start,
                                                   long int *size, gid_t **groups, long int limit,
                                                   int *errnop);

/* Enumeration, one position for the process as in every service; in order of uid, each lease that is there all the while
 * exactly once. A buffer that is too small loses nothing. */
XCE_EXPORT enum nss_status _nss_xce_setpwent(int stayopen);
XCE_EXPORT enum nss_status _nss_xce_endpwent(void);
XCE_EXPORT enum nss_status _nss_xce_getpwent_r(struct passwd *ret, char *buf, size_t len,
                                               int *errnop);
XCE_EXPORT enum nss_status _nss_xce_setgrent(int stayopen);
XCE_EXPORT enum nss_status _nss_xce_endgrent(void);
XCE_EXPORT enum nss_status _nss_xce_getgrent_r(struct group *ret, char *buf, size_t len,
                                               int *errnop);

#endif
