#!/usr/bin/python3
"""Rules: who may change them, that they hold at once and outlive a restart. Local users are accounts of the system."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import grpc

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import caller
import peer

NONE, OWN, ALL = 0, 1, 2
LOCAL, USER, GROUP = 1, 2, 3
LIST, GET_CONFIG = "/xce.v1.LeaseService/List", "/xce.v1.RbacService/GetConfig"


class RbacTest(unittest.TestCase):
    def setUp(self):
        self.leased = peer.Leased().__enter__()
        self.addCleanup(self.leased.__exit__, None, None, None)
        self.client = self.connect()
        self.m = self.client.m["rbac"]

    def connect(self):
        client = peer.Client("unix:" + self.leased.socket)
        self.addCleanup(client.close)
        return client

    def caller(self, user):
        who = caller.Caller("unix:" + self.leased.socket, user)
        self.addCleanup(who.close)
        return who

    def node(self):
        node = peer.Node(self.client, "n1").wait(lambda n: n.welcome, what="welcome")
        self.addCleanup(node.close)
        peer.until(lambda: self.client.node.List(self.client.m["node"].ListNodesRequest(), timeout=60).nodes[0].state == 1,
                   what="node ready")

    def rules(self, roles=(), bindings=((LOCAL, "*", "user"),)):
        """roles: (name, (method, scope)...); bindings: (subject, name, role...)."""
        rules = self.m.Rules()
        for name, *rights in roles:
            role = rules.roles.add(name=name.encode())
            for method, scope in rights:
                role.rights.add(method=method.encode(), scope=scope)
        for subject, name, *bound in bindings:
            rules.bindings.add(subject=subject, name=name.encode(), roles=[r.encode() for r in bound])
        return rules

    def get(self):
        return self.client.rbac.GetConfig(self.m.GetRulesRequest(), timeout=60)

    def update(self, rules, expected=None, client=None):
        if expected is None:
            expected = self.get().revision
        client = client or self.client
        return client.rbac.UpdateConfig(client.request(self.m.UpdateRulesRequest(expected=expected, rules=rules)), timeout=60)

    def refused(self, *args, **more):
        return peer.code_of(lambda: self.update(*args, **more))

    # ---- the rules as such ----

    def test_defaults_are_shown_until_rules_are_set(self):
        config = self.get()
        self.assertEqual(config.revision, 0)
        self.assertEqual([(b.subject, b.name, list(b.roles)) for b in config.rules.bindings],
                         [(LOCAL, b"*", [b"user"]), (GROUP, b"xce-admin", [b"admin"]), (GROUP, b"xce-operator", [b"operator"]),
                          (GROUP, b"xce-scheduler", [b"scheduler"]), (GROUP, b"xce-user", [b"user"])])

    def test_update_compares_and_sets(self):
        rules = self.rules(roles=[("look", ("NodeService/*", ALL))], bindings=[(LOCAL, "daemon", "look"), (LOCAL, "*", "user")])
        first = self.update(rules)
        self.assertGreater(first.revision, 0)
        self.assertEqual([b.name for b in first.rules.bindings], [b"*", b"daemon"])
        code, text = self.refused(rules, expected=0)
        self.assertEqual(code, "FAILED_PRECONDITION")
        self.assertIn("read them again", text)
        self.assertEqual(self.update(first.rules).revision, first.revision)

    def test_rules_outlive_a_restart(self):
        self.update(self.rules(bindings=[(LOCAL, "daemon", "operator")]))
        before = self.get()
        self.leased.stop()
        self.leased.start()
        self.client = self.connect()
        peer.until(self.served, what="the channel to be there again")
        after = self.get()
        self.assertEqual((after.revision, after.rules), (before.revision, before.rules))
        self.assertEqual(self.caller("daemon").call(GET_CONFIG).code, "OK")

    def served(self):
        try:
            return self.get()
        except grpc.RpcError as error:
            self.assertEqual(error.code().name, "UNAVAILABLE")
            return None

    def test_bad_rules_are_refused_with_the_place(self):
        for rules, word in (
                (self.rules(roles=[("r", ("LeaseService/Gett", ALL))]), "LeaseService/Gett"),
                (self.rules(roles=[("r", ("PoolService/Set", OWN))]), "PoolService/Set"),
                (self.rules(roles=[("r", ("LeaseService/Get", 7))]), "scope"),
                (self.rules(roles=[("admin", ("LeaseService/Get", ALL))]), "built in"),
                (self.rules(roles=[("BAD", ("LeaseService/Get", ALL))]), "BAD"),
                (self.rules(bindings=[(USER, "x", "nobody-has-it")]), "nobody-has-it"),
                (self.rules(bindings=[(9, "x", "user")]), "subject"),
                (self.rules(bindings=[(USER, "a b", "user")]), "a b"),
                (self.rules(bindings=[(USER, "u%d" % i, "user") for i in range(1025)]), "1024")):
            code, text = self.refused(rules)
            self.assertEqual(code, "INVALID_ARGUMENT", text)
            self.assertIn(word, text)
        self.assertEqual(self.get().revision, 0)

    # ---- what they do ----

    def test_rights_hold_at_once_and_end_at_once(self):
        daemon, other = self.caller("daemon"), self.caller("bin")
        self.assertEqual(daemon.call(GET_CONFIG).code, "PERMISSION_DENIED")
        self.update(self.rules(bindings=[(LOCAL, "daemon", "operator")]))
        self.assertEqual(daemon.call(GET_CONFIG).code, "OK")
        self.assertEqual(other.call(LIST).code, "PERMISSION_DENIED")
        self.update(self.rules(bindings=[(USER, "daemon", "admin"), (GROUP, "daemon", "admin")]))
        for path in (GET_CONFIG, LIST, "/grpc.health.v1.Health/Check"):
            self.assertEqual(daemon.call(path).code, "PERMISSION_DENIED", path)

    def watching(self, user):
        who = self.caller(user)
        who.begin("/xce.v1.LeaseService/Watch", kind="unary_stream", timeout=60)
        event = self.client.m["lease"].WatchEvent.FromString(who.reply())
        self.assertEqual(event.WhichOneof("event"), "synced")
        return who

    def test_open_streams_are_cut_when_rights_change(self):
        pool = self.client.create_pool()
        self.assertTrue(pool.pool.name)
        self.node()
        self.update(self.rules(bindings=[(LOCAL, "daemon", "operator"), (LOCAL, "bin", "operator"), (LOCAL, "sys", "user")]))
        loses, narrows, keeps = self.watching("daemon"), self.watching("bin"), self.watching("sys")
        self.update(self.rules(bindings=[(LOCAL, "bin", "user"), (LOCAL, "sys", "user")]))
        # What happens now is nobody's to see but root's.
        self.client.acquire(job=b"secret")
        ended = loses.end()
        self.assertEqual((ended.code, ended.text), ("PERMISSION_DENIED", "not permitted"))
        self.assertNotIn(b"secret", b"".join(ended.replies))
        ended = narrows.end()
        self.assertEqual(ended.code, "UNAVAILABLE")
        self.assertNotIn(b"secret", b"".join(ended.replies))
        mine = self.client.acquire(job=b"sys", owner=self.client.m["lease"].OwnerSpec(name=b"sys", uid=3, gid=3))
        self.assertIn(mine.leases[0].name.encode(), keeps.reply())

    def test_a_watch_goes_on_from_before_the_rules_changed_with_a_list(self):
        self.client.create_pool()
        self.node()
        lease = self.client.acquire(job=b"before").leases[0]
        self.update(self.rules())
        events = self.client.lease.Watch(self.client.m["lease"].WatchRequest(since=lease.revision), timeout=60)
        self.addCleanup(events.cancel)
        self.assertEqual(next(events).WhichOneof("event"), "skipped_to")
        self.assertEqual(next(events).listed.lease, lease.lease)

    def test_nobody_takes_the_right_to_change_rules_from_himself(self):
        self.update(self.rules(bindings=[(LOCAL, "daemon", "admin")]))
        daemon = self.caller("daemon")
        message = self.m.UpdateRulesRequest(expected=self.get().revision, rules=self.rules())
        message.request.id = os.urandom(16)
        answer = daemon.call("/xce.v1.RbacService/UpdateConfig", message.SerializeToString())
        self.assertEqual(answer.code, "FAILED_PRECONDITION")
        self.assertIn("root", answer.text)
        # Root can take it from everybody, and stays what it is.
        self.update(self.m.Rules())
        self.assertEqual(daemon.call(LIST).code, "PERMISSION_DENIED")
        self.update(self.rules())

    # ---- check, roles ----

    def check(self, **question):
        return self.client.rbac.Check(self.m.CheckRequest(**question), timeout=60)

    def test_check_names_the_rule_that_decided(self):
        self.update(self.rules(roles=[("look", ("LeaseService/*", ALL))],
                               bindings=[(USER, "alice", "user"), (GROUP, "hpc", "look")]))
        answer = self.check(kind=3, name=b"alice", method=b"LeaseService/Get", owner=b"bob")
        self.assertEqual((answer.allowed, answer.scope, answer.subject, answer.role, answer.method),
                         (False, OWN, "user:alice", "user", "LeaseService/Get"))
        self.assertTrue(self.check(kind=3, name=b"alice", method=b"LeaseService/Get", owner=b"alice").allowed)
        answer = self.check(kind=3, name=b"alice", groups=[b"hpc"], method=b"LeaseService/Get", owner=b"bob")
        self.assertEqual((answer.allowed, answer.scope, answer.subject, answer.role, answer.method),
                         (True, ALL, "group:hpc", "look", "LeaseService/*"))
        answer = self.check(kind=2, name=b"alice", method=b"LeaseService/Get")
        self.assertEqual((answer.allowed, answer.scope, answer.subject), (False, NONE, ""))
        self.assertEqual(self.check(kind=1, method=b"NodeService/Fence").subject, "root")
        self.assertEqual(self.check(kind=4, name=b"n1", method=b"NodeService/Session").role, "node")
        for bad in ({"method": b"LeaseService/Nothing"}, {"kind": 3, "name": b"", "method": b"LeaseService/Get"},
                    {"kind": 3, "name": b"a\0b", "method": b"LeaseService/Get"}, {"kind": 9, "method": b"LeaseService/Get"}):
            self.assertEqual(peer.code_of(lambda: self.check(**bad))[0], "INVALID_ARGUMENT", bad)

    def test_users_see_their_own_roles_and_ask_about_themselves(self):
        daemon = self.caller("daemon")
        roles = self.m.ListRolesReply.FromString(daemon.call("/xce.v1.RbacService/ListRoles").replies[0]).roles
        self.assertEqual([(r.name, r.builtin, r.yours) for r in roles], [("user", True, True)])
        self.assertIn(b"LeaseService/Get", [r.method for r in roles[0].rights])
        every = self.client.rbac.ListRoles(self.m.ListRolesRequest(), timeout=60).roles
        self.assertEqual([r.name for r in every], ["admin", "operator", "scheduler", "user", "node"])
        self.assertEqual([r.name for r in every if r.yours], ["admin"])
        own = daemon.call("/xce.v1.RbacService/Check", self.m.CheckRequest(method=b"LeaseService/Get").SerializeToString())
        self.assertTrue(self.m.CheckReply.FromString(own.replies[0]).allowed)
        about = self.m.CheckRequest(kind=3, name=b"alice", method=b"LeaseService/Get").SerializeToString()
        self.assertEqual(daemon.call("/xce.v1.RbacService/Check", about).code, "PERMISSION_DENIED")

    def test_whoever_may_acquire_can(self):
        """libxce asks for the cluster time first: by something that everybody may ask."""
        self.client.create_pool()
        self.node()
        self.update(self.rules(roles=[("taker", ("LeaseService/Acquire", OWN))], bindings=[(LOCAL, "daemon", "taker")]))

        def ctl(*words):
            run = subprocess.run(["setpriv", "--reuid=daemon", "--regid=daemon", "--clear-groups", LEASECTL, "--server",
                                  "unix:" + self.leased.socket, *words], capture_output=True, text=True, timeout=60)
            return run.returncode, run.stdout + run.stderr

        self.assertEqual(ctl("acquire", "--nodes", "n1", "--job", "mine")[0], 0)
        self.assertEqual(ctl("rbac", "check", "self", "LeaseService/Acquire")[0], 0)
        self.assertEqual(ctl("rbac", "check", "self", "LeaseService/List")[0], 3)
        self.assertEqual(ctl("list")[0], 3)
        self.update(self.m.Rules())
        code, said = ctl("rbac", "check", "self", "RbacService/Check")
        self.assertEqual((code, said), (0, "yes: everybody may ask about himself\n"))
        self.assertEqual(ctl("acquire", "--nodes", "n1", "--job", "mine")[0], 3)
        self.assertEqual(ctl("rbac", "check", "user:alice", "LeaseService/Acquire")[0], 3)


LEASECTL = os.path.join(peer.BUILD, "ctl/leasectl")
RULES = """# rules of a test
[role look]
LeaseService/* = all
NodeService/List = all

[bindings]
local:* = user
user:alice = look, operator
group:Physics Dept. = scheduler
"""


class FileTest(unittest.TestCase):
    """Rules as files: leasectl rbac, and the seed."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="xce-rbac.")
        self.addCleanup(shutil.rmtree, self.folder)
        os.chmod(self.folder, 0o755)

    def leased(self, config="", wait=True):
        leased = peer.Leased(config)
        self.addCleanup(leased.__exit__, None, None, None)
        self.server = leased
        return leased.start(wait)

    def file(self, text, name="rules", mode=0o644):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, mode)
        return path

    def run_ctl(self, *args, prefix=(), **more):
        return subprocess.run([*prefix, LEASECTL, "--server", "unix:" + self.server.socket, *args], capture_output=True,
                              text=True, timeout=30, **more)

    def ctl(self, *args, status=0, **more):
        run = self.run_ctl(*args, **more)
        self.assertEqual(run.returncode, status, "%s\n%s%s" % (args, run.stdout, run.stderr))
        return run.stdout

    # ---- leasectl rbac ----

    def test_what_is_shown_can_be_applied(self):
        self.leased()
        default = self.ctl("rbac", "show")
        self.assertIn("local:* = user", default)
        self.ctl("rbac", "apply", self.file(RULES))
        shown = self.ctl("rbac", "show")
        for line in RULES.splitlines()[1:]:
            self.assertIn(line, shown)
        same = json.loads(self.ctl("--json", "rbac", "apply", self.file(shown)))
        self.assertEqual(json.loads(self.ctl("--json", "rbac", "show")), same)
        self.assertEqual(same["roles"], [{"name": "look", "rights": [{"method": "LeaseService/*", "scope": "all"},
                                                                     {"method": "NodeService/List", "scope": "all"}]}])
        self.assertEqual(same["bindings"][2], {"subject": "group", "name": "Physics Dept.", "roles": ["scheduler"]})

    def test_a_file_that_replaces_older_rules_is_refused(self):
        self.leased()
        self.ctl("rbac", "apply", self.file(RULES))
        mine = self.ctl("rbac", "show")
        self.ctl("rbac", "apply", "-", input="[bindings]\nlocal:* = operator\n")
        run = self.run_ctl("rbac", "apply", self.file(mine))
        self.assertEqual(run.returncode, 1)
        self.assertIn("read them again", run.stderr)
        self.ctl("rbac", "apply", "--force", self.file(mine))
        self.assertIn("user:alice = look, operator", self.ctl("rbac", "show"))

    def test_bad_files_are_refused_with_their_line(self):
        self.leased()
        path = self.file("[role look]\nLeaseService/Get = some\n")
        run = self.run_ctl("rbac", "apply", path)
        self.assertEqual(run.returncode, 2)
        self.assertIn(path + ":2:", run.stderr)
        self.assertEqual(self.run_ctl("rbac", "apply", "--dry-run", path).returncode, 2)
        self.assertEqual(self.run_ctl("rbac", "apply", "--dry-run", self.file(RULES)).returncode, 0)
        run = self.run_ctl("rbac", "apply", self.file("[role look]\nLeaseService/Gett = own\n"))
        self.assertEqual(run.returncode, 2)
        self.assertIn("LeaseService/Gett", run.stderr)
        self.assertEqual(self.run_ctl("rbac", "apply", "/nonexistent").returncode, 2)
        self.assertIn("defaults", self.ctl("rbac", "show"))

    def test_check_says_which_rule_decided(self):
        self.leased()
        self.ctl("rbac", "apply", self.file(RULES))
        said = self.ctl("rbac", "check", "alice", "LeaseService/Get", "bob")
        self.assertEqual(said, "yes: user:alice has role look, which gives LeaseService/* = all\n")
        said = self.ctl("rbac", "check", "bob", "--group", "Physics Dept.", "LeaseService/Acquire", "carol")
        self.assertEqual(said, "yes: group:Physics Dept. has role scheduler, which gives LeaseService/Acquire = all\n")
        said = self.ctl("rbac", "check", "local:daemon", "LeaseService/Get", "bob", status=3)
        self.assertEqual(said, "no: local:* has role user, which gives LeaseService/Get = own\n")
        self.assertEqual(self.ctl("rbac", "check", "bob", "LeaseService/Get", status=3), "no: no role gives this method\n")
        self.assertEqual(json.loads(self.ctl("--json", "rbac", "check", "node:n1", "NodeService/Session")),
                         {"allowed": True, "scope": "own", "subject": "node", "role": "node", "right": "NodeService/Session"})
        self.assertEqual(json.loads(self.ctl("--json", "rbac", "check", "self", "NodeService/Fence"))["subject"], "root")
        for wrong in (["a:b", "LeaseService/Get"], ["bob", "LeaseService/Nothing"], ["bob"], ["root", "-g", "x", "LeaseService/Get"],
                      ["", "LeaseService/Get"]):
            self.assertEqual(self.run_ctl("rbac", "check", *wrong).returncode, 2, wrong)

    def test_a_user_may_see_his_roles_alone(self):
        self.leased()
        daemon = ["setpriv", "--reuid", "daemon", "--regid", "daemon", "--clear-groups"]
        roles = json.loads(self.ctl("--json", "rbac", "roles", prefix=daemon))["roles"]
        self.assertEqual([r["name"] for r in roles], ["user"])
        self.assertEqual(self.run_ctl("rbac", "show", prefix=daemon).returncode, 3)
        self.assertEqual(self.run_ctl("rbac", "apply", self.file(RULES), prefix=daemon).returncode, 3)
        self.assertEqual(self.ctl("rbac", "check", "self", "LeaseService/Get", prefix=daemon)[:3], "yes")
        self.assertIn("NodeService/Fence", self.ctl("rbac", "roles"))

    # ---- the seed ----

    @staticmethod
    def check_config(leased):
        run = subprocess.run([os.path.join(peer.BUILD, "leased/leased"), "--config", leased.conf, "--check-config"],
                             capture_output=True, text=True, timeout=60)
        return run.returncode, run.stderr

    def test_a_seed_is_taken_once(self):
        seed = self.file(RULES)
        leased = self.leased("RbacSeed = " + seed)
        self.assertIn("user:alice = look, operator", self.ctl("rbac", "show"))
        self.ctl("rbac", "apply", "--force", self.file("[bindings]\nlocal:* = user\n", "other"))
        leased.stop()
        self.assertEqual(self.check_config(leased), (0, ""))
        os.unlink(seed)
        leased.start()
        self.assertNotIn("alice", self.ctl("rbac", "show"))

    def test_a_bad_seed_stops_leased_with_file_and_line(self):
        for text, mode, says in ((RULES + "user:bob = nothing\n", 0o644, ":10: "),
                                 (RULES.replace("NodeService/List = all", "NodeService/Lists = all"), 0o644, ":4: "),
                                 (RULES.replace("[bindings]", "[binding"), 0o644, ":6: "),
                                 ("[role admin]\n", 0o644, ":1: "), (RULES, 0o666, "others than its owner")):
            path = self.file(text, mode=mode)
            leased = self.leased("RbacSeed = " + path, wait=False)
            self.assertEqual(leased.process.wait(120), 1, says)
            code, said = self.check_config(leased)
            self.assertEqual(code, 2, says)
            self.assertIn("leased.RbacSeed: " + path, said)
            self.assertIn(says, said)
            self.assertIn(path, leased.said())
            self.assertIn(says, leased.said())
            self.assertFalse(leased.answers())
        leased = self.leased("RbacSeed = /nonexistent/rules", wait=False)
        self.assertEqual(leased.process.wait(120), 1)
        self.assertIn("/nonexistent/rules", leased.said())
        self.assertEqual(self.check_config(leased)[0], 2)
        # Nothing of it is left: with a good seed the same folder comes up, and has it.
        good = self.file(RULES, "good")
        with open(leased.conf) as f:
            text = f.read().replace("/nonexistent/rules", good)
        with open(leased.conf, "w") as f:
            f.write(text)
        leased.start()
        self.assertIn("user:alice", self.ctl("rbac", "show"))


class AuditTest(unittest.TestCase):
    """The audit file: what is written down of whom, and that administrators do nothing while it can not be written."""

    def start(self, config="", preload=()):
        self.leased = peer.Leased(config, preload=preload).__enter__()
        self.addCleanup(self.leased.__exit__, None, None, None)
        self.client = self.leased.client()
        self.addCleanup(self.client.close)
        self.m = self.client.m
        self.client.create_pool()
        self.node = peer.Node(self.client, "n1").wait(lambda n: n.welcome, what="welcome")
        self.addCleanup(self.node.close)
        peer.until(lambda: self.client.node.List(self.m["node"].ListNodesRequest(), timeout=60).nodes[0].state == 1,
                   what="node ready")

    def lines(self, path=None):
        with open(path or os.path.join(self.leased.state, "audit.log"), encoding="utf-8") as f:
            return [json.loads(line) for line in f if line.endswith("\n")]  # the last one may be half there

    def wait_for(self, **wanted):
        """The line with these keys."""
        def found():
            return next((l for l in self.lines() if all(l.get(k) == v for k, v in wanted.items())), None)
        return peer.until(found, what="a line with %s" % wanted)

    def drain(self, reason=b"new disk", verb="Drain"):
        ask = self.client.request(self.m["node"].NodeVerbRequest(node=b"n1", reason=reason))
        return getattr(self.client.node, verb)(ask, timeout=60)

    def test_what_changes_something_is_written_down(self):
        self.start()
        lease = self.client.acquire(job=b"j", request_id=b"0123456789abcdef").leases[0]
        self.client.get(lease=lease.lease)
        self.client.release(lease)
        self.drain()
        line = self.wait_for(method="NodeService/Drain")
        self.assertEqual((line["principal"], line["name"], line["node"], line["reason"], line["outcome"]),
                         ("uid:0", "root", "n1", "new disk", "OK"))
        self.assertIn("NodeService/Drain by root: OK, reason: new disk", self.leased.said())
        line = self.wait_for(method="LeaseService/Acquire")
        self.assertEqual((line["leases"], line["request"], line["outcome"]), ([lease.lease], b"0123456789abcdef".hex(), "OK"))
        self.assertEqual(self.wait_for(method="LeaseService/Release")["lease"], lease.lease)
        self.assertEqual(self.wait_for(method="PoolService/Create")["pool"], "main")
        m = self.m["pool"]
        for reason, code in ((b"", "INVALID_ARGUMENT"), (b"bob has left", "NOT_FOUND")):
            ask = self.client.request(m.UnblockRequest(name=b"main", uid=lease.uid, reason=reason))
            self.assertEqual(peer.code_of(lambda: self.client.pool.Unblock(ask, timeout=60))[0], code)
        line = self.wait_for(method="PoolService/Unblock", outcome="NOT_FOUND")
        self.assertEqual((line["pool"], line["uid"], line["reason"]), ("main", lease.uid, "bob has left"))
        self.assertEqual([l for l in self.lines() if l["method"].split("/")[1] in ("Get", "List")], [])
        mode = os.stat(os.path.join(self.leased.state, "audit.log")).st_mode
        self.assertEqual(mode & 0o7777, 0o600)

    def test_what_is_denied_or_fails_is_written_down(self):
        self.start()
        daemon = caller.Caller("unix:" + self.leased.socket, "daemon")
        self.addCleanup(daemon.close)
        self.assertEqual(daemon.call("/xce.v1.NodeService/List").code, "PERMISSION_DENIED")
        line = self.wait_for(method="NodeService/List")
        self.assertEqual((line["principal"], line["name"], line["outcome"]), ("uid:1", "daemon", "PERMISSION_DENIED"))
        release = self.client.request(self.m["lease"].ReleaseRequest(lease=4711, epoch=1))
        self.assertEqual(daemon.call("/xce.v1.LeaseService/Release", release.SerializeToString()).code, "NOT_FOUND")
        line = self.wait_for(method="LeaseService/Release")
        self.assertEqual((line["lease"], line["outcome"]), (4711, "NOT_FOUND"))
        self.assertIn("NodeService/List denied", self.leased.said())

    def test_it_goes_on_after_a_restart_and_is_rotated(self):
        self.start("AuditSize = 4K\nAuditKeep = 2")
        for i in range(60):
            self.drain(b"round %d" % i, "Drain" if i % 2 else "Undrain")
        self.wait_for(reason="round 59")
        self.leased.stop()
        names = sorted(n for n in os.listdir(self.leased.state) if n.startswith("audit"))
        self.assertEqual(names, ["audit.log", "audit.log.1", "audit.log.2"])
        every = [l for n in reversed(names) for l in self.lines(os.path.join(self.leased.state, n))]
        rounds = [int(l["reason"].split()[1]) for l in every if "reason" in l]
        self.assertEqual(rounds, list(range(rounds[0], 60)))

    def test_a_full_disk_stops_administrators_but_no_user(self):
        if os.geteuid():
            self.skipTest("needs root: mounts a small disk")
        folder = tempfile.mkdtemp(prefix="xce-audit.")
        self.addCleanup(os.rmdir, folder)
        self.start("AuditFile = %s/audit.log" % folder, preload=[
            "unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=8m,mode=0700 tmpfs %s && exec \"$@\"" % folder, "sh"])
        inside = "/proc/%d/root%s" % (self.leased.process.pid, folder)
        fill = os.path.join(inside, "fill")
        with self.assertRaises(OSError), open(fill, "wb", buffering=0) as f:
            while True:
                f.write(bytes(65536))
        # What was reserved before is used up first, a MiB of it.
        code, text = peer.until(lambda: self.refused(b"x" * 500), what="a refusal", seconds=60)
        self.assertEqual(code, "RESOURCE_EXHAUSTED")
        self.assertIn(folder + "/audit.log", text)
        # Who runs jobs is not stopped, and what he does still has its place in what was reserved.
        lease = self.client.acquire(job=b"goes-on").leases[0]
        peer.until(lambda: any(l.get("leases") == [lease.lease] for l in self.lines(inside + "/audit.log")), what="its line")
        os.unlink(fill)
        peer.until(lambda: not self.refused(), what="administrators to be let in again")
        self.assertNotIn("lost", [k for l in self.lines(inside + "/audit.log") for k in l])

    def refused(self, reason=b"again"):
        try:
            self.drain(reason, "Undrain")
            return None
        except grpc.RpcError as error:
            return error.code().name, error.details()

    def test_a_file_that_others_may_read_stops_leased(self):
        leased = peer.Leased()
        self.addCleanup(leased.__exit__, None, None, None)
        os.mkdir(leased.state, 0o700)
        with open(os.path.join(leased.state, "audit.log"), "w", encoding="utf-8"):
            pass
        os.chmod(os.path.join(leased.state, "audit.log"), 0o644)
        leased.start(wait=False)
        self.assertEqual(leased.process.wait(120), 1)
        self.assertIn("audit.log: others than its owner", leased.said())


if __name__ == "__main__":
    unittest.main(verbosity=2)
