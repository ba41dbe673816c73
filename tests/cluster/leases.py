"""What tests of leases on booted machines share: a pool, the words of leasectl, and a look at what a uid has left."""
import errno
import json
import socket
import threading
import time

import lib



def own_uids():
    """The first of 2^18 uids that no other test on this kernel uses while this one runs: keys of a uid are counted for all
    machines that share a kernel. The very first ones are scripts/demo's. Held by a name that goes with this process."""
    for i in range(1, 128):
        holder = socket.socket(socket.AF_UNIX)
        try:
            holder.bind(f'\0xce-test-uids-{i}')
            return holder, 2013265920 + (i << 18)
        except OSError as e:
            holder.close()
            if e.errno != errno.EADDRINUSE:
                raise
    raise lib.Error('no uids are left for one more test')


_HOLDER, FIRST = own_uids()
LAST = FIRST + 65535


class LeaseCase(lib.Case):
    """A cluster with one pool, `main`. Tests may use others beside it (name the pool then)."""

    cooldown = '1s'
    pool_options = ()
    range = (FIRST, FIRST + 4095)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.wait_ready()
        cls.make_pool('main', *cls.range, '--cooldown', cls.cooldown, *cls.pool_options)

    @classmethod
    def poll(cls, condition, seconds, what):
        return lib.poll(condition, seconds, what, 0.05)

    @classmethod
    def node_state(cls, node):
        """ready, unknown, ...; None while its noded is not connected, or leased does not answer."""
        done = cls.cluster.run('n1', 'leasectl', 'node', 'show', node, '--json')
        shown = json.loads(done.stdout) if done.returncode == 0 else {}
        return shown.get('state') if shown.get('connected') else None

    @classmethod
    def wait_ready(cls, seconds=60):
        """Until n1's noded is connected and has looked through the machine."""
        cls.poll(lambda: cls.node_state('n1') == 'ready', seconds, lambda: 'n1 is ready:\n' + ''.join(
            cls.cluster.run('n1', 'sh', '-c', c).stdout for c in (
                'leasectl node show n1 --json', 'systemctl status -n0 leased noded', 'journalctl -n 20 --no-pager -u noded')))

    @classmethod
    def make_pool(cls, name, first, last, *options):
        if '--ready-timeout' not in options:
            options += ('--ready-timeout', '2m')  # a machine that is busy with others is not ready in ten seconds
        done = cls.cluster.run('n1', 'leasectl', 'pool', 'create', name, '--range', f'{first}-{last}', '--directory-ranges', 'none',
                               *options)
        if done.returncode != 0:
            raise AssertionError(f'pool create {name}: exit {done.returncode}: {done.stderr}')

    def acquire(self, *options, pool='main', job=None, wait=True):
        """A lease of our own on n1, as --json shows it."""
        job = job or f'{self.id().rsplit(".", 1)[-1]}-{self.next_number()}'
        return self.json('n1', 'leasectl', 'acquire', '--pool', pool, '--job', job, *(['--wait'] if wait else []), *options, '--json')

    _number = 0

    def next_number(self):
        type(self)._number += 1
        return type(self)._number

    def release(self, lease, *options):
        self.ok('n1', 'leasectl', 'release', '--lease', lease['lease'], *options)

    def state(self, lease):
        """draining, cooling, ...; free when that lease is no more."""
        done = self.run_in('n1', 'leasectl', 'show', '--lease', lease['lease'], '--json')
        if done.returncode == 3:
            return 'free'
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)['state']

    def wait_free(self, lease, seconds=60):
        self.wait(lambda: self.state(lease) == 'free', seconds, lambda: f'{lease["name"]} is free:\n{self.explain(lease)}')

    def explain(self, lease):
        done = self.run_in('n1', 'leasectl', 'explain', '--lease', lease['lease'])
        return f'{done.stdout}{done.stderr}\n{self.journal("n1", "noded", 30)}'

    def processes(self, uid, host='n1'):
        """Pids (of the machine) with uid among any of their ids or groups, in any thread."""
        script = r'''for s in /proc/[0-9]*/task/[0-9]*/status; do
            awk -v f="$s" -v u="$1" '/^(Uid|Gid|Groups):/ {for (i = 2; i <= NF; i++) if ($i == u) hit = 1}
                /^State:/ {z = $2} END {if (hit && z != "Z") print f}' "$s" 2>/dev/null
        done'''
        return self.run_in(host, 'sh', '-c', script, 'sh', uid).stdout.split()

    def processes_between(self, first, last, host='n1'):
        """The same for all uids from first to last: uid -> their files in /proc."""
        script = r'''awk -v a="$1" -v b="$2" '/^State:/ {z = $2} /^(Uid|Gid|Groups):/ && z != "Z" && z != "X" {
            for (i = 2; i <= NF; i++) if ($i >= a && $i <= b) print $i, FILENAME}' /proc/[0-9]*/task/[0-9]*/status 2>/dev/null'''
        found = {}
        for line in self.run_in(host, 'sh', '-c', script, 'sh', first, last).stdout.splitlines():
            uid, file = line.split()
            found.setdefault(int(uid), []).append(file)
        return found

    def remains(self, uid, host='n1'):
        """Everything of uid that is left: processes, files, System V and POSIX IPC, keys, units."""
        files = self.run_in(host, 'find', '/tmp', '/var/tmp', '/dev/shm', '/dev/mqueue', '/run', '/var/spool', '/var/mail',
                            '(', '-uid', uid, '-o', '-gid', uid, ')').stdout.split('\n')
        ipc = self.run_in(host, 'sh', '-c', f'cat /proc/sysvipc/shm /proc/sysvipc/sem /proc/sysvipc/msg | grep -w {uid}').stdout
        keys = self.run_in(host, 'sed', '-n', rf'/^ *{uid}: *[0-9]* [1-9]/s/^/keys of /p', '/proc/key-users').stdout.splitlines()
        slices = self.run_in(host, 'sh', '-c', f'find /sys/fs/cgroup -type d -name "xce-{uid}-*"').stdout.split()
        return self.processes(uid, host) + [f for f in files if f] + ipc.splitlines() + keys + slices

    def names(self, key, host='n1'):
        """passwd entry of a uid or a name as NSS gives it now; None when there is none."""
        done = self.run_in(host, 'getent', 'passwd', key)
        self.assertIn(done.returncode, (0, 2), done.stderr)
        return done.stdout.strip().split(':') if done.returncode == 0 else None


class Watcher:
    """leasectl watch --json in a machine, from a revision on; every line is kept, with the time when it came, or given to take.
    server: the one that is asked."""

    def __init__(self, cluster, host='n1', since=0, server=None, take=None):
        self.lines = []
        self._take = take or self.lines.append
        asked = ['env', f'XCE_SERVER={server}'] if server else []
        self.process = cluster.start_in(host, *asked, 'leasectl', 'watch', '--json', '--since', since, stdout=-1, stderr=-3)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        for line in self.process.stdout:
            self._take({**json.loads(line), 't': time.monotonic()})

    def states(self, lease_id):
        """States that one lease went through, in order, repetitions left out."""
        seen = [line['state'] for line in list(self.lines) if line.get('lease') == lease_id]
        return [s for i, s in enumerate(seen) if i == 0 or seen[i - 1] != s]

    def close(self):
        self.process.kill()
        self.process.wait()
        self._thread.join(10)
        self.process.stdout.close()
