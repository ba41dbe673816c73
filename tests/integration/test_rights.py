#!/usr/bin/env -S LC_ALL=C.UTF-8 /usr/bin/python3 -B
"""Rights at a replica that lags: what was given or taken elsewhere a moment ago holds there, too, at the first call."""
import collections
import contextlib
import json
import os
import signal
import threading
import time
import unittest

import grpc

import peer
import replicas

NONE, OWN, ALL = 0, 1, 2
WHO = "carol"


class Rights(replicas.Cluster):
    def replica(self, name, **how):
        """One that is stopped for a moment, and has not heard of the leader meanwhile, still knows him."""
        replica = super().replica(name, **how)
        replica.set("Engine = raft\n", "Engine = raft\nElectionTimeout = 5s\n")
        return replica

    def setUp(self):
        super().setUp()
        self.form()
        self.pair = self.authority.issue("user", WHO, out=os.path.join(self.folder, "certs"))
        self.lead = self.leader()
        self.left, self.other = [r for r in self.replicas if r is not self.lead]
        self.lease = self.acquire(self.lead, b"of-root")

    def as_user(self, replica):
        """Connected already."""
        client = peer.Client(replica.address, self.authority.credentials(self.pair))
        self.addCleanup(client.close)
        grpc.channel_ready_future(client.channel).result(timeout=20)
        return client

    def give(self, scope, method=b"LeaseService/*"):
        """Asked of the leader; acknowledged when this returns."""
        client = self.client_of(self.lead)
        m = client.m["rbac"]
        rules = m.Rules()
        if scope != NONE:
            rules.roles.add(name=b"some").rights.add(method=method, scope=scope)
            rules.bindings.add(subject=m.SUBJECT_USER, name=WHO.encode(), roles=[b"some"])
        revision = client.rbac.GetConfig(m.GetRulesRequest(), timeout=10).revision
        client.rbac.UpdateConfig(client.request(m.UpdateRulesRequest(rules=rules, expected=revision)), timeout=10)

    @contextlib.contextmanager
    def stopped(self, replica):
        replica.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, replica.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        self.assertIsNone(replica.process.poll())
        try:
            yield
        finally:
            replica.process.send_signal(signal.SIGCONT)

    def read(self, client, **more):
        return client.lease.Get.future(client.m["lease"].LeaseKey(lease=self.lease.lease, **more), timeout=20)

    def change(self, client):
        message = client.m["lease"].RenewRequest(lease=self.lease.lease, epoch=self.lease.epoch, ttl_ms=60000)
        return client.lease.Renew.future(client.request(message), timeout=20)

    @staticmethod
    def code(call):
        return call.code().name  # waits for it

    def denials(self, replica):
        """Those that are written down, and those that were left out."""
        with open(os.path.join(replica.state, "audit.log"), encoding="utf-8") as f:
            lines = [json.loads(line) for line in f if line.endswith("\n")]
        written = [l for l in lines if l["principal"] == "user:" + WHO and l["outcome"] == "PERMISSION_DENIED"]
        return len(written) + sum(l.get("left_out", 0) for l in lines)

    def denied(self, replica, n):
        """So many were, and no more."""
        if replica.process.poll() is None:
            self.change(self.client_of(replica)).result()  # whose line says how many were left out
        peer.until(lambda: self.denials(replica) >= n, what="%d denials" % n)
        self.assertEqual(self.denials(replica), n)

    def test_what_was_given_or_taken_holds_at_a_replica_that_was_stopped(self):
        client, wrong, rounds = self.as_user(self.left), collections.Counter(), 20
        for _ in range(rounds):
            for scope, wanted in ((OWN, "NOT_FOUND"), (ALL, "OK"), (NONE, "PERMISSION_DENIED")):
                with self.stopped(self.left):
                    self.give(scope)
                    calls = {"read": self.read(client), "change": self.change(client)}
                for what, call in calls.items():
                    if self.code(call) != wanted:
                        wrong["%s: %s, not %s" % (what, self.code(call), wanted)] += 1
        self.assertEqual(wrong, {})
        self.denied(self.left, 2 * rounds)

    def members(self, client):
        """What changes the members, or would, were there a replica of that name."""
        m = client.m["cluster"]
        return [client.cluster.Add.future(client.request(m.AddReplicaRequest(name=b"c9", address=b"localhost:1")), timeout=20),
                client.cluster.Remove.future(client.request(m.RemoveReplicaRequest(name=b"c9")), timeout=20),
                client.cluster.Transfer.future(client.request(m.TransferRequest(name=b"c9")), timeout=20)]

    def test_members_are_not_changed_by_a_right_that_was_taken(self):
        client = self.as_user(self.left)
        for _ in range(10):
            for scope, wanted in ((ALL, ["FAILED_PRECONDITION", "NOT_FOUND", "NOT_FOUND"]), (NONE, ["PERMISSION_DENIED"] * 3)):
                with self.stopped(self.left):
                    self.give(scope, b"ClusterService/*")
                    calls = self.members(client)
                self.assertEqual([self.code(call) for call in calls], wanted)
        self.denied(self.left, 30)

    def test_a_backup_is_not_gone_on_with_by_a_right_that_was_taken(self):
        """Its pieces lie at the replica that began it; whether there may be more of them does not."""
        client, method = self.as_user(self.left), b"ClusterService/Backup"
        m, codes = client.m["cluster"], collections.Counter()
        for _ in range(10):
            self.give(ALL, method)
            copy = client.cluster.Backup(m.BackupRequest(), timeout=20).copy
            self.assertEqual(client.cluster.Backup(m.BackupRequest(copy=copy), timeout=20).copy, copy)
            with self.stopped(self.left):
                self.give(NONE, method)
                call = client.cluster.Backup.future(m.BackupRequest(copy=copy), timeout=20)
            codes[self.code(call)] += 1
        self.assertEqual(codes, {"PERMISSION_DENIED": 10})
        self.denied(self.left, 10)

    def test_a_stream_is_let_in_by_what_was_just_given(self):
        client = self.as_user(self.left)
        watch = client.m["lease"].WatchRequest()
        for _ in range(20):
            with self.stopped(self.left):
                self.give(ALL)
                stream = client.lease.Watch(watch, timeout=20)
            self.assertEqual(next(stream).WhichOneof("event"), "listed")
            self.give(NONE)
            with self.assertRaises(grpc.RpcError) as ended:
                collections.deque(stream, maxlen=0)
            self.assertEqual(ended.exception.code().name, "PERMISSION_DENIED")
        self.denied(self.left, 20)

    def test_a_stream_is_not_denied_by_rules_that_were_in_force_before_it(self):
        """The replica sees them one after the other, and the stream has begun by then."""
        client = self.as_user(self.left)
        self.give(ALL)
        self.assertEqual(self.code(self.read(client)), "OK")
        told = collections.Counter()
        for _ in range(20):
            with self.stopped(self.left):
                self.give(NONE)
                self.give(ALL)
                stream = client.lease.Watch(client.m["lease"].WatchRequest(), timeout=20)
            try:
                self.assertEqual(next(stream).WhichOneof("event"), "listed")
                told["listed"] += 1
                stream.cancel()
            except grpc.RpcError as error:
                self.assertIn("ask again", error.details())
                told[error.code().name] += 1
        self.assertEqual(told["PERMISSION_DENIED"], 0)
        self.denied(self.left, 0)

    def test_calls_may_end_while_it_is_not_known_whether_they_are_denied(self):
        self.give(NONE)
        client, others = self.as_user(self.left), [self.as_user(self.left) for _ in range(3)]
        key = client.m["lease"].LeaseKey(lease=self.lease.lease)
        with self.stopped(self.lead), self.stopped(self.other):
            # Nobody has noticed yet that the leader says nothing.
            calls = [client.lease.Get.future(key, timeout=0.3) for _ in range(300)]
            watches = [client.lease.Watch(client.m["lease"].WatchRequest(), timeout=0.3) for _ in range(30)]
            for other in others:
                other.lease.Get.future(key)
                other.close()
            self.assertEqual({self.code(call) for call in calls + watches}, {"DEADLINE_EXCEEDED"})
        self.assertEqual(self.code(self.read(client)), "PERMISSION_DENIED")
        self.denied(self.left, 1)
        with self.stopped(self.lead), self.stopped(self.other):
            waits = self.read(client)
            self.assertEqual(self.left.stop(), 0)
            self.assertEqual(self.code(waits), "UNAVAILABLE")
        self.denied(self.left, 1)

    def test_one_alone_does_not_say_that_a_right_is_missing(self):
        self.give(NONE)
        client = self.as_user(self.left)
        self.assertEqual(self.code(self.read(client)), "PERMISSION_DENIED")
        with self.stopped(self.lead), self.stopped(self.other):
            for stale in (False, True):
                begun = time.monotonic()
                call = self.read(client, stale=stale)
                self.assertEqual(self.code(call), "UNAVAILABLE")
                self.assertIn("may be old", call.details())
                self.assertLess(time.monotonic() - begun, 20)
            # What the replica knows about itself it says, or denies, alone.
            status = client.cluster.Status.future(client.m["cluster"].StatusRequest(), timeout=20)
            self.assertEqual(self.code(status), "PERMISSION_DENIED")
        self.leader()
        peer.until(lambda: self.code(self.read(client)) == "PERMISSION_DENIED", what="a leader to be asked")
        self.denied(self.left, 3)

    def test_a_call_that_began_before_its_right_was_taken_does_nothing(self):
        self.give(ALL)
        client = self.as_user(self.lead)
        renew = client.request(client.m["lease"].RenewRequest(lease=self.lease.lease, epoch=self.lease.epoch, ttl_ms=60000))
        taken = threading.Event()

        def say():
            taken.wait()
            yield renew.SerializeToString()

        renew_path = client.channel.stream_unary("/xce.v1.LeaseService/Renew")  # which lets its message wait
        calls = [renew_path.future(say(), timeout=20) for _ in range(2)]
        self.assertEqual(self.code(self.read(client)), "OK")  # came after them on the same connection
        self.give(NONE)
        taken.set()
        self.assertEqual([self.code(c) for c in calls], ["PERMISSION_DENIED"] * 2)
        self.denied(self.lead, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
