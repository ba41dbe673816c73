#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "leased/engine/raft_guard.h"

struct fixture {
    struct raft_guard guard;
    struct raft raft;
    struct raft_message message, sent;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    f->raft.current_term = 5;
    f->raft.commit_index = 100;
    f->raft.state = RAFT_FOLLOWER;
    f->raft.trail.snapshot.index = 64;
    f->raft.trail.snapshot.term = 4;
    f->raft.id = 1;
    raft_configuration_init(&f->raft.configuration);
    raft_configuration_init(&f->raft.configuration_committed);
    assert_int_equal(raft_configuration_add(&f->raft.configuration, 1, "a@h", RAFT_SPARE), 0);
    assert_int_equal(raft_configuration_add(&f->raft.configuration, 2, "b@h", RAFT_VOTER), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    raft_configuration_close(&f->raft.configuration);
    raft_configuration_close(&f->raft.configuration_committed);
    free(f);
    return 0;
}

static struct raft_append_entries *entries(struct fixture *f, raft_term term, raft_index prev,
                                           unsigned n, raft_index commit)
{
    static struct raft_entry commands[16];

    assert_true(n <= 16);
    f->message = (struct raft_message){.type = RAFT_APPEND_ENTRIES};
    f->message.append_entries = (struct raft_append_entries){.term = term,
                                                             .prev_log_index = prev,
                                                             .entries = commands,
                                                             .n_entries = n,
                                                             .leader_commit = commit};
    return &f->message.append_entries;
}

static struct raft_install_snapshot *snapshot(struct fixture *f, raft_term term, raft_index index)
{
    struct raft_install_snapshot *install = &f->message.install_snapshot;

