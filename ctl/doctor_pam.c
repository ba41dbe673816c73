/* Whether pam_xce keeps everybody but its job out of a leased uid: in the stacks of all services, and in that of jobs. What a
 * stack does is found out by going through it as libpam would (pam_stack.h), not by how it is written. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/fsutil.h"
#include "common/mem.h"
#include "common/text.h"
#include "ctl/doctor.h"
#include "ctl/pam_stack.h"
#include "map/name.h"

#define MODULE "pam_xce.so"
#define JOBS                                                                                       \
    "xce" /* the service of what runs under a lease: PAMName= of exec and of --print systemd-run */
#define ENABLE  "pam-auth-update --enable xce (Debian); else the lines of pam_xce(8)"
#define TOLD    400                      /* bytes of services in one finding */
#define SAMPLES 2013265920u, 2013331455u /* what the module takes for pools without ranges= */

enum {
    SERVICES_MAX = 1024,
    FILE_MOST = 1 << 20,
    RANGES_MOST = 64,
};

/* In the order in which libpam looks. */
static const char *const folders[] = {"/etc/pam.d", "/usr/lib/pam.d", "/usr/etc/pam.d"};

/* What is no service by itself, what asks nobody about whom it becomes (root's own tools), and what is for jobs. */
static const char *const passed_over[] = {
    "common-*",
    "system-auth*",
    "password-auth*",
    "fingerprint-auth*",
    "smartcard-auth*",
    "postlogin*",
    "config-util",
    "runuser",
    "runuser-l",
    JOBS,
    "*~",
    "*.dpkg-*",
    "*.rpm*",
    "*.bak",
    "*.orig",
};

/* By which users come in wherever they are installed: what is wrong with one of these is an error. */
static const char *const doors[] = {"atd",  "cron", "crond", "login", "other",  "remote",
                                    "sshd", "su",   "su-l",  "sudo",  "sudo-i", "systemd-user"};

enum kind {
    KIND_MISSING, /* is not asked at all */
    KIND_BEFORE,  /* a line above may let in */
    KIND_WEAK,    /* is asked, and not heeded */
    KIND_LOCKOUT, /* without its file nobody comes in */
    KIND_HARM,    /* as it stands there nobody comes in */
    KINDS,
};

struct group {
    struct buf services;
    size_t n, left_out;
    bool door; /* one of them is */
};

struct look {
    struct doctor *doctor;
    struct group groups[KINDS][PAM_STACK_TYPES];
    struct group damaged;
    char **services;
    size_t n_services, cap;
    bool asked; /* a line of our module was seen */
    bool services_told;
    bool no_prefix; /* a line with another prefix than the map's has been told */
    bool uncovered[XCE_RANGES_MAX];
};

static bool among(const char *const *patterns, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (fnmatch(patterns[i], name, 0) == 0)
            return true;
    return false;
}

/* ---- files ---- */

static char *read_path(const struct doctor *doctor, const char *path)
{
    char full[PATH_MAX], *text;

    return fs_read_file(AT_FDCWD, doctor_path(doctor, path, full, sizeof full), FILE_MOST, &text,
                        NULL) == 0
               ? text
               : NULL;
}

static char *read_stack(const char *name, char *ret_path, size_t size, void *arg)
{
    const struct doctor *doctor = arg;

    if (*name == '/') {
        snprintf(ret_path, size, "%s", name);
        return read_path(doctor, ret_path);
    }
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        char *text;

        snprintf(ret_path, size, "%s/%s", folders[i], name);
        text = read_path(doctor, ret_path);
        if (text)
            return text;
    }
    return NULL;
}

static bool known(const struct look *look, const char *name)
{
    for (size_t i = 0; i < look->n_services; i++)
        if (!strcmp(look->services[i], name))
            return true;
    return false;
}

