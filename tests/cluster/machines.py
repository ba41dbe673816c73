"""Booted machines for tests: what vcluster and lib.py are made of.

A cluster is a set of systemd-nspawn containers, each booting a systemd of its own over an overlay of this machine's `/`
with the build installed into it, on a bridge in a network namespace of the cluster's own.

    /run/xce-vcluster/NAME/     lock, hosts, HOST.log (console), disk/ (mount point),
                                net (a network namespace: bridge br0, ports vb-HOST)
    /var/tmp/xce-vcluster.NAME.img   ext4, holds all layers: base (ours over `/`), HOST/upper (its disk), shared
    <cgroup2>/xce-vcluster.NAME/HOST/   all processes of one machine: killed and frozen by it

Each machine's overlay is mounted in a mount namespace of its own and ends with its last process; on this machine only
the disk is mounted. Everything has a name that follows from the cluster's, so down() needs no memory of what up() did.
"""
import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid

RUN = '/run/xce-vcluster'
HERE = os.path.dirname(os.path.abspath(__file__))
DISK_BYTES = 16 << 30  # sparse
READY_SECONDS = 30
BOOT_SECONDS = 60
PATIENCE = 4  # how many times as long as it may take a machine that is busy with other things may need
NETWORK = '10.76.23.'

# What a machine keeps of this one's `/`: the system. Every other folder is empty there.
KEEP_TOP = {'bin', 'boot', 'etc', 'lib', 'lib32', 'lib64', 'libx32', 'sbin', 'usr', 'var'}
EMPTY = ['tmp', 'var/tmp', 'var/log', 'var/lib/systemd', 'var/lib/xce', 'var/mail', 'var/lib/machines', 'etc/xce',
         'etc/systemd/system', 'etc/systemd/network', 'etc/cron.d', 'var/spool/cron'] + [f'etc/rc{n}.d' for n in '0123456S']
MODES = {'tmp': 0o1777, 'var/tmp': 0o1777, 'root': 0o700}
TOOLS = {'systemd-nspawn': 'systemd-container', 'nft': 'nftables', 'ip': 'iproute2', 'nsenter': 'util-linux',
         'unshare': 'util-linux', 'mkfs.ext4': 'e2fsprogs', 'meson': 'meson', 'ninja': 'ninja-build'}


class Error(Exception):
    """Something that the caller can be told in one line."""


def run(*args, check=True, **kwargs):
    """Run a command quietly; an Error with its stderr when it fails."""
    kwargs.setdefault('stdin', subprocess.DEVNULL)
    done = subprocess.run(args, capture_output=True, text=True, **kwargs)
    if check and done.returncode != 0:
        raise Error(f'{" ".join(args)}: {(done.stderr or done.stdout).strip() or f"exit {done.returncode}"}')
    return done


def poll(condition, seconds, what, interval=0.02):
    """Wait until condition() is true and return what it gave; an Error naming what after PATIENCE times so many seconds. No measure:
    what may not take longer than it is promised is timed by who tests it."""
    seconds *= PATIENCE
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Error(f'not within {seconds} s: {what() if callable(what) else what}')
        time.sleep(interval)


def cgroup_root():
    """Where cgroup2 is mounted."""
    with open('/proc/self/mountinfo', encoding='utf-8') as f:
        for line in f:
            fields = line.split()
            if fields[fields.index('-') + 1] == 'cgroup2':
                return fields[4]
    raise Error('no cgroup2 is mounted')


def read(path):
    """The text of a small file; '' when it is not there (any more)."""
    try:
        with open(path, encoding='utf-8') as f:
            return f.read()
    except OSError as e:
        if e.errno in (errno.ENOENT, errno.ENODEV):
            return ''
        raise


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='utf-8') as f:
        f.write(text)


def mounted(path):
    """Whether something is mounted at path (os.path.ismount does not see a file on a file)."""
    with open('/proc/self/mountinfo', encoding='utf-8') as f:
        return any(line.split()[4] == path for line in f)


