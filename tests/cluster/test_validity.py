#!/usr/bin/python3
"""Nodes that leased can not reach end what is here by their own clocks, whatever has become of their noded; nothing acts under the
old epoch when they are back; and who shared a lease with one of them is cleaned at once."""
import struct
import time

import lib
from leases import LeaseCase

VALIDITY = 30
# What is promised beyond it; the tests ask for less.
LATE = 30
HEARD_AT = 2072  # in the map: xce/map.h

# Seconds of the machine's boot clock when the uid's last process has gone; and when a look had ended that took long, and how much
# longer than on a machine that is not busy: for so long everything stood still there.
GONE = r'''
import os, sys, time
uid = sys.argv[1]
def lives():
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/status") as f:
                lines = dict(line.split(":", 1) for line in f)
        except OSError:
            continue
        if uid in lines["Uid"].split() and not lines["State"].lstrip().startswith("Z"):
            return True
    return False
def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)
stood, before = [], now()
while lives():
    time.sleep(0.05)
    took, before = now() - before, now()
    if took > 0.3:
        stood += [before, took - 0.3]
print(now(), *stood, flush=True)
'''
# A provider of users that takes a question and never answers: a directory behind the cut.
HANGS = r'''
import os, socket, sys, time
os.makedirs("/run/systemd/userdb", exist_ok=True)
s = socket.socket(socket.AF_UNIX)
s.bind("/run/systemd/userdb/io.hangs")
s.listen(1000)
print("ok", flush=True)
time.sleep(1000)
'''


