#!/usr/bin/python3
"""leasectl doctor on booted machines: what is spoilt is named, its cure cures, and a machine that is well takes one line. And
accounts of a second name service inside a pool: no lease gets such a uid, nothing of it is touched."""
import json

import leases
import lib

# What these machines are not, and no fault of theirs: they have no clock of their own.
BESIDE = {'clock-unsynchronised'}
PAM_XCE = '/usr/lib/*/security/pam_xce.so'
# The watchdog of a noded that runs is that of its start.
RESTART = 'systemctl daemon-reload; systemctl restart noded; until leasectl node show n1 --json | grep -q \'"ready"\'; do sleep 0.1; done'


class DoctorCase(leases.LeaseCase):
    def doctor(self, host='n1'):
        """Exit status, and by id all that is not well."""
        done = self.run_in(host, 'leasectl', 'doctor', '--json')
        found = [f for f in json.loads(done.stdout)['findings'] if f['severity'] != 'ok' and f['id'] not in BESIDE]
        for finding in found:
            self.assertTrue(finding['cure'], finding)
        return done.returncode, {f['id']: f for f in found}

    def shell(self, script, *args, host='n1', **kwargs):
        return self.ok(host, 'sh', '-c', script, 'sh', *args, **kwargs)


class Findings(DoctorCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # What pam_xce(8) says of pools that are elsewhere than the sample.
        cls.cluster.run('n1', 'sh', '-c', f"sed -i 's/pam_xce\\.so/& ranges={cls.range[0]}-{cls.range[0] + (1 << 18) - 1}/' "
                        '/etc/pam.d/common-*')

    def spoil(self, script, id_, says, severity='error', cure='', mend=':'):
        """What it does is found. The cure that is told is carried out, if it is given here, and what mends the rest: then the machine
        is well."""
        self.shell(script)
        try:
            status, found = self.doctor()
            self.assertIn(id_, found)
            self.assertIn(says, found[id_]['message'])
            self.assertEqual(found[id_]['severity'], severity)
            self.assertEqual(status, int(any(f['severity'] == 'error' for f in found.values())))
            self.assertIn(cure, found[id_]['cure'])
            self.shell(cure or ':')
        finally:
            self.shell(mend)
        self.wait(lambda: self.doctor() == (0, {}), 30, lambda: f'it to be well again: {self.doctor()}')

    def test_a_machine_that_is_well_takes_one_line(self):
        lease = self.acquire()
        done = self.run_in('n1', 'leasectl', 'doctor', '--no-headings', '-o', 'id')
        self.assertEqual(set(done.stdout.split()) - BESIDE, set(), self.doctor())
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r'^leasectl: [^\n]*\d+ checks[^\n]*\n$')
        well = self.ok('n1', 'leasectl', 'doctor', '--all', '--no-headings', '-o', 'id').split()
        for check in ('units', 'pools', 'map', 'node', 'nsswitch', 'nss', 'userdb', 'pam', 'accounts', 'overlap', 'coredump', 'noded', 'remnant'):
            self.assertIn(f'{check}-ok', well)
        self.release(lease)

    def test_who_is_nobody_is_told_what_he_may_see(self):
        done = self.run_in('n1', 'setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups', 'leasectl', 'doctor', '--json')
        found = {f['id']: f for f in json.loads(done.stdout)['findings']}
        self.assertEqual([f for f in found.values() if f['severity'] == 'error'], [])
        self.assertIn('overlap-unasked', found)
        for id_ in ('units-ok', 'pam-ok', 'userdb-ok'):
            self.assertIn(id_, found)

    # ---- PAM ----

    def test_pam_that_does_not_ask_us(self):
        self.spoil('cp -a /etc/pam.d /run/pam.d; pam-auth-update --package --remove xce </dev/null', 'pam-missing', 'no service of PAM asks',
                   cure='pam-auth-update --enable xce', mend='cp -a /run/pam.d/. /etc/pam.d/')

    def test_one_service_that_does_not_ask_us(self):
        self.spoil('mv /etc/pam.d/su /run/su; printf "account required pam_unix.so\\n@include common-session\\n@include common-auth\\n'
                   '@include common-password\\n" >/etc/pam.d/su', 'pam-missing', 'account of su, su-l: ', mend='mv /run/su /etc/pam.d/su')

    def test_the_module_is_missing(self):
        self.spoil(f'mv {PAM_XCE} /run/', 'pam-module', 'is not among the modules',
                   mend='mv /run/pam_xce.so "$(dirname "$(ls /usr/lib/*/security/pam_unix.so)")/"')

    def test_the_service_of_jobs(self):
        self.spoil('mv /etc/pam.d/xce /run/xce-jobs', 'pam-jobs-missing', '/etc/pam.d/xce is missing', mend='mv /run/xce-jobs /etc/pam.d/xce')

    # ---- units ----

    def drop_in(self, text, more='systemctl daemon-reload'):
        return f"mkdir -p /etc/systemd/system/noded.service.d; printf '{text}' >/etc/systemd/system/noded.service.d/x.conf; {more}"

    def test_no_watchdog(self):
        self.spoil(self.drop_in('[Service]\\nWatchdogSec=0\\n', RESTART), 'units-watchdog-off', 'no watchdog', cure='systemctl revert noded',
                   mend='systemctl restart noded')

    def test_a_late_watchdog(self):
        self.spoil(self.drop_in('[Service]\\nWatchdogSec=2min\\n', RESTART), 'units-watchdog-late', 'only after 2m', 'warning',
                   cure='systemctl revert noded', mend='systemctl restart noded')

    def test_a_noded_that_does_not_come_back(self):
        self.spoil(self.drop_in('[Service]\\nRestart=no\\n'), 'units-restart', 'Restart=no', cure='systemctl revert noded')

    def test_a_noded_that_is_given_up_on(self):
        self.spoil(self.drop_in('[Unit]\\nStartLimitIntervalSec=1h\\n'), 'units-start-limit', 'within 3600 s', 'warning',
                   cure='systemctl revert noded')

    def test_a_unit_that_systemd_has_not_read(self):
        self.spoil(self.drop_in('[Service]\\nNice=0\\n') + '; touch -d "1 minute" /etc/systemd/system/noded.service.d/x.conf', 'units-stale',
                   'has changed', 'warning', cure='systemctl daemon-reload', mend='systemctl revert noded')

    def test_no_standby(self):
        self.spoil('systemctl stop noded-standby', 'units-standby', 'does not run', 'warning', cure='systemctl start noded-standby')

    # ---- noded ----

    def test_nobody_for_what_is_left(self):
        self.spoil('cp /etc/passwd /run/passwd; sed -i /^xce-remnant:/d /etc/passwd', 'remnant-missing', 'no user xce-remnant', 'warning',
                   mend='cp /run/passwd /etc/passwd')

    def test_noded_takes_no_release(self):
        self.spoil('mv /run/xce/noded.sock /run/xce/away', 'noded-silent', '/run/xce/noded.sock', 'warning',
                   mend='mv /run/xce/away /run/xce/noded.sock')

    # ---- xce-userdbd ----

    def test_userdbd_down(self):
        self.spoil('systemctl stop xce-userdbd', 'userdb-down', 'does not listen', 'warning', mend='systemctl start xce-userdbd')

    def test_userdbd_hangs(self):
        lease = self.acquire()
        drop_in = '/run/systemd/system/xce-userdbd.service.d'
        self.spoil(f'mkdir -p {drop_in}; printf "[Service]\\nWatchdogSec=0\\n" >{drop_in}/x.conf; systemctl daemon-reload; '
                   'systemctl restart xce-userdbd; systemctl kill -s STOP xce-userdbd', 'userdb-hangs', 'does not answer',
                   cure='systemctl restart xce-userdbd', mend='systemctl revert xce-userdbd; systemctl restart xce-userdbd')
        self.release(lease)

    def test_userdbd_alone(self):
        self.spoil('cp /etc/nsswitch.conf /run/nss; sed -Ei "s/^(passwd|group):.*/\\1: files systemd/" /etc/nsswitch.conf', 'nsswitch-alone',
                   'by way of xce-userdbd alone', 'warning', mend='cp /run/nss /etc/nsswitch.conf')

    # ---- sshd, pools ----

    def test_sshd_without_pam(self):
        folder = lib.unpacked('openssh-server')
        self.shell('cp "$1/usr/sbin/sshd" /usr/sbin/sshd; mkdir -p /etc/ssh', folder)
        self.addCleanup(self.shell, 'rm -f /usr/sbin/sshd /etc/ssh/sshd_config')
        self.spoil('echo UsePAM no >/etc/ssh/sshd_config', 'sshd-usepam', 'does not ask PAM', 'warning',
                   mend='echo UsePAM yes >/etc/ssh/sshd_config')

    def test_a_pool_that_runs_dry(self):
        first = leases.FIRST + 8192
        self.make_pool('tiny', first, first + 15, '--cooldown', '2m')
        self.addCleanup(self.ok, 'n1', 'leasectl', 'pool', 'retire', 'tiny')
        for _ in range(5):
            self.release(self.acquire(pool='tiny'))
        self.assertNotIn('pools-dry', self.doctor()[1])
        for _ in range(11):
            self.release(self.acquire(pool='tiny'))
        status, found = self.doctor()
        self.assertEqual(status, 0)
        self.assertRegex(found.get('pools-dry', {'message': found})['message'], r'pool tiny: 8 leases a minute, .* it runs dry')


