#include "ctl/output.h"

#include <errno.h>
#include <libsmartcols/libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "ctl/ctl.h"

enum {
    CELL_MAX = 64 * 1024,
    HEADING_MAX = 32,
};

struct output {
    struct ctl *ctl;
    const struct output_table *table;
    const struct output_column *chosen[OUTPUT_COLUMNS_MAX];
    size_t n_chosen;
    struct libscols_table *scols;
};

/* ---- which columns ---- */

static const struct output_column *find(const struct output_table *table, const char *name,
                                        size_t len)
{
    for (size_t i = 0; i < table->n_columns; i++)
        if (strlen(table->columns[i].name) == len &&
            !strncasecmp(table->columns[i].name, name, len))
            return &table->columns[i];
    return NULL;
}

static int refuse(struct ctl *ctl, const struct output_table *table, const char *name, size_t len)
{
    char all[512] = "";

    for (size_t i = 0; i < table->n_columns; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? "," : "",
                 table->columns[i].name);
    return ctl_usage(ctl, "--columns: %.*s: no such column; there are: %s", (int)len, name, all);
}

static int choose(struct ctl *ctl, const struct output_table *table,
                  const struct output_column **chosen, size_t *ret_n)
{
    const char *rest = ctl->globals.columns;
    size_t n = 0;

    if (!rest) {
        for (size_t i = 0; i < table->n_columns; i++)
            if (table->columns[i].shown)
                chosen[n++] = &table->columns[i];
        *ret_n = n;
        return EXIT_OK;
    }
    for (;;) {
        size_t len = strcspn(rest, ",");
        const struct output_column *column = find(table, rest, len);

        if (!column)
            return refuse(ctl, table, rest, len);
        if (n == OUTPUT_COLUMNS_MAX)
            return ctl_usage(ctl, "--columns: more than %d of them", OUTPUT_COLUMNS_MAX);
        chosen[n++] = column;
        if (!rest[len])
            break;
        rest += len + 1;
    }
    *ret_n = n;
    return EXIT_OK;
}

int output_check(struct ctl *ctl, const struct output_table *table)
{
    const struct output_column *chosen[OUTPUT_COLUMNS_MAX];
    size_t n;

    return choose(ctl, table, chosen, &n);
}

int output_begin(struct ctl *ctl, const struct output_table *table)
{
    int status = output_check(ctl, table);

    return status == EXIT_OK ? ctl_connect(ctl) : status;
}

/* ---- cells ---- */

static void heading(const struct output_column *column, char ret[HEADING_MAX])
{
    size_t i;

    for (i = 0; column->name[i] && i < HEADING_MAX - 1; i++)
        ret[i] = (char)(column->name[i] >= 'a' && column->name[i] <= 'z' ? column->name[i] - 32
                                                                         : column->name[i]);
    ret[i] = 0;
}

/* The text of a cell, safe, never empty. */
static int cell(const struct output_column *column, const void *row, struct buf *buf)
{
    AUTO(buf_done) struct buf raw = BUF_INIT(CELL_MAX);

    column->cell(row, &raw);
    if (buf_error(&raw) < 0)
        return buf_error(&raw);
    buf_reset(buf);
    if (raw.len)
        buf_add_escaped(buf, buf_str(&raw), raw.len);
    else
        buf_addc(buf, '-');
    return buf_error(buf);
}

static int out_of_memory(struct ctl *ctl)
{
    return ctl_fail(ctl, XCE_FAILED, "out of memory");
}

/* ---- a table ---- */

static int set_up(struct output *output)
{
    struct libscols_table *scols = scols_new_table();

    if (!scols)
        return -ENOMEM;
    output->scols = scols;
    scols_table_enable_noheadings(scols, output->ctl->globals.no_headings);
    /* The cells are safe already, and are all shown whole. */
    scols_table_enable_noencoding(scols, 1);
    scols_table_set_termforce(scols, SCOLS_TERMFORCE_NEVER);
    for (size_t i = 0; i < output->n_chosen; i++) {
        char name[HEADING_MAX];

        heading(output->chosen[i], name);
        if (!scols_table_new_column(scols, name, 0, output->chosen[i]->right ? SCOLS_FL_RIGHT : 0))
            return -ENOMEM;
    }
    return 0;
}

struct output *output_new(struct ctl *ctl, const struct output_table *table)
{
    struct output *output = calloc(1, sizeof *output);

