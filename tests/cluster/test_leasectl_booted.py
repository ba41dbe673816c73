#!/usr/bin/python3
"""leasectl on a booted machine with the real daemons: names, runs under a lease, exec, doctor."""
import hashlib
import os
import re
import unittest

import lib
from leases import FIRST

POOL = ['leasectl', 'pool', 'create', 'main', '--range', f'{FIRST}-{FIRST + 4095}', '--directory-ranges', 'none',
        '--cooldown', '10m', '--ready-timeout', '2m']


class Case(lib.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        done = cls.cluster.run('n1', *POOL)
        assert done.returncode == 0, done.stderr
        lib.poll(lambda: '"ready"' in cls.cluster.run('n1', 'leasectl', '--json', 'node', 'list').stdout, 30, 'a ready node', 0.1)

    def exec(self, *args, status=0, **kwargs):
        """leasectl exec; what it printed."""
        done = self.run_in('n1', 'leasectl', 'exec', *args, **kwargs)
        self.assertEqual(done.returncode, status, f'{args}\n{done.stdout}{done.stderr}')
        return done.stdout

    def shell(self, script, *args, **kwargs):
        return self.ok('n1', 'sh', '-c', script, 'sh', *args, **kwargs)

    def nothing_of(self, uid):
        """No process, file, IPC object or unit of that uid."""
        left = self.shell(
            'grep -lE "^[UG]id:.*\\b$1\\b" /proc/[0-9]*/status 2>/dev/null;'
            'find /tmp /var/tmp /dev/shm /run/lock /dev/mqueue -uid "$1" 2>/dev/null;'
            'awk -v u="$1" "NR > 1 && (\\$5 == u || \\$8 == u)" /proc/sysvipc/sem;'
            'awk -v u="$1" "NR > 1 && (\\$8 == u || \\$10 == u)" /proc/sysvipc/shm;'
            'systemctl list-units --all --no-legend --plain "xce-exec-$1-*";'
            'find /run -maxdepth 1 -name "xce-exec.*"; true', uid)
        self.assertEqual(left, '')


class Names(Case):
    """A leased uid has its name at once, everywhere on the machine."""

    def test_everybody_agrees(self):
        lease = self.json('n1', 'leasectl', 'acquire', '--job', 'names', '--wait', '--json')
        uid, name = str(lease['uid']), lease['name']
        entry = f'{name}:x:{uid}:{uid}:'
        self.assertTrue(self.ok('n1', 'getent', 'passwd', uid).startswith(entry))
        self.assertTrue(self.ok('n1', 'getent', 'passwd', name).startswith(entry))
        self.assertEqual(self.ok('n1', 'getent', 'group', uid), f'{name}:x:{uid}:')
        self.assertEqual(self.ok('n1', 'getent', 'group', name), f'{name}:x:{uid}:')
        self.assertEqual(self.ok('n1', 'id', '-u', name), uid)
        self.assertEqual(self.ok('n1', 'systemd-run', '--quiet', '--wait', '--pipe', '-p', f'User={uid}', 'id', '-un'), name)
        said = self.shell('systemd-run --quiet --wait --pipe $(leasectl acquire --job printed --print systemd-run) id -un')
        self.assertEqual(said, self.json('n1', 'leasectl', '--json', 'show', '--job', 'printed')['name'])

    def test_a_uid_without_a_lease_has_none(self):
        uid = str(FIRST + 4000)
        self.assertEqual(self.run_in('n1', 'getent', 'passwd', uid).returncode, 2)
        done = self.run_in('n1', 'systemd-run', '--quiet', '--wait', '--pipe', '-p', f'User={uid}', 'true')
        self.assertEqual(done.returncode, 217)

    def test_rounds_never_miss(self):
        rounds = lib.count(20, 200)
        script = '''set -e
            for i in $(seq "$1"); do
                name=$(leasectl acquire --wait --job "round-$i" --print name)
                said=$(systemd-run --quiet --wait --pipe -p "User=$name" id -un)
                [ "$said" = "$name" ]
                leasectl -q release "$name" >/dev/null
            done'''
        self.shell(script, rounds, timeout=120 + 15 * rounds)


class Exec(Case):
    """leasectl exec: as if the command had been run here, but under a uid of its own, and nothing stays."""

    def test_exits_as_the_command_did(self):
        for script, status in (('exit 0', 0), ('exit 3', 3), ('exit 255', 255), ('kill -TERM $$', 143),
                               ('kill -KILL $$', 137), ('kill -HUP $$', 129), ('kill -INT $$', 130),
                               ('kill -RTMIN+2 $$', 128 + 36)):
            with self.subTest(script):
                shell = 'bash' if 'RTMIN' in script else 'sh'
                self.exec('--', shell, '-c', script, status=status)

    def test_commands_that_can_not_be_run(self):
        self.assertIn('nosuch: not found', self.run_in('n1', 'leasectl', 'exec', 'nosuch').stderr)
        self.exec('--', 'nosuch', status=127)
        self.exec('--', '/etc/passwd', status=126)
        self.exec('--', '/nonexistent/x', status=127)

    def test_words_arrive_as_they_are(self):
        words = ['$HOME', '$$', '${PATH}', '%n %h %%', 'two words', '', "it's", '"', 'back\\slash\\n', 'a\nb', '-x', '~',
                 '*', '\u00fc\u20ac', ';', '$', '$$$']
        said = self.exec('--', 'python3', '-c', 'import sys; print(sys.argv[1:])', *words)
        self.assertEqual(said, f'{words}\n')

    def test_streams_are_passed_through(self):
        data = os.urandom(1 << 20)
        script = 'head -c 1048576 /dev/urandom >/run/in; leasectl exec -- sha256sum </run/in; sha256sum </run/in; rm /run/in'
        one, two = self.shell(script).splitlines()
        self.assertEqual(one, two)
        self.assertEqual(self.shell('leasectl exec -- sh -c "echo out; echo err >&2" 2>/dev/null'), 'out')
        self.assertEqual(len(hashlib.sha256(data).hexdigest()), len(one.split()[0]))

    LEAVES = ('import ctypes, os, time\n'
              'libc = ctypes.CDLL(None)\n'
              'assert libc.shmget(0x123, 4096, 0o1600) >= 0\n'
              'assert libc.semget(0x123, 1, 0o1600) >= 0\n'
              'for name in ("/tmp/left", "/dev/shm/left", "/var/tmp/left"):\n'
              '    open(name, "w")\n'
              'for _ in range(3):\n'
              '    if os.fork() == 0:\n'
              '        os.setsid()\n'
              '        if os.fork() == 0:\n'
              '            time.sleep(100)\n'
              '        os._exit(0)\n'
              'print(os.getuid(), flush=True)\n'
              'os._exit(3)\n')
    OPEN = [w for p in ('PrivateTmp=no', 'PrivateIPC=no', 'TemporaryFileSystem=', 'ProtectSystem=no', 'RemoveIPC=no')
            for w in ('--property', p)]

    def test_nothing_stays(self):
        uid = int(self.exec('--job', 'j2', '--wait', '--', 'python3', '-c', self.LEAVES, status=3))
        self.nothing_of(uid)
        state = self.json('n1', 'leasectl', '--json', 'show', '--uid', uid)['state']
        self.assertIn(state, ('cooling', 'retired'))
        self.exec('--job', 'j2', '--', 'sh', '-c', 'id; touch /tmp/x; setsid sleep 100 & exit 3', status=3)
        self.assertEqual(self.json('n1', 'leasectl', '--json', 'list')['leases'], [])

    def test_nothing_stays_outside_of_the_sandbox(self):
        uid = int(self.exec('--job', 'j3', *self.OPEN, '--', 'python3', '-c', self.LEAVES, status=3))
        self.ok('n1', 'leasectl', 'release', uid, '--wait')
        self.nothing_of(uid)

    def test_leftovers_would_be_seen(self):
        """What nothing_of looks for is there while the command runs."""
        waits = self.LEAVES.replace('os._exit(3)', 'print("started", flush=True)\ntime.sleep(100)')
        said = self.shell(self.STARTED + 'uid=$(head -1 /run/out); find /tmp /dev/shm /var/tmp -uid $uid | wc -l;'
                          'awk -v u=$uid "\\$8 == u" /proc/sysvipc/shm | wc -l; pgrep -cU $uid; kill -TERM $pid; wait $pid; true',
                          '--wait', *self.OPEN, '--', 'python3', '-c', waits)
        files, segments, processes = map(int, said.split()[:3])
        self.assertEqual((files, segments), (3, 1))
        self.assertGreaterEqual(processes, 4)

    def test_it_is_a_sandbox(self):
        said = self.exec('--', 'sh', '-c', 'grep -E "^(NoNewPrivs|Seccomp|CapBnd):" /proc/self/status; '
                         'touch /etc/x /run/lock/x /usr/x; ls /run/dbus; cat /etc/shadow; echo "$TMPDIR"', status=0)
        self.assertRegex(said, r'CapBnd:\s+0+\n')
        self.assertRegex(said, r'NoNewPrivs:\s+1\n')
        self.assertRegex(said, r'Seccomp:\s+2\n')
        self.assertEqual(len(said.splitlines()), 4, said)

    def test_properties_and_environment(self):
        said = self.exec('--property', 'LimitNOFILE=77', '-E', 'A=b c', '--', 'sh', '-c', 'ulimit -n; echo "$A"')
        self.assertEqual(said, '77\nb c\n')
        self.exec('--property', 'NoSuchProperty=1', '--', 'true', status=1)

    def test_the_cgroup_is_the_leases(self):
        said = self.exec('--', 'sh', '-c', 'id -u; cat /proc/self/cgroup')
        uid = said.splitlines()[0]
        self.assertRegex(said, f'/xce.slice/xce-{uid}.slice/xce-{uid}-[0-9]+.slice/xce-exec-{uid}-')

    # ---- signals ----

    STARTED = '''rm -f /run/out; leasectl exec "$@" >/run/out 2>&1 & pid=$!
        until grep -qs started /run/out; do kill -0 $pid || { cat /run/out; exit 1; }; sleep 0.05; done; '''

    def signalled(self, kill, *command):
        """Start it, run the script `kill` with $pid, and give its status."""
        said = self.shell(self.STARTED + kill + '; wait $pid; echo "status $?"; cat /run/out', *command)
        self.said = said
        return int(re.search(r'status (\d+)', said).group(1))

    def test_signals_are_passed_on(self):
        sleeper = ['--', 'sh', '-c', 'echo started; sleep 100']
        self.assertEqual(self.signalled('kill -TERM $pid', *sleeper), 143)
        self.assertEqual(self.signalled('kill -INT $pid', *sleeper), 130)
        self.assertEqual(self.signalled('kill -HUP $pid', *sleeper), 129)
        handler = ['--', 'python3', '-uc', 'import signal, sys, time\n'
                   'signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7))\nprint("started")\ntime.sleep(100)']
        self.assertEqual(self.signalled('kill -USR1 $pid', *handler), 7)
        self.assertEqual(self.json('n1', 'leasectl', '--json', 'list')['leases'], [])

    def test_the_second_signal_kills(self):
        stubborn = ['--', 'sh', '-c', 'trap "" TERM INT; echo started; sleep 100']
        # Two that come before it has looked are one.
        self.assertEqual(self.signalled('for i in $(seq 60); do kill -TERM $pid 2>/dev/null || break; sleep 0.5; done', *stubborn), 137)

    def test_a_lease_without_its_leasectl_ends(self):
        said = self.shell(self.STARTED + 'kill -KILL $pid; cat /run/out', '--ttl', '10s', '--job', 'orphan', '--', 'sh', '-c',
                          'id -u; echo started; sleep 1000')
        uid = int(said.split()[0])
        self.wait(lambda: self.json('n1', 'leasectl', '--json', 'list')['leases'] == [], 20, 'the lease to expire')
        self.wait(lambda: not self.run_in('n1', 'pgrep', '-U', uid).stdout, 20, 'its processes to end')
        self.shell('rm -rf /run/xce-exec.*')

    # ---- the lease ----

    def test_it_is_renewed(self):
        self.exec('--ttl', '10s', '--', 'sleep', '13')

    def test_a_revoked_lease_ends_the_command(self):
        self.assertEqual(self.signalled('leasectl revoke --job gone --reason test >/dev/null', '--job', 'gone', '--', 'sh',
                                        '-c', 'echo started; sleep 100'), 137)

    def test_no_leased_at_the_end_leaves_the_release_to_noded(self):
        status = self.signalled('systemctl stop leased; kill -TERM $pid', '--timeout', '3s', '--job', 'alone', '--', 'sh', '-c',
                                'echo started; exec sleep 100')
        self.addCleanup(self.ok, 'n1', 'systemctl', 'start', 'leased')
        self.assertEqual(status, 143)
        self.assertRegex(self.said, 'lease [0-9]+ was released at noded of this machine, which tells leased when it is there')
        self.doCleanups()
        self.wait(lambda: self.causes('alone') == ['release'], 60, 'noded to pass the release on')

    def causes(self, job):
        done = self.run_in('n1', 'leasectl', '--json', 'history', '--job', job)
        return [past['cause'] for past in lib.json.loads(done.stdout).get('history', [])]

    def test_neither_leased_nor_noded_at_the_end_is_said(self):
        status = self.signalled('systemctl stop leased; mv /run/xce/noded.sock /run/xce/away; kill -TERM $pid', '--timeout', '3s',
                                '--job', 'lost', '--ttl', '1h', '--', 'sh', '-c', 'echo started; exec sleep 100')
        self.addCleanup(self.shell, 'mv /run/xce/away /run/xce/noded.sock; systemctl start leased')
        self.assertEqual(status, 143)
        self.assertIn('could not be released; it ends with its ttl', self.said)
        self.assertNotIn('at noded', self.said)
        self.doCleanups()
        self.wait(lambda: self.run_in('n1', 'leasectl', 'release', '--job', 'lost').returncode == 0, 60, 'leased to serve again')

    def test_only_root(self):
        done = self.run_in('n1', 'setpriv', '--reuid', '65534', '--clear-groups', 'leasectl', 'exec', 'true')
        self.assertEqual(done.returncode, 3)
        self.assertIn('only root', done.stderr)


class Doctor(Case):
    def doctor(self):
        """Exit status, and findings by check that are not well."""
        done = self.run_in('n1', 'leasectl', '--json', 'doctor')
        report = lib.json.loads(done.stdout)
        return done.returncode, {f['check']: f for f in report['findings'] if f['severity'] == 'error'}

    def test_a_fresh_machine_is_well(self):
        self.json('n1', 'leasectl', 'acquire', '--wait', '--json')
        status, errors = self.doctor()
        self.assertEqual((status, errors), (0, {}))

    def broken(self, script, check, text, mend):
        self.shell(script)
        self.addCleanup(self.shell, mend)
        status, errors = self.doctor()
        self.assertEqual(status, 1)
        self.assertIn(check, errors)
        self.assertIn(text, errors[check]['message'])
        self.assertTrue(errors[check]['cure'])
        self.doCleanups()
        self.wait(lambda: self.doctor() == (0, {}), 30, lambda: f'it to be well again: {self.doctor()}')

    def test_noded_down(self):
        self.broken('systemctl stop noded', 'map', 'noded has ended', 'systemctl start noded')

    def test_leased_down(self):
        self.broken('systemctl stop leased', 'leased', 'leased does not answer', 'systemctl start leased')

    def test_nsswitch(self):
        self.broken('cp /etc/nsswitch.conf /run/nss; sed -i "s/^passwd:.*/passwd: files/" /etc/nsswitch.conf', 'nsswitch',
                    'passwd: xce is missing', 'cp /run/nss /etc/nsswitch.conf')

    def test_an_account_in_the_pool(self):
        self.broken(f'echo "mallory:x:{FIRST + 3000}:100::/:/bin/sh" >>/etc/passwd', 'accounts',
                    f'mallory has id {FIRST + 3000}', 'sed -i /^mallory:/d /etc/passwd')

    def test_a_map_that_others_may_write(self):
        self.broken('chmod 666 /run/xce/uidmap', 'map', 'can not be used', 'chmod 644 /run/xce/uidmap')


if __name__ == '__main__':
    del unittest
    lib.main()
