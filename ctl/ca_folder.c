#include "ctl/ca_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fsutil.h"
#include "ctl/ctl.h"

enum {
    INDEX_BYTES_MAX = 64 << 20,
    LINE_BYTES_MAX = 512,
};

char *ca_folder_file(const char *folder, const char *name, char ret[static CA_PATH_BUF])
{
    (void)snprintf(ret, CA_PATH_BUF, "%s/%s", folder, name);
    return ret;
}

/* ---- files ---- */

int ca_read(struct ctl *ctl, const char *path, bool secret, char **ret)
{
    struct stat st;
    int r;

    if (secret && stat(path, &st) == 0 && (st.st_mode & 077))
        return ctl_fail(ctl, XCE_FAILED, "%s: mode %03o: others than its owner can read the key",
                        path, st.st_mode & 0777u);
    r = fs_read_file(AT_FDCWD, path, CERT_PEM_MAX, ret, NULL);
    if (r == 0)
        return EXIT_OK;
    return ctl_fail(ctl, r == -ENOENT ? XCE_NOT_FOUND : XCE_FAILED, "%s: %s", path, err_text(r));
}

int ca_write_new(struct ctl *ctl, const char *path, const char *text, unsigned mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode), r;

    if (fd < 0)
        return ctl_fail(ctl, errno == EEXIST ? XCE_EXISTS : XCE_FAILED, "%s: %s", path,
                        errno == EEXIST ? "is there already, and is not written over"
                                        : err_text(errno));
    r = fs_write_all(fd, text, strlen(text));
    if (r == 0 && (fchmod(fd, mode) < 0 || fsync(fd) < 0))
        r = -errno;
    (void)close(fd);
    if (r == 0)
        r = fs_sync_parent(AT_FDCWD, path);
    if (r == 0)
        return EXIT_OK;
    (void)unlink(path);
    return ctl_fail(ctl, XCE_FAILED, "%s: %s", path, err_text(r));
}

static int replace(struct ctl *ctl, const struct ca_folder *folder, const char *name,
                   const char *text, size_t len)
{
    char path[CA_PATH_BUF];
    int r = fs_write_file(AT_FDCWD, ca_folder_file(folder->path, name, path), text, len, 0644);

    return r < 0 ? ctl_fail(ctl, XCE_FAILED, "%s: %s", path, err_text(r)) : EXIT_OK;
}

/* ---- birth ---- */

static int write_crl(struct ctl *ctl, const struct ca_folder *folder, const char *const *serials,
                     size_t n)
{
    AUTO(cert_pem_free) char *pem = NULL;
    struct err err = {{0}};

    if (cert_crl_make(folder->ca, serials, n, &pem, &err) < 0)
        return ctl_fail(ctl, XCE_FAILED, "the revocation list: %s", err.text);
    return replace(ctl, folder, "crl.pem", pem, strlen(pem));
}

/* No two have the same: people could not tell them apart while one takes the other's place. */
static int name_by_key(const char *key, char ret[static CERT_NAME_MAX + 1])
{
    AUTO(cert_request_free) struct cert_request *request = NULL;
    uint8_t hash[CERT_KEY_HASH_LEN];
    int r = cert_request_of_key(key, &request, NULL);

    if (r < 0)
        return r;
    cert_request_key_hash(request, hash);
    (void)snprintf(ret, CERT_NAME_MAX + 1, "xce-lease CA %02x%02x%02x%02x", hash[0], hash[1],
                   hash[2], hash[3]);
    return 0;
}

static int make_files(struct ctl *ctl, const char *path, const char *name, int64_t life_ms)
{
    AUTO(cert_pem_free) char *key = NULL;
    AUTO(cert_pem_free) char *pem = NULL;
    char file[CA_PATH_BUF], by_key[CERT_NAME_MAX + 1];
    struct err err = {{0}};
    int status;

    if (cert_key_make(&key) < 0 || name_by_key(key, by_key) < 0)
        return ctl_fail(ctl, XCE_FAILED, "the key could not be made");
    if (cert_ca_make(name ? name : by_key, key, life_ms, &pem, &err) < 0)
        return ctl_usage(ctl, "%s", err.text);
    status = ca_write_new(ctl, ca_folder_file(path, "ca.key", file), key, 0600);
    if (status == EXIT_OK)
        status = ca_write_new(ctl, ca_folder_file(path, "index", file), "", 0644);
    /* Last: where there is a ca.pem, the folder is whole. */
    if (status == EXIT_OK)
        status = ca_write_new(ctl, ca_folder_file(path, "ca.pem", file), pem, 0644);
    return status;
}

int ca_folder_make(struct ctl *ctl, const char *path, const char *name, int64_t life_ms)
{
    struct ca_folder folder;
    int r = fs_mkdir_p(path, 0700), status;

    if (r < 0)
        return ctl_fail(ctl, XCE_FAILED, "%s: %s", path, err_text(r));
    status = make_files(ctl, path, name, life_ms);
    if (status == EXIT_OK)
        status = ca_folder_open(ctl, path, &folder);
    if (status != EXIT_OK)
        return status;
    status = write_crl(ctl, &folder, NULL, 0);
    ca_folder_close(&folder);
    return status;
}

