#include "common/net/tls_keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/net/loop.h"
#include "common/net/transport_tls.h"
#include "common/text.h"

enum {
    FILES = 5,
    ENDING_AGAIN_MS = 24 * 3600 * 1000,
};

/* What tells one content of a file from another without reading it. */
struct look {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec changed, modified;
};

struct tls_keys {
    struct loop *loop;
    struct tls_files files;
    char *paths[FILES];
    struct tls_context *context;
    tls_news_fn news;
    void *arg;
    unsigned uses; /* of our first certificate: those after it have them, too */
    struct tls_members members;
    size_t n_held;
    bool refused;      /* since the last load */
    bool over;         /* goes with the last that holds it */
    int64_t ending_ms; /* loop time: told then again that ours ends */
    struct loop_timer *timer;
    struct look used[FILES]; /* at the last attempt to load */
    struct look seen[FILES]; /* at the last look */
};

/* ---- files ---- */

static void look(const struct tls_keys *keys, struct look ret[static FILES])
{
    struct stat st;

    memset(ret, 0, FILES * sizeof *ret);
    for (int i = 0; i < FILES; i++) {
        if (!keys->paths[i] || stat(keys->paths[i], &st) < 0)
            continue;
        ret[i].dev = st.st_dev;
        ret[i].ino = st.st_ino;
        ret[i].size = st.st_size;
        ret[i].changed = st.st_ctim;
        ret[i].modified = st.st_mtim;
    }
}

static bool same(const struct look *a, const struct look *b)
{
    return memcmp(a, b, FILES * sizeof *a) == 0;
}

static int set_paths(struct tls_keys *keys, const struct tls_files *files)
{
    const char *from[FILES] = {files->certificate, files->key, files->ca, files->crl, files->also};
    char *paths[FILES] = {NULL};
    bool fine = true;

    for (int i = 0; i < FILES; i++)
        if (from[i] && from[i][0])
            fine = (paths[i] = strdup(from[i])) && fine;
    for (int i = 0; i < FILES; i++) {
        if (fine)
            free(keys->paths[i]);
        else
            free(paths[i]);
        if (fine)
            keys->paths[i] = paths[i];
    }
    if (!fine)
        return -ENOMEM;
    keys->files = (struct tls_files){.certificate = paths[0],
                                     .key = paths[1],
                                     .ca = paths[2],
                                     .crl = paths[3],
                                     .also = paths[4]};
    return 0;
}

/* ---- loading ---- */

static void tell(struct tls_keys *keys, enum tls_news news, const struct cert_identity *peer,
                 const char *text)
{
    if (keys->news)
        keys->news(news, peer, text, keys->arg);
}

static void cut(struct tls_keys *keys, struct tls_member *member, int r, const char *why)
{
    tell(keys, TLS_CUT, tls_session_peer(member->session), why);
    transport_tls_cut(member, r, why);
}

/* Each stream under the new CA and list. Nothing is freed here: a cut stream ends from the loop. */
static void check_members(struct tls_keys *keys)
{
    struct tls_member *member, *next;

    for (member = LIST_FIRST(&keys->members); member; member = next) {
        int r = tls_session_check(member->session, keys->context);

        next = LIST_NEXT(member, link);
        if (r < 0)
            cut(keys, member, r, tls_session_why(member->session));
    }
}

/* Others know us by the name that we had first. */
static int check_same(const struct tls_keys *keys, const struct tls_context *context,
                      const char *path, struct err *err)
{
    const struct cert_identity *was = tls_context_identity(keys->context),
                               *now = tls_context_identity(context);
    char was_who[CERT_WHO_BUF], now_who[CERT_WHO_BUF];

    if (!was->kind || (now->kind == was->kind && strcmp(now->name, was->name) == 0))
        return 0;
    return err_set(err, -EINVAL, "%s: is the certificate of %s, and this is %s", path ? path : "",
                   cert_who(now, now_who), cert_who(was, was_who));
}

/* Load what the files hold now. The old set stays when it is no good. */
static int load(struct tls_keys *keys, const struct tls_files *files, struct err *err)
{
    struct tls_context *context = NULL;
    int r = tls_context_new(files, &context, err);

    if (r == 0 && keys->context)
        r = check_same(keys, context, files->certificate, err);
    /* An old certificate of ours that does not pass any more must not keep us from taking a new list. */
    if (r == 0 && !(keys->context && tls_context_same_certificate(context, keys->context)))
        r = tls_context_check_own(context, keys->uses, err);
    if (r < 0) {
        tls_context_unref(context);
        return r;
    }
    tls_context_unref(keys->context);
    keys->context = context;
    keys->refused = false;
    if (!keys->uses)
        keys->uses = tls_context_uses(context);
    check_members(keys);
    return 0;
}

int tls_keys_reload(struct tls_keys *keys, const struct tls_files *files, struct err *err)
{
    int r = load(keys, files ? files : &keys->files, err);

    if (r == 0 && files)
        r = set_paths(keys, files);
    look(keys, keys->used);
    memcpy(keys->seen, keys->used, sizeof keys->seen);
    return r;
}

/* ---- looking again ---- */

