#!/usr/bin/python3
"""leasectl against a real leased: every verb, its JSON, its exit statuses, and what becomes of it when leased dies."""
import concurrent.futures
import contextlib
import glob
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peer

FIRST = 2013265920
COUNT = 4096
CONFIG = "Heartbeat = 100ms\nLostAfter = 60s"
LEASECTL = os.environ.get("LEASECTL", os.path.join(peer.BUILD, "ctl/leasectl"))
LEASE_KEYS = ("lease uid gid epoch name pool job owner nodes state quarantined reasons write_paths expires "
              "revision").split()
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


class LeasectlTest(unittest.TestCase):
    def setUp(self):
        self.leased = peer.Leased(CONFIG).__enter__()
        self.addCleanup(self.leased.__exit__, None, None, None)
        self.nodes = []

    def tearDown(self):
        for node in self.nodes:
            node.close()
        if self.nodes:
            self.client.close()

    # ---- the world's words ----

    def command(self, *args, prefix=()):
        return [*prefix, LEASECTL, "--server", "unix:" + self.leased.socket, *args]

    def run_ctl(self, *args, prefix=(), timeout=120):
        return subprocess.run(self.command(*args, prefix=prefix), capture_output=True, text=True, timeout=timeout)

    def ctl(self, *args, status=0, **more):
        """Its stdout; the exit status must be as said."""
        run = self.run_ctl(*args, **more)
        self.assertEqual(run.returncode, status, "%s\n%s%s" % (args, run.stdout, run.stderr))
        return run.stdout

    def json(self, *args, status=0, **more):
        return json.loads(self.ctl("--json", *args, status=status, **more))

    def error(self, *args, status, **more):
        """The error object of a call that must fail."""
        run = self.run_ctl("--json", *args, **more)
        self.assertEqual(run.returncode, status, "%s\n%s%s" % (args, run.stdout, run.stderr))
        return json.loads(run.stdout)["error"]

    def pool(self, name="main", first=FIRST, count=COUNT, *more):
        return self.json("pool", "create", name, "--range", "%d-%d" % (first, first + count - 1), "--directory-ranges",
                         "none", "--cooldown", "1s", "--ready-timeout", "1m", *more)

    def node(self, name="n1", **more):
        if not self.nodes:
            self.client = self.leased.client()
        node = peer.Node(self.client, name, **{"beats": 0.3, **more}).wait(lambda n: n.welcome, what="welcome")
        self.nodes.append(node)
        peer.until(lambda: self.json("node", "show", name)["state"] == "ready", what="node ready")
        return node

    def acquire(self, *args, **more):
        return self.json("acquire", "--nodes", "n1", "--wait", *args, **more)

    # ---- leases ----

    def test_acquire_and_show_by_every_key(self):
        self.pool()
        self.node()
        lease = self.acquire("--job", "j1", "--ttl", "1m")
        self.assertEqual([k for k in LEASE_KEYS if k not in lease], [])
        self.assertEqual((lease["uid"], lease["gid"], lease["epoch"], lease["state"]), (FIRST, FIRST, 1, "active"))
        self.assertEqual(lease["owner"], {"name": "root", "uid": 0, "gid": 0})
        self.assertEqual((lease["nodes"], lease["pool"], lease["job"]), (["n1"], "main", "j1"))
        self.assertEqual([(m["node"], m["proof"]) for m in lease["members"]], [("n1", "ready")])
        self.assertEqual((lease["quarantined"], lease["reasons"], lease["write_paths"]), (False, [], []))
        self.assertRegex(lease["expires"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        for key in ([str(FIRST)], [lease["name"]], [str(lease["lease"])], ["--uid", str(FIRST)], ["--job", "j1"],
                    ["--lease", str(lease["lease"])], ["--name", lease["name"]],
                    ["--job", "j1", "--owner", "root"], ["--job", "j1", "--owner", "0"]):
            self.assertEqual(self.json("show", *key)["lease"], lease["lease"], key)
        for key, named in ((["--uid", str(FIRST - 1)], "uid %d" % (FIRST - 1)), (["--job", "j2"], "job j2 of yours"),
                           (["--job", "j2", "--owner", "root"], "job j2 of root"), (["xce-0-0"], "name xce-0-0"),
                           (["99999"], "99999"), (["--lease", "99999"], "lease 99999")):
            for verb in ("show", "explain", "release", "renew"):
                error = self.error(verb, *key, status=3)
                self.assertEqual(error["code"], "not_found")
                self.assertIn(named, error["message"])
        self.assertIsNone(self.acquire("--ttl", "none")["expires"])

    def test_job_names_one_lease(self):
        self.pool()
        self.node()
        lease = self.acquire("--job", "j1")
        self.assertEqual(self.error("acquire", "--nodes", "n1", "--job", "j1", status=1)["code"], "already_exists")
        self.assertEqual(self.acquire("--job", "j1", "--adopt")["lease"], lease["lease"])

    def test_times_are_refused_in_the_units_in_which_they_are_written(self):
        pool = self.pool("main", FIRST, COUNT, "--ttl-max", "2h")
        self.node()
        self.assertEqual(pool["settings"]["ttl_max_ms"], 2 * 3600 * 1000)
        lease = str(self.acquire("--ttl", "30m")["lease"])
        for args, told in ((["acquire", "--nodes", "n1", "--ttl", "3d"], "ttl of 3d: pool main allows 1s to 2h"),
                           (["renew", "--lease", lease, "--ttl", "90m500ms"], None),
                           (["renew", "--lease", lease, "--ttl", "1d"], "ttl of 1d: pool main allows 1s to 2h"),
                           (["pool", "set", "main", "--cooldown", "8d"], "cooldown_ms: 8d, must be 1s to 7d")):
            run = self.run_ctl(*args)
            self.assertEqual(run.returncode, 2 if told else 0, run.stderr)
            self.assertIn(told or "", run.stderr)

    def test_batch(self):
        self.pool()
        self.node()
        leases = self.acquire("--count", "3", "--job", "a-%i-b")["leases"]
        self.assertEqual([x["job"] for x in leases], ["a-1-b", "a-2-b", "a-3-b"])
        self.assertEqual([x["uid"] for x in leases], [FIRST, FIRST + 1, FIRST + 2])
        uids = self.ctl("acquire", "--nodes", "n1", "--count", "2", "--print", "uid").split()
        self.assertEqual(uids, [str(FIRST + 3), str(FIRST + 4)])

    def test_print_forms(self):
        self.pool()
        self.node()
        text = self.ctl("acquire", "--nodes", "n1", "--wait", "--job", "it's", "--print", "env")
        said = subprocess.run(["sh", "-c", 'eval "$1"; echo "$XCE_UID $XCE_GID $XCE_JOB $XCE_STATE $XCE_SLICE"', "sh",
                               text], capture_output=True, text=True, check=True).stdout
        self.assertEqual(said, "%d %d it's active xce-%d-1.slice\n" % (FIRST, FIRST, FIRST))
        line = self.ctl("acquire", "--nodes", "n1", "--print", "systemd-run")
        words = line.split()
        name = self.json("show", str(FIRST + 1))["name"]
        self.assertEqual(line, " ".join(words) + "\n")
        self.assertIn("--property=User=" + name, words)
        self.assertIn("--property=Group=%d" % (FIRST + 1), words)
        self.assertTrue(all(w.startswith("--property=") for w in words))
        self.assertEqual(self.ctl("acquire", "--nodes", "n1", "--print", "name").strip(),
                         self.json("show", str(FIRST + 2))["name"])

    def test_request_id(self):
        self.pool()
        self.node()
        first = self.acquire("--request-id", "0123456789abcdef")
        again = self.acquire("--request-id", "0123456789abcdef")
        self.assertEqual(first["lease"], again["lease"])
        error = self.error("acquire", "--nodes", "n1", "--wait", "--job", "x", "--request-id", "0123456789abcdef",
                           status=2)
        self.assertEqual(error["code"], "invalid_argument")

    def test_all_nodes_says_which_it_left_out(self):
        self.pool()
        for i in range(1, 6):
            self.node("n%d" % i, machine=str(i) * 32)
        self.assertEqual(self.json("acquire", "--nodes", "all", "--wait")["left_out"], [])
        self.ctl("node", "drain", "n[2-3]", "--reason", "new disks")
        self.ctl("node", "cordon", "n5", "--reason", "odd")
        left_out = [{"node": "n2", "state": "draining", "reason": "new disks"}, {"node": "n3", "state": "draining", "reason": "new disks"},
                    {"node": "n5", "state": "cordoned", "reason": "odd"}]
        for more in ([], ["--wait"]):
            run = self.run_ctl("--json", "acquire", "--nodes", "all", *more)
            self.assertEqual((run.returncode, run.stderr), (0, "leasectl: not on all nodes: without n[2-3] (draining), n5 (cordoned)\n"))
            lease = json.loads(run.stdout)
            self.assertEqual((lease["nodes"], lease["left_out"]), (["n1", "n4"], left_out))
        # One that is added is left out no more.
        self.ctl("node", "undrain", "n3")
        self.json("renew", "--lease", str(lease["lease"]), "--add-nodes", "n3")
        batch = self.json("acquire", "--nodes", "all", "--count", "2")
        self.assertEqual([x["node"] for x in batch["left_out"]], ["n2", "n5"])
        run = self.run_ctl("acquire", "--nodes", "all", "--print", "uid")
        self.assertEqual((run.returncode, run.stdout.count("\n")), (0, 1))
        self.assertIn("without n2 (draining), n5 (cordoned)", run.stderr)
        # Why is for who may list nodes.
        theirs = self.json("acquire", "--nodes", "all", "--job", "theirs", prefix=NOBODY)
        self.assertEqual([(x["node"], x["reason"]) for x in theirs["left_out"]], [("n2", ""), ("n5", "")])
        # Who is named is refused, not left out.
        self.assertEqual(self.acquire()["left_out"], [])

    def test_exhausted(self):
        self.pool("main", FIRST, 1)
        self.node()
        self.acquire()
        error = self.error("acquire", "--nodes", "n1", status=6)
        self.assertEqual(error["code"], "resource_exhausted")
        self.assertIn("active", error["message"])

    def test_usage_of_the_server(self):
        self.pool()
        self.assertEqual(self.error("acquire", status=2)["code"], "invalid_argument")
        self.assertEqual(self.error("acquire", "--nodes", "n1", "--pool", "other", status=3)["code"], "not_found")
        error = self.error("acquire", "--nodes", "n1", "--write-path", "/tmp:create", status=1)
        self.assertEqual(error["code"], "unimplemented")
        self.assertIn("write_paths", error["message"])

    def test_renew(self):
        self.pool()
        self.node()
        lease = self.acquire("--ttl", "30s")
        renewed = self.json("renew", lease["name"], "--ttl", "10m")
        self.assertGreater(renewed["expires"], lease["expires"])
        self.assertGreater(renewed["revision"], lease["revision"])
        self.assertEqual(self.json("renew", str(lease["uid"]))["lease"], lease["lease"])

    def test_renew_adds_members(self):
        def members(lease):
            return {m["node"]: (m["proof"], m["released"]) for m in lease["members"]}

        self.pool()
        self.node()
        self.node("n2", machine="2" * 32, boot="b" * 32)
        late = self.node("n3", machine="3" * 32, boot="c" * 32, ready=False)
        lease = str(self.acquire("--ttl", "30s")["lease"])
        added = self.json("renew", "--lease", lease, "--add-nodes", "n[1-2]", "--wait")
        self.assertEqual((added["state"], members(added)), ("active", {"n1": ("ready", False), "n2": ("ready", False)}))
        self.assertEqual(self.json("renew", "--lease", lease, "--add-nodes", "n2", "--wait")["nodes"], ["n1", "n2"])
        error = self.error("renew", "--lease", lease, "--add-nodes", "n3,n9", status=3)
        self.assertIn("node n9 is not registered", error["message"])
        # One that is late is let go, and can not be taken in again; the lease does not mind.
        self.ctl("pool", "set", "main", "--ready-timeout", "2s")
        error = self.error("renew", "--lease", lease, "--add-nodes", "n3", "--wait", status=1)
        self.assertIn("node n3 is no member", error["message"])
        shown = self.json("show", "--lease", lease)
        self.assertEqual((shown["state"], members(shown)["n3"]), ("active", ("pending", True)))
        error = self.error("renew", "--lease", lease, "--add-nodes", "n3", status=1)
        self.assertEqual(error["code"], "failed_precondition")
        self.assertIn("n3 was let go", error["message"])
        late.report(shown["uid"], shown["epoch"], late.m.REPORT_KIND_CLEAN)
        self.assertEqual(self.json("release", "--lease", lease, "--wait")["lease"], int(lease))

    def refused(self, name="n1", **more):
        node = peer.Node(self.client, name, **more).wait(lambda n: n.ended, what="the end of its session")
        node.close()
        self.assertIsNone(node.welcome)

    def test_node_show_names_who_else_speaks(self):
        self.pool()
        self.node(boot="a" * 32)
        self.assertIsNone(self.json("node", "show", "n1")["rival"])
        self.assertEqual(self.run_ctl("node", "show", "n1").stderr, "")
        self.refused("n2", boot="b" * 32)
        self.assertRegex(self.run_ctl("node", "show", "n1").stderr,
                         "n1: refused at 2.*: machine %s in boot %s, as node n2: its machine, or a copy" % ("1" * 32, "b" * 32))
        self.refused(machine="9" * 32, boot="9" * 32)
        self.assertRegex(self.run_ctl("node", "show", "n1").stderr, "machine %s in boot %s$" % ("9" * 32, "9" * 32))
        self.node(boot="b" * 32)
        for _ in range(3):
            self.refused(boot="a" * 32)
        shown = self.json("node", "show", "n1")
        self.assertEqual((shown["state"], shown["rival"]["boot_id"], shown["rival"]["cloned"]), ("lost", "a" * 32, True))
        self.assertIn("cloned", shown["reason"])
        self.assertIn("boot %s and in boot %s: switch off both, then leasectl node fence n1" % ("b" * 32, "a" * 32),
                      self.run_ctl("node", "show", "n1").stderr)
        self.assertIn("b" * 32, self.ctl("node", "list", "-o", "node,boot_id,rival"))
        self.ctl("node", "fence", "n1", "--reason", "both are off")
        self.node(boot="c" * 32)

    def test_release_waits_until_clean_and_free(self):
        self.pool()
        self.node()
        lease = self.acquire("--job", "j1")
        self.ctl("pool", "set", "main", "--cooldown", "10s")
        self.assertEqual(self.json("release", "--job", "j1", "--wait")["lease"], lease["lease"])
        self.assertIn(self.json("show", str(lease["lease"]))["state"], ("cooling", "retired"))
        self.assertEqual(self.json("release", str(lease["uid"]), "--wait=free")["lease"], lease["lease"])
        self.assertEqual(self.error("show", str(lease["uid"]), status=3)["code"], "not_found")
        self.assertEqual(self.error("release", str(lease["uid"]), status=3)["code"], "not_found")

    def test_release_that_is_not_proved_times_out(self):
        self.pool()
        node = self.node(clean_reports=False)
        lease = self.acquire()
        node.wait(lambda n: lease["uid"] in n.leases)
        began = time.monotonic()
        error = self.error("--timeout", "3s", "release", str(lease["uid"]), "--wait", status=5)
        self.assertLess(time.monotonic() - began, 25)  # it is 30 s by default
        self.assertIn("explain", error["message"])
        node.report(lease["uid"], 1, node.m.REPORT_KIND_DIRTY, b"file", b"/tmp/\x1b[31mx".replace(b"\x1b", b"?"))
        peer.until(lambda: self.json("show", str(lease["uid"]))["quarantined"], what="quarantine")
        run = self.run_ctl("--timeout", "3s", "release", str(lease["uid"]), "--wait")
        self.assertEqual(run.returncode, 5)
        self.assertIn("is quarantined: dirty; n1: file /tmp/", run.stderr)
        listed = self.json("list", "--quarantined")["leases"]
        self.assertEqual([x["lease"] for x in listed], [lease["lease"]])

    def test_release_that_has_waited_says_how_it_stands_then(self):
        self.pool()
        node = self.node(clean_reports=False)

        def waits(*args):
            """The release, once it has been acknowledged and its node has proved it."""
            lease = self.acquire()
            command = subprocess.Popen(self.command("release", str(lease["uid"]), *args), stdout=subprocess.PIPE, text=True)
            peer.until(lambda: self.json("show", "--lease", str(lease["lease"]))["state"] == "draining", what="the release")
            node.report(lease["uid"], lease["epoch"], node.m.REPORT_KIND_CLEAN)
            said = command.communicate(timeout=60)[0]
            self.assertEqual(command.returncode, 0)
            return said

        said = json.loads(waits("--json", "--wait=free"))
        self.assertEqual((said["state"], [m["proof"] for m in said["members"]]), ("free", ["clean"]))
        self.assertIn(json.loads(waits("--json", "--wait"))["state"], ("cooling", "retired", "free"))
        self.assertEqual(waits("--wait=free", "--no-headings", "-o", "state").split(), ["free"])
        # In vain: it stands as it stood, and that is said, too.
        lease = self.acquire()
        run = self.run_ctl("--timeout", "700ms", "release", str(lease["uid"]), "--wait", "--no-headings", "-o", "state")
        self.assertEqual((run.returncode, run.stdout.split()), (5, ["draining"]))

    def test_release_of_several(self):
        self.pool()
        self.node()
        leases = self.acquire("--count", "3")["leases"]
        released = self.json("release", *[str(x["uid"]) for x in leases])["leases"]
        self.assertEqual([x["lease"] for x in released], [x["lease"] for x in leases])
        self.assertEqual(self.json("list")["leases"], [])
        lease = self.acquire()
        self.ctl("release", "99999", str(lease["uid"]), status=3)
        self.assertEqual(self.json("list")["leases"], [])

    def test_revoke(self):
        self.pool()
        self.node()
        lease = self.acquire()
        revoked = self.json("revoke", str(lease["uid"]), "--reason", "maintenance")
        self.assertEqual((revoked["state"], revoked["cause"]), ("draining", "revoked"))

    # ---- lists ----

    def test_list_filters(self):
        self.pool()
        self.pool("second", FIRST + COUNT, 16)
        self.node("n1")
        self.node("n2", machine="2" * 32)
        self.ctl("pool", "set", "main", "--cooldown", "10m")
        one = self.acquire("--pool", "main", "--job", "a")
        two = self.json("acquire", "--pool", "second", "--nodes", "n[1-2]", "--job", "b", "--wait", "--owner", "nobody")
        ended = self.acquire("--pool", "main", "--job", "c")
        self.ctl("release", str(ended["uid"]))

        def listed(*args):
            return [x["lease"] for x in self.json("list", *args)["leases"]]

        self.assertEqual(listed(), [one["lease"], two["lease"]])
        self.assertEqual(listed("--all"), [one["lease"], two["lease"], ended["lease"]])
        self.assertEqual(listed("--pool", "second"), [two["lease"]])
        self.assertEqual(listed("--node", "n2"), [two["lease"]])
        self.assertEqual(listed("--owner", "nobody"), [two["lease"]])
        self.assertEqual(listed("--job", "a"), [one["lease"]])
        self.assertEqual(listed("--state", "active"), [one["lease"], two["lease"]])
        self.assertEqual(listed("--state", "granted"), [])
        self.assertEqual(listed("--quarantined"), [])
        text = self.ctl("list", "--no-headings", "-o", "uid,nodes,owner,state")
        self.assertEqual([x.split() for x in text.splitlines()],
                         [[str(one["uid"]), "n1", "root", "active"], [str(two["uid"]), "n[1-2]", "nobody", "active"]])
        self.assertEqual(self.ctl("list", "-o", "LEASE,job").splitlines()[0].split(), ["LEASE", "JOB"])

    def test_list_of_many_pages(self):
        self.pool()
        self.node()
        for _ in range(3):
            self.ctl("acquire", "--nodes", "n1", "--count", "1000", "--print", "uid")
        leases = self.json("list")["leases"]
        self.assertEqual([x["uid"] for x in leases], list(range(FIRST, FIRST + 3000)))
        self.assertEqual(len(self.ctl("list", "--no-headings").splitlines()), 3000)
        # A reader that goes away is no error to shout about.
        run = subprocess.run(["bash", "-c", "set -o pipefail; \"$@\" | head -1", "sh", *self.command("list")],
                             capture_output=True, text=True, timeout=120)
        self.assertEqual(run.stderr, "")
        self.assertEqual(len(run.stdout.splitlines()), 1)

    def test_empty_list_has_headings(self):
        self.assertEqual(self.json("list"), {"leases": []})
        self.assertTrue(self.ctl("list").startswith("LEASE "))
        self.assertEqual(self.ctl("list", "--no-headings"), "")

    # ---- watch ----

    def watch(self, *args, form=("--json",)):
        process = subprocess.Popen(self.command(*form, "watch", *args), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def read_until(self, process, done):
        events = []
        while not events or not done(events[-1]):
            line = process.stdout.readline()
            self.assertTrue(line, "watch ended: %s" % process.poll())
            events.append(json.loads(line))
        return events

    def test_watch_tells_a_lease_to_its_end(self):
        self.pool()
        self.node()
        self.acquire("--job", "before")
        watch = self.watch()
        self.assertIn("watching from revision", watch.stderr.readline())
        lease = self.acquire("--job", "j1")
        self.ctl("release", "--job", "j1")
        events = self.read_until(watch, lambda e: e["state"] == "free")
        self.assertEqual({e["lease"] for e in events}, {lease["lease"]})
        self.assertEqual({e["event"] for e in events}, {"changed"})
        revisions = [e["revision"] for e in events]
        self.assertEqual(revisions, sorted(set(revisions)))
        states = [e["state"] for e in events]
        self.assertEqual([s for i, s in enumerate(states) if s not in states[:i]],
                         [s for s in "granted active draining normalising cooling retired free".split() if s in states])
        # Again from the middle: the rest, and nothing else.
        again = self.watch("--since", str(revisions[1]))
        self.assertEqual([e["revision"] for e in self.read_until(again, lambda e: e["state"] == "free")], revisions[2:])

    def test_watch_has_columns(self):
        """What is in them fits; where a job is longer than any before, the lines from it on are as wide."""
        def places(line):
            return [word.start() for word in re.finditer(r"\S+", line)]

        def watch(n, *form):
            process = self.watch("--since", "0", form=form)
            return [process.stdout.readline().rstrip("\n") for _ in range(n)]

        self.pool()
        self.node()
        self.acquire("--job", "short")
        self.acquire("--job", "one-that-is-so-long-that-no-column-is-ready-for-it")
        self.acquire("--job", "short-again")
        lines = watch(4, "-o", "job,expires,changed,cause,name,state")
        self.assertEqual(lines[0].split(), "JOB EXPIRES CHANGED CAUSE NAME STATE".split())
        self.assertEqual([line.split()[-1] for line in lines[1:]], ["active"] * 3)
        self.assertEqual(places(lines[0]), places(lines[1]))
        self.assertEqual(places(lines[2]), places(lines[3]))
        self.assertEqual([b - a for a, b in zip(places(lines[1])[1:], places(lines[2])[1:])], [places(lines[2])[1] - places(lines[1])[1]] * 5)
        self.assertEqual([line for line in lines if line != line.rstrip()], [])
        lines = watch(3, "--no-headings", "-o", "uid,lease,job")
        self.assertEqual([line.split()[:2] for line in lines], [[str(FIRST + i), str(i + 1)] for i in range(3)])
        self.assertEqual(len({places(line)[2] for line in lines}), 1)

    def test_watch_since_zero_lists_first(self):
        self.pool()
        self.node()
        one = self.acquire()
        two = self.acquire()
        self.ctl("renew", str(one["uid"]))
        watch = self.watch("--since", "0")
        events = self.read_until(watch, lambda e: e["lease"] == one["lease"])
        self.assertEqual([e["lease"] for e in events], [two["lease"], one["lease"]])
        self.assertEqual({e["event"] for e in events}, {"listed"})
        self.ctl("release", str(one["uid"]))
        self.assertEqual(self.read_until(watch, lambda e: True)[0]["event"], "changed")

    def test_watch_outlives_leased(self):
        self.pool()
        watch = self.watch()
        watch.stderr.readline()
        seen = []
        for _ in range(5):
            self.node()
            lease = self.acquire()
            seen += self.read_until(watch, lambda e: e["lease"] == lease["lease"] and e["state"] == "active")
            self.leased.kill()
            self.nodes.pop().close()
            self.client.close()
            self.leased.start()
        revisions = [e["revision"] for e in seen if e["event"] == "changed"]
        self.assertEqual(revisions, sorted(set(revisions)))
        self.assertEqual(len({e["uid"] for e in seen}), 5)

    def test_watch_ends_with_its_reader(self):
        watch = self.watch()
        watch.stderr.readline()
        watch.stdout.close()
        watch.wait(timeout=60)

    # ---- explain and history ----

    def test_explain(self):
        self.pool()
        node = self.node(clean_reports=False)
        lease = self.acquire()
        explained = self.json("explain", str(lease["uid"]))
        self.assertFalse(explained["free"])
        self.assertEqual(explained["lease"]["lease"], lease["lease"])
        self.ctl("release", str(lease["uid"]))
        for key in (str(lease["uid"]), lease["name"], str(lease["lease"])):
            waits = self.json("explain", key)["waits"]
            self.assertEqual([w["what"] for w in waits], ["member n1"])
            self.assertRegex(waits[0]["since"], r"^\d{4}-")
        text = self.ctl("explain", str(lease["uid"]))
        self.assertIn("draining", text.splitlines()[0])
        self.assertIn("member n1", text)
        free = self.json("explain", str(FIRST + 5))
        self.assertEqual((free["free"], free["lease"], free["waits"]), (True, None, []))
        self.assertEqual(self.error("explain", "12345", status=3)["code"], "not_found")
        node.report(lease["uid"], 1, node.m.REPORT_KIND_CLEAN)

    def test_ended_lease_is_found_by_its_job(self):
        """Why is my job's uid held? Its lease has ended and its uid is not free; a newer one of the job is what is meant then."""
        self.pool()
        node = self.node(clean_reports=False)
        first, second = self.acquire("--job", "j1"), None
        for n in range(2):
            lease = second or first
            said = self.json("release", "--job", "j1")
            self.assertEqual((said["lease"], said["state"]), (lease["lease"], "draining"))
            for verb in (["show"], ["release"], ["release", "--owner", "root"]):
                said = self.json(*verb, "--job", "j1")
                self.assertEqual((said["lease"], said["state"]), (lease["lease"], "draining"), verb)
            for owner in ([], ["--owner", "0"]):
                said = self.json("explain", "--job", "j1", *owner)
                self.assertEqual((said["lease"]["lease"], [w["what"] for w in said["waits"]]), (lease["lease"], ["member n1"]))
            for other in (["--job", "j1", "--owner", "1234:1234"], ["--job", "j"], ["--job", "j11"]):
                for verb in ("show", "explain", "release"):
                    self.assertEqual(self.error(verb, *other, status=3)["code"], "not_found")
            second = second or self.acquire("--job", "j1")
            if not n:
                self.assertEqual(self.json("show", "--job", "j1")["lease"], second["lease"])
        # Another's is nobody's to him, live or ended.
        for verb in ("show", "explain"):
            self.assertEqual(self.error(verb, "--job", "j1", "--owner", "root", prefix=NOBODY, status=3)["code"], "not_found")
        for lease in (first, second):
            node.report(lease["uid"], 1, node.m.REPORT_KIND_CLEAN)
        self.ctl("release", "--job", "j1", "--wait=free")
        peer.until(lambda: not self.json("list", "--all")["leases"], what="both uids to be free")
        self.assertEqual(self.error("explain", "--job", "j1", status=3)["code"], "not_found")

    def test_explain_says_since_when_whatever_happens_to_leased(self):
        """Cluster time stands still while leased is away; the time at which the state began does not move."""
        self.pool()
        self.node(clean_reports=False)
        lease = self.acquire()
        states = []
        for verb in ([], ["release"]):
            if verb:
                self.ctl(*verb, str(lease["uid"]))
            shown = self.json("show", str(lease["uid"]))
            waits = self.json("explain", str(lease["uid"]))["waits"]
            self.assertEqual([w["since"] for w in waits], [shown["changed"]])
            states.append(shown["state"])
        self.assertEqual(states, ["active", "draining"])
        self.leased.kill()
        self.leased.start()
        again = self.json("explain", str(lease["uid"]))["waits"]
        self.assertEqual([(w["what"], w["since"]) for w in again], [(w["what"], w["since"]) for w in waits])

    def test_history(self):
        self.pool()
        self.node()
        lease = self.acquire("--job", "past")
        self.ctl("release", str(lease["uid"]), "--wait=free")

        def entries(*args, **more):
            return [x["job"] for x in self.json("history", *args, **more)["history"]]

        self.assertEqual(entries(str(lease["uid"])), ["past"])
        self.assertEqual(entries("--lease", str(lease["lease"])), ["past"])
        self.assertEqual(entries(lease["name"]), ["past"])
        self.assertEqual(entries("--uid", str(lease["uid"]), "--at", lease["changed"]), ["past"])
        self.assertEqual(entries("--uid", str(lease["uid"]), "--at", "1h ago"), [])
        self.assertEqual(entries("--uid", str(FIRST + 9)), [])
        again = self.acquire("--job", "past")
        self.acquire("--job", "pas")
        peer.until(lambda: len(entries("--job", "past")) == 2, what="the history to be written")
        self.assertEqual([x["lease"] for x in self.json("history", "--job", "past")["history"]], [again["lease"], lease["lease"]])
        self.assertEqual(entries("--job", "past", "--limit", "1"), ["past"])
        self.assertEqual(entries("--job", "past", "--at", lease["changed"]), ["past"])
        self.assertEqual(entries("--job", "past", "--at", "1h ago"), [])
        self.assertEqual(entries("--job", "past", "--owner", "root"), ["past", "past"])
        self.assertEqual(entries("--job", "past", "--owner", "1234:1234"), [])
        self.assertEqual(entries("--job", "past", "--owner", "root", prefix=NOBODY), [])
        self.assertEqual(self.error("history", "--job", "a b", status=2)["code"], "invalid_argument")
        text = self.ctl("history", str(lease["uid"]), "--no-headings", "-o", "lease,job,cause")
        self.assertEqual(text.split(), [str(lease["lease"]), "past", "release"])

    def test_history_that_is_not_known_is_not_nobody(self):
        self.pool()
        self.node()
        lease = self.acquire("--job", "past")
        self.ctl("release", str(lease["uid"]), "--wait=free")
        present = self.acquire("--job", "present")
        self.assertIsNone(self.json("history", str(FIRST + 9))["unknown"])
        self.leased.stop()
        with contextlib.closing(sqlite3.connect(os.path.join(self.leased.state, "history.db"))) as db:
            db.execute("DELETE FROM lease WHERE job = 'past'")
            db.execute("INSERT INTO gap(from_wall, to_wall, from_revision, to_revision) SELECT 0, wall, 0, revision FROM period")
            db.commit()
        self.leased.start()
        asked = ["history", "--uid", str(lease["uid"]), "--at", lease["changed"]]
        said = self.json(*asked, status=1)
        self.assertEqual(said["history"], [])
        self.assertIn("not known", said["unknown"])
        run = self.run_ctl(*asked)
        self.assertEqual(run.returncode, 1)
        self.assertIn("not known", run.stderr)
        # What is known is said all the same.
        said = self.json("history", str(present["uid"]))
        self.assertEqual([x["job"] for x in said["history"]], ["present"])
        self.assertIn("not known", said["unknown"])

    # ---- pools and nodes ----

    def test_pools(self):
        pool = self.pool()
        self.assertEqual((pool["name"], pool["range"], pool["state"]), ("main", "%d-%d" % (FIRST, FIRST + COUNT - 1), "open"))
        self.assertEqual(pool["settings"]["cooldown_ms"], 1000)
        self.assertEqual(pool["counts"]["free"], COUNT)
        self.assertEqual([p["name"] for p in self.json("pool", "list")["pools"]], ["main"])
        self.assertEqual(self.json("pool", "show", "main")["range"], pool["range"])
        self.assertIn("cooldown: 1s\n", self.ctl("pool", "show", "main"))
        self.assertEqual(self.json("pool", "set", "main", "--ttl-default", "5m")["settings"]["ttl_default_ms"], 300000)
        self.assertEqual(self.json("pool", "set", "main", "--last", str(FIRST + COUNT))["last"], FIRST + COUNT)
        self.assertEqual(self.error("pool", "create", "main", "--range", "%d-%d" % (FIRST, FIRST + 1),
                                    "--directory-ranges", "none", status=1)["code"], "already_exists")
        self.assertEqual(self.error("pool", "create", "x", "--range", "60001-60010", "--directory-ranges", "none",
                                    status=1)["code"], "failed_precondition")
        suggested = self.json("pool", "suggest", "--count", "100")
        self.assertEqual(suggested["last"] - suggested["first"], 99)
        self.assertEqual(self.ctl("-q", "pool", "suggest", "--count", "100").strip(), suggested["range"])
        self.assertEqual(self.json("pool", "retire", "main")["state"], "retiring")
        peer.until(lambda: self.json("pool", "list")["pools"] == [], what="an empty pool to go")
        self.assertEqual(self.error("pool", "show", "main", status=3)["code"], "not_found")

    def test_unblock(self):
        self.pool()
        node = self.node()
        node.block(FIRST + 3, b"account", b"mallory")
        peer.until(lambda: self.json("pool", "show", "main")["blocked"], what="the block")
        blocked = self.json("pool", "show", "main")["blocked"]
        self.assertEqual([(b["uid"], b["node"], b["reason"]) for b in blocked], [(FIRST + 3, "n1", "account")])
        self.assertIn("mallory", self.ctl("pool", "show", "main"))
        self.assertIn("blocked", self.json("explain", str(FIRST + 3))["summary"])
        error = self.error("pool", "unblock", "main", str(FIRST + 3), status=2)
        self.assertIn("--reason", error["message"])
        self.assertEqual(self.json("pool", "unblock", "main", str(FIRST + 3), "--reason", "alice left")["blocked"], [])

    def test_nodes(self):
        self.pool()
        self.node("n1")
        self.node("n2", machine="2" * 32)
        self.assertEqual([n["node"] for n in self.json("node", "list")["nodes"]], ["n1", "n2"])
        node = self.json("node", "drain", "n1", "--reason", "new disks")
        self.assertEqual((node["node"], node["state"], node["reason"], node["connected"]),
                         ("n1", "draining", "new disks", True))
        self.assertEqual(self.json("node", "undrain", "n1")["state"], "ready")
        many = self.json("node", "cordon", "n[1-3]", "--reason", "x", status=3)
        self.assertEqual([n["state"] for n in many["nodes"]], ["cordoned", "cordoned"])
        self.assertEqual([(e["node"], e["code"]) for e in many["errors"]], [("n3", "not_found")])
        run = self.run_ctl("node", "undrain", "n[1-3]")
        self.assertEqual((run.returncode, len(run.stdout.splitlines())), (3, 3))
        self.assertIn("n3: ", run.stderr)
        self.assertEqual([n["node"] for n in self.json("node", "list", "--state", "ready")["nodes"]], ["n1", "n2"])
        self.ctl("node", "sweep", "n1")
        refused = self.run_ctl("node", "fence", "n2", "--reason", "pulled the plug")
        self.assertEqual((refused.returncode, len(refused.stderr.splitlines())), (1, 1))
        self.assertRegex(refused.stderr, r"only one that is lost .*; last heard of: \d{4}-")
        self.nodes.pop().close()
        with self.leased.losing(3):
            peer.until(lambda: self.json("node", "show", "n2")["state"] == "lost", what="n2 lost")
        fenced = self.run_ctl("--json", "node", "fence", "n2", "--reason", "pulled the plug")
        self.assertEqual(json.loads(fenced.stdout)["state"], "fenced")
        self.assertIn("machine %s, boot %s is sworn" % ("2" * 32, "a" * 32), fenced.stderr)
        self.ctl("node", "forget", "n2", "--reason", "gone")
        self.assertEqual([n["node"] for n in self.json("node", "list")["nodes"]], ["n1"])

    def test_dry_run_of_what_could_not_be_looked_at_has_no_uid(self):
        class Node(peer.Node):
            """It answers a dry run with what no real one can be made to find at will."""

            def _take(self, down):
                super()._take(down)
                if down.WhichOneof("body") == "sweep" and down.sweep.dry_run:
                    found = [self.m.RemnantReport(uid=0, kind=b"scan-failed", count=1, would=b"leave", detail=b"/srv: Input/output error"),
                             self.m.RemnantReport(uid=FIRST, kind=b"file", count=3, would=b"remove", detail=b"/tmp/x")]
                    dry = self.m.DryReport(question=down.sweep.question, remnants=found, left_out=2)
                    self.up.put(self.m.SessionUp(report=self.m.Report(dry=dry)))

        self.pool()
        self.client = self.leased.client()
        self.nodes.append(Node(self.client, "n1", beats=0.3).wait(lambda n: n.welcome, what="welcome"))
        peer.until(lambda: self.json("node", "show", "n1")["state"] == "ready", what="node ready")
        said = self.json("node", "sweep", "n1", "--dry-run")
        self.assertEqual(said, {"node": "n1", "left_out": 2, "remnants": [
            {"uid": None, "kind": "scan-failed", "count": 1, "would": "leave", "detail": "/srv: Input/output error"},
            {"uid": FIRST, "kind": "file", "count": 3, "would": "remove", "detail": "/tmp/x"}]})
        run = self.run_ctl("node", "sweep", "n1", "--dry-run", "--no-headings", "-o", "uid,kind")
        self.assertEqual([line.split() for line in run.stdout.splitlines()], [["-", "scan-failed"], [str(FIRST), "file"]])
        self.assertIn("more was found than is told", run.stderr)

    def test_who_leads_anew_says_since_when_it_listens(self):
        """It has heard nothing yet: that is not never, and the node that is not lost may be off for all it knows."""
        self.leased.stop()
        with open(self.leased.conf) as f:
            conf = f.read().replace("LostAfter = 2s", "LostAfter = 10m")
        with open(self.leased.conf, "w") as f:
            f.write(conf)
        self.leased.start()
        self.pool()
        self.node()
        heard = self.json("node", "show", "n1")
        self.assertRegex(heard["heard"], r"^\d{4}-")
        self.assertLessEqual(heard["listening"], heard["heard"])
        self.nodes.pop().close()
        self.client.close()
        self.leased.stop()
        self.leased.start()
        anew = self.json("node", "show", "n1")
        self.assertEqual((anew["state"], anew["heard"]), ("ready", None))
        self.assertGreater(anew["listening"], heard["heard"])
        self.assertEqual(self.ctl("node", "list", "--no-headings", "-o", "heard").strip(), "not since " + anew["listening"])
        refused = self.run_ctl("node", "fence", "n1", "--reason", "pulled the plug")
        self.assertEqual(refused.returncode, 1)
        self.assertNotIn("still heard", refused.stderr)
        self.assertIn("only one that is lost can be fenced; last heard of: not since %s, when this leader began" % anew["listening"],
                      refused.stderr)

    # ---- others ----

    def test_others_see_only_their_own(self):
        self.pool()
        self.node()
        mine = self.acquire("--job", "mine")
        theirs = self.acquire("--job", "theirs", prefix=NOBODY)
        self.assertEqual(theirs["owner"]["name"], "nobody")
        self.assertEqual([x["job"] for x in self.json("list", prefix=NOBODY)["leases"]], ["theirs"])
        for key in (["--uid"], ["--lease"]):
            said = []
            for number in (str(mine[key[0][2:]]), str(FIRST + 999)):
                error = self.error("show", *key, number, status=3, prefix=NOBODY)
                said.append({**error, "message": error["message"].replace(number, "N")})
            self.assertEqual(said[0], said[1])
        self.error("release", str(mine["uid"]), status=3, prefix=NOBODY)
        self.error("revoke", str(theirs["uid"]), "--reason", "x", status=3, prefix=NOBODY)
        self.error("pool", "create", "x", "--range", "%d-%d" % (FIRST + COUNT, FIRST + COUNT), "--directory-ranges",
                   "none", status=3, prefix=NOBODY)
        self.error("node", "list", status=3, prefix=NOBODY)
        self.error("acquire", "--nodes", "n1", "--owner", "root", status=3, prefix=NOBODY)
        self.assertIsNone(self.json("pool", "list", prefix=NOBODY)["pools"][0]["counts"])
        self.assertEqual(self.json("release", str(theirs["uid"]), prefix=NOBODY)["state"], "draining")

    # ---- when leased is away ----

    def test_no_leased(self):
        self.leased.kill()
        began = time.monotonic()
        error = self.error("list", status=4)
        self.assertLess(time.monotonic() - began, 25)  # it is 30 s by default
        self.assertEqual(error["code"], "unavailable")
        self.assertIn(self.leased.socket, error["message"])
        self.assertNotIn("request-id", self.error("--timeout", "300ms", "acquire", status=4)["message"])

    def test_leased_that_hangs(self):
        self.pool()
        self.node()
        self.leased.process.send_signal(signal.SIGSTOP)
        self.addCleanup(self.leased.process.send_signal, signal.SIGCONT)
        for verb in (["list"], ["acquire", "--nodes", "n1"], ["watch", "--since", "5"]):
            began = time.monotonic()
            run = self.run_ctl("--timeout", "600ms", *verb)
            self.assertIn(run.returncode, (5, 0) if verb[0] == "watch" else (5,), run.stderr)
            self.assertLess(time.monotonic() - began, 25)

    def test_outcome_that_is_not_known_can_be_repeated(self):
        self.pool()
        self.node(ready=False)
        run = self.run_ctl("--timeout", "5s", "acquire", "--nodes", "n1", "--wait", "--job", "j1")
        self.assertEqual(run.returncode, 5, run.stderr)
        key = re.search(r"--request-id (\S+@\d+)", run.stderr).group(1)
        lease = self.json("show", "--job", "j1")
        self.nodes[0].report(lease["uid"], lease["epoch"], self.nodes[0].m.REPORT_KIND_READY)
        again = self.json("acquire", "--nodes", "n1", "--wait", "--job", "j1", "--request-id", key)
        self.assertEqual((again["lease"], again["state"]), (lease["lease"], "active"))

    def test_leased_that_comes_back(self):
        self.pool()
        self.node()
        self.leased.kill()
        process = subprocess.Popen(self.command("--json", "--timeout", "60s", "acquire", "--nodes", "n1"),
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.leased.start()
        out, _ = process.communicate(timeout=120)
        if process.returncode == 0:
            self.assertEqual(json.loads(out)["uid"], FIRST)
        else:
            # The node's session is gone with the old leased: no longer ready, and that is said.
            self.assertEqual((process.returncode, json.loads(out)["error"]["code"]), (1, "failed_precondition"))

    # ---- the rest ----

    def test_doctor(self):
        self.pool()
        run = self.run_ctl("--json", "doctor")
        report = json.loads(run.stdout)
        self.assertEqual(run.returncode, 1 if report["errors"] else 0)
        self.assertEqual({f["severity"] for f in report["findings"]} - {"ok", "note", "warning", "error"}, set())
        checks = {f["check"] for f in report["findings"]}
        self.assertTrue({"leased", "map", "nsswitch", "clock", "permissions", "kernel"} <= checks, checks)
        leased = [f for f in report["findings"] if f["check"] == "leased"]
        self.assertEqual([f["severity"] for f in leased], ["ok"])
        for finding in report["findings"]:
            if finding["severity"] in ("warning", "error"):
                self.assertTrue(finding["message"])
        self.leased.kill()
        report = json.loads(self.run_ctl("--json", "doctor").stdout)
        self.assertEqual([f["severity"] for f in report["findings"] if f["check"] == "leased"], ["error"])

    def test_doctor_shows_what_is_not_well(self):
        """What is well only if it is asked for; the same findings in all forms."""
        self.pool()
        findings = json.loads(self.run_ctl("--json", "doctor").stdout)["findings"]
        self.assertTrue(all(f["id"].startswith(f["check"] + "-") for f in findings), findings)
        well = [f for f in findings if f["severity"] == "ok"]
        self.assertTrue(all(f["id"] == f["check"] + "-ok" for f in well), well)
        shown = self.run_ctl("doctor", "--no-headings", "-o", "id")
        self.assertEqual(shown.stdout.split(), [f["id"] for f in findings if f not in well])
        self.assertIn("%d checks found nothing" % len(well), shown.stderr)
        shown = self.run_ctl("doctor", "--all", "--no-headings", "-o", "id")
        self.assertEqual(shown.stdout.split(), [f["id"] for f in findings])

    def test_each_finding_of_doctor_is_documented(self):
        tree = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
        code = ""
        for path in sorted(glob.glob(os.path.join(tree, "ctl", "doctor*.c"))):
            with open(path) as f:
                code += f.read()
        checks = re.findall(r'{"(\w+)", doctor_check_\w+}', code)
        ids = set(re.findall(r'"((?:%s)-[a-z-]+)"' % "|".join(checks), code))
        with open(os.path.join(tree, "docs", "cli-json.md")) as f:
            documented = set(re.findall(r"`((?:%s)-[a-z-]+)`" % "|".join(checks), f.read()))
        self.assertGreater(len(ids), 40)
        self.assertEqual({i for i in ids if not i.endswith("-ok")}, documented)

    def test_doctor_sees_an_account_in_a_pool(self):
        self.pool("main", FIRST, 16)
        mount = ("mount --bind \"$1\" /etc/passwd && shift && exec \"$@\"")
        passwd = os.path.join(self.leased.folder, "passwd")
        with open(passwd, "w") as f, open("/etc/passwd") as old:
            f.write(old.read() + "mallory:x:%d:100::/:/bin/sh\n" % (FIRST + 5))
        run = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh", passwd,
                              *self.command("--json", "doctor")], capture_output=True, text=True, timeout=120)
        found = [f for f in json.loads(run.stdout)["findings"] if f["check"] == "accounts"]
        self.assertEqual(run.returncode, 1)
        self.assertEqual(len(found), 1)
        self.assertIn("mallory has id %d" % (FIRST + 5), found[0]["message"])
        self.assertTrue(found[0]["cure"])

    def test_config_show(self):
        settings = {s["key"]: s for s in self.json("config", "show", "--effective")["settings"]}
        self.assertEqual(settings["Server"]["value"], "unix:" + self.leased.socket)
        self.assertEqual(settings["Server"]["origin"], "--server")
        self.assertEqual((settings["Timeout"]["value"], settings["Timeout"]["origin"]), ("30s", "default"))

    def test_stdout_that_can_not_be_written(self):
        self.pool()
        with open("/dev/full", "w") as full:
            run = subprocess.run(self.command("pool", "list"), stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual(run.returncode, 1)
        self.assertIn("No space left", run.stderr)

    def test_standard_descriptors_that_are_closed(self):
        """Nothing of ours gets their numbers: what is printed is printed nowhere, and that is an error."""
        self.pool()
        for closed, status in ((("<&-",), 0), ((">&-",), 1), (("2>&-",), 0), (("<&-", ">&-"), 1), (("<&-", ">&-", "2>&-"), 1)):
            run = subprocess.run(["sh", "-c", '"$@" ' + " ".join(closed), "sh", *self.command("pool", "list")], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=120)
            self.assertEqual(run.returncode, status, (closed, run.stderr))
            if ">&-" in closed:
                self.assertEqual(run.stdout, "")
            if status and "2>&-" not in closed:
                self.assertIn("stdout: Bad file descriptor", run.stderr)


class Broken(peer.grpc.GenericRpcHandler):
    """A server that tells the time, and else fails behind the request in a way that says nothing of what was done."""

    def __init__(self, code):
        self.code, self.asked = code, []

    def service(self, call):
        def answer(_, context):
            self.asked.append(call.method)
            if call.method.endswith("/Check"):
                rbac = peer.messages()["rbac"]
                reply = rbac.CheckReply(allowed=True)
                reply.info.now_ms = 5000
                return reply.SerializeToString()
            return context.abort(self.code, "it broke")

        return peer.grpc.unary_unary_rpc_method_handler(answer)


class BrokenServerTest(unittest.TestCase):
    def test_what_may_have_been_done_is_said_to_be_so(self):
        folder = tempfile.mkdtemp(prefix="xce-broken.")
        self.addCleanup(shutil.rmtree, folder)
        for code in ("INTERNAL", "UNKNOWN", "DATA_LOSS"):
            server = peer.grpc.server(concurrent.futures.ThreadPoolExecutor(2))
            broken = Broken(peer.grpc.StatusCode[code])
            server.add_generic_rpc_handlers((broken,))
            address = "unix:%s/%s" % (folder, code)
            server.add_insecure_port(address)
            server.start()
            self.addCleanup(server.stop, None)
            for words, says in ((("acquire", "--nodes", "n1"), "to be sure, repeat it with --request-id "),
                                (("cluster", "remove", "c1"), "repeating it does no harm"),
                                (("node", "drain", "n1", "--reason", "x"), "repeating it does no harm")):
                run = subprocess.run([LEASECTL, "--server", address, "--timeout", "5s", *words], capture_output=True, text=True,
                                     timeout=120)
                self.assertEqual(run.returncode, 1, run.stderr)
                self.assertIn("it broke; it may have been done: " + says, run.stderr, (code, words, broken.asked))
            run = subprocess.run([LEASECTL, "--server", address, "list"], capture_output=True, text=True, timeout=120)
            self.assertNotIn("may have been", run.stderr, "a read does nothing")


if __name__ == "__main__":
    unittest.main(verbosity=2)
