/* leasectl doctor: look at this machine and say what is wrong with it. */
#include <stdio.h>

#include "common/json.h"
#include "common/mem.h"
#include "ctl/ctl.h"
#include "ctl/doctor.h"
#include "ctl/output.h"
#include "ctl/verb.h"

static const char *severity_word(enum severity severity)
{
    static const char *const words[] = {"ok", "note", "warning", "error"};

    return words[severity];
}

struct doctor_options {
    bool all;
};

static const struct option_entry options[] = {
    {"all", 0, OPTION_FLAG, offsetof(struct doctor_options, all), NULL, "what is well, too", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

#define FINDING ((const struct finding *)row)

static void cell_severity(const void *row, struct buf *buf)
{
    buf_adds(buf, severity_word(FINDING->severity));
}

static void cell_check(const void *row, struct buf *buf)
{
    buf_add(buf, FINDING->id, doctor_check_len(FINDING->id));
}

static void cell_id(const void *row, struct buf *buf)
{
    buf_adds(buf, FINDING->id);
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
    {"id", false, false, cell_id},
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
        json_set(entry, "check", json_new_bytes(finding->id, doctor_check_len(finding->id)));
        json_set_string(entry, "id", finding->id);
        json_set_string(entry, "message", finding->message);
        json_set_string(entry, "cure", finding->cure);
        json_append(array, entry);
    }
    json_set(object, "findings", array);
    json_set_u64(object, "errors", count(doctor, SEVERITY_ERROR));
    json_set_u64(object, "warnings", count(doctor, SEVERITY_WARNING));
    return ctl_print_json(ctl, object);
}

/* What is not well, or all; and a word on the rest. */
static int print_table(struct ctl *ctl, const struct doctor *doctor, bool all)
{
    struct output *output = output_new(ctl, &table);
    size_t n_shown = 0, n_well = count(doctor, SEVERITY_OK);
    int status = output ? EXIT_OK : EXIT_FAILED;

    for (size_t i = 0; status == EXIT_OK && i < doctor->n_findings; i++) {
        if (doctor->findings[i].severity == SEVERITY_OK && !all)
            continue;
        status = output_add(output, &doctor->findings[i], 1);
        n_shown++;
    }
    if (status == EXIT_OK && n_shown)
        status = output_print(mem_take(output));
    output_free(output);
    if (status == EXIT_OK && !all)
        ctl_say(ctl, n_shown ? "%zu checks found nothing amiss" : "all is well: %zu checks",
                n_well);
    return status;
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct doctor_options *given = memory;
    struct doctor doctor = {.ctl = ctl, .root = ""};
    int status = output_check(ctl, &table);

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
        status = print_table(ctl, &doctor, given->all);
    if (status == EXIT_OK && count(&doctor, SEVERITY_ERROR))
        status = EXIT_FAILED;
    doctor_done(&doctor);
    return status;
}

const struct verb cmd_doctor = {
    .name = "doctor",
    .args = "",
    .options = options,
    .memory = sizeof(struct doctor_options),
    .summary = "Look at this machine and say what is wrong with it, and what helps",
    .more = "Exit status 1 when a finding is an error.",
    .exec = exec,
};