/* ---- lines of the index ---- */

struct line {
    char serial[CERT_SERIAL_BUF], kind[16], name[CERT_NAME_MAX + 1], until[TEXT_TIME_BUF],
        revoked[TEXT_TIME_BUF];
};

/* One line of the index, *at moved behind it; false at its end. */
static bool next_line(const char **at, struct line *ret)
{
    char line[LINE_BYTES_MAX];
    size_t len = strcspn(*at, "\n");
    int end = 0;

    if (len == 0 || len >= sizeof line || (*at)[len] != '\n')
        return false;
    memcpy(line, *at, len);
    line[len] = '\0';
    if (sscanf(line, "%47s %15s %64s %31s %31s%n", ret->serial, ret->kind, ret->name, ret->until,
               ret->revoked, &end) != 5 ||
        line[end])
        return false;
    *at += len + 1;
    return true;
}

/* What comes after a damaged line would be forgotten, and who is revoked there let in again. */
static int check_index(struct ctl *ctl, const char *path, const char *index, size_t len)
{
    const char *at = index;
    struct line line;
    size_t n = 1;

    while (next_line(&at, &line))
        n++;
    if (at == index + len)
        return EXIT_OK;
    return ctl_fail(ctl, XCE_FAILED, "%s: line %zu is damaged: repair it by hand first", path, n);
}

/* ---- opening ---- */

static int load(struct ctl *ctl, struct ca_folder *folder)
{
    AUTO(cert_pem_free) char *key = NULL;
    char file[CA_PATH_BUF];
    struct err err = {{0}};
    int status = ca_read(ctl, ca_folder_file(folder->path, "ca.pem", file), false, &folder->pem);
    size_t len;
    int r;

    if (status == EXIT_OK)
        status = ca_read(ctl, ca_folder_file(folder->path, "ca.key", file), true, &key);
    if (status != EXIT_OK)
        return status;
    if (cert_ca_load(folder->pem, key, &folder->ca, &err) < 0)
        return ctl_fail(ctl, XCE_FAILED, "%s: %s", folder->path, err.text);
    r = fs_read_file(AT_FDCWD, ca_folder_file(folder->path, "index", file), INDEX_BYTES_MAX,
                     &folder->index, &len);
    if (r < 0)
        return ctl_fail(ctl, XCE_FAILED, "%s: %s", file, err_text(r));
    return check_index(ctl, file, folder->index, len);
}

int ca_folder_open(struct ctl *ctl, const char *path, struct ca_folder *ret)
{
    struct ca_folder folder = {.path = path ? path : CA_FOLDER_DEFAULT, .lock = -1};
    char file[CA_PATH_BUF];
    struct err err = {{0}};
    struct stat st;
    int status;

    if (stat(ca_folder_file(folder.path, "ca.pem", file), &st) < 0)
        return ctl_fail(ctl, errno == ENOENT ? XCE_NOT_FOUND : XCE_FAILED,
                        "%s: no CA there (leasectl cert init makes one)", folder.path);
    if (fs_lock_file(ca_folder_file(folder.path, "lock", file), &folder.lock, &err) < 0)
        return ctl_fail(ctl, XCE_FAILED, "%s", err.text);
    status = load(ctl, &folder);
    if (status != EXIT_OK)
        ca_folder_close(&folder);
    else
        *ret = folder;
    return status;
}

void ca_folder_close(struct ca_folder *folder)
{
    cert_ca_free(folder->ca);
    free(folder->pem);
    free(folder->index);
    folder->lock = mem_close(folder->lock);
}

int ca_folder_made(struct ctl *ctl, const struct ca_folder *folder, const char *pem,
                   const char *path)
{
    struct err err = {{0}};

    if (cert_ca_made(folder->ca, pem, &err) == 0)
        return EXIT_OK;
    return ctl_fail(ctl, XCE_FAILED, "%s: %s (%s)", path, err.text, folder->path);
}

/* ---- what the index says ---- */

/* revoked: when, "-" = not. */
static void add_line(struct buf *text, const struct cert_identity *identity, const char *revoked)
{
    char end[TEXT_TIME_BUF];

    /* cert_read lets no name with a blank pass. */
    buf_addf(text, "%s %s %s %s %s\n", identity->serial, cert_kind_name(identity->kind),
             identity->name, text_format_time(identity->not_after_ms, end), revoked);
}

int ca_folder_note(struct ctl *ctl, struct ca_folder *folder, const struct cert_identity *identity)
{
    AUTO(buf_done) struct buf text = BUF_INIT(INDEX_BYTES_MAX);

    buf_adds(&text, folder->index);
    add_line(&text, identity, "-");
    if (buf_error(&text) < 0)
        return ctl_fail(ctl, XCE_FAILED, "%s/index: is full", folder->path);
    return replace(ctl, folder, "index", buf_str(&text), text.len);
}

