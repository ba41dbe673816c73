#include "normalise/report.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/text.h"
#include "normalise/path.h"

struct report {
    pthread_mutex_t lock;
    const struct options *options;
    struct root *roots;
    size_t n_roots;
    bool json, drawn; /* drawn: there is a line of progress that is not ended */
    const char *phase;
    int64_t began_ms;
    uint64_t n_told, n_untold;
    uint64_t n_by_class[N_EXCEPTIONS];
    int error;
    char id[33];
};

static const char *const classes[N_EXCEPTIONS] = {
    [EXCEPTION_IMMUTABLE] = "blocked.immutable",
    [EXCEPTION_DEVICE] = "blocked.device",
    [EXCEPTION_READ_ONLY] = "blocked.readonly",
    [EXCEPTION_QUOTA] = "blocked.quota",
    [EXCEPTION_REFUSED] = "blocked.refused",
    [EXCEPTION_UNKNOWN] = "unknown",
    [EXCEPTION_LEFT] = "left",
    [EXCEPTION_MOVED] = "mutating",
    [EXCEPTION_SNAPSHOT] = "snapshot",
    [EXCEPTION_MOUNT] = "mount",
};

static const char *const verdicts[] = {"clean", "dirty", "blocked", "unproven"};

/* What a proof does not see. */
static const char *blind_to(enum proof proof)
{
    return proof >= PROOF_INODE_SCAN ? "files on other file systems"
                                     : "files moved out of the paths, and open ones without a name";
}

static void id_make(char ret[static 33])
{
    uint8_t bytes[16];
    struct buf text;

    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        memset(bytes, 0, sizeof bytes);
    buf_init_fixed(&text, ret, 33);
    buf_add_hex(&text, bytes, sizeof bytes);
}

struct report *report_new(const struct options *options, struct root *roots, size_t n_roots)
{
    struct report *report = calloc(1, sizeof *report);

    if (!report)
        return NULL;
    (void)pthread_mutex_init(&report->lock, NULL);
    report->options = options;
    report->roots = roots;
    report->n_roots = n_roots;
    report->json = options->json || !isatty(STDOUT_FILENO);
    report->phase = "start";
    report->began_ms = clock_mono_ms();
    id_make(report->id);
    return report;
}

void report_free(struct report *report)
{
    if (!report)
        return;
    (void)pthread_mutex_destroy(&report->lock);
    free(report);
}

bool report_is_drawn(const struct report *report)
{
    return !report->json;
}

int report_error(const struct report *report)
{
    return report->error;
}

/* ---- records ---- */

/* Takes record. With the lock. */
static void record_write(struct report *report, struct json *record)
{
    int r = json_write(record, JSON_LINE, stdout);

    json_free(record);
    if (r == 0 && fflush(stdout) != 0)
        r = -errno;
    if (r < 0 && report->error == 0)
        report->error = r;
}

static struct json *record_new(const char *kind)
{
    struct json *record = json_new_object();

    json_set_string(record, "record", kind);
    return record;
}

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void base64_add(struct buf *buf, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i += 3) {
        uint32_t three = (uint32_t)bytes[i] << 16;
        if (i + 1 < len)
            three |= (uint32_t)bytes[i + 1] << 8;
        if (i + 2 < len)
            three |= bytes[i + 2];
        buf_addc(buf, base64[three >> 18]);
        buf_addc(buf, base64[three >> 12 & 63]);
        buf_addc(buf, i + 1 < len ? base64[three >> 6 & 63] : '=');
        buf_addc(buf, i + 2 < len ? base64[three & 63] : '=');
    }
}

/* As text; bytes that are none as path_b64. */
static void set_path(struct json *record, const char *path, size_t len)
{
    AUTO(buf_done) struct buf text = BUF_INIT(1 << 20);

    if (text_check_utf8(path, len, NULL) == 0) {
        json_set(record, "path", json_new_bytes(path, len));
        return;
    }
    base64_add(&text, (const uint8_t *)path, len);
    json_set(record, "path_b64",
             buf_error(&text) ? json_new_null() : json_new_string(buf_str(&text)));
}

static void set_counts(struct json *record, const struct tally *t)
{
    json_set_u64(record, "seen", t->seen);
    json_set_u64(record, "changed", t->changed);
    json_set_u64(record, "lists", t->lists);
    json_set_u64(record, "set_ids", t->set_ids);
    json_set_u64(record, "capabilities", t->caps);
    json_set_u64(record, "linked", t->linked);
    json_set_u64(record, "vanished", t->vanished);
    json_set_u64(record, "blocked", t->blocked);
    json_set_u64(record, "unknown", t->unknown);
    json_set_u64(record, "mounts", t->mounts);
    json_set_u64(record, "snapshots", t->snapshots);
    json_set_u64(record, "left", t->left);
}

