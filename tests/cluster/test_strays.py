#!/usr/bin/python3
"""Whatever root starts under a uid that is not here, on a member and on a node that only mirrors the name, in every state of a lease: it
is dead at the guard's next pass, the uid is not free before that, and who has a right to be there is not touched."""
import concurrent.futures
import time

import lib
from leases import FIRST, LeaseCase, Watcher

GUARD = 2  # seconds between two passes
HOSTS = ('n1', 'n2')
INSTALL = r'''set -e
    tar -C "$1" -c . | tar -C / -x --numeric-owner --keep-directory-symlink
    echo 0 >/var/spool/cron/atjobs/.SEQ
    chown -R daemon:daemon /var/spool/cron/atjobs /var/spool/cron/atspool
    useradd -m alice
    mkdir -m 1777 /run/marks
    printf '#!/bin/sh\n: >"/run/marks/$1"\nexec sleep 1000\n' >/usr/local/bin/stray
    chmod 755 /usr/local/bin/stray
    systemctl daemon-reload
    systemctl start atd'''
# How root starts something under a uid. Each line of stdin: the uid, its name or -, a word that tells this one from others.
START = r'''while read -r uid name key; do
        systemd-run -q --uid "$uid" --unit "run-$key" stray "run-$key"
        systemd-run -q --uid "$uid" --unit "timer-$key" --on-active=0 --on-unit-inactive=1 --timer-property=AccuracySec=1ms \
            stray "timer-$key"
        setsid setpriv --reuid "$uid" --regid "$uid" --clear-groups stray "setpriv-$key" </dev/null >/dev/null 2>&1 &
        setsid runuser -u "$name" -- stray "runuser-$key" </dev/null >/dev/null 2>&1 &
        echo "exec setpriv --reuid $uid --regid $uid --clear-groups stray at-$key" | at -M now 2>/dev/null
    done'''
WAYS = ('run', 'timer', 'setpriv', 'runuser', 'at')
NAMELESS = ('setpriv', 'at')  # what starts without asking whose the number is