static void reload_changed(struct tls_keys *keys)
{
    char text[sizeof "good until " + TEXT_TIME_BUF], end[TEXT_TIME_BUF];
    struct err err = {{0}};

    if (tls_keys_reload(keys, NULL, &err) < 0) {
        tell(keys, TLS_FAILED, NULL, err.text);
        return;
    }
    (void)text_format_time(tls_keys_identity(keys)->not_after_ms, end);
    (void)snprintf(text, sizeof text, "good until %s", end);
    tell(keys, TLS_RELOADED, NULL, text);
}

static void cut_expired(struct tls_keys *keys)
{
    int64_t now_ms = clock_wall_ms();
    struct tls_member *member, *next;

    for (member = LIST_FIRST(&keys->members); member; member = next) {
        next = LIST_NEXT(member, link);
        if (tls_session_until_ms(member->session) < now_ms)
            cut(keys, member, -EKEYEXPIRED, "certificate: has expired");
    }
}

/* Whoever must renew it by hand hears of it in time. */
static void tell_ending(struct tls_keys *keys)
{
    const struct cert_identity *own = tls_keys_identity(keys);
    int64_t now_ms = clock_wall_ms(), life_ms = own->not_after_ms - own->not_before_ms;
    char text[sizeof "ends at " + TEXT_TIME_BUF], end[TEXT_TIME_BUF];

    if (!own->kind || now_ms < own->not_before_ms + life_ms / 3 * 2 ||
        loop_now_ms(keys->loop) < keys->ending_ms)
        return;
    keys->ending_ms = loop_now_ms(keys->loop) + ENDING_AGAIN_MS;
    (void)snprintf(text, sizeof text, "ends at %s", text_format_time(own->not_after_ms, end));
    tell(keys, TLS_ENDING, NULL, text);
}

static void tick(void *arg)
{
    struct tls_keys *keys = arg;
    struct look now[FILES];

    cut_expired(keys);
    tell_ending(keys);
    look(keys, now);
    if (!same(now, keys->used) && same(now, keys->seen))
        reload_changed(keys);
    else
        memcpy(keys->seen, now, sizeof keys->seen);
}

/* ---- birth and end ---- */

int tls_keys_new(struct loop *loop, const struct tls_files *files, tls_news_fn news, void *arg,
                 struct tls_keys **ret, struct err *err)
{
    struct tls_keys *keys = calloc(1, sizeof *keys);
    int r;

    if (!keys)
        return err_set(err, -ENOMEM, "out of memory");
    LIST_INIT(&keys->members);
    keys->loop = loop;
    keys->news = news;
    keys->arg = arg;
    r = set_paths(keys, files);
    if (r == 0)
        r = tls_keys_reload(keys, NULL, err);
    if (r == 0)
        r = loop_timer_new(loop, tick, keys, &keys->timer);
    if (r < 0) {
        if (err && !err->text[0])
            (void)err_set(err, r, "TLS: %s", err_text(r));
        tls_keys_free(keys);
        return r;
    }
    *ret = keys;
    return 0;
}

static void keys_end(struct tls_keys *keys)
{
    loop_timer_free(keys->timer);
    tls_context_unref(keys->context);
    for (int i = 0; i < FILES; i++)
        free(keys->paths[i]);
    free(keys);
}

void tls_keys_free(struct tls_keys *keys)
{
    if (!keys)
        return;
    keys->over = true;
    keys->news = NULL;
    if (keys->n_held == 0)
        keys_end(keys);
}

const struct cert_identity *tls_keys_identity(const struct tls_keys *keys)
{
    return tls_context_identity(keys->context);
}

bool tls_keys_refused(const struct tls_keys *keys)
{
    return keys->refused;
}

int tls_files_check(const struct tls_files *files, unsigned uses, struct cert_identity *ret,
                    struct err *err)
{
    struct tls_context *context = NULL;
    int r = tls_context_new(files, &context, err);

    if (r == 0)
        r = tls_context_check_own(context, uses, err);
    if (r == 0 && ret)
        r = cert_identity_copy(tls_context_identity(context), ret);
    if (r < 0 && r != -ENOMEM)
        r = -EINVAL;
    tls_context_unref(context);
    return r;
}

/* ---- for streams ---- */

struct tls_context *tls_keys_context(struct tls_keys *keys)
{
    return keys->context;
}

void tls_keys_enter(struct tls_keys *keys, struct tls_member *member)
{
    LIST_INSERT_HEAD(&keys->members, member, link);
}

void tls_keys_leave(struct tls_keys *keys, struct tls_member *member)
{
    (void)keys;
    LIST_REMOVE(member, link);
}

void tls_keys_note_refusal(struct tls_keys *keys)
{
    keys->refused = true;
}

/* The files are looked at only while somebody needs them, and before the first needs them again. */
void tls_keys_hold(struct tls_keys *keys)
{
    struct look now[FILES];

    if (keys->n_held++ > 0)
        return;
    look(keys, now);
    if (!same(now, keys->used))
        reload_changed(keys);
    loop_timer_start(keys->timer, TLS_KEYS_LOOK_MS, TLS_KEYS_LOOK_MS);
}

void tls_keys_release(struct tls_keys *keys)
{
    if (--keys->n_held > 0)
        return;
    if (keys->over)
        keys_end(keys);
    else
        loop_timer_stop(keys->timer);
}
