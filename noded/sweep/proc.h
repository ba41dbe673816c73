/* Who runs under an id: /proc/PID/task/TID/status, every thread, every id. */
#ifndef XCE_NODED_SWEEP_PROC_H
#define XCE_NODED_SWEEP_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What a status file says of one thread. */
struct proc_status {
    char state;         /* 'R', 'S', 'D', 'Z', ... */
    uint32_t n_threads; /* of its process */
    uint32_t uids[4];   /* real, effective, saved, file system */
    uint32_t gids[4];
    const char *groups; /* the supplementary ones, in text; up to groups_end */
    const char *groups_end;
    const char *name;
    size_t name_len;
};

/* A number of /proc; 0 = no such name. */
pid_t proc_parse_pid(const char *name);

/* Whether it has one thread alone just now, whose number is that of the process: there is no need to read its list of them.
 * tasks is that list's path from dir_fd, /proc/PID/task. */
bool proc_has_one_thread(int dir_fd, const char *tasks);

/* Take a status file apart; pointers go into text, which must end in NUL. 0; -EBADMSG a line is missing or malformed. */
int proc_parse_status(const char *text, struct proc_status *ret);

/* The next group of it, *ret; how far it got is kept in status->groups. 1; 0 that was all. */
int proc_next_group(struct proc_status *status, uint32_t *ret);

#endif
