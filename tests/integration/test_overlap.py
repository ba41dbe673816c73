#!/usr/bin/env -S LC_ALL=C.UTF-8 /usr/bin/python3 -B
"""A pool is made, and grows, only where no machine of the cluster has anything: replicas and nodes have accounts of their own
here, each in a mount namespace."""
import contextlib
import ctypes
import os
import select
import shutil
import signal
import time
import unittest

import grpc

import peer
import replicas
from test_noded import Noded

FIRST, COUNT = 2013265920, 1024
LAST = FIRST + COUNT - 1
ANSWERS_S = 8  # what a machine has for its answer
SYS_PIDFD_GETFD = 438
QUESTIONS_FD = 3  # of the process that asks name services


class Accounts:
    """/etc/passwd of one process: what the machine has, and whoever is added."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "passwd")
        shutil.copy("/etc/passwd", self.path)

    @property
    def mount(self):
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", "mount --bind \"$1\" /etc/passwd && shift && exec \"$@\"",
                "sh", self.path]

    def add(self, name, uid):
        # In place: it is the file that is mounted.
        with open(self.path, "a", encoding="ascii") as f:
            f.write("%s:x:%d:65534::/nonexistent:/usr/sbin/nologin\n" % (name, uid))

    def remove(self, name):
        with open(self.path, "r+", encoding="ascii") as f:
            lines = [line for line in f if not line.startswith(name + ":")]
            f.seek(0)
            f.truncate()
            f.writelines(lines)


class Base(replicas.Cluster):
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        super().setUp()

    def grow(self, n=3):
        """Replicas, each with accounts of its own, and no pool."""
        for i in range(n):
            replica = self.replica("c%d" % (i + 1))
            replica.accounts = Accounts(replica.folder)
            replica.preload = replica.accounts.mount
            replica.start()
        first, *others = self.replicas
        first.ctl("cluster", "init")
        self.leader(first)
        for replica in others:
            first.ctl("cluster", "add", replica.name, "--address", replica.address)
        return self.replicas

    def create(self, replica, **how):
        return replica.ctl("pool", "create", "main", "--range", "%d-%d" % (FIRST, LAST), "--directory-ranges", "none", **how)

    def extend(self, replica, last, **how):
        return replica.ctl("pool", "set", "main", "--last", str(last), **how)

    def refused(self, call, *words):
        """Why it is; and it has not been done."""
        before = self.pools()
        error = call(status=1)["error"]
        self.assertEqual(error["code"], "failed_precondition")
        for word in words:
            self.assertIn(word, error["message"])
        self.assertEqual(self.pools(), before)
        return error["message"]

    def pools(self):
        return [(pool["name"], pool["range"]) for pool in self.replicas[0].ctl("pool", "list")["pools"]]


class OfReplicas(Base):
    def test_an_account_that_another_replica_has_refuses_the_pool(self):
        first, second, third = self.grow()
        second.accounts.add("carol", FIRST + 5)
        for asked in (first, third):
            self.refused(lambda status, asked=asked: self.create(asked, status=status), "replica c2", "carol", str(FIRST + 5))
        # Asked itself it says so of itself.
        self.refused(lambda status: self.create(second, status=status), "carol")
        second.accounts.remove("carol")
        self.create(first)
        self.assertEqual(len(self.pools()), 1)

    def test_an_account_that_another_replica_has_refuses_growth(self):
        first, second, third = self.grow()
        second.accounts.add("carol", LAST + 7)
        self.create(third)
        self.refused(lambda status: self.extend(first, LAST + COUNT, status=status), "replica c2", "carol", str(LAST + 7))
        # What the pool has already is not asked about: that it has an account by now is the nodes' to block.
        second.accounts.add("dave", FIRST + 1)
        self.extend(first, LAST + 6)
        second.accounts.remove("carol")
        self.extend(first, LAST + COUNT)

    def test_a_replica_that_does_not_answer_is_named_in_time(self):
        first, *others = self.grow()
        leader = self.leader()
        silent = next(r for r in others if r is not leader)
        silent.process.send_signal(signal.SIGSTOP)
        try:
            begun = time.monotonic()
            self.refused(lambda status: self.create(first, status=status), "replica %s (" % silent.name)
            self.assertLess(time.monotonic() - begun, ANSWERS_S + 20)
        finally:
            silent.process.send_signal(signal.SIGCONT)
        self.create(first)

    def test_a_replica_that_is_down_is_named_until_it_is_back_or_removed(self):
        first, *others = self.grow()
        leader = self.leader()
        down = next(r for r in others if r is not leader)
        down.kill()
        self.refused(lambda status: self.create(first, status=status), "replica %s (" % down.name)
        down.start()

        def made():
            try:
                return self.create(first)
            except AssertionError as error:
                if "replica %s (" % down.name not in str(error):
                    raise
                return None
        peer.until(made, what="it to be asked again", seconds=20)
        down.kill()
        self.refused(lambda status: self.extend(first, LAST + 1, status=status), "replica %s (" % down.name)
        first.ctl("cluster", "remove", down.name)
        self.extend(first, LAST + 1)

    def test_what_was_done_is_answered_again_whoever_is_down(self):
        first, *others = self.grow()
        client, request_id = self.client_of(first), os.urandom(16)
        client.create_pool(first=FIRST, count=COUNT, request_id=request_id)
        leader = self.leader()
        next(r for r in others if r is not leader).kill()
        self.assertEqual(client.create_pool(first=FIRST, count=COUNT, request_id=request_id).pool.name, "main")

    def test_only_replicas_may_ask(self):
        first, *_ = self.grow(1)
        m = peer.messages()
        ask = m["cluster"].OverlapRequest(first=FIRST, last=LAST)
        with self.assertRaises(grpc.RpcError) as denied:
            self.client_of(first).cluster.Overlap(ask, timeout=10)
        self.assertEqual(denied.exception.code().name, "PERMISSION_DENIED")


class WithNodes(Base):
    """The node's session is at a replica that is not asked."""

    config = "Heartbeat = 100ms\n"

    def setUp(self):
        super().setUp()
        self.nodes = []
        self.addCleanup(self.end_nodes)

    def end_nodes(self):
        for node in self.nodes:
            if node.process.poll() is None:
                node.process.send_signal(signal.SIGCONT)
                node.stop()
            if any(test is self for test, _ in self._outcome.result.failures + self._outcome.result.errors):
                print("---- %s\n%s" % (node.name, node.said()[-3000:]))

    def noded(self, leased, name="n1"):
        node = Noded(leased, name=name)
        node.name, node.accounts = name, Accounts(node.folder)
        self.nodes.append(node)
        node.start(prefix=node.accounts.mount)
        self.is_ready(leased, name)
        return node

    def state(self, leased, name):
        return {node["node"]: node["state"] for node in leased.ctl("node", "list")["nodes"]}.get(name)

    def is_ready(self, leased, name="n1"):
        peer.until(lambda: self.state(leased, name) == "ready", what="node %s to be ready" % name, seconds=20)


