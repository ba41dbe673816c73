#!/usr/bin/env -S LC_ALL=C.UTF-8 /usr/bin/python3 -B
"""What a node reports to a replica that does not lead, lost between that one and the leader at the very moment at which it is
passed on: it is said again, has its effect once, and the node is not left waiting. Replicas are real; between them are wires
that lose one TLS record (wire.py)."""
import os
import shutil
import threading
import time
import unittest

import certs
import peer
import replicas
import wire

# A report with such a detail is the only record between replicas that is so long.
DETAIL, LONGER_THAN = b"x" * 1000, 900
# A node turns away from a server that does not answer its heartbeats, or its hello, for so long; noded does so sooner, but here
# a machine that is busy is not to pass for such a server.
SILENT_S, WELCOME_S = 5, 15
ACTIVE, NORMALISING = 2, 4
READY, CLEAN = 1, 3  # ReportKind
WITHIN_S = 10
# What is lost, the report itself or the leader's answer to it; and what becomes of the stream. The leader may have taken the report
# and die before it is agreed on.
HOW = ("cut", "answer cut", "leader killed", "just taken, leader killed", "answer, leader killed", "stalled, late")


class Replica(replicas.Replica):
    """The others reach it by a wire."""

    def __init__(self, cluster, name, **how):
        self.wire_port = certs.free_port()
        super().__init__(cluster, name, **how)
        self.wire = wire.Wire(self.wire_port, self.port)
        cluster.addCleanup(self.wire.close)

    def config(self, *args):
        return super().config(*args) + "Advertise = localhost:%d\nHeartbeat = 100ms\n" % self.wire_port

    @property
    def address(self):
        return "localhost:%d" % self.wire_port


class Session(peer.Node):
    """One session. A report of a kind that is `long` can be told by its length."""

    def __init__(self, client, long=(), seen=None, **more):
        self.long, self.begun, self.unanswered = long, time.monotonic(), None
        self.seen = seen or {}  # {uid: its highest epoch here}
        super().__init__(client, beats=0.1, **more)

    def _take(self, down):
        if down.WhichOneof("body") == "ack":
            self.unanswered = None
        super()._take(down)
        if down.WhichOneof("body") == "welcome" and down.welcome.epochs_wanted:
            self.epochs(self.seen)

    def beat(self, watermark=None):
        self.unanswered = self.unanswered or time.monotonic()
        super().beat(watermark)

    def report(self, uid, epoch, kind, reason=b"", detail=b""):
        super().report(uid, epoch, kind, reason, DETAIL if kind in self.long else detail)

    def is_silent(self):
        now, unanswered = time.monotonic(), self.unanswered
        if not self.welcome:
            return now - self.begun > WELCOME_S
        return unanswered is not None and now - unanswered > SILENT_S


class Node:
    """A node that does as noded does: behind a session that ended, or is silent, comes one with the next replica, in which all
    is said again."""

    def __init__(self, asked, clean, **more):
        self.asked, self.at, self.clients, self.sessions, self.more = asked, 0, [], [], more
        self.long = set()
        self.begin(clean)

    def begin(self, clean=True):
        self.clients.append(self.asked[self.at].client())
        self.sessions.append(Session(self.clients[-1], self.long, clean=clean, **self.more))

    def keep(self):
        session = self.sessions[-1]
        if session.ended or session.is_silent():
            session.close()
            self.at = (self.at + 1) % len(self.asked)
            self.begin()
        return True

    def close(self):
        for session, client in zip(self.sessions, self.clients):
            session.close()
            client.close()


class Watch:
    """What a replica shows of one lease, change by change: [(state, the node's proof)]."""

    def __init__(self, replica):
        self.client, self.seen, self.synced = replica.client(), [], threading.Event()
        self.call = self.client.lease.Watch(peer.messages()["lease"].WatchRequest())
        threading.Thread(target=self._read, daemon=True).start()
        assert self.synced.wait(60)

    def _read(self):
        try:
            for event in self.call:
                if event.WhichOneof("event") == "lease":
                    self.seen.append(event.lease)
                elif event.WhichOneof("event") == "synced":
                    self.synced.set()
        except peer.grpc.RpcError:
            pass

    def of(self, lease):
        return [(seen.state, seen.nodes[0].proof) for seen in self.seen if seen.lease == lease.lease]

    def close(self):
        self.call.cancel()
        self.client.close()