static void add_service(struct look *look, const char *name)
{
    if (*name == '.' || among(passed_over, ARRAY_LEN(passed_over), name) || known(look, name) ||
        mem_grow(&look->services, &look->cap, look->n_services + 1, SERVICES_MAX,
                 sizeof *look->services) < 0)
        return;
    look->services[look->n_services] = strdup(name);
    if (look->services[look->n_services])
        look->n_services++;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void find_services(struct look *look)
{
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        char path[PATH_MAX];
        auto_closedir DIR *dir = opendir(doctor_path(look->doctor, folders[i], path, sizeof path));

        for (const struct dirent *entry; dir && (entry = readdir(dir));)
            add_service(look, entry->d_name);
    }
    if (look->n_services)
        qsort(look->services, look->n_services, sizeof *look->services, by_name);
}

/* ---- what the module is told ---- */

/* The value of an argument in a line's arguments, up to the next blank: "ranges=1-2". false: it is not there. */
static bool argument(const char *args, const char *name, char *ret, size_t size)
{
    size_t len = strlen(name);

    for (const char *p = args + strspn(args, " \t"); *p;) {
        size_t word = strcspn(p, " \t");

        if (!strncmp(p, name, len) && p[len] == '=') {
            snprintf(ret, size, "%.*s", (int)(word - len - 1), p + len + 1);
            return true;
        }
        p += word + strspn(p + word, " \t");
    }
    return false;
}

static bool covered(const struct doctor_range *range, const char *value)
{
    struct text_range ranges[RANGES_MOST] = {{SAMPLES}};
    size_t n = 1;

    if (value && text_parse_ranges(value, ranges, RANGES_MOST, &n, NULL) < 0)
        n = 0;
    for (size_t i = 0; i < n; i++)
        if (ranges[i].first <= range->first && ranges[i].last >= range->last)
            return true;
    return false;
}

/* Who comes in by other services than that of jobs is no doubt meant to, and no doubt forgotten some day. */
static void judge_services(struct look *look, const struct pam_stack_line *line)
{
    char value[1024];

    if (look->services_told || !argument(line->args, "services", value, sizeof value) ||
        !strcmp(value, JOBS))
        return;
    look->services_told = true;
    doctor_found(look->doctor, SEVERITY_WARNING, "pam-services",
                 "take services= out of the lines of " MODULE ", unless it is meant",
                 "%s:%u: services=%s: leased users may come in by other services than " JOBS,
                 line->file, line->number, value);
}

static void judge_arguments(struct look *look, const struct pam_stack_line *line)
{
    const struct doctor *doctor = look->doctor;
    char value[1024];
    bool there = argument(line->args, "ranges", value, sizeof value);

    for (size_t i = 0; i < doctor->n_ranges; i++) {
        if (look->uncovered[i] || covered(&doctor->ranges[i], there ? value : NULL))
            continue;
        look->uncovered[i] = true;
        doctor_found(look->doctor, SEVERITY_WARNING, "pam-ranges",
                     "give the lines of " MODULE " ranges=, with the ranges of all pools",
                     "%s:%u: %u-%u is in no ranges= of " MODULE
                     ": without a uid map it would not refuse these uids",
                     line->file, line->number, doctor->ranges[i].first, doctor->ranges[i].last);
    }
    if (!argument(line->args, "prefix", value, sizeof value))
        snprintf(value, sizeof value, "%s", NAME_PREFIX_DEFAULT);
    if (!doctor->prefix[0] || look->no_prefix || !strcmp(value, doctor->prefix))
        return;
    look->no_prefix = true;
    doctor_found(look->doctor, SEVERITY_WARNING, "pam-prefix",
                 "give the lines of " MODULE " prefix=, with the prefix of the cluster's names",
                 "%s:%u: names of leases begin with %s, and " MODULE
                 " would look for %s without a uid map",
                 line->file, line->number, doctor->prefix, value);
}

/* ---- the stacks of everybody else ---- */

