/* Runs a fuzz target on each file of the folders it is given, for compilers without libFuzzer.
 * usage: seeds_NAME FOLDER... */
#include <dirent.h>
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run_file(const char *path, size_t size)
{
    /* Just as large as the input, so that a sanitizer sees every step beyond it. */
    uint8_t *data = malloc(size ? size : 1);
    FILE *file = fopen(path, "re");

    if (!data || !file || fread(data, 1, size, file) != size)
        err(1, "%s", path);
    fclose(file);
    fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
}

static size_t run_folder(const char *folder)
{
    struct dirent **entries;
    int n = scandir(folder, &entries, NULL, alphasort), i;
    size_t ran = 0;
    struct stat st;
    char *path;

    if (n < 0)
        err(1, "%s", folder);
    for (i = 0; i < n; i++) {
        if (asprintf(&path, "%s/%s", folder, entries[i]->d_name) < 0 || stat(path, &st) < 0)
            err(1, "%s", folder);
        if (S_ISREG(st.st_mode)) {
            run_file(path, (size_t)st.st_size);
            ran++;
        }
        free(path);
        free(entries[i]);
    }
    free(entries);
    return ran;
}

int main(int argc, char **argv)
{
    int i;

    if (argc < 2)
        errx(2, "usage: %s FOLDER...", argv[0]);
    for (i = 1; i < argc; i++)
        if (run_folder(argv[i]) == 0)
            errx(1, "%s: no seeds", argv[i]);
    return 0;
}
