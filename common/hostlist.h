/* Lists of hosts as administrators write them: "n[01-16,20],login1", "a[1-3]b[01-02]".
 *
 *   list   := item { "," item }
 *   item   := part { part }
 *   part   := literal | "[" span { "," span } "]"
 *   span   := number | number "-" number        width of the first = width of all ("[08-11]": 08 09 10 11)
 * Every name that comes out is a node name (text_check_node). Order is as written, the last bracket runs fastest; a name
 * that came before is left out. Any thread. */
#ifndef XCE_COMMON_HOSTLIST_H
#define XCE_COMMON_HOSTLIST_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/err.h"

#define HOSTLIST_MAX      65536         /* names */
#define HOSTLIST_TEXT_MAX (1024 * 1024) /* bytes of the written form */

/* All zero = empty. */
struct hostlist {
    const char **names; /* each NUL-terminated, owned by the list */
    size_t n;
    char *bytes;
};

/* Write out every name of text[0..len).
 *   max  most names, before duplicates go; 0 = HOSTLIST_MAX
 *   ret  set on success; ended by hostlist_done
 * 0; -EINVAL, err names the place ("n[3-1]: byte 3: the range 3-1 runs backwards"); -E2BIG more than max names;
 * -ENOMEM. An empty text, or an empty item ("a,,b"), is -EINVAL. */
int hostlist_expand(const char *text, size_t len, size_t max, struct hostlist *ret,
                    struct err *err);
void hostlist_done(struct hostlist *list);
AUTO_DEFINE(struct hostlist, hostlist_done);

/* O(n). */
bool hostlist_contains(const struct hostlist *list, const char *name);

/* The short form of names, sorted by prefix and number, duplicates once: "n[01-16,20]". It expands to the same set.
 * Collapses the last number of a name; names need not be node names. 0; -ENOMEM; buf's sticky error. */
int hostlist_collapse(const char *const *names, size_t n, struct buf *buf);

#endif
