/* Where a file is, for people: never used to reach it. */
#ifndef XCE_NORMALISE_PATH_H
#define XCE_NORMALISE_PATH_H

#include "common/buf.h"

#define PATH_TEXT_MAX 65536

struct root;

/* Its path now. name "": the folder itself. Where the folder is deeper than the kernel can say, or could not be
 * opened (dir_fd -1): "..." for what is not known. */
void path_of(const struct root *root, int dir_fd, const char *name, struct buf *buf);

#endif
