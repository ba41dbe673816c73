/* Tables for people and for awk: home of libsmartcols.
 *
 * A table is rows of one type and columns that know how to write a cell. Empty cells are "-", so that fields can be
 * counted; foreign text is made safe. Nothing is truncated, coloured or wrapped. */
#ifndef XCE_CTL_OUTPUT_H
#define XCE_CTL_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"

struct ctl;

struct output_column {
    const char *name; /* for -o; also the key in JSON */
    bool shown;       /* without -o */
    bool right;       /* numbers */
    void (*cell)(const void *row, struct buf *buf);
    unsigned char width; /* in a stream, to begin with; its heading fits in any case */
};

enum {
    OUTPUT_COLUMNS_MAX = 32,
};

struct output_table {
    const struct output_column *columns;
    size_t n_columns;
    size_t row_size;
};

/* Whether -o names columns of this table: before anything is asked or changed. An exit status. */
int output_check(struct ctl *ctl, const struct output_table *table);
/* The same, then ctl_connect: for verbs that have nothing else to check. */
int output_begin(struct ctl *ctl, const struct output_table *table);

/* Rows are added page by page, then printed once. */
struct output;
struct output *output_new(struct ctl *ctl,
                          const struct output_table *table);       /* NULL: no memory, told */
int output_add(struct output *output, const void *rows, size_t n); /* an exit status */
/* Print, and free in any case. An exit status. */
int output_print(struct output *output);
void output_free(struct output *output);

/* The three in one. */
int output_rows(struct ctl *ctl, const struct output_table *table, const void *rows, size_t n);

/* One row whole, all columns, one "name: value" a line. */
int output_lines(struct ctl *ctl, const struct output_table *table, const void *row);

/* A stream: each row goes out at once, headings with the first. A column is as wide as what was in it so far. */
struct output_stream {
    size_t widths[OUTPUT_COLUMNS_MAX]; /* 0 = nothing was printed yet */
};
int output_stream(struct ctl *ctl, struct output_stream *stream, const struct output_table *table,
                  const void *row);

#endif
