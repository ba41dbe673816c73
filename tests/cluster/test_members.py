#!/usr/bin/python3
"""Who belongs to the cluster changes under load, asked of any replica: five, three, one and back; one is lost; leading is handed over."""
import os
import random
import statistics
import time

import lib
from replicas import ReplicasCase, spread

FOLDER = '/var/lib/xce/leased'


class Members(ReplicasCase):
    controllers = 5
    pool_options = ('--ready-timeout', '60s')  # as in test_faults.py

    def setUp(self):
        self.random = random.Random(os.environ.get('XCE_TEST_SEED') or None)
        self.members = list(self.names_of)
        self.whole()
        self.clients = self.load(clients=6, pause=10, keep=20)
        self.clients.wait_acquired(20)

    def run(self, result=None):
        bad = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > bad:
            print(self.journals(), flush=True)
        return result

    def finish(self):
        """The clients noticed nothing, and all members are equal."""
        self.clients.wait_going()
        self.clients.stop()
        self.check(self.clients)
        self.equal(self.members)
        self.assertEqual(sorted(m['name'] for m in self.wait_status(self.members[0])['members']), sorted(self.members))

    def ask(self, *words, of=None, may_end=(0,)):
        """leasectl cluster ... of any member, on its machine; again while nobody leads."""
        done = None

        def asked():
            nonlocal done
            host = of or self.random.choice(self.members)
            done = self.run_in(host, 'leasectl', '--timeout', '20s', 'cluster', *words, '--json')
            return done.returncode != 4

        self.wait(asked, 60, lambda: f'cluster {words}: {done}')
        self.assertIn(done.returncode, may_end, f'{words}: {done.stdout}{done.stderr}')
        return done

    def follower(self):
        return self.random.choice([m for m in self.members if m != self.leader(self.members)])

    def remove(self, name):
        self.ask('remove', name)
        self.members.remove(name)

    def add(self, name, empty=False):
        if empty:
            self.ok(name, 'sh', '-c', 'systemctl stop leased; rm -rf "$1"/*; systemctl start leased', 'sh', FOLDER)
        # A busy machine may not catch up within the time that the library gives it; it is asked again then.
        while self.ask('add', name, may_end=(0, 1)).returncode != 0:
            self.assertIn(name, [m['name'] for m in self.wait_status(self.leader(self.members))['members']])
        self.members.append(name)

    def test_five_three_one_and_back(self):
        gone = []
        while len(self.members) > 1:
            gone.append(self.follower())
            self.remove(gone[-1])
            if len(self.members) in (3, 1):
                self.clients.wait_going()
        for name in gone:
            # What a removed one still has is of no use to it: it begins anew.
            self.add(name, empty=True)
            if len(self.members) == 3:
                self.clients.wait_going()
        self.finish()

    def test_a_wiped_replica_is_refused_and_comes_back_as_another(self):
        lost = self.follower()
        old = {m['name']: m['id'] for m in self.wait_status(lost)['members']}[lost]
        self.ok(lost, 'systemctl', 'kill', '-s', 'KILL', 'leased')
        self.ok(lost, 'sh', '-c', 'systemctl stop leased; rm -rf "$1"/*; systemctl start leased', 'sh', FOLDER)
        others = [m for m in self.members if m != lost]

        def up():
            return {m['name']: m['up'] for m in self.wait_status(self.leader(others))['members']}

        self.wait(lambda: not up()[lost], 20, lambda: f'{lost} is out: {up()}')
        self.wait(lambda: any('was wiped' in self.journal(o, 'leased', 200) for o in others), 30, f'they say that {lost} was wiped')
        done = self.ask('add', lost, of=others[0], may_end=(1, 2, 3))
        self.assertIn('wiped', done.stdout + done.stderr)
        self.clients.wait_going()
        self.members = others
        self.ask('remove', lost)
        self.add(lost)
        self.assertNotEqual({m['name']: m['id'] for m in self.wait_status(lost)['members']}[lost], old)
        self.finish()

    def test_one_with_a_state_of_its_own_is_not_added(self):
        other = self.follower()
        self.remove(other)
        # It begins alone, as the single engine, and is then to be one of several.
        self.ok(other, 'sh', '-ec', 'systemctl stop leased; rm -rf "$1"/*; mkdir -p /etc/xce/leased.conf.d;'
                ' printf "[leased]\nEngine = sqlite\n" >/etc/xce/leased.conf.d/zz.conf; systemctl start leased;'
                ' rm /etc/xce/leased.conf.d/zz.conf; systemctl restart leased; test -e "$1/engine.db"', 'sh', FOLDER)
        done = self.ask('add', other, may_end=(1, 2, 3))
        print(done.stdout, done.stderr, flush=True)
        self.assertIn('engine.db', done.stdout + done.stderr)
        self.add(other, empty=True)
        self.finish()

    def test_leading_is_handed_over_and_nobody_notices(self):
        stalls, led = [], []
        for _ in range(lib.count(4, 50)):
            to = self.follower()
            self.clients.wait_going()
            began = time.monotonic()
            # A busy machine may not elect within the time that the library gives it; then the old one goes on.
            tries = 1
            while self.ask('transfer', to, may_end=(0, 1)).returncode != 0:
                self.assertLess(tries, 10, 'leading is not handed over')
                tries += 1
                began = time.monotonic()
            self.clients.wait_going()
            times = [e['t'] for e in self.clients.acquired()]
            stalls.append(max(b - a for a, b in zip(times, times[1:]) if b > began) * 1000)
            led.append(self.leader(self.members) == to)
        print(f'longest time without an acknowledged claim around a hand-over: {spread(stalls)}', flush=True)
        self.finish()
        told, = self.check(self.clients)
        self.assertEqual(told.retried, [], 'a client was told of a hand-over')
        # A busy machine elects now and then by itself, and stands still; what is handed over stays so otherwise.
        self.assertGreater(sum(led), len(led) / 2, led)
        # The target is 100 ms, on a machine that does nothing else; another cluster may be booted beside this one.
        self.assertLess(statistics.median(stalls) if lib.LONG else min(stalls), lib.count(300, 100))


lib.main()
