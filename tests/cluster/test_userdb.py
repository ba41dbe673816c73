#!/usr/bin/python3
"""A machine whose name services are each of: libnss_xce alone, nss-systemd with xce-userdbd alone, both. Answers are the same, no
lease is listed twice, and a provider that hangs or dies holds nobody up for long."""
import json
import re
import subprocess

import leases
import lib

START = r'''set -e
    tar -C "$1" -c . | tar -C / -x --keep-directory-symlink --no-same-owner
    systemctl daemon-reload
    groupadd -g 4001 lab; groupadd -g 4002 proj; useradd -M -G lab,proj alice'''
NSSWITCH = '/etc/nsswitch.conf'
DROPIN = '/etc/xce/userdbd.conf.d/test.conf'
# What a look-up may take that waits for nobody: a provider that hangs costs a second and more before it is ended.
QUICK = 0.5
TRIES = 10  # this machine is shared


class Userdb(leases.LeaseCase):
    @classmethod
    def setUpClass(cls):
        folder = lib.unpacked('systemd-userdbd')
        super().setUpClass()
        done = cls.cluster.run('n1', 'sh', '-c', START, 'sh', folder)
        assert done.returncode == 0, done.stderr
        cls.plain = cls.cluster.run('n1', 'cat', NSSWITCH).stdout
        first = cls()
        cls.alone = first.acquire(job='alone')
        cls.grouped = first.acquire('--owner', 'alice', '--gids', 'lab,proj', job='grouped')

    def setUp(self):
        self.services('files xce systemd', True)
        self.ok('n1', 'rm', '-f', DROPIN)

    def services(self, line, userdb):
        """Name services, and whether xce-userdbd runs."""
        text = re.sub(r'^(passwd|group):.*', rf'\1: {line}', self.plain, flags=re.M)
        self.ok('n1', 'sh', '-c', f'cat >{NSSWITCH}', input=text)
        self.ok('n1', 'systemctl', 'restart' if userdb else 'stop', 'xce-userdbd')

    combinations = {'xce': ('files xce', False), 'userdb': ('files systemd', True), 'both': ('files xce systemd', True)}

    def pid(self):
        return self.ok('n1', 'systemctl', 'show', '-P', 'MainPID', 'xce-userdbd')

    def took(self, *command):
        """How long it took in the machine, and what came of it."""
        done = self.run_in('n1', 'bash', '-c', 'began=$EPOCHREALTIME; "$@"; code=$?; echo "$began $EPOCHREALTIME" >&2; exit $code',
                           'bash', *command)
        began, ended = done.stderr.split()[-2:]
        return float(ended) - float(began), done

    def quick(self, *command, code=0):
        """It gives the right answer, and soon: if not the first time then another."""
        seen = []
        while not seen or seen[-1] >= QUICK:
            self.assertLess(len(seen), TRIES, f'{command}: {seen}')
            seconds, done = self.took(*command)
            self.assertEqual(done.returncode, code, f'{command}: {done.stdout}{done.stderr}')
            seen.append(seconds)
        return done.stdout

    # ---- the same answers ----

    def unit(self, user):
        """What a process that systemd starts as that user is."""
        return self.ok('n1', 'systemd-run', '--wait', '--pipe', '-q', '-p', f'User={user}', 'sh', '-c',
                       'id -u; id -g; id -G; id -un; id -gn; echo $USER $HOME $SHELL')

    def answers(self, lease):
        uid, name = str(lease['uid']), lease['name']
        shown = self.json('n1', 'userdbctl', 'user', name, '--json=short')
        return {
            'passwd': [self.ok('n1', 'getent', 'passwd', key) for key in (uid, name)],
            'group': [self.ok('n1', 'getent', 'group', key) for key in (uid, name)],
            'id': self.ok('n1', 'id', name),
            'unit': [self.unit(key) for key in (uid, name)],
            'userdb user': {key: shown.get(key) for key in ('userName', 'uid', 'gid', 'realName', 'homeDirectory', 'shell')},
            'userdb group': {key: value for key, value in self.json('n1', 'userdbctl', 'group', uid, '--json=short').items()
                             if key in ('groupName', 'gid')},
            'nobody': [self.run_in('n1', 'getent', *words).returncode for words in (
                ('passwd', 'nosuch'), ('passwd', f'{name}0'), ('passwd', str(leases.LAST)), ('group', 'nosuch'),
                ('group', str(leases.LAST)))],
        }

    def test_every_combination_gives_the_same_answers(self):
        for lease, groups in ((self.alone, []), (self.grouped, ['4001', '4002'])):
            seen = {}
            for name, combination in self.combinations.items():
                self.services(*combination)
                seen[name] = self.answers(lease)
            for name in self.combinations:
                self.assertEqual(seen[name], seen['xce'], name)
            uid = str(lease['uid'])
            self.assertEqual(seen['xce']['passwd'][0].split(':')[:4], [lease['name'], 'x', uid, uid])
            self.assertEqual(seen['xce']['unit'][0].split('\n')[2].split(), [uid, *groups])
            self.assertEqual(set(seen['xce']['nobody']), {2})

    def listed(self, *command):
        """How often each of the two leases is in a list."""
        lines = self.ok('n1', *command).split('\n')
        return [sum(1 for line in lines if re.search(rf'(^|\s){lease["name"]}(:|\s)', line)) for lease in (self.alone, self.grouped)]

    def test_each_lease_is_listed_once(self):
        lists = ('getent', 'passwd'), ('getent', 'group'), ('userdbctl', '--no-pager', 'user'), ('userdbctl', '--no-pager', 'group')
        for name, expected in (('xce', [1, 1]), ('both', [1, 1]), ('userdb', [0, 0])):
            self.services(*self.combinations[name])
            for command in lists:
                self.assertEqual(self.listed(*command), expected, f'{name}: {command}')
        # Only a machine without libnss_xce may want them from here.
        self.ok('n1', 'sh', '-c', f'mkdir -p $(dirname {DROPIN}); printf "[userdbd]\\nEnumerate = yes\\n" >{DROPIN}')
        self.services(*self.combinations['userdb'])
        for command in lists:
            self.assertEqual(self.listed(*command), [1, 1], f'userdb, Enumerate: {command}')

    def test_userdbctl(self):
        """Also by way of systemd-userdbd, which asks all providers for its clients."""
        name = self.grouped['name']
        services = self.ok('n1', 'userdbctl', 'services')
        self.assertRegex(services, r'io\.xce\.Lease +yes')
        try:
            for multiplexer in (False, True):
                if multiplexer:
                    self.ok('n1', 'systemctl', 'start', 'systemd-userdbd.socket')
                user = self.json('n1', 'userdbctl', 'user', name, '--json=short')
                self.assertEqual((user['service'], user['disposition'], user['locked']), ('io.xce.Lease', 'dynamic', True))
                self.assertEqual(user['memberOf'], ['xce-gid-4001', 'xce-gid-4002'])
                group = self.json('n1', 'userdbctl', 'group', name, '--json=short')
                self.assertEqual((group['service'], group['gid']), ('io.xce.Lease', self.grouped['uid']))
                shown = self.ok('n1', 'userdbctl', '--no-legend', 'groups-of-user', name).split()
                self.assertEqual(shown, [name, 'xce-gid-4001', name, 'xce-gid-4002'])
                self.assertEqual(self.ok('n1', 'userdbctl', '--no-legend', 'groups-of-user', self.alone['name']), '')
                self.assertEqual(self.json('n1', 'userdbctl', 'group', 'xce-gid-4001', '--json=short')['gid'], 4001)
                # What is another's stays his.
                self.assertNotEqual(self.json('n1', 'userdbctl', 'group', 'lab', '--json=short').get('service'), 'io.xce.Lease')
                self.assertEqual(self.ok('n1', 'getent', 'group', '4001'), 'lab:x:4001:alice')
                self.assertNotEqual(self.run_in('n1', 'userdbctl', 'user', f'{name}0').returncode, 0)
        finally:
            self.ok('n1', 'systemctl', 'stop', 'systemd-userdbd.socket', 'systemd-userdbd.service')

    def test_a_password_is_never_right(self):
        """nss-systemd shows a shadow entry for whom it knows: a locked one."""
        self.ok('n1', 'sh', '-c', f'grep -q "^shadow:.*systemd" {NSSWITCH} || echo "shadow: files systemd" >>{NSSWITCH}')
        self.assertEqual(self.ok('n1', 'getent', 'shadow', self.alone['name']).split(':')[:2], [self.alone['name'], '!*'])

    # ---- nobody waits ----

    def in_time(self, once, limit, signal='STOP'):
        """once() gives seconds, right after that signal: one of TRIES is in time. Stopped, everything is as if it ran, but it does not
        answer."""
        seen = []
        while not seen or seen[-1] >= limit:
            self.assertLess(len(seen), TRIES, seen)
            pid = self.pid()
            self.ok('n1', 'systemctl', 'kill', '-s', signal, 'xce-userdbd')
            seen.append(once())
            self.wait_replaced(pid)

    def wait_replaced(self, pid):
        def replaced():
            return self.pid() not in ('0', pid) and self.run_in('n1', 'systemctl', 'is-active', '-q', 'xce-userdbd').returncode == 0

        self.wait(replaced, 10, lambda: f'xce-userdbd is replaced:\n{self.journal("n1", "xce-userdbd")}')

    def test_one_that_hangs_costs_two_seconds_and_hits_nothing(self):
        uid, name = str(self.alone['uid']), self.alone['name']
        known = (('getent', 'passwd', uid), ('getent', 'passwd', name), ('getent', 'group', uid))

        def nobody_is_hit():
            slow = self.cluster.start_in('n1', 'bash', '-c', 'echo $EPOCHREALTIME; getent passwd nosuch; echo $? $EPOCHREALTIME',
                                         stdout=subprocess.PIPE)
            took = [self.took(*command) for command in known]
            for _, done in took:
                self.assertEqual((done.returncode, done.stdout.split(':')[0]), (0, name), done.stderr)
            began, code, ended = slow.communicate(timeout=60)[0].split()
            self.assertEqual(code, '2')
            # Those that ask it wait until its watchdog ends it, the others not at all.
            return max(float(ended) - float(began), *(2.0 + seconds - QUICK for seconds, _ in took))

        for _ in range(lib.count(3, 20)):
            self.in_time(nobody_is_hit, 2.0)
            self.quick('getent', 'passwd', 'nosuch', code=2)
        self.assertIn('Watchdog timeout', self.journal('n1', 'xce-userdbd'))

    def test_a_unit_of_a_lease_starts_although_it_hangs(self):
        """initgroups asks every service of the group line, nss-systemd too."""
        def started():
            seconds, done = self.took('systemd-run', '--wait', '--pipe', '-q', '-p', f'User={self.grouped["name"]}', 'id', '-G')
            self.assertEqual(done.stdout.split(), [str(self.grouped['uid']), '4001', '4002'], done.stderr)
            return seconds

        self.in_time(started, 3)

    def test_killed_nothing_is_lost(self):
        uid, name = str(self.alone['uid']), self.alone['name']

        def all_answered():
            took, (one, nobody, groups) = zip(*[self.took(*command) for command in (
                ('getent', 'passwd', uid), ('getent', 'passwd', 'nosuch'), ('id', '-G', self.grouped['name']))])
            self.assertEqual((one.stdout.split(':')[0], nobody.returncode), (name, 2))
            self.assertEqual(groups.stdout.split(), [str(self.grouped['uid']), '4001', '4002'])
            return max(took)

        for _ in range(lib.count(10, 100)):
            self.in_time(all_answered, QUICK, 'KILL')
        self.services(*self.combinations['userdb'])
        pid = self.pid()
        self.ok('n1', 'systemctl', 'kill', '-s', 'KILL', 'xce-userdbd')
        self.wait(lambda: self.run_in('n1', 'getent', 'passwd', uid).stdout.startswith(f'{name}:'), 10, 'it is back')

    def test_stopped_it_is_in_nobodys_way(self):
        self.ok('n1', 'systemctl', 'stop', 'xce-userdbd')
        self.assertEqual(self.quick('getent', 'passwd', self.alone['name']).split(':')[2], str(self.alone['uid']))
        self.quick('getent', 'passwd', 'nosuch', code=2)
        self.assertNotEqual(self.run_in('n1', 'test', '-e', '/run/systemd/userdb/io.xce.Lease').returncode, 0)

    def test_it_needs_no_noded(self):
        self.services(*self.combinations['userdb'])
        self.ok('n1', 'systemctl', 'kill', '-s', 'STOP', 'noded')
        try:
            self.assertEqual(self.quick('getent', 'passwd', str(self.alone['uid'])).split(':')[0], self.alone['name'])
            self.quick('getent', 'passwd', 'nosuch', code=2)
        finally:
            self.ok('n1', 'systemctl', 'kill', '-s', 'CONT', 'noded')

    # ---- beside the rest of ours ----

    def test_it_is_no_other_name_service_to_noded(self):
        """With a provider of somebody else's there noded asks nss-systemd, which shows our leases, too."""
        other = '/run/systemd/userdb/org.example.Other'
        self.ok('n1', 'touch', other)
        try:
            lease = self.acquire('--owner', 'alice', '--gids', 'lab,proj')
            self.ok('n1', 'systemctl', 'restart', 'noded')
            self.wait_ready()
            for one in (lease, self.grouped):
                self.assertEqual(self.state(one), 'active', self.explain(one))
            done = self.run_in('n1', 'leasectl', 'doctor', '--json')
            self.assertEqual([f['severity'] for f in json.loads(done.stdout)['findings'] if f['check'] == 'accounts'], ['ok'])
            self.release(lease)
            self.wait_free(lease)
        finally:
            self.ok('n1', 'rm', other)

    def test_it_starts_before_users_are_looked_up(self):
        self.assertIn('xce-userdbd.service', self.ok('n1', 'systemctl', 'show', '-P', 'After', 'nss-user-lookup.target').split())


lib.main()
