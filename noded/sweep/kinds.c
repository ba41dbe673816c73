#include "noded/sweep/kinds.h"

const struct sweep_kind sweep_kinds[] = {
    {"slices", SWEEP_SLICES, sweep_slices},
    {"units", SWEEP_RUNNING | SWEEP_BRIEF, sweep_units},
    {"uids", SWEEP_RUNNING | SWEEP_BRIEF, sweep_uids},
    {"processes", SWEEP_RUNNING, sweep_processes},
    {"slice folders", SWEEP_LYING, sweep_slice_folders},
    {"keyrings", SWEEP_LYING, sweep_keyrings},
    {"ipc", SWEEP_LYING, sweep_ipc},
    {"mounts", SWEEP_LYING, sweep_mounts},
    {"files", SWEEP_LYING, sweep_files},
    {"open files", SWEEP_LYING, sweep_open_files},
    {"names", SWEEP_LYING, sweep_names},
    {"journals", SWEEP_LYING, sweep_journals},
    {"members", SWEEP_LYING, sweep_members},
};

const size_t n_sweep_kinds = sizeof(sweep_kinds) / sizeof(sweep_kinds[0]);
