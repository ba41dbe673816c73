/* What tests of doctor share: a machine that is a folder. */
#ifndef XCE_TESTS_UNIT_CTL_DOCTOR_KIT_H
#define XCE_TESTS_UNIT_CTL_DOCTOR_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/fsutil.h"
#include "ctl/doctor.h"
#include "tests/lib/tmp.h"

static inline int kit_setup(void **state)
{
    static struct doctor doctor;

    doctor = (struct doctor){.root = tmp_dir()};
    *state = &doctor;
    return 0;
}

static inline int kit_teardown(void **state)
{
    doctor_done(*state);
    return 0;
}

/* A file of the machine, with the folders above it. */
static inline void kit_put(const struct doctor *doctor, const char *path, const char *text)
{
    char folder[512];
    const char *full;
    FILE *file;

    snprintf(folder, sizeof folder, "%s%s", doctor->root, path);
    *strrchr(folder, '/') = 0;
    assert_int_equal(fs_mkdir_p(folder, 0755), 0);
    full = tmp_path(doctor->root, "%s", path + 1);
    file = fopen(full, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(full, 0755), 0);
}

/* The finding of that id; NULL = there is none. */
static inline const struct finding *kit_found(const struct doctor *doctor, const char *id)
{
    for (size_t i = 0; i < doctor->n_findings; i++)
        if (!strcmp(doctor->findings[i].id, id))
            return &doctor->findings[i];
    return NULL;
}

/* That it is there, of that severity, and says that. */
static inline void kit_expect(const struct doctor *doctor, const char *id, enum severity severity,
                              const char *text)
{
    const struct finding *finding = kit_found(doctor, id);

    if (!finding || finding->severity != severity || !strstr(finding->message, text)) {
        for (size_t i = 0; i < doctor->n_findings; i++)
            print_message("%s %d: %s\n", doctor->findings[i].id, (int)doctor->findings[i].severity,
                          doctor->findings[i].message);
        fail_msg("no %s that says: %s", id, text);
    }
    assert_true(severity < SEVERITY_WARNING || finding->cure);
}

/* Forget what was found. */
static inline void kit_again(struct doctor *doctor)
{
    struct doctor kept = *doctor;

    doctor->have_map = false;
    doctor_done(doctor);
    kept.findings = NULL;
    kept.n_findings = 0;
    *doctor = kept;
}

#define KIT_TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

#endif
