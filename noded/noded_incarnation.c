/* Which states leased has had, as far as this node has followed them. One that it has left for another was lost, and a backup
 * restored: if it comes back, an old replica runs, or an old file was put back, and gives uids out a second time. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/err.h"
#include "common/log.h"
#include "common/mem.h"
#include "noded/noded_inside.h"

#define LINE_MAX_BYTES (2 * SESSION_INCARNATION_MAX + 1)

static bool is_hex(const char *text)
{
    size_t len = strspn(text, "0123456789abcdef");

    return len > 0 && len <= 2 * SESSION_INCARNATION_MAX && text[len] == '\0';
}

static void add(struct noded *n, const char *hex)
{
    if (n->n_incarnations == INCARNATIONS_MAX) {
        memmove(n->incarnations[0], n->incarnations[1],
                (INCARNATIONS_MAX - 1) * sizeof(n->incarnations[0]));
        n->n_incarnations--;
    }
    (void)snprintf(n->incarnations[n->n_incarnations++], sizeof(n->incarnations[0]), "%s", hex);
}

/* Whole lines: what was cut off may have been a state that was left. */
static int load(struct noded *n, char *text)
{
    size_t len = strlen(text);
    char *line;

    if (len == 0 || text[len - 1] != '\n')
        return -EBADMSG;
    text[len - 1] = '\0';
    while ((line = strsep(&text, "\n"))) {
        if (!is_hex(line))
            return -EBADMSG;
        add(n, line);
    }
    return 0;
}

int noded_incarnation_start(struct noded *n)
{
    auto_free char *text = NULL;
    int r = fs_read_file(AT_FDCWD, n->incarnations_path, INCARNATIONS_MAX * LINE_MAX_BYTES, &text,
                         NULL);

    if (r == -ENOENT)
        return 0;
    if (r == 0)
        r = load(n, text);
    if (r < 0)
        log_error(NULL,
                  "%s: %s: which states of leased this node has left is not known any more; if the "
                  "file can not be brought back, make sure that no leased runs with a state from "
                  "before a restore, move the file away and start again",
                  n->incarnations_path, err_text(r));
    return r;
}

static void to_hex(const uint8_t *bytes, size_t len, char ret[static LINE_MAX_BYTES])
{
    for (size_t i = 0; i < len; i++)
        (void)snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

static int save(const struct noded *n)
{
    char text[INCARNATIONS_MAX * LINE_MAX_BYTES + 1];
    size_t len = 0;

    for (size_t i = 0; i < n->n_incarnations; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s\n", n->incarnations[i]);
    return fs_write_file(AT_FDCWD, n->incarnations_path, text, len, 0600);
}

/* On the loop's thread: it is a line, once in the life of a state. */
int noded_incarnation_take(struct noded *n, const struct session_welcome *welcome)
{
    char hex[LINE_MAX_BYTES];
    size_t at = 0;
    int r;

    if (welcome->incarnation_len == 0)
        return 0;
    if (n->n_incarnations == 0 && n->incarnation_len > 0) { /* of a noded that kept no such file */
        to_hex(n->incarnation, n->incarnation_len, hex);
        add(n, hex);
    }
    to_hex(welcome->incarnation, welcome->incarnation_len, hex);
    while (at < n->n_incarnations && strcmp(n->incarnations[at], hex) != 0)
        at++;
    if (n->n_incarnations && at == n->n_incarnations - 1)
        return 0;
    if (at < n->n_incarnations) {
        log_error(
            LOG_FIELDS(.node = n->node),
            "leased shows state %s, which this node has left for %s: an old replica runs, or an "
            "old state was put back; it is not followed",
            hex, n->incarnations[n->n_incarnations - 1]);
        return -ESTALE;
    }
    add(n, hex);
    r = save(n);
    if (r == 0)
        return 0;
    n->n_incarnations--;
    log_error(LOG_FIELDS(.message_id = LOG_ID_DISK), "%s: cannot be written: %s",
              n->incarnations_path, err_text(r));
    return r;
}
