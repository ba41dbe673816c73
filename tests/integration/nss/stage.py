"""A stage for tests of what other programs load: a mount name space with a /run, nsswitch.conf and library folder of its own,
in which libnss_xce.so.2 answers out of a map that the test writes. The machine sees nothing of it."""
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile

BASE = 0x78000000
NAME = 'xce-1w00000-1'
MAP = '/run/xce/uidmap'


def skip(why):
    print('skip:', why)
    sys.exit(77)


def run(*args, **kw):
    return subprocess.run([str(a) for a in args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=60, **kw)


def enter():
    """Begin again in name spaces of our own; the marker is the pid of who did."""
    if os.environ.pop('XCE_TEST_STAGE_INSIDE', None) == '1':
        return
    if os.geteuid() != 0:
        skip('needs root, for a mount name space')
    if os.environ.get('XCE_TEST_SANITIZED'):
        skip('programs of the system cannot load a module built with sanitizers')
    os.environ['XCE_TEST_STAGE_INSIDE'] = '1'
    os.execvp('unshare', ['unshare', '--mount', '--propagation', 'private', sys.executable, '-B'] + sys.argv)


class Stage:
    """What the machine looks like to the tests."""

    def __init__(self, module, libdir):
        self.dir = tempfile.mkdtemp(prefix='xce-nss-')
        os.chmod(self.dir, 0o755)
        self.conf = os.path.join(self.dir, 'nsswitch.conf')
        lib = os.path.join(self.dir, 'lib')
        os.mkdir(lib)
        shutil.copy(module, lib)
        self.nsswitch('files xce')
        self.mount('--bind', self.conf, '/etc/nsswitch.conf')
        self.mount('-t', 'tmpfs', '-o', 'mode=0755', 'none', '/run')
        self.mount('-t', 'overlay', '-o', f'lowerdir={lib}:{libdir}', 'none', libdir)
        os.mkdir('/run/xce', 0o755)

    @staticmethod
    def mount(*args):
        done = run('mount', *args)
        if done.returncode != 0:
            skip('cannot mount: ' + done.stderr.strip())

    def nsswitch(self, services, extra=''):
        # In place: it is bound.
        with open(self.conf, 'w') as f:
            f.write(f'passwd: {services}\ngroup: {services}\n{extra}')

    def accounts(self, more):
        """/etc/passwd with these accounts besides, in the stage."""
        self.users = os.path.join(self.dir, 'passwd')
        shutil.copy('/etc/passwd', self.users)
        with open(self.users, 'a') as f:
            f.write(more)
        self.mount('--bind', self.users, '/etc/passwd')

    @contextlib.contextmanager
    def passwd(self, more):
        """Some more for a moment; accounts() was there before."""
        with open(self.users) as f:
            before = f.read()
        with open(self.users, 'w') as f:
            f.write(before + more)
        yield
        with open(self.users, 'w') as f:
            f.write(before)

    def close(self):
        shutil.rmtree(self.dir)


class Writer:
    """maptool: the writer of the map, as it is told."""

    def __init__(self, tool):
        self.process = subprocess.Popen([tool, MAP], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.began = self.process.stdout.readline().strip()

    def do(self, *words):
        self.process.stdin.write(' '.join(map(str, words)) + '\n')
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if answer != 'ok':
            raise AssertionError(f'{words}: {answer}')

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()
