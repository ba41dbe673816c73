/* What periods a history holds and what gaps it has, read from the file. */
#ifndef XCE_LEASED_HISTORY_OUTLINE_H
#define XCE_LEASED_HISTORY_OUTLINE_H

#include "leased/history/query.h"
#include "leased/history/refill.h"

/* Any thread: waits for its turn. ret is to be freed with outline_done, also on failure. */
void outline_read(struct query_reader *reader, struct history_outline *ret,
                  struct query_answer *ret_answer);
void outline_done(struct history_outline *outline);

#endif
