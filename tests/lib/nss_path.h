/* Given to the compiler in front of the module's sources when they are built into a test: the map's path is a variable
 * there. The module that is shipped knows one path only. */
#ifndef XCE_TESTS_LIB_NSS_PATH_H
#define XCE_TESTS_LIB_NSS_PATH_H

extern char nss_test_path[96];
#define XCE_MAP_PATH nss_test_path

#endif
