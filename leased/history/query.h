/* Reading the history: a connection of its own, used by one thread at a time. */
#ifndef XCE_LEASED_HISTORY_QUERY_H
#define XCE_LEASED_HISTORY_QUERY_H

#include "leased/history/history.h"
#include "leased/history/store.h"

struct query_reader;

struct query_answer {
    int r;
    struct history_entry *entries; /* with their strings, on the heap */
    size_t n;
    /* r < 0: what failed. r 0: "" or what the answer may lack. */
    char why[STORE_WHY_MAX];
};

/* The file is opened with the first query. 0; -ENOMEM. */
int query_reader_new(const char *path, struct query_reader **ret);
void query_reader_free(struct query_reader *reader);

struct sqlite3;

/* Any thread: waits for its turn. */
void query_run(struct query_reader *reader, const struct history_query *query,
               struct query_answer *ret);
/* Run fn, which says what SQLite does, with the connection; ret has no entries. */
void query_with(struct query_reader *reader, int (*fn)(struct sqlite3 *db, void *arg), void *arg,
                struct query_answer *ret);
void query_answer_done(struct query_answer *answer);

#endif
