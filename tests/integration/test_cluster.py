#!/usr/bin/env -S LC_ALL=C.UTF-8 /usr/bin/python3 -B
"""Three leased as replicas over mutual TLS on loopback: made, grown, used through each, killed, shrunk, backed up."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
import unittest

import grpc

import certs
import peer
import replicas

# Who leads goes on to, however busy the machine is.
CALM = "ElectionTimeout = 5s\n"


class Cluster(replicas.Cluster):
    def test_three_replicas_serve_each_request(self):
        self.form()
        # Each says what it knows itself: the last change may still be on its way.
        peer.until(lambda: {m["role"] for m in self.replicas[1].status()["members"]} == {"voter"},
                   what="c2 to know that all vote")
        status = self.replicas[1].status()
        self.assertEqual([m["name"] for m in status["members"]], ["c1", "c2", "c3"])
        self.assertEqual(status["self"], "c2")
        leases = [self.acquire(r, b"job-" + r.name.encode()) for r in self.replicas]
        self.assertEqual(len({lease.uid for lease in leases}), 3)
        for replica in self.replicas:
            for lease in leases:
                self.assertEqual(replica.client().get(lease=lease.lease).lease.uid, lease.uid)
        self.equal()

    def test_leader_killed_nothing_is_lost(self):
        self.config = "LogLevel = debug"
        self.form()
        kept = {}
        for i in range(3):
            leader = self.leader()
            others = [r for r in self.replicas if r is not leader]
            for k in range(5):
                job = b"job-%d-%d" % (i, k)
                kept[job] = self.acquire(others[0], job).uid
            leader.kill()
            self.leader(among=others)
            kept[b"after-%d" % i] = self.acquire(others[1], b"after-%d" % i).uid
            leader.start()
            self.leader()
        self.equal()
        for replica in self.replicas:
            for job, uid in kept.items():
                self.assertEqual(replica.ctl("show", "--job", job.decode())["uid"], uid)
        # Told by who led, and by nobody again.
        told = "".join(replica.said() for replica in self.replicas)
        for uid in kept.values():
            self.assertEqual(len(re.findall(r"granted to .*\(lease \d+, uid %d, epoch 1, node n1" % uid, told)), 1)

    def test_minority_refuses_within_the_deadline(self):
        self.form()
        leader = self.leader()
        others = [r for r in self.replicas if r is not leader]
        for other in others:
            other.kill()
        begun = time.monotonic()
        with self.assertRaises(grpc.RpcError) as caught:
            leader.client().get(uid=2013265920, timeout=10)
        self.assertIn(caught.exception.code(), (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED))
        self.assertLess(time.monotonic() - begun, 30)
        for other in others:
            other.start()
        self.leader()
        self.acquire(leader, b"healed")

    def serving(self, replica, seen=None):
        """What grpc.health.v1 says there now; seen: what it says from now on goes there."""
        channel = self.client_of(replica).channel
        if seen is None:
            return channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=30) == b"\x08\x01"
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"")

        def collect():
            try:
                for said in watch:
                    seen.append(said == b"\x08\x01")
            except grpc.RpcError:
                pass

        threading.Thread(target=collect, daemon=True).start()
        self.addCleanup(watch.cancel)
        return peer.until(lambda: seen, what="the first word")[0]

    def test_no_pool_is_made_while_nobody_leads(self):
        """Whoever is asked says at once that he can not, and that it may be tried again: no pool of a minority comes about."""
        self.form()
        left, *others = self.replicas
        for other in others:
            other.kill()
        peer.until(lambda: left.status()["leader"] is None, what="c1 to know that nobody leads", seconds=30)
        client = left.client()
        self.addCleanup(client.close)
        # Until it knows that it leads no more, the others are what is missing.
        said = []

        def unavailable():
            said.append(peer.code_of(lambda: client.create_pool(name=b"second", first=2014000000, count=64)))
            return said[-1][0] == "UNAVAILABLE"

        peer.until(unavailable, what="it to be refused for now")
        self.assertLessEqual({code for code, _ in said}, {"FAILED_PRECONDITION", "UNAVAILABLE"}, said)
        for other in others:
            other.start()
        self.leader()
        self.assertEqual([p["name"] for p in left.ctl("pool", "list")["pools"]], ["main"])
        self.assertEqual(left.ctl("pool", "create", "second", "--range", "2014000000-2014000063", "--directory-ranges", "none")["name"], "second")

    def test_health_is_that_of_who_can_serve(self):
        waiting = self.replica("c4").start()
        self.assertFalse(self.serving(waiting))
        self.replicas.remove(waiting)
        self.addCleanup(waiting.kill)
        self.form()
        peer.until(lambda: all(map(self.serving, self.replicas)), what="all to serve")
        self.assertFalse(self.serving(waiting))
        leader = self.leader()
        others = [r for r in self.replicas if r is not leader]
        seen = [[], []]
        for other, said in zip(others, seen):
            self.assertTrue(self.serving(other, said))
        began = time.monotonic()
        leader.kill()  # an election
        self.leader(among=others)
        soon = time.monotonic() - began < 2.5  # else a busy machine has had nobody to lead for longer than is overlooked
        leader.start()
        self.leader()
        leader.kill()
        others[0].kill()
        peer.until(lambda: not self.serving(others[1]), what="nobody to lead")
        others[0].start()
        peer.until(lambda: self.serving(others[1]), what="somebody to lead")
        if soon:
            self.assertEqual(seen[1], [True, False, True])
            self.assertEqual(seen[0], [True])

    def backup(self, servers, *words):
        """leasectl by certificate: exit code, what was said, and the file."""
        file = os.path.join(self.folder, "backup")
        folder = tempfile.mkdtemp(dir=self.folder)
        pair = self.authority.issue("user", "boss", "--group", "xce-admin", out=folder)
        run = subprocess.run([replicas.LEASECTL, "--server", ",".join(servers), "--json", *words, "cluster", "backup", file],
                             capture_output=True, text=True, timeout=240, env={**os.environ, **self.authority.env(pair)})
        return run.returncode, json.loads(run.stdout), file

    def test_backup_is_begun_anew_when_its_replica_is_lost(self):
        self.pool_range = "2013265920-2014314495"  # so that the state comes in several pieces
        first, second, _ = self.form()
        self.equal()
        passed = []

        def lose():
            passed.append(time.monotonic())
            return len(passed) > 40  # at most 64 KiB each

        with certs.Lossy(first.port, lose) as lossy:
            code, said, file = self.backup(("localhost:%d" % lossy.port, second.address))
        self.assertEqual(lossy.lost, 1)
        self.assertEqual(code, 0, said)
        self.assertGreater(said["bytes"], 40 * 65536)
        self.assertEqual(os.path.getsize(file), said["bytes"])
        whole = self.backup((second.address,))
        self.assertEqual((whole[0], whole[1]["bytes"]), (0, said["bytes"]))

    def test_backup_ends_when_its_time_is_over(self):
        self.pool_range = "2013265920-2014314495"
        first, *_ = self.form()

        def slow():
            time.sleep(0.5)  # a way of about 100 KiB a second
            return False

        with certs.Lossy(first.port, slow) as lossy:
            began = time.monotonic()
            code, said, _ = self.backup(("localhost:%d" % lossy.port,), "--timeout", "5s")
        self.assertEqual((code, said["error"]["code"]), (5, "deadline_exceeded"))
        self.assertLess(time.monotonic() - began, 15)

    def test_stale_reads_need_no_leader(self):
        self.form()
        leader = self.leader()
        lease = self.acquire(leader, b"before")
        waiting = self.replica("c4").start()
        self.equal_of(self.replicas[:3])
        self.assertIn("no state", str(waiting.ctl("list", "--stale", status=4, timeout="5s")))
        left, *others = [r for r in self.replicas[:3] if r is not leader] + [leader]
        self.assertFalse(left.client().get(uid=lease.uid).info.stale)
        for other in others:
            other.kill()
        client, m = left.client(), peer.messages()
        reply = client.get(uid=lease.uid, stale=True)
        self.assertTrue(reply.info.stale)
        self.assertGreaterEqual(reply.info.revision, lease.revision)
        self.assertEqual(reply.lease.lease, lease.lease)
        for method, key in ((client.lease.List, m["lease"].ListLeasesRequest(stale=True)),
                            (client.lease.Explain, m["lease"].LeaseKey(uid=lease.uid, stale=True)),
                            (client.lease.History, m["lease"].HistoryRequest(uid=lease.uid, stale=True)),
                            (client.node.List, m["node"].ListNodesRequest(stale=True)),
                            (client.pool.List, m["pool"].ListPoolsRequest(stale=True))):
            self.assertTrue(method(key, timeout=30).stale)
        self.assertTrue(client.node.Get(m["node"].NodeKey(node=b"n1", stale=True), timeout=30).info.stale)
        self.assertTrue(client.pool.Get(m["pool"].PoolKey(name=b"main", stale=True), timeout=30).info.stale)
        self.assertEqual(left.ctl("show", str(lease.uid), "--stale")["lease"], lease.lease)
        self.assertEqual([x["lease"] for x in left.ctl("list", "--stale")["leases"]], [lease.lease])
        self.assertEqual(left.ctl("explain", str(lease.uid), "--stale")["lease"]["lease"], lease.lease)
        self.assertEqual(left.ctl("history", str(lease.uid), "--stale")["history"][0]["lease"], lease.lease)
        # Without the word it is still refused, and an acquire has no such word.
        left.ctl("show", str(lease.uid), status=4, timeout="5s")
        left.ctl("release", str(lease.uid), "--stale", status=2)

    def test_grows_out_of_a_live_single_replica(self):
        first = self.replica("c1", engine="sqlite").start()
        first.ctl("pool", "create", "main", "--range", "2013265920-2013266943", "--directory-ranges", "none")
        lease = self.acquire(first, b"before")
        self.assertIn("Engine", str(first.ctl("cluster", "init", status=1)))
        first.stop()
        first.set("Engine = sqlite", "Engine = raft")
        first.start()
        # It goes on alone until it is told.
        self.assertEqual(first.status()["engine"], "sqlite")
        self.assertEqual(first.client().get(lease=lease.lease).lease.uid, lease.uid)
        first.ctl("cluster", "init")
        self.leader(first)
        self.assertEqual(first.status()["engine"], "raft")
        self.assertEqual(first.ctl("show", "--lease", str(lease.lease))["uid"], lease.uid)
        self.assertEqual(first.ctl("history", str(lease.uid))["history"][0]["lease"], lease.lease)
        second = self.replica("c2").start()
        first.ctl("cluster", "add", "c2", "--address", second.address)
        self.equal()
        self.assertEqual(second.client().get(lease=lease.lease).lease.epoch, lease.epoch)
        # And it is never taken for the single one again.
        first.stop()
        first.set("Engine = raft", "Engine = sqlite")
        first.start(wait=False)
        self.assertNotEqual(first.process.wait(timeout=120), 0)
        self.assertIn("must be raft", first.said())

    def test_one_that_waits_may_still_become_something_else(self):
        first = self.replica("c1").start()
        self.assertEqual(first.status()["engine"], "raft")
        first.stop()
        first.set("Engine = raft", "Engine = sqlite")
        first.start()
        first.ctl("pool", "create", "main", "--range", "2013265920-2013266943", "--directory-ranges", "none")
        lease = self.acquire(first, b"before")
        first.stop()
        first.set("Engine = sqlite", "Engine = raft")
        first.start()
        self.assertEqual(first.status()["engine"], "sqlite")
        first.ctl("cluster", "init")
        self.leader(first)
        # leasectl asks again while the new leader answers nothing yet, or hands over.
        self.assertEqual(first.ctl("show", "--lease", str(lease.lease))["uid"], lease.uid)

    def test_growing_survives_a_crash_at_any_moment(self):
        first = self.replica("c1").start()
        first.stop()
        first.set("Engine = raft", "Engine = sqlite")
        shutil.rmtree(os.path.join(first.state, "raft"))
        first.start()
        first.ctl("pool", "create", "main", "--range", "2013265920-2013266943", "--directory-ranges", "none")
        lease = self.acquire(first, b"before")
        first.stop()
        first.set("Engine = sqlite", "Engine = raft")
        first.start()
        first.ctl("cluster", "init")
        for i in range(8):
            time.sleep(0.02 * i)
            first.kill()
            first.start()
        self.leader(first)
        self.assertEqual(first.client().get(lease=lease.lease).lease.uid, lease.uid)
        self.assertEqual(len(first.ctl("list", "--all")["leases"]), 1)

    def test_wiped_replica_is_refused_and_added_anew(self):
        self.form()
        leader = self.leader()
        lost = [r for r in self.replicas if r is not leader][0]
        lost.kill()
        shutil.rmtree(lost.state)
        lost.start()
        peer.until(lambda: "it was wiped" in leader.said() + lost.said(), what="the refusal", seconds=10)
        self.assertEqual(lost.status()["self"], None)
        self.assertIn("wiped", str(leader.ctl("cluster", "add", lost.name, "--address", lost.address, status=1)))
        leader.ctl("cluster", "remove", lost.name)
        leader.ctl("cluster", "add", lost.name, "--address", lost.address)
        self.equal()
        self.assertEqual(lost.status()["self"], lost.name)

    def test_a_member_is_not_moved_by_adding_it(self):
        self.form()
        leader = self.leader()
        moved = [r for r in self.replicas if r is not leader][0]
        old, port = moved.address, certs.free_port()
        again = ("cluster", "add", moved.name, "--address")
        self.assertEqual(len(leader.ctl(*again, old)["members"]), 3)  # an answer may have been lost
        moved.stop()
        moved.set("Listen = %s\n" % old, "Listen = localhost:%d\nAdvertise = localhost:%d\n" % (port, port))
        moved.port = port
        moved.start()
        self.assertIn("Advertise is %s, but the members' list has %s" % (moved.address, old), moved.said())
        said = leader.ctl(*again, moved.address, status=1)["error"]
        self.assertIn("is a member at " + old, said["message"])
        leader.ctl("cluster", "remove", moved.name)
        moved.stop()
        shutil.rmtree(moved.state)
        moved.start()
        leader.ctl(*again, moved.address)
        self.equal()
        self.assertEqual(moved.status()["self"], moved.name)

    def test_no_cluster_begins_beside_the_history_of_a_lost_one(self):
        only, = self.form(1)
        self.speak(only)
        self.acquire(only, b"before")
        only.stop()
        shutil.rmtree(os.path.join(only.state, "raft"))
        only.start()
        said = str(only.ctl("cluster", "init", status=1))
        self.assertIn("history.db goes up to revision", said)
        self.assertEqual(only.status()["self"], None)
        only.stop()
        for name in os.listdir(only.state):
            if name.startswith("history.db"):
                os.rename(os.path.join(only.state, name), os.path.join(only.folder, name))
        only.start()
        only.ctl("cluster", "init")
        self.leader(only)

    def test_a_removal_that_is_asked_for_again_is_done(self):
        """As libxce does after an answer that it never got; of any replica that is left, and whoever leads by then."""
        self.config = CALM
        self.form()
        leader = self.leader()
        gone, other = [r for r in self.replicas if r is not leader]
        cluster = peer.messages()["cluster"]

        def remove(asked, name, request_id):
            client, until = asked.client(), time.monotonic() + 20
            message = client.request(cluster.RemoveReplicaRequest(name=name.encode()), request_id)
            while True:
                try:
                    return [m.name for m in client.cluster.Remove(message, timeout=10).cluster.members]
                except grpc.RpcError as error:
                    if error.code() != grpc.StatusCode.UNAVAILABLE or time.monotonic() > until:
                        raise
                    time.sleep(0.05)

        request_id = os.urandom(16)
        left = sorted([leader.name, other.name])
        self.assertEqual(sorted(remove(other, gone.name, request_id)), left)
        self.assertEqual(leader.ctl("cluster", "transfer", other.name)["leader"], other.name)
        for asked in (leader, other):
            self.assertEqual(sorted(remove(asked, gone.name, request_id)), left)
            self.assertEqual(peer.code_of(lambda: remove(asked, gone.name, os.urandom(16)))[0], "NOT_FOUND")
            self.assertEqual(peer.code_of(lambda: remove(asked, other.name, request_id))[0], "INVALID_ARGUMENT")
        self.assertEqual(sorted(m["name"] for m in other.status()["members"]), left)

    def test_changes_may_be_asked_of_any_replica(self):
        self.config = CALM
        self.form()
        leader = self.leader()
        other = [r for r in self.replicas if r is not leader][0]
        self.assertEqual(other.ctl("cluster", "remove", "nobody", status=3)["error"]["code"], "not_found")
        for to in (other, leader):
            self.assertEqual(other.ctl("cluster", "transfer", to.name)["leader"], to.name)
            self.assertIs(self.leader(), to)

    def test_any_list_of_servers_finds_the_leader(self):
        self.config = CALM
        self.form()
        leader = self.leader()
        other = [r for r in self.replicas if r is not leader][0]
        servers = ",".join("unix:" + r.socket for r in self.replicas)
        for name in (other.name, leader.name):
            run = subprocess.run([replicas.LEASECTL, "--server", servers, "--json", "cluster", "transfer", name], capture_output=True,
                                 text=True, timeout=120)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            self.assertEqual(self.leader().name, name)

    def test_transfer_and_restart_of_the_leader_lose_no_request(self):
        self.config = CALM
        self.form()
        leader = self.leader()
        to = [r for r in self.replicas if r is not leader][0]
        self.assertEqual(leader.ctl("cluster", "transfer", to.name)["leader"], to.name)
        self.assertIs(self.leader(), to)
        self.acquire(leader, b"after")
        # Who stops hands over.
        to.stop()
        rest = [r for r in self.replicas if r is not to]
        self.leader(among=rest)
        to.start()
        self.equal()

    def test_backup_is_a_whole_copy(self):
        self.form(1)
        self.acquire(self.replicas[0], b"one")
        file = os.path.join(self.folder, "backup")
        before = self.replicas[0].status()["revision"]
        said = self.replicas[0].ctl("cluster", "backup", file)
        self.assertEqual(os.path.getsize(file), said["bytes"])
        self.assertEqual(os.stat(file).st_mode & 0o777, 0o600)
        self.assertTrue(before <= said["revision"] <= self.replicas[0].status()["revision"])

    def restore(self, replica, file, *more, status=0):
        return replica.ctl("cluster", "restore", file, "--leased", os.path.join(peer.BUILD, "leased/leased"), "--leased-conf",
                           replica.conf, *more, status=status)

    def test_backup_is_restored_by_one_and_the_others_join(self):
        """All three lost: the backup makes one of them the first of a new cluster; an old folder has no part in it."""
        first, second, third = self.form()
        kept = self.acquire(self.leader(), b"kept")
        file = os.path.join(self.folder, "backup")
        self.leader().ctl("cluster", "backup", file)
        lost = self.acquire(self.leader(), b"lost")
        self.node.close()
        self.assertIn("stop it first", self.restore(first, file, "--set-aside", status=1)["error"]["message"])
        for replica in self.replicas:
            replica.stop()
        self.assertIn("raft: there is a state already", self.restore(first, file, status=1)["error"]["message"])
        done = self.restore(first, file, "--set-aside")
        self.assertEqual(os.listdir(done["aside"]), ["raft"])
        first.start()
        peer.until(lambda: first.status()["leader"] == "c1", what="it to lead alone", seconds=20)
        status = first.status()
        self.assertEqual([m["name"] for m in status["members"]], ["c1"])
        self.assertTrue(status["restored"]["waits"])
        # One with the folder of before is a stranger, and no majority by itself.
        second.start()
        self.assertIn("error", first.ctl("cluster", "add", "c2", "--address", second.address, status=1))
        second.stop()
        for replica in (second, third):
            shutil.move(os.path.join(replica.state, "raft"), replica.folder)
            replica.start()
            first.ctl("cluster", "add", replica.name, "--address", replica.address)
        self.equal()
        # A node that has seen the lost lease; through any replica.
        client = second.client()
        node = peer.Node(client, name="n1", clean_reports=False)
        node.wait(lambda n: n.welcome, what="a welcome")
        self.assertTrue(node.welcome.epochs_wanted)
        node.epochs({kept.uid: kept.epoch, lost.uid: lost.epoch})
        peer.until(lambda: (node.beat(), not third.status()["restored"]["awaited"])[1], what="the node to be clean")
        leases = {l["uid"]: l for l in third.ctl("list", "--all")["leases"]}
        self.assertEqual({u: (l["epoch"], l["state"]) for u, l in leases.items()},
                         {kept.uid: (kept.epoch, "draining"), lost.uid: (lost.epoch, "draining")})
        third.ctl("cluster", "confirm", "n1")
        self.assertFalse(first.status()["restored"]["waits"])
        new = client.acquire(nodes=("n1",), timeout=10).leases[0]
        self.assertNotIn(new.uid, leases)
        self.assertGreaterEqual(new.epoch, 1024)
        node.close()
        self.equal()

    def test_restore_sees_a_replica_that_runs_by_its_lock(self):
        """Also where nobody answers: it starts, or ends, or its Socket= is another one than the file says now."""
        first, = self.form(1)
        file = os.path.join(self.folder, "backup")
        first.ctl("cluster", "backup", file)
        first.set("Socket = " + first.socket, "Socket = " + first.socket + ".other")
        for more in ((), ("--set-aside",)):
            refused = self.restore(first, file, *more, status=1)
            self.assertEqual(refused["error"]["message"],
                             first.state + "/raft/lock: leased runs and has it open: stop it first")
        self.assertEqual([n for n in os.listdir(first.state) if n.startswith(("aside", "engine"))], [])
        self.acquire(first, b"goes-on")
        self.node.close()
        first.stop()
        self.assertEqual(os.listdir(self.restore(first, file, "--set-aside")["aside"]), ["raft"])

    # ---- the first rules ----

    def seeded(self, name):
        """A replica that would make bob its administrator, and nobody else."""
        path = os.path.join(self.folder, "rules")
        with open(path, "w", encoding="utf-8") as f:
            f.write("[bindings]\nuser:bob = admin\n")
        os.chmod(path, 0o644)
        replica = self.replica(name)
        replica.set("Engine = raft\n", "Engine = raft\nRbacSeed = %s\n" % path)
        return replica.start()

    def asks_status(self, replica, name):
        """What he is told by a replica that he asks over TLS for its status; all are of the usual administrators' group."""
        folder = os.path.join(self.folder, "certs-" + os.urandom(4).hex())
        pair = self.authority.issue("user", name, "--group", "xce-admin", out=folder)
        client = peer.Client(replica.address, self.authority.credentials(pair))
        self.addCleanup(client.close)
        try:
            client.cluster.Status(client.m["cluster"].StatusRequest(), timeout=10)
            return "OK"
        except grpc.RpcError as error:
            return error.code().name

    def test_nobody_is_served_under_other_rules_than_the_seed(self):
        c1 = self.seeded("c1")
        self.assertEqual(self.asks_status(c1, "boss"), "UNAVAILABLE")
        c1.ctl("cluster", "init")
        peer.until(lambda: "bob" in str(c1.ctl("rbac", "show")), what="the rules")
        self.assertEqual(self.asks_status(c1, "boss"), "PERMISSION_DENIED")
        self.assertEqual(self.asks_status(c1, "bob"), "OK")

    def test_a_replica_that_follows_plants_its_seed(self):
        self.config = CALM
        c1 = self.replica("c1").start()
        c1.ctl("cluster", "init")
        self.leader(c1)
        c2 = self.seeded("c2")
        c1.ctl("cluster", "add", c2.name, "--address", c2.address)
        peer.until(lambda: "bob" in str(c1.ctl("rbac", "show")), what="the rules")
        self.assertEqual(self.asks_status(c1, "boss"), "PERMISSION_DENIED")
        self.assertIs(self.leader(), c1)

    def test_reloads_end_no_replica_that_begins_anew(self):
        c1 = self.replica("c1").start(wait=False)
        reloads = peer.Reloads(c1)
        peer.until(c1.answers, what="c1 to serve", alive=c1.process)
        c1.ctl("cluster", "init")
        self.leader(c1)
        self.assertEqual(c1.stop(), 0)
        self.assertGreater(reloads.end(), 0)

    # ---- another CA ----

    def test_links_outlive_a_change_of_the_ca(self):
        change = certs.Change(self.folder, "--name", "the CA")
        self.authority = change.old
        for i in range(3):
            self.replica("c%d" % (i + 1)).set("CA = %s" % change.trusted, "CA = %s\nCRL = %s" % (change.trusted, change.lists))
        self.form()

        def step(what, change_files, *args):
            """All read the files, nobody is cut, and a lease can be had at each."""
            said = [r.said().count("certificates read again") for r in self.replicas]
            change_files(*args)
            for r, before in zip(self.replicas, said):
                peer.until(lambda r=r, before=before: r.said().count("certificates read again") > before, what=what)
            for r in self.replicas:
                self.acquire(r, ("%s-%s" % (what, r.name)).encode())
            for r in self.replicas:
                for word in ("is disconnected", "signature failure", "the old certificates stay"):
                    self.assertNotIn(word, r.said(), what)

        def new_certificates():
            for r in self.replicas:
                for path in change.new.replica(r.name):
                    certs.replace(os.path.join(self.folder, "certs", os.path.basename(path)), path)

        step("both", change.trust, change.old, change.new)
        step("certificates", new_certificates)
        # Every link anew, by certificates of the new CA.
        for r in self.replicas:
            r.stop()
            r.start()
            self.leader()
        step("new", change.trust, change.new)
        self.equal()

    def test_strangers_are_no_replicas(self):
        self.form(1)
        first = self.replicas[0]
        for certificate, key in (self.authority.issue("user", "alice"), self.authority.issue("node", "n1")):
            run = subprocess.run(["openssl", "s_client", "-connect", "127.0.0.1:%d" % first.port, "-alpn", "xce-raft/1",
                                  "-cert", certificate, "-key", key, "-CAfile", self.authority.ca_pem, "-tls1_3"],
                                 input=b"", capture_output=True, timeout=120)
            self.assertNotIn(b"XCER", run.stdout)
        peer.until(lambda: "refused" in first.said(), what="the refusal in the log", seconds=10)
        self.leader(first)


if __name__ == "__main__":
    unittest.main(verbosity=2)
