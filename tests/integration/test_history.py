#!/usr/bin/env -S LC_ALL=C.UTF-8 /usr/bin/python3 -B
"""The history of several replicas: who can not write it says so, hands over, and while most can not nothing is granted."""
import contextlib
import os
import sqlite3
import unittest

import grpc

import peer
import replicas


class History(replicas.Cluster):
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
            reply = replica.client().lease.History(peer.messages()["lease"].HistoryRequest(uid=2013265920), timeout=5)
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
            replica.client().acquire(job=b"some", timeout=5)

    def test_two_of_three_that_can_not_write_refuse_acquire_alone(self):
        self.form()
        leader = self.leader()
        others = [r for r in self.replicas if r is not leader]
        lease = self.acquire(leader, b"before")
        node = leader.client()
        with self.unwritable(*others):
            self.make_some(leader)
            for asked in self.replicas:
                self.told(asked, *[r.name for r in others])
            for asked in self.replicas:
                code, message = peer.code_of(lambda: asked.client().acquire(timeout=5))
                self.assertEqual(code, "RESOURCE_EXHAUSTED")
                for name in [r.name for r in others] + ["history.db"]:
                    self.assertIn(name, message)
                self.assertNotIn(leader.name, message)
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
                self.assertEqual(peer.code_of(lambda: leader.client().acquire(timeout=5))[0], "RESOURCE_EXHAUSTED")
            self.told(leader, first.name)
            self.make_work(leader)
        self.complete(first)


if __name__ == "__main__":
    unittest.main(verbosity=2)