class Validity(LeaseCase):
    controllers = 1
    nodes = 3
    pool_options = ('--validity', f'{VALIDITY}s')

    @classmethod
    def prepare(cls):
        cls.cluster.leased_settings = 'Heartbeat = 500ms\nLostAfter = 8s\n'

    def setUp(self):
        for node in ('n1', 'n2', 'n3'):
            self.wait(lambda n=node: self.node_state(n) == 'ready', 60, lambda n=node: f'{n} is ready:\n{self.journal(n, "noded")}')

    def job(self, lease, node, beside=True):
        """What a lease runs there: below its slice, in a session of its own; and (beside) what root has put elsewhere."""
        uid, name = lease['uid'], lease['name']
        self.ok(node, 'systemd-run', '-q', '--slice', f'xce-{uid}-{lease["epoch"]}.slice', '--unit', f'job-{uid}', '-p', f'User={name}',
                'sh', '-c', 'setsid sleep 1000 & exec sleep 1000')
        if beside:
            self.ok(node, 'systemd-run', '-q', '--unit', f'beside-{uid}', '-p', f'User={name}', 'sleep', '1000')
        self.wait(lambda: len(self.processes(uid, node)) >= 2 + beside, 10, 'it runs')
        watcher = self.cluster.start_in(node, '/usr/bin/python3', '-c', GONE, uid, stdout=-1)
        self.addCleanup(watcher.wait)
        self.addCleanup(watcher.stdout.close)
        self.addCleanup(watcher.kill)
        return watcher

    def clock(self, node):
        return float(self.ok(node, 'cut', '-d', ' ', '-f1', '/proc/uptime'))

    def deadline(self, node):
        """Of that machine's boot clock: what noded keeps in /run, and validity."""
        done = self.cluster.run(node, 'dd', 'if=/run/xce/uidmap', 'bs=1', f'skip={HEARD_AT}', 'count=8', 'status=none', 'conv=noerror',
                                errors='surrogateescape', encoding='latin-1')
        return struct.unpack('<Q', done.stdout.encode('latin-1'))[0] / 1000 + VALIDITY

    def cut(self, node):
        """The deadline does not move any more; it is noted by noded within a second."""
        self.cluster.cut(node, 'all')
        time.sleep(1.5)  # what was on its way
        return self.deadline(node)

    def gone(self, watcher, node, deadline, least=0):
        """It ended not before the deadline; how late, without what the machine stood still in that time."""
        self.wait(lambda: watcher.poll() is not None, VALIDITY + 2 * LATE, lambda: f'{node}: the end:\n{self.journal(node, "noded")}')
        ended, *stood = map(float, watcher.stdout.read().split())
        late = ended - deadline
        still = sum(seconds for at, seconds in zip(stood[::2], stood[1::2]) if at > deadline)
        print(f'{node}: {late:.1f} s after the deadline, in which the machine stood still for {still:.1f} s', flush=True)
        self.assertGreater(late, least, f'{node}: it ended early')
        return late - still

    def stop_after_a_beat(self, node, deadline):
        """SIGSTOP to noded, as late before the deadline as a beat of its watchdog allows: a whole patience is left to it."""
        def beat():
            return int(self.ok(node, 'systemctl', 'show', '-P', 'WatchdogTimestampMonotonic', 'noded'))

        self.assertEqual(self.ok(node, 'systemctl', 'show', '-P', 'WatchdogUSec', 'noded'), '10s')
        self.wait(lambda: self.clock(node) > deadline - 5.5, VALIDITY, 'the last beats')
        before = beat()
        self.wait(lambda: beat() != before, 10, 'another beat')
        self.ok(node, 'systemctl', 'kill', '--kill-whom=main', '--signal=STOP', 'noded')
        print(f'{node}: noded is stopped {deadline - self.clock(node):.1f} s before the deadline', flush=True)

    def break_noded(self, node):
        """It is killed, and can not start again."""
        self.ok(node, 'sh', '-c', 'echo "[noded]\nNonsense = 1" >/etc/xce/noded.conf.d/broken.conf && systemctl kill -s KILL noded')
        deadline = self.deadline(node)
        self.wait(lambda: self.ok(node, 'systemctl', 'show', '-P', 'NRestarts', 'noded') > '1', 20, 'it fails to start')
        return deadline

    def mend_noded(self, node):
        self.ok(node, 'sh', '-c', 'rm -f /etc/xce/noded.conf.d/broken.conf && systemctl restart noded')

    def member(self, lease, node):
        shown = self.json('n1', 'leasectl', 'show', '--lease', lease['lease'], '--json')
        return next(m for m in shown['members'] if m['node'] == node)

    def dies(self, lease, node):
        """What begins once the end has been, the node still away or its noded broken."""
        # It may be over before anybody sees it: what has become of it is systemd's to say.
        again = self.run_in(node, 'timeout', '60', 'systemd-run', '--wait', '-p', f'User={lease["uid"]}', 'sleep', '1000')
        self.assertRegex(again.stderr, 'code=killed/status=(KILL|TERM)', f'{node}: it dies:\n{self.journal(node, "noded")}')
        self.assertEqual(self.processes(lease['uid'], node), [])

    def becomes_free(self, lease, node):
        self.wait_free(lease, 90)
        self.assertEqual(self.remains(lease['uid'], node), [])
        self.assertIsNone(self.names(lease['uid'], node))

    def test_cut_stopped_and_broken(self):
        shared = self.acquire('--nodes', 'n1,n2')
        alone = {node: self.acquire('--nodes', node) for node in ('n1', 'n3')}
        other = self.job(shared, 'n1')
        cut = self.job(shared, 'n2')
        stopped = self.job(alone['n3'], 'n3', beside=False)
        broken = self.job(alone['n1'], 'n1')
        hangs = self.cluster.start_in('n3', '/usr/bin/python3', '-c', HANGS, stdout=-1)
        self.addCleanup(hangs.wait)
        self.addCleanup(hangs.stdout.close)
        self.addCleanup(hangs.kill)
        self.assertEqual(hangs.stdout.readline(), 'ok\n')
        self.addCleanup(self.cluster.heal)
        deadlines = {node: self.cut(node) for node in ('n2', 'n3')}

        # Who shared the lease does not wait for anybody's validity.
        self.wait(lambda: other.poll() is not None, 10, lambda: f'the other member ends it:\n{self.explain(shared)}')
        self.wait(lambda: self.member(shared, 'n1')['proof'] == 'clean', 10, lambda: self.explain(shared))
        self.assertLess(self.clock('n2'), deadlines['n2'])
        self.assertIsNone(cut.poll())
        self.addCleanup(self.mend_noded, 'n1')
        deadlines['n1'] = self.break_noded('n1')

        self.stop_after_a_beat('n3', deadlines['n3'])
        self.assertLess(self.gone(cut, 'n2', deadlines['n2']), 5)
        self.assertLess(self.gone(stopped, 'n3', deadlines['n3']), 20)
        self.assertLess(self.gone(broken, 'n1', deadlines['n1']), 28)
        self.assertEqual(self.state(shared), 'draining', 'held for who is away')

        hangs.kill()
        self.ok('n3', 'rm', '/run/systemd/userdb/io.hangs')
        ended = ((shared, 'n2'), (alone['n3'], 'n3'), (alone['n1'], 'n1'))
        for lease, node in ended:
            self.dies(lease, node)
        self.mend_noded('n1')
        self.cluster.heal()
        for lease, node in ended:
            self.becomes_free(lease, node)


lib.main()
