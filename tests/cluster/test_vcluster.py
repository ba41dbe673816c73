#!/usr/bin/python3
"""vcluster itself: machines boot, run commands, lose power, freeze, lose each other, and leave nothing behind."""
import os
import signal
import subprocess
import sys
import time
import unittest

import lib
import machines

VCLUSTER = os.path.join(machines.HERE, 'vcluster')


def vcluster(*args, **kwargs):
    kwargs.setdefault('stdin', subprocess.DEVNULL)
    if 'input' in kwargs:
        kwargs.pop('stdin')
    return subprocess.run([VCLUSTER, *args], capture_output=True, text=True, timeout=600, **kwargs)


def remains(names):
    """Everything on this machine that bears the name of one of the clusters, or that only a cluster makes."""
    found = []
    with open('/proc/self/mountinfo', encoding='utf-8') as f:
        found += [line for line in f if any(n in line for n in names)]
    for pid in filter(str.isdecimal, os.listdir('/proc')):
        text = machines.read(f'/proc/{pid}/cgroup') if os.path.exists(f'/proc/{pid}/exe') else ''
        found += [f'process {pid} in {line}' for line in text.splitlines() if any(f'xce-vcluster.{n}/' in line for n in names)]
    loops = subprocess.run(['losetup', '-a'], capture_output=True, text=True, check=True).stdout
    found += [line for line in loops.splitlines() if any(n in line for n in names)]
    for folder in (machines.RUN, '/var/tmp', machines.cgroup_root(), '/run/netns'):
        if os.path.isdir(folder):
            found += [f'{folder}/{e}' for e in os.listdir(folder) if any(n in e for n in names)]
    return found


def namespaces(name=None):
    """Namespaces that live processes are in; of the processes of one cluster alone, if named."""
    seen = set()
    for pid in filter(str.isdecimal, os.listdir('/proc')):
        if name and f'xce-vcluster.{name}/' not in machines.read(f'/proc/{pid}/cgroup'):
            continue
        for kind in ('net', 'mnt', 'pid', 'cgroup', 'ipc', 'uts'):
            try:
                seen.add(os.readlink(f'/proc/{pid}/ns/{kind}'))
            except OSError:
                pass  # gone, or a zombie
    return seen