static void add_to(struct group *group, const char *service, const struct pam_stack_line *at)
{
    group->door |= among(doors, ARRAY_LEN(doors), service);
    if (group->n++ && group->services.len > TOLD) {
        group->left_out++;
        return;
    }
    buf_addf(&group->services, "%s%s", group->n > 1 ? ", " : "", service);
    if (at)
        buf_addf(&group->services, " (%s, %s:%u)", at->module, at->file, at->number);
}

/* A service's lines of a type, or those of "other" if it has none. */
static int read_lines(struct look *look, const char *service, enum pam_stack_type type,
                      struct pam_stack *ret)
{
    int r = pam_stack_read(ret, read_stack, look->doctor, service, type);

    if ((r == 0 && !ret->n) || r == -ENOENT) {
        pam_stack_done(ret);
        r = pam_stack_read(ret, read_stack, look->doctor, "other", type);
    }
    return r;
}

static bool lets_in(const struct pam_stack *stack, enum pam_stack_answer answer)
{
    return pam_stack_run(stack, MODULE, answer).lets_in;
}

static bool has_ours(struct look *look, const struct pam_stack *stack)
{
    bool has = false;

    for (size_t i = 0; i < stack->n; i++) {
        if (stack->lines[i].substack || !pam_stack_is(&stack->lines[i], MODULE))
            continue;
        has = true;
        judge_arguments(look, &stack->lines[i]);
        judge_services(look, &stack->lines[i]);
    }
    look->asked |= has;
    return has;
}

static void judge_lines(struct look *look, const char *service, enum pam_stack_type type,
                        const struct pam_stack *stack)
{
    struct pam_stack_verdict refused = pam_stack_run(stack, MODULE, PAM_STACK_REFUSES);
    bool has = has_ours(look, stack);

    /* Closed for everybody, whatever we say. */
    if (!lets_in(stack, PAM_STACK_ABSENT) && !lets_in(stack, PAM_STACK_IGNORE))
        return;
    if (!has)
        add_to(&look->groups[KIND_MISSING][type], service, NULL);
    else if (refused.lets_in && !refused.asked)
        add_to(&look->groups[KIND_BEFORE][type], service, refused.end);
    else if (refused.lets_in)
        add_to(&look->groups[KIND_WEAK][type], service, NULL);
    if (has && !lets_in(stack, PAM_STACK_IGNORE))
        add_to(&look->groups[KIND_HARM][type], service, NULL);
    else if (has && !lets_in(stack, PAM_STACK_UNKNOWN))
        add_to(&look->groups[KIND_LOCKOUT][type], service, NULL);
}

static void judge_service(struct look *look, const char *service)
{
    bool damaged = false;

    for (enum pam_stack_type type = 0; type < PAM_STACK_TYPES; type++) {
        AUTO(pam_stack_done) struct pam_stack stack = {0};
        int r = read_lines(look, service, type, &stack);

        if (r == 0)
            judge_lines(look, service, type, &stack);
        if (r != -EBADMSG || damaged)
            continue;
        damaged = true;
        add_to(&look->damaged, service, NULL);
        buf_addf(&look->damaged.services, " (%s)", stack.why);
    }
}

