/* A host process for the NSS module, which does one thing that has broken such modules. Exit 0: all as it should be.
 * Built with shared and with static libc. usage: probe WHAT [ARGUMENTS] */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <nss.h>
#include <pwd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct answer {
    struct passwd pw;
    struct group gr;
    char buf[2048];
    int error;
};

struct module {
    enum nss_status (*getpwuid)(uid_t, struct passwd *, char *, size_t, int *);
    enum nss_status (*getpwnam)(const char *, struct passwd *, char *, size_t, int *);
    enum nss_status (*getgrgid)(gid_t, struct group *, char *, size_t, int *);
    enum nss_status (*getgrnam)(const char *, struct group *, char *, size_t, int *);
    enum nss_status (*initgroups)(const char *, gid_t, long int *, long int *, gid_t **, long int,
                                  int *);
};

/* ---- an allocator that breaks when it is told to ---- */

void *__libc_malloc(size_t size);
void *__libc_realloc(void *at, size_t size);
void *__libc_calloc(size_t n, size_t size);

static bool no_memory;

#ifndef PROBE_STATIC
static void check_memory(void)
{
    static const char said[] = "probe: memory was asked for\n";

    if (!no_memory)
        return;
    (void)!write(2, said, sizeof(said) - 1);
    _exit(9);
}

void *malloc(size_t size)
{
    check_memory();
    return __libc_malloc(size);
}

void *realloc(void *at, size_t size)
{
    check_memory();
    return __libc_realloc(at, size);
}

void *calloc(size_t n, size_t size)
{
    check_memory();
    return __libc_calloc(n, size);
}
#endif

static int fail(const char *what)
{
    (void)fprintf(stderr, "probe: %s\n", what);
    return 1;
}

static uint32_t number(const char *text)
{
    return (uint32_t)strtoul(text, NULL, 10);
}

static double now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- through glibc ---- */

/* UID NAME: both ways, passwd and group, agree; NAME "-": there is none, and that is no error. */
static int both(char *argv[])
{
    uint32_t uid = number(argv[0]);
    struct answer a, b, c, d;
    struct passwd *pw;
    struct group *gr;
    int r = getpwuid_r(uid, &a.pw, a.buf, sizeof(a.buf), &pw);

    if (strcmp(argv[1], "-") == 0)
        return r == 0 && !pw ? 0 : fail("an answer, or an error, for a uid without lease");
    if (r != 0 || !pw || strcmp(pw->pw_name, argv[1]) != 0 || pw->pw_gid != uid)
        return fail("getpwuid");
    if (getpwnam_r(argv[1], &b.pw, b.buf, sizeof(b.buf), &pw) != 0 || !pw || pw->pw_uid != uid)
        return fail("getpwnam");
    if (getgrgid_r(uid, &c.gr, c.buf, sizeof(c.buf), &gr) != 0 || !gr ||
        strcmp(gr->gr_name, argv[1]) != 0)
        return fail("getgrgid");
    if (getgrnam_r(argv[1], &d.gr, d.buf, sizeof(d.buf), &gr) != 0 || !gr || gr->gr_gid != uid)
        return fail("getgrnam");
    return 0;
}

/* Names that nobody has are neither found nor an error. */
static int absent(char *argv[])
{
    static const char *const names[] = {"nosuch", "xce-1w00000-7", "", "x.y", "a/b", "a:b", "xce-"};
    struct answer a;
    struct passwd *pw;
    struct group *gr;

    (void)argv;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (getpwnam_r(names[i], &a.pw, a.buf, sizeof(a.buf), &pw) != 0 || pw)
            return fail(names[i]);
        if (getgrnam_r(names[i], &a.gr, a.buf, sizeof(a.buf), &gr) != 0 || gr)
            return fail(names[i]);
    }
    errno = EPERM;
    if (getpwnam("nosuch"))
        return fail("getpwnam");
    return errno == 0 || errno == EPERM || errno == ENOENT ? 0 : fail("errno of getpwnam");
}

/* NAME GID: supplementary groups, one a line, and the microseconds that one question took on stderr. */
static int groups(char *argv[])
{
    gid_t list[1024];
    int n = 1024;
    double from = now_s();

    for (int i = 0; i < 100; i++) {
        n = 1024;
        if (getgrouplist(argv[0], number(argv[1]), list, &n) < 0)
            return fail("getgrouplist");
    }
    (void)fprintf(stderr, "%.1f\n", (now_s() - from) * 1e4);
    for (int i = 0; i < n; i++)
        (void)printf("%u\n", list[i]);
    return 0;
}

/* An enumeration, begun and not ended, then another program: it sees no descriptor of ours. */
static int exec_after_enumeration(char *argv[])
{
    (void)argv;
    setpwent();
    setgrent();
    if (!getpwent() || !getgrent())
        return fail("enumeration");
    (void)execl("/bin/ls", "ls", "/proc/self/fd", (char *)NULL);
    return fail("exec");
}