    f->message = (struct raft_message){.type = RAFT_INSTALL_SNAPSHOT};
    f->message.server_id = 2;
    install->term = term;
    install->last_index = index;
    install->last_term = 3;
    raft_configuration_init(&install->conf);
    install->data.len = 8;
    install->data.base = raft_malloc(8);
    return install;
}

static struct raft_append_entries_result *answer(struct fixture *f)
{
    f->message = (struct raft_message){.type = RAFT_APPEND_ENTRIES_RESULT};
    f->message.append_entries_result = (struct raft_append_entries_result){
        .term = 5, .rejected = 0, .last_log_index = 0x7fff12345678};
    assert_int_equal(raft_guard_send(&f->guard, &f->raft, &f->message, &f->sent), 0);
    return &f->sent.append_entries_result;
}

static void recv_snapshot_while_own_is_written_drops(void **state)
{
    struct fixture *f = *state;

    f->raft.legacy.snapshot_taking = true;
    snapshot(f, 5, 64); /* freed, or the sanitizer says so */
    assert_false(raft_guard_recv(&f->guard, &f->raft, &f->message));
    assert_int_equal(f->guard.n_dropped, 1);
    assert_false(f->guard.refusing);
}

static void recv_snapshot_otherwise_passes(void **state)
{
    struct fixture *f = *state;
    struct raft_install_snapshot *install = snapshot(f, 5, 64);

    assert_true(raft_guard_recv(&f->guard, &f->raft, &f->message));
    assert_false(f->guard.refusing);
    raft_free(install->data.base);
}

static void recv_entries_below_commit_cuts_commit(void **state)
{
    struct raft_entry commands[5] = {{.type = RAFT_COMMAND}};
    struct fixture *f = *state;

    entries(f, 5, 90, 5, 120)->entries = commands;
    assert_true(raft_guard_recv(&f->guard, &f->raft, &f->message));
    assert_int_equal(f->message.append_entries.leader_commit, 100);
    assert_int_equal(f->guard.n_cut, 1);
}

static void recv_entries_up_to_commit_passes(void **state)
{
    struct raft_entry commands[10] = {{.type = RAFT_COMMAND}};
    struct fixture *f = *state;
    static const raft_index cases[][3] = {
        {90, 10, 120}, {100, 0, 120}, {100, 7, 103}, {90, 5, 100}, {90, 5, 80}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        entries(f, 5, cases[i][0], (unsigned)cases[i][1], cases[i][2])->entries = commands;
        assert_true(raft_guard_recv(&f->guard, &f->raft, &f->message));
        assert_int_equal(f->message.append_entries.leader_commit, cases[i][2]);
    }
    assert_int_equal(f->guard.n_cut, 0);
}

/* Entries 101 to 104 of those types, and how many of them the library gets; they are freed, or the sanitizer says so. */
static unsigned n_received(struct fixture *f, const unsigned short types[static 4])
{
    struct raft_append_entries *message = entries(f, 5, 100, 4, 100);
    void *batch = raft_malloc(8);
    unsigned n;

    message->entries = raft_calloc(4, sizeof *message->entries);
    for (unsigned i = 0; i < 4; i++)
        message->entries[i] = (struct raft_entry){.term = 5, .type = types[i], .batch = batch};
    assert_true(raft_guard_recv(&f->guard, &f->raft, &f->message));
    n = message->n_entries;
    if (n == 0) {
        assert_null(message->entries);
        return 0;
    }
    raft_free(message->entries[0].batch);
    raft_free(message->entries);
    return n;
}

static void recv_change_of_members_comes_first_or_later(void **state)
{
    struct fixture *f = *state;
    static const struct {
        unsigned short types[4];
        raft_index waits;
        unsigned expected;
    } cases[] = {
        {{RAFT_COMMAND, RAFT_COMMAND, RAFT_BARRIER, RAFT_COMMAND}, 0, 4},
        {{RAFT_CHANGE, RAFT_COMMAND, RAFT_COMMAND, RAFT_COMMAND}, 0, 4},
        {{RAFT_COMMAND, RAFT_CHANGE, RAFT_COMMAND, RAFT_COMMAND}, 0, 1},
        {{RAFT_CHANGE, RAFT_COMMAND, RAFT_CHANGE, RAFT_COMMAND}, 0, 2},
        {{RAFT_CHANGE, RAFT_COMMAND, RAFT_COMMAND, RAFT_COMMAND}, 99, 0},
        {{RAFT_COMMAND, RAFT_COMMAND, RAFT_COMMAND, RAFT_CHANGE}, 99, 3},
        {{RAFT_COMMAND, RAFT_COMMAND, RAFT_COMMAND, RAFT_COMMAND}, 99, 4},
        /* It is the one that waits, or takes its place. */
        {{RAFT_CHANGE, RAFT_COMMAND, RAFT_COMMAND, RAFT_COMMAND}, 101, 4},
        {{RAFT_CHANGE, RAFT_COMMAND, RAFT_COMMAND, RAFT_COMMAND}, 103, 4},
    };
    unsigned n_split = 0;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        f->raft.configuration_uncommitted_index = cases[i].waits;
        assert_int_equal(n_received(f, cases[i].types), cases[i].expected);
        n_split += cases[i].expected < 4;
        assert_int_equal(f->guard.n_split, n_split);
    }
}

static void snapshot_waits_for_a_change_that_is_applied(void **state)
{
    struct fixture *f = *state;

    f->raft.last_applied = 100;
    assert_true(raft_guard_may_snapshot(&f->raft));
    f->raft.configuration_uncommitted_index = 100;
    assert_false(raft_guard_may_snapshot(&f->raft));
    f->raft.configuration_uncommitted_index = 40;
    assert_false(raft_guard_may_snapshot(&f->raft));
    f->raft.configuration_uncommitted_index = 101; /* bears the members before it, as it should */
    assert_true(raft_guard_may_snapshot(&f->raft));
}

static void send_refusal_of_old_term_consents_to_nothing(void **state)
{
    struct fixture *f = *state;
    struct raft_install_snapshot *install = snapshot(f, 4, 64);

    assert_true(raft_guard_recv(&f->guard, &f->raft, &f->message));
    raft_free(install->data.base);
    assert_int_equal(answer(f)->rejected, 1);
    assert_int_equal(answer(f)->last_log_index, 0);
    assert_int_equal(answer(f)->term, 5);
    raft_guard_settle(&f->guard, &f->raft);
    assert_int_equal(answer(f)->rejected, 0);
}

static void send_answer_of_this_term_is_untouched(void **state)
{
    struct fixture *f = *state;

    entries(f, 5, 100, 0, 100);
    assert_true(raft_guard_recv(&f->guard, &f->raft, &f->message));
    assert_int_equal(answer(f)->last_log_index, 0x7fff12345678);
    assert_int_equal(f->guard.n_refused, 0);
}

