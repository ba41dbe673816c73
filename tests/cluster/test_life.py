#!/usr/bin/python3
"""The life of a lease on a booted machine: granted, named, run under, given back, proved clean, given out again."""
import json
import re

import lib
from leases import FIRST, LeaseCase, Watcher

# A process that asks for a name ten times a second, in the map it opened at the start, and writes each change of answer.
ASK = '''
import pwd, sys, time
before = None
while True:
    try:
        now = str(pwd.getpwnam(sys.argv[1]).pw_uid)
    except KeyError:
        now = "none"
    if now != before:
        print(now, flush=True)
        before = now
    time.sleep(0.1)
'''
# Somebody lets a uid read a file of his own.
LET_IN = """
import os, struct, sys
open(sys.argv[1], 'w').close()
entries = [(1, 6, -1), (2, 4, int(sys.argv[2])), (4, 4, -1), (0x10, 4, -1), (0x20, 0, -1)]
os.setxattr(sys.argv[1], 'system.posix_acl_access', struct.pack('<I', 2) + b''.join(struct.pack('<HHI', t, p, i & 0xffffffff) for t, p, i in entries))
"""
# Leaves what a job can leave without a sandbox: files, shared memory, a message queue, keys, files without a name at somebody
# else's, a process with its own session.
LITTER = '''
touch /tmp/litter-$1 /var/tmp/litter-$1 /dev/shm/litter-$1 /run/lock/litter-$1
mkdir -p /tmp/litter-dir-$1/a/b && touch /tmp/litter-dir-$1/a/b/c
ipcmk -M 4096 -S 1 -Q >/dev/null
/usr/bin/python3 - $1 <<'P'
import ctypes, os, socket, sys
rt = ctypes.CDLL(None, use_errno=True)
if rt.mq_open(b"/litter-" + sys.argv[1].encode(), os.O_CREAT | os.O_RDWR, 0o600, None) < 0:
    sys.exit(os.strerror(ctypes.get_errno()))
add_key = {"x86_64": 248, "aarch64": 217}[os.uname().machine]
holder = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
holder.connect("\\0litter-holder")
memory = os.memfd_create("litter")
socket.send_fds(holder, [b"x"], [os.open("/tmp", os.O_TMPFILE | os.O_RDWR), memory])
holder.recv(1)
for ring in (-4, -5):  # the user's, the user session's
    if rt.syscall(add_key, b"user", b"litter", b"secret", ctypes.c_size_t(6), ring) < 0:
        sys.exit(os.strerror(ctypes.get_errno()))
P
setsid sleep 1000 </dev/null >/dev/null 2>&1 &
'''
# Somebody else, who takes what he is sent and keeps it open.
HOLDER = '''
import os, socket
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind("\\0litter-holder")
listener.listen()
print(os.getpid(), flush=True)
giver, _ = listener.accept()
_, fds, _, _ = socket.recv_fds(giver, 1, 2)
print(*fds, flush=True)
giver.send(b"x")
listener.accept()
'''


