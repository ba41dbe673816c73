#!/usr/bin/python3
"""Every method, called by every kind of principal, on what is his own, another's, and absent: exactly the cells that the
roles give pass, and another's looks byte for byte like what is absent: status, text, metadata, lists, watches, history.

What the built-in roles may is read out of docs/security.md, which methods there are out of the .proto files. A method that
has no row there, or none in METHODS below, is a failure: whoever adds one says what is whose."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import grpc

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import authority
import caller
import certs
import peer

FIRST = 2013265920
NONE, OWN, ALL = "", "own", "all"
TARGETS = ("own", "other", "absent")
# Accounts that every Debian has. "other" belongs to one who never calls.
OTHER = "news"
DENIED = ("PERMISSION_DENIED", "not permitted")


def documented():
    """{method: {role: scope}} of docs/security.md."""
    with open(os.path.join(peer.ROOT, "docs/security.md"), encoding="utf-8") as f:
        rows = [[c.strip() for c in line.strip().strip("|").split("|")] for line in f if line.startswith("| ")]
    head = next(r for r in rows if r[:2] == ["method", "admin"])
    return {r[0]: dict(zip(head[1:], r[1:])) for r in rows if re.fullmatch(r"\w+/\w+", r[0]) and len(r) == len(head)}


def declared():
    """{"Service/Method": (path, kind)} of every service that clients see."""
    found = {}
    for module in peer.messages().values():
        for service in module.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                path = "/%s/%s" % (service.full_name, method.name)
                found["%s/%s" % (service.name, method.name)] = path
    for service, method in (("grpc.health.v1.Health", "Check"), ("grpc.health.v1.Health", "Watch"),
                            ("grpc.reflection.v1.ServerReflection", "ServerReflectionInfo")):
        found["%s/%s" % (service.rpartition(".")[2], method)] = "/%s/%s" % (service, method)
    return found


class Principal:
    """name, uid: of the account here, None = there is none. roles: what the rules give, by names of built-in roles, or a
    function of the method."""

    def __init__(self, label, connect, roles, name=None, uid=None, gid=None, node=None):
        self.label, self.connect, self.roles = label, connect, roles
        self.name, self.uid, self.gid, self.node = name, uid, gid, node

    def scope(self, method, table):
        if callable(self.roles):
            return self.roles(method)
        scopes = [table[method][role] for role in self.roles]
        return ALL if ALL in scopes else OWN if OWN in scopes else NONE


# ---- one row for each method: what is asked, of whose. A request is a function of (test, principal, target). ----

class Row:
    """what: lease, node: the method is about one of those, by target. Else None: only whether it may be called at all.
    own_means: what scope own gives where nothing is one's own (pools without counts, oneself); False: it is no right."""

    def __init__(self, request, what=None, kind="unary_unary", replies=0, own_means=True, extra=None,
                 free_is_told=False, incomplete=False):
        self.request, self.what, self.kind, self.replies = request, what, kind, replies
        self.own_means, self.extra = own_means, extra
        self.incomplete = incomplete  # it gets as far as to be refused for what it lacks
        self.free_is_told = free_is_told  # to who sees all: why a uid that nobody has is free


def lease_key(by):
    def request(test, principal, target):
        lease = test.lease(principal, target)
        key = test.m["lease"].LeaseKey
        if by == "job":
            owner = test.m["lease"].OwnerSpec(uid=lease.owner.uid)
            return key(job=lease.job.encode(), owner=owner)
        if by == "name":
            return key(name=lease.name.encode())
        return key(**{by: getattr(lease, by)})
    return request


def lease_change(kind, **more):
    def request(test, principal, target):
        lease = test.lease(principal, target)
        return test.client.request(getattr(test.m["lease"], kind)(lease=lease.lease, epoch=lease.epoch or 1, **more))
    return request


def history(by):
    def request(test, principal, target):
        lease = test.lease(principal, target)
        who = {by: getattr(lease, by).encode() if by in ("name", "job") else getattr(lease, by)}
        if by == "job":
            who["owner"] = test.m["lease"].OwnerSpec(uid=lease.owner.uid)
        ask = test.m["lease"].HistoryRequest(**who)
        # It is there to be found: root sees it.
        if target != "absent":
            peer.until(lambda: test.client.lease.History(ask, timeout=30).entries, what="the history to be written")
        return ask
    return request


