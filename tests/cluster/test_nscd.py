#!/usr/bin/python3
"""A machine on which a real nscd caches passwd and group: names come and go with the leases all the same, a dead or hung nscd
holds nobody up for long, and doctor calls it what it is."""
import json
import time

import leases
import lib

CONF = '/etc/nscd.conf'
START = r'''set -e
    tar -C "$1" -c . | tar -C / -x --keep-directory-symlink --no-same-owner
    systemd-tmpfiles --create nscd.conf
    systemctl daemon-reload
    systemctl start nscd
    nscd -g > /dev/null'''
SMALL = leases.FIRST + 8192


class Nscd(leases.LeaseCase):
    pool_options = ('--ready-timeout', '10m')  # what nscd holds back stays granted

    @classmethod
    def setUpClass(cls):
        folder = lib.unpacked('nscd')
        super().setUpClass()
        done = cls.cluster.run('n1', 'sh', '-c', START, 'sh', folder)
        assert done.returncode == 0, done.stderr
        # Two uids: what is given back comes again soon.
        cls.make_pool('small', SMALL, SMALL + 1, '--cooldown', '1s')

    def setUp(self):
        self.ok('n1', 'systemctl', 'reset-failed')
        self.ok('n1', 'systemctl', 'restart', 'nscd', 'noded')
        self.wait_ready()

    def cached(self, key):
        """Whether nscd answers out of what it remembers, or by its shared memory: the module is not even loaded."""
        self.entry(key)
        traced = self.run_in('n1', 'strace', '-e', 'trace=%file', 'getent', 'passwd', str(key)).stderr
        self.assertIn('execve', traced)
        return 'libnss' not in traced

    def entry(self, key, database='passwd'):
        """The name that nscd gives for a uid or name; None for no such."""
        done = self.run_in('n1', 'getent', database, str(key))
        self.assertIn(done.returncode, (0, 2))
        return done.stdout.split(':')[0] or None

    def is_quick(self, key):
        """If not the first time then one of twenty: this machine is shared, and a look-up that waits does so each time."""
        seen = []

        def quick():
            began = time.monotonic()
            self.entry(key)
            seen.append(time.monotonic() - began)
            return seen[-1] < 0.3

        self.assertTrue(any(quick() for _ in range(20)), f'{key}: {seen}')

    def test_a_name_is_there_at_once_and_goes_with_its_lease(self):
        for turn in range(lib.count(4, 40)):
            for uid in (SMALL, SMALL + 1):  # nscd remembers that there is no such
                for database in ('passwd', 'group'):
                    self.assertIsNone(self.entry(uid, database))
                self.assertTrue(self.cached(uid))
            lease = self.acquire(pool='small')
            for database in ('passwd', 'group'):
                self.assertEqual(self.entry(lease['uid'], database), lease['name'], f'turn {turn}')
                self.assertEqual(self.entry(lease['name'], database), lease['name'], f'turn {turn}')
            self.assertTrue(self.cached(lease['uid']))
            self.release(lease)
            self.wait_free(lease)
            for database in ('passwd', 'group'):
                self.assertIsNone(self.entry(lease['uid'], database), f'turn {turn}')
                self.assertIsNone(self.entry(lease['name'], database), f'turn {turn}')

    def test_the_next_lease_of_a_uid_has_its_own_name(self):
        first = self.acquire(pool='small')
        self.assertEqual(self.entry(first['uid']), first['name'])
        self.release(first)
        self.wait_free(first)
        kept = self.acquire(pool='small')  # the uid that has been unused longer
        again = self.acquire(pool='small')
        self.assertEqual(again['uid'], first['uid'])
        self.assertEqual(self.entry(again['uid']), again['name'])
        self.assertIsNone(self.entry(first['name']))
        for lease in (kept, again):
            self.release(lease)
            self.wait_free(lease)

    def test_nothing_waits_for_noded(self):
        lease = self.acquire()
        self.ok('n1', 'systemctl', 'kill', '-s', 'STOP', 'noded')
        try:
            for key in ('nosuchuser', leases.LAST, lease['uid']):
                self.is_quick(key)
            self.assertEqual(self.entry(lease['uid']), lease['name'])
        finally:
            self.ok('n1', 'systemctl', 'kill', '-s', 'CONT', 'noded')
        self.release(lease)

    def test_a_dead_nscd_is_in_nobodys_way(self):
        self.ok('n1', 'systemctl', 'kill', '-s', 'KILL', 'nscd')
        self.wait(lambda: self.run_in('n1', 'systemctl', 'is-active', '-q', 'nscd').returncode != 0, 10, 'nscd is dead')
        self.ok('n1', 'test', '-S', '/run/nscd/socket')
        lease = self.acquire()
        self.assertEqual(self.entry(lease['uid']), lease['name'])
        self.release(lease)

    def test_a_hung_nscd_holds_leases_back_until_it_can_be_told(self):
        """Its old answers may still be had: nothing is ready, and nothing is freed."""
        over = self.acquire(pool='small')
        self.assertEqual(self.entry(over['uid']), over['name'])
        self.ok('n1', 'systemctl', 'kill', '-s', 'STOP', 'nscd')
        try:
            since = self.cursor()
            self.release(over)
            held = self.acquire(wait=False)
            self.wait(lambda: 'nscd -i failed' in self.journal_since(since), 30, 'noded says that nscd can not be told')
            self.wait(lambda: self.state(over) == 'retired', 30, 'the lease is retired')
            self.ok('n1', 'leasectl', 'node', 'sweep', 'n1')
            self.assertEqual(self.state(held), 'granted')
            self.assertEqual(self.state(over), 'retired')
        finally:
            self.ok('n1', 'systemctl', 'kill', '-s', 'CONT', 'nscd')
        self.wait_free(over)
        self.assertIsNone(self.entry(over['uid']))
        self.assertIsNone(self.entry(over['name']))
        lease = self.acquire()
        self.assertEqual(self.entry(lease['uid']), lease['name'])
        for one in (held, lease):
            self.run_in('n1', 'leasectl', 'release', '--lease', one['lease'])

    def cursor(self):
        return self.ok('n1', 'journalctl', '-q', '-n', '1', '--show-cursor').split('-- cursor: ')[1].strip()

    def journal_since(self, cursor):
        # Of all units: where the line of the cursor is none of those that are asked for, one of these would be left out.
        return self.ok('n1', 'journalctl', '-q', '--no-pager', '--after-cursor', cursor)

    def findings(self):
        done = self.run_in('n1', 'leasectl', 'doctor', '--json')
        return done.returncode, [f for f in json.loads(done.stdout)['findings'] if f['check'] == 'nscd']

    def test_doctor_refuses_it_and_its_cure_works(self):
        code, found = self.findings()
        self.assertEqual(code, 1)
        self.assertEqual([f['severity'] for f in found], ['error', 'error'])
        self.assertIn('enable-cache passwd no', found[0]['cure'])
        self.ok('n1', 'cp', '-p', CONF, '/root/nscd.conf')
        try:
            self.ok('n1', 'sed', '-Ei', r's/^(\s*enable-cache\s+(passwd|group)\s+)yes/\1no/', CONF)
            self.ok('n1', 'systemctl', 'restart', 'nscd')
            _, found = self.findings()
            self.assertEqual([f['severity'] for f in found], ['ok'])
            lease = self.acquire()
            self.assertEqual(self.entry(lease['uid']), lease['name'])
            self.release(lease)
        finally:
            self.ok('n1', 'cp', '-p', '/root/nscd.conf', CONF)
            self.ok('n1', 'systemctl', 'restart', 'nscd')


lib.main()
