#!/usr/bin/python3
"""Short leases on three nodes while nodes and replicas die, stand still, are cut off, and root starts what must not be: every uid
becomes free, or says truly why not, and what three watchers and the clients were told of each lease is in order."""
import datetime
import os
import random
import threading
import time

import lib
import oracle
from leases import FIRST, Watcher
from nodes import NodesCase

LOST_S = 10  # LostAfter=
# A process of a uid, and a file of it: says the pid, once it is that uid's.
STRAY = '''install -o $1 -g $1 /dev/null $2
setsid setpriv --reuid $1 --regid $1 --clear-groups sleep 1000 </dev/null >/dev/null 2>&1 &
while [ "$(stat -c %u /proc/$! 2>&1)" = 0 ]; do sleep 0.01; done; echo $!'''
# A file that nobody can remove.
PIN = '''mkdir /var/tmp/pinned; mount -t tmpfs none /var/tmp/pinned; touch /var/tmp/pinned/f; chown $1 /var/tmp/pinned/f
mount -o remount,ro /var/tmp/pinned'''
# What is there of a range of uids: processes, files, IPC, slices.
LEFT = r'''
for s in /proc/[0-9]*/task/[0-9]*/status; do
    awk -v f="$s" -v a="$1" -v b="$2" '/^(Uid|Gid|Groups):/ {for (i = 2; i <= NF; i++) if ($i >= a && $i <= b) hit = 1}
        /^State:/ {z = $2} END {if (hit && z != "Z") print f}' "$s" 2>/dev/null
done
find /tmp /var/tmp /dev/shm /dev/mqueue /run /var/spool /var/mail '(' -uid +$(($1 - 1)) -uid -$(($2 + 1)) ')' -o '(' -gid +$(($1 - 1)) -gid -$(($2 + 1)) ')'
awk -v a="$1" -v b="$2" 'FNR > 1 {for (i = 5; i <= 12; i++) if ($i >= a && $i <= b) {print FILENAME, $0; break}}' /proc/sysvipc/*
find /sys/fs/cgroup -type d -name 'xce-[0-9]*'
'''


def wall(text):
    """RFC 3339 as seconds."""
    return datetime.datetime.fromisoformat(text.replace('Z', '+00:00')).timestamp()


class Stray:
    """Started by root under a uid on a node where it is not here; watched until it is gone."""

    def __init__(self, test, node, uid):
        self.test, self.node, self.uid = test, node, uid
        self.file = f'/var/tmp/stray-{uid}-{test.next_number()}'
        self.pid = test.ok(node, 'sh', '-c', STRAY, 'sh', uid, self.file)
        self.since = self.alive = time.time()
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def look(self):
        """Whether it lives. Takes as long as the node stands still."""
        now = time.time()
        try:
            done = self.test.run_in(self.node, 'stat', '-c', '%u', f'/proc/{self.pid}')
        except lib.Error:  # without power
            return True
        if done.stdout.strip() != str(self.uid):
            return False
        self.alive = now
        return True

    def follow(self):
        while self.look():
            time.sleep(0.2)

    def check(self, changes):
        """It was not there any more when its uid became free, if it was there when the lease retired. The file, too; one of a
        uid that is free stays until that is next in line."""
        retired = freed = None
        for line in changes:
            if line['uid'] == self.uid and wall(line['changed']) > self.since:
                retired = retired or line['state'] == 'retired'
                if line['state'] == 'free':
                    freed = freed or (retired and wall(line['changed']))
        self.test.assertFalse(freed and self.alive > freed, f'{self.uid} was free on {self.node} while pid {self.pid} lived')
        if not freed:
            self.test.ok(self.node, 'rm', '-f', self.file)