def acquire(test, principal, target):
    ask = test.client.request(test.m["lease"].AcquireRequest())
    spec = ask.leases.add(nodes=[b"n1"], ttl_ms=60000)
    if target != "own":
        spec.owner.uid = spec.owner.gid = test.other_uid if target == "other" else 54321
    return ask


def node_key(test, principal, target):
    return test.m["node"].NodeKey(node=test.node_name(principal, target).encode())


def node_verb(test, principal, target):
    return test.client.request(test.m["node"].NodeVerbRequest(node=b"absent", reason=b"a test"))


def fence(test, principal, target):
    return test.client.request(test.m["node"].FenceRequest(node=b"absent", reason=b"a test", machine_id=b"1" * 32,
                                                           boot_id=b"a" * 32))


def session(test, principal, target):
    up = test.m["node"].SessionUp()
    up.hello.node = test.session_name(principal, target).encode()
    up.hello.machine_id = up.hello.node[-1:] * 32
    up.hello.boot_id = b"b" * 32
    return up


def simple(module, message, **fields):
    return lambda test, principal, target: getattr(test.m[module], message)(**fields)


def change(module, message, **fields):
    return lambda test, principal, target: test.client.request(getattr(test.m[module], message)(**fields))


def health(test, principal, target):
    return test.health.HealthCheckRequest()


def reflection(test, principal, target):
    return test.reflection.ServerReflectionRequest(list_services="")


METHODS = {
    "LeaseService/Acquire": [Row(acquire, extra="acquire")],
    "LeaseService/Renew": [Row(lease_change("RenewRequest"), "lease")],
    "LeaseService/Release": [Row(lease_change("ReleaseRequest"), "lease"),
                             Row(lease_change("ReleaseRequest", node=b"n1"), "lease")],
    "LeaseService/Revoke": [Row(lease_change("RevokeRequest", reason=b"a test"), "lease")],
    "LeaseService/Get": [Row(lease_key(by), "lease") for by in ("lease", "uid", "name", "job")],
    "LeaseService/Explain": [Row(lease_key(by), "lease", free_is_told=by == "uid") for by in ("lease", "uid", "name", "job")],
    "LeaseService/History": [Row(history(by), "history") for by in ("lease", "uid", "name", "job")],
    "LeaseService/List": [Row(simple("lease", "ListLeasesRequest", all=True), extra="list")],
    "LeaseService/Watch": [Row(simple("lease", "WatchRequest"), kind="unary_stream", extra="watch")],
    "PoolService/Create": [Row(change("pool", "CreatePoolRequest"), own_means=False)],
    "PoolService/Get": [Row(simple("pool", "PoolKey", name=b"main"), extra="pool")],
    "PoolService/List": [Row(simple("pool", "ListPoolsRequest"), extra="pools")],
    "PoolService/Set": [Row(change("pool", "SetPoolRequest", name=b"main"), own_means=False)],
    "PoolService/Overlap": [Row(simple("pool", "PoolKey", name=b"main"), own_means=False)],
    "PoolService/Suggest": [Row(simple("pool", "SuggestPoolRequest"), own_means=False)],
    "PoolService/Unblock": [Row(change("pool", "UnblockRequest", name=b"main", uid=1, reason=b"gone"), own_means=False)],
    "PoolService/Retire": [Row(change("pool", "RetirePoolRequest", name=b"absent"), own_means=False)],
    "NodeService/Session": [Row(session, "session", kind="stream_stream", replies=1)],
    "NodeService/Get": [Row(node_key, "node")],
    "NodeService/List": [Row(simple("node", "ListNodesRequest"), extra="nodes")],
    "NodeService/Drain": [Row(node_verb, own_means=False)],
    "NodeService/Enroll": [Row(simple("node", "EnrollRequest", csr=b"none"), incomplete=True)],
    "NodeService/Token": [Row(change("node", "TokenRequest", node=b"n9", hash=b"0" * 32), own_means=False)],
    "NodeService/Undrain": [Row(node_verb, own_means=False)],
    "NodeService/Cordon": [Row(node_verb, own_means=False)],
    "NodeService/Sweep": [Row(node_verb, own_means=False)],
    "NodeService/Forget": [Row(node_verb, own_means=False)],
    "NodeService/Fence": [Row(fence, own_means=False)],
    "RbacService/GetConfig": [Row(simple("rbac", "GetRulesRequest"), own_means=False)],
    "RbacService/UpdateConfig": [Row(change("rbac", "UpdateRulesRequest", expected=1), own_means=False)],
    "RbacService/ListRoles": [Row(simple("rbac", "ListRolesRequest"))],
    "RbacService/Check": [Row(simple("rbac", "CheckRequest", method=b"LeaseService/Get"))],
    "ClusterService/Status": [Row(simple("cluster", "StatusRequest"), own_means=False)],
    "ClusterService/Begin": [Row(change("cluster", "BeginRequest"), own_means=False)],
    "ClusterService/Add": [Row(change("cluster", "AddReplicaRequest", name=b"absent", address=b"absent:1"), own_means=False)],
    "ClusterService/Remove": [Row(change("cluster", "RemoveReplicaRequest", name=b"absent"), own_means=False)],
    "ClusterService/Transfer": [Row(change("cluster", "TransferRequest"), own_means=False)],
    "ClusterService/Confirm": [Row(change("cluster", "ConfirmRequest", nodes=[b"absent"]), own_means=False)],
    "ClusterService/Backup": [Row(simple("cluster", "BackupRequest"), own_means=False)],
    "ClusterService/Overlap": [Row(simple("cluster", "OverlapRequest"), own_means=False)],
    "ClusterService/Past": [Row(simple("cluster", "PastRequest"), own_means=False)],
    "Health/Check": [Row(health)],
    "Health/Watch": [Row(health, kind="unary_stream", replies=1)],
    "ServerReflection/ServerReflectionInfo": [Row(reflection, kind="stream_stream", replies=1)],
}

