#!/usr/bin/python3
"""What a node costs its machine: the end of a lease, a pass of the guard, and doing nothing, with many processes and many
files about. Needs root. Real leased and noded, in a root folder and namespaces of their own, which go with the process,
however it ends: nothing of the host is looked at, so its own files and processes count for nothing.

Times are those of the processor that noded and its children have used, not of the clock: another load matters little. There
is no systemd in there, so what it costs to ask it for its units is not in these figures."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
FIRST, COUNT = 0x71000000, 64
OTHERS = 1000  # whom the files belong to
PER_FOLDER = 100
SETTLED_S = 0.5
AHEAD_S = 11  # noded rests 10 between sweeps of uids that are next in line
NOTHING_S = 0.002  # what noded uses meanwhile to stay in touch
TICK = os.sysconf("SC_CLK_TCK")


# ---- a machine of its own ----

def run(*command):
    subprocess.run(command, check=True)


def bind(what, where):
    if os.path.isdir(what):
        os.makedirs(where, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(where), exist_ok=True)
        open(where, "w").close()
    run("mount", "--bind", what, where)


def root_make(root):
    """What is needed of the host's root, and empty folders for the rest."""
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", root)
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "usr", "etc"):
        path = "/" + name
        if os.path.islink(path):
            os.symlink(os.readlink(path), root + path)
        elif os.path.exists(path):
            bind(path, root + path)
    for name in ("null", "zero", "random", "urandom"):
        bind("/dev/" + name, root + "/dev/" + name)
    for name in ("proc", "tmp", "var/tmp", "var/spool", "dev/shm", "run/lock", "run/user", "old"):
        os.makedirs(os.path.join(root, name))
    bind(SOURCE, root + "/bench/source")
    bind(os.environ.get("XCE_BUILD", os.path.join(SOURCE, "build")), root + "/bench/build")


def root_enter(root):
    run("mount", "-t", "proc", "proc", root + "/proc")
    os.chdir(root)
    run("pivot_root", ".", "old")
    os.chroot(".")
    os.chdir("/")
    run("umount", "--lazy", "/old")
    os.rmdir("/old")


def tmp_make(root, disk):
    if not disk:
        run("mount", "-t", "tmpfs", "-o", "mode=1777,nr_inodes=0,size=2g", "tmpfs", root + "/tmp")
        return
    image = root + "/bench/image"
    run("truncate", "--size", "2G", image)
    run("mkfs.ext4", "-q", "-N", "300000", image)
    run("mount", "-o", "loop", image, root + "/tmp")
    os.unlink(image)
    os.chmod(root + "/tmp", 0o1777)