class One(unittest.TestCase):
    """The command line, on two clusters side by side."""

    @classmethod
    def setUpClass(cls):
        cls.a, cls.b = f'va{os.getpid()}', f'vb{os.getpid()}'
        cls.watched = [lib.Cluster(n) for n in (cls.a, cls.b)]
        cls.addClassCleanup(cls.clean)
        cls.watched[0].up(controllers=1, nodes=2)
        cls.watched[1].up()

    @classmethod
    def clean(cls):
        for cluster in cls.watched:
            cluster.close()

    def vc(self, *args, **kwargs):
        return vcluster(self.a, *args, **kwargs)

    def ok(self, *args, **kwargs):
        done = self.vc(*args, **kwargs)
        self.assertEqual(done.returncode, 0, f'{args}: {done.stdout}{done.stderr}')
        return done.stdout

    def reached(self, a, b):
        """reaches, waited for: what has just booted has no address yet, and a busy machine answers late."""
        machines.poll(lambda: self.reaches(a, b), 20, f'{a} reaches {b}')

    def reaches(self, a, b):
        """Whether a packet of a's comes back from b: a closed port refuses, a cut link says nothing."""
        code = ('import socket,sys\ns = socket.socket()\ns.settimeout(1)\ntry: s.connect((sys.argv[1], 9))\n'
                'except ConnectionRefusedError: print("yes")\nexcept OSError: print("no")')
        return self.ok('exec', a, '--', '/usr/bin/python3', '-c', code, b).strip() == 'yes'

    def test_exec_passes_everything_through(self):
        self.assertEqual(self.vc('exec', 'n1', '--', 'sh', '-c', 'exit 42').returncode, 42)
        done = self.vc('exec', 'n1', '--', 'sh', '-c', 'cat; echo err >&2; kill -9 $$', input='a\0b\n')
        self.assertEqual((done.returncode, done.stdout, done.stderr), (-signal.SIGKILL, 'a\0b\n', 'err\n'))
        self.assertEqual(self.ok('exec', 'n1', '--', 'printf', '%s|', 'a b', '', '$x', '"'), 'a b||$x|"|')
        self.assertEqual(self.ok('exec', 'n2', 'hostname'), 'n2\n')

    def test_exec_that_can_not_run(self):
        self.assertEqual(self.vc('exec', 'n9', '--', 'true').returncode, 125)
        self.assertEqual(self.vc('exec', 'n1', '--', '/no/such').returncode, 127)
        self.assertEqual(self.vc('exec', 'n1', '--').returncode, 2)

    def test_systemd_is_really_there(self):
        self.assertEqual(self.ok('exec', 'n1', '--', 'systemd-run', '--wait', '--pipe', '-q', '-p', 'User=daemon', 'id', '-un'),
                         'daemon\n')
        self.assertEqual(self.vc('exec', 'n1', '--', 'systemd-run', '--wait', '-q', 'sh', '-c', 'exit 5').returncode, 5)
        self.assertEqual(self.ok('exec', 'n1', '--', 'cat', '/proc/1/comm'), 'systemd\n')
        self.assertEqual(self.ok('exec', 'n1', '--', 'busctl', 'list', '--no-pager').count('org.freedesktop.DBus '), 1)

    def test_nothing_of_the_host_but_its_system(self):
        for folder in ('/tmp', '/root', '/home', '/etc/xce/leased.conf.d'):
            left = self.vc('exec', 'n2', '--', 'ls', '-A', folder).stdout.split()
            self.assertEqual([f for f in left if not f.startswith(('systemd-private-', '.'))], [], folder)
        wanted = self.ok('exec', 'n2', '--', 'ls', '/etc/systemd/system/multi-user.target.wants').split()
        self.assertLessEqual(set(wanted), {'systemd-networkd.service', 'noded.service', 'xce-userdbd.service'})
        ids = {self.ok('exec', h, '--', 'cat', '/etc/machine-id', '/proc/sys/kernel/random/boot_id') for h in ('c1', 'n1', 'n2')}
        self.assertEqual(len(ids), 3)

    def test_shared_folder(self):
        self.ok('exec', 'n1', '--', 'sh', '-c', 'echo hello >/shared/a')
        self.assertEqual(self.ok('exec', 'n2', '--', 'cat', '/shared/a'), 'hello\n')
        other = vcluster(self.b, 'exec', 'n1', '--', 'ls', '/shared')
        self.assertEqual((other.returncode, other.stdout), (0, ''))

    def test_cut_and_heal(self):
        self.reached('c1', 'n1')
        self.ok('cut', 'c1', 'n1')
        self.assertFalse(self.reaches('c1', 'n1'))
        self.assertFalse(self.reaches('n1', 'c1'))
        self.reached('c1', 'n2')
        self.ok('cut', 'n2', 'all')
        self.assertFalse(self.reaches('c1', 'n2'))
        self.assertFalse(self.reaches('n2', 'n1'))
        self.ok('kill', 'c1')
        self.ok('start', 'c1')
        self.assertFalse(self.reaches('c1', 'n1'), 'a cut outlives the machine')
        self.ok('heal')
        self.reached('c1', 'n1')
        self.reached('n2', 'c1')

    def hears(self, a, b):
        """Whether a datagram of a's comes to b, within two seconds after it was sent."""
        listen = ('import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("", 7)); s.settimeout(2)\n'
                  'print("ready", flush=True); sys.stdin.read()\ntry: print(s.recv(9).decode())\nexcept TimeoutError: print("nothing")')
        send = f'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"heard", ("{b}", 7))'
        ear = subprocess.Popen([VCLUSTER, self.a, 'exec', b, '--', '/usr/bin/python3', '-c', listen], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
        self.assertEqual(ear.stdout.readline(), 'ready\n')
        self.ok('exec', a, '--', '/usr/bin/python3', '-c', send)
        said = ear.communicate(timeout=120)[0].strip()
        self.assertIn(said, ('heard', 'nothing'))
        return said == 'heard'

    def heard(self, a, b):
        machines.poll(lambda: self.hears(a, b), 20, f'{b} hears {a}')

    def test_cut_one_way(self):
        self.ok('cut', 'c1', 'n1', '--one-way')
        self.assertFalse(self.hears('c1', 'n1'))
        self.heard('n1', 'c1')
        self.heard('c1', 'n2')
        self.ok('cut', 'n2', 'all', '--one-way')
        self.assertFalse(self.hears('n2', 'c1'))
        self.heard('c1', 'n2')
        self.ok('heal')
        self.heard('c1', 'n1')
        self.heard('n2', 'c1')

    def test_kill_and_start_keep_the_disk(self):
        boot = self.ok('exec', 'n2', '--', 'cat', '/proc/sys/kernel/random/boot_id')
        self.ok('exec', 'n2', '--', 'sh', '-c', 'echo kept >/var/lib/kept; touch /tmp/lost; echo $$ >/run/lost; sync')
        runs = subprocess.Popen([VCLUSTER, self.a, 'exec', 'n2', '--', 'sh', '-c', 'echo; exec sleep 1000'], stdout=subprocess.PIPE)
        self.assertEqual(runs.stdout.readline(), b'\n')
        runs.stdout.close()
        self.ok('kill', 'n2')
        self.assertNotEqual(runs.wait(timeout=120), 0)
        self.assertEqual(self.vc('exec', 'n2', '--', 'true').returncode, 125)
        self.assertIn('n2 down', self.ok('list'))
        self.ok('start', 'n2')
        self.assertEqual(self.ok('exec', 'n2', '--', 'cat', '/var/lib/kept'), 'kept\n')
        self.assertNotEqual(self.ok('exec', 'n2', '--', 'cat', '/proc/sys/kernel/random/boot_id'), boot)
        self.assertNotEqual(self.vc('exec', 'n2', '--', 'ls', '/run/lost').returncode, 0)
        self.assertEqual(self.vc('start', 'n2').returncode, 1, 'it runs already')

    def test_pause_and_resume(self):
        self.ok('exec', 'n1', '--', 'systemd-run', '-q', '--unit=ticker', 'sh', '-c', 'while :; do echo >>/run/ticks; sleep 0.01; done')

        def size():
            return os.stat(f'/proc/{pid}/root/run/ticks').st_size

        pid = machines.Cluster(self.a).machine('n1').init_pid()
        machines.poll(lambda: os.path.exists(f'/proc/{pid}/root/run/ticks'), 10, 'the ticker ticks')
        self.ok('pause', 'n1')
        self.assertIn('n1 paused', self.ok('list'))
        before = size()
        time.sleep(0.3)
        self.assertEqual(size(), before)
        self.ok('resume', 'n1')
        machines.poll(lambda: size() > before, 10, 'the ticker goes on')
        self.ok('exec', 'n1', '--', 'systemctl', 'stop', 'ticker')

    def test_kill_a_paused_machine(self):
        self.ok('pause', 'n2')
        self.ok('kill', 'n2')
        self.ok('start', 'n2')
        self.assertIn('n2 running', self.ok('list'))

    def test_name_is_taken(self):
        done = vcluster(self.b, 'up')
        self.assertEqual(done.returncode, 1)
        self.assertIn('exists', done.stderr)
        self.assertEqual(vcluster(self.b, 'exec', 'n1', '--', 'true').returncode, 0)

    def test_usage(self):
        for args in (['cut', 'n1'], ['frob'], ['up', '--nodes'], ['up', '--nodes', 'x'], ['up', '--frob', '1'], []):
            self.assertEqual(self.vc(*args).returncode, 2, args)
        for args in (['cut', 'n1', 'n9'], ['cut', 'n1', 'n1'], ['kill', 'x'], ['up', '--nodes', '0'], ['up', '--controllers', '2']):
            done = self.vc(*args)
            self.assertEqual(done.returncode, 1, args)
            self.assertRegex(done.stderr, '^vcluster: ')
        for args in (['heal'], ['cut', 'n1', 'n2'], ['kill', 'n1'], ['exec', 'n1', '--', 'true']):
            done = vcluster(f'no{os.getpid()}', *args)
            self.assertIn(done.returncode, (1, 125))
            self.assertIn('is not up', done.stderr)
        self.assertFalse(os.path.exists(f'{machines.RUN}/no{os.getpid()}'))
        self.assertEqual(vcluster('No_name', 'up').returncode, 1)
        self.assertEqual(vcluster('--help').returncode, 0)

    def test_what_the_packages_install_is_in_place(self):
        user = self.ok('exec', 'n1', '--', 'getent', 'passwd', 'xce-leased').strip().split(':')
        self.assertEqual(user[5:], ['/var/lib/xce/leased', '/usr/sbin/nologin'])
        self.assertEqual(self.ok('exec', 'n1', '--', 'stat', '-c', '%U %a %F', '/run/xce', '/var/lib/xce').split('\n')[:2],
                         ['root 755 directory'] * 2)
        self.assertEqual(self.ok('exec', 'n1', '--', 'readlink', '-m', '/run/xce/leased.sock'), '/run/xce/leased/leased.sock\n')
        units = self.ok('exec', 'n1', '--', 'systemctl', 'list-unit-files', '--no-legend', 'leased.service', 'noded.service')
        self.assertEqual(len(units.splitlines()), 2, units)

    def test_no_unit_failed(self):
        self.assertEqual(self.ok('exec', 'n1', '--', 'systemctl', 'list-units', '--failed', '--plain', '--no-legend'), '')


class NothingLeft(unittest.TestCase):
    def setUp(self):
        self.name = f'vl{os.getpid()}'
        self.addCleanup(vcluster, self.name, 'down')

    def assert_nothing_left(self, of_cluster=frozenset()):
        # The kernel takes a loop device away in its own time.
        machines.poll(lambda: not remains([self.name]), 5, lambda: f'nothing is left: {remains([self.name])}')
        # Namespaces go with their last process, which the kernel reaps in its own time.
        machines.poll(lambda: not namespaces() & of_cluster, 20, lambda: f'namespaces end: {namespaces() & of_cluster}')

    def test_after_down(self):
        self.assertEqual(vcluster(self.name, 'up', '--nodes', '2').returncode, 0)
        self.assertNotEqual(remains([self.name]), [])
        of_cluster = namespaces(self.name) - {os.readlink(f'/proc/self/ns/{k}') for k in os.listdir('/proc/self/ns')}
        self.assertGreater(len(of_cluster), 10)
        self.assertEqual(vcluster(self.name, 'cut', 'n1', 'n2').returncode, 0)
        self.assertEqual(vcluster(self.name, 'pause', 'n2').returncode, 0)
        self.assertEqual(vcluster(self.name, 'down').returncode, 0)
        self.assert_nothing_left(of_cluster)
        self.assertEqual(vcluster(self.name, 'down').returncode, 0, 'down twice')

    def test_after_up_was_ended(self):
        for signum in (signal.SIGINT, signal.SIGTERM):
            up = subprocess.Popen([VCLUSTER, self.name, 'up'], stderr=subprocess.DEVNULL, start_new_session=True)
            machines.poll(lambda: os.path.exists(f'{machines.RUN}/{self.name}/n1.log'), 60, 'up has begun to boot')
            up.send_signal(signum)
            self.assertEqual(up.wait(timeout=300), 130)
            self.assert_nothing_left()

    def test_down_after_up_was_killed(self):
        for delay in (0.1, 0.3, 0.6, 0.9):
            up = subprocess.Popen([VCLUSTER, self.name, 'up'], stderr=subprocess.DEVNULL, start_new_session=True)
            time.sleep(delay)
            up.kill()
            up.wait()
            self.assertEqual(vcluster(self.name, 'down').returncode, 0)
            self.assert_nothing_left()

    def test_up_that_fails(self):
        done = vcluster(self.name, 'up', '--build', '/nowhere')
        self.assertEqual(done.returncode, 1)
        self.assertIn('/nowhere', done.stderr)
        self.assert_nothing_left()

    def test_killed_test_process(self):
        """A test that is killed leaves its cluster to the watcher of lib.Cluster."""
        code = f'import lib, time; c = lib.Cluster("{self.name}"); c.up(); print("up", flush=True); time.sleep(1000)'
        test = subprocess.Popen([sys.executable, '-B', '-c', code], cwd=machines.HERE, stdout=subprocess.PIPE, text=True)
        self.assertEqual(test.stdout.readline(), 'up\n')
        test.kill()
        test.wait()
        test.stdout.close()
        machines.poll(lambda: not os.path.exists(f'{machines.RUN}/{self.name}'), 60, 'the watcher takes it down')
        self.assert_nothing_left()


lib.main()