# What is asked of a method that may be called: anything but a denial. These words of ours are denials too.
REFUSALS = ("PERMISSION_DENIED", "NOT_FOUND", "UNIMPLEMENTED", "UNAUTHENTICATED", "INTERNAL", "UNKNOWN")


class MatrixTest(unittest.TestCase):
    methods = METHODS

    @classmethod
    def setUpClass(cls):
        cls.m = peer.messages()
        cls.table = documented()
        cls.folder = tempfile.mkdtemp(prefix="xce-matrix.")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.load_grpc_messages()
        cls.authority = authority.Authority(cls.folder)
        cls.leased, cls.address = cls.serve()
        cls.client = peer.Client("unix:" + cls.leased.socket)
        cls.addClassCleanup(cls.client.close)
        cls.prepare()

    @classmethod
    def start(cls, name, more=""):
        """A leased with the certificate of that replica, and where it listens."""
        certificate, key = cls.authority.replica(name)
        address = "localhost:%d" % certs.free_port()
        leased = peer.Leased("Listen = %s\nCertificate = %s\nKey = %s\nCA = %s\nCAKey = %s\n%s" % (
            address, certificate, key, cls.authority.ca, cls.authority.key, more)).__enter__()
        cls.addClassCleanup(leased.__exit__, None, None, None)
        return leased, address

    @classmethod
    def serve(cls):
        """Who is asked."""
        return cls.start("r1")

    @classmethod
    def load_grpc_messages(cls):
        import importlib.util
        root = os.environ.get("XCE_GRPC_PROTO", "/usr/share/grpc-proto")
        subprocess.run(["protoc", "-I", root, "--python_out", cls.folder, "grpc/health/v1/health.proto",
                        "grpc/reflection/v1/reflection.proto"], check=True)

        def load(path):
            spec = importlib.util.spec_from_file_location("xce_" + path.replace("/", "_"), os.path.join(cls.folder, path))
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module

        cls.health = load("grpc/health/v1/health_pb2.py")
        cls.reflection = load("grpc/reflection/v1/reflection_pb2.py")

    # ---- the cluster: two nodes, one pool, leases of everybody ----

    @classmethod
    def prepare(cls):
        import pwd
        cls.uids = {p.pw_name: (p.pw_uid, p.pw_gid) for p in pwd.getpwall()}
        cls.other_uid = cls.uids[OTHER][0]
        cls.client.create_pool(count=8192)
        cls.nodes = []
        for name, machine in (("n1", "1" * 32), ("n2", "2" * 32), ("n3", "3" * 32)):
            cls.nodes.append(peer.Node(cls.client, name, machine=machine).wait(lambda n: n.welcome, what="welcome"))
        for node in cls.nodes:
            cls.addClassCleanup(node.close)
        peer.until(lambda: all(n.state == 1 for n in cls.client.node.List(cls.m["node"].ListNodesRequest(), timeout=30).nodes),
                   what="nodes ready")
        rules = cls.m["rbac"].Rules()
        wide = rules.roles.add(name=b"own-all")
        wide.rights.add(method=b"*", scope=1)
        leases = rules.roles.add(name=b"all-leases")
        leases.rights.add(method=b"LeaseService/*", scope=2)
        for subject, name, *roles in (
                (1, b"daemon", b"user"), (1, b"bin", b"operator"), (1, b"sys", b"scheduler"), (1, b"games", b"admin"),
                (1, b"lp", b"own-all"), (1, b"uucp", b"user", b"all-leases"),
                (2, b"daemon", b"user"), (2, b"ghost", b"own-all"), (3, b"ops", b"operator"), (3, b"Job Control", b"scheduler"),
                (3, b"wheel", b"admin")):
            rules.bindings.add(subject=subject, name=name, roles=roles)
        cls.client.rbac.UpdateConfig(cls.client.request(cls.m["rbac"].UpdateRulesRequest(rules=rules)), timeout=30)

    @classmethod
    def local(cls, user, roles):
        uid, gid = (0, 0) if user == "root" else cls.uids[user]
        return Principal("local " + user, lambda: caller.Caller("unix:" + cls.leased.socket, user), roles, user, uid, gid)

    @classmethod
    def remote(cls, cn, roles, groups=(), names=(), node=None):
        label = "certificate %s%s%s" % (cn, "".join(" O=" + g for g in groups), " ".join(names))

        def connect():
            certificate, key = cls.authority.issue(re.sub(r"\W", "_", label), cn, groups, names)
            return caller.TlsCaller(cls.address, cls.authority.ca, certificate, key)

        uid, gid = cls.uids.get(cn, (None, None)) if not names else (None, None)
        return Principal(label, connect, roles, cn, uid, gid, node)

    @classmethod
    def principals(cls):
        def own_all(method):
            return OWN if METHODS[method][0].own_means else NONE

        def user_and_leases(method):
            return ALL if method.startswith("LeaseService/") else cls.table[method]["user"]

        def nothing(method):  # but to ask about oneself
            return OWN if method == "RbacService/Check" else NONE

        return [cls.local("root", ["admin"]), cls.local("games", ["admin"]), cls.local("bin", ["operator"]),
                cls.local("sys", ["scheduler"]), cls.local("daemon", ["user"]), cls.local("lp", own_all),
                cls.local("uucp", user_and_leases), cls.local("mail", nothing),
                cls.remote("daemon", ["user"]), cls.remote("root", nothing), cls.remote("mail", nothing), cls.remote("ghost", own_all),
                cls.remote("olga", ["operator"], ["ops"]), cls.remote("slurm", ["scheduler"], ["x", "Job Control"]),
                cls.remote("root", ["admin"], ["wheel"]), cls.remote("bin", nothing), cls.remote("lp", ["operator"], ["ops"]),
                cls.remote("n2", ["node"], names=["URI:xce://node/n2"], node="n2"),
                cls.remote("root", [], ["wheel"], names=["URI:xce://replica/r9"])]

    # ---- objects ----

    def lease(self, principal, target):
        """A fresh lease of the principal's, of another's, or one that never was."""
        if target == "absent":
            lease = self.m["lease"].Lease(lease=1 << 40, uid=FIRST + 8191, epoch=1, name="xce-1r0fzz-1", job="absent")
            lease.owner.uid = principal.uid if principal.uid is not None else 4711
            return lease
        spec = self.m["lease"].OwnerSpec
        if target == "other":
            owner = spec(name=OTHER.encode(), uid=self.other_uid, gid=self.uids[OTHER][1])
        elif principal.uid is None:
            # No account: not even what bears his name is his own.
            owner = spec(name=principal.name.encode(), uid=4711, gid=4711)
        else:
            owner = spec(name=principal.name.encode(), uid=principal.uid, gid=principal.gid)
        type(self).serial = getattr(type(self), "serial", 0) + 1
        return self.client.acquire(job=b"j%d" % self.serial, owner=owner).leases[0]

    def node_name(self, principal, target):
        return {"own": principal.node or "n2", "other": "n1", "absent": "n9"}[target]

    def session_name(self, principal, target):
        return {"own": principal.node or "n4", "other": "n3", "absent": "n8"}[target]

    # ---- a cell ----

    def ask(self, who, principal, method, row, target):
        message = row.request(self, principal, target).SerializeToString()
        if row.extra == "watch":
            answer = who.call(PATHS[method], message, kind=row.kind, replies=0, timeout=2)
            if answer.code != "DEADLINE_EXCEEDED" or answer.replies:
                return answer
        # A machine that is busy with other tests takes its time to say the first word.
        return who.call(PATHS[method], message, kind=row.kind, replies=row.replies, timeout=30)

    def comparable(self, answer, principal, row, target):
        """What was seen, without the words that the caller himself has sent."""
        if row.what not in ("node", "session"):
            return answer.seen()
        name = (self.node_name if row.what == "node" else self.session_name)(principal, target)
        return (answer.code, re.sub(r"\b%s\b" % name, "NODE", answer.text or ""), answer.initial, answer.trailing,
                answer.replies)

    def may(self, principal, row, scope, target):
        if scope == ALL:
            return target != "absent"
        if scope == NONE or target != "own":
            return False
        return principal.uid is not None if row.what in ("lease", "history") else principal.node is not None

    def check_object(self, who, principal, method, row, scope):
        seen = {}
        for target in TARGETS:
            answer = self.ask(who, principal, method, row, target)
            seen[target] = self.comparable(answer, principal, row, target)
            may = self.may(principal, row, scope, target)
            where = (principal.label, method, scope, target, answer)
            if scope == NONE:
                self.assertEqual((answer.code, answer.text), DENIED, where)
            elif row.what == "history":
                self.assertEqual(answer.code, "OK", where)
                self.assertEqual(len(self.history_of(answer)), 1 if may else 0, where)
            elif row.what == "session":
                self.assertEqual(answer.code in ("OK", "CANCELLED") and len(answer.replies) == 1,
                                 may or scope == ALL, where)
            elif may:
                self.assertNotIn(answer.code, REFUSALS, where)
            elif scope == ALL and row.free_is_told and answer.code == "OK":
                self.assertFalse(self.m["lease"].ExplainReply.FromString(answer.replies[0]).HasField("lease"), where)
            else:
                self.assertEqual(answer.code, "NOT_FOUND", where)
        if row.what != "history" and scope != ALL:
            self.assertEqual(seen["other"], seen["absent"], (principal.label, method, scope))
        if row.what == "history" and scope != ALL:
            # The reply says up to which revision the history is complete: that is everybody's.
            empty = [self.without_revision(seen[t]) for t in ("other", "absent")]
            self.assertEqual(empty[0], empty[1], (principal.label, method, scope))

    def history_of(self, answer):
        return list(self.m["lease"].HistoryReply.FromString(answer.replies[0]).entries)

    def without_revision(self, seen):
        code, text, initial, trailing, replies = seen
        bare = []
        for reply in replies:
            message = self.m["lease"].HistoryReply.FromString(reply)
            message.revision, message.complete = 0, False
            bare.append(message.SerializeToString())
        return (code, text, initial, trailing, bare)

    # ---- methods about no single object ----

    def visible(self, principal, scope, lease):
        return scope == ALL or (scope == OWN and principal.uid is not None and
                                (lease.owner.uid, lease.owner.name) == (principal.uid, principal.name))

    def extra_list(self, principal, scope, answer, where):
        listed = self.m["lease"].ListLeasesReply.FromString(answer.replies[0])
        self.assertTrue(all(self.visible(principal, scope, l) for l in listed.leases), where)
        if scope == ALL or principal.uid is not None:
            self.assertTrue(any(l.owner.name == principal.name for l in listed.leases) or scope == ALL, where)
        if scope == ALL:
            self.assertTrue(any(l.owner.name == OTHER for l in listed.leases), where)

    def extra_watch(self, principal, scope, answer, where):
        events = [self.m["lease"].WatchEvent.FromString(r) for r in answer.replies]
        kinds = [e.WhichOneof("event") for e in events]
        self.assertIn("synced", kinds, where)
        leases = [getattr(e, e.WhichOneof("event")) for e in events if e.WhichOneof("event") in ("lease", "listed")]
        self.assertTrue(all(self.visible(principal, scope, l) for l in leases), where)
        if scope == ALL:
            self.assertTrue(any(l.owner.name == OTHER for l in leases), where)

    def extra_pool(self, principal, scope, answer, where):
        pool = self.m["pool"].PoolReply.FromString(answer.replies[0]).pool
        self.assertEqual((pool.HasField("counts"), len(pool.blocked) > 0 and scope != ALL), (scope == ALL, False), where)

    def extra_pools(self, principal, scope, answer, where):
        pools = self.m["pool"].ListPoolsReply.FromString(answer.replies[0]).pools
        self.assertEqual([(p.name, p.HasField("counts")) for p in pools], [("main", scope == ALL)], where)

    def extra_nodes(self, principal, scope, answer, where):
        names = [n.node for n in self.m["node"].ListNodesReply.FromString(answer.replies[0]).nodes]
        if scope == ALL:
            self.assertLessEqual({"n1", "n2"}, set(names), where)
        else:
            self.assertEqual(names, [principal.node] if principal.node else [], where)

    def extra_acquire(self, who, principal, method, row, scope):
        """own: his own lease; other, absent: for an account that has leases, and for one that nobody knows."""
        seen = {t: self.ask(who, principal, method, row, t) for t in TARGETS}
        where = (principal.label, scope, seen)
        if scope == NONE:
            self.assertTrue(all((a.code, a.text) == DENIED for a in seen.values()), where)
            return
        self.assertEqual(seen["own"].code, "OK" if principal.uid is not None else "FAILED_PRECONDITION", where)
        self.assertEqual({seen["other"].code, seen["absent"].code}, {"OK"} if scope == ALL else {"PERMISSION_DENIED"}, where)
        if scope == OWN:
            self.assertEqual(seen["other"].seen(), seen["absent"].seen(), where)

    def check_plain(self, who, principal, method, row, scope):
        answer = self.ask(who, principal, method, row, "own")
        where = (principal.label, method, scope, answer)
        if scope == NONE:
            self.assertEqual((answer.code, answer.text), DENIED, where)
            return
        if (row.own_means or row.extra) and not row.incomplete:
            self.assertIn(answer.code, ("OK", "CANCELLED", "DEADLINE_EXCEEDED"), where)
        else:
            self.assertNotIn(answer.code, ("PERMISSION_DENIED", "UNIMPLEMENTED", "INTERNAL", "UNKNOWN"), where)
        if row.extra:
            getattr(self, "extra_" + row.extra)(principal, scope, answer, where)

    # ---- the tests ----

    def test_every_method_has_its_rows(self):
        methods = set(declared())
        self.assertEqual(set(METHODS), methods, "a method without a row in METHODS, or a row without a method")
        self.assertEqual(set(self.table), methods, "docs/security.md and the .proto files differ")

    def test_what_is_documented_is_built_in(self):
        roles = self.client.rbac.ListRoles(self.m["rbac"].ListRolesRequest(), timeout=30).roles
        said = {r.name: {x.method.decode(): ("", OWN, ALL)[x.scope] for x in r.rights} for r in roles if r.builtin}
        for name, rights in said.items():
            self.assertEqual({m: row[name] for m, row in self.table.items() if row[name]}, rights, name)

    def test_a_watch_tells_of_ones_own_alone(self):
        """Another's lease lives and dies before one's own is granted: nothing of it comes, also to who resumes."""
        news, daemon = self.local(OTHER, []), self.local("daemon", ["user"])
        who, late = daemon.connect(), daemon.connect()
        self.addCleanup(who.close)
        self.addCleanup(late.close)
        who.begin("/xce.v1.LeaseService/Watch", kind="unary_stream", timeout=30)
        event = self.m["lease"].WatchEvent.FromString(who.reply())
        while event.WhichOneof("event") != "synced":
            event = self.m["lease"].WatchEvent.FromString(who.reply())
        theirs = self.lease(news, "own")
        self.client.release(theirs)
        mine = self.lease(daemon, "own")
        event = self.m["lease"].WatchEvent.FromString(who.reply())
        self.assertEqual((event.WhichOneof("event"), event.lease.lease), ("lease", mine.lease))
        since = self.m["lease"].WatchRequest(since=theirs.revision - 1).SerializeToString()
        late.begin("/xce.v1.LeaseService/Watch", since, kind="unary_stream", timeout=30)
        self.assertEqual(self.m["lease"].WatchEvent.FromString(late.reply()).lease.lease, mine.lease)

    def test_matrix(self):
        cells = 0
        for principal in self.principals():
            who = principal.connect()
            try:
                for method, rows in self.methods.items():
                    scope = principal.scope(method, self.table)
                    for row in rows:
                        with self.subTest(principal=principal.label, method=method):
                            if row.extra == "acquire":
                                self.extra_acquire(who, principal, method, row, scope)
                            elif row.what:
                                self.check_object(who, principal, method, row, scope)
                            else:
                                self.check_plain(who, principal, method, row, scope)
                        cells += 3 if row.what or row.extra == "acquire" else 1
            finally:
                who.close()
        print("%d cells" % cells)


PATHS = declared()

if __name__ == "__main__":
    unittest.main(verbosity=2)
