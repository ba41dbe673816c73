/* The interfaces that are served, as Varlink describes them: what GetInterfaceDescription tells a program that looks. */
#ifndef XCE_USERDB_INTERFACE_H
#define XCE_USERDB_INTERFACE_H

static const char interface_user_database[] =
    "# Users and groups that are uid leases of this machine\n"
    "interface io.systemd.UserDatabase\n"
    "\n"
    "# By uid, by name, or by both, which must agree\n"
    "method GetUserRecord(uid: ?int, userName: ?string, service: string)"
    " -> (record: object, incomplete: bool)\n"
    "\n"
    "method GetGroupRecord(gid: ?int, groupName: ?string, service: string)"
    " -> (record: object, incomplete: bool)\n"
    "\n"
    "# Supplementary groups of a lease, by its name\n"
    "method GetMemberships(userName: ?string, groupName: ?string, service: string)"
    " -> (userName: string, groupName: string)\n"
    "\n"
    "error NoRecordFound ()\n"
    "\n"
    "# service is another one than this\n"
    "error BadService ()\n"
    "\n"
    "# There is no uid map\n"
    "error ServiceNotAvailable ()\n"
    "\n"
    "error ConflictingRecordFound ()\n"
    "\n"
    "error EnumerationNotSupported ()\n";

static const char interface_core[] =
    "interface org.varlink.service\n"
    "\n"
    "method GetInfo() -> (vendor: string, product: string, version: string, url: string,"
    " interfaces: []string)\n"
    "\n"
    "method GetInterfaceDescription(interface: string) -> (description: string)\n"
    "\n"
    "error InterfaceNotFound (interface: string)\n"
    "\n"
    "error MethodNotFound (method: string)\n"
    "\n"
    "error InvalidParameter (parameter: string)\n"
    "\n"
    "error ExpectedMore ()\n";

#endif
