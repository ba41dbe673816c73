/* Mounts made for a uid: FUSE file systems of its processes, tmpfs of its login session. With the processes gone nobody
 * serves or needs them; they are detached, which never waits for a server. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/mem.h"
#include "noded/sweep/kinds.h"
#include "noded/sweep/machine.h"
#include "noded/sweep/mount_pin.h"
#include "noded/sweep/mount_table.h"

/* The id that an option names, if it is wanted; else 0. */
static uint32_t option_wanted(const struct sweep *sweep, const char *option)
{
    static const char *const names[] = {"user_id=", "group_id=", "uid=", "gid="};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        size_t len = strlen(names[i]);
        char *end;
        if (strncmp(option, names[i], len) != 0)
            continue;
        unsigned long id = strtoul(option + len, &end, 10);
        return !*end && id <= UINT32_MAX && sweep_wants(sweep, (uint32_t)id) ? (uint32_t)id : 0;
    }
    return 0;
}

static uint32_t mount_wanted(const struct sweep *sweep, const struct mount_entry *entry)
{
    char *options = entry->options;
    uint32_t uid = 0;

    for (char *option; !uid && (option = strsep(&options, ","));)
        uid = option_wanted(sweep, option);
    return uid;
}

struct same {
    uint64_t id;
    bool wanted;
};

static void same_look(struct sweep *sweep, const struct mount_entry *entry, void *arg)
{
    struct same *same = arg;

    if (entry->id == same->id)
        same->wanted = mount_wanted(sweep, entry) != 0;
}

/* What was unmounted meanwhile has left its id to the next one: so it is looked at again when it is held. */
static int mount_end(struct sweep *sweep, const struct mount_entry *entry)
{
    auto_unpin struct mount_pin pin = MOUNT_PIN_NONE;
    struct same same = {.id = entry->id};
    int r = mount_pin(sweep, entry->path, entry->id, &pin);

    if (r == 0)
        r = mount_table_each(sweep, same_look, &same);
    if (r < 0)
        return r;
    return same.wanted ? mount_pin_detach(&pin) : -ESTALE;
}

static void mount_look(struct sweep *sweep, const struct mount_entry *entry, void *arg)
{
    uint32_t uid = mount_wanted(sweep, entry);
    int r;

    (void)arg;
    if (!uid)
        return;
    r = sweep->remove ? mount_end(sweep, entry) : 0;
    if (r < 0) {
        sweep_found(sweep, uid, REASON_MOUNT, "%s: %s", entry->path, err_text(r));
        return;
    }
    sweep_found(sweep, uid, REASON_MOUNT, "%s", entry->path);
    if (sweep->remove)
        sweep_removed(sweep);
}

static void mounts_look(struct sweep *sweep, void *arg)
{
    (void)mount_table_each(sweep, mount_look, arg);
}

void sweep_mounts(struct sweep *sweep)
{
    machine_run(sweep, false, mounts_look, NULL);
}