static void tally_add(struct tally *to, const struct tally *from)
{
    to->seen += from->seen;
    to->changed += from->changed;
    to->lists += from->lists;
    to->set_ids += from->set_ids;
    to->caps += from->caps;
    to->linked += from->linked;
    to->vanished += from->vanished;
    to->blocked += from->blocked;
    to->unknown += from->unknown;
    to->mounts += from->mounts;
    to->snapshots += from->snapshots;
    to->left += from->left;
}

static struct tally tally_all(const struct report *report)
{
    struct tally all = {0};

    for (size_t i = 0; i < report->n_roots; i++)
        tally_add(&all, &report->roots[i].tally);
    return all;
}

/* ---- start ---- */

static struct json *root_record(const char *kind, const struct root *root)
{
    struct json *record = record_new(kind);

    set_path(record, root->real, strlen(root->real));
    json_set_string(record, "fs", root->type);
    json_set_u64(record, "fsid", root->fsid);
    json_set_u64(record, "dev_major", root->dev_major);
    json_set_u64(record, "dev_minor", root->dev_minor);
    json_set_u64(record, "ino", root->ino);
    json_set_bool(record, "own_mount", root->own_mount);
    json_set_bool(record, "handles", root->handles);
    return record;
}

static void start_record(struct report *report)
{
    const struct options *o = report->options;
    struct json *record = record_new("start");

    json_set_string(record, "version", XCE_VERSION);
    json_set_string(record, "report", report->id);
    json_set_u64(record, "from_uid", o->ids.uid);
    json_set_u64(record, "to_uid", o->ids.to_uid);
    json_set(record, "from_gid", o->ids.groups ? json_new_u64(o->ids.gid) : json_new_null());
    json_set(record, "to_gid", o->ids.groups ? json_new_u64(o->ids.to_gid) : json_new_null());
    json_set_bool(record, "dry_run", o->dry_run);
    json_set_string(record, "acl", o->acl_owned ? "owned" : "all");
    json_set_string(record, "least_proof", proof_name(o->least));
    json_set_u64(record, "threads", o->threads);
    json_set(record, "rate", o->rate ? json_new_u64(o->rate) : json_new_null());
    json_set_u64(record, "roots", report->n_roots);
    record_write(report, record);
}

void report_start(struct report *report)
{
    (void)pthread_mutex_lock(&report->lock);
    if (report->json)
        start_record(report);
    (void)pthread_mutex_unlock(&report->lock);
}

/* ---- on the way ---- */

void report_phase(struct report *report, const char *phase)
{
    (void)pthread_mutex_lock(&report->lock);
    report->phase = phase;
    (void)pthread_mutex_unlock(&report->lock);
}

static void progress_draw(struct report *report, const struct tally *t, int64_t ms)
{
    (void)fprintf(
        stderr,
        "\r%s: %" PRIu64 " seen, %" PRIu64 " changed, %" PRIu64 " blocked, %" PRId64 " s\033[K",
        report->phase, (uint64_t)t->seen, (uint64_t)t->changed, (uint64_t)t->blocked, ms / 1000);
    (void)fflush(stderr);
    report->drawn = true;
}

void report_progress(struct report *report)
{
    struct tally all;
    int64_t ms = clock_mono_ms() - report->began_ms;

    (void)pthread_mutex_lock(&report->lock);
    all = tally_all(report);
    if (report->json) {
        struct json *record = record_new("progress");
        json_set_string(record, "phase", report->phase);
        json_set_i64(record, "ms", ms);
        set_counts(record, &all);
        record_write(report, record);
    } else {
        progress_draw(report, &all, ms);
    }
    (void)pthread_mutex_unlock(&report->lock);
}

/* The terminal's line is for others again. */
static void line_begin(struct report *report)
{
    if (report->drawn)
        (void)fputs("\r\033[K", stderr);
    report->drawn = false;
}

