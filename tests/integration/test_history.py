#!/usr/bin/env -S LC_ALL=C.UTF-8 /usr/bin/python3 -B
"""The history of several replicas: who can not write it says so, hands over, and while most can not nothing is granted; who
lacks some of it says so, and fetches it from another."""
import contextlib
import os
import shutil
import sqlite3
import time
import unittest

import grpc

import caller
import peer
import replicas


class History(replicas.Cluster):
    config = "ElectionTimeout = 5s\n"  # who leads goes on to, however busy the machine is

    @contextlib.contextmanager
    def unwritable(self, *at):
        """Another process holds the lock for writing: every write of leased fails, by SQLite itself."""
        holders = []
        for replica in at:
            holders.append(sqlite3.connect(os.path.join(replica.state, "history.db"), isolation_level=None, timeout=10))
            holders[-1].execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            for holder in holders:
                holder.rollback()
                holder.close()

    def degraded(self, asked):
        return {m["name"]: m["degraded"] for m in asked.status()["members"] if m["degraded"]}

    def told(self, asked, *names):
        """The replica knows of exactly these that they are degraded."""
        peer.until(lambda: set(self.degraded(asked)) == set(names), what="%s to hear of %s" % (asked.name, names), seconds=20)

    def make_work(self, replica, n=1):
        for _ in range(n):
            lease = self.acquire(replica, b"work-%s" % os.urandom(4).hex().encode())
            replica.client().release(lease)

    def test_one_follower_that_can_not_write_stops_nothing(self):
        self.form()
        leader = self.leader()
        sick, well = [r for r in self.replicas if r is not leader]
        with self.unwritable(sick):
            self.make_work(leader)
            for asked in self.replicas:
                self.told(asked, sick.name)
            self.assertIn("history.db", self.degraded(leader)[sick.name])
            for asked in self.replicas:
                self.make_work(asked)
            self.assertIs(self.leader(), leader)
        for asked in self.replicas:
            self.told(asked)
        self.equal()
        self.complete(sick)

    def complete(self, replica):
        """The history there has everything."""
        def whole():
            reply = replica.client().lease.History(peer.messages()["lease"].HistoryRequest(uid=2013265920), timeout=30)
            return reply.complete and not reply.note and reply.entries
        peer.until(whole, what="a complete history at " + replica.name)

    def test_a_leader_that_can_not_write_hands_over_to_one_that_can(self):
        self.form()
        leader = self.leader()
        sick, well = [r for r in self.replicas if r is not leader]
        with self.unwritable(sick):
            self.make_work(leader)
            self.told(leader, sick.name)
            # Not to the one that is no better.
            with self.unwritable(leader):
                self.make_some(leader)
                self.leader(among=[well])
                self.told(well, sick.name, leader.name)
        self.told(well)
        self.make_work(well)

    def make_some(self, replica):
        """Something to write; what is granted meanwhile is not minded."""
        with contextlib.suppress(grpc.RpcError):
            replica.client().acquire(job=b"some", timeout=30)

    def test_two_of_three_that_can_not_write_refuse_acquire_alone(self):
        self.form()
        leader = self.leader()
        others = [r for r in self.replicas if r is not leader]
        self.make_work(leader)
        done = os.urandom(16)
        lease = leader.client().acquire(job=b"before", request_id=done).leases[0]
        node = leader.client()
        with self.unwritable(*others):
            self.make_some(leader)
            for asked in self.replicas:
                self.told(asked, *[r.name for r in others])
            for asked in self.replicas:
                code, message = peer.code_of(lambda: asked.client().acquire(timeout=30))
                self.assertEqual(code, "RESOURCE_EXHAUSTED")
                for name in [r.name for r in others] + ["history.db"]:
                    self.assertIn(name, message)
                self.assertNotIn(leader.name, message)
                # What was granted before is not refused to whoever has not heard of it.
                again = asked.client().acquire(job=b"before", request_id=done).leases[0]
                self.assertEqual(again.lease, lease.lease)
            m = peer.messages()["lease"]
            renew = m.RenewRequest(lease=lease.lease, epoch=lease.epoch, ttl_ms=60000)
            self.assertEqual(node.lease.Renew(node.request(renew), timeout=10).lease.lease, lease.lease)
            self.assertEqual(others[0].client().get(lease=lease.lease).lease.uid, lease.uid)
            node.release(lease)
        for asked in self.replicas:
            self.told(asked)
        self.make_work(others[0])

    def test_it_ends_by_itself_when_enough_have_caught_up(self):
        self.form()
        leader = self.leader()
        first, second = [r for r in self.replicas if r is not leader]
        with self.unwritable(first):
            with self.unwritable(second):
                self.make_work(leader)
                self.told(leader, first.name, second.name)
                self.assertEqual(peer.code_of(lambda: leader.client().acquire(timeout=30))[0], "RESOURCE_EXHAUSTED")
            self.told(leader, first.name)
            self.make_work(leader)
        self.complete(first)


