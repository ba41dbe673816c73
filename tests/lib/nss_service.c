/* Two name services (SERVICE is the name of this one): "xcedown" answers as one whose server is away, "xceup" has one user and
 * one group, with that uid, and lists them. */
#include <errno.h>
#include <grp.h>
#include <nss.h>
#include <pwd.h>
#include <stdbool.h>
#include <string.h>

#define HAS       2046821000u
#define ENTRY     __attribute__((visibility("default"))) enum nss_status
#define FN_(s, n) _nss_##s##_##n
#define FN(s, n)  FN_(s, n)

ENTRY FN(SERVICE, getpwuid_r)(uid_t uid, struct passwd *ret, char *buf, size_t len, int *errnop);
ENTRY FN(SERVICE, getgrgid_r)(gid_t gid, struct group *ret, char *buf, size_t len, int *errnop);

ENTRY FN(SERVICE, setpwent)(int stay_open);
ENTRY FN(SERVICE, endpwent)(void);
ENTRY FN(SERVICE, getpwent_r)(struct passwd *ret, char *buf, size_t len, int *errnop);
ENTRY FN(SERVICE, setgrent)(int stay_open);
ENTRY FN(SERVICE, endgrent)(void);
ENTRY FN(SERVICE, getgrent_r)(struct group *ret, char *buf, size_t len, int *errnop);

static enum nss_status look(unsigned id, char *buf, size_t len, int *errnop)
{
    *errnop = ENOENT;
    if (DOWN)
        return NSS_STATUS_UNAVAIL;
    if (id != HAS || len < 2)
        return NSS_STATUS_NOTFOUND;
    memcpy(buf, "u", 2);
    return NSS_STATUS_SUCCESS;
}

ENTRY FN(SERVICE, getpwuid_r)(uid_t uid, struct passwd *ret, char *buf, size_t len, int *errnop)
{
    enum nss_status r = look(uid, buf, len, errnop);

    if (r == NSS_STATUS_SUCCESS)
        *ret = (struct passwd){buf, buf, uid, uid, buf, buf, buf};
    return r;
}

ENTRY FN(SERVICE, getgrgid_r)(gid_t gid, struct group *ret, char *buf, size_t len, int *errnop)
{
    static char *nobody[] = {NULL};
    enum nss_status r = look(gid, buf, len, errnop);

    if (r == NSS_STATUS_SUCCESS)
        *ret = (struct group){buf, buf, gid, nobody};
    return r;
}

/* ---- lists ---- */

static bool user_told, group_told;

static enum nss_status begin(bool *told)
{
    *told = false;
    return DOWN ? NSS_STATUS_UNAVAIL : NSS_STATUS_SUCCESS;
}

ENTRY FN(SERVICE, setpwent)(int stay_open)
{
    (void)stay_open;
    return begin(&user_told);
}

ENTRY FN(SERVICE, endpwent)(void)
{
    return NSS_STATUS_SUCCESS;
}

ENTRY FN(SERVICE, getpwent_r)(struct passwd *ret, char *buf, size_t len, int *errnop)
{
    enum nss_status r = FN(SERVICE, getpwuid_r)(user_told ? 0 : HAS, ret, buf, len, errnop);

    user_told = true;
    return r;
}

ENTRY FN(SERVICE, setgrent)(int stay_open)
{
    (void)stay_open;
    return begin(&group_told);
}

ENTRY FN(SERVICE, endgrent)(void)
{
    return NSS_STATUS_SUCCESS;
}

ENTRY FN(SERVICE, getgrent_r)(struct group *ret, char *buf, size_t len, int *errnop)
{
    enum nss_status r = FN(SERVICE, getgrgid_r)(group_told ? 0 : HAS, ret, buf, len, errnop);

    group_told = true;
    return r;
}
