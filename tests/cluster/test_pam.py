#!/usr/bin/python3
"""Every door of a booted machine, with the real programs: leased users come in by PAMName=xce and nowhere else, and nobody else is
harmed, whatever becomes of the map and of the module."""
import re
import shutil

import leases
import lib

PACKAGES = ('at', 'cron', 'cron-daemon-common', 'libwrap0', 'openssh-server', 'sudo')
# What installing them does besides, and two ordinary users.
INSTALL = r'''set -e
    for package; do
        tar -C "$package" -c . | tar -C / -x --numeric-owner --keep-directory-symlink
    done
    groupadd -r crontab 2>/dev/null || true
    mkdir -p /var/spool/cron/crontabs
    chown root:crontab /var/spool/cron/crontabs /usr/bin/crontab
    chmod 1730 /var/spool/cron/crontabs
    chmod 2755 /usr/bin/crontab
    install -m 0600 -o daemon -g daemon /dev/null /var/spool/cron/atjobs/.SEQ
    echo 0 >/var/spool/cron/atjobs/.SEQ
    useradd -r -d /run/sshd -s /usr/sbin/nologin sshd 2>/dev/null || true
    ldconfig
    ldd /usr/sbin/sshd /usr/sbin/cron /usr/sbin/atd /usr/bin/sudo | grep "not found" >&2 && exit 5

    useradd -m -s /bin/sh alice
    useradd -m -s /bin/sh bob
    printf 'alice:secret\nbob:secret\n' | chpasswd
    echo 'alice ALL = (ALL) NOPASSWD: ALL' >/etc/sudoers.d/alice
    ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key
    ssh-keygen -q -t ed25519 -N '' -f /root/key
    cp /root/key.pub /etc/ssh/keys
    printf '%s\n' 'UsePAM yes' 'AuthorizedKeysFile /etc/ssh/keys' 'PasswordAuthentication no' 'KbdInteractiveAuthentication no' \
        'PermitRootLogin yes' 'MaxStartups 100' >/etc/ssh/sshd_config
    systemctl daemon-reload
    systemctl start ssh atd cron'''
SSH = ['ssh', '-i', '/root/key', '-o', 'BatchMode=yes', '-o', 'StrictHostKeyChecking=no', '-o', 'UserKnownHostsFile=/dev/null',
       '-o', 'LogLevel=ERROR']
MODULE = '/usr/lib/*/security/pam_xce.so'
COMMON = [f'/etc/pam.d/common-{kind}' for kind in ('account', 'auth', 'password', 'session', 'session-noninteractive')]


def door(method):
    """A way in for a user: whether it let him in, that is, something ran under his uid."""
    DOORS[method.__name__] = method
    return method


DOORS = {}