static void send_snapshot_gets_its_own_term(void **state)
{
    struct fixture *f = *state;
    struct raft_install_snapshot *install = snapshot(f, 5, 70);

    raft_guard_read(&f->guard, &(struct raft_snapshot){.index = 70, .term = 4});
    assert_int_equal(raft_guard_send(&f->guard, &f->raft, &f->message, &f->sent), 0);
    assert_int_equal(f->sent.install_snapshot.last_term, 4);
    assert_int_equal(f->guard.n_corrected, 1);
    assert_ptr_equal(f->sent.install_snapshot.data.base, install->data.base);
    raft_free(install->data.base);
}

static void send_snapshot_that_was_not_read_is_put_off(void **state)
{
    struct fixture *f = *state;
    struct raft_snapshot unread;
    struct raft_install_snapshot *install;

    raft_guard_read(&f->guard, &(struct raft_snapshot){.index = 70, .term = 4});
    raft_guard_unread(&unread);
    install = snapshot(f, 5, unread.index);
    assert_int_equal(raft_guard_send(&f->guard, &f->raft, &f->message, &f->sent), RAFT_BUSY);
    raft_free(install->data.base);
    raft_free(unread.bufs);
}

static void send_snapshot_goes_where_the_member_is_now(void **state)
{
    struct fixture *f = *state;
    struct raft_install_snapshot *install = snapshot(f, 5, 64);

    raft_guard_read(&f->guard, &(struct raft_snapshot){.index = 64, .term = 4});
    f->message.server_address = NULL; /* what was there is freed */
    assert_int_equal(raft_guard_send(&f->guard, &f->raft, &f->message, &f->sent), 0);
    assert_string_equal(f->sent.server_address, "b@h");
    f->message.server_id = 3;
    assert_int_equal(raft_guard_send(&f->guard, &f->raft, &f->message, &f->sent),
                     RAFT_NOCONNECTION);
    raft_free(install->data.base);
}

/* Entries as they come: 'c' a command, 'm' a change of the members. */
static struct raft_append_entries *come(struct fixture *f, raft_index prev, const char *kinds)
{
    unsigned n = (unsigned)strlen(kinds);
    struct raft_append_entries *message = entries(f, 5, prev, n, 100);

    message->entries = n ? raft_calloc(n, sizeof(*message->entries)) : NULL;
    if (n)
        message->entries[0].batch = raft_malloc(8);
    for (unsigned i = 0; i < n; i++) {
        message->entries[i].term = prev + 1 + i;
        message->entries[i].type = kinds[i] == 'm' ? RAFT_CHANGE : RAFT_COMMAND;
        message->entries[i].batch = message->entries[0].batch;
    }
    assert_true(raft_guard_recv(&f->guard, &f->raft, &f->message));
    return message;
}

static void gone(struct raft_append_entries *message)
{
    if (message->n_entries)
        raft_free(message->entries[0].batch);
    raft_free(message->entries);
}

static void recv_change_settles_the_one_before(void **state)
{
    struct fixture *f = *state;
    struct raft_append_entries *message;

    f->raft.configuration_uncommitted_index = 90;
    f->raft.configuration_committed_index = 70;
    message = come(f, 100, "mc");
    assert_int_equal(message->n_entries, 0); /* the leader may not have 90 at all */
    gone(message);
    assert_int_equal(f->raft.configuration_uncommitted_index, 90);
    f->raft.follower_state.match = 100;
    message = come(f, 100, "mc");
    assert_int_equal(message->n_entries, 2);
    gone(message);
    assert_int_equal(f->raft.configuration_uncommitted_index, 0);
    assert_int_equal(f->raft.configuration_committed_index, 90);
    assert_int_equal(f->raft.configuration_committed.n, 2);
    assert_int_equal(f->guard.n_settled, 1);
}

static void recv_change_that_is_known_settles_nothing(void **state)
{
    struct fixture *f = *state;
    struct raft_append_entries *message;

    f->raft.configuration_uncommitted_index = 101;
    f->raft.follower_state.match = 101;
    message = come(f, 100, "m");
    assert_int_equal(message->n_entries, 1);
    gone(message);
    assert_int_equal(f->raft.configuration_uncommitted_index, 101);
}

