/* Words for a shell. */
#ifndef XCE_CTL_QUOTE_H
#define XCE_CTL_QUOTE_H

#include <stdbool.h>

#include "common/buf.h"

/* Add text as one word of POSIX sh: as it is where that is safe, else in single quotes. */
void quote_word(struct buf *buf, const char *text);

/* Whether $(...) unquoted gives text back as one word: no white space, nothing that matches file names. */
bool quote_splits_whole(const char *text);

#endif
