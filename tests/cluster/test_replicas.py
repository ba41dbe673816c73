#!/usr/bin/python3
"""Three controllers on machines of their own, as replicas: any of them serves, one may be lost or cut off."""
import json
import os
import shutil
import time

import lib
import machines
from replicas import ReplicasCase

NODES = ('n1', 'n2', 'n3')


class Replicas(ReplicasCase):
    nodes = 3

    def setUp(self):
        self.whole()

    def grant_on_all(self, controller, job):
        """A lease of all nodes through that controller, that every node knows when the answer is there."""
        done = self.through(controller, 'acquire', '--pool', 'main', '--job', job, '--nodes', 'n[1-3]', '--wait', '--json')
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lease = json.loads(done.stdout)
        for node in NODES:
            self.assertEqual(self.names(lease['uid'], node)[:4:2], [lease['name'], str(lease['uid'])])
            self.assertEqual(self.names(lease['name'], node)[2], str(lease['uid']))
        return lease

    def test_a_lease_through_each_controller_resolves_on_all_members(self):
        for controller in self.names_of:
            self.release(self.grant_on_all(controller, f'by-{controller}'))
        self.equal()

    def as_alice(self, controller, *words):
        """leasectl of a user who is nobody's administrator, asked of that controller alone."""
        keys = [f'XCE_{k}=/shared/users/{v}' for k, v in (('CERT', 'alice.pem'), ('KEY', 'alice.key'), ('CA', 'ca.pem'))]
        return self.run_in('n1', 'env', f'XCE_SERVER={controller}:7623', *keys, 'leasectl', *words)

    def audited(self, controller, method):
        """Outcomes of alice's calls of that method, as that controller has written them down."""
        lines = map(json.loads, self.ok(controller, 'cat', '/var/lib/xce/leased/audit.log').splitlines())
        return [line['outcome'] for line in lines if line.get('principal') == 'user:alice' and line.get('method') == method]

    def test_rules_hold_on_all_replicas_and_each_writes_down_what_it_was_asked(self):
        users = f'{self.shared}/users'
        os.mkdir(users)
        machines.run(self.cluster.leasectl, 'cert', 'issue', 'user', 'alice', '--ca', f'{self.cluster.disk}/ca', '--out', users)
        shutil.copy(f'{self.cluster.disk}/ca/ca.pem', users)
        follower = self.others(self.leader())[0]
        before = self.through(follower, 'rbac', 'show').stdout
        for controller in self.names_of:
            self.assertEqual(self.as_alice(controller, 'node', 'cordon', 'n3', '--reason', 'x').returncode, 3)
        for rules, expected in ((f'{before}user:alice = operator\n', 0), (before, 3)):
            with open(f'{users}/rules', 'w', encoding='ascii') as f:
                f.write(rules)
            done = self.through(follower, 'rbac', 'apply', '--force', '/shared/users/rules')
            self.assertEqual(done.returncode, 0, done.stderr)
            for controller in self.names_of:
                self.assertEqual(self.as_alice(controller, 'node', 'cordon', 'n3', '--reason', 'x').returncode, expected)
                self.assertEqual(self.as_alice(controller, 'node', 'undrain', 'n3').returncode, expected)
        for controller in self.names_of:
            self.wait(lambda c=controller: len(self.audited(c, 'NodeService/Cordon')) == 3, 10,
                      lambda c=controller: f'{c} has written down three calls: {self.audited(c, "NodeService/Cordon")}')
            self.assertEqual(self.audited(controller, 'NodeService/Cordon'), ['PERMISSION_DENIED', 'OK', 'PERMISSION_DENIED'])

    def test_a_node_leaves_a_controller_that_is_silent(self):
        """Whichever one is cut off, or frozen: the nodes that it served turn to another in time for the next lease."""
        for i, controller in enumerate(self.names_of):
            if i % 2:
                self.cluster.machine(controller).freeze(True)
            else:
                self.cluster.cut(controller, 'all')
            try:
                rest = self.others(controller)
                self.leader(rest)
                lease = self.grant_on_all(rest[0], f'without-{controller}')
            finally:
                self.whole()
            self.release(lease)

    def test_a_leader_that_is_cut_off_answers_nothing_and_comes_back(self):
        old = self.leader()
        rest = self.others(old)
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
