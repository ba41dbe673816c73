/* What fsm_kit.c and fsm_kit_backup.c share. */
#ifndef XCE_TESTS_LIB_FSM_KIT_INNER_H
#define XCE_TESTS_LIB_FSM_KIT_INNER_H

#include <protobuf-c/protobuf-c.h>

/* What is wrong, on standard error, and the end. more: may be NULL. */
void kit_die(const char *what, const char *more);
/* Borrowed; NULL gives none. */
ProtobufCBinaryData kit_bytes(const char *text);

#endif