static void recv_entries_before_the_snapshot_are_skipped(void **state)
{
    struct fixture *f = *state;
    struct raft_append_entries *message;

    f->raft.trail.snapshot.index = 3;
    message = come(f, 0, "mccmc");
    assert_int_equal(message->prev_log_index, 3);
    assert_int_equal(message->prev_log_term, 4);
    assert_int_equal(message->n_entries, 2);
    assert_int_equal(message->entries[0].term, 4);
    gone(message);
    message = come(f, 0, "mc");
    assert_int_equal(message->prev_log_index, 3);
    assert_int_equal(message->n_entries, 0);
    gone(message);
    message = come(f, 1, "ccm"); /* what it is behind is not there any more */
    assert_int_equal(message->prev_log_index, 3);
    assert_int_equal(message->n_entries, 1);
    assert_int_equal(message->entries[0].type, RAFT_CHANGE);
    gone(message);
    message = come(f, 2, "");
    assert_int_equal(message->prev_log_index, 3);
    assert_int_equal(message->prev_log_term, 4);
    gone(message);
    message = come(f, 3, "cc");
    assert_int_equal(message->prev_log_index, 3);
    assert_int_equal(message->n_entries, 2);
    gone(message);
    assert_int_equal(f->guard.n_skipped, 4);
}

static bool ask_vote(struct fixture *f, raft_id from)
{
    bool voter;

    f->message = (struct raft_message){.type = RAFT_REQUEST_VOTE, .server_id = from};
    assert_true(raft_guard_recv(&f->guard, &f->raft, &f->message));
    voter = f->raft.configuration.servers[0].role == RAFT_VOTER;
    raft_guard_settle(&f->guard, &f->raft);
    return voter;
}

static void follow(struct fixture *f, raft_id leader)
{
    f->raft.follower_state.current_leader.id = leader;
    raft_free(f->raft.follower_state.current_leader.address);
    f->raft.follower_state.current_leader.address = raft_malloc(8);
}

static void recv_request_for_a_vote_finds_a_voter(void **state)
{
    struct fixture *f = *state;

    assert_true(ask_vote(f, 2));
    assert_int_equal(f->raft.configuration.servers[0].role, RAFT_SPARE);
    f->raft.id = 2;
    assert_false(ask_vote(f, 1));
    assert_int_equal(f->raft.configuration.servers[1].role, RAFT_VOTER);
    assert_int_equal(f->guard.n_lent, 1);
}

static void recv_request_for_a_vote_forgets_a_leader_of_long_ago(void **state)
{
    struct fixture *f = *state;

    f->raft.election_timeout = 150;
    f->raft.now = 1000;
    assert_true(raft_guard_recv(&f->guard, &f->raft, (entries(f, 5, 100, 0, 100), &f->message)));
    follow(f, 2);
    f->raft.now = 1149;
    (void)ask_vote(f, 3);
    assert_int_equal(f->raft.follower_state.current_leader.id, 2);
    f->raft.now = 1150;
    (void)ask_vote(f, 3);
    assert_int_equal(f->raft.follower_state.current_leader.id, 0);
    assert_null(f->raft.follower_state.current_leader.address);
    f->raft.now = 1000;
    follow(f, 2);
    (void)ask_vote(f, 2); /* who asks does not lead */
    assert_int_equal(f->raft.follower_state.current_leader.id, 0);
}

static void hears_whom_it_heard_of_late(void **state)
{
    struct fixture *f = *state;

    f->raft.election_timeout = 150;
    f->raft.now = 1000;
    assert_false(raft_guard_hears(&f->guard, &f->raft));
    assert_true(raft_guard_recv(&f->guard, &f->raft, (entries(f, 4, 100, 0, 100), &f->message)));
    assert_false(raft_guard_hears(&f->guard, &f->raft)); /* of an older term */
    assert_true(raft_guard_recv(&f->guard, &f->raft, (entries(f, 5, 100, 0, 100), &f->message)));
    assert_false(raft_guard_hears(&f->guard, &f->raft)); /* a leader that is no member */
    f->raft.follower_state.current_leader.id = 2;
    f->raft.now = 1149;
    assert_true(raft_guard_hears(&f->guard, &f->raft));
    f->raft.now = 1150;
    assert_false(raft_guard_hears(&f->guard, &f->raft));
    f->raft.state = RAFT_LEADER;
    assert_true(raft_guard_hears(&f->guard, &f->raft));
}

