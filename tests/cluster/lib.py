"""For tests on booted machines: a cluster that is always taken down, commands in it, waiting for conditions.

    import lib

    class Leases(lib.Case):
        nodes = 1

        def test_acquire(self):
            lease = self.json('n1', 'leasectl', 'acquire', '--job', 'j1', '--wait', '--json')
            self.wait(lambda: self.run_in('n1', 'getent', 'passwd', str(lease['uid'])).returncode == 0, 5, 'a name')

    lib.main()

A Case boots its cluster once for all of its tests and takes it down after them; also when the test process is killed.
main() ends with 77 and a line "skip: why" where machines can not be booted.
"""
import atexit
import json
import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import machines  # noqa: E402
from machines import Error, poll  # noqa: E402,F401

LONG = os.environ.get('XCE_TEST_LONG') == '1'


def count(check, long):
    """How often: the number for scripts/check, or that for scripts/check --long."""
    return long if LONG else check


def unpacked(package):
    """The folder in which scripts/setup has unpacked a package of X-Unpack-For-Tests; skips the test if it has not."""
    folder = f'/var/cache/xce-lease/{package}'
    if not os.path.isdir(folder):
        raise unittest.SkipTest(f'{package} is not unpacked: run scripts/setup as root')
    return folder


class Cluster(machines.Cluster):
    """machines.Cluster that goes down with the process that made it, however that ends."""

    def up(self, **kwargs):
        # The watcher sees its standard input close when this process is gone, and takes down what is left.
        watcher = subprocess.Popen(
            [sys.executable, '-B', '-c', 'import sys; sys.path.insert(0, sys.argv[1]); import machines; sys.stdin.read();'
             ' machines.Cluster(sys.argv[2]).down()', machines.HERE, self.name],
            stdin=subprocess.PIPE, start_new_session=True, cwd='/')
        self._watcher = watcher
        atexit.register(self.close)
        super().up(**kwargs)

    def close(self):
        """down, and wait for it."""
        atexit.unregister(self.close)
        self.down()
        self._watcher.stdin.close()
        self._watcher.wait()

    def run(self, host, *command, timeout=60 * machines.PATIENCE, **kwargs):
        """Run a command in a machine: a CompletedProcess with text. Never raises for its exit code."""
        kwargs.setdefault('stdin', subprocess.DEVNULL)
        if 'input' in kwargs:
            kwargs.pop('stdin')
        prefix = self.machine(host).prefix()
        return subprocess.run([*prefix, *map(str, command)], capture_output=True, text=True, timeout=timeout, **kwargs)

    def mount_small(self, host, folder, size_bytes):
        """An ext4 of that size over a folder of a machine, with what is in the folder. It goes with the machine's power."""
        self._small = getattr(self, '_small', 0) + 1
        image = f'{self.disk}/{host}.small{self._small}.img'
        with open(image, 'xb') as f:
            f.truncate(size_bytes)
        # Blocks as everywhere: SQLite maps pages of 4 KiB, and makes sure of their last byte alone that there is room for them.
        machines.run('mkfs.ext4', '-q', '-m', '0', '-b', '4096', image)
        loop = machines.run('losetup', '--find', '--show', image).stdout.strip()
        try:
            script = """set -e
                mknod /dev/small b $1 $2; trap 'rm -f /dev/small' EXIT; mkdir /run/small
                mount -n /dev/small /run/small; cp -a "$3/." /run/small/; chown --reference="$3" /run/small
                chmod --reference="$3" /run/small; mount -n --bind /run/small "$3"; umount -n /run/small; rmdir /run/small"""
            number = os.stat(loop).st_rdev
            machines.run('nsenter', '-t', str(self.machine(host).init_pid()), '-m', '--', 'sh', '-c', script, 'sh',
                         str(os.major(number)), str(os.minor(number)), folder)
        finally:
            machines.run('losetup', '-d', loop)  # once nobody has it mounted

    def start_in(self, host, *command, **kwargs):
        """Start a command in a machine: a Popen. It dies with the machine; the test ends it otherwise."""
        return subprocess.Popen([*self.machine(host).prefix(), *map(str, command)], text=True, **kwargs)


class Case(unittest.TestCase):
    controllers = 0
    nodes = 1
    cluster = None

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(f't{os.getpid()}-{cls.__name__.lower()}'[:21])
        cls.addClassCleanup(cls.cluster.close)
        cls.prepare()
        cls.cluster.up(controllers=cls.controllers, nodes=cls.nodes)

    @classmethod
    def prepare(cls):
        """Before the cluster is made."""

    def run_in(self, host, *command, **kwargs):
        return self.cluster.run(host, *command, **kwargs)

    def ok(self, host, *command, **kwargs):
        """Run a command that must succeed; what it printed, without the last line end."""
        done = self.run_in(host, *command, **kwargs)
        if done.returncode != 0:
            self.fail(f'{host}: {" ".join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}'.rstrip())
        return done.stdout.rstrip('\n')

    def json(self, host, *command, **kwargs):
        text = self.ok(host, *command, **kwargs)
        try:
            return json.loads(text)
        except ValueError as e:
            self.fail(f'{host}: {" ".join(map(str, command))}: no JSON ({e}): {text}')

    def wait(self, condition, seconds, what):
        """As machines.poll; what (text, or a function that gives it) is told when it never is."""
        try:
            return poll(condition, seconds, what, 0.05)
        except Error as e:
            self.fail(str(e))

    def journal(self, host, unit, lines=50):
        return self.run_in(host, 'journalctl', '--no-pager', '-o', 'short-precise', '-n', str(lines), '-u', unit).stdout


def main():
    try:
        machines.check_machine()
    except Error as e:
        print(f'skip: {e}')
        sys.exit(77)
    with machines.interruptible():
        unittest.main(verbosity=2)
