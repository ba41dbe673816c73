#!/usr/bin/python3
"""leasectl release --deferred, against a real noded while leased is away: kept over a kill, ended here at once, told once.
Needs root."""
import json
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peer
import test_noded
from test_noded import FIRST

HOLDER = FIRST + 100000  # nobody's, and of no pool


class DeferredTest(test_noded.NodedTest):
    def setUp(self):
        super().setUp()
        self.spool = os.path.join(self.noded.state, "deferred")

    def defer(self, *words, uid=0, code=0, ends_itself=False):
        """ends_itself: what asks is the lease's, and may die of its success before it can tell."""
        done = subprocess.run(["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups",
                               os.path.join(peer.BUILD, "ctl/leasectl"), "--json", "release", "--deferred", "--noded",
                               os.path.join(self.noded.runtime, "noded.sock"), *map(str, words)],
                              capture_output=True, text=True, timeout=60)
        if ends_itself and done.returncode == -signal.SIGKILL:
            return None
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def spooled(self):
        try:
            with open(self.spool) as f:
                return f.read().count("release ")
        except FileNotFoundError:
            return 0

    def away(self):
        """leased is gone, and noded knows it."""
        said = len(self.noded.said())
        self.leased.kill()
        peer.until(lambda: "no session with leased" in self.noded.said()[said:], what="noded to be alone")

    def back(self):
        """leased is there again, and this client has found it."""
        self.leased.start()

        def found():
            try:
                return self.client.pool.List(self.client.m["pool"].ListPoolsRequest(), timeout=10)
            except peer.grpc.RpcError:
                return None
        peer.until(found, what="leased to be there again")

    def test_release_is_kept_while_leased_is_away_and_done_once(self):
        self.begin()
        lease = self.acquire()
        child = self.run_as(lease.uid, "sleep", "1000")
        self.away()
        told = self.defer(lease.uid)
        self.assertEqual(told, {"lease": lease.lease, "uid": lease.uid, "epoch": lease.epoch, "passed": False})
        self.killed(child)
        self.assertEqual(self.noded.record(lease.uid)[2] & 2, 2)  # closed
        # Said again it is the same one.
        self.assertEqual(self.defer("--lease", lease.lease), told)
        self.assertEqual(self.spooled(), 1)
        self.noded.kill()
        self.noded.start()
        peer.until(lambda: os.path.exists(os.path.join(self.noded.runtime, "noded.sock")) and self.answers(), what="noded's socket")
        self.assertEqual(self.defer(lease.name), told)
        self.back()
        self.free(lease)
        peer.until(lambda: self.spooled() == 0, what="nothing to be kept any more")
        self.assertEqual(self.leased.said().count("released: handed over on the node by uid 0"), 1)
        self.assertEqual(self.cause(lease), "release")
        # What is over needs nobody.
        self.defer(lease.uid, code=3)

    def answers(self):
        import socket
        with socket.socket(socket.AF_UNIX) as s:
            try:
                s.connect(os.path.join(self.noded.runtime, "noded.sock"))
                return True
            except OSError:
                return False

    def cause(self, lease):
        done = subprocess.run([os.path.join(peer.BUILD, "ctl/leasectl"), "--server", "unix:" + self.leased.socket, "--json",
                               "history", "--lease", str(lease.lease)], capture_output=True, text=True, timeout=60, check=True)
        return json.loads(done.stdout)["history"][0]["cause"]

    def test_release_is_of_who_may(self):
        passwd = self.passwd_with("h", HOLDER)
        self.start_with_passwd(passwd)
        self.client.create_pool(first=FIRST, count=test_noded.COUNT, cooldown_ms=1000, ready_timeout_ms=8000)
        self.ready()
        holder = self.client.m["lease"].OwnerSpec(name=b"h", uid=HOLDER, gid=HOLDER)
        namesake = self.client.m["lease"].OwnerSpec(name=b"g", uid=HOLDER, gid=HOLDER)
        lease, other, third = (self.acquire(owner=owner) for owner in (holder, holder, namesake))
        self.away()
        self.defer(third.uid, uid=HOLDER, code=3)  # the number is the same, the person is not
        self.defer(lease.uid, uid=HOLDER + 1, code=3)
        self.defer(lease.uid, uid=other.uid, code=3)
        self.defer(FIRST + 60, code=3)
        self.defer("xce-nonsense", code=3)
        self.defer("--job", "j", code=2)
        self.assertEqual(self.spooled(), 0)
        self.assertEqual(self.noded.record(lease.uid)[2] & 2, 0)
        self.defer(lease.uid, uid=lease.uid, ends_itself=True)
        self.defer(other.uid, uid=HOLDER)
        self.assertEqual(self.spooled(), 2)
        self.back()
        self.free(lease)
        self.free(other)
        self.assertEqual(self.lease(third).state, self.m["lease"].LEASE_STATE_ACTIVE)

    def test_release_is_passed_on_at_once_where_leased_is_there(self):
        self.begin()
        lease = self.acquire()
        self.assertTrue(self.defer(lease.uid)["passed"])
        self.free(lease)
        self.assertEqual(self.cause(lease), "release")
        peer.until(lambda: self.spooled() == 0, what="nothing to be kept any more")

    def test_release_of_a_damaged_file_is_named_and_its_lease_ends_all_the_same(self):
        self.begin()
        lease = self.acquire()
        self.away()
        self.defer(lease.uid)
        peer.until(lambda: self.noded.record(lease.uid)[2] & 2, what="the lease to be closed")
        self.noded.kill()
        with open(self.spool, "r+b") as f:
            f.seek(20)
            f.write(b"X")
        self.noded.start()
        aside, = peer.until(lambda: [name for name in os.listdir(self.noded.state) if name.startswith("deferred.damaged-")],
                            what="the damaged file to be set aside")
        peer.until(lambda: "deferred: is damaged, and is now " + os.path.join(self.noded.state, aside) in self.noded.said(),
                   what="it to be named")
        self.back()
        self.free(lease)

    def test_release_without_noded_is_unreachable(self):
        self.defer(FIRST, code=4)


def load_tests(loader, _tests, _pattern):
    return unittest.TestSuite(loader.loadTestsFromName(name, DeferredTest) for name in dir(DeferredTest)
                              if name.startswith("test_release_"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
