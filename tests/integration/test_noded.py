#!/usr/bin/python3
"""noded against a real leased, on this machine: what it makes ready, ends, sweeps, proves, and how it comes through its
own death and leased's. Needs root. No uid of a pool here is anybody's: each run has a range of its own."""
import contextlib
import ctypes
import errno
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peer

COUNT = 64
FIRST = 0x71000000 + (os.getpid() % 65536) * COUNT
OTHER = FIRST + 65536 * COUNT
CONFIG = "Heartbeat = 100ms\nLostAfter = 60s"
READY_MS = 60000  # a machine that is busy with other tests takes its time
LONG = os.environ.get("XCE_TEST_LONG") == "1"
libc = ctypes.CDLL(None, use_errno=True)


class Noded(peer.Daemon):
    """A noded of its own, beside a leased."""

    def __init__(self, leased, more="", name="n1"):
        self.folder = os.path.join(leased.folder, "noded")
        self.runtime, self.state = os.path.join(self.folder, "run"), os.path.join(self.folder, "state")
        self.conf, self.log = os.path.join(self.folder, "noded.conf"), os.path.join(self.folder, "noded.log")
        self.map = os.path.join(self.runtime, "uidmap")
        os.makedirs(self.runtime, exist_ok=True)
        with open(self.conf, "w") as f:
            f.write("[noded]\nServer = unix:%s\nNode = %s\nRuntimeDir = %s\nStateDir = %s\nGuard = 500ms\nLogLevel = debug\n%s\n"
                    % (leased.socket, name, self.runtime, self.state, more))

    def start(self, prefix=()):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([*prefix, os.path.join(peer.BUILD, "noded/noded"), "--config", self.conf],
                                            stderr=log, stdout=log)
        return self

    def runs(self):
        """Until the program itself runs, where its prefix wants it."""
        def is_it():
            with open("/proc/%d/comm" % self.process.pid) as f:
                return f.read() == "noded\n"
        peer.until(is_it, what="noded to be executed", alive=self.process)

    def run(self):
        """Start one that is expected to end by itself: exit code and what it said."""
        done = subprocess.run([os.path.join(peer.BUILD, "noded/noded"), "--config", self.conf], capture_output=True,
                              text=True, timeout=120)
        return done.returncode, done.stderr

    def record(self, uid):
        """(epoch, state, flags) as the map has it, None without one. Offsets: xce/map.h."""
        try:
            with open(self.map, "rb") as f:
                page = f.read(4096)
                n_ranges, = struct.unpack_from("<I", page, 76)
                records_at, = struct.unpack_from("<Q", page, 80)
                for i in range(n_ranges):
                    first, count, record, _ = struct.unpack_from("<4I", page, 128 + 16 * i)
                    if first <= uid < first + count:
                        f.seek(records_at + 128 * (record + uid - first))
                        seq, epoch = struct.unpack("<2I", f.read(8))
                        f.seek(24, 1)
                        state, flags = f.read(2)
                        return (epoch, state, flags) if seq else None
        except FileNotFoundError:
            pass
        return None

    def swept(self, uid):
        """Whether its disk says that the last epoch of uid has been swept. Form: noded/epochs.c."""
        swept, at = False, 0
        with open(os.path.join(self.state, "epochs"), "rb") as f:
            data = f.read()
        while at + 24 <= len(data):
            n, = struct.unpack_from("<I", data, at + 4)
            for entry in struct.iter_unpack("<3I", data[at + 24:at + 24 + 12 * n]):
                swept = bool(entry[2] & 2) if entry[0] == uid else swept
            at += 24 + 12 * n
        return swept

    def knows(self):
        """Up to which revision of leased's state it has all in the map."""
        try:
            with open(self.map, "rb") as f:
                return struct.unpack_from("<Q", f.read(4096), 2048)[0]
        except (FileNotFoundError, struct.error):
            return 0