class OfNodes(WithNodes):
    def test_an_account_that_a_node_has_refuses_the_pool_and_growth(self):
        first, second, third = self.grow()
        node, other = self.noded(second), self.noded(third, "n2")
        node.accounts.add("carol", FIRST + 5)
        other.accounts.add("dave", LAST + 7)
        for asked in (first, second):
            self.refused(lambda status, asked=asked: self.create(asked, status=status), "node n1", "carol", str(FIRST + 5))
        node.accounts.remove("carol")
        self.create(first)
        for asked in (first, third):
            self.refused(lambda status, asked=asked: self.extend(asked, LAST + COUNT, status=status), "node n2", "dave",
                         str(LAST + 7))
        self.extend(first, LAST + 6)
        other.accounts.remove("dave")
        self.extend(second, LAST + COUNT)

    def test_a_dry_run_is_answered_wherever_it_is_asked(self):
        """Another question that any replica takes, and that goes to the one which has the node's session."""
        first, *_ = self.grow()
        node, uid = self.noded(first), LAST - 1
        self.create(first)
        peer.until(lambda: "nobody else has anything" in node.said(), what="the pool's check there")
        path = "/tmp/xce-test-overlap.%d" % uid
        with open(path, "w"):
            os.chown(path, uid, uid)
        self.addCleanup(os.unlink, path)
        for replica in self.replicas:
            found = replica.ctl("node", "sweep", "n1", "--dry-run")["remnants"]
            self.assertEqual([(r["kind"], r["count"], r["would"]) for r in found if r["uid"] == uid], [("file", 1, "later")])

    def test_a_node_that_does_not_answer_is_named_in_time(self):
        first, second, _ = self.grow()
        node = self.noded(second)
        node.process.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        self.refused(lambda status: self.create(first, status=status), "node n1")
        self.assertLess(time.monotonic() - begun, ANSWERS_S + 20)
        node.process.send_signal(signal.SIGCONT)
        self.is_ready(first)
        self.create(first)

    def services(self, node):
        """The process of the node that asks its name services; not one that it has ended."""
        with open("/proc/%d/task/%d/children" % (node.process.pid, node.process.pid), encoding="ascii") as f:
            children = f.read().split()
        for pid in children:
            with open("/proc/%s/stat" % pid, encoding="ascii") as f:
                if f.read().rpartition(")")[2].split()[0] != "Z":
                    yield int(pid)

    def test_a_node_whose_name_services_hang_still_looks_into_its_files(self):
        first, second, _ = self.grow()
        node = self.noded(second)
        node.accounts.add("carol", FIRST + 5)
        for _ in range(2):
            begun = time.monotonic()
            self.refused(lambda status: self.create(first, status=status), "node n1", "carol", str(FIRST + 5))
            hung, = self.services(node)
            os.kill(hung, signal.SIGSTOP)
        self.assertGreater(time.monotonic() - begun, 2, "they did not hang")
        node.accounts.remove("carol")
        self.create(first)

    def is_asked(self, pid):
        """Whether a question lies in the socket of that process."""
        process = os.pidfd_open(pid)
        try:
            socket = ctypes.CDLL(None, use_errno=True).syscall(SYS_PIDFD_GETFD, process, QUESTIONS_FD, 0)
            self.assertGreaterEqual(socket, 0, os.strerror(ctypes.get_errno()))
        finally:
            os.close(process)
        try:
            return bool(select.select([socket], [], [], 0)[0])
        finally:
            os.close(socket)

    def test_a_check_that_hangs_keeps_no_question_waiting(self):
        single = self.replica("c1", engine="sqlite").start()
        node = self.noded(single)
        self.create(single)
        peer.until(lambda: "nobody else has anything in" in node.said(), what="the check of the pool", seconds=20)
        processes = list(self.services(node))
        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        node.accounts.add("dave", 4711)  # what the machine has is another thing now: the pool is checked again
        hung = peer.until(lambda: next((pid for pid in processes if self.is_asked(pid)), None), what="the next check", seconds=20)
        for pid in processes:
            if pid != hung:
                os.kill(pid, signal.SIGCONT)
        self.extend(single, LAST + COUNT)
        self.assertTrue(self.is_asked(hung), "it did not hang all the time")

    def test_single_engine_asks_its_nodes(self):
        single = self.replica("c1", engine="sqlite").start()
        node = self.noded(single)
        node.accounts.add("carol", FIRST)
        self.refused(lambda status: self.create(single, status=status), "node n1", "carol", str(FIRST))
        node.accounts.remove("carol")
        self.create(single)


class OfLostNodes(WithNodes):
    """One that is known to be lost is not waited for: it looks for itself before it may have a lease."""

    config = WithNodes.config + "LostAfter = 60s\n"

    def test_a_lost_node_is_not_waited_for_and_uses_nothing_before_it_has_looked(self):
        first, second, _ = self.grow()
        node = self.noded(second)
        node.kill()
        with contextlib.ExitStack() as all_of_them:
            for replica in self.replicas:
                all_of_them.enter_context(replica.losing())
            peer.until(lambda: self.state(first, "n1") == "lost", what="the node to be lost", seconds=20)
        self.create(first)
        node.accounts.add("carol", FIRST + 5)
        node.start(prefix=node.accounts.mount)
        peer.until(lambda: "overlaps what this machine has" in node.said(), what="its check", seconds=20)
        self.is_ready(first)
        with self.assertRaises(grpc.RpcError) as refused:
            self.client_of(first).acquire(wait=True, timeout=120)
        self.assertIn("n1", refused.exception.details())
        self.assertIn("overlap check", refused.exception.details())


if __name__ == "__main__":
    unittest.main(verbosity=2)
