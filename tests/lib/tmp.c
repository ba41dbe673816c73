#include "tests/lib/tmp.h"

#include <err.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    pid_t owner;
    char root[64]; /* every folder of this process lies in it */
    unsigned n_dirs;
    char **strings; /* what callers keep until the end */
    size_t n_strings;
    int watcher; /* our end of the pipe that the watcher waits on */
} state;

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    /* A test may have taken its own rights away. */
    if (remove(path) != 0 && kind == FTW_DP) {
        (void)chmod(path, 0700);
        (void)remove(path);
    }
    return 0;
}

static void remove_tree(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static void at_exit(void)
{
    size_t i;

    /* A child that a test forked off shares the list, not the folder. */
    if (getpid() != state.owner)
        return;
    remove_tree(state.root);
    for (i = 0; i < state.n_strings; i++)
        free(state.strings[i]);
    free(state.strings);
    close(state.watcher);
}

/* A child that outlives us by a moment: when our end of the pipe closes without a word, it clears up. */
static void watch(int fd)
{
    char byte;
    int null;

    setsid();
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);
    dup2(null, 2);
    if (fd != 3)
        dup2(fd, 3);
    /* No descriptor of the test may stay open through us. */
    close_range(4, ~0U, 0);
    while (read(3, &byte, 1) > 0)
        ;
    remove_tree(state.root);
    _exit(0);
}

static void begin(void)
{
    const char *base = getenv("TMPDIR");
    int ends[2];
    pid_t pid;

    state.owner = getpid();
    snprintf(state.root, sizeof(state.root), "%.40s/xce-test-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(state.root) || pipe2(ends, O_CLOEXEC) < 0)
        err(1, "%s", state.root);
    /* Twice, so that the watcher is nobody's child: a test may wait for all of its own. */
    pid = fork();
    if (pid == 0) {
        close(ends[1]);
        if (fork() == 0)
            watch(ends[0]);
        _exit(0);
    }
    if (pid < 0)
        err(1, "fork");
    waitpid(pid, NULL, 0);
    close(ends[0]);
    state.watcher = ends[1];
    atexit(at_exit);
}

static const char *keep(char *string)
{
    state.strings = realloc(state.strings, (state.n_strings + 1) * sizeof(char *));
    if (!state.strings || !string)
        err(1, "memory");
    state.strings[state.n_strings++] = string;
    return string;
}

const char *tmp_dir(void)
{
    char *path;

    if (state.owner == 0)
        begin();
    if (asprintf(&path, "%s/%u", state.root, state.n_dirs++) < 0 || mkdir(path, 0700) < 0)
        err(1, "%s", state.root);
    return keep(path);
}

const char *tmp_path(const char *dir, const char *format, ...)
{
    char *name, *path;
    va_list args;

    va_start(args, format);
    if (vasprintf(&name, format, args) < 0 || asprintf(&path, "%s/%s", dir, name) < 0)
        err(1, "memory");
    va_end(args);
    free(name);
    return keep(path);
}

const char *tmp_write(const char *dir, const char *name, const char *text)
{
    return tmp_write_bytes(dir, name, text, strlen(text));
}

const char *tmp_write_bytes(const char *dir, const char *name, const void *bytes, size_t len)
{
    const char *path = tmp_path(dir, "%s", name);
    FILE *file = fopen(path, "we");

    if (!file || fchmod(fileno(file), 0644) < 0 || fwrite(bytes, 1, len, file) != len ||
        fclose(file) != 0)
        err(1, "%s", path);
    return path;
}

char *tmp_read(const char *path)
{
    char *text = NULL, piece[4096];
    FILE *file = fopen(path, "re"), *out;
    size_t len, n;

    out = open_memstream(&text, &len);
    if (!file || !out)
        err(1, "%s", path);
    while ((n = fread(piece, 1, sizeof(piece), file)) > 0)
        fwrite(piece, 1, n, out);
    fclose(file);
    if (fclose(out) != 0)
        err(1, "%s", path);
    return text;
}

void tmp_remove(const char *dir)
{
    remove_tree(dir);
}
