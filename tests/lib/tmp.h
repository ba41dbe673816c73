/* Folders for a test's files. Gone when the process ends, however it ends: exit, failed assertion, abort, kill -9. */
#ifndef XCE_TESTS_LIB_TMP_H
#define XCE_TESTS_LIB_TMP_H

#include <stddef.h>

/* A new empty folder, 0700. The string lives until the process ends. Fails the program if it cannot. */
const char *tmp_dir(void);

/* "<dir>/<name>", name by format. The string lives until the process ends. */
const char *tmp_path(const char *dir, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Write a file of mode 0644 (whatever the umask) and give back its path. */
const char *tmp_write(const char *dir, const char *name, const char *text);
const char *tmp_write_bytes(const char *dir, const char *name, const void *bytes, size_t len);

/* What a file holds, NUL behind; freed by the caller. Fails the program if it cannot be read. */
char *tmp_read(const char *path);

/* Remove a folder with all in it before the end. */
void tmp_remove(const char *dir);

#endif
