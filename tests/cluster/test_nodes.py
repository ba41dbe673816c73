#!/usr/bin/python3
"""Nodes that fail: power lost in the middle of a lease, state wiped, never back, back although sworn off, replaced, noded killed."""
import json
import os
import random
import shutil
import time

import lib
import oracle
from leases import FIRST, Watcher
from nodes import NodesCase

WHY = 'its power supply lies on my desk'
# root starts something under a uid again and again, from the boot of the machine on.
AGAIN = '''[Service]
ExecStart=/bin/sh -c 'while :; do setpriv --reuid {uid} --clear-groups sleep 1000; done'
[Install]
WantedBy=multi-user.target
'''
# Its manager is executed anew and its bus restarted, again and again.
DISTURB = 'while :; do systemctl daemon-reexec; sleep 0.3; systemctl restart dbus; sleep 0.3; done'
# What a job leaves without a sandbox: a process of its own session, files, shared memory.
LITTER = 'touch /tmp/of-$1 /var/tmp/of-$1 /dev/shm/of-$1; ipcmk -M 4096 >/dev/null; setsid sleep 1000 </dev/null >/dev/null 2>&1 &'


class Nodes(NodesCase):
    pool_options = ('--ready-timeout', '60s')

    def setUp(self):
        self.whole()
        self.watcher = Watcher(self.cluster)
        self.addCleanup(self.watcher.close)

    def lives(self, *leases):
        """All that was told of them was in order."""
        self.wait(lambda: all(self.watcher.states(lease['lease'])[-1:] == ['free'] for lease in leases), 10, 'the watcher saw their end')
        oracle.Lives(self, self.watcher.lines).check()

    def test_two_lose_their_power_and_come_back(self):
        """One of them has lost its disk, too. What is of them is held until they have looked, and what is elsewhere is not."""
        both, kept, wiped = [self.acquire('--nodes', n) for n in ('n[1-2]', 'n2', 'n3')]
        self.hold(both, 'n1', 'n2')
        self.hold(kept, 'n2')
        self.hold(wiped, 'n3')
        self.ok('n2', 'sh', '-ec', 'cat >/etc/systemd/system/again.service; systemctl -q enable again', input=AGAIN.format(uid=self.range[1]))
        self.power_off('n2', 'n3')
        self.wait_state('lost', 'n2', 'n3')
        self.wait(lambda: self.proof(both, 'n1') == 'clean', 10, lambda: f'n1 is clean:\n{self.explain(both)}')
        self.assertEqual(self.remains(both['uid'], 'n1'), [])
        for lease, node in ((both, 'n2'), (kept, 'n2'), (wiped, 'n3')):
            self.held_by(lease, node)
        self.refused('n2', 'lost')
        shutil.rmtree(f'{self.disk("n3")}/var/lib/xce/noded')
        self.boot('n2', 'n3')
        # Something runs there that must not: no pass of it is clean, and it may have any uid.
        self.wait(lambda: 'witness n2' in self.waits(kept), 30, lambda: f'n2 alone is waited for:\n{self.explain(kept)}')
        self.assertEqual((self.node('n2')['state'], self.state(kept)), ('unknown', 'retired'))
        self.refused('n2', 'unknown')
        self.assertEqual(self.remains(kept['uid'], 'n2'), [])
        self.ok('n2', 'systemctl', '-q', 'disable', '--now', 'again')
        self.wait_state('ready', 'n2', 'n3')
        for node in ('n2', 'n3'):
            boot_id = self.ok(node, 'cat', '/proc/sys/kernel/random/boot_id').replace('-', '')
            self.assertEqual(self.node(node)['boot_id'], boot_id, 'of its own boot, not of the kernel that all of them share')
        for lease, nodes in ((both, ('n1', 'n2')), (kept, ('n2',)), (wiped, ('n3',))):
            self.wait_free(lease)
            for node in nodes:
                self.assertEqual(self.remains(lease['uid'], node), [])
        self.lives(both, kept, wiped)
        self.release(self.acquire('--nodes', 'n[1-3]'))

    def alarms(self, text):
        """What any leased has said of that as an error."""
        return [line for host in self.names_of for line in self.ok(host, 'journalctl', '-u', 'leased', '-p', 'err', '-o', 'cat').splitlines()
                if text in line]

    def audited(self, method, **fields):
        lines = [json.loads(line) for host in self.names_of for line in self.ok(host, 'cat', '/var/lib/xce/leased/audit.log').splitlines()]
        return [line for line in lines if line['method'] == method and fields.items() <= line.items()]

    def fence(self, node):
        before = self.node(node)
        done = self.run_in('n1', 'leasectl', 'node', 'fence', node, '--reason', WHY, '--json')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f'machine {before["machine_id"]}, boot {before["boot_id"]} is sworn', done.stderr)
        fenced = json.loads(done.stdout)
        self.assertEqual((fenced['state'], fenced['reason'], fenced['actor']), ('fenced', WHY, 'user:root'))
        line, = self.audited('NodeService/Fence', node=node, outcome='OK')
        self.assertEqual((line['reason'], line['name']), (WHY, 'root'))

    def test_one_never_comes_back_and_one_was_not_off(self):
        self.make_pool('slow', FIRST + 4096, FIRST + 4099, '--cooldown', '10m')
        self.fence_refused()
        never = self.acquire('--nodes', 'n2')
        gone, cooling = self.acquire('--nodes', 'n3'), self.acquire('--nodes', 'n3', pool='slow')
        self.hold(never, 'n2')
        self.hold(gone, 'n3')
        self.hold(cooling, 'n3')
        self.power_off('n2')
        self.cluster.machine('n3').freeze(True)
        self.wait_state('lost', 'n2', 'n3')
        # Another machine has its place: it is not let in for the old one's name.
        machine = self.node('n2')['machine_id']
        with open(f'{self.disk("n2")}/etc/machine-id', 'w', encoding='utf-8') as f:
            f.write(f'{machine[::-1]}\n')
        self.boot('n2')
        self.wait(lambda: f'machine {machine[::-1]} can take the name when that one is fenced' in self.journal('n2', 'noded'), 20, 'n2 is refused')
        for lease, node in ((never, 'n2'), (gone, 'n3'), (cooling, 'n3')):
            self.held_by(lease, node)
        self.fence('n2')
        self.fence('n3')
        for lease in (never, gone):
            self.wait_free(lease)
            row, = self.json('n1', 'leasectl', 'history', '--lease', lease['lease'], '--json')['history']
            self.assertEqual((row['cause'], bool(row['freed'])), ('member-lost', True))
        self.assertEqual((self.state(cooling), self.proof(cooling, 'n3')), ('cooling', 'fenced'))
        self.wait_state('ready', 'n2')
        self.assertEqual(self.node('n2')['machine_id'], machine[::-1])
        self.assertEqual(self.remains(never['uid'], 'n2'), [])
        self.it_was_not_off(gone, cooling)
        self.lives(never, gone)

    def it_was_not_off(self, gone, cooling):
        """What was proved by the oath is not: it is quarantined, or blocked if it was free, and people are told."""
        self.cluster.machine('n3').freeze(False)
        self.wait(lambda: any('oath-broken' in line['reasons'] for line in list(self.watcher.lines) if line.get('lease') == cooling['lease']), 20,
                  lambda: f'the lease is quarantined:\n{self.explain(cooling)}')
        self.wait(lambda: self.state(cooling) == 'cooling', 20, lambda: f'n3 proves it:\n{self.explain(cooling)}')
        self.assertEqual(self.proof(cooling, 'n3'), 'clean')
        self.wait_state('ready', 'n3')
        self.assertEqual(self.remains(cooling['uid'], 'n3') + self.remains(gone['uid'], 'n3'), [])
        blocked, = self.json('n1', 'leasectl', 'pool', 'show', 'main', '--json')['blocked']
        self.assertEqual((blocked['uid'], blocked['reason']), (gone['uid'], 'oath'))
        self.assertIn(f'swore that node n3, boot {self.node("n3")["boot_id"]}, is off; that boot is alive', self.waits_of_uid(gone)[0])
        self.assertIn('1 uids are blocked', self.run_in('n1', 'leasectl', 'doctor').stdout)
        for text in ('blocked: the uid was freed because user:root swore', 'quarantined: oath-broken: a machine that was sworn to be off speaks'):
            self.assertEqual(len(self.alarms(text)), 1, text)
        self.ok('n1', 'leasectl', 'pool', 'unblock', 'main', gone['uid'], '--reason', 'I have looked')
        self.assertIn('is free', self.ok('n1', 'leasectl', 'explain', gone['uid']))

    def waits_of_uid(self, lease):
        return [w['detail'] for w in self.json('n1', 'leasectl', 'explain', lease['uid'], '--json')['waits']]

    def fence_refused(self):
        done = self.run_in('n1', 'leasectl', 'node', 'fence', 'n2', '--reason', WHY)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, 'only one that is lost can be fenced; last heard of: [0-9]')

    def test_drain_cordon_forget(self):
        lease = self.acquire('--nodes', 'n3')
        self.hold(lease, 'n3')
        self.ok('n1', 'leasectl', 'node', 'drain', 'n3', '--reason', 'new disks')
        self.refused('n3', 'draining')
        self.assertEqual((self.state(lease), self.node('n3')['drained']), ('active', False))
        self.assertEqual(len(self.processes(lease['uid'], 'n3')), 1)
        self.release(lease)
        self.wait(lambda: self.node('n3')['drained'], 20, 'n3 is drained')
        self.ok('n1', 'leasectl', 'node', 'undrain', 'n3')
        self.ok('n1', 'leasectl', 'node', 'cordon', 'n3', '--reason', 'it is loud')
        self.refused('n3', 'cordoned')
        self.ok('n1', 'leasectl', 'node', 'drain', 'n3', '--reason', 'it goes')
        # Its noded still runs, and says hello as a node that nobody knows.
        self.forget('n3')
        self.wait_state('ready', 'n3')
        self.assertEqual((self.node('n3')['reason'], self.node('n3')['leases']), ('', 0))
        # As one does it.
        self.ok('n1', 'leasectl', 'node', 'drain', 'n3', '--reason', 'it goes')
        drained = self.node('n3')['revision']
        self.wait(lambda: self.node('n3')['watermark'] >= drained, 20, 'n3 has been looked through')
        self.ok('n3', 'systemctl', 'stop', 'noded')
        self.addCleanup(self.ok, 'n3', 'systemctl', 'start', 'noded')
        self.forget('n3')
        self.assertEqual(self.node('n3'), {})
        # What became free meanwhile is told to it all the same when it is back, and is not what its passes are about.
        lease = self.acquire('--nodes', 'n1')
        self.release(lease)
        self.wait_free(lease)
        self.ok('n3', 'install', '-o', lease['uid'], '/dev/null', '/var/tmp/of-nobody')
        self.ok('n3', 'systemctl', 'start', 'noded')
        self.wait_state('ready', 'n3')

    def forget(self, name):
        done = None

        def forgotten():
            nonlocal done
            done = self.run_in('n1', 'leasectl', 'node', 'forget', name, '--reason', 'it went')
            return done.returncode == 0

        self.wait(forgotten, 20, lambda: f'{name} is forgotten: {done}')

    def kill_within(self, seconds):
        time.sleep(self.random.random() * seconds)
        # systemctl has no answer while its manager is executed anew.
        pid = self.run_in('n1', 'pgrep', '-o', '-x', '-P', '1', 'noded').stdout.strip()
        self.kills += bool(pid) and self.run_in('n1', 'kill', '-9', pid).returncode == 0

    def while_killed(self, *words):
        """leasectl, while noded is killed; asked again as long as n1 has not been looked through. What it printed."""
        for _ in range(50):
            asked = self.cluster.start_in('n1', 'leasectl', '--timeout', '60s', *words, stdout=-1, stderr=-1)
            self.kill_within(0.3)
            out, err = asked.communicate(timeout=90)
            if asked.returncode == 0:
                return out
            self.assertRegex(err + out, 'node n1 is (unknown|lost)')
            self.wait_state('ready', 'n1', seconds=90)  # a pass in which systemd does not answer is not clean
        return self.fail(f'{words}: {err}')

    def one(self):
        lease = json.loads(self.while_killed('acquire', '--pool', 'main', '--nodes', 'n1', '--job', f'killed-{self.next_number()}', '--wait',
                                             '--json'))
        self.assertEqual((lease['state'], lease['members'][0]['proof']), ('active', 'ready'))
        self.assertEqual(self.names(lease['uid'])[0], lease['name'], 'READY was said, so it has a name')
        self.wait(lambda: self.run_in('n1', 'systemd-run', '-q', '--wait', '-p', f'User={lease["name"]}', '-p', 'KillMode=none', '--slice',
                                      f'xce-{lease["uid"]}-{lease["epoch"]}.slice', 'sh', '-c', LITTER, 'sh', lease['uid']).returncode == 0,
                  20, 'a job has run')
        self.while_killed('release', '--lease', lease['lease'])
        return lease

    def test_slice_that_systemd_has_forgotten(self):
        """It can forget one over a daemon-reexec, but for its folder."""
        lease = self.acquire('--nodes', 'n1')
        slice_ = f'/sys/fs/cgroup/xce.slice/xce-{lease["uid"]}.slice/xce-{lease["uid"]}-{lease["epoch"]}.slice'
        self.ok('n1', 'mkdir', '-p', f'{slice_}/run-u1.service')
        self.release(lease)
        self.wait_free(lease)
        self.assertEqual(self.run_in('n1', 'ls', '-d', os.path.dirname(slice_)).stdout, '')

    def test_noded_is_killed_during_acquire_and_release(self):
        """At any moment of them, in a machine whose systemd and bus are not left alone either."""
        seed = int(os.environ.get('XCE_TEST_SEED') or random.randrange(1 << 32))
        print(f'XCE_TEST_SEED={seed} (the moments)', flush=True)
        self.random, self.kills = random.Random(seed), 0
        kept = self.acquire('--nodes', 'n1')
        self.hold(kept, 'n1')
        pids = self.processes(kept['uid'])
        disturb = self.cluster.start_in('n1', 'sh', '-c', DISTURB, stdout=-3, stderr=-3)
        self.addCleanup(lambda: (disturb.kill(), disturb.wait()))
        leases = []
        while self.kills < lib.count(10, 200):
            leases.append(self.one())
            self.assertEqual(self.state(kept), 'active')
        disturb.kill()
        self.assertEqual((self.processes(kept['uid']), self.names(kept['uid'])[0]), (pids, kept['name']))
        self.release(kept)
        for lease in (kept, *leases):
            self.wait_free(lease)
        print(f'{self.kills} kills, {len(leases)} leases', flush=True)
        self.wait_state('ready', 'n1')
        for uid in {lease['uid'] for lease in leases}:
            self.assertEqual(self.remains(uid), [])
            self.assertIsNone(self.names(uid))
        self.wait(lambda: self.ok('n1', 'systemctl', 'list-units', '--all', '--plain', '--no-legend', 'xce-[0-9]*') == '', 20, 'no unit is left')
        self.assertEqual(self.ok('n1', 'systemctl', 'list-units', '--failed', '--plain', '--no-legend'), '')
        self.wait(lambda: self.watcher.states(leases[-1]['lease'])[-1:] == ['free'], 10, 'the watcher saw the last end')
        oracle.Lives(self, self.watcher.lines).check()


lib.main()
