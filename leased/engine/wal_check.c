#include "leased/engine/wal_check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/le.h"

#define HEADER_LEN 32
#define FRAME_LEN  24
#define MAGIC_LE   0x377f0682u /* the last bit says in which byte order the checksums were made */
#define VERSION    3007000u

struct wal {
    int fd;
    uint32_t page_len;
    bool big_endian;
    uint8_t salts[8];
    uint32_t sum[2];
    uint8_t *frame; /* FRAME_LEN + page_len */
};

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* SQLite's running sum; len is a multiple of 8. */
static void sum_add(struct wal *wal, const uint8_t *p, size_t len)
{
    uint32_t s1 = wal->sum[0], s2 = wal->sum[1];

    for (size_t i = 0; i < len; i += 8) {
        s1 += (wal->big_endian ? be32(p + i) : le_get_u32(p + i)) + s2;
        s2 += (wal->big_endian ? be32(p + i + 4) : le_get_u32(p + i + 4)) + s1;
    }
    wal->sum[0] = s1;
    wal->sum[1] = s2;
}

static bool sum_matches(const struct wal *wal, const uint8_t *stored)
{
    return be32(stored) == wal->sum[0] && be32(stored + 4) == wal->sum[1];
}

/* len bytes at offset; 0 when the file ends before. */
static int read_whole(int fd, uint8_t *bytes, size_t len, uint64_t offset)
{
    size_t got = 0;

    while (got < len) {
        ssize_t n = pread(fd, bytes + got, len - got, (off_t)(offset + got));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return 0;
        got += (size_t)n;
    }
    return 1;
}

/* 1 a header whose checksum is right; 0 none. */
static int read_header(struct wal *wal)
{
    uint8_t header[HEADER_LEN];
    int r = read_whole(wal->fd, header, sizeof header, 0);

    if (r <= 0)
        return r;
    if ((be32(header) & ~1u) != MAGIC_LE || be32(header + 4) != VERSION)
        return 0;
    wal->big_endian = be32(header) & 1;
    wal->page_len = be32(header + 8);
    if (wal->page_len < 512 || wal->page_len > 65536 || (wal->page_len & (wal->page_len - 1)))
        return 0;
    memcpy(wal->salts, header + 16, sizeof wal->salts);
    sum_add(wal, header, HEADER_LEN - 8);
    return sum_matches(wal, header + HEADER_LEN - 8);
}

static uint64_t frame_offset(const struct wal *wal, uint64_t frame)
{
    return HEADER_LEN + frame * (FRAME_LEN + (uint64_t)wal->page_len);
}

/* 1 read and of this generation; 0 the file ends, or an older generation begins. */
static int read_frame(struct wal *wal, uint64_t frame)
{
    int r = read_whole(wal->fd, wal->frame, FRAME_LEN + wal->page_len, frame_offset(wal, frame));

    return r <= 0 ? r : memcmp(wal->frame + 8, wal->salts, sizeof wal->salts) == 0;
}

static bool frame_good(struct wal *wal)
{
    sum_add(wal, wal->frame, 8);
    sum_add(wal, wal->frame + FRAME_LEN, wal->page_len);
    return be32(wal->frame) != 0 && sum_matches(wal, wal->frame + 16);
}

static bool frame_commits(const struct wal *wal)
{
    return be32(wal->frame + 4) != 0;
}

/* Frames of this generation from frame on: a commit among them with another behind it had been synced. */
static int look_behind(struct wal *wal, uint64_t frame, bool *ret_synced)
{
    bool commit = false;
    int r;

    *ret_synced = false;
    for (; (r = read_frame(wal, frame)) > 0; frame++) {
        if (commit) {
            *ret_synced = true;
            return 0;
        }
        commit = frame_commits(wal);
    }
    return r;
}

static int check_frames(struct wal *wal, struct wal_report *ret)
{
    uint64_t frame = 0;
    bool synced;
    int r;

    while ((r = read_frame(wal, frame)) > 0 && frame_good(wal)) {
        frame++;
        if (frame_commits(wal))
            ret->frames = frame;
    }
    if (r < 0)
        return r;
    ret->bad = frame_offset(wal, frame);
    /* A bad salt in one frame looks like the end of the generation: look behind it too. */
    r = look_behind(wal, frame, &synced);
    if (r == 0 && !synced)
        r = look_behind(wal, frame + 1, &synced);
    if (r < 0)
        return r;
    return synced ? WAL_DAMAGED : WAL_WHOLE;
}

int wal_check(const char *path, struct wal_report *ret)
{
    struct wal wal = {.fd = open(path, O_RDONLY | O_CLOEXEC)};
    int r;

    memset(ret, 0, sizeof *ret);
    if (wal.fd < 0)
        return errno == ENOENT ? WAL_NONE : -errno;
    r = read_header(&wal);
    if (r > 0) {
        wal.frame = malloc(FRAME_LEN + wal.page_len);
        r = wal.frame ? check_frames(&wal, ret) : -ENOMEM;
    } else if (r == 0) {
        r = WAL_NONE;
    }
    free(wal.frame);
    (void)close(wal.fd);
    return r;
}