class Accounts(DoctorCase):
    """libnss-extrausers beside ours: /var/lib/extrausers/passwd."""
    nodes = 2
    controllers = 1
    FILES = '/var/lib/extrausers'

    @classmethod
    def setUpClass(cls):
        folder = lib.unpacked('libnss-extrausers')
        super().setUpClass()
        for host in ('n1', 'n2'):
            done = cls.cluster.run(host, 'sh', '-c', r'''set -e
                tar -C "$1" -c . | tar -C / -x --keep-directory-symlink --no-same-owner; ldconfig
                mkdir -p /var/lib/extrausers; touch /var/lib/extrausers/passwd /var/lib/extrausers/group
                sed -Ei 's/^(passwd|group):.*/\1: files xce extrausers systemd/' /etc/nsswitch.conf
                systemctl restart noded''', 'sh', folder)
            assert done.returncode == 0, done.stderr
        cls.wait_both()

    @classmethod
    def wait_both(cls):
        cls.poll(lambda: [cls.node_state(n) for n in ('n1', 'n2')] == ['ready', 'ready'], 60, 'both nodes are ready')

    def account(self, host, name, uid):
        self.shell(f'echo "{name}:x:{uid}:{uid}::/tmp:/bin/sh" >>{self.FILES}/passwd', host=host)
        self.addCleanup(self.run_in, host, 'sed', '-i', f'/^{name}:/d', f'{self.FILES}/passwd')
        self.assertEqual(self.ok(host, 'id', '-u', name), str(uid))

    def live(self, host, name, uid):
        """Somebody works there: a process, a file, a crontab, an IPC object."""
        self.shell(f'setpriv --reuid {uid} --regid {uid} --clear-groups sh -c "echo mine >/tmp/{name}; ipcmk -M 4096 >/dev/null; '
                   f'sleep 1000 >/dev/null 2>&1 & echo \\$! >/tmp/{name}.pid"; mkdir -p /var/mail; echo hello >/var/mail/{name}; '
                   f'chown {uid}:{uid} /var/mail/{name}', host=host)
        return lambda: self.shell(f'kill -0 $(cat /tmp/{name}.pid); stat -c "%n %u %g %a %Y" /tmp/{name} /tmp/{name}.pid /var/mail/{name}; '
                                  f'cat /tmp/{name} /var/mail/{name}; grep -w {uid} /proc/sysvipc/shm', host=host)

    def look_again(self, host):
        self.ok('n1', 'leasectl', 'node', 'sweep', host)

    def test_one_that_comes_later(self):
        """On n2 alone; n1, too, never has a lease of that uid again, as it is blocked for the pool."""
        first = leases.FIRST + 16384
        self.make_pool('later', first, first + 15, '--cooldown', '1s')
        uid = first + 3
        self.account('n2', 'carol', uid)
        mine = self.live('n2', 'carol', uid)
        before = mine()
        self.ok('n2', 'systemctl', 'reload', 'noded')
        got = [self.acquire('--nodes', nodes, pool='later') for nodes in ('n1,n2', 'n2', 'n1', 'n1,n2') for _ in range(3)]
        self.assertNotIn(uid, [lease['uid'] for lease in got])
        self.look_again('n2')
        status, found = self.doctor('n1')
        self.assertEqual(status, 1)
        for part in ('node n2: ', 'carol', str(uid), 'pool later'):
            self.assertIn(part, found['overlap-taken']['message'])
        self.assertIn('pools-blocked', found)
        for lease in got:
            self.release(lease)
            self.wait_free(lease)
        again = [self.acquire('--nodes', 'n1', pool='later') for _ in range(15)]
        self.assertNotIn(uid, [lease['uid'] for lease in again])
        self.assertEqual(mine(), before)
        for lease in again:
            self.release(lease)
        # The cure.
        self.ok('n2', 'sed', '-i', f's/^carol:x:{uid}:/carol:x:4242:/', f'{self.FILES}/passwd')
        self.shell(f'kill $(cat /tmp/carol.pid); rm /tmp/carol /tmp/carol.pid /var/mail/carol; ipcrm -a', host='n2')
        self.ok('n2', 'systemctl', 'reload', 'noded')
        self.ok('n1', 'leasectl', 'pool', 'unblock', 'later', uid, '--reason', 'it has another uid')
        self.wait(lambda: not {'overlap-taken', 'pools-blocked'} & set(self.doctor('n1')[1]), 30, lambda: f'it is well: {self.doctor("n1")}')

    def test_one_that_was_there_before_the_pool(self):
        """No pool is made over it; a node that was away then uses nothing of the pool, and n1 goes on with it."""
        first = leases.FIRST + 32768
        uid = first + 3
        self.account('n2', 'dave', uid)
        mine = self.live('n2', 'dave', uid)
        before = mine()
        done = self.run_in('n1', 'leasectl', 'pool', 'create', 'before', '--range', f'{first}-{first + 63}', '--directory-ranges', 'none')
        self.assertNotEqual(done.returncode, 0)
        for part in ('n2', 'dave', str(uid)):
            self.assertIn(part, done.stderr)
        self.ok('n2', 'systemctl', 'stop', 'noded')
        self.wait(lambda: self.json('n1', 'leasectl', 'node', 'show', 'n2', '--json')['state'] == 'lost', 90, 'n2 is lost')
        self.make_pool('before', first, first + 63, '--cooldown', '1s')
        self.ok('n2', 'systemctl', 'start', 'noded')
        self.wait(lambda: self.node_state('n2') in ('ready', 'unknown'), 60, 'n2 is back')
        self.wait(lambda: 'overlap-taken' in self.doctor('n1')[1], 30, lambda: f'doctor names n2: {self.doctor("n1")}')
        for part in ('node n2: ', 'dave', str(uid), 'pool before'):
            self.assertIn(part, self.doctor('n1')[1]['overlap-taken']['message'])
        done = self.run_in('n1', 'leasectl', 'acquire', '--pool', 'before', '--nodes', 'n2', '--wait', '--timeout', '20s', '--json')
        self.assertEqual(json.loads(done.stdout)['error']['code'], 'failed_precondition', done.stdout)
        got = [self.acquire('--nodes', 'n1', pool='before') for _ in range(8)]
        self.assertNotIn(uid, [lease['uid'] for lease in got])
        self.look_again('n2')
        self.assertEqual(mine(), before)


lib.main()
