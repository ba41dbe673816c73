#include "common/name_service.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/err.h"
#include "common/mem.h"

#define OURS "io.xce.Lease" /* what xce-userdbd is called among the providers of systemd */

/* ---- which ---- */

static bool word_is(const char *word, size_t len, const char *what)
{
    return strlen(what) == len && strncmp(word, what, len) == 0;
}

/* "files" we read ourselves, for all uids at once; "xce" is us. */
static bool is_asked_otherwise(const char *word, size_t len, bool systemd)
{
    return word_is(word, len, "xce") || word_is(word, len, "files") ||
           (!systemd && word_is(word, len, "systemd"));
}

bool name_services(const char *line, bool systemd, char *ret, size_t size)
{
    size_t len = 0;

    ret[0] = '\0';
    while (*(line += strspn(line, " \t\n"))) {
        size_t n = *line == '[' ? strcspn(line, "]") : strcspn(line, " \t\n[");
        /* Actions are left out: what returns early would hide those behind it. */
        if (*line == '[') {
            n += line[n] == ']';
        } else if (!is_asked_otherwise(line, n, systemd)) {
            if (len + n + 2 > size)
                return false;
            len += (size_t)snprintf(ret + len, size - len, "%s%.*s", len ? " " : "", (int)n, line);
        }
        line += n;
    }
    return true;
}

/* nss-systemd asks a row of processes, each look-up anew. Those that systemd brings have ids of their own classes alone, in
 * which no pool can be, and static records are files; only if somebody else's is there the question is worth its price. */
bool name_systemd_has_others(const char *folder)
{
    auto_closedir DIR *dir = opendir(folder);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        if (entry->d_name[0] != '.' && strncmp(entry->d_name, "io.systemd.", 11) != 0 &&
            strcmp(entry->d_name, OURS) != 0)
            return true;
    return false;
}

/* ---- one ---- */

static void entry_point(void *handle, const char *service, const char *what, void *ret_fn)
{
    char symbol[NAME_SERVICES_MAX + 32];
    void *address;

    (void)snprintf(symbol, sizeof(symbol), "_nss_%s_%s", service, what);
    address = dlsym(handle, symbol);
    memcpy(ret_fn, &address, sizeof(address));
}

int name_service_open(const char *name, struct name_service *ret)
{
    char path[NAME_SERVICES_MAX + 32];
    const char *error;
    void *handle;

    (void)snprintf(path, sizeof(path), "libnss_%s.so.2", name);
    /* Once loaded it stays, as glibc would keep it: it may have made threads. */
    handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) {
        error = dlerror();
        return error && strstr(error, err_text(ENOENT)) ? -ENOENT : -ELIBACC;
    }
    ret->name = name;
    ret->handle = handle;
    entry_point(handle, name, "getpwuid_r", &ret->user_by_id);
    entry_point(handle, name, "getpwnam_r", &ret->user_by_name);
    entry_point(handle, name, "setpwent", &ret->users_begin);
    entry_point(handle, name, "getpwent_r", &ret->users_next);
    entry_point(handle, name, "endpwent", &ret->users_end);
    entry_point(handle, name, "getgrgid_r", &ret->group_by_id);
    entry_point(handle, name, "getgrnam_r", &ret->group_by_name);
    entry_point(handle, name, "setgrent", &ret->groups_begin);
    entry_point(handle, name, "getgrent_r", &ret->groups_next);
    entry_point(handle, name, "endgrent", &ret->groups_end);
    return 0;
}

void name_service_close(struct name_service *service)
{
    (void)dlclose(service->handle);
}