static void exception_record(struct report *report, const struct exception_info *info,
                             const struct buf *path)
{
    struct json *record = record_new("exception");

    json_set_string(record, "class", classes[info->class]);
    if (info->root)
        set_path(record, buf_str(path), path->len);
    if (info->op)
        json_set_string(record, "op", info->op);
    if (info->error)
        json_set_string(record, "errno", err_name(info->error));
    if (info->ino) {
        json_set_u64(record, "dev_major", info->dev_major);
        json_set_u64(record, "dev_minor", info->dev_minor);
        json_set_u64(record, "ino", info->ino);
    }
    record_write(report, record);
}

static void exception_line(struct report *report, const struct exception_info *info,
                           const struct buf *path)
{
    AUTO(buf_done) struct buf line = BUF_INIT(1 << 20);

    line_begin(report);
    buf_addf(&line, "%s: ", classes[info->class]);
    if (info->root)
        buf_add_escaped(&line, buf_str(path), path->len);
    else
        buf_addf(&line, "inode %" PRIu64 " of device %u:%u", info->ino, info->dev_major,
                 info->dev_minor);
    if (info->error)
        buf_addf(&line, " (%s: %s)", info->op, err_text(info->error));
    if (puts(buf_str(&line)) < 0 && report->error == 0)
        report->error = -EIO;
}

void report_exception(struct report *report, const struct exception_info *info)
{
    AUTO(buf_done) struct buf path = BUF_INIT(PATH_TEXT_MAX);

    (void)pthread_mutex_lock(&report->lock);
    report->n_by_class[info->class]++;
    if (report->n_told >= report->options->max_exceptions) {
        report->n_untold++;
        (void)pthread_mutex_unlock(&report->lock);
        return;
    }
    report->n_told++;
    if (info->path)
        buf_adds(&path, info->path);
    else if (info->root)
        path_of(info->root, info->dir_fd, info->name, &path);
    if (report->json)
        exception_record(report, info, &path);
    else
        exception_line(report, info, &path);
    (void)pthread_mutex_unlock(&report->lock);
}

/* ---- end ---- */

static void end_records(struct report *report, const struct verdict_info *info)
{
    struct tally all = tally_all(report);
    struct json *record, *by_class = json_new_object();

    for (size_t i = 0; i < report->n_roots; i++) {
        record = root_record("root", &report->roots[i]);
        set_counts(record, &report->roots[i].tally);
        record_write(report, record);
    }
    for (size_t i = 0; i < N_EXCEPTIONS; i++)
        if (report->n_by_class[i])
            json_set_u64(by_class, classes[i], report->n_by_class[i]);
    record = record_new("end");
    json_set_string(record, "report", report->id);
    json_set_string(record, "verdict", verdicts[info->verdict]);
    json_set_string(record, "reason", info->reason);
    json_set_string(record, "proof", proof_name(info->proof));
    json_set_string(record, "blind_to", blind_to(info->proof));
    json_set_u64(record, "rounds", info->rounds);
    json_set_i64(record, "ms", info->took_ms);
    json_set(record, "estimate_ms",
             info->estimate_ms < 0 ? json_new_null() : json_new_i64(info->estimate_ms));
    set_counts(record, &all);
    json_set(record, "exceptions", by_class);
    json_set_u64(record, "exceptions_untold", report->n_untold);
    record_write(report, record);
}

static void end_lines(struct report *report, const struct verdict_info *info)
{
    struct tally all = tally_all(report);

    line_begin(report);
    if (report->n_untold)
        (void)printf("and %" PRIu64 " more like these\n", report->n_untold);
    (void)printf("%s%s%s (proof: %s)\n", verdicts[info->verdict], info->reason ? ": " : "",
                 info->reason ? info->reason : "", proof_name(info->proof));
    (void)printf("%" PRIu64 " seen, %" PRIu64 " changed, %" PRIu64 " access lists, %" PRIu64
                 " blocked, %" PRIu64 " left, %" PRId64 ".%03" PRId64 " s\n",
                 (uint64_t)all.seen, (uint64_t)all.changed, (uint64_t)all.lists,
                 (uint64_t)all.blocked, (uint64_t)all.left, info->took_ms / 1000,
                 info->took_ms % 1000);
    if (info->estimate_ms >= 0)
        (void)printf("a run would take about %" PRId64 " s\n", (info->estimate_ms + 999) / 1000);
    (void)printf("not seen by this: %s\n", blind_to(info->proof));
    if (fflush(stdout) != 0 && report->error == 0)
        report->error = -errno;
}

void report_end(struct report *report, const struct verdict_info *info)
{
    (void)pthread_mutex_lock(&report->lock);
    if (report->json)
        end_records(report, info);
    else
        end_lines(report, info);
    (void)pthread_mutex_unlock(&report->lock);
}