class Strays(LeaseCase):
    controllers = 1
    nodes = 2
    range = (FIRST, FIRST + 1023)
    cooldown = '1s'
    pool_options = ('--ready-timeout', '10m')  # what waits for a node that is away stays granted

    @classmethod
    def prepare(cls):
        cls.cluster.leased_settings = 'LostAfter = 10m\n'  # a node that is away is waited for
        cls.cluster.noded_settings = f'Guard = {GUARD}s\nGuardIdle = {GUARD}s\n'

    @classmethod
    def setUpClass(cls):
        package = lib.unpacked('at')
        super().setUpClass()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for done in pool.map(lambda host: cls.cluster.run(host, 'sh', '-c', INSTALL, 'sh', package), HOSTS):
                assert done.returncode == 0, done.stderr
        cls.make_pool('slow', FIRST + 1024, FIRST + 2047, '--cooldown', '10m')

    def setUp(self):
        self.watcher = Watcher(self.cluster)
        self.addCleanup(self.watcher.close)

    def lease(self, *nodes, pool='main', wait=True):
        return self.acquire('--nodes', ','.join(nodes), '--ttl', 'none', pool=pool, wait=wait)

    # ---- what root does ----

    def start(self, host, targets):
        """Each way, for each (uid, name or -), until all that can start have run: a pass may end one before it has left its mark.
        A uid is used so once on each node."""
        missing = {(way, uid) for uid, name in targets for way in WAYS if name != '-' or way in NAMELESS}

        def started():
            self.start_once(host, [(uid, name) for uid, name in targets if any(uid == u for _, u in missing)])
            end = time.monotonic() + 2 * GUARD
            while missing and time.monotonic() < end:
                missing.difference_update({(way, int(uid)) for way, _, uid in (mark.split('-') for mark in self.marks(host))})
            return not missing

        self.wait(started, 60, lambda: f'{host}: {missing} start')

    def start_once(self, host, targets):
        key = self.next_number()
        self.ok(host, 'sh', '-c', START, input=''.join(f'{uid} {name} {key}-{uid}\n' for uid, name in targets))

    def start_all(self, targets):
        """targets: host -> list of (uid, name)."""
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda host: self.start(host, targets[host]), targets))

    def marks(self, host):
        return self.ok(host, 'ls', '/run/marks').split()

    # ---- what is there ----

    def running(self, host):
        """Uids of the pools under which something runs there, or a timer waits."""
        units = self.ok(host, 'systemctl', 'list-units', '--no-legend', '--plain', 'timer-*.timer').split()
        timers = {int(unit.removesuffix('.timer').split('-')[2]) for unit in units if unit.startswith('timer-')}
        return set(self.processes_between(FIRST, FIRST + 2047, host)) | {uid for uid in timers if uid >= FIRST}

    def leases(self):
        return {lease['uid']: lease for lease in self.json('n1', 'leasectl', 'list', '--all', '--json')['leases']}

    def wait_dead(self, hosts, uids, but=()):
        """Until nothing of these runs there any more. None of them is free meanwhile that was not free before."""
        held = set(self.leases()) & set(uids)
        began = time.monotonic()

        def dead():
            free = held - set(self.leases())
            left = {(host, uid) for host in hosts for uid in self.running(host) & set(uids)} - set(but)
            self.assertFalse({(host, uid) for host, uid in left if uid in free}, 'free under what runs')
            return not left

        self.wait(dead, 10 * GUARD, lambda: f'the strays die: {[(host, self.running(host)) for host in hosts]}')
        print(f'dead after {time.monotonic() - began:.1f} s', flush=True)

    def reopen(self, host, lease):
        """By strays there. What comes into a sweep that has not ended yet goes with it, and is nobody's stray."""
        def times():
            return self.watcher.states(lease['lease']).count('draining')

        before = times()

        def reopened():
            self.start_once(host, [(lease['uid'], '-')])
            end = time.monotonic() + 3 * GUARD
            while times() == before and time.monotonic() < end:
                time.sleep(0.1)
            return times() > before

        self.wait(reopened, 60, lambda: f'it is reopened: {self.explain(lease)}')

    def state_of(self, lease):
        return self.leases().get(lease['uid'], {'state': 'free', 'reasons': []})

    def freed_and_reopened(self, lease, *nodes):
        """It went back to draining, with those nodes among its members, before it was free."""
        self.wait(lambda: 'free' in self.watcher.states(lease['lease']), 60, lambda: self.explain(lease))
        states = self.watcher.states(lease['lease'])
        self.assertIn('draining', states[states.index('cooling'):], f'it is reopened: {states}')
        seen = [line for line in self.watcher.lines if line.get('lease') == lease['lease']]
        self.assertTrue(any('stray' in line['reasons'] for line in seen), 'quarantined: stray')
        steps = [(line['state'], line['nodes'], line['reasons']) for line in seen]
        self.assertLessEqual(set(nodes), set(seen[-1]['nodes']), f'{steps}\n{self.journal("n2", "noded")}')

    def blocked(self):
        return {entry['uid']: entry for entry in self.json('n1', 'leasectl', 'pool', 'show', 'main', '--json')['blocked']}

    # ---- the tests ----

    def test_1_with_all_nodes(self):
        active, dirty, gone = (self.lease('n1') for _ in range(3))
        cooling = self.lease('n1', pool='slow')
        for lease in (gone, cooling):
            self.release(lease, '--wait=clean')
        self.wait_free(gone)
        self.ok('n1', 'sh', '-c', f'mkdir /tmp/top && mount -t tmpfs none /tmp/top && chown {dirty["uid"]} /tmp/top')
        self.release(dirty)
        self.wait(lambda: self.state_of(dirty)['reasons'] == ['dirty'], 20, lambda: self.explain(dirty))
        never, account = self.range[1], self.range[1] - 1
        # An account of n2's own, and ordinary users, run in the same ways.
        self.ok('n2', 'sh', '-c', f'echo somebody:x:{account}:100::/:/bin/sh >>/etc/passwd')
        alice = (int(self.ok('n1', 'id', '-u', 'alice')), 'alice')
        self.start_all({'n1': [alice, (active['uid'], active['name'])], 'n2': [alice, (account, 'somebody')]})
        self.wait(lambda: account in self.blocked(), 20, 'the uid of the account is blocked')
        before = self.everybodys(active, account, alice[0])

        both = [(lease['uid'], lease['name']) for lease in (dirty, cooling)] + [(uid, '-') for uid in (gone['uid'], never)]
        self.start_all({'n1': [*both, (account, '-')], 'n2': [*both, (active['uid'], active['name'])]})
        uids = [uid for uid, _ in both] + [account, active['uid']]
        self.wait_dead(HOSTS, uids, but=(('n1', active['uid']), ('n2', account)))

        self.all_there(before, self.everybodys(active, account, alice[0]))
        self.assertEqual(self.state_of(active)['state'], 'active')
        self.assertEqual(self.state_of(dirty)['state'], 'draining')
        # It is reopened each time, and then cools for as long as its pool says by then.
        self.wait(lambda: self.state_of(cooling)['state'] == 'cooling', 20, lambda: self.explain(cooling))
        self.ok('n1', 'leasectl', 'pool', 'set', 'slow', '--cooldown', '1s')
        self.reopen('n1', cooling)
        self.freed_and_reopened(cooling, 'n1', 'n2')
        self.wait(lambda: set(self.blocked()) == {account}, 20, lambda: f'only the account\'s is blocked: {self.blocked()}')
        self.assertEqual(self.blocked()[account]['reason'], 'account')
        self.ok('n1', 'umount', '/tmp/top')
        self.release(active)
        self.ok('n1', 'leasectl', 'node', 'sweep', 'n1')
        for lease in (dirty, active):
            self.wait_free(lease)
        self.all_there(before[1:], self.everybodys(active, account, alice[0])[1:])

    def all_there(self, before, now):
        """Others may have come: a busy machine begins late what it was told."""
        self.assertEqual([there - still for there, still in zip(before, now)], [set()] * len(before), 'who may be there is untouched')

    def everybodys(self, active, account, alice):
        """Processes of the lease that is here, of the account, and of alice on each node."""
        return [set(self.processes(uid, host)) for uid, host in ((active['uid'], 'n1'), (account, 'n2'), (alice, 'n1'), (alice, 'n2'))]

    def test_2_with_a_node_that_does_not_answer(self):
        """n2 can not prove anything: what n1 has proved does not count any more when something comes there."""
        retired, draining = self.lease('n1'), self.lease('n1', 'n2')
        self.ok('n2', 'systemctl', 'stop', 'noded')
        self.addCleanup(self.ok, 'n2', 'systemctl', 'start', 'noded')
        granted = self.lease('n2', wait=False)
        for lease in (retired, draining):
            self.release(lease)
        self.wait(lambda: self.state_of(retired)['state'] == 'retired', 30, lambda: self.explain(retired))
        self.wait(lambda: self.proof(draining, 'n1') == 'clean', 20, lambda: self.explain(draining))
        uids = [lease['uid'] for lease in (retired, draining, granted)]
        with_name = [(lease['uid'], lease['name']) for lease in (draining, granted)]  # on n1: n2 is not told any more
        self.start_all({'n1': [*with_name, (retired['uid'], '-')], 'n2': [(uid, '-') for uid in uids]})
        self.wait_dead(['n1'], uids)
        self.assertEqual(self.state_of(granted)['state'], 'granted')
        self.assertEqual(self.state_of(draining)['state'], 'draining')
        self.assertLessEqual(set(uids), self.running('n2'), 'nobody looks there')
        self.ok('n2', 'systemctl', 'start', 'noded')
        self.wait_dead(['n2'], uids)
        self.freed_and_reopened(retired, 'n1')
        self.wait_free(draining)
        # Refused, if n2 has met the grant before its guard has ended what ran.
        self.run_in('n1', 'leasectl', 'release', '--lease', granted['lease'])
        self.wait_free(granted)

    def proof(self, lease, node):
        return {member['node']: member['proof'] for member in self.state_of(lease)['members']}[node]


lib.main()
