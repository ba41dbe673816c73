#include "noded/sweep/kinds.h"

const struct sweep_kind sweep_kinds[] = {
    {"slices", SWEEP_SLICES, sweep_slices},        {"units", SWEEP_RUNNING, sweep_units},
    {"processes", SWEEP_RUNNING, sweep_processes}, {"sysv-shm", SWEEP_LYING, sweep_sysv_shm},
    {"sysv-sem", SWEEP_LYING, sweep_sysv_sem},     {"sysv-msg", SWEEP_LYING, sweep_sysv_msg},
    {"mqueues", SWEEP_LYING, sweep_mqueues},       {"mounts", SWEEP_LYING, sweep_mounts},
    {"files", SWEEP_LYING, sweep_files},           {"names", SWEEP_LYING, sweep_names},
    {"members", SWEEP_LYING, sweep_members},
};

const size_t n_sweep_kinds = sizeof(sweep_kinds) / sizeof(sweep_kinds[0]);
