/* xce-userdbd: there, in time, and of one mind with the map. Asked as systemd's clients ask it. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/fsutil.h"
#include "common/json.h"
#include "common/json_read.h"
#include "common/mem.h"
#include "ctl/doctor.h"

#define PROVIDER  "io.xce.Lease"
#define INTERFACE "io.systemd.UserDatabase"

enum {
    ANSWER_MS = 2500, /* its watchdog has it before */
    SLOW_MS = 500,
    ANSWER_MOST = 64 << 10,
    SAMPLE = 8,
};

enum outcome {
    SAME = 0,
    CHANGED, /* the map has, meanwhile */
    SILENT,
    NONSENSE,
    DIFFERENT,
};

struct asked {
    struct doctor *doctor;
    size_t n; /* answers like the map */
    int64_t worst_ms;
    char said[128]; /* of the last one: its name, or its error */
};

/* ---- asking ---- */

/* The call with its NUL. */
static int write_call(int fd, const char *method, const char *key, uint32_t id)
{
    AUTO(buf_done) struct buf text = BUF_INIT(1024);
    AUTO(json_free) struct json *call = json_new_object();
    struct json *parameters = json_new_object();

    json_set_u64(parameters, key, id);
    json_set_string(parameters, "service", PROVIDER);
    json_set_string(call, "method", method);
    json_set(call, "parameters", parameters);
    if (json_print(call, JSON_LINE, &text) < 0)
        return -ENOMEM;
    return fs_write_all(fd, buf_str(&text), text.len + 1);
}

/* Up to the NUL of the answer. 0; -ETIMEDOUT; -ECONNRESET it ends before; -EBADMSG it goes on too long; -errno. */
static int read_answer(int fd, int64_t until_ms, char ret[static ANSWER_MOST], size_t *ret_len)
{
    size_t len = 0;

    for (;;) {
        int64_t left_ms = until_ms - clock_mono_ms();
        struct pollfd pollfd = {.fd = fd, .events = POLLIN};
        ssize_t n;

        if (left_ms <= 0 || poll(&pollfd, 1, (int)left_ms) == 0)
            return -ETIMEDOUT;
        n = read(fd, ret + len, ANSWER_MOST - len);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -ECONNRESET;
        len += (size_t)n;
        if (!ret[len - 1] || memchr(ret, 0, len)) {
            *ret_len = strlen(ret);
            return 0;
        }
        if (len == ANSWER_MOST)
            return -EBADMSG;
    }
}

static int ask(struct asked *asked, const char *method, const char *key, uint32_t id,
               struct json_node **ret)
{
    auto_free char *answer = malloc(ANSWER_MOST);
    auto_close int fd = doctor_connect(asked->doctor, DOCTOR_USERDB_SOCKET);
    int64_t since_ms = clock_mono_ms(), took_ms;
    size_t len = 0;
    int r;

    if (fd < 0 || !answer)
        return fd < 0 ? fd : -ENOMEM;
    r = write_call(fd, method, key, id);
    if (r == 0)
        r = read_answer(fd, since_ms + ANSWER_MS, answer, &len);
    took_ms = clock_mono_ms() - since_ms;
    if (took_ms > asked->worst_ms)
        asked->worst_ms = took_ms;
    return r < 0 ? r : json_read(answer, len, ret);
}

/* ---- judging ---- */

/* Whose record it is: a name; what it says instead, with a blank before it. */
static void name_of(const struct json_node *answer, const char *key, struct asked *asked)
{
    const struct json_node *parameters = json_node_member(answer, "parameters");
    const char *text;

    if (json_node_string(json_node_member(answer, "error"), &text))
        snprintf(asked->said, sizeof asked->said, " %s", text);
    else if (json_node_string(json_node_member(json_node_member(parameters, "record"), key), &text))
        snprintf(asked->said, sizeof asked->said, "%s", text);
    else
        snprintf(asked->said, sizeof asked->said, " no record");
}