class Run(LeaseCase):
    def test_every_service_agrees(self):
        lease = self.acquire(job='j1')
        uid, name = lease['uid'], lease['name']
        self.assertEqual(lease['state'], 'active')
        entry = [name, 'x', str(uid), str(uid)]
        self.assertEqual(self.names(uid)[:4], entry)
        self.assertEqual(self.names(name)[:4], entry)
        for key in (uid, name):
            self.assertEqual(self.ok('n1', 'getent', 'group', key).split(':')[:3], [name, 'x', str(uid)])
        self.assertEqual(self.ok('n1', 'id', name), f'uid={uid}({name}) gid={uid}({name}) groups={uid}({name})')
        for user in (uid, name):
            self.assertEqual(self.ok('n1', 'systemd-run', '--wait', '--pipe', '-q', '-p', f'User={user}', 'id', '-un'), name)
        self.release(lease)

    def test_print_systemd_run(self):
        text = self.ok('n1', 'sh', '-c', 'args=$(leasectl acquire --job p1 --wait --print systemd-run) && '
                       'eval "systemd-run --wait --pipe -q $args sh -c \'id -un; id -u; cat /proc/self/cgroup\'"')
        name, uid, *cgroup = text.splitlines()
        lease = self.json('n1', 'leasectl', 'show', '--job', 'p1', '--json')
        self.assertEqual((name, int(uid)), (lease['name'], lease['uid']))
        self.assertIn(f'/xce-{uid}-{lease["epoch"]}.slice/', ''.join(cgroup))
        self.release(lease)

    def test_print_systemd_run_unquoted(self):
        """As people write it: $(...) without quotes."""
        name = self.ok('n1', 'sh', '-c', 'systemd-run --wait --pipe -q $(leasectl acquire --job p2 --wait --print systemd-run) id -un')
        self.assertEqual(name, self.json('n1', 'leasectl', 'show', '--job', 'p2', '--json')['name'])
        self.ok('n1', 'leasectl', 'release', '--job', 'p2')

    def test_uid_without_lease(self):
        uid = self.range[1]
        self.assertEqual(self.run_in('n1', 'getent', 'passwd', uid).returncode, 2)
        self.assertEqual(self.run_in('n1', 'getent', 'group', uid).returncode, 2)
        done = self.run_in('n1', 'systemd-run', '--wait', '--pipe', '-q', '-p', f'User={uid}', 'id', '-un')
        self.assertEqual(done.returncode, 217, done.stderr)

    def test_rounds_never_miss(self):
        for i in range(lib.count(20, 200)):
            lease = self.acquire(job=f'round-{i}')
            done = self.run_in('n1', 'systemd-run', '--wait', '--pipe', '-q', '-p', f'User={lease["uid"]}', 'id', '-un')
            self.assertEqual((done.returncode, done.stdout.strip()), (0, lease['name']), f'round {i}: {done.stderr}')
            self.release(lease)

    def test_exec(self):
        done = self.run_in('n1', 'leasectl', 'exec', '--job', 'j2', '--wait=clean', '--', 'sh', '-c',
                           'id; touch /tmp/x; ipcmk -M 64 >/dev/null; setsid sleep 100 & exit 3')
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        uid = int(re.search(r'uid=(\d+)\(xce-', done.stdout)[1])
        self.assertEqual(self.remains(uid), [])
        self.assertEqual(self.run_in('n1', 'ls', '/tmp/x').returncode, 2)

    def test_exec_passes_streams_and_signals(self):
        done = self.run_in('n1', 'leasectl', 'exec', '--job', 'j3', '--', 'sh', '-c', 'cat; echo err >&2; kill -9 $$', input='in\n')
        self.assertEqual((done.returncode, done.stdout), (128 + 9, 'in\n'), done.stderr)
        self.assertIn('err\n', done.stderr)

    def test_exec_of_nothing(self):
        self.assertEqual(self.run_in('n1', 'leasectl', 'exec', '--job', 'j4', '--', '/no/such/program').returncode, 127)
        self.wait(lambda: self.run_in('n1', 'leasectl', 'show', '--job', 'j4').returncode == 3, 20, 'j4 holds nothing')

    def test_history_steps_back(self):
        """The unit's filter of system calls lets the thread lower its own priority."""
        script = 'for t in /proc/$(systemctl show -P MainPID leased)/task/*; do echo $(cat $t/comm) $(cut -d" " -f19 $t/stat); done'
        nice = dict(line.split() for line in self.ok('n1', 'sh', '-c', script).splitlines())
        self.assertEqual((nice['leased'], nice['writer'], nice['history']), ('0', '0', '10'), nice)


