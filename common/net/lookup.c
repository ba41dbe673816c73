#include "common/net/lookup.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/address.h"
#include "common/net/loop.h"
#include "common/net/tcp.h"
#include "common/thread.h"

/* Shared by the loop and the thread; freed by the last of the two. */
struct question {
    pthread_mutex_t lock;
    unsigned refs;
    struct loop_wake *wake; /* NULL: nobody waits any more */
    char host[ADDRESS_HOST_MAX + 1], port[6];
    int error; /* of getaddrinfo */
    struct addrinfo *list;
};

struct lookup {
    struct loop_wake *wake;
    struct question *question;
    lookup_fn fn;
    void *arg;
};

static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned n_threads;

static bool may_start(void)
{
    bool may;

    (void)pthread_mutex_lock(&threads_lock);
    may = n_threads < TCP_LOOKUPS_MAX;
    n_threads += may;
    (void)pthread_mutex_unlock(&threads_lock);
    return may;
}

static void has_ended(void)
{
    (void)pthread_mutex_lock(&threads_lock);
    n_threads--;
    (void)pthread_mutex_unlock(&threads_lock);
}

static void unref(struct question *question)
{
    bool last;

    (void)pthread_mutex_lock(&question->lock);
    last = --question->refs == 0;
    (void)pthread_mutex_unlock(&question->lock);
    if (!last)
        return;
    if (question->list)
        freeaddrinfo(question->list);
    (void)pthread_mutex_destroy(&question->lock);
    free(question);
}

static int ask(struct question *question, int flags)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};

    return getaddrinfo(question->host, question->port, &hints, &question->list);
}

static void *thread(void *arg)
{
    struct question *question = arg;
    int error = ask(question, 0);

    (void)pthread_mutex_lock(&question->lock);
    question->error = error;
    if (question->wake)
        loop_wake_send(question->wake);
    (void)pthread_mutex_unlock(&question->lock);
    unref(question);
    has_ended();
    return NULL;
}

static const char *why_of(int error)
{
    switch (error) {
    case EAI_NONAME:
        return "no such host";
    case EAI_MEMORY:
        return "out of memory";
    default:
        return "the name can not be looked up";
    }
}

static int errno_of(int error)
{
    switch (error) {
    case 0:
        return 0;
    case EAI_NONAME:
        return -ENOENT;
    case EAI_MEMORY:
        return -ENOMEM;
    default:
        return -EAGAIN;
    }
}

static void answered(void *arg)
{
    struct lookup *lookup = arg;
    struct question *question = lookup->question;
    lookup_fn fn = lookup->fn;
    void *fn_arg = lookup->arg;
    struct addrinfo *list;
    int error;

    (void)pthread_mutex_lock(&question->lock);
    list = question->list;
    error = question->error;
    question->list = NULL;
    (void)pthread_mutex_unlock(&question->lock);
    lookup_cancel(lookup);
    fn(errno_of(error), list, why_of(error), fn_arg);
}

/* A thread of its own, so that one that hangs takes no other's place. */
static int start_thread(struct question *question)
{
    pthread_t id;
    int r;

    if (!may_start())
        return -EAGAIN;
    question->refs++;
    r = thread_start("lookup", 0, thread, question, &id);
    if (r == 0) {
        (void)pthread_detach(id);
        return 0;
    }
    question->refs--;
    has_ended();
    return r;
}

int lookup_start(struct loop *loop, const char *host, const char *port, lookup_fn fn, void *arg,
                 struct lookup **ret)
{
    struct lookup *lookup = calloc(1, sizeof *lookup);
    struct question *question = calloc(1, sizeof *question);
    int r = lookup && question ? 0 : -ENOMEM;

    if (r == 0)
        r = loop_wake_new(loop, answered, lookup, &lookup->wake);
    if (r < 0) {
        free(lookup);
        free(question);
        return r;
    }
    (void)pthread_mutex_init(&question->lock, NULL);
    question->refs = 1;
    question->wake = lookup->wake;
    (void)snprintf(question->host, sizeof question->host, "%s", host);
    (void)snprintf(question->port, sizeof question->port, "%s", port);
    lookup->question = question;
    lookup->fn = fn;
    lookup->arg = arg;
    /* What is an address already needs no thread. */
    question->error = ask(question, AI_NUMERICHOST);
    if (question->error == 0)
        loop_wake_send(lookup->wake);
    else if ((r = start_thread(question)) < 0) {
        lookup_cancel(lookup);
        return r;
    }
    *ret = lookup;
    return 0;
}

void lookup_cancel(struct lookup *lookup)
{
    if (!lookup)
        return;
    (void)pthread_mutex_lock(&lookup->question->lock);
    lookup->question->wake = NULL;
    (void)pthread_mutex_unlock(&lookup->question->lock);
    loop_wake_free(lookup->wake);
    unref(lookup->question);
    free(lookup);
}
