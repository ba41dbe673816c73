/* The descriptors of all interfaces, as descriptors.py made them of the .proto files at build time. Constant. */
#ifndef XCE_LEASED_RPC_DESCRIPTORS_H
#define XCE_LEASED_RPC_DESCRIPTORS_H

#include <stddef.h>
#include <stdint.h>

struct descriptor_file {
    const char *name;     /* "xce/v1/lease.proto" */
    const uint8_t *bytes; /* a serialized FileDescriptorProto */
    size_t len;
    const uint16_t *closure; /* indices: the file itself, then all it needs */
    size_t n_closure;
};

struct descriptor_symbol {
    const char *name; /* "xce.v1.LeaseService.Get", without a leading dot */
    uint16_t file;
};

extern const struct descriptor_file descriptor_files[];
extern const size_t n_descriptor_files;
/* Sorted by name. */
extern const struct descriptor_symbol descriptor_symbols[];
extern const size_t n_descriptor_symbols;

#endif