class GiveBack(LeaseCase):
    cooldown = '3s'

    def litter(self, lease):
        """Leave all that can be left under a lease, in its slice and out of it."""
        uid = lease['uid']
        self.ok('n1', 'systemd-run', '-q', '--wait', '--pipe', '-p', f'User={lease["name"]}', '-p', 'KillMode=none', '--slice',
                f'xce-{uid}-{lease["epoch"]}.slice', 'sh', '-c', LITTER, 'sh', uid)
        self.ok('n1', 'sh', '-c', 'setsid setpriv --reuid $1 --regid $1 --clear-groups sleep 1000 </dev/null >/dev/null 2>&1 &', 'sh',
                uid)
        # The group alone, and one more session.
        self.ok('n1', 'sh', '-c', 'setsid setpriv --reuid 65000 --regid 65000 --groups $1 sleep 1000 </dev/null >/dev/null 2>&1 &', 'sh', uid)
        self.wait(lambda: len(self.processes(uid)) >= 3, 10, f'three processes of {uid}')
        self.assertGreaterEqual(len(self.remains(uid)), 3 + 6 + 3 + 1)

    def test_everything_left_goes(self):
        watcher = Watcher(self.cluster)
        self.addCleanup(watcher.close)
        lease = self.acquire()
        holder = self.cluster.start_in('n1', 'setpriv', '--reuid', '65000', '--clear-groups', '/usr/bin/python3', '-c', HOLDER, stdout=-1)
        self.addCleanup(lambda: (holder.kill(), holder.wait(), holder.stdout.close()))
        pid = holder.stdout.readline().strip()
        self.litter(lease)
        held = [f'/proc/{pid}/fd/{fd}' for fd in holder.stdout.readline().split()]
        owners = ('stat', '-L', '-c', '%U', *held)
        self.assertEqual(self.ok('n1', *owners).split(), [lease['name']] * 2)
        self.ok('n1', '/usr/bin/python3', '-c', LET_IN, '/tmp/let-in', lease['uid'])
        records = (f'/run/faillock/{lease["name"]}', f'/run/sudo/ts/{lease["uid"]}')
        self.ok('n1', 'sh', '-c', 'mkdir -p /run/faillock /run/sudo/ts && touch "$@"', 'sh', *records)
        self.release(lease, '--wait=clean')
        self.assertEqual(self.names(lease['uid'])[0], lease['name'], 'it has a name until it is retired')
        attributes = self.ok('n1', '/usr/bin/python3', '-c', 'import os; print(os.getxattr("/tmp/let-in", "system.posix_acl_access"))')
        self.assertNotIn(str(lease['uid'].to_bytes(4, 'little'))[2:-1], attributes, 'nobody lets the uid in any more')
        self.assertEqual([r for r in records if self.run_in('n1', 'ls', r).returncode == 0], [])
        self.assertEqual(self.ok('n1', *owners).split(), ['xce-remnant'] * 2, 'what another has open is nobody\'s')
        # With them goes the session keyring of who had opened them.
        self.ok('n1', 'kill', pid)
        self.wait(lambda: not self.remains(lease['uid']), 10, lambda: f'nothing remains: {self.remains(lease["uid"])}')
        self.wait_free(lease)
        self.assertIsNone(self.names(lease['uid']))
        self.wait(lambda: 'free' in watcher.states(lease['lease']), 10, 'the watcher sees it free')
        states = watcher.states(lease['lease'])
        order = ['granted', 'active', 'draining', 'normalising', 'cooling', 'retired', 'free']
        self.assertEqual(states, [s for s in order if s in states])
        self.assertLessEqual({'draining', 'cooling', 'retired', 'free'}, set(states))

    def test_longest_unused_first_and_no_name_comes_back(self):
        first = FIRST + 8192
        self.make_pool('small', first, first + 3, '--cooldown', '1s')
        lease = self.acquire(pool='small')
        asks = self.cluster.start_in('n1', '/usr/bin/python3', '-c', ASK, lease['name'], stdout=-1)
        self.addCleanup(lambda: (asks.kill(), asks.wait(), asks.stdout.close()))
        self.assertEqual(asks.stdout.readline(), f'{lease["uid"]}\n')
        self.release(lease)
        self.wait_free(lease)
        self.assertEqual(asks.stdout.readline(), 'none\n')
        others = []
        for _ in range(3):
            other = self.acquire(pool='small')
            self.assertNotEqual(other['uid'], lease['uid'], 'longer unused ones come first')
            others.append(other)
        self.assertEqual(len({o['uid'] for o in others}), 3)
        again = self.acquire(pool='small')
        self.assertEqual((again['uid'], again['epoch']), (lease['uid'], lease['epoch'] + 1))
        self.assertIsNone(self.names(lease['name']))
        self.assertEqual(self.names(again['uid'])[0], again['name'])
        done = self.run_in('n1', 'systemd-run', '--wait', '--pipe', '-q', '-p', f'User={lease["name"]}', 'id')
        self.assertEqual(done.returncode, 217, 'the old name runs nothing')
        full = self.run_in('n1', 'leasectl', 'acquire', '--pool', 'small', '--job', 'full')
        self.assertEqual(full.returncode, 6, full.stderr)
        asks.kill()
        self.assertEqual(asks.stdout.read(), '', 'the old name never resolved again')
        for each in [again, *others]:
            self.release(each)

    def run_as(self, uid):
        """root starts something under a uid that it has no right to. It has run, and may be dead by now."""
        # Type=exec: systemd-run is told when the program is executed, or that it was ended before that.
        self.wait(lambda: self.run_in('n1', 'systemd-run', '-q', '--unit', f'stray-{uid}-{self.next_number()}', '-p', 'Type=exec', '-p',
                                      f'User={uid}', 'sleep', '1000').returncode == 0, 20, 'a stray runs')

    def ends_before_free(self, lease):
        """The stray dies at the next pass, and the uid is not free as long as it lives."""

        def dead():
            state = self.state(lease)
            alive = self.processes(lease['uid'])
            self.assertFalse(alive and state == 'free', 'free under a living process')
            return not alive

        self.wait(dead, 20, lambda: f'the stray dies:\n{self.explain(lease)}')
        self.wait_free(lease)
        self.assertEqual(self.remains(lease['uid']), [])

    def noded(self, signal):
        self.ok('n1', 'systemctl', 'kill', '--kill-whom=main', f'--signal={signal}', 'noded')

    def stop_noded(self):
        """For as long as the test takes: nobody replaces it."""
        self.ok('n1', 'systemctl', 'service-watchdogs', 'no')
        self.addCleanup(self.ok, 'n1', 'systemctl', 'service-watchdogs', 'yes')
        self.addCleanup(self.wait_ready)
        self.addCleanup(self.noded, 'CONT')
        self.noded('STOP')

    def test_stray_while_draining(self):
        lease = self.acquire()
        self.stop_noded()
        self.release(lease)
        self.assertEqual(self.state(lease), 'draining')
        self.run_as(lease['uid'])
        self.noded('CONT')
        self.ends_before_free(lease)

    def test_stray_while_cooling(self):
        first = FIRST + 8208
        self.make_pool('cools', first, first, '--cooldown', '1h')
        lease = self.acquire(pool='cools')
        self.release(lease, '--wait=clean')
        self.assertEqual(self.state(lease), 'cooling')
        # It is reopened, and then cools for as long as its pool says by then.
        self.ok('n1', 'leasectl', 'pool', 'set', 'cools', '--cooldown', '1s')
        self.run_as(lease['uid'])
        self.ends_before_free(lease)

    def cooling_without_noded(self):
        """A lease that n1 has proved, and noded has stopped before it has looked again; another one if that came too late."""
        while True:
            lease = self.acquire()
            self.release(lease, '--wait=clean')
            self.stop_noded()
            if self.state(lease) == 'cooling':
                return lease
            self.doCleanups()

    def test_stray_while_retired(self):
        lease = self.cooling_without_noded()
        self.wait(lambda: self.state(lease) == 'retired', 20, 'it is retired')
        self.run_as(lease['uid'])
        self.assertEqual(self.state(lease), 'retired', 'not free without a look by noded')
        self.noded('CONT')
        self.ends_before_free(lease)

    def test_stray_without_lease(self):
        """A uid of the range that nobody holds is guarded too."""
        uid = self.range[1]
        self.ok('n1', 'sh', '-c', 'setsid setpriv --reuid $1 --regid $1 --clear-groups sleep 1000 </dev/null >/dev/null 2>&1 &', 'sh', uid)
        self.ok('n1', 'leasectl', 'node', 'sweep', 'n1')
        self.wait(lambda: not self.processes(uid), 70, 'the stray dies')

    def blocked(self):
        shown = self.json('n1', 'leasectl', 'pool', 'show', 'main', '--json')
        return [entry['uid'] for entry in shown['blocked']]

    def passes(self):
        """A pass that began after now."""
        before = self.journal('n1', 'noded', 1000).count('told to look at once')
        self.ok('n1', 'leasectl', 'node', 'sweep', 'n1')
        self.wait(lambda: self.journal('n1', 'noded', 1000).count('told to look at once') > before, 10, 'noded was told')

    def test_failed_unit_is_no_stray(self):
        """217/USER leaves a unit that has failed and runs nothing: it goes, and its uid stays usable."""
        uid = self.range[1] - 8
        for i in range(3):
            done = self.run_in('n1', 'systemd-run', '--wait', '-q', '--unit', f'failed-{i}', '-p', f'User={uid - i}', 'true')
            self.assertEqual(done.returncode, 217, done.stderr)
        self.passes()
        self.wait(lambda: 'failed-' not in self.ok('n1', 'systemctl', 'list-units', '--all', '--no-legend', 'failed-*'), 20,
                  'the failed units are reset')
        self.release(self.acquire())  # READY comes behind whatever that pass had to report
        self.assertEqual([u for u in self.blocked() if uid - 3 < u <= uid], [])

    def test_what_comes_after_clean_is_gone_before_the_uid_is_given_out(self):
        """A dump or a mail of its old holder that a daemon writes while the uid cools, in a pool of one."""
        first = FIRST + 8200
        self.make_pool('one', first, first, '--cooldown', '1s')
        for i in range(3):
            self.release(self.acquire(pool='one'), '--wait=clean')
            self.ok('n1', 'sh', '-c', 'mkdir -p /var/lib/systemd/coredump; touch /var/mail/late /tmp/late; chown $1 /var/mail/late /tmp/late',
                    'sh', first)
            self.ok('n1', '/usr/bin/python3', '-c', LET_IN, '/var/lib/systemd/coredump/core', first)
            self.wait(lambda: self.run_in('n1', 'leasectl', 'acquire', '--pool', 'one', '--job', f'next-{i}').returncode == 0, 60, 'it is free')
            self.assertEqual(self.remains(first), [])
            self.assertNotIn(str(first), self.ok('n1', 'getfacl', '-pn', '/var/lib/systemd/coredump/core'))
            self.ok('n1', 'leasectl', 'release', '--job', f'next-{i}', '--wait=free')

    def test_next_holder_reads_nothing_of_the_journal(self):
        """It is put away for root, who loses no line of any holder; after a rotation a holder reads his own again."""
        first = FIRST + 8204
        self.make_pool('log', first, first, '--cooldown', '1s')
        lines = []
        for i, readable in enumerate((['line 0'], [], ['line 2'])):
            if i == 2:
                self.ok('n1', 'journalctl', '--rotate')
            lease = self.acquire(pool='log')
            run = ('systemd-run', '-q', '--wait', '--pipe', '-p', f'User={lease["name"]}')
            read = ('journalctl', '-q', '-o', 'cat', '-t', 'holder')
            self.ok('n1', *run, 'logger', '-t', 'holder', f'line {i}')
            self.ok('n1', 'journalctl', '--sync')
            lines.append(f'line {i}')
            self.assertEqual(self.ok('n1', *read).splitlines(), lines)
            self.assertEqual(self.run_in('n1', *run, *read).stdout.splitlines(), readable)
            self.release(lease, '--wait=clean')
            self.assertNotIn(str(first), self.ok('n1', 'sh', '-c', 'getfacl -cpn /var/log/journal/*/user-$1@*', 'sh', first))
            self.wait_free(lease)
        self.ok('n1', 'sh', '-c', 'journalctl --verify --file "/var/log/journal/*/user-$1*"', 'sh', first)

    def test_unit_that_refuses_to_stop_holds_up_nobody_else(self):
        """Killed and not started again it is done with; started again it keeps its own uid alone."""
        for_good = ('-p', 'Restart=always', '-p', 'RestartSec=0', '-p', 'StartLimitIntervalSec=0')
        units = {}
        leases = {}
        for what, options in (('refuses', ('-p', 'RefuseManualStop=yes')), ('stays', ('-p', 'RefuseManualStop=yes', *for_good)),
                              ('comes-back', for_good)):
            leases[what] = self.acquire()
            units[what] = f'{what}-{leases[what]["uid"]}'
            self.ok('n1', 'systemd-run', '-q', '--unit', units[what], '-p', f'User={leases[what]["name"]}', *options, 'sleep', '1000')
        self.ok('n1', 'leasectl', 'release', *(lease['name'] for lease in leases.values()))
        self.wait_free(leases['refuses'])
        self.wait_free(leases['comes-back'])
        self.assertEqual(self.state(leases['stays']), 'draining')
        self.assertIn(units['stays'], self.explain(leases['stays']))
        self.ok('n1', 'sh', '-c', 'rm -r /run/systemd/transient/$1* && systemctl daemon-reload', 'sh', units['stays'])
        self.wait_free(leases['stays'])

    def test_unblocked_uid_is_guarded_again(self):
        """An account comes and is left alone, goes, and is unblocked: then nothing may run under its number any more."""
        uid = self.range[1] - 16
        stray = ('sh', '-c', 'setsid setpriv --reuid $1 --clear-groups sleep 1000 </dev/null >/dev/null 2>&1 &', 'sh', uid)
        self.ok('n1', 'sh', '-c', f'echo somebody:x:{uid}:100::/:/bin/sh >>/etc/passwd')
        self.ok('n1', *stray)
        self.passes()
        self.wait(lambda: uid in self.blocked(), 20, 'the uid is blocked')
        self.assertNotEqual(self.processes(uid), [], 'nothing of the account is touched')
        self.ok('n1', 'sed', '-i', '/^somebody:/d', '/etc/passwd')
        self.ok('n1', 'leasectl', 'pool', 'unblock', 'main', uid, '--reason', 'the account is gone')
        self.passes()
        self.wait(lambda: not self.processes(uid), 20, 'what runs there now is a stray')

    def test_live_lease_is_left_alone(self):
        lease = self.acquire()
        unit = f'job-{lease["uid"]}'
        self.ok('n1', 'systemd-run', '-q', '--unit', unit, '-p', f'User={lease["name"]}', '--slice',
                f'xce-{lease["uid"]}-{lease["epoch"]}.slice', 'sleep', '1000')
        for restart in (('restart', 'noded'), ('restart', 'leased'), ('kill', '--signal=KILL', 'noded')):
            self.ok('n1', 'systemctl', *restart)
            self.wait_ready()
            self.assertEqual(self.ok('n1', 'systemctl', 'is-active', unit), 'active', restart)
            self.assertEqual(self.names(lease['uid'])[0], lease['name'])
        self.release(lease, '--wait=clean')
        self.assertEqual(self.processes(lease['uid']), [])
        self.wait_free(lease)


lib.main()