def kill_cgroup(path):
    """SIGKILL to all that is in a cgroup or below, until the cgroup can be removed; done when there is none."""

    def gone():
        if not os.path.exists(path):
            return True
        with contextlib.suppress(OSError):
            write(f'{path}/cgroup.kill', '1')
            write(f'{path}/cgroup.freeze', '0')
        # One that was about to enter may do so until the folder is gone, so kill again each time.
        with contextlib.suppress(OSError):
            for folder, _, _ in os.walk(path, topdown=False):
                os.rmdir(folder)
        return not os.path.exists(path)

    poll(gone, 30, lambda: f'{path} is empty (it has: {read(f"{path}/cgroup.procs").split()})')


@contextlib.contextmanager
def inside_cgroup(path):
    """This process is in a cgroup of its own, so that whoever it starts is found there if it is killed."""
    root = cgroup_root()
    before = next(line[3:] for line in read('/proc/self/cgroup').splitlines() if line.startswith('0::'))
    os.makedirs(path, exist_ok=True)
    write(f'{path}/cgroup.procs', str(os.getpid()))
    try:
        yield
    finally:
        write(f'{root}{before.rstrip("/")}/cgroup.procs', str(os.getpid()))


class Machine:
    """One booted (or killed) machine of a cluster."""

    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name
        self.cgroup = f'{cluster.cgroup}/{name}'
        self.layers = f'{cluster.disk}/{name}'
        self.log = f'{cluster.state}/{name}.log'

    def populated(self):
        return 'populated 1' in read(f'{self.cgroup}/cgroup.events')

    def frozen(self):
        return 'frozen 1' in read(f'{self.cgroup}/cgroup.events')

    def init_pid(self):
        """The host's pid of the machine's PID 1, or None while there is none."""
        for pid in read(f'{self.cgroup}/payload/init.scope/cgroup.procs').split():
            ids = re.search(r'^NSpid:\s+(.*)$', read(f'/proc/{pid}/status'), re.M)
            if ids and len(ids[1].split()) > 1 and ids[1].split()[-1] == '1':
                return int(pid)
        return None

    def running(self):
        return self.init_pid() is not None

    def prefix(self):
        """A command line that runs what follows it in the machine, as root, in a clean environment."""
        pid = self.init_pid()
        if pid is None:
            raise Error(f'{self.name} is not running')
        # A cgroup of its own inside the machine's: what is run there is frozen and killed with it. The command itself ends
        # with the one who runs it here.
        return ['/bin/bash', '-c', 'mkdir -p "$1" && echo $$ >"$1/cgroup.procs" && shift && exec "$@"', 'vcluster',
                f'{self.cgroup}/payload/vcluster', 'nsenter', '-t', str(pid), '-a', '--', 'setpriv', '--pdeathsig', 'KILL', 'env',
                '-i', *self.environment()]

    @staticmethod
    def environment():
        env = {'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': '/root', 'USER': 'root',
               'LOGNAME': 'root', 'SHELL': '/bin/bash', 'LANG': 'C.UTF-8', 'TERM': os.environ.get('TERM', 'dumb')}
        return [f'{k}={v}' for k, v in env.items()]

    def start(self):
        if self.populated():
            raise Error(f'{self.name} is running')
        os.makedirs(self.cgroup, exist_ok=True)
        with open(self.log, 'ab') as log:
            self.cluster.children[self.name] = subprocess.Popen(
                ['nsenter', f'--net={self.cluster.net}', 'unshare', '--mount', '--propagation', 'private',
                 '/bin/bash', f'{HERE}/boot.sh', self.cluster.name, self.name, self.cgroup],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd='/',
                env={'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'LANG': 'C.UTF-8'})

    def wait_booted(self):
        """Until systemd has started all it was to start. Failed units do not keep a machine from being up."""
        began = time.monotonic()

        def state():
            if self.init_pid() is None:
                if time.monotonic() > began + 10 * PATIENCE and not self.populated():
                    raise Error(f'{self.name} did not boot: {self.tail()}')
                return ''
            return run(*self.prefix(), 'systemctl', 'is-system-running', check=False).stdout.strip()

        poll(lambda: state() in ('running', 'degraded'), BOOT_SECONDS, lambda: f'{self.name} boots: {self.tail()}', 0.1)

    def wait_ready(self):
        """Until the cluster takes new leases on this node."""
        def node():
            asked = self.cluster.machine('n1').prefix()
            return run(*asked, 'leasectl', 'node', 'show', self.name, '--json', check=False).stdout

        poll(lambda: '"state": "ready"' in node(), READY_SECONDS, lambda: f'{self.name} is ready: {node()}', 0.1)

    def tail(self):
        lines = [line for line in read(self.log).splitlines() if line.strip()]
        return ' | '.join(lines[-3:]) or 'nothing on its console'

    def kill(self):
        """Its power is gone: SIGKILL to every process of it at once, and no word from its kernel to anybody. Its disk stays."""
        run('nsenter', f'--net={self.cluster.net}', 'ip', 'link', 'set', f'vb-{self.name}', 'down', check=False)
        kill_cgroup(self.cgroup)
        child = self.cluster.children.pop(self.name, None)
        if child is not None:
            child.wait()
        # The kernel takes its end of the wire away when it has time; the next boot would meet it.
        run('nsenter', f'--net={self.cluster.net}', 'ip', 'link', 'del', f'vb-{self.name}', check=False)

    def freeze(self, on):
        if not self.populated():
            raise Error(f'{self.name} is not running')
        write(f'{self.cgroup}/cgroup.freeze', '1' if on else '0')
        poll(lambda: self.frozen() == on, 20, f'{self.name} is {"paused" if on else "resumed"}')


class Cluster:
    def __init__(self, name):
        if not re.fullmatch(r'[a-z][a-z0-9-]{0,20}', name):
            raise Error(f'"{name}": a cluster is named by 1 to 21 of a-z 0-9 and dash, a letter first')
        self.name = name
        self.state = f'{RUN}/{name}'
        self.disk = f'{self.state}/disk'
        self.image = f'/var/tmp/xce-vcluster.{name}.img'
        self.cgroup = f'{cgroup_root()}/xce-vcluster.{name}'
        self.net = f'{self.state}/net'
        self.children = {}  # host -> process that this one started it with
        self.issuing = {}  # environment in which certificates are made
        self.leased_settings = ''  # lines of leased.conf on every controller
        self.noded_settings = ''  # lines of noded.conf on every node

    # ---- what there is ----

    def hosts(self):
        """Names of the machines, controllers first; [] when the cluster is not up."""
        text = read(f'{self.state}/hosts')
        return json.loads(text)['hosts'] if text else []

    def machine(self, host):
        if not self.hosts():
            raise Error(f'cluster {self.name} is not up')
        if host not in self.hosts():
            raise Error(f'{self.name} has no machine "{host}" (it has: {", ".join(self.hosts())})')
        return Machine(self, host)

    @contextlib.contextmanager
    def locked(self, seconds=60):
        """One verb at a time that changes the cluster."""
        try:
            fd = os.open(f'{self.state}/lock', os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            raise Error(f'cluster {self.name} is not up') from None

        def taken():
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                return False

        try:
            poll(taken, seconds, f'another command ends with {self.name}', 0.1)
            yield
        finally:
            os.close(fd)

    # ---- up ----

    def up(self, controllers=0, nodes=1, build=None):
        """Make and boot the cluster. build: a meson build folder; its install goes into every machine."""
        check_machine()
        if controllers not in (0, 1, 3, 5):
            raise Error(f'{controllers} controllers: 0 (leased runs on n1), 1, 3 or 5')
        if not 1 <= nodes <= 50:
            raise Error(f'{nodes} nodes: 1 to 50')
        build = find_build(build)
        self._claim()
        try:
            with self.locked(0), interruptible(), inside_cgroup(f'{self.cgroup}/up'):
                hosts = [f'c{i + 1}' for i in range(controllers)] + [f'n{i + 1}' for i in range(nodes)]
                self._make_disk()
                self._make_base(build, hosts, controllers)
                self._make_network()
                if controllers:
                    self._make_ca(build)
                write(f'{self.state}/hosts', json.dumps({'hosts': hosts, 'controllers': controllers}))
                machines = [Machine(self, host) for host in hosts]
                for machine in machines:
                    self._make_machine(machine.name, controllers)
                    machine.start()
                for machine in machines:
                    machine.wait_booted()
                if controllers > 1:
                    self._form(machines[:controllers])
                for machine in machines:
                    if machine.name[0] == 'n' and (controllers or machine.name == 'n1'):
                        machine.wait_ready()
        except BaseException:
            with uninterruptible():
                self.down()
            raise

    def _claim(self):
        while True:
            try:
                os.makedirs(RUN, exist_ok=True)
                os.mkdir(self.state)
                return
            except FileExistsError:
                raise Error(f'cluster {self.name} exists: vcluster {self.name} down') from None
            except FileNotFoundError:
                pass  # the last of the others went down just now and took the folder along

    def _make_disk(self):
        # A file system of its own: layers of an overlay must not lie below its lower one, which is `/`.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.image)
        with open(self.image, 'xb') as f:
            f.truncate(DISK_BYTES)
        run('mkfs.ext4', '-q', '-m', '0', '-E', 'lazy_itable_init=1,lazy_journal_init=1', self.image)
        os.mkdir(self.disk)
        run('mount', '-n', '-o', 'loop,noatime', self.image, self.disk)
        os.mkdir(f'{self.disk}/shared')
        os.chmod(f'{self.disk}/shared', 0o1777)

    def _empty(self, root, path):
        target = f'{root}/{path}'
        os.makedirs(target, exist_ok=True)
        os.chmod(target, MODES.get(path, 0o755))
        os.setxattr(target, 'trusted.overlay.opaque', b'y')

    def _make_base(self, build, hosts, controllers):
        """The layer that all machines have over `/`: nothing of this machine but its system, and our files."""
        base = f'{self.disk}/base'
        os.mkdir(base)
        os.chmod(base, 0o755)
        for top in sorted(os.listdir('/')):
            if os.path.isdir(f'/{top}') and not os.path.islink(f'/{top}') and top not in KEEP_TOP:
                self._empty(base, top)
        for path in EMPTY:
            if os.path.isdir(f'/{path}') or path.startswith('var'):
                self._empty(base, path)
        os.makedirs(f'{base}/var/log/journal')

        addresses = {h: NETWORK + str(int(h[1:]) + (10 if h[0] == 'c' else 100)) for h in hosts}
        write(f'{base}/etc/hosts', '127.0.0.1 localhost\n' + ''.join(f'{a} {h}\n' for h, a in addresses.items()))
        write(f'{base}/etc/fstab', '')
        write(f'{base}/etc/nsswitch.conf', nsswitch())
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f'{base}/etc/resolv.conf')
        write(f'{base}/etc/resolv.conf', '')
        write(f'{base}/etc/systemd/journald.conf.d/vcluster.conf',
              '[Journal]\nStorage=persistent\nSystemMaxUse=64M\nRateLimitIntervalSec=0\n')
        write(f'{base}/etc/systemd/system.conf.d/vcluster.conf', '[Manager]\nDefaultTimeoutStopSec=20s\n')
        self._enable(base, 'systemd-networkd.service')
        for unit in ('console-getty.service', 'systemd-timesyncd.service'):
            os.symlink('/dev/null', f'{base}/etc/systemd/system/{unit}')

        meson = ['meson', 'install', '-C', build, '--no-rebuild', '--quiet', '--destdir', base]
        run(*meson, env=dict(os.environ, PATH='/usr/sbin:/usr/bin:/sbin:/bin'))
        for stray in ('bin', 'sbin', 'lib', 'lib64'):
            if os.path.lexists(f'{base}/{stray}') and os.path.islink(f'/{stray}'):
                raise Error(f'the build installs into /{stray}, which is a symlink on this machine')

    def _enable(self, root, unit):
        wants = f'{root}/etc/systemd/system/multi-user.target.wants'
        os.makedirs(wants, exist_ok=True)
        os.symlink(f'/usr/lib/systemd/system/{unit}', f'{wants}/{unit}')

    def _make_machine(self, host, controllers):
        """A machine's own disk: who it is and what runs on it."""
        for part in ('upper', 'work', 'root'):
            os.makedirs(f'{self.disk}/{host}/{part}')
        upper = f'{self.disk}/{host}/upper'
        address = NETWORK + str(int(host[1:]) + (10 if host[0] == 'c' else 100))
        write(f'{upper}/etc/hostname', f'{host}\n')
        write(f'{upper}/etc/machine-id', f'{uuid.uuid4().hex}\n')
        write(f'{upper}/etc/systemd/network/10-host0.network',
              f'[Match]\nName=host0\n[Network]\nAddress={address}/24\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n')
        units = ['noded.service', 'xce-userdbd.service'] if host[0] == 'n' else ['leased.service']
        if controllers:
            self._configure(upper, host, controllers)
        elif host == 'n1':
            units.insert(0, 'leased.service')
        if host[0] == 'n':
            write(f'{upper}/etc/xce/noded.conf.d/settings.conf', '[noded]\n' + self.noded_settings)
        for unit in units:
            if os.path.exists(f'{self.disk}/base/usr/lib/systemd/system/{unit}') and self._has_daemon(unit):
                self._enable(upper, unit)

    # ---- who is who: a CA of the cluster's own ----

    def _make_ca(self, build):
        self.leasectl = f'{build}/ctl/leasectl'
        run(self.leasectl, 'cert', 'init', f'{self.disk}/ca', env={**os.environ, **self.issuing})

    def _certify(self, upper, kind, name, *options):
        """The settings of whoever is that: certificate, key and CA in the machine's /etc/xce."""
        etc = f'{upper}/etc/xce'
        os.makedirs(etc, exist_ok=True)
        os.chmod(etc, 0o755)
        run(self.leasectl, 'cert', 'issue', kind, name, '--ca', f'{self.disk}/ca', '--out', etc, *options,
            env={**os.environ, **self.issuing})
        for part in ('ca.pem', 'crl.pem'):
            shutil.copy(f'{self.disk}/ca/{part}', f'{etc}/{part}')
        return (f'Certificate = /etc/xce/{name}.pem\nKey = /etc/xce/{name}.key\nCA = /etc/xce/ca.pem\n'
                'CRL = /etc/xce/crl.pem\n')

    def _configure(self, upper, host, controllers):
        """Who the machine is to the others, and where they are."""
        servers = 'Server = ' + ', '.join(f'c{i + 1}:7623' for i in range(controllers)) + '\n'
        if host[0] == 'c':
            keys = self._certify(upper, 'replica', host, '--host', host)
            engine = f'Engine = raft\nAdvertise = {host}:7623\n' if controllers > 1 else ''
            write(f'{upper}/etc/xce/leased.conf.d/vcluster.conf', f'[leased]\nListen = *:7623\n{engine}{keys}{self.leased_settings}')
            return
        write(f'{upper}/etc/xce/noded.conf.d/vcluster.conf', '[noded]\n' + servers + self._certify(upper, 'node', host))
        if host == 'n1':
            write(f'{upper}/etc/xce/client.conf.d/vcluster.conf',
                  '[client]\n' + servers + self._certify(upper, 'user', 'root', '--group', 'xce-admin'))

    def _form(self, controllers):
        """Three or five become one: the first begins, the others are added."""
        def ask(machine, *words):
            return run(*machine.prefix(), 'leasectl', '--timeout', '10s', 'cluster', *words, check=False)

        def begun():
            return first.name in ask(first, 'status', '--no-headings', '-o', 'name').stdout.split()

        first, said = controllers[0], {}
        poll(lambda: begun() or (said.update(it=ask(first, 'init').stderr), begun())[1], READY_SECONDS,
             lambda: f'{first.name} begins a cluster: {said}', 0.1)
        for other in controllers[1:]:
            poll(lambda: (said.update(it=ask(first, 'add', other.name)), said['it'].returncode == 0)[1], READY_SECONDS,
                 lambda: f'{other.name} joins: {said["it"].stderr}', 0.1)

    def _has_daemon(self, unit):
        name = unit.removesuffix('.service')
        return os.path.exists(f'{self.disk}/base/usr/sbin/{name}')

    def _make_network(self):
        write(self.net, '')
        run('unshare', f'--net={self.net}', 'true')
        for command in ('link set lo up', 'link add br0 type bridge stp_state 0 forward_delay 0', 'link set br0 up'):
            run('nsenter', f'--net={self.net}', 'ip', *command.split())
        self._nft('''
            table bridge vcluster {
                set pairs { type ifname . ifname; }
                set off { type ifname; }
                set one_way { type ifname . ifname; }
                set mute { type ifname; }
                chain forward {
                    type filter hook forward priority 0;
                    iifname . oifname @pairs drop
                    iifname @off drop
                    oifname @off drop
                    ether type arp accept
                    iifname . oifname @one_way drop
                    iifname @mute drop
                }
            }''')

    def _nft(self, text):
        run('nsenter', f'--net={self.net}', 'nft', '-f', '-', stdin=None, input=text)

    # ---- the network ----

    def cut(self, a, b, one_way=False):
        """Nothing passes between a and b any more, in either direction; b may be "all". one_way: nothing from a to b, while
        what b sends still comes to a (b goes on knowing where a is: ARP passes)."""
        self.machine(a)
        if b == 'all':
            self._nft(f'add element bridge vcluster {"mute" if one_way else "off"} {{ "vb-{a}" }}')
            return
        self.machine(b)
        if a == b:
            raise Error(f'{a} can not be cut from itself')
        if one_way:
            self._nft(f'add element bridge vcluster one_way {{ "vb-{a}" . "vb-{b}" }}')
        else:
            self._nft(f'add element bridge vcluster pairs {{ "vb-{a}" . "vb-{b}", "vb-{b}" . "vb-{a}" }}')

    def heal(self):
        """All cuts are gone."""
        self.machine(self.hosts()[0] if self.hosts() else '')
        self._nft(''.join(f'flush set bridge vcluster {name}\n' for name in ('pairs', 'off', 'one_way', 'mute')))

    # ---- down ----

    def down(self):
        """End every process, and leave nothing: also of a cluster that is half up, or not there at all."""
        with contextlib.ExitStack() as stack:
            if os.path.isdir(self.state):
                stack.enter_context(self.locked())
            self._down()

    def _down(self):
        # What an interrupted up has started comes first: it may be about to become a machine.
        kill_cgroup(f'{self.cgroup}/up')
        kill_cgroup(self.cgroup)
        for child in self.children.values():
            child.wait()
        self.children.clear()
        # The kernel lets go of a killed machine's mounts a moment after its last process.
        for point in (self.net, self.disk):
            while mounted(point):
                poll(lambda: run('umount', '-n', point, check=False).returncode == 0, 20, f'{point} is not in use')
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.image)
        if os.path.isdir(self.state):
            shutil.rmtree(self.state)
        for folder in (f'{RUN}/.run.{self.name}', RUN):
            with contextlib.suppress(OSError):
                os.rmdir(folder)


def nsswitch():
    """This machine's nsswitch.conf, with `files xce systemd` for users and groups."""
    lines = [line for line in read('/etc/nsswitch.conf').splitlines() if not re.match(r'\s*(passwd|group|initgroups)\s*:', line)]
    return '\n'.join(['passwd: files xce systemd', 'group: files xce systemd', *lines]) + '\n'


def find_build(build):
    """The build folder: as given, or XCE_BUILD, as it is; else `build` of this tree, made and brought up to date."""
    build = build or os.environ.get('XCE_BUILD')
    if build:
        if not os.path.exists(f'{build}/build.ninja'):
            raise Error(f'{build} is no meson build folder')
        return os.path.abspath(build)
    tree = os.path.dirname(os.path.dirname(HERE))
    build = f'{tree}/build'
    env = dict(os.environ, PATH='/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin')
    if not os.path.exists(f'{build}/build.ninja'):
        run('meson', 'setup', build, tree, env=env)
    run('ninja', '-C', build, env=env)
    return build


def check_machine():
    """Whether machines can be booted here; an Error that names what is missing."""
    if os.geteuid() != 0:
        raise Error('only root can boot machines')
    for tool, package in TOOLS.items():
        if shutil.which(tool, path='/usr/sbin:/usr/bin:/sbin:/bin') is None:
            raise Error(f'{tool} is missing ({package}): run scripts/setup')
    if not os.path.exists('/usr/lib/systemd/systemd'):
        raise Error('systemd is missing: run scripts/setup')
    for part in ('/usr', '/etc', '/var', '/var/lib'):
        if mounted(part):
            raise Error(f'{part} is a file system of its own: machines are made of one `/`')


@contextlib.contextmanager
def interruptible():
    """SIGTERM and SIGHUP end what runs as Ctrl-C does: by an exception, so that it is cleaned up."""

    def handler(signum, frame):
        raise KeyboardInterrupt

    old = {s: signal.signal(s, handler) for s in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for s, h in old.items():
            signal.signal(s, h)


@contextlib.contextmanager
def uninterruptible():
    names = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    old = {s: signal.signal(s, signal.SIG_IGN) for s in names}
    try:
        yield
    finally:
        for s, h in old.items():
            signal.signal(s, h)
