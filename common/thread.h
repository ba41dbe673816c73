/* A thread beside a loop. Signals never run in it: they are the loop's.
 *
 * name: up to 15 bytes, as ps -L shows it. stack: bytes of its stack, 0 = the default of the system; give little only to what
 * calls no foreign library. 0; -EAGAIN no more threads or memory, -EINVAL the stack is too small: then *ret is not set.
 * *ret is to be joined or detached. Any thread. */
#ifndef XCE_COMMON_THREAD_H
#define XCE_COMMON_THREAD_H

#include <pthread.h>
#include <stddef.h>

int thread_start(const char *name, size_t stack, void *(*run)(void *arg), void *arg,
                 pthread_t *ret);

#endif