    if (!output) {
        out_of_memory(ctl);
        return NULL;
    }
    output->ctl = ctl;
    output->table = table;
    if (choose(ctl, table, output->chosen, &output->n_chosen) != EXIT_OK) {
        free(output);
        return NULL;
    }
    if (set_up(output) < 0) {
        out_of_memory(ctl);
        output_free(output);
        return NULL;
    }
    return output;
}

int output_add(struct output *output, const void *rows, size_t n)
{
    AUTO(buf_done) struct buf text = BUF_INIT(4 * CELL_MAX + 4);

    for (size_t i = 0; i < n; i++) {
        const void *row = (const char *)rows + i * output->table->row_size;
        struct libscols_line *line = scols_table_new_line(output->scols, NULL);

        if (!line)
            return out_of_memory(output->ctl);
        for (size_t c = 0; c < output->n_chosen; c++)
            if (cell(output->chosen[c], row, &text) < 0 ||
                scols_line_set_data(line, c, buf_str(&text)) != 0)
                return out_of_memory(output->ctl);
    }
    return EXIT_OK;
}

void output_free(struct output *output)
{
    if (!output)
        return;
    if (output->scols)
        scols_unref_table(output->scols);
    free(output);
}

int output_print(struct output *output)
{
    struct ctl *ctl = output->ctl;
    int r = 0;

    /* libsmartcols prints nothing for an empty table; its headings still say what would be there. */
    if (scols_table_get_nlines(output->scols) == 0 && !ctl->globals.no_headings) {
        for (size_t i = 0; i < output->n_chosen; i++) {
            char name[HEADING_MAX];

            heading(output->chosen[i], name);
            printf("%s%s", i ? " " : "", name);
        }
        printf("\n");
    } else {
        r = scols_print_table(output->scols);
    }
    output_free(output);
    if (r == -ENOMEM)
        return out_of_memory(ctl);
    return ctl_finish_stdout(ctl);
}

int output_rows(struct ctl *ctl, const struct output_table *table, const void *rows, size_t n)
{
    struct output *output = output_new(ctl, table);
    int status;

    if (!output)
        return ctl->globals.columns ? EXIT_USAGE : EXIT_FAILED;
    status = output_add(output, rows, n);
    if (status == EXIT_OK)
        return output_print(output);
    output_free(output);
    return status;
}

/* ---- one row, line by line ---- */

int output_lines(struct ctl *ctl, const struct output_table *table, const void *row)
{
    AUTO(buf_done) struct buf text = BUF_INIT(4 * CELL_MAX + 4);

    for (size_t i = 0; i < table->n_columns; i++) {
        if (cell(&table->columns[i], row, &text) < 0)
            return out_of_memory(ctl);
        printf("%s: %s\n", table->columns[i].name, buf_str(&text));
    }
    return ctl_finish_stdout(ctl);
}

/* ---- a stream ---- */

/* The last column is not filled up, but for numbers. */
static void put_field(const struct output_column *column, size_t *width, const char *text,
                      bool last)
{
    size_t len = strlen(text);
    int blanks;

    if (len > *width)
        *width = len;
    blanks = (int)(*width - len);
    printf("%*s%s%*s%c", column->right ? blanks : 0, "", text, column->right || last ? 0 : blanks,
           "", last ? '\n' : ' ');
}

static void begin_stream(struct ctl *ctl, struct output_stream *stream,
                         const struct output_column *const *chosen, size_t n)
{
    char name[HEADING_MAX];

    for (size_t i = 0; i < n; i++) {
        stream->widths[i] = strlen(chosen[i]->name);
        if (stream->widths[i] < chosen[i]->width)
            stream->widths[i] = chosen[i]->width;
    }
    for (size_t i = 0; !ctl->globals.no_headings && i < n; i++) {
        heading(chosen[i], name);
        put_field(chosen[i], &stream->widths[i], name, i + 1 == n);
    }
}

int output_stream(struct ctl *ctl, struct output_stream *stream, const struct output_table *table,
                  const void *row)
{
    AUTO(buf_done) struct buf text = BUF_INIT(4 * CELL_MAX + 4);
    const struct output_column *chosen[OUTPUT_COLUMNS_MAX];
    size_t n;
    int status = choose(ctl, table, chosen, &n);

    if (status != EXIT_OK)
        return status;
    if (!stream->widths[0])
        begin_stream(ctl, stream, chosen, n);
    for (size_t i = 0; i < n; i++) {
        if (cell(chosen[i], row, &text) < 0)
            return out_of_memory(ctl);
        put_field(chosen[i], &stream->widths[i], buf_str(&text), i + 1 == n);
    }
    return ctl_finish_stdout(ctl);
}
