#!/usr/bin/python3
"""Nodes that fail: power lost in the middle of a lease, state wiped, never back, back although sworn off, replaced, noded killed."""
import json
import shutil

import lib
import oracle
from leases import FIRST, Watcher
from replicas import ReplicasCase

WHY = 'its power supply lies on my desk'
# root starts something under a uid again and again, from the boot of the machine on.
AGAIN = '''[Service]
ExecStart=/bin/sh -c 'while :; do setpriv --reuid {uid} --clear-groups sleep 1000; done'
[Install]
WantedBy=multi-user.target
'''


class NodesCase(ReplicasCase):
    nodes = 3
    range = (FIRST, FIRST + 255)

    @classmethod
    def prepare(cls):
        cls.cluster.leased_settings = 'Heartbeat = 500ms\nLostAfter = 5s\nGrace = 2s\n'

    def run(self, result=None):
        bad = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > bad:
            print(self.journals(), *(f'--- {n}\n{self.journal(n, "noded", 40)}' for n in ('n2', 'n3')
                                     if self.cluster.machine(n).running() and not self.cluster.machine(n).frozen()), sep='\n', flush=True)
        return result

    def whole(self):
        super().whole()
        for name in ('n1', 'n2', 'n3'):
            if not self.cluster.machine(name).populated():
                self.power_on(name)
            elif self.cluster.machine(name).frozen():
                self.cluster.machine(name).freeze(False)
        self.wait_state('ready', 'n1', 'n2', 'n3', seconds=60)

    # ---- what leased says ----

    def node(self, name):
        """As node list shows it; {} when it does not."""
        nodes = self.json('n1', 'leasectl', 'node', 'list', '--json')['nodes']
        return next((n for n in nodes if n['node'] == name), {})

    def wait_state(self, state, *names, seconds=30):
        self.wait(lambda: all(self.node(n).get('state') == state for n in names), seconds,
                  lambda: f'{names} are {state}: {[self.node(n) for n in names]}')

    def shown(self, lease):
        return self.json('n1', 'leasectl', 'show', '--lease', lease['lease'], '--json')

    def proof(self, lease, node):
        return next(m['proof'] for m in self.shown(lease)['members'] if m['node'] == node)

    def waits(self, lease):
        """What explain says that it waits for: what, detail and cure of each."""
        waits = self.json('n1', 'leasectl', 'explain', '--lease', lease['lease'], '--json')['waits']
        return {w['what']: (w['detail'], w['cure']) for w in waits}

    def refused(self, node, why):
        done = self.run_in('n1', 'leasectl', 'acquire', '--pool', 'main', '--nodes', node, '--job', f'refused-{self.next_number()}')
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(f'node {node} is {why}', done.stderr)

    def held_by(self, lease, node):
        """Its uid is held, for that node alone, and explain says what one can do."""
        shown = self.shown(lease)
        self.assertEqual((shown['state'], shown['cause'], shown['reasons']), ('draining', 'member-lost', ['member-lost']))
        waits = self.waits(lease)
        self.assertEqual(list(waits), [f'member {node}'])
        detail, cure = waits[f'member {node}']
        self.assertEqual(detail, 'node is lost')
        self.assertIn(f'leasectl node fence {node}', cure)

    # ---- what is on a node ----

    def hold(self, lease, *nodes):
        """A process and a file of it on these nodes."""
        for node in nodes:
            self.ok(node, 'systemd-run', '-q', '-p', f'User={lease["name"]}', '--slice', f'xce-{lease["uid"]}-{lease["epoch"]}.slice',
                    'sleep', '1000')
            self.ok(node, 'install', '-o', lease['uid'], '-g', lease['uid'], '/dev/null', f'/var/tmp/of-{lease["name"]}')

    def power_off(self, *names):
        for name in names:
            self.cluster.machine(name).kill()

    def boot(self, *names):
        for name in names:
            self.cluster.machine(name).start()
        for name in names:
            self.cluster.machine(name).wait_booted()

    def disk(self, name):
        """Where the files of a machine without power are."""
        return f'{self.cluster.disk}/{name}/upper'


class Nodes(NodesCase):
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
        self.assertIn('this one is still heard', done.stderr)

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
        self.ok('n3', 'systemctl', 'stop', 'noded')
        self.addCleanup(self.wait_state, 'ready', 'n3')
        self.addCleanup(self.ok, 'n3', 'systemctl', 'start', 'noded')
        self.forget('n3')
        self.assertEqual(self.node('n3'), {})

    def forget(self, name):
        done = None

        def forgotten():
            nonlocal done
            done = self.run_in('n1', 'leasectl', 'node', 'forget', name, '--reason', 'it went')
            return done.returncode == 0

        self.wait(forgotten, 20, lambda: f'{name} is forgotten: {done}')


lib.main()