class NodedTest(unittest.TestCase):
    keep_log = os.environ.get("NODED_LOG")

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        self.leased = peer.Leased(CONFIG).start()
        self.noded = Noded(self.leased)
        self.client = self.leased.client()
        self.m = self.client.m
        self.children = []

    def tearDown(self):
        for child in self.children:
            child.kill()
            child.wait()
        self.client.close()
        code = self.noded.stop()
        self.leased.stop()
        if self.keep_log and os.path.exists(self.noded.log):
            with open(self.keep_log, "a") as f:
                f.write("==== %s\n%s" % (self.id(), self.noded.said()))
        self.leased.__exit__()
        # Told to stop it ends in order, or was not up yet; it has not crashed.
        self.assertIn(code, (None, 0, -signal.SIGTERM))

    # ---- the world's words ----

    def begin(self, **settings):
        """noded runs, the pool is there, the node may have leases."""
        self.noded.start()
        settings = {"cooldown_ms": 1000, "ready_timeout_ms": READY_MS, **settings}
        self.client.create_pool(first=FIRST, count=COUNT, **settings)
        self.ready()

    def node(self):
        return self.client.node.Get(self.m["node"].NodeKey(node=b"n1"), timeout=30).node

    def is_ready(self):
        try:
            node = self.node()
        except peer.grpc.RpcError:
            return False  # not there yet, or leased is not
        return node.state == self.m["node"].NODE_STATE_READY and node.connected

    def watermark(self):
        return self.client.node.Get(self.m["node"].NodeKey(node=b"n1"), timeout=30).node.watermark

    def ready(self):
        peer.until(self.is_ready, what="the node to be ready")

    def acquire(self, **more):
        return self.client.acquire(wait=True, timeout=120, **more).leases[0]

    def lease(self, lease):
        try:
            return self.client.get(lease=lease.lease).lease
        except peer.grpc.RpcError as error:
            if error.code() == peer.grpc.StatusCode.NOT_FOUND:
                return None
            raise

    def explain(self, lease):
        return self.client.lease.Explain(self.client.m["lease"].LeaseKey(uid=lease.uid), timeout=30)

    def free(self, lease, seconds=20):
        try:
            peer.until(lambda: self.lease(lease) is None, seconds=seconds, what="uid %d to be free" % lease.uid)
        except AssertionError as error:
            raise AssertionError("%s: %s\n%s" % (error, self.explain(lease), self.noded.said()[-2000:])) from None

    def member(self, lease):
        now = self.lease(lease)
        return now.nodes[0] if now else None

    def run_as(self, uid, *command, group=None):
        child = subprocess.Popen(["setpriv", "--reuid", str(uid), "--regid", str(group or uid), "--clear-groups", *command])
        self.children.append(child)

        def became():
            with open("/proc/%d/status" % child.pid) as f:
                return "Uid:\t%d" % uid in f.read() or child.poll() is not None
        peer.until(became, what="the child to change its uid")
        return child

    def killed(self, child, seconds=15):
        self.assertEqual(peer.until(lambda: child.poll() is not None and child.returncode, seconds=seconds,
                                    what="the process to be killed"), -signal.SIGKILL)

    def passes(self, uid=FIRST + COUNT - 1):
        """Two whole passes of the guard, begun after this call: a process of a uid that nobody leased dies in each."""
        for _ in range(2):
            stray = self.run_as(uid, "sleep", "1000")
            self.client.node.Sweep(self.client.request(self.m["node"].NodeVerbRequest(node=b"n1", reason=b"test")), timeout=30)
            self.killed(stray)

    # ---- life of a lease ----

    def test_lease_is_here_swept_and_free(self):
        self.begin()
        lease = self.acquire()
        epoch, state, flags = self.noded.record(lease.uid)
        self.assertEqual((epoch, flags & 3), (lease.epoch, 1))
        self.assertIn(state, (1, 2))
        child = self.run_as(lease.uid, "sleep", "1000")
        path = "/tmp/xce-test-noded.%d" % lease.uid
        with open(path, "w"):
            os.chown(path, lease.uid, lease.uid)
        shm = libc.shmget(0, 4096, 0o600)
        buffer = struct.pack("<iIIIIHHHHQQ", 0, lease.uid, lease.uid, 0, 0, 0o600, 0, 0, 0, 0, 0) + bytes(200)
        self.assertEqual(libc.shmctl(shm, 1, buffer), 0)  # IPC_SET
        self.passes()
        self.assertIsNone(child.poll())
        self.client.release(lease)
        self.killed(child)
        self.free(lease)
        self.assertFalse(os.path.exists(path))
        self.assertEqual(libc.shmctl(shm, 2, ctypes.create_string_buffer(512)), -1)  # IPC_STAT
        self.assertEqual(self.noded.record(lease.uid)[1], 0)

    def test_node_joins_a_lease_that_is_active_elsewhere_and_leaves_it(self):
        self.begin()
        other = peer.Node(self.client, "n0", machine="2" * 32, beats=0.1).wait(lambda n: n.welcome, what="welcome")
        self.addCleanup(other.close)
        peer.until(lambda: self.client.node.Get(self.m["node"].NodeKey(node=b"n0"), timeout=30).node.state ==
                   self.m["node"].NODE_STATE_READY, what="the other node to be ready")
        lease, m = self.acquire(nodes=["n0"]), self.client.m["lease"]
        self.killed(self.run_as(lease.uid, "sleep", "1000"))
        renew = m.RenewRequest(lease=lease.lease, epoch=lease.epoch, nodes=[b"n1"])
        self.client.lease.Renew(self.client.request(renew), timeout=30)
        peer.until(lambda: self.lease(lease).nodes[1].proof == m.MEMBER_PROOF_READY, what="the node that was added")
        child = self.run_as(lease.uid, "sleep", "1000")
        self.passes()
        self.assertIsNone(child.poll())
        self.client.lease.Release(self.client.request(m.ReleaseRequest(lease=lease.lease, epoch=lease.epoch, node=b"n1")),
                                  timeout=30)
        self.killed(child)
        peer.until(lambda: self.lease(lease).nodes[1].proof == m.MEMBER_PROOF_CLEAN, what="the node that was let go")
        self.assertEqual(self.lease(lease).state, m.LEASE_STATE_ACTIVE)
        self.client.release(lease)
        self.free(lease)

    def test_uid_comes_again_last_and_under_a_new_epoch(self):
        self.begin()
        first = self.acquire()
        self.client.release(first)
        self.free(first)
        seen = []
        for _ in range(COUNT):
            lease = self.acquire()
            seen.append(lease.uid)
            self.client.release(lease)
        self.assertEqual(seen[-1], first.uid)
        self.assertEqual(len(set(seen)), COUNT)
        self.assertEqual(lease.epoch, first.epoch + 1)

    def attach_shared_memory(self, uid):
        """A segment that stays for as long as it is attached here: the address, for shmdt."""
        shm = libc.shmget(0, 4096, 0o600)
        libc.shmat.restype = ctypes.c_void_p
        libc.shmdt.argtypes = [ctypes.c_void_p]
        at = libc.shmat(shm, None, 0)
        self.addCleanup(libc.shmdt, at)  # also after a failure: later tests have the same uids
        buffer = struct.pack("<iIIIIHHHHQQ", 0, uid, uid, 0, 0, 0o600, 0, 0, 0, 0, 0) + bytes(200)
        self.assertEqual(libc.shmctl(shm, 1, buffer), 0)
        return at

    def release_with_shared_memory(self, lease):
        at = self.attach_shared_memory(lease.uid)
        self.client.release(lease)
        peer.until(lambda: self.member(lease).reason == "ipc-shm", what="a dirty report")
        return at

    def test_dirty_until_the_last_thing_goes(self):
        self.begin()
        lease = self.acquire()
        at = self.release_with_shared_memory(lease)
        self.assertTrue(self.lease(lease).quarantined)
        self.assertEqual(libc.shmdt(at), 0)
        self.free(lease)

    def blocks(self):
        pool = self.client.pool.Get(self.m["pool"].PoolKey(name=b"main"), timeout=30).pool
        return {b.uid: b.reason for b in pool.blocked}

    def test_what_a_free_uid_has_left_blocks_it_until_it_is_gone(self):
        at = self.attach_shared_memory(FIRST)
        self.begin()
        peer.until(lambda: self.blocks().get(FIRST) == "leftover", seconds=30, what="the uid to be blocked")
        # noded knows that it was it, also when it comes anew, and no pass frees it.
        self.assertEqual(self.noded.stop(), 0)
        self.noded.start()
        self.ready()
        self.passes()
        self.assertEqual(self.blocks().get(FIRST), "leftover")
        self.assertEqual(libc.shmdt(at), 0)
        peer.until(lambda: not self.passes() and FIRST not in self.blocks(), seconds=60, what="the uid to be free again")
        # Twice in a row, whatever happens to others of the pool meanwhile.
        looks = re.findall(r"looked for once more.*\buid %d\b" % FIRST, self.noded.said())
        self.assertIn(len(looks), (1, 2, 3))
        # What was only ended blocks until the next pass.
        peer.until(lambda: not self.blocks(), what="the strays to be gone")

    def test_what_is_unblocked_and_still_lies_there_is_blocked_again(self):
        at = self.attach_shared_memory(FIRST)
        self.begin()
        peer.until(lambda: self.blocks().get(FIRST) == "leftover", seconds=30, what="the uid to be blocked")
        before = self.noded.said().count("something of it can not be removed")
        self.client.pool.Unblock(self.client.request(self.m["pool"].UnblockRequest(name=b"main", uid=FIRST, reason=b"test")), timeout=30)
        peer.until(lambda: self.noded.said().count("something of it can not be removed") > before, seconds=30, what="a find")
        peer.until(lambda: self.blocks().get(FIRST) == "leftover", what="the uid to be blocked again")
        self.assertEqual(libc.shmdt(at), 0)

    def found(self, uid):
        """Who has found what of it, as the pool lists it."""
        pool = self.client.pool.Get(self.m["pool"].PoolKey(name=b"main"), timeout=30).pool
        return [(b.node, b.reason) for b in pool.blocked if b.uid == uid]

    def test_what_two_nodes_have_left_blocks_until_both_are_clean(self):
        at = self.attach_shared_memory(FIRST)
        self.begin()
        other = peer.Node(self.client, "n0", machine="2" * 32, beats=0.1).wait(lambda n: n.welcome, what="welcome")
        self.addCleanup(other.close)
        peer.until(lambda: self.found(FIRST) == [("n1", "leftover")], seconds=30, what="this node's word")
        other.block(FIRST, b"leftover", b"/srv/x")
        peer.until(lambda: ("n0", "leftover") in self.found(FIRST), what="the other node's word")
        self.assertEqual(libc.shmdt(at), 0)
        peer.until(lambda: not self.passes() and self.found(FIRST) == [("n0", "leftover")], seconds=60, what="this node to be clean")
        other.report(FIRST, 0, other.m.REPORT_KIND_CLEAN)
        peer.until(lambda: not self.found(FIRST), what="the uid to be free again")

    def test_stray_dies_while_its_lease_is_dirty_for_another_reason(self):
        """Sweeps of what is dirty come at growing intervals; the guard does not wait for them."""
        self.begin()
        lease = self.acquire()
        at = self.release_with_shared_memory(lease)
        time.sleep(4)  # the next sweeps are 4 s apart and more
        # The first may be killed by one, and the next is 4 s away then, and more: each stray would wait for it.
        took = []
        while len(took) < 2 or min(took[1:]) >= 3:
            self.assertLess(len(took), 6, took)
            began = time.monotonic()
            self.killed(self.run_as(lease.uid, "sleep", "1000"), 30)
            took.append(time.monotonic() - began)
        self.assertEqual(libc.shmdt(at), 0)
        self.free(lease, 40)

    def test_stray_dies_wherever_it_is_not_here(self):
        self.begin()
        lease = self.acquire()
        self.client.release(lease)
        stray = self.run_as(lease.uid, "sleep", "1000")
        self.killed(stray)
        self.free(lease)
        # Of a uid that nobody has: told at once.
        self.client.node.Sweep(self.client.request(self.m["node"].NodeVerbRequest(node=b"n1", reason=b"test")), timeout=30)
        stray = self.run_as(FIRST + COUNT - 1, "sleep", "1000")
        self.client.node.Sweep(self.client.request(self.m["node"].NodeVerbRequest(node=b"n1", reason=b"test")), timeout=30)
        self.killed(stray)
        peer.until(lambda: "not here" in self.noded.said(), what="the stray to be logged")

    def test_process_from_before_does_not_become_part_of_a_lease(self):
        self.begin()
        uids = range(FIRST, FIRST + 3)
        strays = {uid: self.run_as(uid, "sleep", "1000") for uid in uids}
        for _ in range(3):
            lease = self.acquire()
            self.assertNotIn(lease.uid, [uid for uid, stray in strays.items() if stray.poll() is None])
        for stray in strays.values():
            self.killed(stray, 30)

    # ---- what a sweep would do ----

    def dry_run(self, *options, as_user=()):
        return subprocess.run([*as_user, os.path.join(peer.BUILD, "ctl/leasectl"), "--server", "unix:" + self.leased.socket,
                               "node", "sweep", "n1", "--dry-run", *options], capture_output=True, text=True, timeout=240)

    def test_dry_run_tells_what_would_be_and_touches_nothing(self):
        with open(self.noded.conf) as f:
            slow = f.read().replace("Guard = 500ms", "Guard = 60s")  # no pass comes by
        with open(self.noded.conf, "w") as f:
            f.write(slow)
        passwd = self.start_with_passwd()
        self.client.create_pool(first=FIRST, count=COUNT, cooldown_ms=1000, ready_timeout_ms=READY_MS)
        self.ready()
        here, ended = self.acquire(), self.acquire()
        before = self.watermark()
        self.passes()
        # What found a stray is followed by another pass soon, unless that one finds nothing.
        peer.until(lambda: self.watermark() > before, seconds=120, what="a pass that finds nothing")
        at = self.release_with_shared_memory(ended)
        stray_uid, file_uid, bob = FIRST + 40, FIRST + 41, FIRST + 42
        with open(passwd, "a") as f:
            f.write("bob:x:%d:%d::/:/bin/sh\n" % (bob, bob))
        peer.until(lambda: self.blocked().get(bob) == "account", what="the uid to be blocked")
        running = [self.run_as(uid, "sleep", "1000") for uid in (here.uid, stray_uid, stray_uid, bob)]
        paths = ["/tmp/xce-test-noded-%d.%d" % (i, file_uid) for i in range(3)]
        for path in paths:
            with open(path, "w"):
                os.chown(path, file_uid, file_uid)
            self.addCleanup(os.unlink, path)

        done = self.dry_run("--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        shown = json.loads(done.stdout)
        self.assertEqual((shown["node"], shown["left_out"]), ("n1", 0))
        found = {(r["uid"], r["kind"]): r for r in shown["remnants"]}
        self.assertEqual({k: r["would"] for k, r in found.items()},
                         {(stray_uid, "process"): "end", (file_uid, "file"): "later", (bob, "process"): "leave",
                          (ended.uid, "ipc-shm"): "remove"})
        self.assertEqual(found[file_uid, "file"]["count"], 3)
        self.assertEqual(found[stray_uid, "process"]["count"], 2)
        lines = [line.split() for line in self.dry_run().stdout.splitlines()]
        self.assertEqual(lines[0], ["NODE", "UID", "KIND", "COUNT", "WOULD", "DETAIL"])
        self.assertIn(["n1", str(stray_uid), "process", "2", "end"], [line[:5] for line in lines])

        self.assertEqual([child.poll() for child in running], [None] * 4)
        self.assertTrue(all(map(os.path.exists, paths)))
        self.assertEqual(self.member(ended).reason, "ipc-shm")
        self.assertEqual(libc.shmdt(at), 0)

        # Who may not sweep a node is not told either; nobody is told of one that is not there.
        done = self.dry_run(as_user=("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(self.noded.stop(), 0)
        peer.until(lambda: not self.is_ready(), what="the session to be over")
        done = self.dry_run()
        self.assertEqual(done.returncode, 1)
        self.assertIn("not connected", done.stderr)
        with self.assertRaises(peer.grpc.RpcError) as failed:
            self.client.node.Drain(self.client.request(self.m["node"].NodeVerbRequest(node=b"n1", reason=b"x", dry_run=True)), timeout=30)
        self.assertEqual(failed.exception.code(), peer.grpc.StatusCode.INVALID_ARGUMENT)

    # ---- other people's accounts ----

    def start_with_passwd(self, copy=None):
        """noded sees an /etc/passwd of its own; the path of it."""
        if copy is None:
            copy = os.path.join(self.leased.folder, "passwd")
            subprocess.run(["cp", "/etc/passwd", copy], check=True)
        self.noded.start(prefix=["unshare", "-m", "sh", "-c", "mount --bind %s /etc/passwd && exec \"$@\"" % copy, "sh"])
        self.noded.runs()
        return copy

    def let_go(self, fifo):
        """noded sees the machine's /etc/passwd again, and who waits for that FIFO gets an end."""
        subprocess.run(["nsenter", "-m", "-t", str(self.noded.process.pid), "umount", "-l", "/etc/passwd"], check=True)

        def is_waited_for():
            try:
                os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
                return True
            except OSError as error:
                self.assertEqual(error.errno, errno.ENXIO)
                return False
        peer.until(is_waited_for, what="it to be read")

    def passwd_with(self, name, uid):
        """An /etc/passwd that noded is to see: this machine's, and one more."""
        passwd = os.path.join(self.leased.folder, "passwd")
        subprocess.run(["cp", "/etc/passwd", passwd], check=True)
        with open(passwd, "a") as f:
            f.write("%s:x:%d:%d::/:/bin/sh\n" % (name, uid, uid))
        return passwd

    def blocked(self):
        pool = self.client.pool.Get(self.m["pool"].PoolKey(name=b"main"), timeout=30).pool
        return {b.uid: b.reason for b in pool.blocked}

    def test_account_that_comes_later_is_blocked_and_untouched(self):
        passwd = self.start_with_passwd()
        self.client.create_pool(first=FIRST, count=COUNT, cooldown_ms=1000, ready_timeout_ms=READY_MS)
        self.ready()
        peer.until(lambda: "nobody else has anything" in self.noded.said(), what="the pool's check")
        lease = self.acquire()
        uids = [lease.uid, FIRST + 7]
        with open(passwd, "a") as f:
            for uid in uids:
                f.write("bob%d:x:%d:%d::/:/bin/sh\n" % (uid, uid, uid))
        peer.until(lambda: all(self.blocked().get(uid) == "account" for uid in uids), what="both to be blocked")
        bobs = [self.run_as(uid, "sleep", "1000") for uid in uids]
        path = "/tmp/xce-test-noded-bob.%d" % uids[0]
        with open(path, "w"):
            os.chown(path, uids[0], uids[0])
        self.addCleanup(os.unlink, path)
        self.client.release(lease)
        peer.until(lambda: self.member(lease).reason == "account", what="a dirty report")
        self.passes()
        self.assertEqual([bob.poll() for bob in bobs], [None, None])
        self.assertTrue(os.path.exists(path))
        # The others go on, also to be free: their watermark does not wait for bob.
        other = self.acquire()
        self.client.release(other)
        self.free(other)

    def test_account_that_comes_while_its_uid_waits_to_be_looked_at_is_untouched(self):
        """What is next in line is asked about, waits, and is swept: an account may come between."""
        first, alice, other_alice, bob, last = range(FIRST, FIRST + 5)

        def leave(folder, uid):
            path = os.path.join(folder, "xce-test-noded.%d" % uid)
            with open(path, "w"):
                os.chown(path, uid, uid)
            self.addCleanup(lambda: os.path.exists(path) and os.unlink(path))
            return path

        def account(uid):
            with open(passwd, "a") as f:
                f.write("bob%d:x:%d:%d::/:/bin/sh\n" % (uid, uid, uid))
            peer.until(lambda: self.blocked().get(uid) == "account", what="%d to be blocked" % uid)
        path = leave("/tmp", first)
        passwd = self.start_with_passwd()
        self.client.create_pool(first=FIRST, count=COUNT, cooldown_ms=1000, ready_timeout_ms=READY_MS)
        peer.until(lambda: not os.path.exists(path), what="the first look ahead")
        # All are asked about again when one account has come; that was answered when another one has come.
        account(alice)
        account(other_alice)
        account(bob)
        path = leave("/dev/shm", last)  # walked after /tmp
        process = self.run_as(bob, "sleep", "1000")
        his = leave("/tmp", bob)
        peer.until(lambda: not os.path.exists(path), seconds=30, what="the next look ahead")
        self.assertIsNone(process.poll())
        self.assertTrue(os.path.exists(his))

    def test_account_that_comes_while_its_uid_is_swept_is_untouched(self):
        """The sweep of those that are next in line had asked before, and is long enough for a person to begin work."""
        root = tempfile.mkdtemp(prefix="xce-test-noded-many.", dir="/var/tmp")
        self.addCleanup(subprocess.run, ["rm", "-rf", root])
        subprocess.run(["sh", "-c", "cd %s && mkdir d && for i in $(seq 300); do : > d/$i; done && for i in $(seq 500); do cp -rl d d$i; done"
                        % root], check=True)
        with open(self.noded.conf, "a") as f:
            f.write("LocalRoots = %s\n" % root)
        passwd = self.start_with_passwd()
        self.client.create_pool(first=FIRST, count=COUNT, cooldown_ms=1000, ready_timeout_ms=READY_MS)
        fds = "/proc/%d/fd" % self.noded.process.pid
        uid = FIRST + 7
        lies = os.path.join(root, "lies")  # so that there is a second round
        with open(lies, "w"):
            os.chown(lies, FIRST + 3, FIRST + 3)

        def is_swept():
            for fd in os.listdir(fds):
                try:
                    if os.path.basename(root) in os.readlink(os.path.join(fds, fd)):
                        return True
                except OSError:  # it is closed by now; or is a folder deeper than any path may be, of whoever has one in /tmp
                    pass
            return False
        peer.until(is_swept, seconds=30, what="the sweep of those that are next in line")
        with open(passwd, "a") as f:
            f.write("bob:x:%d:%d::/:/bin/sh\n" % (uid, uid))
        peer.until(lambda: self.blocked().get(uid) == "account", what="bob's uid to be blocked")
        path = os.path.join(root, "of-bob")
        with open(path, "w"):
            os.chown(path, uid, uid)
        bob = self.run_as(uid, "sleep", "1000")
        lease = self.acquire()
        self.client.release(lease)
        self.free(lease, 60)  # its sweep comes after that one
        self.assertIsNone(bob.poll())
        peer.until(lambda: not os.path.exists(lies), seconds=40, what="the next sweep of those that are next in line")
        self.assertIsNone(bob.poll())
        self.assertTrue(os.path.exists(path))

    def test_account_that_was_there_keeps_the_pool_unused_here(self):
        """The node comes when the pool is there: nobody could ask it before."""
        passwd = self.passwd_with("bob", FIRST + 7)
        bob = self.run_as(FIRST + 7, "sleep", "1000")
        stranger = self.run_as(FIRST + 8, "sleep", "1000")
        self.client.create_pool(first=FIRST, count=COUNT, cooldown_ms=1000, ready_timeout_ms=READY_MS)
        self.start_with_passwd(passwd)
        peer.until(lambda: "overlaps what this machine has" in self.noded.said(), what="the pool's check")
        # No other node is given it either: its name would stand before his here.
        peer.until(lambda: self.blocked() == {FIRST + 7: "account"}, what="his uid to be blocked")
        self.client.create_pool(name=b"other", first=OTHER, count=COUNT, cooldown_ms=1000, ready_timeout_ms=READY_MS)
        peer.until(lambda: "nobody else has anything" in self.noded.said(), what="the other pool's check")
        self.passes(OTHER)
        self.assertIsNone(bob.poll())
        self.assertIsNone(stranger.poll())

    # ---- deaths ----

    def test_noded_dies_again_and_again(self):
        """No lease is lost, no process of one, none is doubled, and everything goes on."""
        self.begin()
        held = self.acquire()
        child = self.run_as(held.uid, "sleep", "1000")
        for turn in range(40 if LONG else 10):
            lease = self.client.acquire(wait=False, timeout=60).leases[0]
            time.sleep(0.003 * turn)
            self.noded.kill()
            self.client.release(lease)
            self.noded.start()
            self.ready()
            self.assertIsNone(child.poll())
            epoch, _, flags = self.noded.record(held.uid)
            self.assertEqual((epoch, flags & 3), (held.epoch, 1))
        self.assertEqual(self.lease(held).state, self.m["lease"].LEASE_STATE_ACTIVE)
        self.client.release(held)
        self.killed(child)
        self.free(held)
        self.free(lease)

    def test_noded_killed_and_map_lost_ends_nothing_that_was_admitted(self):
        self.begin()
        lease = self.acquire()
        child = self.run_as(lease.uid, "sleep", "1000")
        self.noded.kill()
        os.unlink(self.noded.map)
        self.noded.start()
        peer.until(lambda: self.noded.record(lease.uid), what="the record in the new map")
        self.ready()
        self.assertEqual(self.noded.record(lease.uid)[2] & 3, 1)
        self.assertIsNone(child.poll())

    def test_state_lost_with_the_map_ends_what_runs(self):
        self.begin()
        lease = self.acquire()
        child = self.run_as(lease.uid, "sleep", "1000")
        self.noded.kill()
        os.unlink(self.noded.map)
        os.unlink(os.path.join(self.noded.state, "epochs"))
        self.noded.start()
        self.killed(child)
        self.free(lease)

    def test_restart_in_order_is_trusted(self):
        self.begin()
        lease = self.acquire()
        child = self.run_as(lease.uid, "sleep", "1000")
        self.assertEqual(self.noded.stop(), 0)
        self.noded.start()
        self.ready()
        self.assertIn("ended in order", self.noded.said())
        self.assertIsNone(child.poll())
        self.acquire()

    def test_leased_dies_and_comes_back(self):
        self.begin()
        lease = self.acquire()
        child = self.run_as(lease.uid, "sleep", "1000")
        self.leased.kill()
        peer.until(lambda: "no session" in self.noded.said(), what="noded to notice")
        self.leased.start()
        self.ready()
        peer.until(lambda: self.member(lease).proof == self.m["lease"].MEMBER_PROOF_READY, what="ready to be said again")
        self.assertIsNone(child.poll())
        self.client.release(lease)
        self.killed(child)
        self.free(lease)

    def test_lease_released_while_noded_is_away_is_swept_when_it_is_back(self):
        self.begin()
        lease = self.acquire()
        child = self.run_as(lease.uid, "sleep", "1000")
        self.noded.kill()
        self.client.release(lease)
        self.assertIsNone(child.poll())
        self.noded.start()
        self.killed(child)
        self.free(lease)

    def test_stray_of_a_clean_lease_is_told_after_a_death(self):
        """Who comes after knows that leased has its proof: what runs then takes that back."""
        self.begin(cooldown_ms=3600000)
        lease = self.acquire()
        self.client.release(lease)
        peer.until(lambda: self.lease(lease).state == self.m["lease"].LEASE_STATE_COOLING, what="clean")
        self.passes()  # all that is known by now is in the map
        self.noded.kill()
        said = len(self.noded.said())
        self.noded.start()
        peer.until(lambda: "session 2" in self.noded.said()[said:], what="the next session")
        self.ready()

        def is_told():
            self.killed(self.run_as(lease.uid, "sleep", "1000"))
            # A sweep that goes on says dirty, and again as long as something comes.
            return re.search("(stray|dirty): process", self.noded.said()[said:])
        peer.until(is_told, what="a stray to be told")
        peer.until(lambda: self.lease(lease).state == self.m["lease"].LEASE_STATE_COOLING, what="clean again")

    def test_what_has_retired_is_looked_through_after_a_death(self):
        """Also while the name services do not say yet whether its pool is guarded."""
        self.client.create_pool(first=FIRST, count=COUNT, cooldown_ms=1000, ready_timeout_ms=READY_MS)
        self.client.create_pool(name=b"other", first=OTHER, count=COUNT, cooldown_ms=1000, ready_timeout_ms=READY_MS)
        self.start_with_passwd(self.passwd_with("bob", OTHER + 7))
        self.ready()
        peer.until(lambda: "overlaps what this machine has" in self.noded.said(), what="the other pool's check")
        other = peer.Node(self.client, "n0", machine="2" * 32, beats=1).wait(lambda n: n.welcome, what="welcome")
        self.addCleanup(other.close)
        other.beat = lambda: peer.Node.beat(other, 1)  # so that nothing becomes free
        lease = self.acquire(pool=b"main")
        self.client.release(lease)
        peer.until(lambda: self.noded.record(lease.uid)[1] == 0, what="noded to know that it has retired")
        self.noded.kill()
        path = "/tmp/xce-test-noded.%d" % lease.uid
        with open(path, "w"):
            os.chown(path, lease.uid, lease.uid)
        self.addCleanup(lambda: os.path.exists(path) and os.unlink(path))
        fifo = os.path.join(self.leased.folder, "passwd-fifo")
        os.mkfifo(fifo)
        self.start_with_passwd(fifo)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            self.assertIsNotNone(self.lease(lease), "it must not be free")
        self.let_go(fifo)
        del other.beat
        other.beat()
        self.free(lease, 40)
        self.assertFalse(os.path.exists(path))

    def test_what_runs_in_a_pool_that_is_not_guarded_keeps_its_uid_alone(self):
        """Nobody touches it, and no other uid waits for it."""
        self.client.create_pool(first=FIRST, count=COUNT, cooldown_ms=1000, ready_timeout_ms=READY_MS)
        self.client.create_pool(name=b"other", first=OTHER, count=COUNT, cooldown_ms=1000, ready_timeout_ms=READY_MS)
        self.start_with_passwd(self.passwd_with("bob", OTHER + 7))
        peer.until(lambda: "overlaps what this machine has" in self.noded.said(), what="the other pool's check")
        stranger = self.run_as(OTHER + 8, "sleep", "1000")
        self.ready()
        lease = self.acquire(pool=b"main")
        self.client.release(lease)
        self.free(lease)
        pool = self.client.pool.Get(self.m["pool"].PoolKey(name=b"other"), timeout=30).pool
        self.assertEqual({b.uid: b.reason for b in pool.blocked}.get(OTHER + 8), "leftover")
        self.assertIsNone(stranger.poll())

    def lose_power(self):
        """As if its machine had been switched off, and an administrator had sworn that it is."""
        self.noded.kill()
        os.unlink(self.noded.map)
        get = lambda: self.client.node.Get(self.m["node"].NodeKey(node=b"n1"), timeout=30).node
        with self.leased.losing():
            peer.until(lambda: get().state == self.m["node"].NODE_STATE_LOST, what="the node to be lost")
        node = get()
        self.client.node.Fence(self.client.request(self.m["node"].FenceRequest(
            node=b"n1", reason=b"pulled the plug", machine_id=node.machine_id.encode(),
            boot_id=node.boot_id.encode())), timeout=30)

    def start_in_another_boot(self, also="true"):
        boot = os.path.join(self.leased.folder, "boot_id")
        with open(boot, "w") as f:
            f.write("%s\n" % uuid.uuid4())
        self.noded.start(prefix=["unshare", "-m", "sh", "-c",
                                 "mount --bind %s /proc/sys/kernel/random/boot_id && %s && exec \"$@\"" % (boot, also),
                                 "sh"])

    def file_of(self, uid):
        path = "/var/tmp/xce-test-noded.%d" % uid
        with open(path, "w"):
            os.chown(path, uid, uid)
        self.addCleanup(lambda: os.path.exists(path) and os.unlink(path))
        return path

    def test_what_a_fenced_node_left_is_swept_before_it_may_have_leases(self):
        """It lost its power with a lease, and its uid became free on an oath: its disk still has the files."""
        self.begin()
        lease = self.acquire()
        path = self.file_of(lease.uid)
        self.lose_power()
        self.client.release(lease)
        self.free(lease)
        self.start_in_another_boot()
        self.ready()
        self.assertFalse(os.path.exists(path))
        self.assertIn("sweeping 1 uids", self.noded.said())

    def test_what_a_fenced_node_was_still_sweeping_is_swept_before_it_may_have_leases(self):
        """It had closed admission, and lost its power before it was clean."""
        self.begin()
        lease = self.acquire()
        at = self.release_with_shared_memory(lease)
        self.lose_power()
        path = self.file_of(lease.uid)
        self.assertEqual(libc.shmdt(at), 0)
        self.free(lease)
        self.start_in_another_boot()
        self.ready()
        self.assertFalse(os.path.exists(path))
        self.assertIn("sweeping 1 uids", self.noded.said())
        peer.until(lambda: self.noded.swept(lease.uid), what="that to be on disk")
        self.lose_power()  # and not for ever
        said = len(self.noded.said())
        self.start_in_another_boot()
        self.ready()
        self.assertNotIn("sweeping 1 uids", self.noded.said()[said:])

    def test_what_could_not_be_removed_is_told_again_when_leased_has_not_heard_it(self):
        """Its word about what it left was lost with the session: it must not be ready, and nobody may get the uid, before."""
        self.begin()
        lease = self.acquire()
        self.lose_power()
        self.client.release(lease)
        self.free(lease)
        at = self.attach_shared_memory(lease.uid)
        fifo = os.path.join(self.leased.folder, "passwd-fifo")
        os.mkfifo(fifo)
        said = len(self.noded.said())
        self.start_in_another_boot("mount --bind %s /etc/passwd" % fifo)
        peer.until(lambda: self.noded.knows() > 0, what="all leases to be told")
        self.leased.kill()
        self.let_go(fifo)
        peer.until(lambda: "something of it can not be removed" in self.noded.said()[said:], seconds=60, what="a find")
        self.leased.start()
        self.ready()
        self.assertEqual(self.blocks().get(lease.uid), "leftover")
        self.assertEqual(libc.shmdt(at), 0)
        self.client.node.Sweep(self.client.request(self.m["node"].NodeVerbRequest(node=b"n1", reason=b"test")), timeout=30)
        peer.until(lambda: lease.uid not in self.blocks(), seconds=60, what="the uid to be free again")

    def rename(self, name):
        """The same machine under another name, as an administrator would: stop, noded.conf, start."""
        self.assertEqual(self.noded.stop(), 0)
        with open(self.noded.conf) as f:
            text = f.read()
        with open(self.noded.conf, "w") as f:
            f.write(re.sub("(?m)^Node = .*$", "Node = %s" % name, text))
        self.noded.start()

    def test_renamed_node_ends_what_the_old_name_had(self):
        """A lease is of the name. Under another one the machine does not run it, and does not prove it either."""
        self.begin()
        lease = self.acquire()
        child = self.run_as(lease.uid, "sleep", "1000")
        path = "/tmp/xce-test-noded.%d" % lease.uid
        with open(path, "w"):
            os.chown(path, lease.uid, lease.uid)
        self.addCleanup(lambda: os.path.exists(path) and os.unlink(path))
        self.rename("n2")
        self.killed(child)
        self.killed(self.run_as(lease.uid, "sleep", "1000"))
        self.assertFalse(self.noded.record(lease.uid)[2] & 1, "the map still calls it here")
        self.client.release(lease)
        released = self.lease(lease).revision
        nodes = lambda: self.client.node.List(self.m["node"].ListNodesRequest(), timeout=30).nodes
        passed = lambda node, revision: [n for n in nodes() if n.node == node and n.watermark >= revision]
        # A stray that is reported after the release makes n2 a member, which proves that for itself, and nothing for n1. When
        # it has passed over what came since, no more can come.
        peer.until(lambda: passed("n2", released), what="n2's pass")
        peer.until(lambda: all(m.proof == self.m["lease"].MEMBER_PROOF_CLEAN for m in self.lease(lease).nodes if m.node == "n2"),
                   what="n2 to be clean")
        self.assertEqual([m.proof for m in self.lease(lease).nodes if m.node == "n1"],
                         [self.m["lease"].MEMBER_PROOF_PENDING])
        # Its old name back, it sweeps and says so. The other name stays a witness till it has looked, too, or is fenced.
        self.rename("n1")
        peer.until(lambda: [wait.what for wait in self.explain(lease).waits] == ["witness n2"],
                   what="n1 to be clean and to have looked after that")
        self.assertFalse(os.path.exists(path))
        peer.until(lambda: passed("n1", self.lease(lease).revision), what="n1's pass")
        self.rename("n2")
        self.free(lease)

    def test_validity_ends_what_is_here(self):
        self.begin(validity_ms=5000)
        lease = self.acquire()
        child = self.run_as(lease.uid, "sleep", "1000")
        self.leased.kill()
        self.killed(child)
        self.assertEqual(self.noded.record(lease.uid)[2] & 3, 3)
        self.leased.start()
        self.ready()
        self.free(lease)

    def test_validity_that_is_changed_is_known_without_leased(self):
        self.begin(validity_ms=3600000)
        pools = os.path.join(self.noded.state, "pools")

        def known():
            with open(pools) as f:
                return "".join(re.findall("^pool main [0-9]+ [0-9]+ ([0-9]+) ", f.read(), re.M))
        peer.until(lambda: os.path.exists(pools) and known() == "3600000", what="the pool to be kept")
        settings = self.m["pool"].PoolSettings(validity_ms=1500)
        self.client.pool.Set(self.client.request(self.m["pool"].SetPoolRequest(name=b"main", settings=settings)), timeout=30)
        peer.until(lambda: known() == "1500", what="its new validity to be kept")

    def test_validity_counts_over_a_restart(self):
        self.begin(validity_ms=5000)
        lease = self.acquire()
        child = self.run_as(lease.uid, "sleep", "1000")
        self.leased.kill()
        self.noded.kill()
        time.sleep(1)
        self.noded.start()
        self.killed(child)

    # ---- clocks ----

    def test_validity_is_not_stretched_by_a_boot_clock_that_went_back(self):
        """What the one before heard "in the future" (a machine resumed from a copy, another time namespace) counts for nothing."""
        try:
            subprocess.run(["unshare", "--time", "--boottime", "100000", "true"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("no time namespaces here")
        self.noded.start(prefix=["unshare", "--time", "--boottime", "100000", "--"])
        self.client.create_pool(first=FIRST, count=COUNT, cooldown_ms=1000, ready_timeout_ms=READY_MS, validity_ms=2500)
        self.ready()
        lease = self.acquire()
        child = self.run_as(lease.uid, "sleep", "1000")

        def heard_ms():  # as the map has it for who comes after
            with open(self.noded.map, "rb") as f:
                return struct.unpack_from("<Q", f.read(4096), 2072)[0]
        peer.until(lambda: heard_ms() > 100000 * 1000, what="the deadline to be kept")
        self.leased.kill()
        # Nor does each of those that are killed one after another begin anew: a busy machine gives each a second of its own.
        for _ in range(12):
            self.noded.kill()
            said = len(self.noded.said())
            self.noded.start()
            peer.until(lambda: len(self.noded.said()) > said, what="its first word")
            time.sleep(1)
            if child.poll() is not None:
                break
        self.assertIsNotNone(child.poll())
        self.killed(child)

    def test_steps_of_the_wall_clock_change_nothing(self):
        """A day back, a year on, thirty years back, under leased and noded: nothing ends early, everything ends in time."""
        if os.environ.get("XCE_TEST_SANITIZED"):
            self.skipTest("a sanitizer's runtime has to be loaded first")
        step = os.path.join(self.leased.folder, "step")

        def step_by(seconds):
            with open(step, "r+b" if os.path.exists(step) else "wb") as f:
                f.write(struct.pack("<q", seconds))
        step_by(0)
        preload = ["env", "LD_PRELOAD=" + os.path.join(peer.BUILD, "tests/lib/libwall_step.so"), "XCE_TEST_WALL_STEP=" + step]
        self.leased.stop()
        self.leased.preload = preload
        self.leased.start()
        self.noded.start(prefix=preload)
        self.client.create_pool(first=FIRST, count=COUNT, cooldown_ms=1000, ready_timeout_ms=READY_MS, validity_ms=60000,
                                ttl_min_ms=1000)
        self.ready()
        held = self.acquire()
        child = self.run_as(held.uid, "sleep", "1000")
        day = 86400
        for seconds in (-day, 365 * day, -30 * 365 * day):
            began = time.monotonic()
            short = self.acquire(ttl_ms=6000)
            step_by(seconds)
            said = len(self.noded.said())
            other = self.acquire()
            self.client.release(other)
            self.free(other)
            self.assertNotIn("stray", self.noded.said()[said:])
            peer.until(lambda: self.lease(short) is None or self.lease(short).end_cause, what="the short lease to expire")
            took = time.monotonic() - began
            self.assertGreater(took, 5.9, "ended early by a step of %d s" % seconds)
            self.assertLess(took, 240, "ended late by a step of %d s" % seconds)
            self.free(short)
            self.assertIsNone(child.poll())
            self.assertEqual(self.lease(held).state, self.m["lease"].LEASE_STATE_ACTIVE)
        self.client.release(held)
        self.killed(child)
        self.free(held)

    # ---- what can not be ----

    def test_damaged_epochs_refuse_to_start_and_say_what_to_do(self):
        self.begin()
        for _ in range(3):
            self.acquire()
        self.assertEqual(self.noded.stop(), 0)
        path = os.path.join(self.noded.state, "epochs")
        with open(path, "r+b") as f:
            f.seek(26)
            there, = f.read(1)
            f.seek(26)
            f.write(bytes([there ^ 0xff]))
        code, said = self.noded.run()
        self.assertEqual(code, 1)
        self.assertIn(path, said)
        self.assertIn("move the file away", said)
        os.unlink(path)
        self.noded.start()
        self.ready()

    def test_unreadable_incarnations_refuse_to_start_and_say_what_to_do(self):
        """Who does not know which states it has left could go back to one."""
        self.begin()
        self.acquire()
        self.assertEqual(self.noded.stop(), 0)
        path = os.path.join(self.noded.state, "incarnations")
        with open(path, "rb") as f:
            whole = f.read()
        self.assertRegex(whole, rb"\A[0-9a-f]+\n\Z")
        for what, bad in {"empty": b"", "cut": whole[:-3], "of the end": whole[:-1], "other": b"x" + whole[1:],
                          "longer": whole * 1000, "a gap": whole + b"\n" + whole, "a NUL": whole + b"\0\n"}.items():
            with self.subTest(what):
                with open(path, "wb") as f:
                    f.write(bad)
                self.refuses_to_start(path)
        os.unlink(path)
        os.mkdir(path)
        self.refuses_to_start(path)
        os.rmdir(path)
        with open(path, "wb") as f:
            f.write(whole)
        self.noded.start()
        self.ready()

    def refuses_to_start(self, path):
        code, said = self.noded.run()
        self.assertEqual(code, 1)
        self.assertIn(path + ": ", said)
        self.assertIn("move the file away", said)

    def test_pools_are_known_by_the_map_when_their_file_is_lost(self):
        """Without leased, too: what is not here is ended, and what is here goes on."""
        for lose in (os.unlink, lambda path: os.truncate(path, 20)):
            if not self.noded.process:
                self.begin()
            lease = self.acquire()
            job = self.run_as(lease.uid, "sleep", "1000")
            self.noded.kill()
            self.leased.kill()
            lose(os.path.join(self.noded.state, "pools"))
            stray = self.run_as(FIRST + COUNT - 1, "sleep", "1000")
            self.noded.start()
            self.killed(stray)
            self.leased.start()
            self.ready()
            self.assertIsNone(job.poll())
            self.assertEqual(self.noded.record(lease.uid)[1], 2)
            self.client.release(lease)
            self.killed(job)
            self.free(lease)
            with open(os.path.join(self.noded.state, "pools")) as f:
                self.assertIn("pool main %d %d" % (FIRST, FIRST + COUNT - 1), f.read())

    def test_two_nodeds_do_not_share_a_machine(self):
        self.begin()
        code, said = self.noded.run()
        self.assertEqual(code, 1)
        self.assertIn("lock", said)
        self.acquire()

    def test_full_runtime_folder_refuses_and_recovers(self):
        """A map of 4 MiB of records does not fit a tmpfs of 1 MiB: no lease is ready, nothing crashes; with room it goes on."""
        mount = "mount -t tmpfs -o size=1m none %s && exec \"$@\"" % self.noded.runtime
        self.noded.start(prefix=["unshare", "-m", "sh", "-c", mount, "sh"])
        self.client.create_pool(first=0x73000000, count=65536, cooldown_ms=1000, ready_timeout_ms=READY_MS)
        self.ready()
        with self.assertRaises(peer.grpc.RpcError) as failed:
            self.acquire()
        self.assertIn("no-space", failed.exception.details())
        subprocess.run(["nsenter", "-m", "-t", str(self.noded.process.pid), "mount", "-o", "remount,size=64m",
                        self.noded.runtime], check=True)
        peer.until(lambda: "there is room again" in self.noded.said(), what="the map to be made")
        self.assertTrue(self.acquire().uid)

    def test_lease_that_the_map_had_no_room_for_is_swept_after_a_restart(self):
        """It is in no map, so who comes after an end in order knows nothing of it: leased is asked for all."""
        holder = subprocess.Popen(["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=1m none %s && exec sleep 1000"
                                   % self.noded.runtime])
        self.children.append(holder)

        def mounted():
            with open("/proc/%d/mounts" % holder.pid) as f:
                return self.noded.runtime in f.read()
        peer.until(mounted, what="the mount")
        prefix = ["nsenter", "-m", "-t", str(holder.pid)]
        self.noded.start(prefix)
        self.client.create_pool(first=FIRST, count=COUNT, cooldown_ms=1000, ready_timeout_ms=READY_MS)
        self.client.create_pool(name=b"big", first=0x73000000, count=65536, cooldown_ms=1000, ready_timeout_ms=READY_MS)
        self.ready()
        lease = self.client.acquire(pool=b"big").leases[0]
        at = self.attach_shared_memory(lease.uid)
        peer.until(lambda: self.member(lease).reason == "ipc-shm", what="a dirty report")
        self.assertEqual(self.noded.stop(), 0)
        subprocess.run([*prefix, "mount", "-o", "remount,size=64m", self.noded.runtime], check=True)
        self.noded.start(prefix)
        self.ready()
        self.assertEqual(libc.shmdt(at), 0)
        self.free(lease)

    def test_bad_configuration_names_the_place(self):
        for line, word in (("Guard = soon", "Guard"), ("Colour = red", "Colour"), ("Server = tcp:7623", "Server"),
                           ("Node = a b", "Node"), ("LocalRoots = /", "LocalRoots")):
            with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
                f.write("[noded]\n%s\n" % line)
                f.flush()
                done = subprocess.run([os.path.join(peer.BUILD, "noded/noded"), "--config", f.name, "--check-config"],
                                      capture_output=True, text=True, timeout=120)
                self.assertEqual(done.returncode, 2, line)
                self.assertIn(word, done.stderr)

    def test_reload_takes_new_roots_and_keeps_the_old_on_error(self):
        self.begin()
        root = os.path.join(self.leased.folder, "scratch")
        os.makedirs(root)
        with open(self.noded.conf, "a") as f:
            f.write("LocalRoots = %s\n" % root)
        self.noded.process.send_signal(signal.SIGHUP)
        peer.until(lambda: "read again" in self.noded.said(), what="the reload")
        with open(self.noded.conf, "a") as f:
            f.write("Nonsense = 1\n")
        self.noded.process.send_signal(signal.SIGHUP)
        peer.until(lambda: "old settings go on" in self.noded.said(), what="the refusal")
        lease = self.acquire()
        path = os.path.join(root, "left")
        with open(path, "w"):
            os.chown(path, lease.uid, lease.uid)
        self.client.release(lease)
        self.free(lease)
        self.assertFalse(os.path.exists(path))

    def own_file_system(self):
        """One that can be frozen: who writes to it waits then, and no signal ends that. Not in /tmp, where the nodeds of tests
        that run beside this one would walk into it."""
        folder = tempfile.mkdtemp(prefix="xce-test-noded.", dir="/run")
        root, image = os.path.join(folder, "root"), os.path.join(folder, "image")
        self.addCleanup(shutil.rmtree, folder)
        os.mkdir(root)
        with open(image, "xb") as f:
            f.truncate(16 << 20)
        subprocess.run(["mkfs.ext4", "-q", image], check=True)
        if subprocess.run(["mount", "-o", "loop", image, root], capture_output=True).returncode != 0:
            self.skipTest("no loop device can be mounted here")
        self.addCleanup(subprocess.run, ["umount", root], check=True)
        return root

    @contextlib.contextmanager
    def answering_nobody(self, path):
        """Meanwhile who opens anything there waits, and no signal ends that."""
        fan = libc.fanotify_init(0x4 | 0x1, os.O_RDONLY)  # FAN_CLASS_CONTENT, FAN_CLOEXEC
        if fan < 0:
            self.skipTest("no fanotify here: %s" % os.strerror(ctypes.get_errno()))
        try:
            # FAN_MARK_ADD, FAN_MARK_FILESYSTEM; FAN_OPEN_PERM, FAN_ONDIR
            if libc.fanotify_mark(fan, 0x1 | 0x100, ctypes.c_uint64(0x10000 | 0x40000000), -100, path.encode()) < 0:
                self.skipTest("fanotify asks nobody here: %s" % os.strerror(ctypes.get_errno()))
            yield
        finally:
            os.close(fan)

    def test_walk_that_hangs_keeps_no_stray_alive(self):
        """What has retired is looked for at a disk that does not answer, pass after pass."""
        root = self.own_file_system()
        with open(self.noded.conf, "a") as f:
            f.write("LocalRoots = %s\nLookLimit = 5s\n" % root)
        self.begin(cooldown_ms=12000)
        lease, state = self.acquire(), self.m["lease"]
        self.client.release(lease)
        peer.until(lambda: self.lease(lease).state == state.LEASE_STATE_COOLING, what="the sweep")
        with self.answering_nobody(root):
            peer.until(lambda: self.lease(lease).state == state.LEASE_STATE_RETIRED, what="it to retire")
            for _ in range(3):
                self.killed(self.run_as(FIRST + COUNT - 1, "sleep", "1000"), seconds=30)
            peer.until(lambda: "given up: files: %s" % root in self.noded.said(), seconds=30, what="a look to hang")
            self.assertEqual(self.lease(lease).state, state.LEASE_STATE_RETIRED)
            # Whoever asks why is told.
            hangs = "^files: %s: no answer for [0-9]+ s$" % re.escape(root)
            peer.until(lambda: self.node().hangs, seconds=30, what="leased to hear of it")
            self.assertRegex(self.node().hangs, hangs)
            wait, = self.explain(lease).waits
            self.assertRegex(wait.detail.partition("; scan-failed: ")[2], hangs)
            self.assertIn("when what hangs there answers", wait.cure)
        self.free(lease, 60)
        peer.until(lambda: not self.node().hangs, seconds=30, what="leased to hear that it answers")

    def test_dry_run_tells_what_it_hangs_at(self):
        """Long before it is given up, and at once when it is known."""
        root = self.own_file_system()
        with open(self.noded.conf, "a") as f:
            f.write("LocalRoots = %s\nLookLimit = 1h\n" % root)
        self.begin()
        with self.answering_nobody(root):
            for _ in range(2):
                done = self.dry_run("--json", "--timeout", "50s")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                remnant, = json.loads(done.stdout)["remnants"]
                self.assertEqual((remnant["uid"], remnant["kind"], remnant["would"]), (None, "scan-failed", "leave"))
                self.assertRegex(remnant["detail"], "^files: %s: no answer for [0-9]+ s$" % re.escape(root))
        peer.until(lambda: json.loads(self.dry_run("--json").stdout)["remnants"] == [], seconds=60, what="a whole answer")

    def test_place_that_hangs_is_remembered(self):
        """However often a sweep is tried again, and however many there are, no further thread is sent where one hangs; what
        runs is ended meanwhile."""
        root = self.own_file_system()
        with open(self.noded.conf, "a") as f:
            f.write("LocalRoots = %s\nLookLimit = 5s\n" % root)
        self.begin()
        lease = self.acquire()
        with self.answering_nobody(root):
            self.client.release(lease)
            peer.until(lambda: self.member(lease).reason == "scan-failed", seconds=30, what="a dirty report")
            later, end = [], time.monotonic() + 16
            while time.monotonic() < end and len(later) < COUNT // 2:
                later.append(self.acquire())
                child = self.run_as(later[-1].uid, "sleep", "1000")
                self.client.release(later[-1])
                self.killed(child, seconds=30)
                peer.until(lambda: self.member(later[-1]).reason == "scan-failed", seconds=30,
                           what="another dirty report")
                self.assertRegex(self.member(later[-1]).detail, "^files: %s: no answer for [0-9]+ s$" % re.escape(root))
            # Those that were on their way: of sweeps, and of walks.
            self.assertLess(self.noded.said().count("is given up: files: %s" % root), 3)
        for one in [lease, *later]:
            self.free(one, 60)

    def test_look_that_hangs_is_given_up_and_holds_up_nothing_else(self):
        root = self.own_file_system()
        with open(self.noded.conf, "a") as f:
            f.write("LocalRoots = %s\nLookLimit = 5s\n" % root)
        self.begin()
        lease = self.acquire()
        path = os.path.join(root, "left")
        with open(path, "w"):
            os.chown(path, lease.uid, lease.uid)
        child = self.run_as(lease.uid, "sleep", "1000")
        subprocess.run(["fsfreeze", "-f", root], check=True)
        try:
            self.client.release(lease)
            self.killed(child)
            peer.until(lambda: self.member(lease).reason == "scan-failed", what="a dirty report")
            self.assertRegex(self.member(lease).detail, "^files: %s: no answer for [0-9]+ s$" % re.escape(root))
            # All else goes on: others are ready, strays die, and it is dirty as long as it hangs.
            for _ in range(3):
                self.acquire()
                self.killed(self.run_as(lease.uid, "sleep", "1000"))
            self.assertEqual(self.member(lease).reason, "scan-failed")
        finally:
            subprocess.run(["fsfreeze", "-u", root], check=True)
        peer.until(lambda: "counts no more" in self.noded.said(), what="what hung to come back")
        self.free(lease, 60)
        self.assertFalse(os.path.exists(path))

    def own_cgroup(self):
        """noded takes a folder of this test's for the place where cgroup2 is mounted."""
        with open("/proc/mounts") as f:
            mounted = [m[1] for m in map(str.split, f) if m[2] == "cgroup2"]
        self.cgroup = os.path.join(mounted[0] if mounted else "/nowhere", "xce-test-noded.%d" % os.getpid())
        try:
            os.makedirs(os.path.join(self.cgroup, "xce.slice"))
        except OSError as error:
            self.skipTest("no group of processes can be made here: %s" % error)
        self.addCleanup(self.cgroup_end)
        with open(self.noded.conf, "a") as f:
            f.write("Cgroup = %s\n" % self.cgroup)

    def cgroup_end(self):
        for folder, _, _ in os.walk(self.cgroup, topdown=False):
            os.rmdir(folder)

    def slice_of(self, lease):
        slice_ = os.path.join(self.cgroup, "xce.slice", "xce-%d.slice" % lease.uid)
        return os.path.join(slice_, "xce-%d-%d.slice" % (lease.uid, lease.epoch))

    def run_in_slice(self, lease, *command):
        """As systemd would run it."""
        os.makedirs(self.slice_of(lease), exist_ok=True)
        child = self.run_as(lease.uid, *command)
        with open(os.path.join(self.slice_of(lease), "cgroup.procs"), "w") as f:
            f.write(str(child.pid))
        return child

    def test_end_of_a_lease_kills_at_once_whatever_sweep_stands_still(self):
        root = self.own_file_system()
        self.own_cgroup()
        with open(self.noded.conf) as f:
            conf = f.read()
        with open(self.noded.conf, "w") as f:  # that nothing else ends it meanwhile
            f.write(conf.replace("Guard = 500ms", "Guard = 60s") + "LocalRoots = %s\nLookLimit = 1h\n" % root)
        self.begin()
        first, second = self.acquire(), self.acquire()
        with open(os.path.join(root, "left"), "w"):
            os.chown(os.path.join(root, "left"), first.uid, first.uid)
        outside, inside = self.run_as(first.uid, "sleep", "1000"), self.run_in_slice(second, "sleep", "1000")
        subprocess.run(["fsfreeze", "-f", root], check=True)
        try:
            self.client.release(first)
            self.killed(outside)  # the sweep is under way, and comes to the file next
            began = time.monotonic()
            self.client.release(second)
            self.killed(inside, 30)
            self.assertLess(time.monotonic() - began, 30)
        finally:
            subprocess.run(["fsfreeze", "-u", root], check=True)

    def stand_by(self, program=None):
        """Beside noded, as its unit has it."""
        program = program or os.path.join(peer.BUILD, "noded/noded")
        with open(self.noded.log, "ab") as log:
            child = subprocess.Popen([program, "--stand-by", self.noded.conf], stderr=log, stdout=log)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def not_heard_for(self, seconds):
        """leased, as the map has it; noded does not run."""
        heard_ms = int((time.clock_gettime(time.CLOCK_BOOTTIME) - seconds) * 1000)
        if heard_ms <= 0:
            self.skipTest("this machine has not been up for that long")
        with open(self.noded.map, "r+b") as f:
            f.seek(2072)
            f.write(struct.pack("<Q", heard_ms))

    def test_stand_by_ends_what_is_closed_and_still_runs(self):
        self.own_cgroup()
        self.begin(validity_ms=1000)
        lease = self.acquire()
        self.release_with_shared_memory(lease)
        self.assertEqual(self.noded.record(lease.uid)[2] & 3, 3)  # a member, closed
        self.assertEqual(self.noded.stop(), 0)
        self.not_heard_for(60)
        inside, outside = self.run_in_slice(lease, "sleep", "1000"), self.run_as(lease.uid, "sleep", "1000")
        self.stand_by()
        self.killed(inside, 60)
        self.assertIn("of 1 that it has closed something still runs", self.noded.said())
        self.assertIsNone(outside.poll())  # that waits for noded

    def test_stand_by_goes_by_the_pools_that_it_knows_whatever_becomes_of_their_file(self):
        self.own_cgroup()
        self.begin(validity_ms=1000)
        lease = self.acquire()
        self.release_with_shared_memory(lease)
        self.assertEqual(self.noded.stop(), 0)
        self.not_heard_for(60)
        self.stand_by()
        pools = os.path.join(self.noded.state, "pools")
        self.killed(self.run_in_slice(lease, "sleep", "1000"), 60)
        with open(pools, "r+b") as f:  # damaged: it would be the validity of pools that nobody knows, an hour
            f.seek(20)
            f.write(b"X")
        self.killed(self.run_in_slice(lease, "sleep", "1000"), 60)
        os.unlink(pools)
        os.mkfifo(pools)  # who opens it waits, as for a disk that does not answer
        self.killed(self.run_in_slice(lease, "sleep", "1000"), 60)
        self.killed(self.run_in_slice(lease, "sleep", "1000"), 60)

    def test_stand_by_of_an_older_version_says_so_and_gives_way(self):
        program = os.path.join(self.leased.folder, "noded-copy")
        shutil.copy(os.path.join(peer.BUILD, "noded/noded"), program)
        self.begin()
        self.assertEqual(self.noded.stop(), 0)
        child = self.stand_by(program)
        with open(self.noded.map, "r+b") as f:
            f.seek(8)
            f.write(struct.pack("<HH", 99, 99))  # version, oldest reader
        peer.until(lambda: "the stand-by can end nothing here" in self.noded.said(), what="its word")
        self.assertIsNone(child.poll())
        shutil.copy(program, program + ".new")
        os.rename(program + ".new", program)
        self.assertEqual(peer.until(lambda: child.poll() is not None and [child.returncode], what="its end"), [0])
        self.assertEqual(self.noded.said().count("the stand-by can end nothing here"), 1)

    def test_reloads_end_it_at_no_moment(self):
        for i in range(3):
            said = len(self.noded.said()) if i else 0
            self.noded.start()
            reloads = peer.Reloads(self.noded)
            peer.until(lambda: "read again" in self.noded.said()[said:], what="a reload", alive=self.noded.process)
            if i == 0:
                self.ready()  # it has all leases, and no other reason to begin anew
            self.assertEqual(self.noded.stop(), 0, self.noded.said()[said:])
            self.assertGreater(reloads.end(), 0)
            self.assertNotIn("read again", self.noded.said()[said:].partition("the map stays")[2])
            self.assertEqual("where the one before ended in order" in self.noded.said()[said:], i > 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