static bool has_ended(const struct line *line)
{
    int64_t end_ms;

    return text_parse_time(line->until, &end_ms, NULL) == 0 && end_ms < clock_wall_ms();
}

/* The list has all that are marked and have not ended: who has ended needs none. */
static int write_list(struct ctl *ctl, const struct ca_folder *folder, const char *index)
{
    const char **serials = NULL;
    size_t n = 0, cap = 0;
    struct line line;
    int status = EXIT_OK;

    for (const char *at = index; status == EXIT_OK && next_line(&at, &line);) {
        if (!strcmp(line.revoked, "-") || has_ended(&line))
            continue;
        if (mem_grow(&serials, &cap, n + 1, INDEX_BYTES_MAX, sizeof *serials) < 0 ||
            !(serials[n] = strdup(line.serial)))
            status = ctl_fail(ctl, XCE_FAILED, "out of memory");
        else
            n++;
    }
    if (status == EXIT_OK)
        status = write_crl(ctl, folder, serials, n);
    while (n > 0)
        free((char *)(uintptr_t)serials[--n]);
    free(serials);
    return status;
}

bool ca_folder_revoked(const struct ca_folder *folder, const char *serial,
                       char ret_since[static TEXT_TIME_BUF])
{
    struct line line;

    for (const char *at = folder->index; next_line(&at, &line);)
        if (!strcmp(line.serial, serial) && strcmp(line.revoked, "-") != 0) {
            memcpy(ret_since, line.revoked, sizeof line.revoked);
            return true;
        }
    return false;
}

/* What is to be marked: by serial, or all of a node. */
struct mark {
    const char *serial, *node;
    size_t n_known, n_new;
};

static bool is_meant(const struct mark *mark, const struct line *line)
{
    if (mark->serial)
        return !strcmp(line->serial, mark->serial);
    return !strcmp(line->kind, cert_kind_name(CERT_NODE)) && !strcmp(line->name, mark->node) &&
           !has_ended(line);
}

/* The index with the marks. */
static void mark_lines(const struct ca_folder *folder, struct mark *mark, const char *now,
                       struct buf *text)
{
    struct line line;

    for (const char *at = folder->index; next_line(&at, &line);) {
        bool meant = is_meant(mark, &line), is_new = meant && !strcmp(line.revoked, "-");

        mark->n_known += meant;
        mark->n_new += is_new;
        buf_addf(text, "%s %s %s %s %s\n", line.serial, line.kind, line.name, line.until,
                 is_new ? now : line.revoked);
    }
}

/* Keeps folder->index true: more may be marked. */
static int replace_index(struct ctl *ctl, struct ca_folder *folder, const struct buf *text)
{
    int status;

    if (buf_error(text) < 0)
        return ctl_fail(ctl, XCE_FAILED, "%s/index: is full", folder->path);
    status = replace(ctl, folder, "index", buf_str(text), text->len);
    if (status != EXIT_OK)
        return status;
    free(folder->index);
    folder->index = mem_must_strdup(buf_str(text));
    return write_list(ctl, folder, folder->index);
}

int ca_folder_revoke(struct ctl *ctl, struct ca_folder *folder, const char *serial,
                     const struct cert_identity *identity, bool *ret_new)
{
    AUTO(buf_done) struct buf text = BUF_INIT(INDEX_BYTES_MAX);
    struct mark mark = {.serial = serial};
    char now[TEXT_TIME_BUF], end[TEXT_TIME_BUF];

    (void)text_format_time(clock_wall_ms(), now);
    mark_lines(folder, &mark, now, &text);
    if (mark.n_known == 0 && identity)
        add_line(&text, identity, now);
    else if (mark.n_known == 0)
        buf_addf(&text, "%s unknown - %s %s\n", serial,
                 text_format_time(cert_ca_until_ms(folder->ca), end), now);
    *ret_new = mark.n_known == 0 || mark.n_new > 0;
    return replace_index(ctl, folder, &text);
}

int ca_folder_revoke_node(struct ctl *ctl, struct ca_folder *folder, const char *node,
                          size_t *ret_n)
{
    AUTO(buf_done) struct buf text = BUF_INIT(INDEX_BYTES_MAX);
    struct mark mark = {.node = node};
    char now[TEXT_TIME_BUF];

    mark_lines(folder, &mark, text_format_time(clock_wall_ms(), now), &text);
    if (mark.n_known == 0)
        return ctl_fail(ctl, XCE_NOT_FOUND,
                        "node %s: %s/index has none of it that is still good; what leased made for "
                        "it stands in the audit files: --serial",
                        node, folder->path);
    *ret_n = mark.n_new;
    return replace_index(ctl, folder, &text);
}
