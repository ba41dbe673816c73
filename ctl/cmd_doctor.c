/* leasectl doctor: look at this machine and say what is wrong with it. */
#include <stdio.h>

#include "common/json.h"
#include "ctl/ctl.h"
#include "ctl/doctor.h"
#include "ctl/output.h"
#include "ctl/verb.h"

static const char *severity_word(enum severity severity)
{
    static const char *const words[] = {"ok", "note", "warning", "error"};

    return words[severity];
}

#define FINDING ((const struct finding *)row)

static void cell_severity(const void *row, struct buf *buf)
{
    buf_adds(buf, severity_word(FINDING->severity));
}

static void cell_check(const void *row, struct buf *buf)
{
    buf_adds(buf, FINDING->check);
}

static void cell_message(const void *row, struct buf *buf)
{
    buf_adds(buf, FINDING->message);
}

static void cell_cure(const void *row, struct buf *buf)
{
    if (FINDING->cure)
        buf_adds(buf, FINDING->cure);
}

static const struct output_column columns[] = {
    {"severity", true, false, cell_severity},
    {"check", true, false, cell_check},
    {"message", true, false, cell_message},
    {"cure", true, false, cell_cure},
};

static const struct output_table table = {columns, sizeof columns / sizeof columns[0],
                                          sizeof(struct finding)};

static size_t count(const struct doctor *doctor, enum severity severity)
{
    size_t n = 0;

    for (size_t i = 0; i < doctor->n_findings; i++)
        n += doctor->findings[i].severity == severity;
    return n;
}

static int print_json(struct ctl *ctl, const struct doctor *doctor)
{
    struct json *object = json_new_object(), *array = json_new_array();

    for (size_t i = 0; i < doctor->n_findings; i++) {
        const struct finding *finding = &doctor->findings[i];
        struct json *entry = json_new_object();

        json_set_string(entry, "severity", severity_word(finding->severity));
        json_set_string(entry, "check", finding->check);
        json_set_string(entry, "message", finding->message);
        json_set_string(entry, "cure", finding->cure);
        json_append(array, entry);
    }
    json_set(object, "findings", array);
    json_set_u64(object, "errors", count(doctor, SEVERITY_ERROR));
    json_set_u64(object, "warnings", count(doctor, SEVERITY_WARNING));
    return ctl_print_json(ctl, object);
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    struct doctor doctor = {.ctl = ctl, .root = ""};
    int status = output_check(ctl, &table);

    (void)memory;
    (void)n_words;
    (void)words;
    if (status != EXIT_OK)
        return status;
    for (size_t i = 0; i < doctor_n_checks; i++)
        doctor_checks[i].run(&doctor);
    if (doctor.out_of_memory)
        status = ctl_fail(ctl, XCE_FAILED, "out of memory");
    else if (ctl->globals.json)
        status = print_json(ctl, &doctor);
    else
        status = output_rows(ctl, &table, doctor.findings, doctor.n_findings);
    if (status == EXIT_OK && count(&doctor, SEVERITY_ERROR))
        status = EXIT_FAILED;
    doctor_done(&doctor);
    return status;
}

const struct verb cmd_doctor = {
    .name = "doctor",
    .args = "",
    .summary = "Look at this machine and say what is wrong with it, and what helps",
    .more = "Exit status 1 when a finding is an error.",
    .exec = exec,
};
