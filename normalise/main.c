/* xce-normalise: gives the files of one uid to another one, and proves that none is left. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/err.h"
#include "common/fsutil.h"
#include "common/mem.h"
#include "normalise/options.h"
#include "normalise/privilege.h"
#include "normalise/refuse.h"
#include "normalise/report.h"
#include "normalise/root.h"
#include "normalise/run.h"

enum {
    CODE_CLEAN = 0,
    CODE_DIRTY = 1, /* or blocked */
    CODE_USAGE = 2,
    CODE_UNPROVEN = 3,
    CODE_FAILED = 4,
};

static int complain(int code, const char *text)
{
    (void)fprintf(stderr, "xce-normalise: %s\n", text);
    return code;
}

/* 0; -errno with err. */
static int may_begin(const struct options *options, struct err *err)
{
    int r = refuse_mapped(err);

    if (r == 0)
        r = refuse_pools(options->map, &options->ids, err);
    return r < 0 ? r : privilege_check(options_scan(options), err);
}

static int code_of(const struct verdict_info *info)
{
    switch (info->verdict) {
    case VERDICT_CLEAN:
        return CODE_CLEAN;
    case VERDICT_DIRTY:
    case VERDICT_BLOCKED:
        return CODE_DIRTY;
    case VERDICT_UNPROVEN:
        break;
    }
    return CODE_UNPROVEN;
}

static int carry_out(const struct options *options, struct root *roots, struct report *report)
{
    struct verdict_info info;
    int r = run_signals();

    if (r == 0)
        r = privilege_drop(options_scan(options));
    if (r < 0)
        return complain(CODE_FAILED, err_text(r));
    report_start(report);
    r = run(options, roots, options->n_paths, report, &info);
    if (r < 0)
        return complain(CODE_FAILED, err_text(r));
    report_end(report, &info);
    r = report_error(report);
    if (r < 0) {
        (void)fprintf(stderr, "xce-normalise: the report could not be written: %s\n", err_text(r));
        return CODE_FAILED;
    }
    return code_of(&info);
}

static int roots_do(const struct options *options, struct root *roots)
{
    struct err err = {{0}};
    struct report *report;
    int code;

    for (size_t i = 0; i < options->n_paths; i++)
        if (root_open(options->paths[i], options->allow_overlay, &roots[i], &err) < 0)
            return complain(CODE_USAGE, err.text);
    report = report_new(options, roots, options->n_paths);
    if (!report)
        return complain(CODE_FAILED, err_text(-ENOMEM));
    code = carry_out(options, roots, report);
    report_free(report);
    return code;
}

int main(int argc, char **argv)
{
    struct options options;
    struct err err = {{0}};
    struct root *roots;
    int code, r;

    fs_fill_standard();
    r = options_parse(argc, argv, &options, &err);
    if (r == OPTIONS_DONE)
        return CODE_CLEAN;
    if (r < 0 || may_begin(&options, &err) < 0)
        return complain(CODE_USAGE, err.text);
    roots = calloc(options.n_paths, sizeof *roots);
    if (!roots)
        return complain(CODE_FAILED, err_text(-ENOMEM));
    code = roots_do(&options, roots);
    for (size_t i = 0; i < options.n_paths; i++)
        root_done(&roots[i]);
    free(roots);
    return code;
}
