#include "leased/engine/sqlite.h"

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "common/digest.h"
#include "leased/engine/sqlite_inner.h"

/* One part into its place. */
static int read_part(struct sqlite_file *file, sqlite3_stmt *statement, unsigned seq,
                     uint8_t *bytes, size_t room, size_t *ret_len)
{
    int native = sqlite3_step(statement);
    const void *part;
    size_t len;

    if (native != SQLITE_ROW && native != SQLITE_DONE)
        return sqlite_failed(file, "table part");
    if (native == SQLITE_DONE || sqlite3_column_int64(statement, 0) != seq)
        return sqlite_say(file, -EBADMSG,
                          "damaged: table part, snapshot %" PRIu64
                          ": part %u is missing; " SQLFILE_WAY_BACK,
                          file->position.snapshot_entry, seq);
    part = sqlite3_column_blob(statement, 1);
    len = (size_t)sqlite3_column_bytes(statement, 1);
    if (len && !part)
        return sqlite_say(file, -ENOMEM, "out of memory");
    if (len > room)
        return sqlite_say(file, -EBADMSG,
                          "damaged: table part, snapshot %" PRIu64
                          ": part %u is too long; " SQLFILE_WAY_BACK,
                          file->position.snapshot_entry, seq);
    if (len)
        memcpy(bytes, part, len);
    *ret_len = len;
    return 0;
}

static int read_parts(struct sqlite_file *file, unsigned n_parts, uint8_t *bytes, size_t len)
{
    sqlite3_stmt *statement;
    size_t at = 0, part_len = 0;
    int r = 0;

    if (sqlite3_prepare_v2(file->db, "SELECT seq, bytes FROM part WHERE entry = ?1 ORDER BY seq",
                           -1, &statement, NULL) != SQLITE_OK)
        return sqlite_failed(file, "table part");
    (void)sqlite3_bind_int64(statement, 1, (sqlite3_int64)file->position.snapshot_entry);
    for (unsigned seq = 0; r == 0 && seq < n_parts; seq++) {
        r = read_part(file, statement, seq, bytes + at, len - at, &part_len);
        if (r == 0)
            at += part_len;
    }
    (void)sqlite3_finalize(statement);
    if (r == 0 && at != len)
        r = sqlite_say(file, -EBADMSG,
                       "damaged: table part, snapshot %" PRIu64
                       ": %zu bytes instead of %zu; " SQLFILE_WAY_BACK,
                       file->position.snapshot_entry, at, len);
    return r;
}

static int read_snapshot(struct sqlite_file *file, uint8_t **ret, size_t *ret_len)
{
    int64_t len, parts, crc;
    uint8_t *bytes;
    int r = sqlite_get_int(file, "SELECT bytes FROM snapshot", &len);

    if (r == 0)
        r = sqlite_get_int(file, "SELECT parts FROM snapshot", &parts);
    if (r == 0)
        r = sqlite_get_int(file, "SELECT crc FROM snapshot", &crc);
    if (r < 0)
        return r;
    if (len <= 0 || len > INT32_MAX || parts <= 0 || parts > INT32_MAX)
        return sqlite_say(file, -EBADMSG,
                          "damaged: table snapshot, row %" PRIu64
                          ": impossible length; " SQLFILE_WAY_BACK,
                          file->position.snapshot_entry);
    bytes = malloc((size_t)len);
    if (!bytes)
        return sqlite_say(file, -ENOMEM, "out of memory");
    r = read_parts(file, (unsigned)parts, bytes, (size_t)len);
    if (r == 0 && digest_crc32c(0, bytes, (size_t)len) != (uint32_t)crc)
        r = sqlite_say(file, -EBADMSG,
                       "damaged: table snapshot, row %" PRIu64
                       ": the checksum is wrong; " SQLFILE_WAY_BACK,
                       file->position.snapshot_entry);
    if (r < 0) {
        free(bytes);
        return r;
    }
    *ret = bytes;
    *ret_len = (size_t)len;
    return 0;
}

int sqlite_read_snapshot(struct sqlite_file *file, uint8_t **ret, size_t *ret_len,
                         char why[static SQLFILE_WHY_MAX])
{
    int r;

    *ret = NULL;
    *ret_len = 0;
    if (file->position.snapshot_entry == 0)
        return 0;
    r = read_snapshot(file, ret, ret_len);
    if (r < 0)
        memcpy(why, file->why, SQLFILE_WHY_MAX);
    return r;
}

static int replay_row(struct sqlite_file *file, sqlite3_stmt *statement, uint64_t index,
                      int (*fn)(uint64_t index, const uint8_t *entry, size_t len, void *arg),
                      void *arg)
{
    const uint8_t *entry = sqlite3_column_blob(statement, 2);
    size_t len = (size_t)sqlite3_column_bytes(statement, 2);

    if (len && !entry)
        return sqlite_say(file, -ENOMEM, "out of memory");
    if ((uint64_t)sqlite3_column_int64(statement, 0) != index)
        return sqlite_say(file, -EBADMSG,
                          "damaged: table log, row %" PRIu64 ": is not there; " SQLFILE_WAY_BACK,
                          index);
    if ((uint32_t)sqlite3_column_int64(statement, 1) != sqlite_entry_crc(index, entry, len))
        return sqlite_say(
            file, -EBADMSG,
            "damaged: table log, row %" PRIu64 ": the checksum is wrong; " SQLFILE_WAY_BACK, index);
    return fn(index, entry, len, arg);
}

int sqlite_replay(struct sqlite_file *file,
                  int (*fn)(uint64_t index, const uint8_t *entry, size_t len, void *arg), void *arg,
                  char why[static SQLFILE_WHY_MAX])
{
    uint64_t index = file->position.snapshot_entry + 1;
    sqlite3_stmt *statement;
    int native, r = 0;

    if (sqlite3_prepare_v2(file->db, "SELECT idx, crc, entry FROM log WHERE idx >= ?1 ORDER BY idx",
                           -1, &statement, NULL) != SQLITE_OK) {
        r = sqlite_failed(file, "table log");
        memcpy(why, file->why, SQLFILE_WHY_MAX);
        return r;
    }
    (void)sqlite3_bind_int64(statement, 1, (sqlite3_int64)index);
    while (r == 0 && (native = sqlite3_step(statement)) == SQLITE_ROW)
        r = replay_row(file, statement, index++, fn, arg);
    if (r == 0 && native != SQLITE_DONE)
        r = sqlite_failed(file, "table log");
    if (r == 0 && index != file->position.last_entry + 1)
        r = sqlite_say(file, -EBADMSG,
                       "damaged: table log, row %" PRIu64 ": is not there; " SQLFILE_WAY_BACK,
                       index);
    (void)sqlite3_finalize(statement);
    if (r != 0)
        memcpy(why, file->why, SQLFILE_WHY_MAX);
    return r;
}

int sqlite_complain(struct sqlite_file *file, char why[static SQLFILE_WHY_MAX], const char *table,
                    uint64_t row, const char *what)
{
    int r = sqlite_say(file, -EBADMSG, "damaged: %s, row %" PRIu64 ": %s; " SQLFILE_WAY_BACK, table,
                       row, what ? what : "is not understood");

    memcpy(why, file->why, SQLFILE_WHY_MAX);
    return r;
}
