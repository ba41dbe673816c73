#!/usr/bin/env -S LC_ALL=C.UTF-8 /usr/bin/python3 -B
"""leasectl cluster restore: what it refuses, what a crash leaves, and an old backup put under a node that lives. Needs root."""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peer
import test_noded

LEASECTL = os.path.join(peer.BUILD, "ctl/leasectl")
LEASED = os.path.join(peer.BUILD, "leased/leased")
COUNT = 8
FIRST = 0x72000000 + (os.getpid() % 65536) * COUNT
GAP = 1024


class Base(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        self.leased = peer.Leased("Heartbeat = 100ms\nLostAfter = 60s\n").start()
        self.addCleanup(self.leased.__exit__)
        self.client = self.leased.client()
        self.addCleanup(lambda: self.client.close())
        self.file = os.path.join(self.leased.folder, "backup")

    def run_ctl(self, *args):
        return subprocess.run([LEASECTL, "--server", "unix:" + self.leased.socket, "--json", *args], capture_output=True,
                              text=True, timeout=240)

    def ctl(self, *args):
        run = self.run_ctl(*args)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return json.loads(run.stdout) if run.stdout else None

    def refused(self, text, *args, status=1):
        run = self.run_ctl(*args)
        self.assertEqual(run.returncode, status, run.stdout + run.stderr)
        self.assertIn(text, json.loads(run.stdout)["error"]["message"])

    def restore_args(self, file=None, *more):
        return ["cluster", "restore", file or self.file, "--leased", LEASED, "--leased-conf", self.leased.conf, *more]

    def restart(self):
        self.client.close()
        self.leased.start()
        self.client = self.leased.client()

    def restored(self):
        return self.ctl("cluster", "status")["restored"]


class Refusals(Base):
    def setUp(self):
        super().setUp()
        self.client.create_pool(first=FIRST, count=COUNT)
        self.ctl("cluster", "backup", self.file)

    def state(self):
        """Every file of the state folder that holds a state, with its bytes."""
        found = {}
        for name in ("engine.db", "engine.db-wal"):
            path = os.path.join(self.leased.state, name)
            if os.path.exists(path):
                with open(path, "rb") as f:
                    found[name] = f.read()
        return found

    def test_while_leased_runs(self):
        self.refused("leased runs and has it open: stop it first", *self.restore_args())
        self.refused("leased runs and has it open", *self.restore_args(None, "--set-aside"))
        self.assertIsNone(self.restored())

    def test_over_a_state_that_is_there(self):
        self.leased.stop()
        before = self.state()
        self.refused("engine.db: there is a state already; --set-aside", *self.restore_args())
        self.assertEqual(self.state(), before)
        done = self.ctl(*self.restore_args(None, "--set-aside"))
        self.assertTrue(done["aside"].startswith(self.leased.state + "/aside-"))
        with open(os.path.join(done["aside"], "engine.db"), "rb") as f:
            self.assertEqual(f.read(), before["engine.db"])
        self.restart()
        self.assertTrue(self.restored()["waits"])

    def audited(self):
        with open(os.path.join(self.leased.state, "audit.log"), encoding="utf-8") as f:
            return [line for line in map(json.loads, f) if line["method"] == "ClusterService/Restore"]

    def test_it_is_in_the_audit_file_or_not_done(self):
        self.leased.stop()
        before = self.state()
        audit = os.path.join(self.leased.state, "audit.log")
        os.chmod(audit, 0o644)
        self.refused("AuditFile: ", *self.restore_args(None, "--set-aside"))
        self.assertEqual(self.state(), before)
        os.chmod(audit, 0o600)
        self.assertEqual(self.audited(), [])
        done = self.ctl(*self.restore_args(None, "--set-aside"))
        line, = self.audited()
        self.assertEqual((line["principal"], line["name"], line["outcome"]), ("uid:0", "root", "OK"))
        self.assertEqual(line["message"], "%s: revision %d; what was there is in %s" % (
            self.file, done["backup_revision"], done["aside"]))
        self.assertEqual(os.stat(audit).st_mode & 0o777, 0o600)
        self.restart()
        self.assertTrue(self.restored()["waits"])

    def test_of_what_is_no_whole_backup(self):
        with open(self.file, "rb") as f:
            whole = f.read()
        self.leased.stop()
        before = self.state()
        random.seed(20)
        bad = {"empty": b"", "short": whole[:20], "cut": whole[:-1], "longer": whole + b"x", "other": b"x" * len(whole),
               "newer": whole[:8] + bytes([9]) + whole[9:]}
        for i in range(20):
            at = random.randrange(len(whole))
            bad["flip %d" % at] = whole[:at] + bytes([whole[at] ^ (1 << i % 8)]) + whole[at + 1:]
        for name, data in bad.items():
            with self.subTest(name):
                with open(self.file, "wb") as f:
                    f.write(data)
                self.refused(self.file + ": is no whole backup: ", *self.restore_args(None, "--set-aside"))
        self.refused("no-such: No such file", *self.restore_args(self.leased.folder + "/no-such", "--set-aside"))
        self.assertEqual(self.state(), before)
        self.assertEqual([n for n in os.listdir(self.leased.state) if n.startswith("aside")], [])

    def test_of_another_prefix(self):
        self.leased.stop()
        with open(self.leased.conf, "a") as f:
            f.write("Prefix = job-\n")
        self.refused('its names begin with "xce-", but leased.Prefix is "job-"', *self.restore_args(None, "--set-aside"))

    def test_confirm_without_a_restore(self):
        self.refused("no backup was restored", "cluster", "confirm", "n1")
        self.refused("NODES: ", "cluster", "confirm", "n[3-1]", status=2)

    def test_full_disk_changes_nothing(self):
        self.leased.stop()
        before = self.state()
        run = subprocess.run(["prlimit", "--fsize=4096", LEASED, "--config", self.leased.conf, "--restore", self.file,
                              "--set-aside"], capture_output=True, text=True, timeout=60, preexec_fn=lambda:
                             signal.signal(signal.SIGXFSZ, signal.SIG_IGN))
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("engine.db.restored: ", run.stderr)
        self.assertEqual(self.state(), before)
        self.restart()
        self.assertIsNone(self.restored())

    def test_crash_at_any_moment_leaves_the_old_state_or_the_new(self):
        """Killed after ever more time; then again, until it is through. What is found each time is a whole state, or none
        with the old one set aside; leased never serves the backup as it is."""
        self.leased.stop()
        seen = set()
        began = time.monotonic()
        self.ctl(*self.restore_args(None, "--set-aside"))
        whole = time.monotonic() - began
        shutil.rmtree(self.leased.state)
        for i in range(int(peer_count())):
            self.leased.start()
            if i == 0:
                self.client.close()
                self.client = self.leased.client()
                self.client.create_pool(first=FIRST, count=COUNT)
            self.leased.stop()
            with open(self.leased.log, "ab") as log:
                act = subprocess.Popen([LEASED, "--config", self.leased.conf, "--restore", self.file, "--set-aside"],
                                       stdout=log, stderr=log)
            time.sleep(whole * i / int(peer_count()))
            act.send_signal(signal.SIGKILL)
            code = act.wait()
            engine = os.path.exists(os.path.join(self.leased.state, "engine.db"))
            if not engine:
                seen.add("none")
                # There is a history of leases and no state: leased says so rather than begin another.
                self.ctl(*self.restore_args(None, "--set-aside"))
            self.restart()
            restored = self.restored()
            seen.add("new" if restored else "old")
            if restored:
                self.assertTrue(restored["waits"])
            self.assertIn(code, (0, -signal.SIGKILL))
            self.leased.stop()
        self.assertIn("old", seen)


def peer_count():
    return 40 if os.environ.get("XCE_TEST_LONG") == "1" else 12


class UnderALivingNode(Base):
    def setUp(self):
        super().setUp()
        self.noded = test_noded.Noded(self.leased)
        self.children = []
        self.addCleanup(self.end)
        self.m = self.client.m
        self.client.create_pool(first=FIRST, count=COUNT, cooldown_ms=1000, ready_timeout_ms=test_noded.READY_MS)
        self.noded.start()
        self.ready()

    def end(self):
        for child in self.children:
            child.kill()
            child.wait()
        self.noded.stop()
        if sys.exc_info()[0] or self.failed():
            sys.stderr.write(self.noded.said()[-6000:])

    def failed(self):
        result = self._outcome.result
        return any(test is self for test, _ in result.failures + result.errors)

    node, is_ready, ready = test_noded.NodedTest.node, test_noded.NodedTest.is_ready, test_noded.NodedTest.ready
    acquire, lease, explain = test_noded.NodedTest.acquire, test_noded.NodedTest.lease, test_noded.NodedTest.explain
    run_as, killed = test_noded.NodedTest.run_as, test_noded.NodedTest.killed

    def all_free(self):
        peer.until(lambda: not self.ctl("list", "--all")["leases"], seconds=40, what="all uids to be free")

    def finish(self, lease):
        self.client.release(lease)
        peer.until(lambda: self.lease(lease) is None, seconds=20, what="uid %d to be free" % lease.uid)

    def put_back(self):
        self.leased.stop()
        done = self.ctl(*self.restore_args(None, "--set-aside"))
        self.restart()
        return done

    def test_old_backup_gives_no_uid_out_twice(self):
        before = self.acquire()          # active in the backup and after
        again = self.acquire()           # active in the backup, free and leased again after
        self.ctl("cluster", "backup", self.file)
        self.finish(again)
        later = [self.acquire() for _ in range(COUNT - 1)]   # goes round: `again`'s uid comes last, under the next epoch
        self.assertIn((again.uid, again.epoch + 1), [(l.uid, l.epoch) for l in later])
        held = {l.uid: l for l in [before] + later}
        self.assertEqual(len(held), COUNT)
        processes = [self.run_as(uid, "sleep", "1000") for uid in held]
        names = {l.name: l for l in held.values()}
        files = []
        for uid in held:
            files.append("/tmp/xce-restore.%d" % uid)
            with open(files[-1], "w") as f:
                os.fchown(f.fileno(), uid, uid)
        self.addCleanup(lambda: [os.unlink(f) for f in files if os.path.exists(f)])
        self.put_back()
        # Nothing is given out, whatever is asked, and it says why.
        code, why = peer.code_of(lambda: self.client.acquire())
        self.assertEqual(code, "FAILED_PRECONDITION")
        self.assertIn("a backup was restored, no uid is given out yet", why)
        # What ran ends, for nothing of it is here any more.
        for child in processes:
            self.killed(child, seconds=30)
        peer.until(lambda: not self.restored()["awaited"], seconds=30, what="the node to be clean")
        # The leases that the backup does not know are there again.
        leases = {l["uid"]: l for l in self.ctl("list", "--all")["leases"]}
        self.assertEqual(set(leases), set(held))
        for uid, lease in leases.items():
            self.assertIn(lease["state"], ("draining", "cooling", "retired"))
            self.assertIn("restored", lease["reasons"])
            self.assertEqual(lease["epoch"], held[uid].epoch, lease)
        self.assertIn("waits for an administrator", peer.code_of(lambda: self.client.acquire())[1])
        self.refused("n9 has never said hello", "cluster", "confirm", "n1,n9")
        self.refused("its nodes are not confirmed yet", "cluster", "backup", self.file + "2")
        waits = [w["what"] for w in self.ctl("explain", str(later[0].uid))["waits"]]
        self.assertIn("administrator", waits)
        # Proofs, cool-down, watermarks: all done, but nothing is free before the list of nodes is confirmed.
        peer.until(lambda: {l["state"] for l in self.ctl("list", "--all")["leases"]} == {"retired"}, seconds=40,
                   what="all to be retired")
        for f in files:
            self.assertFalse(os.path.exists(f), f)
        self.ctl("cluster", "confirm", "n1")
        self.assertFalse(self.restored()["waits"])
        self.all_free()
        # Everyone comes again, under an epoch that no name of before has.
        new = [self.acquire() for _ in range(COUNT)]
        self.assertEqual({l.uid for l in new}, set(held))
        for lease in new:
            self.assertGreater(lease.epoch, held[lease.uid].epoch + GAP)
            self.assertNotIn(lease.name, names)
            self.assertGreater(lease.lease, 10**12)
            child = self.run_as(lease.uid, "sleep", "1000")
            time.sleep(0.02)
            self.assertIsNone(child.poll())
        for lease in new:
            self.client.release(lease)
        self.all_free()

    def test_node_that_was_restarted_still_knows(self):
        """What counts is on its disk: neither the process nor the map that knew of the lease is there any more."""
        self.ctl("cluster", "backup", self.file)
        lease = self.acquire()
        child = self.run_as(lease.uid, "sleep", "1000")
        self.leased.stop()
        self.noded.kill()
        os.unlink(self.noded.map)
        self.ctl(*self.restore_args(None, "--set-aside"))
        self.restart()
        waiting = self.restored()["awaited"]
        self.assertEqual(waiting, [{"node": "n1", "what": "its hello"}])
        self.noded.start()
        peer.until(lambda: not self.restored()["awaited"], seconds=30, what="the node to be clean")
        self.killed(child)
        lost = self.ctl("show", str(lease.uid))
        self.assertEqual((lost["epoch"], lost["owner"]["name"] if isinstance(lost["owner"], dict) else lost["owner"]),
                         (lease.epoch, "unknown"))
        self.ctl("cluster", "confirm", "n1")
        self.all_free()

    def test_left_state_is_not_followed_again(self):
        """The old engine.db comes back behind the new one: its node does not go back with it."""
        self.ctl("cluster", "backup", self.file)
        lease = self.acquire()
        done = self.put_back()
        peer.until(lambda: not self.restored()["awaited"], seconds=30, what="the node to be clean")
        self.leased.stop()
        for name in os.listdir(done["aside"]):
            shutil.copy(os.path.join(done["aside"], name), os.path.join(self.leased.state, name))
        self.restart()
        peer.until(lambda: "this node has left for" in self.noded.said(), what="noded to refuse")
        # Nothing becomes ready there, and in the map it is as the new state left it.
        self.assertIn(peer.code_of(lambda: self.acquire())[0], ("FAILED_PRECONDITION", "ABORTED"))
        record = self.noded.record(lease.uid)
        self.assertTrue(record is None or record[2] & 2, record)

    def test_one_backup_restored_twice_gives_no_name_twice(self):
        """No node knows of what the first one granted: it has another disk."""
        self.ctl("cluster", "backup", self.file)
        seen = []
        for _ in range(2):
            self.noded.stop()
            shutil.rmtree(self.noded.state)
            os.unlink(self.noded.map)
            self.put_back()
            self.noded.start()
            peer.until(lambda: not self.restored()["awaited"], seconds=30, what="the node to be clean")
            self.ctl("cluster", "confirm", "n1")
            leases = [self.acquire() for _ in range(COUNT)]
            seen += [(l.uid, l.epoch) for l in leases]
            self.assertGreater(min(l.epoch for l in leases), GAP)
        self.assertEqual(len(set(seen)), 2 * COUNT, seen)

    def test_pool_of_after_the_backup_is_made_again(self):
        self.ctl("cluster", "backup", self.file)
        self.client.create_pool(name=b"late", first=FIRST + COUNT * 65536, count=4, cooldown_ms=1000, ready_timeout_ms=test_noded.READY_MS)
        lease = self.client.acquire(wait=True, pool=b"late", timeout=120).leases[0]
        self.put_back()
        peer.until(lambda: not self.restored()["awaited"], seconds=30, what="the node to be clean")
        self.refused("uids from %d to %d that are in no pool" % (lease.uid, lease.uid), "cluster", "confirm", "n1")
        self.client.create_pool(name=b"late", first=FIRST + COUNT * 65536, count=4, cooldown_ms=1000, ready_timeout_ms=test_noded.READY_MS)
        lost = peer.until(lambda: [l for l in self.ctl("list", "--all")["leases"] if l["uid"] == lease.uid],
                          what="the lease that the node had in it")[0]
        self.assertEqual(lost["epoch"], lease.epoch)
        peer.until(lambda: not self.restored()["awaited"], seconds=70, what="the node to be clean again")
        self.ctl("cluster", "confirm", "n1")
        self.all_free()


if __name__ == "__main__":
    unittest.main()