/* The list in which those of a and b that are named vote. */
static struct raft_entry list(const char *voters)
{
    struct raft_configuration members;
    struct raft_entry entry = {.type = RAFT_CHANGE};

    raft_configuration_init(&members);
    for (int i = 0; i < 2; i++)
        assert_int_equal(raft_configuration_add(&members, (raft_id)i + 1, i ? "b@h" : "a@h",
                                                strchr(voters, 'a' + i) ? RAFT_VOTER : RAFT_SPARE),
                         0);
    assert_int_equal(raft_configuration_encode(&members, &entry.buf), 0);
    raft_configuration_close(&members);
    return entry;
}

static void alone_is_the_only_voter_of_the_newest_list(void **state)
{
    struct fixture *f = *state;
    struct raft_snapshot old = {.configuration = f->raft.configuration};
    struct raft_entry log[] = {
        list("ab"), {.type = RAFT_COMMAND}, list("a"), {.type = RAFT_COMMAND}};

    assert_false(raft_guard_is_alone(1, NULL, NULL, 0));
    assert_false(raft_guard_is_alone(1, NULL, log, 1));
    assert_false(raft_guard_is_alone(1, NULL, log, 2));
    assert_true(raft_guard_is_alone(1, NULL, log, 3));
    assert_true(raft_guard_is_alone(1, &old, log, 4));
    assert_false(raft_guard_is_alone(2, &old, log, 4));
    assert_true(raft_guard_is_alone(2, &old, log + 1, 1)); /* in the snapshot only b votes */
    raft_free(log[0].buf.base);
    raft_free(log[2].buf.base);
}

static void send_refusal_of_a_pre_vote_says_the_term(void **state)
{
    static const struct {
        bool pre_vote, granted;
        raft_term term, sent;
    } cases[] = {
        {true, false, 3, 5}, {true, false, 6, 6}, {true, true, 6, 6}, {false, false, 4, 4}};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        f->message = (struct raft_message){.type = RAFT_REQUEST_VOTE_RESULT, .server_id = 2};
        f->message.request_vote_result = (struct raft_request_vote_result){
            .term = cases[i].term, .vote_granted = cases[i].granted, .pre_vote = cases[i].pre_vote};
        assert_int_equal(raft_guard_send(&f->guard, &f->raft, &f->message, &f->sent), 0);
        assert_int_equal(f->sent.request_vote_result.term, cases[i].sent);
    }
    assert_int_equal(f->guard.n_told, 1);
}

static raft_time at_1000(struct raft_io *io)
{
    (void)io;
    return 1000;
}

static void tick_candidate_at_its_timeout_asks_ahead_anew(void **state)
{
    static const struct {
        int role;
        bool pre_vote, ahead;
        raft_time start;
        bool asks_ahead;
    } cases[] = {{RAFT_CANDIDATE, true, false, 800, true},
                 {RAFT_CANDIDATE, true, false, 801, false}, /* not yet */
                 {RAFT_CANDIDATE, false, false, 0, false},  /* is not done here */
                 {RAFT_CANDIDATE, true, true, 0, true},     /* does already */
                 {RAFT_LEADER, true, false, 0, false}};
    struct fixture *f = *state;
    struct raft_io io = {.time = at_1000};

    f->raft.io = &io;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        f->raft.state = (unsigned short)cases[i].role;
        f->raft.pre_vote = cases[i].pre_vote;
        f->raft.election_timer_start = cases[i].start;
        if (f->raft.state == RAFT_CANDIDATE) {
            f->raft.candidate_state.randomized_election_timeout = 200;
            f->raft.candidate_state.in_pre_vote = cases[i].ahead;
            f->raft.candidate_state.disrupt_leader = !cases[i].ahead;
        }
        raft_guard_tick(&f->guard, &f->raft);
        if (f->raft.state != RAFT_CANDIDATE)
            continue;
        assert_int_equal(f->raft.candidate_state.in_pre_vote, cases[i].asks_ahead);
        assert_int_equal(f->raft.candidate_state.disrupt_leader, !cases[i].asks_ahead);
    }
    assert_int_equal(f->guard.n_humbled, 1);
}

