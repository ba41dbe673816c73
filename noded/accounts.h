/* The parent's side of noded/collide.h: questions to the process that knows this machine's accounts.
 *
 * The process is started when first needed, one question is under way at a time, the others wait in order. One that is not
 * answered in time costs the process its life; the next question starts another. One thread: the loop's. */
#ifndef XCE_NODED_ACCOUNTS_H
#define XCE_NODED_ACCOUNTS_H

#include <stdint.h>

#include "noded/collide.h"

struct accounts;
struct loop;

/* r: 0 and an answer that lives for the call; -ETIMEDOUT; -EIO the process died or could not be started; -ECANCELED. Exactly
 * once for each question, from the loop. */
typedef void (*accounts_fn)(int r, const struct collide_answer *answer, void *arg);

/* program, argv: how to start the process; it finds the socket as descriptor ACCOUNTS_FD. Borrowed. Never NULL. */
#define ACCOUNTS_FD 3
struct accounts *accounts_new(struct loop *loop, const char *program, char *const *argv);
/* Waiting questions end with -ECANCELED now, before it returns; the process is ended. */
void accounts_free(struct accounts *accounts);

/* The question is copied. timeout_ms counts from when it is put to the process. */
void accounts_ask(struct accounts *accounts, const struct collide_question *question,
                  int64_t timeout_ms, accounts_fn done, void *arg);

#endif