static void tell_group(struct look *look, struct group *group, enum kind kind,
                       enum pam_stack_type type)
{
    static const struct {
        enum severity door, other;
        const char *id, *cure, *what;
    } kinds[] = {
        [KIND_MISSING] = {SEVERITY_ERROR, SEVERITY_WARNING, "pam-missing", ENABLE,
                          "does not ask " MODULE ", which keeps leased users out"},
        [KIND_BEFORE] = {SEVERITY_WARNING, SEVERITY_WARNING, "pam-before",
                         "have " MODULE " stand first of its type, see pam_xce(8)",
                         "a line above " MODULE " may let leased users in"},
        [KIND_WEAK] = {SEVERITY_ERROR, SEVERITY_ERROR, "pam-weak",
                       "give " MODULE " the control of pam_xce(8): default=die",
                       "asks " MODULE ", and lets in whom it refuses"},
        [KIND_LOCKOUT] = {SEVERITY_WARNING, SEVERITY_WARNING, "pam-lockout",
                          "give " MODULE " the control of pam_xce(8): module_unknown=ignore",
                          "would let nobody in, root neither, if " MODULE " were missing"},
        [KIND_HARM] = {SEVERITY_ERROR, SEVERITY_ERROR, "pam-harm",
                       "put " MODULE " where pam_xce(8) says, with its control",
                       "lets nobody in as " MODULE " stands there"},
    };
    /* auth and password are asked by few who let in, and never alone. */
    bool minor = type == PAM_STACK_AUTH || type == PAM_STACK_PASSWORD;
    enum severity severity = group->door && !minor ? kinds[kind].door : kinds[kind].other;
    char more[32] = "";

    if (!group->n)
        return;
    if (group->left_out)
        snprintf(more, sizeof more, " and %zu more", group->left_out);
    doctor_found(look->doctor, severity, kinds[kind].id, kinds[kind].cure, "%s of %s%s: %s",
                 pam_stack_word(type), buf_str(&group->services), more, kinds[kind].what);
}

static void tell_groups(struct look *look)
{
    if (!look->asked)
        doctor_found(look->doctor, SEVERITY_ERROR, "pam-missing", ENABLE,
                     "no service of PAM asks " MODULE ", which keeps leased users out");
    for (enum kind kind = 0; look->asked && kind < KINDS; kind++)
        for (enum pam_stack_type type = 0; type < PAM_STACK_TYPES; type++)
            tell_group(look, &look->groups[kind][type], kind, type);
    if (look->damaged.n)
        doctor_found(look->doctor, SEVERITY_WARNING, "pam-damaged", "correct or remove that line",
                     "PAM may let nobody in by %s%s", buf_str(&look->damaged.services),
                     look->damaged.left_out ? ", ..." : "");
}

/* ---- the stack of jobs ---- */

static bool lists_jobs(const struct pam_stack_line *line)
{
    char value[1024], *save = NULL;

    if (!argument(line->args, "services", value, sizeof value))
        return true;
    for (char *word = strtok_r(value, ",", &save); word; word = strtok_r(NULL, ",", &save))
        if (!strcmp(word, JOBS))
            return true;
    return false;
}

/* What is wrong with the lines of one type; NULL = nothing. */
static const char *fault(const struct pam_stack *stack, enum pam_stack_type type)
{
    bool decides = type == PAM_STACK_ACCOUNT || type == PAM_STACK_SESSION;

    if (!stack->n)
        return "is missing: PAM takes the service \"other\" for it";
    for (size_t i = 0; i < stack->n; i++) {
        if (stack->lines[i].substack || !pam_stack_is(&stack->lines[i], MODULE))
            return "has another module than " MODULE;
        if (!lists_jobs(&stack->lines[i]))
            return "has services= without \"" JOBS "\": nothing runs under a lease";
    }
    /* Alone it can not let in whom it does not. */
    return decides && !lets_in(stack, PAM_STACK_SUCCESS) ? "lets nobody in" : NULL;
}

static void judge_jobs(struct look *look)
{
    for (enum pam_stack_type type = 0; type < PAM_STACK_TYPES; type++) {
        AUTO(pam_stack_done) struct pam_stack stack = {0};
        int r = pam_stack_read(&stack, read_stack, look->doctor, JOBS, type);
        const char *what = r == 0 ? fault(&stack, type) : stack.why;

        if (r == -ENOENT) {
            doctor_found(
                look->doctor, SEVERITY_ERROR, "pam-jobs-missing",
                "apt-get install --reinstall -o Dpkg::Options::=--force-confmiss libpam-xce; "
                "or write the four lines of pam_xce(8)",
                "/etc/pam.d/" JOBS " is missing: what runs under a lease is not checked");
            return;
        }
        if (what && *what)
            doctor_found(look->doctor, SEVERITY_ERROR, "pam-jobs",
                         "have " MODULE " alone in it, required, for each of the four types",
                         "/etc/pam.d/" JOBS ": %s %s", pam_stack_word(type), what);
    }
}