static int ended;

static void end(struct raft_change *req, int status)
{
    (void)req;
    assert_int_equal(status, RAFT_NOSPACE);
    ended++;
}

static void settle_change_that_nobody_ends_is_ended(void **state)
{
    struct raft_change change = {.cb = end};
    struct fixture *f = *state;

    ended = 0;
    f->raft.state = f->raft.legacy.prev_state = RAFT_LEADER;
    f->raft.legacy.change = &change;
    change.catch_up_id = 2; /* it is catching up */
    raft_guard_settle(&f->guard, &f->raft);
    change.catch_up_id = 0;
    f->raft.configuration_uncommitted_index = 101; /* it is in the log */
    raft_guard_settle(&f->guard, &f->raft);
    assert_int_equal(ended, 0);
    f->raft.configuration_uncommitted_index = 0;
    raft_guard_settle(&f->guard, &f->raft);
    raft_guard_settle(&f->guard, &f->raft);
    assert_int_equal(ended, 1);
    assert_null(f->raft.legacy.change);
}

static void recv_refusal_when_not_leading_passes(void **state)
{
    struct fixture *f = *state;

    f->message = (struct raft_message){.type = RAFT_APPEND_ENTRIES_RESULT, .server_id = 2};
    f->message.append_entries_result = (struct raft_append_entries_result){.term = 5,
                                                                           .rejected = 1};
    assert_true(raft_guard_recv(&f->guard, &f->raft, &f->message));
    f->raft.state = RAFT_LEADER;
    f->message.append_entries_result.term = 6; /* there is a newer term: it must hear of it */
    assert_true(raft_guard_recv(&f->guard, &f->raft, &f->message));
    f->message.append_entries_result = (struct raft_append_entries_result){.term = 5};
    assert_true(raft_guard_recv(&f->guard, &f->raft, &f->message));
    assert_int_equal(f->guard.n_late, 0);
}

static void settle_election_without_room_is_noted_once(void **state)
{
    struct fixture *f = *state;

    f->raft.state = RAFT_LEADER;
    f->raft.legacy.prev_state = RAFT_CANDIDATE;
    raft_guard_settle(&f->guard, &f->raft);
    raft_guard_settle(&f->guard, &f->raft);
    assert_int_equal(f->raft.legacy.prev_state, RAFT_LEADER);
    assert_int_equal(f->guard.n_noted, 1);
}

static void settle_change_that_was_applied_is_noted(void **state)
{
    struct fixture *f = *state;

    f->raft.last_applied = 100;
    f->raft.configuration_uncommitted_index = 101;
    raft_guard_settle(&f->guard, &f->raft);
    assert_int_equal(f->raft.configuration_uncommitted_index, 101);
    f->raft.configuration_uncommitted_index = 40;
    raft_guard_settle(&f->guard, &f->raft);
    assert_int_equal(f->raft.configuration_uncommitted_index, 0);
    assert_int_equal(f->raft.configuration_committed_index, 40);
    assert_int_equal(f->raft.configuration_committed.n, f->raft.configuration.n);
    assert_int_equal(f->guard.n_settled, 1);
}