def populate(n_files, n_processes):
    """Files of several people in folders of theirs; processes that wait."""
    for i in range(n_files):
        folder = "/tmp/d%d" % (i // PER_FOLDER)
        uid = OTHERS + i // PER_FOLDER % 50
        if i % PER_FOLDER == 0:
            os.mkdir(folder)
            os.chown(folder, uid, uid)
            continue
        path = "%s/f%d" % (folder, i)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
        os.chown(path, uid, uid)
    for _ in range(n_processes):
        os.posix_spawn("/usr/bin/sleep", ["sleep", "infinity"], {})


# ---- what it costs ----

def cpu_s(pid):
    """Of a process and its children, those that have ended, too."""
    with open("/proc/%d/stat" % pid) as f:
        ended = sum(int(n) for n in f.read().rpartition(")")[2].split()[13:15])
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        children = [int(n) for n in f.read().split()]
    total = ended / TICK
    for each in [pid] + children:
        try:
            total += time.clock_gettime(~each << 3 | 2)  # its process's clock, see clock_getcpuclockid(3)
        except OSError:
            pass  # it has ended since
    return total


def settled_s(pid, seconds=60):
    """What it has used, once it does nothing any more."""
    deadline = time.monotonic() + seconds
    used, since = cpu_s(pid), time.monotonic()
    while time.monotonic() - since < SETTLED_S:
        if time.monotonic() > deadline:
            raise AssertionError("noded does not come to rest")
        time.sleep(0.02)
        now = cpu_s(pid)
        if now - used > NOTHING_S:
            used, since = now, time.monotonic()
    return cpu_s(pid)


class Bench:
    def __init__(self, peer, test_noded):
        self.peer = peer
        self.leased = peer.Leased("Heartbeat = 5s\nLostAfter = 60s", folder="/bench/leased").start()
        self.noded = test_noded.Noded(self.leased)
        with open(self.noded.conf, "w") as f:  # the test's own is in more of a hurry than a real one
            f.write("[noded]\nServer = unix:%s\nNode = n1\nRuntimeDir = %s\nStateDir = %s\n"
                    % (self.leased.socket, self.noded.runtime, self.noded.state))
        self.noded.start()
        self.client = self.leased.client()
        self.pid = self.noded.process.pid

    def ready(self):
        self.client.create_pool(first=FIRST, count=COUNT, cooldown_ms=1000, ready_timeout_ms=60000)
        self.peer.until(self.is_ready, seconds=60, what="the node to be ready")

    def is_ready(self):
        m = self.client.m["node"]
        try:
            node = self.client.node.Get(m.NodeKey(node=b"n1"), timeout=10).node
        except self.peer.grpc.RpcError:
            return False
        return node.state == m.NODE_STATE_READY and node.connected

    def is_free(self, lease):
        try:
            self.client.get(lease=lease.lease)
            return False
        except self.peer.grpc.RpcError as error:
            if error.code() != self.peer.grpc.StatusCode.NOT_FOUND:
                raise
            return True

    def guard_pass_ms(self):
        m = self.client.m["node"]
        before = settled_s(self.pid)
        self.client.node.Sweep(self.client.request(m.NodeVerbRequest(node=b"n1", reason=b"bench")), timeout=10)
        # It may rest before: nine times as long as the last pass took.
        self.peer.until(lambda: cpu_s(self.pid) - before > NOTHING_S, seconds=60, what="a pass of the guard")
        return 1000 * (settled_s(self.pid) - before)

    def lease_end_ms(self, n_left):
        """Of a lease that leaves so many files, from its release until its uid is free: the sweep and the pass that looks
        once more. Not what the next grant costs ahead."""
        lease = self.client.acquire(wait=True, timeout=60).leases[0]
        for i in range(n_left):
            path = "/tmp/left%d" % i
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
            os.chown(path, lease.uid, lease.uid)
        time.sleep(AHEAD_S)
        before = settled_s(self.pid)
        self.client.release(lease)
        deadline = time.monotonic() + 120
        while not self.is_free(lease):
            if time.monotonic() > deadline:
                raise AssertionError("uid %d is not free in time" % lease.uid)
            time.sleep(0.005)
        after = cpu_s(self.pid)
        if os.path.exists("/tmp/left0"):
            raise AssertionError("what the lease left is still there")
        return 1000 * (after - before)

    def idle_percent(self, seconds):
        before, began = settled_s(self.pid), time.monotonic()
        time.sleep(seconds)
        return 100 * (cpu_s(self.pid) - before) / (time.monotonic() - began)

    def figures(self, options):
        def median(measure):
            return statistics.median([measure() for _ in range(options.rounds + 1)][1:])  # the first one fills caches

        self.ready()
        return {
            "guard_pass_ms": median(self.guard_pass_ms),
            "sweep_ms": median(lambda: self.lease_end_ms(0)),
            "sweep_left_ms": median(lambda: self.lease_end_ms(10)),
            "idle_cpu_percent": self.idle_percent(options.seconds),
        }

    def end(self):
        self.client.close()
        self.noded.stop()
        self.leased.stop()


def measure(options):
    sys.path.insert(0, "/bench/source/tests/integration")
    os.environ["XCE_BUILD"] = "/bench/build"
    os.mkdir("/bench/leased")
    import peer
    import test_noded
    bench = Bench(peer, test_noded)
    try:
        return bench.figures(options)
    except BaseException:
        sys.stderr.write(bench.noded.said()[-4000:])
        raise
    finally:
        bench.end()


def show(figures, options):
    if options.json:
        print(json.dumps({"bench": "sweep", "figures": {name: round(value, 3) for name, value in figures.items()}}))
        return
    print("%d processes, %d files in /tmp (%s)" % (options.processes, options.files, "ext4" if options.disk else "tmpfs"))
    print("a pass of the guard                      %8.1f ms" % figures["guard_pass_ms"])
    print("the end of a lease that leaves nothing   %8.1f ms" % figures["sweep_ms"])
    print("the end of a lease that leaves 10 files  %8.1f ms" % figures["sweep_left_ms"])
    print("an idle node, over %d s                  %8.3f %% of a processor" % (options.seconds, figures["idle_cpu_percent"]))


def inside(options):
    root_make("/mnt")
    tmp_make("/mnt", options.disk)
    root_enter("/mnt")
    populate(options.files, options.processes)
    show(measure(options), options)


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench sweep", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--processes", type=int, default=2000)
    parser.add_argument("--files", type=int, default=200000, help="in /tmp, with their folders")
    parser.add_argument("--disk", action="store_true", help="/tmp on ext4 instead of tmpfs")
    parser.add_argument("--rounds", type=int, default=3, help="medians of so many")
    parser.add_argument("--seconds", type=int, default=60, help="of idling; noded looks once a minute")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench: needs root")
    if options.inside:
        inside(options)
        return
    # What is in there ends with its first process, that one with us, and every mount with the last of them.
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", "--pid", "--ipc", "--fork", "--kill-child", "--",
                          sys.executable, os.path.abspath(__file__), "--inside", *sys.argv[1:]])


main()