class Refill(replicas.Cluster):
    """What a replica never saw it fetches from another one."""

    def live_and_die(self, replica, n):
        """Leases that are over: [(uid, when it was held)]."""
        held = []
        for _ in range(n):
            lease = self.acquire(replica, b"past-%s" % os.urandom(4).hex().encode())
            held.append((lease.uid, int(time.time() * 1000)))
            time.sleep(0.002)  # another time than that of the grant
            replica.client().release(lease)

        def over():
            self.speak(replica)
            return not replica.client().lease.List(peer.messages()["lease"].ListLeasesRequest(all=True), timeout=30).leases

        peer.until(over, what="leases to be free", seconds=20)
        return held

    def grown(self):
        """The first of a cluster, which has been alone and has a past."""
        first = self.replica("c1", engine="sqlite").start()
        first.client().create_pool(cooldown_ms=1000, ready_timeout_ms=120000)
        past = self.live_and_die(first, 20)
        first.stop()
        first.set("Engine = sqlite", "Engine = raft")
        first.start()
        first.ctl("cluster", "init")
        self.leader(first)
        return first, past

    def join(self, name, first):
        replica = self.replica(name).start()
        first.ctl("cluster", "add", name, "--address", replica.address)
        return replica

    def said(self, replica, uid, at=0):
        message = peer.messages()["lease"].HistoryRequest(uid=uid, at_ms=at, limit=1000, stale=True)
        return replica.client().lease.History(message, timeout=30)

    def never_wrong(self, replica, past):
        """Each question is answered, or it is said that it can not be. Whether all were answered."""
        known = True
        for uid, at in past:
            reply = self.said(replica, uid, at)
            self.assertTrue(reply.entries or reply.note, "nobody had uid %d at %d: says %s" % (uid, at, replica.name))
            known = known and not reply.note
        return known

    def whole(self, replica, past):
        peer.until(lambda: self.never_wrong(replica, past), what="the history at " + replica.name, seconds=30)

    def same_history(self, asked, past):
        def entries(replica, uid):
            reply = self.said(replica, uid)
            return reply.note, [e.SerializeToString() for e in reply.entries]

        peer.until(lambda: all(len({str(entries(r, uid)) for r in asked}) == 1 for uid in {uid for uid, _ in past}),
                   what="the same history everywhere", seconds=20)
        for uid, _ in past:
            note, found = entries(asked[0], uid)
            self.assertEqual(note, "")
            self.assertTrue(found)

    def test_replicas_that_join_and_one_that_was_wiped_know_the_past(self):
        first, past = self.grown()
        second, third = self.join("c2", first), self.join("c3", first)
        for replica in (second, third):
            self.whole(replica, past)
            self.assertIn("is known, from replica", replica.said())
        past += self.live_and_die(first, 10)
        self.same_history(self.replicas, past)
        third.kill()
        shutil.rmtree(third.state)
        self.leader(among=[first, second]).ctl("cluster", "remove", "c3")
        past += self.live_and_die(self.leader(), 10)
        third.start()
        self.leader(first).ctl("cluster", "add", "c3", "--address", third.address)
        self.whole(third, past)
        self.assertEqual(third.said().count("is known, from replica"), 2)
        self.equal()
        self.same_history(self.replicas, past)

    def test_what_nobody_knows_is_not_nobody_and_comes_when_one_does_know(self):
        first, past = self.grown()
        second, third = self.join("c2", first), self.join("c3", first)
        self.whole(second, past)
        third.kill()
        shutil.rmtree(third.state)
        self.leader().ctl("cluster", "remove", "c3")
        # Nobody answers: the histories of both others are gone, and with them what was before the cluster.
        histories = {}
        for replica in (first, second):
            replica.stop()
            path = os.path.join(replica.state, "history.db")
            histories[replica] = path
            os.rename(path, path + ".aside")
            for suffix in ("-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path + suffix)
        for replica in (first, second):
            replica.start()
        third.start()
        self.leader(first, among=[first, second])
        self.leader(first).ctl("cluster", "add", "c3", "--address", third.address)
        for replica in self.replicas:
            peer.until(lambda: self.said(replica, *past[0]).note, what="a gap at " + replica.name, seconds=20)
            self.assertFalse(self.never_wrong(replica, past))
        # One of them finds it again, while the third is not even there.
        third.kill()
        first.stop()
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.remove(histories[first] + suffix)
        os.rename(histories[first] + ".aside", histories[first])
        first.start()
        third.start()
        for replica in (second, third):
            self.whole(replica, past)
        self.same_history(self.replicas, past)

    def test_nobody_but_a_member_is_told(self):
        first, past = self.grown()
        second = self.join("c2", first)
        m = peer.messages()["cluster"]
        folder = {r["name"]: int(r["id"], 16) for r in first.status()["members"]}
        path = "/xce.v1.ClusterService/Past"

        def ask(certificate, key, **fields):
            return caller.TlsCaller(first.address, self.authority.ca_pem, certificate, key).call(
                path, m.PastRequest(**fields).SerializeToString())

        member = self.authority.replica("c2", out=os.path.join(self.folder, "again"))
        stranger = self.authority.replica("c9", out=os.path.join(self.folder, "again"))
        admin = self.authority.issue("user", "root", "--group", "xce-admin", out=os.path.join(self.folder, "again"))
        answer = ask(*member, replica=folder["c2"])
        self.assertEqual(answer.code, "OK", answer.text)
        outline = m.PastReply.FromString(answer.replies[0])
        period = outline.periods[-1]
        answer = ask(*member, replica=folder["c2"], period=period.number, until=period.last_lease)
        leases = m.PastReply.FromString(answer.replies[0]).leases
        self.assertEqual({lease.uid for lease in leases}, {uid for uid, _ in past})
        for credentials, replica in ((member, folder["c1"]), (member, 0), (stranger, folder["c2"]), (admin, folder["c2"])):
            self.assertEqual(ask(*credentials, replica=replica).code, "PERMISSION_DENIED")
        local = caller.Caller("unix:" + first.socket, "root")
        self.addCleanup(local.close)
        self.assertEqual(local.call(path, m.PastRequest(replica=folder["c2"]).SerializeToString()).code, "PERMISSION_DENIED")
        for after, until in ((5, 4), (0, 1 << 44)):
            answer = ask(*member, replica=folder["c2"], period=period.number, after=after, until=until)
            self.assertEqual(answer.code, "INVALID_ARGUMENT")


if __name__ == "__main__":
    unittest.main(verbosity=2)
