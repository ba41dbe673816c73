#include "tests/unit/noded/state_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xce/map.h"

void note(struct fixture *f, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    f->len += (size_t)vsnprintf(f->log + f->len, sizeof(f->log) - f->len, format, args);
    va_end(args);
    assert_true(f->len < sizeof(f->log));
}

static int map_set(const struct state_lease *lease, uint8_t flags, void *arg)
{
    struct fixture *f = arg;

    if (f->map_r == 0)
        note(f, "set %u/%u %d%s%s%s; ", lease->uid - UID, lease->epoch, lease->phase,
             flags & XCE_MAP_MEMBER ? " member" : "", flags & XCE_MAP_CLOSED ? " closed" : "",
             strcmp(lease->home, "/h") != 0 ? " WRONG HOME" : "");
    f->set_flags = f->flags = flags;
    return f->map_r;
}

static void map_mark(uint32_t uid, uint32_t epoch, uint8_t add, uint8_t drop, void *arg)
{
    ((struct fixture *)arg)->flags |= add;
    if (add & XCE_MAP_CLOSED)
        note(arg, "close %u/%u; ", uid - UID, epoch);
}

static void map_retire(uint32_t uid, uint32_t epoch, uint64_t revision, void *arg)
{
    note(arg, "retire %u/%u; ", uid - UID, epoch);
}

static void batch_note(struct fixture *f, const char *what, const struct state_epoch *entries,
                       size_t n)
{
    note(f, "%s", what);
    for (size_t i = 0; i < n; i++) {
        note(f, " %u/%u%s%s", entries[i].uid - UID, entries[i].epoch, entries[i].closed ? "c" : "",
             entries[i].swept ? "s" : "");
        if (i < 8)
            f->batch[i] = entries[i];
    }
    f->n_batch = n;
    note(f, "; ");
}

static void persist(const struct state_epoch *entries, size_t n, void *arg)
{
    batch_note(arg, "persist", entries, n);
}

static void vet(const struct state_epoch *entries, size_t n, void *arg)
{
    batch_note(arg, "vet", entries, n);
}

static void sweep(const struct state_epoch *entries, size_t n, bool again, void *arg)
{
    batch_note(arg, again ? "sweep again" : "sweep", entries, n);
}

static void kill_slices(const struct state_epoch *entries, size_t n, void *arg)
{
    struct fixture *f = arg;

    note(f, "kill");
    for (size_t i = 0; i < n; i++)
        note(f, " %u/%u", entries[i].uid - UID, entries[i].epoch);
    note(f, "; ");
}

static void say(enum state_say what, const struct state_verdict *about, void *arg)
{
    static const char *const words[] = {"nothing", "READY", "REFUSED", "CLEAN", "DIRTY", "STRAY"};

    note(arg, "%s %u/%u%s%s; ", words[what], about->uid - UID, about->epoch,
         about->reason ? " " : "", reason_word((enum reason)about->reason));
}

static const struct state_ops ops = {map_set, map_mark, map_retire,  persist,
                                     vet,     sweep,    kill_slices, say};

static void pool_passes(struct fixture *f)
{
    assert_int_equal(
        state_pool_set(f->state, &(struct state_pool){"p", UID - 1, UID + 100, 3600000, 0}),
        STATE_POOL_CHANGED);
    state_pool_checked(f->state, "p", true);
}

int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    f->state = state_new(&(struct state_limits){.batch = 4}, &ops, f);
    f->now = 1000;
    f->revision = 10;
    *state = f;
    pool_passes(f);
    return 0;
}

int teardown(void **state)
{
    struct fixture *f = *state;

    state_free(f->state);
    free(f);
    return 0;
}

void expect(struct fixture *f, const char *story)
{
    state_flush(f->state, f->now, true);
    while (f->len && f->log[f->len - 1] == ' ')
        f->log[--f->len] = '\0';
    assert_string_equal(f->log, story);
    f->len = 0;
    f->log[0] = '\0';
}

struct state_lease lease_of(struct fixture *f, uint32_t i, uint32_t epoch, enum state_phase phase,
                            enum state_proof proof)
{
    return (struct state_lease){.lease = 100 + i,
                                .revision = f->revision++,
                                .uid = UID + i,
                                .epoch = epoch,
                                .phase = phase,
                                .member = true,
                                .proof = proof,
                                .gecos = "g",
                                .home = "/h",
                                .shell = "/s"};
}

void shows(struct fixture *f, uint32_t i, uint32_t epoch, enum state_phase phase,
           enum state_proof proof)
{
    struct state_lease lease = lease_of(f, i, epoch, phase, proof);
    state_change(f->state, &lease);
}

void shows_foreign(struct fixture *f, uint32_t i, uint32_t epoch, enum state_phase phase)
{
    struct state_lease lease = lease_of(f, i, epoch, phase, PROOF_NONE);
    lease.member = false;
    state_change(f->state, &lease);
}

void vetted(struct fixture *f)
{
    state_vetted(f->state, NULL, 0);
}

void vetted_badly(struct fixture *f, uint32_t i, uint32_t epoch, enum reason reason)
{
    state_vetted(f->state, &(struct state_verdict){UID + i, epoch, reason, "x"}, 1);
}

void swept(struct fixture *f)
{
    state_swept(f->state, NULL, 0, f->now);
}

void swept_dirty(struct fixture *f, uint32_t i, uint32_t epoch, enum reason reason)
{
    state_swept(f->state, &(struct state_verdict){UID + i, epoch, reason, "x"}, 1, f->now);
}

void elapse(struct fixture *f, int64_t ms)
{
    f->now += ms;
    state_elapse(f->state, f->now);
}

void session(struct fixture *f, bool full)
{
    state_session_begin(f->state, full);
}

void make_here(struct fixture *f, uint32_t i, uint32_t epoch)
{
    shows(f, i, epoch, STATE_GRANTED, PROOF_NONE);
    state_flush(f->state, f->now, true);
    state_persisted(f->state, 0);
    vetted(f);
    shows(f, i, epoch, STATE_ACTIVE, PROOF_READY);
    state_flush(f->state, f->now, true);
    f->len = 0;
    f->log[0] = '\0';
    assert_int_equal(state_standing(f->state, UID + i), STANDS_HERE);
}