class Lost(replicas.Cluster):
    def replica(self, name, **how):
        replica = Replica(self, name, **how)
        self.replicas.append(replica)
        return replica

    def setUp(self):
        super().setUp()
        self.known = False  # the node has been there before

    def lose(self, kind, how):
        """The node's report of that kind gets lost on its way from a follower to the leader; what is done then. How long it took
        until it had its effect, in s."""
        leader = self.leader()
        follower, other = [r for r in self.replicas if r is not leader]
        # A stream that the last loss has ended is there again.
        peer.until(lambda: self.reads(follower), what="the follower to reach the leader")
        node, watch = Node([follower, other], clean=self.known), Watch(other)
        self.known = True
        lease, done = None, ACTIVE if kind == READY else NORMALISING
        try:
            peer.until(lambda: node.keep() and self.ready(other), what="the node to be ready")
            self.assertEqual([session.ended for session in node.sessions], [None])
            if kind == CLEAN:
                lease = self.grant(leader)
                self.shows(watch, lease, ACTIVE, node)
            node.long.add(kind)
            loss = leader.wire.lose(follower.process.pid, LONGER_THAN, answer=how.startswith(("answer", "just taken")))
            if kind == READY:
                lease = self.grant(leader)
            else:
                self.client_of(leader).release(lease)
            self.assertTrue(loss.happened.wait(60), "the report was not passed on")
            begun = time.monotonic()
            self.assertEqual([session.ended for session in node.sessions], [None])
            if how.startswith("answer"):
                self.shows(watch, lease, done, node)
            elif not loss.answer:
                self.assertNotIn(done, [state for state, _ in watch.of(lease)])
            self.harm(loss, leader, how)
            self.shows(watch, lease, done, node)
            took = time.monotonic() - begun
            # It lives on, with a session that is answered.
            peer.until(lambda: node.keep() and self.ready(other), what="the node to be heard")
            if how.endswith("late"):
                loss.heal()
                # On the same stream, behind it.
                self.client_of(follower).get(lease=lease.lease)
            if kind == READY:
                self.client_of(other).release(lease)
                self.shows(watch, lease, NORMALISING, node)
            if how.endswith("killed"):
                leader.start()
            self.leader()
            self.equal()
            seen = watch.of(lease)
            self.assertEqual(len(seen), len(set(seen)), "something took effect twice: %s" % seen)
            return took
        finally:
            leader.wire.loss = None
            watch.close()
            node.close()

    def harm(self, loss, leader, how):
        if how.endswith("cut"):
            loss.cut()
        elif how.endswith("killed"):
            leader.kill()

    def grant(self, leader):
        return self.client_of(leader).acquire(job=os.urandom(8).hex().encode()).leases[0]

    def reads(self, asked):
        try:
            return self.client_of(asked).lease.List(peer.messages()["lease"].ListLeasesRequest(), timeout=20)
        except peer.grpc.RpcError:
            return None

    def ready(self, asked):
        try:
            node = self.client_of(asked).node.Get(peer.messages()["node"].NodeKey(node=b"n1"), timeout=20).node
        except peer.grpc.RpcError:
            return False
        return node.state == 1 and node.connected

    def shows(self, watch, lease, state, node):
        peer.until(lambda: node.keep() and any(s >= state for s, _ in watch.of(lease)), what="lease in state %d" % state,
                   seconds=WITHIN_S)

    def test_a_report_that_is_lost_is_said_again(self):
        self.form()
        for kind, name in ((READY, "READY"), (CLEAN, "CLEAN")):
            for how in HOW:
                print("%s, %s" % (name, how), end=": ", flush=True)
                print("%.2f s" % self.lose(kind, how))

    # ---- epochs, which a restored state asks for ----

    def restored(self, nodes):
        """A cluster whose state is a backup that knows these nodes, and none of what they have had since."""
        self.form()
        for node in nodes:
            session = Session(self.client_of(self.leader()), **node).wait(lambda s: s.welcome, what="a welcome")
            session.close()
        file = os.path.join(self.folder, "backup")
        self.leader().ctl("cluster", "backup", file)
        for replica in self.replicas:
            replica.stop()
        first, *others = self.replicas
        first.ctl("cluster", "restore", file, "--leased", os.path.join(peer.BUILD, "leased/leased"), "--leased-conf", first.conf,
                  "--set-aside")
        first.start()
        self.leader(first)
        for replica in others:
            shutil.rmtree(os.path.join(replica.state, "raft"))
            replica.start()
            first.ctl("cluster", "add", replica.name, "--address", replica.address)

    def lose_epochs(self, more, how):
        leader = self.leader()
        follower, other = [r for r in self.replicas if r is not leader]
        peer.until(lambda: self.reads(follower), what="the follower to reach the leader")
        loss = leader.wire.lose(follower.process.pid, LONGER_THAN, answer=how.startswith(("answer", "just taken")))
        node = Node([follower, other], clean=True, clean_reports=False, **more)
        try:
            self.assertTrue(loss.happened.wait(60), "the epochs were not passed on")
            begun = time.monotonic()
            if how.startswith("answer"):
                self.drain(other, node)
            elif not loss.answer:
                self.assertEqual(self.leases(other, node), {})
            self.harm(loss, leader, how)
            self.drain(other, node)
            took = time.monotonic() - begun
            if how.endswith("killed"):
                leader.start()
            elif how.endswith("late"):
                loss.heal()
            self.leader()
            for replica in self.replicas:
                peer.until(lambda: self.reads(replica), what="reads through " + replica.name)
            self.equal()
            return took
        finally:
            leader.wire.loss = None
            node.close()

    def leases(self, asked, node):
        """What the node has had, as a replica has heard: {uid: epoch}; each once."""
        leases = [lease for lease in asked.ctl("list", "--all", "--stale")["leases"] if node.more["name"] in lease["nodes"]]
        found = {lease["uid"]: lease["epoch"] for lease in leases}
        self.assertEqual(len(found), len(leases))
        return found

    def drain(self, asked, node):
        peer.until(lambda: node.keep() and self.leases(asked, node) == node.more["seen"], seconds=WITHIN_S,
                   what="all that %s has had to drain" % node.more["name"])

    def test_epochs_that_are_lost_are_said_again(self):
        nodes = [dict(name="e%d" % i, machine="%032x" % (i + 1), seen={2013265920 + 100 * i + k: 5 + k % 3 for k in range(100)})
                 for i in range(len(HOW))]
        self.restored(nodes)
        for node, how in zip(nodes, HOW):
            print("epochs, " + how, end=": ", flush=True)
            print("%.2f s" % self.lose_epochs(node, how))
        # Nobody's were mixed up with another's.
        leases = self.leader().ctl("list", "--all")["leases"]
        self.assertEqual({lease["uid"]: lease["epoch"] for lease in leases},
                         {uid: epoch for node in nodes for uid, epoch in node["seen"].items()})
        self.assertEqual(len(leases), 100 * len(nodes))


if __name__ == "__main__":
    unittest.main(verbosity=2)
