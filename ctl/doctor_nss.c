/* Name service: the order of /etc/nsswitch.conf, and caches that would show what is over. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "ctl/doctor.h"

#define ORDER_CURE "in /etc/nsswitch.conf: \"passwd: files xce systemd\", the same for group"

/* ---- nsswitch.conf ---- */

/* The services of one database, as they stand: "files xce [NOTFOUND=return] systemd". NULL = no such line. In text, which
 * is changed. */
static char *database(char *text, const char *name)
{
    for (char *line; (line = strsep(&text, "\n"));) {
        size_t len = strlen(name);

        line[strcspn(line, "#")] = 0;
        line += strspn(line, " \t");
        if (!strncmp(line, name, len) && line[len + strspn(line + len, " \t")] == ':')
            return strchr(line, ':') + 1;
    }
    return NULL;
}

struct order {
    int files, xce, systemd, sss; /* place in the line, from 1; 0 = is not there */
    bool return_after_files, merge_after_xce;
};

static void read_order(char *services, struct order *ret)
{
    char *save = NULL;
    int place = 0, last_xce = 0, last_files = 0;

    *ret = (struct order){0};
    for (char *word = strtok_r(services, " \t\r", &save); word;
         word = strtok_r(NULL, " \t\r", &save)) {
        if (word[0] == '[') {
            if (strcasestr(word, "NOTFOUND=return") && last_files && !ret->xce)
                ret->return_after_files = true;
            if (strcasestr(word, "SUCCESS=merge") && last_xce == place)
                ret->merge_after_xce = true;
            continue;
        }
        place++;
        if (!strcmp(word, "files") || !strcmp(word, "compat"))
            ret->files = last_files = place;
        else if (!strcmp(word, "xce"))
            ret->xce = last_xce = place;
        else if (!strcmp(word, "systemd"))
            ret->systemd = place;
        else if (!strcmp(word, "sss") || !strcmp(word, "ldap") || !strcmp(word, "winbind"))
            ret->sss = ret->sss ? ret->sss : place;
    }
}

static void judge_order(struct doctor *doctor, const char *name, const struct order *order)
{
    if (!order->xce && order->systemd && doctor_listens(doctor, DOCTOR_USERDB_SOCKET)) {
        doctor_found(
            doctor, SEVERITY_WARNING, "nsswitch-alone", ORDER_CURE,
            "%s: xce is missing: leases resolve by way of xce-userdbd alone, and not while "
            "that is started again",
            name);
        return;
    }
    if (!order->xce) {
        doctor_found(doctor, SEVERITY_ERROR, "nsswitch-missing", ORDER_CURE,
                     "%s: xce is missing: leased ids have no name", name);
        return;
    }
    if (order->return_after_files)
        doctor_found(doctor, SEVERITY_ERROR, "nsswitch-return", ORDER_CURE,
                     "%s: [NOTFOUND=return] before xce: xce is never asked", name);
    if (order->merge_after_xce)
        doctor_found(doctor, SEVERITY_WARNING, "nsswitch-merge", ORDER_CURE,
                     "%s: [SUCCESS=merge] behind xce: each hit asks all services behind it", name);
    if ((order->systemd && order->systemd < order->xce) || (order->sss && order->sss < order->xce))
        doctor_found(doctor, SEVERITY_WARNING, "nsswitch-late", ORDER_CURE,
                     "%s: xce stands behind a service that can hang or be slow", name);
    if (order->files && order->files > order->xce)
        doctor_found(doctor, SEVERITY_NOTE, "nsswitch-early", NULL,
                     "%s: xce stands before files: faster, and safe as long as no account lies in "
                     "a pool",
                     name);
}

static void judge_database(struct doctor *doctor, const char *text, const char *name)
{
    auto_free char *copy = strdup(text);
    char *services = copy ? database(copy, name) : NULL;
    struct order order = {0};

    if (services)
        read_order(services, &order);
    judge_order(doctor, name, &order);
}

void doctor_check_nsswitch(struct doctor *doctor)
{
    auto_free char *text = doctor_read(doctor, "/etc/nsswitch.conf");
    auto_free char *copy = NULL;
    size_t before = doctor->n_findings;
    struct order order;
    char *services;

    if (doctor_knows_no_leases(doctor))
        return;
    if (!text) {
        doctor_found(doctor, SEVERITY_ERROR, "nsswitch-unreadable", ORDER_CURE,
                     "/etc/nsswitch.conf can not be read: %s", strerror(errno));
        return;
    }
    judge_database(doctor, text, "passwd");
    judge_database(doctor, text, "group");
    copy = strdup(text);
    services = copy ? database(copy, "initgroups") : NULL;
    if (services) {
        read_order(services, &order);
        if (!order.xce)
            doctor_found(doctor, SEVERITY_ERROR, "nsswitch-initgroups",
                         "add xce to the initgroups line, or remove that line",
                         "initgroups: xce is missing: supplementary groups of leases are lost");
    }
    if (doctor->n_findings == before)
        doctor_found(doctor, SEVERITY_OK, "nsswitch-ok", NULL, "xce is asked for passwd and group");
}

/* ---- nscd ---- */

/* nscd.conf: "enable-cache passwd yes". Without a line it caches. */
static bool caches(char *text, const char *database_name)
{
    bool on = true;

    for (char *line; text && (line = strsep(&text, "\n"));) {
        char *save = NULL, *word;

        line[strcspn(line, "#")] = 0;
        word = strtok_r(line, " \t", &save);
        if (!word || strcmp(word, "enable-cache") != 0)
            continue;
        word = strtok_r(NULL, " \t", &save);
        if (!word || strcmp(word, database_name) != 0)
            continue;
        word = strtok_r(NULL, " \t\r", &save);
        on = !word || strcasecmp(word, "no") != 0;
    }
    return on;
}

void doctor_check_nscd(struct doctor *doctor)
{
    static const char *const databases[] = {"passwd", "group"};
    auto_free char *text = NULL;
    bool cached = false;

    if (!doctor_listens(doctor, "/run/nscd/socket"))
        return;
    text = doctor_read(doctor, "/etc/nscd.conf");
    for (size_t i = 0; i < ARRAY_LEN(databases); i++) {
        auto_free char *copy = text ? strdup(text) : NULL;

        if (!caches(copy, databases[i]))
            continue;
        cached = true;
        /* noded empties its caches at each change. But what nscd was asking a service about at
         * that moment it keeps after that: up to its time to live, ten minutes, old and wrong. */
        doctor_found(doctor, SEVERITY_ERROR, "nscd-caches",
                     "in /etc/nscd.conf: enable-cache passwd no, enable-cache group no; or remove "
                     "nscd",
                     "nscd runs and caches %s: it may go on showing a lease that is over",
                     databases[i]);
    }
    if (!cached)
        doctor_found(doctor, SEVERITY_OK, "nscd-ok", NULL, "nscd runs, and caches no users");
}