class Soak(NodesCase):
    range = (FIRST, FIRST + 511)
    pool_options = ('--witnesses', 'all', '--ready-timeout', '30s')
    may_fail = ('failed_precondition', 'resource_exhausted')

    def setUp(self):
        self.seed = int(os.environ.get('XCE_TEST_SEED') or random.randrange(1 << 32))
        self.random = random.Random(self.seed)
        print(f'XCE_TEST_SEED={self.seed} (the faults; the moments are not seeded)', flush=True)
        self.whole()
        self.strays = []

    # ---- faults ----

    def some(self, low, high):
        """Seconds; now and then so long that a node is lost."""
        time.sleep(LOST_S + 3 if lib.LONG and self.random.random() < 0.25 else low + self.random.random() * (high - low))

    def kill_noded(self):
        node = self.random.choice(self.node_names)
        pid = self.main_pid(node, 'noded')
        return f'{node}: kill -9 of noded {pid if pid != "0" and self.run_in(node, "kill", "-9", pid).returncode == 0 else "(not there)"}'

    def kill_replica(self):
        host = self.random.choice(self.names_of)
        self.kill_leased(host)
        self.wait(lambda: self.status(host).get('leader'), 60, f'{host} is back')
        return f'{host}: kill -9 of leased'

    def cut(self):
        host = self.random.choice(self.names_of + self.node_names)
        self.cluster.cut(host, 'all', one_way=self.random.random() < 0.3)
        try:
            self.some(0.3, 2)
        finally:
            self.cluster.heal()
        return f'{host}: cut off'

    def pause(self):
        host = self.random.choice(self.names_of + self.node_names)
        self.cluster.machine(host).freeze(True)
        try:
            self.some(0.3, 2)
        finally:
            self.cluster.machine(host).freeze(False)
        return f'{host}: stood still'

    def power(self):
        node = self.random.choice(self.node_names[1:])  # the clients run on n1
        self.power_off(node)
        self.some(0.1, 1)
        self.boot(node)
        return f'{node}: its power was gone'

    def stray(self):
        """Under a uid that is on its way to be free, or that nobody has, wherever that is."""
        node = self.random.choice(self.node_names)
        ending = [uid for uid, (_, line) in list(self.lives.last.items()) if line['state'] not in ('granted', 'active', 'free')]
        uid = self.random.choice(ending) if ending and self.random.random() < 0.7 else self.random.randrange(self.range[0], self.range[1] + 1)
        self.strays.append(Stray(self, node, uid))
        return f'{node}: a stray of {uid}'

    def restart(self):
        node = self.random.choice(self.node_names)
        self.ok(node, 'systemctl', 'restart', 'noded')
        return f'{node}: noded is restarted'

    def fault(self, kind):
        began = time.monotonic()
        print(f'{began - self.began:.1f}: {kind()}', flush=True)

    def faults(self):
        kinds = [self.kill_noded, self.kill_noded, self.kill_replica, self.cut, self.pause, self.stray, self.stray, self.stray]
        self.began = time.monotonic()
        if not lib.LONG:
            self.random.shuffle(kinds)
            for kind in kinds:
                self.fault(kind)
            return
        kinds += [self.cut, self.pause, self.power, self.restart]
        while time.monotonic() - self.began < 1200:
            self.fault(self.random.choice(kinds))
            time.sleep(self.random.random() * 2)

    # ---- the end ----

    def pinned(self):
        """A lease that has ended, of which a file is left that nobody can remove."""
        lease = self.acquire('--nodes', 'n1')
        self.ok('n1', 'sh', '-ec', PIN, 'sh', lease['uid'])
        self.release(lease)
        return lease

    def all_but(self, lease):
        """Everything is free but that, and it says why."""
        self.wait(lambda: set(self.not_free()) == {lease['lease']}, 120, lambda: f'all others are free: {list(self.not_free().values())[:5]}')
        shown = self.shown(lease)
        self.assertEqual((shown['state'], self.proof(lease, 'n1')), ('draining', 'dirty'))
        # After a while that is overdue, and a stray may have been under its uid, too.
        self.assertIn('dirty', shown['reasons'])
        self.assertLessEqual(set(shown['reasons']), {'dirty', 'overdue', 'stray'})
        detail, cure = self.waits(lease)['member n1']
        self.assertEqual(detail.split(':')[0], 'file')
        self.assertIn('/var/tmp/pinned/f', detail)
        self.assertIn('leasectl node sweep n1', cure)

    def told(self, load):
        """What the clients were told is what the watchers saw."""
        seen, failed = set(), {}
        for e in load.events():
            if e['ev'] == 'acquired':
                self.assertNotIn((e['uid'], e['epoch']), seen, 'given to two requests')
                seen.add((e['uid'], e['epoch']))
                self.assertEqual(self.lives.leases.get(e['lease']), (e['uid'], e['epoch'], e['name']))
            elif e['ev'] == 'failed':
                failed[e['code']] = failed.get(e['code'], 0) + 1
        self.assertLessEqual(set(failed), set(self.may_fail))
        return len(seen), failed

    def nothing_is_left(self):
        for node in self.node_names:
            self.assertEqual(self.ok(node, 'sh', '-c', LEFT, 'sh', *self.range), '', node)
            names = [name for _, _, name in self.lives.leases.values()][-2000:]
            self.assertEqual(self.run_in(node, 'getent', 'passwd', *names).stdout, '', node)

    def in_history(self):
        """Of some uids: each epoch once, one after the other, with the same lease as the watchers saw."""
        for uid in self.random.sample(sorted({uid for uid, _, _ in self.lives.leases.values()}), lib.count(3, 50)):
            rows = self.json('n1', 'leasectl', 'history', '--uid', uid, '--limit', '1000', '--json')['history'][::-1]
            self.assertEqual([row['epoch'] for row in rows], list(range(1, len(rows) + 1)))
            self.assertEqual({row['lease']: (row['uid'], row['epoch'], row['name']) for row in rows},
                             {lease: known for lease, known in self.lives.leases.items() if known[0] == uid})
            for before, after in zip(rows, rows[1:]):
                self.assertLessEqual(wall(before['freed']), wall(after['granted']))

    def test_everything_at_once(self):
        self.lives = oracle.Lives(self)
        watchers = [Watcher(self.cluster, server=f'{c}:7623', take=self.lives.add) for c in self.names_of]
        for watcher in watchers:
            self.addCleanup(watcher.close)
        pinned = self.pinned()
        loads = [self.load(clients=4, pause=lib.count(50, 100), keep=0, nodes=','.join(self.node_names), timeout=5000),
                 self.load(clients=4, pause=1500, keep=0, nodes=','.join(self.node_names), timeout=5000)]
        loads[0].wait_acquired(20)
        self.faults()
        loads[0].wait_acquired(lib.count(100, 10000), lib.count(60, 900))  # on a slow machine that takes longer
        for load in loads:
            load.stop()
        self.whole()
        self.all_but(pinned)
        self.ok('n1', 'umount', '/var/tmp/pinned')
        self.wait_free(pinned)
        self.wait(lambda: not self.json('n1', 'leasectl', 'pool', 'show', 'main', '--json')['blocked'], 90, 'no uid is blocked')
        self.wait(lambda: all(line['state'] == 'free' for _, line in list(self.lives.last.values())), 30, 'the watchers have seen the last end')
        self.lives.check()
        told = [self.told(load) for load in loads]
        for stray in self.strays:
            stray.thread.join(60)
            self.assertFalse(stray.thread.is_alive(), f'{stray.node}: pid {stray.pid} of {stray.uid} lives')
            stray.check(self.changes_in_order)
        self.nothing_is_left()
        self.in_history()
        self.equal()
        print(f'{len(self.lives.leases)} leases, {len(self.lives.changes)} changes, {self.lives.skipped} times skipped; clients: {told}; '
              f'strays lived for {max(s.alive - s.since for s in self.strays):.1f} s at most')
        self.assertGreater(sum(n for n, _ in told), lib.count(100, 10000))

    @property
    def changes_in_order(self):
        return [line for _, line in sorted(self.lives.changes.items())]


lib.main()