static void settle_follower_changes_nothing(void **state)
{
    struct fixture *f = *state;

    f->raft.legacy.prev_state = RAFT_CANDIDATE;
    raft_guard_settle(&f->guard, &f->raft);
    assert_int_equal(f->raft.legacy.prev_state, RAFT_CANDIDATE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static unsigned n_sent(struct fixture *f, raft_id to, raft_time now)
{
    f->raft.now = now;
    f->message.server_id = to;
    assert_int_equal(raft_guard_send(&f->guard, &f->raft, &f->message, &f->sent), 0);
    return f->sent.append_entries.n_entries;
}

static void send_much_again_waits_for_an_answer(void **state)
{
    struct fixture *f = *state;
    struct raft_entry both[2] = {{.buf = {NULL, RAFT_GUARD_MANY_BYTES}}, {.buf = {NULL, 8}}};
    struct raft_append_entries *message = entries(f, 5, 70, 2, 100);

    message->entries = both;
    assert_int_equal(n_sent(f, 2, 1000), 2);
    assert_int_equal(n_sent(f, 2, 1030), 0);
    assert_int_equal(f->sent.append_entries.prev_log_index, 70); /* a heartbeat, all the same */
    assert_int_equal(n_sent(f, 3, 1030), 2);                     /* another one */
    assert_int_equal(n_sent(f, 3, 1031), 0);
    assert_int_equal(n_sent(f, 2, 1000 + RAFT_GUARD_AGAIN_AFTER), 2); /* it may have been lost */
    message->prev_log_index = 69;
    assert_int_equal(n_sent(f, 2, 1501), 2); /* it has answered: not there */
    message->term = 6;
    assert_int_equal(n_sent(f, 2, 1502), 2);
    assert_int_equal(f->guard.n_spared, 2);
}

static void send_little_again_goes_each_time(void **state)
{
    struct fixture *f = *state;
    struct raft_entry one = {.buf = {NULL, RAFT_GUARD_MANY_BYTES}};

    entries(f, 5, 70, 1, 100)->entries = &one;
    assert_int_equal(n_sent(f, 2, 1000), 1);
    assert_int_equal(n_sent(f, 2, 1030), 1);
    assert_int_equal(f->guard.n_spared, 0);
}

/* That the batches are freed, and no entry with them, the sanitizer says. */
static void own_gives_each_entry_its_memory(void **state)
{
    char *batches[2] = {raft_malloc(8), raft_malloc(4)};
    struct raft_entry loaded[3] = {{.buf = {memcpy(batches[0], "abcdefg", 8), 3}},
                                   {.buf = {batches[0] + 3, 5}},
                                   {.buf = {memcpy(batches[1], "xyz", 4), 4}}};

    (void)state;
    loaded[0].batch = loaded[1].batch = batches[0];
    loaded[2].batch = batches[1];
    raft_guard_own(loaded, 3);
    raft_guard_own(loaded, 0);
    assert_memory_equal(loaded[0].buf.base, "abc", 3);
    assert_memory_equal(loaded[1].buf.base, "defg", 5);
    assert_memory_equal(loaded[2].buf.base, "xyz", 4);
    for (size_t i = 0; i < 3; i++) {
        assert_null(loaded[i].batch);
        raft_free(loaded[i].buf.base);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(recv_snapshot_while_own_is_written_drops),
        TEST(recv_snapshot_otherwise_passes),
        TEST(recv_entries_below_commit_cuts_commit),
        TEST(recv_entries_up_to_commit_passes),
        TEST(recv_change_of_members_comes_first_or_later),
        TEST(snapshot_waits_for_a_change_that_is_applied),
        TEST(send_refusal_of_old_term_consents_to_nothing),
        TEST(send_answer_of_this_term_is_untouched),
        TEST(send_snapshot_gets_its_own_term),
        TEST(send_snapshot_that_was_not_read_is_put_off),
        TEST(send_much_again_waits_for_an_answer),
        TEST(send_little_again_goes_each_time),
        TEST(send_snapshot_goes_where_the_member_is_now),
        TEST(recv_change_settles_the_one_before),
        TEST(recv_change_that_is_known_settles_nothing),
        TEST(recv_entries_before_the_snapshot_are_skipped),
        TEST(recv_request_for_a_vote_finds_a_voter),
        TEST(recv_request_for_a_vote_forgets_a_leader_of_long_ago),
        TEST(hears_whom_it_heard_of_late),
        TEST(alone_is_the_only_voter_of_the_newest_list),
        TEST(send_refusal_of_a_pre_vote_says_the_term),
        TEST(tick_candidate_at_its_timeout_asks_ahead_anew),
        TEST(settle_change_that_nobody_ends_is_ended),
        TEST(recv_refusal_when_not_leading_passes),
        TEST(settle_election_without_room_is_noted_once),
        TEST(settle_change_that_was_applied_is_noted),
        TEST(settle_follower_changes_nothing),
        TEST(own_gives_each_entry_its_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