/* Counts of both enumerations. */
static int enumerate(char *argv[])
{
    int users = 0, n_groups = 0;
    struct passwd *pw;
    struct group *gr;

    (void)argv;
    setpwent();
    while ((pw = getpwent()))
        users += strncmp(pw->pw_name, "xce-", 4) == 0;
    endpwent();
    setgrent();
    while ((gr = getgrent()))
        n_groups += strncmp(gr->gr_name, "xce-", 4) == 0;
    endgrent();
    (void)printf("%d %d\n", users, n_groups);
    return 0;
}

/* UID NAME: not there yet; waits for a line; is there at most two seconds later. */
static int late(char *argv[])
{
    char line[16], *absent_argv[] = {argv[0], (char *)"-"};
    const struct timespec pause = {0, 5000000};
    double from;

    if (both(absent_argv) != 0)
        return 1;
    (void)puts("waiting");
    (void)fflush(stdout);
    if (!fgets(line, sizeof(line), stdin))
        return fail("no line");
    from = now_s();
    while (!getpwuid(number(argv[0]))) {
        if (now_s() - from > 2)
            return fail("not found two seconds later");
        (void)nanosleep(&pause, NULL);
    }
    return both(argv);
}

/* UID NAME: after the first look-up no memory is to be had. */
static int broken_malloc(char *argv[])
{
    int r = both(argv);

    no_memory = true;
    for (int i = 0; i < 1000 && r == 0; i++)
        r = both(argv);
    no_memory = false;
    return r;
}

/* UID NAME DIR: the map is mapped, then the process locks itself in where there is none. */
static int in_chroot(char *argv[])
{
    double from = now_s();
    int r = both(argv);

    if (r == 0 && (chroot(argv[2]) < 0 || chdir("/") < 0))
        return fail("chroot");
    /* longer than a second: the path is looked at meanwhile */
    while (r == 0 && now_s() - from < 2.2)
        r = getpwuid(number(argv[0])) ? 0 : fail("lost in chroot");
    return r;
}

/* UID NAME: no descriptor is left for the first look-up; later there is. */
static int no_descriptors(char *argv[])
{
    const struct rlimit none = {0, 4096}, enough = {1024, 4096};
    double from;

    /* glibc has read its files, and loaded our module, which needs no map to know that this is none of its uids */
    (void)getpwuid(60123);
    (void)getgrgid(60123);
    if (setrlimit(RLIMIT_NOFILE, &none) < 0)
        return fail("setrlimit");
    for (int i = 0; i < 100; i++)
        (void)getpwuid(number(argv[0]));
    if (setrlimit(RLIMIT_NOFILE, &enough) < 0)
        return fail("setrlimit");
    from = now_s();
    while (!getpwuid(number(argv[0])))
        if (now_s() - from > 2)
            return fail("not found when there were descriptors again");
    return both(argv);
}

/* ---- the module alone ---- */

static struct module load(const char *path)
{
    void *lib = dlopen(path, RTLD_NOW);
    struct module m = {0};

    if (!lib) {
        (void)fprintf(stderr, "probe: %s\n", dlerror());
        exit(1);
    }
    *(void **)&m.getpwuid = dlsym(lib, "_nss_xce_getpwuid_r");
    *(void **)&m.getpwnam = dlsym(lib, "_nss_xce_getpwnam_r");
    *(void **)&m.getgrgid = dlsym(lib, "_nss_xce_getgrgid_r");
    *(void **)&m.getgrnam = dlsym(lib, "_nss_xce_getgrnam_r");
    *(void **)&m.initgroups = dlsym(lib, "_nss_xce_initgroups_dyn");
    return m;
}

/* System calls of this list get EPERM, or with `others` those that are not in it. */
static int deny(const int *calls, size_t n, bool others)
{
    struct sock_filter filter[64] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    const uint32_t yes = SECCOMP_RET_ERRNO | EPERM, ok = SECCOMP_RET_ALLOW;
    struct sock_fprog program = {.filter = filter};
    size_t k = 1;

    for (size_t i = 0; i < n; i++) {
        filter[k++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i], 0,
                                                   1);
        filter[k++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others ? ok : yes);
    }
    filter[k++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
                                               others ? SECCOMP_RET_KILL_PROCESS : ok);
    program.len = (unsigned short)k;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* MODULE UID: with the map mapped, uids and names of others cost no system call: any would end this process. */