static enum outcome compare(struct asked *asked, const char *method, const char *id_key,
                            const char *name_key, const struct map_entry *entry)
{
    AUTO(json_node_free) struct json_node *answer = NULL;
    struct map_entry now;
    int r = ask(asked, method, id_key, entry->record.uid, &answer);

    if (r < 0)
        return r == -EINVAL || r == -EBADMSG ? NONSENSE : SILENT;
    name_of(answer, name_key, asked);
    if (!strcmp(asked->said, map_name(entry)))
        return SAME;
    r = map_find_uid(&asked->doctor->map, entry->record.uid, MAP_WANT_RECORD, &now);
    return r == 0 && !strcmp(map_name(&now), map_name(entry)) ? DIFFERENT : CHANGED;
}

/* One that is in no range of ours has no record there. */
static enum outcome ask_for_nobody(struct asked *asked)
{
    AUTO(json_node_free) struct json_node *answer = NULL;
    int r = ask(asked, INTERFACE ".GetUserRecord", "uid", 65534, &answer);

    if (r < 0)
        return r == -EINVAL || r == -EBADMSG ? NONSENSE : SILENT;
    name_of(answer, "userName", asked);
    return strcmp(asked->said, " " INTERFACE ".NoRecordFound") == 0 ? SAME : DIFFERENT;
}

static void tell(struct asked *asked, enum outcome outcome, uint32_t uid, const char *name)
{
    asked->doctor->userdb_hangs |= outcome == SILENT;
    if (outcome == SILENT)
        doctor_found(asked->doctor, SEVERITY_ERROR, "userdb-hangs", "systemctl restart xce-userdbd",
                     "xce-userdbd does not answer: look-ups of names that nobody has wait for it");
    else if (outcome == NONSENSE)
        doctor_found(asked->doctor, SEVERITY_ERROR, "userdb-wrong",
                     "find out who listens at " DOCTOR_USERDB_SOCKET,
                     "what answers for xce-userdbd does not speak its language");
    else
        doctor_found(asked->doctor, SEVERITY_ERROR, "userdb-wrong", "systemctl restart xce-userdbd",
                     "xce-userdbd says%s%s of uid %u, and %s is true",
                     *asked->said == ' ' ? "" : " ", asked->said, uid, name);
}

static void ask_for_leases(struct asked *asked)
{
    struct doctor *doctor = asked->doctor;
    struct map_entry entry;
    uint32_t from = 0;

    for (size_t i = 0; doctor->have_map && i < SAMPLE; i++, from = entry.record.uid + 1) {
        enum outcome outcome;

        if (map_next(&doctor->map, from, MAP_WANT_RECORD, &entry) != 0)
            break;
        outcome = compare(asked, INTERFACE ".GetUserRecord", "uid", "userName", &entry);
        if (outcome == SAME)
            outcome = compare(asked, INTERFACE ".GetGroupRecord", "gid", "groupName", &entry);
        asked->n += outcome == SAME;
        if (outcome == SAME || outcome == CHANGED)
            continue;
        tell(asked, outcome, entry.record.uid, map_name(&entry));
        return;
    }
}

void doctor_check_userdb(struct doctor *doctor)
{
    struct asked asked = {.doctor = doctor};
    size_t before = doctor->n_findings;
    enum outcome outcome;

    if (!doctor_listens(doctor, DOCTOR_USERDB_SOCKET)) {
        if (doctor->wants_userdbd)
            doctor_found(
                doctor, SEVERITY_WARNING, "userdb-down", "systemctl status xce-userdbd",
                "xce-userdbd does not listen: systemd's user database does not know leases");
        return;
    }
    outcome = ask_for_nobody(&asked);
    if (outcome != SAME)
        tell(&asked, outcome, 65534, "no record");
    else
        ask_for_leases(&asked);
    if (doctor->n_findings == before && asked.worst_ms > SLOW_MS)
        doctor_found(doctor, SEVERITY_WARNING, "userdb-slow",
                     "is the machine short of processors? systemctl status xce-userdbd",
                     "xce-userdbd took %lld ms for an answer: look-ups of names that nobody has "
                     "wait for it",
                     (long long)asked.worst_ms);
    if (doctor->n_findings == before)
        doctor_found(doctor, SEVERITY_OK, "userdb-ok", NULL,
                     "xce-userdbd answers; %zu leases as in the map", asked.n);
}
