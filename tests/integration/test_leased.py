#!/usr/bin/python3
"""leased as its clients see it: every verb over gRPC, the life of a lease, identity, restarts, bad input."""
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peer

FIRST = 2013265920
GRANTED, ACTIVE, DRAINING, NORMALISING, COOLING, RETIRED, FREE = range(1, 8)


class LeasedTest(peer.LeasedCase):
    def state(self, lease):
        status = None
        try:
            return self.client.get(lease=lease).lease.state
        except peer.grpc.RpcError as error:
            status = error.code().name
        self.assertEqual(status, "NOT_FOUND")
        return FREE

    # ---- what the log tells ----

    def told(self, what):
        return len([line for line in self.leased.said().splitlines() if what in line])

    def test_log_tells_each_step_once(self):
        self.config_more("LogLevel = debug")
        self.pool()
        node = self.node(clean_reports=False)
        lease = self.client.acquire(wait=True, job=b"j1").leases[0]
        about = "(lease %d, uid %d, epoch 1, node n1, job j1)" % (lease.lease, lease.uid)
        self.client.release(lease)
        node.report(lease.uid, 1, node.m.REPORT_KIND_DIRTY, b"file", b"/tmp/x")
        peer.until(lambda: self.told("warning: quarantined: dirty: file: /tmp/x " + about) == 1, what="the quarantine")
        node.report(lease.uid, 1, node.m.REPORT_KIND_CLEAN)
        peer.until(lambda: self.state(lease.lease) == FREE, what="the uid to be free")
        steps = ("granted to root on 1 nodes ", "active: every member is ready ", "ended by release ", "the uid is free ")
        self.assertEqual([self.told(step + about) for step in steps], [1, 1, 1, 1])
        # Nothing is told again when the log is read again.
        self.leased.stop()
        self.leased.start()
        peer.until(lambda: self.client.pool.List(self.client.m["pool"].ListPoolsRequest(), timeout=30), what="leased to serve")
        self.assertEqual([self.told(step + about) for step in steps], [1, 1, 1, 1])
        self.assertEqual(self.told("quarantined"), 1)

    def config_more(self, line):
        self.leased.stop()
        with open(self.leased.conf, "a") as f:
            f.write(line + "\n")
        self.leased.start()

    def test_log_alarms_when_an_oath_was_false(self):
        self.pool()
        self.node("n2", machine="2" * 32, clean_reports=False, beats=0.1)
        self.node("n1", clean_reports=False)
        held, freed = (self.client.acquire(nodes=nodes, wait=True).leases[0] for nodes in (["n1", "n2"], ["n1"]))
        self.nodes.pop().close()
        with self.leased.losing():
            peer.until(lambda: self.node_state("n1") == 4, what="n1 to be lost")
        fence = self.client.m["node"].FenceRequest(node=b"n1", reason=b"pulled the plug", machine_id=b"1" * 32, boot_id=b"a" * 32)
        self.client.node.Fence(self.client.request(fence), timeout=30)
        peer.until(lambda: self.state(freed.lease) == FREE, what="the uid to be free")
        self.assertNotIn("error", self.leased.said())
        self.nodes.append(peer.Node(self.client, "n1").wait(lambda n: n.welcome, what="welcome"))
        self.assertRegex(self.leased.said(), r"error: blocked: the uid was freed because uid:0 swore .*\(uid %d\)" % freed.uid)
        self.assertRegex(self.leased.said(), r"error: quarantined: oath-broken.*\(lease %d, .*, node n" % held.lease)

    # ---- the life of a lease ----

    def test_life_of_a_lease(self):
        self.pool()
        self.node()
        lease = self.client.acquire(wait=True, job=b"j1").leases[0]
        self.assertEqual((lease.state, lease.uid, lease.gid, lease.epoch, lease.job), (ACTIVE, FIRST, FIRST, 1, "j1"))
        self.assertEqual(lease.owner.uid, 0)
        self.assertTrue(lease.name.startswith("xce-"))
        for key in ({"uid": FIRST}, {"name": lease.name.encode()}, {"job": b"j1"}):
            self.assertEqual(self.client.get(**key).lease.lease, lease.lease)
        self.assertEqual(self.client.release(lease).lease.state, DRAINING)
        peer.until(lambda: self.state(lease.lease) == FREE, what="the uid to be free")
        again = self.client.acquire(job=b"j1").leases[0]
        self.assertEqual(again.uid, FIRST + 1, "longest unused first")

    def test_uid_waits_for_clean_and_watermark(self):
        self.pool()
        node = self.node(clean_reports=False)
        lease = self.client.acquire(wait=True).leases[0]
        self.client.release(lease)
        explained = self.client.lease.Explain(self.client.m["lease"].LeaseKey(uid=lease.uid), timeout=30)
        self.assertEqual([w.what for w in explained.waits], ["member n1"])
        kind = node.m.REPORT_KIND_DIRTY
        node.report(lease.uid, lease.epoch, kind, b"process", b"pid 7")
        peer.until(lambda: "dirty" in self.client.get(lease=lease.lease).lease.reasons, what="quarantine")
        node.report(lease.uid, lease.epoch, node.m.REPORT_KIND_CLEAN)
        peer.until(lambda: self.state(lease.lease) == FREE, what="free after clean")

    def test_refused_member_is_followed_by_another_lease(self):
        self.pool()
        node = self.node(ready=False)
        import threading
        answer = []
        thread = threading.Thread(target=lambda: answer.append(self.client.acquire(wait=True, timeout=60)))
        thread.start()
        node.wait(lambda n: FIRST in n.leases)
        node.report(FIRST, 1, node.m.REPORT_KIND_REFUSED, b"process", b"pid 9")
        node.wait(lambda n: FIRST + 1 in n.leases, what="the next lease")
        node.report(FIRST + 1, 1, node.m.REPORT_KIND_READY)
        thread.join(60)
        self.assertEqual(answer[0].leases[0].uid, FIRST + 1)

    def test_expiry_drains(self):
        self.pool(ttl_min_ms=1000)
        self.node()
        lease = self.client.acquire(wait=True, ttl_ms=1000).leases[0]
        peer.until(lambda: self.state(lease.lease) == FREE, what="expiry")

    def test_batch_is_all_or_nothing(self):
        self.pool(max_per_owner=3, max_per_owner_set=True)
        self.node()
        ask = self.client.request(self.client.m["lease"].AcquireRequest())
        for _ in range(4):
            ask.leases.add(nodes=[b"n1"])
        code, text = peer.code_of(lambda: self.client.lease.Acquire(ask, timeout=30))
        self.assertEqual(code, "RESOURCE_EXHAUSTED", text)
        listed = self.client.lease.List(self.client.m["lease"].ListLeasesRequest(all=True), timeout=30)
        self.assertEqual(len(listed.leases), 0)

    # ---- requests ----

    def test_same_request_id_same_answer(self):
        self.pool()
        self.node()
        key = os.urandom(16)
        first = self.client.acquire(job=b"a", request_id=key)
        again = self.client.acquire(job=b"a", request_id=key)
        self.assertEqual(first.leases[0].lease, again.leases[0].lease)
        code, _ = peer.code_of(lambda: self.client.acquire(job=b"b", request_id=key))
        self.assertEqual(code, "INVALID_ARGUMENT")
        code, _ = peer.code_of(lambda: self.client.acquire(job=b"a"))
        self.assertEqual(code, "ALREADY_EXISTS")

    def test_same_request_id_after_kill(self):
        self.pool()
        self.node()
        key = os.urandom(16)
        first = self.client.acquire(request_id=key).leases[0]
        self.leased.kill()
        self.leased.start()
        again = peer.until(lambda: self.retry(key), what="an answer")
        self.assertEqual((first.lease, first.uid, first.epoch), (again.lease, again.uid, again.epoch))

    def retry(self, key):
        try:
            return self.client.acquire(request_id=key).leases[0]
        except peer.grpc.RpcError as error:
            if error.code().name != "UNAVAILABLE":
                raise
        return None

    def test_reloads_end_it_at_no_moment(self):
        for _ in range(5):
            self.leased.stop()
            said = len(self.leased.said())
            self.leased.start(wait=False)
            reloads = peer.Reloads(self.leased)
            peer.until(self.leased.answers, what="leased to serve", alive=self.leased.process)
            self.leased.process.send_signal(signal.SIGTERM)
            self.assertEqual(self.leased.process.wait(120), 0, self.leased.said()[said:])
            self.assertGreater(reloads.end(), 0)
            self.assertNotIn("configuration read again", self.leased.said()[said:].partition(" stopping\n")[2])
        self.leased.start()

    # ---- watch ----

    def test_watch_resumes_by_revision(self):
        self.pool()
        self.node()
        watch = self.client.lease.Watch(self.client.m["lease"].WatchRequest())
        self.addCleanup(watch.cancel)
        self.assertTrue(next(watch).synced)
        lease = self.client.acquire(wait=True).leases[0]
        events = [next(watch), next(watch)]
        while events[-1].lease.state != ACTIVE:
            events.append(next(watch))
        self.assertEqual([e.revision for e in events], sorted(e.revision for e in events))
        since = events[0].revision
        resumed = self.client.lease.Watch(self.client.m["lease"].WatchRequest(since=since))
        self.addCleanup(resumed.cancel)
        self.assertEqual(next(resumed).revision, events[1].revision)
        self.client.release(lease)
        while events[-1].lease.state != FREE:
            events.append(next(watch))
        self.assertEqual(events[-1].lease.lease, lease.lease)

    # ---- history ----

    def test_history_says_who_had_it(self):
        self.pool()
        self.node()
        lease = self.client.acquire(wait=True, job=b"past").leases[0]
        at = int(time.time() * 1000)
        self.client.release(lease)
        peer.until(lambda: self.state(lease.lease) == FREE, what="free")
        ask = self.client.m["lease"].HistoryRequest(uid=lease.uid, at_ms=at)
        entries = peer.until(lambda: self.client.lease.History(ask, timeout=30).entries, what="history")
        self.assertEqual([(e.lease, e.job, e.end_cause) for e in entries], [(lease.lease, "past", "release")])
        ask.at_ms = at - 3600000
        self.assertEqual(len(self.client.lease.History(ask, timeout=30).entries), 0)

    # ---- identity ----

    def as_nobody(self, code):
        script = ("import sys; sys.path.insert(0, %r); import peer; c = peer.Client('unix:%s'); m = c.m\n%s"
                  % (os.path.dirname(os.path.abspath(__file__)), self.leased.socket, code))
        return subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "/usr/bin/python3",
                               "-B", "-c", script], capture_output=True, text=True, timeout=60)

    def test_others_see_only_their_own(self):
        self.pool()
        self.node()
        mine = self.client.acquire(job=b"root").leases[0]
        run = self.as_nobody(
            "l = c.acquire(job=b'theirs').leases[0]; print(l.owner.name, l.owner.uid)\n"
            "print([x.job for x in c.lease.List(m['lease'].ListLeasesRequest(all=True)).leases])\n"
            "absent = peer.code_of(lambda: c.get(lease=999999)); other = peer.code_of(lambda: c.get(lease=%d))\n"
            "print(absent == other, absent[0])\n"
            "print(peer.code_of(lambda: c.get(uid=%d)) == peer.code_of(lambda: c.get(uid=12345)))\n"
            "r = m['lease'].ReleaseRequest\n"
            "a = peer.code_of(lambda: c.lease.Release(c.request(r(lease=%d, epoch=1))))\n"
            "b = peer.code_of(lambda: c.lease.Release(c.request(r(lease=%d, epoch=1))))\n"
            "print(a[0], a[1] == b[1])\n"
            "print(peer.code_of(lambda: c.create_pool(name=b'x'))[0])\n"
            "print(peer.code_of(lambda: c.node.List(m['node'].ListNodesRequest()))[0])\n"
            "print(c.pool.List(m['pool'].ListPoolsRequest()).pools[0].HasField('counts'))\n"
            % (mine.lease, mine.uid, mine.lease, 999999))
        self.assertEqual(run.stdout.splitlines(),
                         ["nobody 65534", "['theirs']", "True NOT_FOUND", "True", "NOT_FOUND True", "PERMISSION_DENIED",
                          "PERMISSION_DENIED", "False"], run.stderr)

    def test_only_root_names_an_owner(self):
        self.pool()
        self.node()
        owner = self.client.m["lease"].OwnerSpec(name=b"alice", uid=1234, gid=1234)
        lease = self.client.acquire(owner=owner).leases[0]
        self.assertEqual((lease.owner.name, lease.owner.uid), ("alice", 1234))
        run = self.as_nobody("print(peer.code_of(lambda: c.acquire(owner=m['lease'].OwnerSpec(uid=0)))[0])")
        self.assertEqual(run.stdout.strip(), "PERMISSION_DENIED", run.stderr)

    def test_a_reused_uid_owns_nothing_of_its_former_holder(self):
        """uid 65534 once was alice's; nobody has it now, and what alice left is absent for him in every verb."""
        self.pool()
        self.node()
        owner = self.client.m["lease"].OwnerSpec(name=b"alice", uid=65534, gid=65534)
        left = self.client.acquire(job=b"j1", owner=owner).leases[0]
        numbered = self.client.acquire(job=b"j2", owner=self.client.m["lease"].OwnerSpec(uid=65534, gid=65534)).leases[0]
        run = self.as_nobody(
            "print([x.job for x in c.lease.List(m['lease'].ListLeasesRequest(all=True)).leases])\n"
            "print(peer.code_of(lambda: c.get(lease=%d)) == peer.code_of(lambda: c.get(lease=999999)))\n"
            "print(peer.code_of(lambda: c.get(job=b'j1'))[0], c.get(job=b'j2').lease.lease)\n"
            "print(len(c.lease.History(m['lease'].HistoryRequest(lease=%d)).entries))\n"
            "ask = c.request(m['lease'].AcquireRequest(adopt=True)); ask.leases.add(job=b'j1', nodes=[b'n1'])\n"
            "print(peer.code_of(lambda: c.lease.Acquire(ask))[0])\n"
            "e = next(e for e in c.lease.Watch(m['lease'].WatchRequest()) if e.WhichOneof('event') == 'listed'); print(e.listed.job)\n"
            % (left.lease, left.lease))
        self.assertEqual(run.stdout.splitlines(),
                         ["['j2']", "True", "NOT_FOUND %d" % numbered.lease, "0", "FAILED_PRECONDITION", "j2"], run.stderr)

    # ---- pools ----

    def test_pool_overlaps_are_refused(self):
        self.pool()
        for first, word in ((0, ""), (1000, ""), (61184, ""), (524288, ""), (FIRST + 100, "main"), (65534, ""),
                            (0x7ffe0000, ""), (100000, "")):
            code, text = peer.code_of(lambda: self.client.create_pool(name=b"other", first=first, count=16))
            self.assertEqual(code, "FAILED_PRECONDITION", "%d: %s" % (first, text))
            self.assertIn(word, text)

    def test_pool_needs_an_answer_about_directories(self):
        pool = self.client.m["pool"]
        ask = self.client.request(pool.CreatePoolRequest(name=b"p", range=pool.UidRange(first=FIRST, last=FIRST + 9)))
        self.assertEqual(peer.code_of(lambda: self.client.pool.Create(ask, timeout=60))[0], "INVALID_ARGUMENT")
        ask.directory_ranges.add(first=FIRST + 5, last=FIRST + 500)
        self.assertEqual(peer.code_of(lambda: self.client.pool.Create(ask, timeout=60))[0], "FAILED_PRECONDITION")

    def test_pool_suggest_passes_its_own_check(self):
        pool = self.client.m["pool"]
        found = self.client.pool.Suggest(pool.SuggestPoolRequest(count=100), timeout=60).range
        self.assertEqual(found.first, FIRST)
        self.client.create_pool(first=found.first, count=100)
        found = self.client.pool.Suggest(pool.SuggestPoolRequest(count=100), timeout=60).range
        self.assertEqual(found.first, FIRST + 100)

    def test_pool_exhausted_says_how_and_when(self):
        self.pool(count=2)
        self.node()
        self.client.acquire(wait=True)
        lease = self.client.acquire(wait=True).leases[0]
        code, text = peer.code_of(self.client.acquire)
        self.assertEqual(code, "RESOURCE_EXHAUSTED")
        self.assertIn("active 2", text)
        self.client.pool.Set(self.client.request(self.client.m["pool"].SetPoolRequest(
            name=b"main", settings=self.client.m["pool"].PoolSettings(cooldown_ms=600000))), timeout=30)
        self.client.release(lease)
        peer.until(lambda: self.state(lease.lease) == COOLING, what="cooling")
        self.assertRegex(peer.code_of(self.client.acquire)[1], r"cooling 1.* in (60[0-9]|5[5-9][0-9]) s")

    def cures(self, uid):
        """{what: (state, cure)}"""
        explained = self.client.lease.Explain(self.client.m["lease"].LeaseKey(uid=uid), timeout=30)
        return {wait.what: (wait.state, wait.cure) for wait in explained.waits}

    def cure(self, uid, what, state, cure):
        """It is explained so; the words of the cure are in order."""
        def explained():
            said = self.cures(uid).get(what, ("", ""))
            return said[0] == state and cure in said[1]
        try:
            peer.until(explained, what="the explanation")
        except AssertionError:
            self.fail("%s is not %s with a cure of %r: %s" % (what, state, cure, self.cures(uid)))

    def test_explain_tells_what_would_release_it(self):
        self.pool(count=3, cooldown_ms=600000)
        node = self.node(ready=False, clean_reports=False, beats=0.1)
        kinds = node.m
        lease = self.client.acquire().leases[0]
        uid = lease.uid
        self.cure(uid, "member n1", "pending", "release --lease %d --node n1" % lease.lease)
        node.report(uid, 1, kinds.REPORT_KIND_READY)
        self.cure(uid, "holder root", "active", "release --lease %d" % lease.lease)
        self.client.release(lease)
        self.cure(uid, "member n1", "pending", "leasectl node sweep n1")
        node.report(uid, 1, kinds.REPORT_KIND_DIRTY, b"file", b"/tmp/x")
        self.cure(uid, "member n1", "dirty", "remove what the detail names on n1, then: leasectl node sweep n1")
        node.report(uid, 1, kinds.REPORT_KIND_CLEAN)
        self.cure(uid, "cool-down", "running", "")
        node.report(uid, 1, kinds.REPORT_KIND_STRAY, b"process")
        self.cure(uid, "member n1", "pending", "leasectl node sweep n1")
        self.cure(uid, "reason stray", "quarantined", "n1 first; who starts it: journalctl -u noded on n1")
        self.assertIn("1 thing to wait for", self.client.lease.Explain(
            self.client.m["lease"].LeaseKey(uid=uid), timeout=30).summary)
        self.nodes.pop().close()
        with self.leased.losing():
            self.cure(uid, "member n1", "pending", "leasectl node fence n1")

    def test_explain_tells_what_would_unblock_it(self):
        self.pool()
        node = self.node()
        node.block(FIRST, b"account", b"alice")
        self.cure(FIRST, "administrator", "blocked", "on n1, then: leasectl pool unblock main %d --reason" % FIRST)
        node.block(FIRST + 1, b"leftover", b"/tmp/x")
        self.cure(FIRST + 1, "node n1", "blocked", "remove it on n1, then: leasectl node sweep n1")
        node.report(FIRST + 1, 0, node.m.REPORT_KIND_CLEAN)
        peer.until(lambda: not self.cures(FIRST + 1), what="the uid to be free")
        node.block(FIRST + 2, b"leftover", b"/tmp/x")
        self.cure(FIRST + 2, "node n1", "blocked", "remove it on n1")
        other = self.node("n2", machine="2" * 32)
        other.block(FIRST + 2, b"leftover", b"/tmp/y")
        self.cure(FIRST + 2, "node n2", "blocked", "remove it on n2")
        self.cure(FIRST + 2, "node n1", "blocked", "remove it on n1")
        other.report(FIRST + 2, 0, other.m.REPORT_KIND_CLEAN)
        peer.until(lambda: list(self.cures(FIRST + 2)) == ["node n1"], what="one of them to be clean")
        self.nodes.pop(0).close()
        with self.leased.losing():
            self.cure(FIRST + 2, "node n1", "blocked", "bring n1 back; or when you have looked there: leasectl pool unblock main")

    def shown(self, name="n1"):
        return self.client.node.Get(self.client.m["node"].NodeKey(node=name.encode()), timeout=30).node

    def refused(self, name="n1", **more):
        """It says hello and is sent away: what it is told."""
        node = peer.Node(self.client, name, **more).wait(lambda n: n.ended, what="the end of its session")
        self.addCleanup(node.close)
        self.assertIsNone(node.welcome)
        self.assertEqual(node.ended.code().name, "FAILED_PRECONDITION")
        return node.ended.details()

    def test_two_machines_of_one_identity_are_no_node(self):
        self.pool()
        first = self.node(boot="a" * 32)
        freed = self.client.acquire(wait=True).leases[0]
        second = self.node(boot="b" * 32)
        first.wait(lambda n: n.ended, what="the end of its session")
        peer.until(lambda: self.state(freed.lease) == FREE, what="the uid to be free")
        for _ in range(3):
            self.assertIn("boot %s is over" % ("a" * 32), self.refused(boot="a" * 32))
        node = self.shown()
        self.assertTrue(node.rival.cloned)
        self.assertEqual(node.state, self.client.m["node"].NODE_STATE_LOST)
        self.assertEqual(node.reason, "cloned: machine %s speaks in boot %s and in boot %s" % ("1" * 32, "b" * 32, "a" * 32))
        self.assertEqual(node.rival.boot_id, "a" * 32)
        # Nobody is it: not the one that was there last either.
        second.beat()
        second.wait(lambda n: n.ended, what="the end of the other's session")
        self.assertIn("switch off both", self.refused(boot="b" * 32))
        self.assertIn("no session for node n1: there are two machines", self.leased.said())
        self.assertIn("became free when machine", self.leased.said())
        self.cure(freed.uid, "administrator", "blocked", "leasectl pool unblock main %d" % freed.uid)
        fence = self.client.m["node"].FenceRequest(node=b"n1", reason=b"both are off", machine_id=b"1" * 32, boot_id=b"b" * 32)
        self.client.node.Fence(self.client.request(fence), timeout=30)
        self.assertIn("boot %s is over" % ("a" * 32), self.refused(boot="a" * 32))
        self.node(boot="c" * 32)
        self.assertEqual(self.shown().rival.boot_id, "a" * 32)

    def test_machine_of_a_node_is_no_other_node_and_no_other_machine_is_the_node(self):
        self.node(boot="a" * 32)
        self.assertIn("is node n1 (ready), in another boot", self.refused("n2", boot="b" * 32))
        self.assertEqual((self.shown().rival.node, self.shown().rival.cloned), ("n2", False))
        self.assertIn("can take the name when that one is fenced", self.refused(machine="9" * 32, boot="b" * 32))
        self.assertEqual(self.shown().rival.machine_id, "9" * 32)
        self.assertEqual(self.shown().state, self.client.m["node"].NODE_STATE_READY)

    def hand(self, node, lease, caller, epoch=None, request_id=b"i" * 16):
        node.up.put(node.m.SessionUp(release=node.m.DeferredRelease(
            lease=lease.lease, uid=lease.uid, epoch=epoch or lease.epoch, caller=caller, id=request_id)))

    def refused_of(self, caller):
        return self.leased.said().count("a release that uid %d handed over on the node is not taken" % caller)

    def test_release_handed_to_a_node_is_taken_of_a_member_for_who_may(self):
        self.pool()
        member, other = self.node(), self.node("n2", machine="2" * 32)
        owner = self.client.m["lease"].OwnerSpec(name=b"h", uid=70001, gid=70001)
        lease, kept = (self.client.acquire(wait=True, owner=owner).leases[0] for _ in range(2))
        self.hand(other, lease, 0)
        peer.until(lambda: self.refused_of(0) == 1, what="a node that is no member to be refused")
        self.hand(member, lease, 0, epoch=lease.epoch + 1)
        self.hand(member, lease, 70002)
        self.hand(member, lease, kept.uid)
        peer.until(lambda: self.refused_of(70002) == 1 and self.refused_of(kept.uid) == 1, what="others to be refused")
        self.assertEqual(self.state(lease.lease), ACTIVE)
        # Over and over, under the id that it has: done once.
        for _ in range(3):
            self.hand(member, lease, 70001)
        peer.until(lambda: self.state(lease.lease) == FREE, what="the uid to be free")
        self.hand(member, lease, 70001)
        self.hand(member, kept, kept.uid, request_id=b"k" * 16)
        peer.until(lambda: self.state(kept.lease) == FREE, what="the other uid to be free")
        self.hand(member, kept, 0, request_id=b"short")
        member.wait(lambda n: n.ended, what="the end of its session")
        self.assertEqual(member.ended.code().name, "INVALID_ARGUMENT")

    def test_blocked_uid_is_passed_over_until_unblocked(self):
        self.pool(count=2)
        node = self.node()
        node.block(FIRST, b"account", b"alice")
        pool = self.client.m["pool"]
        peer.until(lambda: self.client.pool.Get(pool.PoolKey(name=b"main"), timeout=30).pool.counts.blocked == 1)
        self.assertEqual(self.client.acquire().leases[0].uid, FIRST + 1)
        waits = self.client.lease.Explain(self.client.m["lease"].LeaseKey(uid=FIRST), timeout=30).waits
        self.assertEqual(waits[0].state, "blocked")
        self.client.pool.Unblock(self.client.request(pool.UnblockRequest(name=b"main", uid=FIRST, reason=b"gone")), timeout=30)
        self.assertEqual(self.client.acquire().leases[0].uid, FIRST)

    def test_pool_retire(self):
        self.pool()
        self.node()
        lease = self.client.acquire(wait=True).leases[0]
        pool = self.client.m["pool"]
        self.client.pool.Retire(self.client.request(pool.RetirePoolRequest(name=b"main")), timeout=30)
        self.assertEqual(peer.code_of(self.client.acquire)[0], "FAILED_PRECONDITION")
        self.client.release(lease)
        peer.until(lambda: not self.client.pool.List(pool.ListPoolsRequest(), timeout=30).pools, what="the pool to go")
        self.pool()
        self.assertEqual(self.client.acquire(wait=True).leases[0].epoch, 2, "epoch floors outlive pools")

    # ---- nodes ----

    def test_new_session_ends_the_old_one(self):
        self.pool()
        old = self.node()
        new = peer.Node(self.client, "n1", clean=True).wait(lambda n: n.welcome)
        self.nodes.append(new)
        old.wait(lambda n: n.ended, what="the old session to end")
        self.assertGreater(new.welcome.session, old.welcome.session)

    def test_same_name_other_machine_is_refused(self):
        self.node()
        other = peer.Node(self.client, "n1", machine="2" * 32).wait(lambda n: n.ended)
        self.nodes.append(other)
        self.assertEqual(other.ended.code().name, "FAILED_PRECONDITION")

    def test_silent_node_is_lost_and_its_leases_wait(self):
        self.pool()
        node = self.node()
        lease = self.client.acquire(wait=True).leases[0]
        node.close()
        with self.leased.losing():
            peer.until(lambda: self.node_state("n1") == 4, seconds=20, what="the node to be lost")
        self.assertEqual(self.client.get(lease=lease.lease).lease.state, DRAINING)
        self.assertIn("member-lost", self.client.get(lease=lease.lease).lease.reasons)
        self.assertEqual(peer.code_of(self.client.acquire)[0], "FAILED_PRECONDITION")

    def test_drain_refuses_new_leases(self):
        self.pool()
        self.node()
        verb = self.client.m["node"].NodeVerbRequest
        self.client.node.Drain(self.client.request(verb(node=b"n1", reason=b"disk")), timeout=30)
        code, text = peer.code_of(self.client.acquire)
        self.assertEqual(code, "FAILED_PRECONDITION")
        self.assertIn("n1", text)
        self.client.node.Undrain(self.client.request(verb(node=b"n1")), timeout=30)
        self.client.acquire()

    def test_session_resumes_without_a_full_list(self):
        self.pool()
        node = self.node()
        lease = self.client.acquire(wait=True).leases[0]
        node.wait(lambda n: n.leases.get(lease.uid) and n.leases[lease.uid].state == ACTIVE)
        again = peer.Node(self.client, "n1", clean=True, resume=node.revision, incarnation=node.welcome.incarnation)
        self.nodes.append(again)
        again.wait(lambda n: n.welcome)
        self.assertFalse(again.welcome.full)
        for more in ({"incarnation": b"x" * 16}, {"incarnation": node.welcome.incarnation, "all": True}):
            other = peer.Node(self.client, "n1", clean=True, resume=node.revision, **more)
            self.nodes.append(other)
            other.wait(lambda n: n.welcome)
            self.assertTrue(other.welcome.full)

    def test_explain_of_a_name_that_is_gone(self):
        self.pool()
        self.node()
        lease = self.client.acquire(wait=True).leases[0]
        self.client.release(lease)
        peer.until(lambda: self.state(lease.lease) == FREE, what="free")
        for key, word in (({"name": lease.name.encode()}, "no such lease"), ({"uid": FIRST - 1}, "the uid is in no pool")):
            code, text = peer.code_of(lambda: self.client.lease.Explain(self.client.m["lease"].LeaseKey(**key), timeout=30))
            self.assertEqual(code, "NOT_FOUND")
            self.assertTrue(text.endswith(word), text)

    # ---- a state that is gone ----

    def test_old_state_put_back_gets_no_nodes(self):
        """Going on from there would give the epochs and names of acknowledged leases to others."""
        self.pool()
        node = self.node()
        self.client.acquire(wait=True)
        self.leased.stop()
        aside = os.path.join(self.leased.folder, "aside")
        shutil.copytree(self.leased.state, aside)
        self.leased.start()
        for _ in range(2):  # the node is known and in order
            node = peer.Node(self.client, "n1", clean=True).wait(lambda n: n.welcome, what="welcome")
            self.nodes.append(node)
        peer.until(lambda: self.node_state("n1") == 1, what="node ready")
        lease = self.client.acquire(wait=True).leases[0]
        node.wait(lambda n: n.leases.get(lease.uid) and n.leases[lease.uid].state == ACTIVE)
        self.leased.stop()
        shutil.rmtree(self.leased.state)
        shutil.copytree(aside, self.leased.state)
        self.leased.start()
        for turn in range(20):
            again = peer.Node(self.client, "n1", clean=True, resume=node.revision, incarnation=node.welcome.incarnation,
                              all=turn % 2 == 1)
            self.nodes.append(again)
            again.wait(lambda n: n.ended or n.welcome, what="an answer")
            self.assertIsNone(again.welcome)
            self.assertIn("it is an old one", again.ended.details())
        self.assertIn("it is an old one", self.leased.said())

    def test_lost_state_is_not_begun_anew(self):
        self.pool()
        self.node()
        self.client.acquire(wait=True)
        self.leased.stop()
        state, aside = self.leased.state, os.path.join(self.leased.folder, "aside")
        os.mkdir(aside)
        mine = [name for name in os.listdir(state) if name.startswith("engine.db")]
        for name in mine:
            os.rename(os.path.join(state, name), os.path.join(aside, name))
        self.leased.start(wait=False)
        self.assertEqual(self.leased.process.wait(timeout=120), 1)
        self.assertIn("engine.db holds no state", self.leased.said())
        for name in os.listdir(state):
            if name.startswith("engine.db"):
                os.unlink(os.path.join(state, name))
        for name in mine:
            os.rename(os.path.join(aside, name), os.path.join(state, name))
        self.leased.start()

    def test_damaged_state_is_refused_by_name(self):
        self.pool()
        self.node()
        self.client.acquire(wait=True)
        self.leased.stop()
        with open(os.path.join(self.leased.state, "engine.db"), "r+b") as f:
            f.seek(0, 2)
            size = f.tell()
            for at in range(4096, size, 512):
                f.seek(at)
                f.write(b"\xff" * 64)
        self.leased.start(wait=False)
        self.assertEqual(self.leased.process.wait(timeout=120), 1)
        self.assertIn("engine.db", self.leased.said())

    # ---- bad input ----

    def test_bad_input_is_named(self):
        self.pool()
        self.node()
        m = self.client.m["lease"]
        long_name = b"x" * 100000
        rows = [
            (lambda: self.client.lease.Acquire(m.AcquireRequest(), timeout=30), "INVALID_ARGUMENT", "leases"),
            (lambda: self.client.lease.Acquire(m.AcquireRequest(leases=[m.LeaseSpec(nodes=[b"n1"])]), timeout=30),
             "INVALID_ARGUMENT", "request.id"),
            (lambda: self.client.acquire(job=b"a b"), "INVALID_ARGUMENT", "job"),
            (lambda: self.client.acquire(job=b"a\0b"), "INVALID_ARGUMENT", "job"),
            (lambda: self.client.acquire(job=b"\xff\xfe"), "INVALID_ARGUMENT", "job"),
            (lambda: self.client.acquire(job=long_name), "INVALID_ARGUMENT", "job"),
            (lambda: self.client.acquire(pool=long_name), "INVALID_ARGUMENT", "pool"),
            (lambda: self.client.acquire(nodes=["n1", "nope"]), "NOT_FOUND", "nope"),
            (lambda: self.client.acquire(pool=b"nope"), "NOT_FOUND", "nope"),
            (lambda: self.client.acquire(ttl_ms=-5), "INVALID_ARGUMENT", "ttl"),
            (lambda: self.client.acquire(ttl_ms=1 << 60), "INVALID_ARGUMENT", "ttl"),
            (lambda: self.client.acquire(gids=[0]), "INVALID_ARGUMENT", "gids"),
            (lambda: self.client.acquire(gids=[54321]), "PERMISSION_DENIED", "54321"),
            (lambda: self.client.acquire(write_paths=[m.WritePathSpec(path=b"/x")]), "UNIMPLEMENTED", "write_paths"),
            (lambda: self.client.get(), "INVALID_ARGUMENT", "key"),
            (lambda: self.client.get(name=b"xce-0-1"), "NOT_FOUND", ""),
            (lambda: self.client.lease.Release(self.client.request(m.ReleaseRequest(lease=7)), timeout=30), "NOT_FOUND", "7"),
        ]
        for i, (call, status, word) in enumerate(rows):
            code, text = peer.code_of(call)
            self.assertEqual(code, status, "row %d: %s" % (i, text))
            self.assertIn(word, text, "row %d" % i)
        self.client.acquire()

    def test_malformed_message_is_refused(self):
        send = self.client.channel.unary_unary("/xce.v1.LeaseService/Acquire", request_serializer=bytes,
                                               response_deserializer=bytes)
        for data in (b"\xff" * 10, b"\x12\xff\xff\xff\xff\x0f", b"\x12\x04abcd", b"\x08\x01", b"\x13" * 50):
            code, _ = peer.code_of(lambda: send(data, timeout=30))
            self.assertEqual(code, "INVALID_ARGUMENT", data)
        code, text = peer.code_of(lambda: send(b"\0" * (16 << 20), timeout=60))
        self.assertEqual(code, "RESOURCE_EXHAUSTED", text)


if __name__ == "__main__":
    unittest.main()
