/* `leased --restore FILE`, which `leasectl cluster restore` runs: a backup becomes the state of a leased that does not run.
 *
 *   FILE ─▶ checked ─▶ a new incarnation (CmdRestore) ─▶ engine.db.restored ─▶ what is there goes aside, if that was said
 *   ─▶ engine.db; and with Engine = raft, raft/: the folder of the first replica, which takes engine.db over
 *
 * Each arrow can be the last that happens: the state that was there, none, or the new one is found, never a part of two.
 * Nothing is deleted but what an earlier attempt left half done. */
#ifndef XCE_LEASED_SERVER_RESTORE_H
#define XCE_LEASED_SERVER_RESTORE_H

#include <stdbool.h>

struct leased_settings;

struct restore_options {
    const char *file;
    bool set_aside; /* what is there */
    bool json;      /* what has become of it, or an error, as one object on stdout */
};

/* Says what has become of it on stdout, or what is wrong on stderr. The exit code: 0, or 1 and nothing has changed, or as
 * the message says. */
int server_restore(const struct leased_settings *settings, const struct restore_options *options);

#endif