static int no_system_call(char *argv[])
{
    static const uint32_t uids[] = {0,      1,      999,    1000,       65534,     65535,
                                    100000, 300000, 524288, 1879048191, UINT32_MAX};
    static const char *const names[] = {
        "root", "nobody", "", "alice", "xce", "a-1-1", "some.one@example.org"};
    static const int allowed[] = {SYS_exit_group, SYS_write, SYS_clock_gettime, SYS_time};
    struct module m = load(argv[0]);
    struct answer a;
    double from = now_s();
    long int start = 0, size = 4;
    gid_t list[4], *lists = list;

    if (m.getpwuid(number(argv[1]), &a.pw, a.buf, sizeof(a.buf), &a.error) != NSS_STATUS_SUCCESS)
        return fail("no hit to begin with");
    if (deny(allowed, 4, true) < 0)
        return fail("seccomp");
    while (now_s() - from < 2.5) {
        for (size_t i = 0; i < sizeof(uids) / sizeof(uids[0]); i++)
            if (m.getpwuid(uids[i], &a.pw, a.buf, sizeof(a.buf), &a.error) != NSS_STATUS_NOTFOUND ||
                m.getgrgid(uids[i], &a.gr, a.buf, sizeof(a.buf), &a.error) != NSS_STATUS_NOTFOUND)
                _exit(2);
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
            if (m.getpwnam(names[i], &a.pw, a.buf, sizeof(a.buf), &a.error) !=
                    NSS_STATUS_NOTFOUND ||
                m.getgrnam(names[i], &a.gr, a.buf, sizeof(a.buf), &a.error) !=
                    NSS_STATUS_NOTFOUND ||
                m.initgroups(names[i], 0, &start, &size, &lists, -1, &a.error) !=
                    NSS_STATUS_NOTFOUND)
                _exit(3);
    }
    _exit(0);
}

/* MODULE UID warm|cold: a sandbox that lets nothing be opened, connected, or looked at. */
static int sandboxed(char *argv[])
{
    static const int denied[] = {SYS_open, SYS_openat, SYS_socket,     SYS_connect,
                                 SYS_stat, SYS_lstat,  SYS_newfstatat, SYS_statx,
                                 SYS_mmap, SYS_munmap, SYS_readlink,   SYS_access};
    bool warm = strcmp(argv[2], "warm") == 0;
    enum nss_status want = warm ? NSS_STATUS_SUCCESS : NSS_STATUS_NOTFOUND;
    struct module m = load(argv[0]);
    struct answer a;
    double from;

    if (warm && m.getpwuid(number(argv[1]), &a.pw, a.buf, sizeof(a.buf), &a.error) != want)
        return fail("no hit to begin with");
    if (deny(denied, sizeof(denied) / sizeof(denied[0]), false) < 0)
        return fail("seccomp");
    from = now_s();
    for (int i = 0; i < 2000000 && now_s() - from < 2.5; i++)
        if (m.getpwuid(number(argv[1]), &a.pw, a.buf, sizeof(a.buf), &a.error) != want ||
            m.getpwnam("nosuch", &a.pw, a.buf, sizeof(a.buf), &a.error) != NSS_STATUS_NOTFOUND)
            return fail("another answer in a sandbox");
    return 0;
}

/* MODULE UID: unloaded and loaded again and again; nothing piles up. */
static int reloaded(char *argv[])
{
    for (int i = 0; i < 1000; i++) {
        void *lib = dlopen(argv[0], RTLD_NOW | RTLD_LOCAL);
        struct module m = load(argv[0]);
        struct answer a;

        if (m.getpwuid(number(argv[1]), &a.pw, a.buf, sizeof(a.buf), &a.error) !=
            NSS_STATUS_SUCCESS)
            return fail("no hit");
        (void)dlclose(lib);
        (void)dlclose(lib);
    }
    return 0;
}

/* MODULE UID: no room for the map among this process's addresses. */
static int no_addresses(char *argv[])
{
    struct module m = load(argv[0]);
    const struct rlimit tight = {1, RLIM_INFINITY}, wide = {RLIM_INFINITY, RLIM_INFINITY};
    struct answer a;
    double from;

    if (setrlimit(RLIMIT_AS, &tight) < 0)
        return fail("setrlimit");
    for (int i = 0; i < 1000; i++)
        if (m.getpwuid(number(argv[1]), &a.pw, a.buf, sizeof(a.buf), &a.error) !=
            NSS_STATUS_NOTFOUND)
            return fail("an answer out of nowhere");
    if (setrlimit(RLIMIT_AS, &wide) < 0)
        return fail("setrlimit");
    from = now_s();
    while (m.getpwuid(number(argv[1]), &a.pw, a.buf, sizeof(a.buf), &a.error) != NSS_STATUS_SUCCESS)
        if (now_s() - from > 2)
            return fail("not found when there was room again");
    return 0;
}

static const struct {
    const char *name;
    int n_arguments;
    int (*run)(char *argv[]);
} kinds[] = {
    {"both", 2, both},
    {"absent", 0, absent},
    {"groups", 2, groups},
    {"exec", 0, exec_after_enumeration},
    {"enumerate", 0, enumerate},
    {"late", 2, late},
    {"broken-malloc", 2, broken_malloc},
    {"chroot", 3, in_chroot},
    {"no-descriptors", 2, no_descriptors},
    {"no-system-call", 2, no_system_call},
    {"sandboxed", 3, sandboxed},
    {"reloaded", 2, reloaded},
    {"no-addresses", 2, no_addresses},
};

int main(int argc, char *argv[])
{
    for (size_t i = 0; argc > 1 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(argv[1], kinds[i].name) == 0 && argc - 2 == kinds[i].n_arguments)
            return kinds[i].run(argv + 2);
    return fail("usage: probe WHAT [ARGUMENTS]");
}
