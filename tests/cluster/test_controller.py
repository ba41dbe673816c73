#!/usr/bin/python3
"""The example controller, compiled on a machine with what is installed there, against the real daemons."""

import lib
from leases import LeaseCase

SOURCE = '/usr/share/doc/xce-lease/examples/controller.c'


class Controller(LeaseCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        done = cls.cluster.run('n1', 'sh', '-c', f'cc -Wall -Wextra -Werror -o /run/controller {SOURCE} $(pkg-config --cflags --libs xce)')
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self, *jobs):
        """The controller with these lines as its input; what it says goes into a file of this test."""
        n = self.next_number()
        self.out, self.unit = f'/run/controller.out.{n}', f'controller-{n}'
        self.ok('n1', 'sh', '-c', f'cat >/run/controller.in.{n}', input=''.join(job + '\n' for job in jobs))
        self.ok('n1', 'systemd-run', '-q', '--unit', self.unit, '-p', f'StandardInput=file:/run/controller.in.{n}',
                '-p', f'StandardOutput=file:{self.out}', '-p', 'RemainAfterExit=yes', '-p', 'KillMode=process', '/run/controller')

    def said(self):
        return self.ok('n1', 'cat', self.out).splitlines()

    def show(self, what):
        return self.ok('n1', 'systemctl', 'show', '-P', what, self.unit)

    def wait_said(self, line):
        self.wait(lambda: any(line in s for s in self.said()), 60, lambda: f'{line}: {self.said()}')

    def wait_over(self):
        self.wait(lambda: self.show('SubState') in ('exited', 'failed'), 60, lambda: f'the controller ends: {self.said()}')
        return self.said()

    def held(self, *jobs):
        return [lease for lease in self.json('n1', 'leasectl', 'list', '--json')['leases'] if lease['job'] in jobs]

    def test_jobs_run_under_their_uids_and_give_them_back(self):
        self.start('a echo $XCE_UID-$XCE_NAME-$XCE_JOB', 'b systemd-run --wait --pipe -q -p User=$XCE_NAME id -un', 'c exit 3')
        said = self.wait_over()
        self.assertEqual(self.show('ExecMainStatus'), '0', said)
        uid, name = {line.split()[0]: line.split()[2:] for line in said if ': leased ' in line}['a:']
        self.assertIn(f'{uid}-{name}-a', said)
        self.assertIn({line.split()[0]: line.split()[3] for line in said if ': leased ' in line}['b:'], said)
        for line in ('a: exited 0', 'b: exited 0', 'c: exited 3', 'a: released', 'b: released', 'c: released'):
            self.assertIn(line, said)
        self.assertEqual(self.held('a', 'b', 'c'), [])

    def test_a_revoked_lease_ends_its_job(self):
        self.start('r sleep 1000', 's sleep 2')
        self.wait_said('r: leased')
        self.ok('n1', 'leasectl', 'revoke', '--job', 'r', '--reason', 'a test')
        said = self.wait_over()
        for line in ('r: lost its lease: revoked', 'r: killed by signal 9', 's: exited 0', 's: released'):
            self.assertIn(line, said)
        self.assertEqual(self.held('r', 's'), [])

    def test_told_to_stop_it_gives_all_back(self):
        self.start('x sleep 1000', 'y sleep 1000')
        self.wait_said('x: leased')
        self.wait_said('y: leased')
        self.ok('n1', 'kill', '-TERM', self.show('MainPID'))
        said = self.wait_over()
        for job in 'xy':
            self.assertIn(f'{job}: killed by signal 9', said)
            self.assertIn(f'{job}: released', said)
        self.assertEqual(self.held('x', 'y'), [])

    def test_a_restart_of_leased_ends_no_job(self):
        self.start('k sleep 4')
        self.wait_said('k: leased')
        self.ok('n1', 'systemctl', 'kill', '-s', 'KILL', 'leased')
        said = self.wait_over()
        self.assertIn('k: exited 0', said)
        self.assertIn('k: released', said)
        self.assertEqual(self.held('k'), [])



lib.main()