/* ---- the module's file ---- */

static void judge_module_file(struct doctor *doctor, const char *path)
{
    const char *shown = path + strlen(doctor->root);
    struct stat st;

    if (stat(path, &st) < 0)
        return;
    if (!S_ISREG(st.st_mode) || (st.st_mode & 022) || (st.st_uid && !geteuid()))
        doctor_found(doctor, SEVERITY_ERROR, "pam-module-owner",
                     "find out who changed it; then install libpam-xce again",
                     "%s: uid %u, mode %04o: others than root may change what PAM runs as root",
                     shown, st.st_uid, st.st_mode & 07777);
}

/* Whether it is there, where libpam looks for a module without a path, beside pam_permit.so; also if that is nowhere. */
static bool judge_module(struct doctor *doctor)
{
    static const char *const where[] = {"/usr/lib/*/security/", "/usr/lib64/security/",
                                        "/usr/lib/security/"};
    size_t n_homes = 0, n_there = 0;

    for (size_t i = 0; i < ARRAY_LEN(where); i++) {
        char pattern[PATH_MAX], path[PATH_MAX];
        glob_t found = {0};

        snprintf(pattern, sizeof pattern, "%s%spam_permit.so", doctor->root, where[i]);
        if (glob(pattern, 0, NULL, &found) == 0)
            n_homes += found.gl_pathc;
        for (size_t k = 0; k < found.gl_pathc; k++) {
            int len = (int)(strlen(found.gl_pathv[k]) - strlen("pam_permit.so"));

            snprintf(path, sizeof path, "%.*s" MODULE, len, found.gl_pathv[k]);
            if (access(path, F_OK) == 0) {
                n_there++;
                judge_module_file(doctor, path);
            }
        }
        globfree(&found);
    }
    if (!n_homes || n_there)
        return true;
    doctor_found(doctor, SEVERITY_ERROR, "pam-module", "install libpam-xce",
                 MODULE " is not among the modules of PAM: leased users are not kept out, and "
                        "nothing runs by PAMName=" JOBS);
    return false;
}

static void judge(struct look *look)
{
    bool installed = judge_module(look->doctor);

    for (size_t i = 0; i < look->n_services; i++)
        judge_service(look, look->services[i]);
    /* All else follows from that. */
    if (!installed && !look->asked)
        return;
    tell_groups(look);
    judge_jobs(look);
}

void doctor_check_pam(struct doctor *doctor)
{
    struct look look = {.doctor = doctor};
    size_t before = doctor->n_findings;

    /* Nobody is leased where nobody mirrors leases. */
    if (!doctor->root[0] && !doctor->have_map && access("/etc/pam.d/" JOBS, F_OK) < 0)
        return;
    for (enum kind kind = 0; kind < KINDS; kind++)
        for (enum pam_stack_type type = 0; type < PAM_STACK_TYPES; type++)
            buf_init(&look.groups[kind][type].services, 4 * TOLD);
    buf_init(&look.damaged.services, 4 * TOLD);
    find_services(&look);
    if (look.n_services)
        judge(&look);
    if (look.n_services && doctor->n_findings == before)
        doctor_found(doctor, SEVERITY_OK, "pam-ok", NULL,
                     "leased users are kept out by all %zu services of PAM", look.n_services);
    for (enum kind kind = 0; kind < KINDS; kind++)
        for (enum pam_stack_type type = 0; type < PAM_STACK_TYPES; type++)
            buf_done(&look.groups[kind][type].services);
    buf_done(&look.damaged.services);
    for (size_t i = 0; i < look.n_services; i++)
        free(look.services[i]);
    free(look.services);
}