class Pam(leases.LeaseCase):
    pool_options = ('--home', '/tmp', '--shell', '/bin/sh')

    @classmethod
    def setUpClass(cls):
        folders = [lib.unpacked(package) for package in PACKAGES]
        if shutil.which('pamtester') is None:
            raise lib.unittest.SkipTest('pamtester is missing: run scripts/setup')
        super().setUpClass()
        with_ours = cls.cluster.run('n1', 'sh', '-c', 'grep -l pam_xce /etc/pam.d/common-* | wc -l').stdout.strip()
        assert with_ours == '5', f'pam_xce is in {with_ours} of five files /etc/pam.d/common-*'
        done = cls.cluster.run('n1', 'sh', '-c', INSTALL, 'sh', *folders)
        if done.returncode == 5:
            raise lib.unittest.SkipTest(f'a library is missing for the daemons: {done.stderr}')
        assert done.returncode == 0, done.stderr
        # What an administrator says whose pool is another than the sample's: the map is not always there to tell.
        cls.cluster.run('n1', 'sed', '-i', f's/pam_xce\\.so/& ranges={cls.range[0]}-{cls.range[1]}/', *COMMON)

    def setUp(self):
        self.ok('n1', 'systemctl', 'reset-failed')

    def uid_of(self, user):
        return int(self.ok('n1', 'id', '-u', user))

    def says_uid(self, user, *command, **kwargs):
        done = self.run_in('n1', *command, **kwargs)
        self.last = f'{command}: exit {done.returncode}\n{done.stdout}{done.stderr}'
        return str(self.uid_of(user)) in done.stdout.split()

    # ---- the doors ----

    @door
    def su_by_root(self, user):
        return self.says_uid(user, 'su', '-s', '/bin/sh', '-c', 'id -u', user)

    @door
    def su_by_bob(self, user):
        """With the right password, where there is one."""
        return self.says_uid(user, 'setpriv', '--reuid', 'bob', '--regid', 'bob', '--init-groups', 'su', '-s', '/bin/sh', '-c', 'id -u',
                             user, input='secret\n')

    @door
    def sudo_by_root(self, user):
        return self.says_uid(user, 'sudo', '-n', '-u', user, 'id', '-u')

    @door
    def sudo_by_alice(self, user):
        return self.says_uid(user, 'setpriv', '--reuid', 'alice', '--regid', 'alice', '--init-groups', 'sudo', '-n', '-u', user, 'id', '-u')

    @door
    def ssh(self, user):
        return self.says_uid(user, *SSH, f'{user}@127.0.0.1', 'id -u')

    @door
    def login(self, user):
        return self.says_uid(user, 'script', '-qec', f'/bin/login -f {user}', '/dev/null', input='id -u\nexit\n')

    @door
    def at(self, user):
        mark, since = f'/tmp/at-{self.next_number()}', self.journal_now()
        uid = self.uid_of(user)
        done = self.run_in('n1', 'setpriv', '--reuid', uid, '--regid', uid, '--clear-groups', 'env', f'LOGNAME={user}', 'sh', '-c',
                           f'cd /; echo "id -u >{mark}" | at now')
        if done.returncode != 0:
            self.last = done.stderr
            return False
        return self.comes_or_is_refused(user, mark, since)

    @door
    def cron(self, user):
        mark, since = f'/tmp/cron-{self.next_number()}', self.journal_now()
        self.ok('n1', 'sh', '-c', f'echo "@reboot id -u >{mark}" | crontab -u {user} -; rm -f /run/crond.reboot; systemctl restart cron')
        came = self.comes_or_is_refused(user, mark, since)
        self.ok('n1', 'rm', f'/var/spool/cron/crontabs/{user}')
        return came

    def comes_or_is_refused(self, user, mark, since):
        """What a daemon does later: it did, or says that PAM did not let it."""

        def outcome():
            if self.run_in('n1', 'cat', mark).stdout.strip() == str(self.uid_of(user)):
                return 'came'
            self.last = self.journal_since(since)
            return 'refused' if re.search(r'(?i)\b(cron|atd)\[\d+\]: (Permission denied|Authentication failure)', self.last) else None

        what = self.wait(outcome, 60, lambda: f'something runs for {user} or does not:\n{self.last}')
        self.run_in('n1', 'rm', '-f', mark)
        return what == 'came'

    def journal_now(self):
        return self.ok('n1', 'journalctl', '-q', '-n', '1', '--show-cursor').split('-- cursor: ')[1].strip()

    def journal_since(self, cursor):
        return self.ok('n1', 'journalctl', '-q', '--no-pager', '--after-cursor', cursor)

    @door
    def linger(self, user):
        uid = self.uid_of(user)
        self.run_in('n1', 'loginctl', 'enable-linger', user)
        unit = f'user@{uid}.service'
        state = self.wait(lambda: self.run_in('n1', 'systemctl', 'show', '-P', 'ActiveState', unit).stdout.strip()
                          in ('active', 'failed') and self.run_in('n1', 'systemctl', 'is-active', unit).stdout.strip(), 60,
                          f'{unit} starts or fails')
        self.run_in('n1', 'loginctl', 'disable-linger', user)
        self.run_in('n1', 'systemctl', 'stop', unit)
        return state == 'active'

    @door
    def unit_of_login(self, user):
        return self.unit(user, 'login') == 0

    def unit(self, user, service):
        done = self.run_in('n1', 'systemd-run', '--wait', '--pipe', '-q', '-p', f'User={user}', '-p', f'PAMName={service}', 'id', '-u')
        self.last = f'{done.stdout}{done.stderr}'
        return done.returncode

    # ---- the table ----

    def table(self, user, opens, besides=()):
        """Each door is as it is said, for that user."""
        for name, method in DOORS.items():
            if name in besides:
                continue
            with self.subTest(user=user, door=name):
                came = method(self, user)
                self.assertEqual(came, name in opens, self.last)

    def everybody_else_comes_in(self):
        self.table('alice', DOORS)
        self.table('root', DOORS, besides=('su_by_bob', 'linger'))  # root has no password; and user@0 is nobody's business
        self.assertEqual(self.unit('alice', 'xce'), 224, 'the service is for leases alone')
        self.passwords()

    def passwords(self):
        new = f'secret-{self.next_number()}'
        self.ok('n1', 'passwd', 'bob', input=f'{new}\n{new}\n')

    def pamtester(self, service, user, operation):
        return self.run_in('n1', 'pamtester', service, user, operation, input='\n').returncode == 0

    def test_1_good_map(self):
        lease = self.acquire()
        name = lease['name']
        self.table(name, ())
        self.everybody_else_comes_in()
        for service in ('login', 'sshd', 'su', 'cron', 'atd', 'passwd', 'nosuch', 'systemd-user'):
            for operation in ('acct_mgmt', 'open_session', 'authenticate', 'setcred', 'chauthtok'):
                # su takes root's word before it asks anybody else.
                let_in = service == 'su' and operation in ('authenticate', 'setcred')
                self.assertEqual(self.pamtester(service, name, operation), let_in, f'{service} {operation}')
        self.assertNotEqual(self.run_in('n1', 'passwd', name, input='new\nnew\n').returncode, 0)
        self.assertEqual(self.unit(name, 'nosuch'), 224)
        # By its own service, and knowing its lease.
        self.assertTrue(self.pamtester('xce', name, 'acct_mgmt') and self.pamtester('xce', name, 'open_session'))
        self.assertFalse(self.pamtester('xce', name, 'authenticate'))
        said = self.ok('n1', 'systemd-run', '--wait', '--pipe', '-q', '-p', f'User={name}', '-p', 'PAMName=xce', 'env').splitlines()
        for key, value in (('LEASE', lease['lease']), ('UID', lease['uid']), ('GID', lease['uid']), ('EPOCH', lease['epoch']), ('NAME', name)):
            self.assertIn(f'XCE_{key}={value}', said)
        self.assertEqual(self.unit(lease['uid'], 'xce'), 0, 'systemd has the name of User=UID for PAM')
        self.assertRegex(self.ok('n1', 'leasectl', 'exec', '--', 'env'), r'(?m)^XCE_NAME=xce-')
        self.assertIn(f'pam_xce(sshd:account): {name}: refused: leases do not come in by this service',
                      self.ok('n1', 'journalctl', '-q', '--no-pager', '-t', 'sshd'))
        # Root's own tools ask nobody: what they start is the guard's.
        self.assertTrue(self.says_uid(name, 'runuser', '-u', name, '--', 'id', '-u'))
        self.assertTrue(self.says_uid(name, 'setpriv', '--reuid', lease['uid'], '--regid', lease['uid'], '--clear-groups', 'id', '-u'))
        self.release(lease, '--wait=clean')
        self.assertEqual(self.unit(name, 'xce'), 224, 'it is over')

    def test_2_other_names_of_the_uid(self):
        lease = self.acquire()
        self.ok('n1', 'useradd', '-o', '-M', '-d', '/tmp', '-s', '/bin/sh', '-u', lease['uid'], '-g', 'users', 'foo2')
        self.addCleanup(self.run_in, 'n1', 'userdel', 'foo2')
        for user in ('foo2', str(lease['uid']), lease['name'].upper(), lease['name'] + '1'):
            for service in ('xce', 'login'):
                for operation in ('acct_mgmt', 'open_session'):
                    self.assertFalse(self.pamtester(service, user, operation), f'{service} {user} {operation}')
        self.assertEqual(self.unit('foo2', 'xce'), 224)
        for way in (self.su_by_root, self.sudo_by_root, self.ssh):
            self.assertFalse(way('foo2'), self.last)
        self.ok('n1', 'userdel', 'foo2')
        self.release(lease)

    def test_3_lease_that_this_machine_is_not_ready_for(self):
        self.ok('n1', 'systemctl', 'kill', '--kill-whom=main', '-s', 'STOP', 'noded')
        lease = self.acquire(wait=False)
        self.assertFalse(self.pamtester('xce', lease['name'], 'acct_mgmt'))
        self.ok('n1', 'systemctl', 'kill', '--kill-whom=main', '-s', 'CONT', 'noded')
        self.wait(lambda: self.state(lease) == 'active', 20, 'the lease is active')
        self.assertEqual(self.unit(lease['name'], 'xce'), 0, self.last)
        self.ok('n1', 'systemctl', 'restart', 'noded')
        self.assertEqual(self.unit(lease['name'], 'xce'), 0, self.last)
        self.wait_ready()
        self.assertEqual(self.unit(lease['name'], 'xce'), 0, self.last)
        self.release(lease)

    def without_map(self, spoil, why):
        """noded is down, or it would write the map again."""
        lease = self.acquire()
        name = lease['name']
        self.ok('n1', 'systemctl', 'stop', 'noded')
        self.ok('n1', 'sh', '-c', f'cp -p /run/xce/uidmap /run/good; {spoil}')
        try:
            for service in ('xce', 'sshd'):
                for operation in ('acct_mgmt', 'open_session', 'setcred', 'authenticate', 'chauthtok'):
                    for user in (name, str(lease['uid']), 'xce-1w00zzz-1'):
                        self.assertFalse(self.pamtester(service, user, operation), f'{service} {user} {operation}')
            self.assertIn(f'{name}: refused: there is no uid map that can be used: /run/xce/uidmap {why}',
                          self.ok('n1', 'journalctl', '-q', '--no-pager', '-n', '200', '-t', 'pamtester'))
            self.assertNotEqual(self.unit(name, 'xce'), 0)
            self.everybody_else_comes_in()
        finally:
            self.ok('n1', 'sh', '-c', 'rm -f /run/xce/uidmap; mv /run/good /run/xce/uidmap; systemctl start noded')
        self.wait_ready()
        self.assertEqual(self.unit(name, 'xce'), 0, self.last)
        self.release(lease)

    def test_4_map_missing(self):
        self.without_map('rm /run/xce/uidmap', 'cannot be opened')

    def test_5_map_damaged(self):
        self.without_map('rm /run/xce/uidmap; cp /run/good /run/xce/uidmap; printf x | dd of=/run/xce/uidmap bs=1 seek=100 conv=notrunc 2>/dev/null',
                         'is damaged: check of the header')

    def test_6_module_missing(self):
        """Root's and everybody's doors stay open. To the password stacks a lease is an account that can not be checked: its password
        is `x`, and it has no shadow entry. sudo alone would let root, and whoever may be anybody, in; noded's guard is there yet."""
        lease = self.acquire()
        name = lease['name']
        self.ok('n1', 'sh', '-c', f'mv {MODULE} /run/')
        try:
            self.everybody_else_comes_in()
            self.table(name, ('sudo_by_root', 'sudo_by_alice'))
            self.assertEqual(self.unit(name, 'xce'), 224, 'nothing runs under a lease')
        finally:
            self.ok('n1', 'sh', '-c', 'mv /run/pam_xce.so "$(dirname "$(ls /usr/lib/*/security/pam_unix.so)")/"')
        self.assertEqual(self.unit(name, 'xce'), 0, self.last)
        self.release(lease)


lib.main()
