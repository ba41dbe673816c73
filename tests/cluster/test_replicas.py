#!/usr/bin/python3
"""Three controllers on machines of their own, as replicas: any of them serves, one may be lost or cut off."""
import json
import threading
import time

import lib
from leases import LeaseCase

CONTROLLERS = ('c1', 'c2', 'c3')


class Replicas(LeaseCase):
    controllers = 3
    nodes = 3
    cooldown = '1s'

    def status(self, host):
        done = self.run_in(host, 'leasectl', '--timeout', '5s', 'cluster', 'status', '--json')
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def leader(self, among=CONTROLLERS):
        """The one that all of these agree on, waited for."""
        found = []

        def agreed():
            names = {self.status(host).get('leader') for host in among}
            found[:] = names
            return len(names) == 1 and found[0] in among

        self.wait(agreed, 30, lambda: f'{among} agree on a leader: {found}')
        return found[0]

    def equal(self):
        seen = []

        def same():
            seen[:] = [self.status(host) for host in CONTROLLERS]
            return len({(s.get('revision'), s.get('digest')) for s in seen}) == 1 and seen[0]

        self.wait(same, 60, lambda: f'the replicas are equal: {seen}')

    def through(self, controller, *words):
        """leasectl on n1, asked of that controller alone."""
        return self.run_in('n1', 'env', f'XCE_SERVER={controller}:7623', 'leasectl', *words)

    def test_a_lease_through_each_controller_resolves_on_all_members(self):
        for controller in CONTROLLERS:
            done = self.through(controller, 'acquire', '--pool', 'main', '--job', f'by-{controller}', '--nodes', 'n[1-3]', '--wait',
                                '--json')
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            lease = json.loads(done.stdout)
            for node in ('n1', 'n2', 'n3'):
                self.assertEqual(self.ok(node, 'id', '-un', lease['uid']), lease['name'])
            self.release(lease)
        self.equal()

    def test_the_leader_loses_its_power_under_load(self):
        """Each acquire ends in one lease or a clear error, and what was acknowledged is there."""
        kept, failed, stop = [], [], threading.Event()

        def work(number):
            for i in range(lib.count(12, 100)):
                job = f'load-{number}-{i}'
                done = self.run_in('n1', 'leasectl', '--timeout', '20s', 'acquire', '--pool', 'main', '--job', job, '--nodes', 'n1', '--json')
                (kept.append(json.loads(done.stdout)) if done.returncode == 0 else failed.append((job, done.stdout + done.stderr)))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        self.wait(lambda: len(kept) > 8, 30, 'the load runs')
        leader = self.leader()
        self.cluster.machine(leader).kill()
        for thread in threads:
            thread.join()
        self.cluster.machine(leader).start()
        self.cluster.machine(leader).wait_booted()
        self.assertEqual(failed, [])
        self.equal()
        shown = {lease['lease']: lease for lease in self.json('n1', 'leasectl', 'list', '--all', '--json')['leases']}
        for lease in kept:
            self.assertEqual(shown[lease['lease']]['job'], lease['job'])
        jobs = [lease['job'] for lease in shown.values() if lease['job'].startswith('load-') and lease['state'] in ('granted', 'active')]
        self.assertEqual(len(jobs), len(set(jobs)))
        for lease in kept:
            self.release(lease)

    def test_a_leader_that_is_cut_off_answers_nothing_and_comes_back(self):
        old = self.leader()
        rest = tuple(c for c in CONTROLLERS if c != old)
        self.cluster.cut(old, 'all')
        try:
            new = self.leader(rest)
            self.assertNotEqual(new, old)
            begun = time.monotonic()
            done = self.run_in(old, 'leasectl', '--timeout', '5s', 'list')
            self.assertIn(done.returncode, (4, 5), done.stdout + done.stderr)
            self.assertLess(time.monotonic() - begun, 10)
            lease = self.acquire('--nodes', 'n[1-2]')
        finally:
            self.cluster.heal()
        self.leader()
        self.equal()
        self.release(lease)


lib.main()
