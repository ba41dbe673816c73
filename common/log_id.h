/* MESSAGE_IDs of the journal: one per kind of event, for good (journalctl MESSAGE_ID=...). Whoever logs a new kind adds a
 * line: 32 random hex digits (journalctl --new-id128), never one that has been used. docs/ lists them from here. */
#ifndef XCE_COMMON_LOG_ID_H
#define XCE_COMMON_LOG_ID_H

/* any daemon */
#define LOG_ID_STARTED     "1a0d021d51f4f623e3d02d045ef782ae"
#define LOG_ID_STOPPING    "2032073f201f0a04b2cd44626242dc45"
#define LOG_ID_RELOADED    "d47c6e24ee21aa45df813b018c3c01c9"
#define LOG_ID_CONFIG_BAD  "70dcc30621982159b2c64ccc9e9988b0"
#define LOG_ID_LOG_DROPPED "8e38e99791ae937910132b9661f4fc2c"
#define LOG_ID_DISK        "5796e76b7e65d6ea70773b9a3f37e149"

/* leases */
#define LOG_ID_LEASE_GRANTED "cceb374260ee6c52356fa269afc495cb"
#define LOG_ID_LEASE_ACTIVE  "a3321adbd9c78838450d9075735408a2"
#define LOG_ID_LEASE_ENDED   "30e8e1b07093ad32b7038de049a8383d"
#define LOG_ID_LEASE_FREE    "dc7da9399159e5107051c6e1005de4dd"
#define LOG_ID_QUARANTINED   "8cf9dc964cfdda29c57e1be049150d88"
#define LOG_ID_STRAY         "44a124aa1815e6cbe80cbac4131b9f64"
#define LOG_ID_BLOCKED       "a06e839e1412fcb587bce9e948c8dc37"

/* nodes, access */
#define LOG_ID_NODE_STATE "41ab9e961e4095a88e281e0237173273"
#define LOG_ID_ENROLLED   "2cd7ee941292b18efbbb572d1bf7960b"
#define LOG_ID_DENIED     "21ea8f2f4ceeb0bb6e16e9ff4d658e87"
#define LOG_ID_ACT        "d4abd8196bcbdd0d3064bf03e238b8e7"

#endif
