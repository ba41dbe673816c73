"""What integration tests share: the messages and stubs of our services without generated code in the tree, a leased of
one's own on a temporary folder, and a node made of nothing but its session.

Uses Debian's python3-grpcio and protoc: clients that this project did not write."""
import contextlib
import importlib
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import grpc

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("XCE_BUILD", os.path.join(ROOT, "build"))
PATIENCE = 4  # how many times as long as it may take a machine that is busy with other things may need
_stubs = None


def messages():
    """The generated modules, compiled by protoc into a folder that goes with the process."""
    global _stubs
    if _stubs is None:
        _stubs = tempfile.mkdtemp(prefix="xce-stubs.")
        import atexit
        atexit.register(shutil.rmtree, _stubs, ignore_errors=True)
        protos = [os.path.join("xce/v1", p) for p in os.listdir(os.path.join(ROOT, "proto/xce/v1")) if p.endswith(".proto")]
        subprocess.run(["protoc", "-I", os.path.join(ROOT, "proto"), "--python_out", _stubs, *protos], check=True)
        sys.path.insert(0, _stubs)
    return {p: importlib.import_module("xce.v1.%s_pb2" % p) for p in ("common", "lease", "pool", "node", "rbac", "cluster")}


class Stub:
    """Methods of one service as attributes, made from its descriptor."""

    def __init__(self, channel, module, service):
        descriptor = module.DESCRIPTOR.services_by_name[service]
        for method in descriptor.methods:
            path = "/%s/%s" % (descriptor.full_name, method.name)
            kind = channel.unary_unary
            if method.name == "Watch":
                kind = channel.unary_stream
            elif method.name == "Session":
                kind = channel.stream_stream
            setattr(self, method.name, kind(
                path, request_serializer=lambda m: m.SerializeToString(),
                response_deserializer=method.output_type._concrete_class.FromString))


class Client:
    def __init__(self, target, credentials=None):
        self.m = messages()
        self.channel = grpc.secure_channel(target, credentials) if credentials else grpc.insecure_channel(target)
        self.lease = Stub(self.channel, self.m["lease"], "LeaseService")
        self.pool = Stub(self.channel, self.m["pool"], "PoolService")
        self.node = Stub(self.channel, self.m["node"], "NodeService")
        self.cluster = Stub(self.channel, self.m["cluster"], "ClusterService")
        self.rbac = Stub(self.channel, self.m["rbac"], "RbacService")

    def close(self):
        self.channel.close()

    def request(self, message, request_id=None):
        """A mutating message with its request id."""
        message.request.id = request_id or os.urandom(16)
        return message

    def acquire(self, nodes=("n1",), job=b"", ttl_ms=600000, wait=False, request_id=None, timeout=60, **more):
        ask = self.request(self.m["lease"].AcquireRequest(wait=wait), request_id)
        spec = ask.leases.add(job=job, nodes=[n.encode() for n in nodes], **more)
        if ttl_ms:
            spec.ttl_ms = ttl_ms
        return self.lease.Acquire(ask, timeout=timeout)

    def release(self, lease, request_id=None, timeout=60):
        return self.lease.Release(self.request(self.m["lease"].ReleaseRequest(lease=lease.lease, epoch=lease.epoch),
                                               request_id), timeout=timeout)

    def get(self, timeout=60, **key):
        return self.lease.Get(self.m["lease"].LeaseKey(**key), timeout=timeout)

    def create_pool(self, name=b"main", first=2013265920, count=1024, request_id=None, **settings):
        pool = self.m["pool"]
        return self.pool.Create(self.request(pool.CreatePoolRequest(
            name=name, range=pool.UidRange(first=first, last=first + count - 1), directory_none=True,
            settings=pool.PoolSettings(**settings)), request_id), timeout=60)


class Daemon:
    """What a leased and a noded have in common: a process, once it has started, and a log."""

    process = None
    log = None

    def said(self):
        """Its log so far."""
        with open(self.log, errors="replace") as f:
            return f.read()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """End in order; the exit code."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=20 * PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
        return self.process.returncode if self.process else None


class Leased(Daemon):
    """A leased of its own: start, kill, stop; its folder goes with it."""

    def __init__(self, config="", folder=None, preload=()):
        self.folder = folder or tempfile.mkdtemp(prefix="xce-leased.")
        self.mine = folder is None
        self.socket = os.path.join(self.folder, "leased.sock")
        self.state = os.path.join(self.folder, "state")
        self.conf = os.path.join(self.folder, "leased.conf")
        self.log = os.path.join(self.folder, "leased.log")
        self.preload = list(preload)
        os.chmod(self.folder, 0o755)
        with open(self.conf, "w") as f:
            f.write("[leased]\nSocket = %s\nStateDir = %s\nGrace = 0s\n%s\n" % (self.socket, self.state, config))

    def start(self, wait=True):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.preload + [os.path.join(BUILD, "leased/leased"), "--config", self.conf],
                                            stderr=log, stdout=log)
        if wait:
            until(self.answers, what="leased to serve", seconds=20, alive=self.process)
        return self

    def answers(self):
        import socket
        with socket.socket(socket.AF_UNIX) as s:
            try:
                s.connect(self.socket)
                return True
            except OSError:
                return False

    def set(self, old, new):
        """Its configuration, by the time it starts again or reload."""
        with open(self.conf) as f:
            text = f.read()
        assert old in text
        with open(self.conf, "w") as f:
            f.write(text.replace(old, new))

    def reload(self):
        said = self.said().count("configuration read again")
        self.process.send_signal(signal.SIGHUP)
        until(lambda: self.said().count("configuration read again") > said, what="the configuration to be read again")

    @contextlib.contextmanager
    def losing(self, seconds=1):
        """Who is silent for so long is lost. Else nobody is soon: a busy machine is silent now and then."""
        self.set("LostAfter = 60s", "LostAfter = %ds" % seconds)
        self.reload()
        yield
        self.set("LostAfter = %ds" % seconds, "LostAfter = 60s")
        self.reload()

    def client(self):
        return Client("unix:" + self.socket)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.kill()
        if self.mine:
            if sys.exc_info()[0] and os.path.exists(self.log):
                sys.stderr.write(self.said()[-4000:])
            shutil.rmtree(self.folder, ignore_errors=True)


class Node:
    """A node as leased sees it: a session that says what a test wants said."""

    def __init__(self, client, name="n1", machine="1" * 32, boot="a" * 32, clean=False, resume=0, incarnation=b"",
                 all=False, ready=True, clean_reports=True, beats=None):
        """beats: seconds after which it says each time that it is alive; None: it speaks when it has something to say."""
        self.m = client.m["node"]
        self.name, self.auto_ready, self.auto_clean = name, ready, clean_reports
        self.up = queue.Queue()
        self.leases, self.pools, self.revision, self.ended = {}, {}, 0, None
        self.welcome = None
        self.news = threading.Condition()
        hello = self.m.Hello(node=name.encode(), machine_id=machine.encode(), boot_id=boot.encode(), clean_start=clean,
                             resume=resume, incarnation=incarnation, list=all)
        self.up.put(self.m.SessionUp(hello=hello))
        self.call = client.node.Session(iter(self.up.get, None))
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()
        if beats:
            threading.Thread(target=self._beat, args=(beats,), daemon=True).start()

    def _beat(self, seconds):
        with self.news:
            while not self.news.wait_for(lambda: self.ended, seconds):
                if self.welcome:
                    self.beat()

    def _read(self):
        try:
            for down in self.call:
                with self.news:
                    self._take(down)
                    self.news.notify_all()
        except grpc.RpcError as error:
            self.ended = error
        with self.news:
            self.ended = self.ended or "ok"
            self.news.notify_all()

    def _take(self, down):
        kind = down.WhichOneof("body")
        if kind == "welcome":
            self.welcome = down.welcome
            self.beat()
        elif kind == "changes":
            for pool in down.changes.pools:
                self.pools[pool.name] = pool
            for lease in down.changes.leases:
                self._lease(lease)
            self.revision = down.changes.revision
            self.beat()
        elif kind == "overlap":
            self.up.put(self.m.SessionUp(overlap=self.m.OverlapAnswer(question=down.overlap.question)))

    def _lease(self, lease):
        state = lease.state
        self.leases[lease.uid] = lease
        mine = [n for n in lease.nodes if n.node == self.name]
        if state in (1, 2) and mine and mine[0].proof == 0 and not mine[0].released and self.auto_ready:
            self.report(lease.uid, lease.epoch, self.m.REPORT_KIND_READY)
        if state == 3 and mine and mine[0].proof not in (3, 5) and self.auto_clean:
            self.report(lease.uid, lease.epoch, self.m.REPORT_KIND_CLEAN)

    def report(self, uid, epoch, kind, reason=b"", detail=b""):
        self.up.put(self.m.SessionUp(report=self.m.Report(members=[
            self.m.MemberReport(uid=uid, epoch=epoch, kind=kind, reason=reason, detail=detail)])))

    def epochs(self, epochs, done=True):
        """What a welcome may ask for: {uid: epoch}."""
        self.up.put(self.m.SessionUp(report=self.m.Report(epochs_done=done, epochs=[
            self.m.EpochReport(uid=uid, epoch=epoch) for uid, epoch in epochs.items()])))

    def block(self, uid, reason=b"account", detail=b""):
        self.up.put(self.m.SessionUp(report=self.m.Report(blocks=[
            self.m.BlockReport(uid=uid, reason=reason, detail=detail)])))

    def beat(self, watermark=None):
        mark = self.revision if watermark is None else watermark
        self.up.put(self.m.SessionUp(heartbeat=self.m.Heartbeat(seq=1, watermark=mark, pass_began=mark)))

    def wait(self, condition, seconds=15, what="the node to see it"):
        seconds *= PATIENCE
        deadline = time.monotonic() + seconds
        with self.news:
            while not condition(self):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise AssertionError("waited %d s for %s; ended: %s" % (seconds, what, self.ended))
                self.news.wait(left)
        return self

    def close(self):
        self.up.put(None)
        self.call.cancel()
        self.thread.join(10)


class LeasedCase(unittest.TestCase):
    """A leased with quick nodes, and a client of it."""

    config = "Heartbeat = 100ms\nLostAfter = 60s"

    def setUp(self):
        self.leased = Leased(self.config).__enter__()
        self.addCleanup(self.leased.__exit__, None, None, None)
        self.client = self.leased.client()
        self.addCleanup(self.client.close)
        self.nodes = []

    def tearDown(self):
        for node in self.nodes:
            node.close()

    def node(self, name="n1", **more):
        node = Node(self.client, name, **more).wait(lambda n: n.welcome, what="welcome")
        self.nodes.append(node)
        until(lambda: self.node_state(name) == 1, what="node ready")
        return node

    def node_state(self, name):
        nodes = self.client.node.List(self.client.m["node"].ListNodesRequest(), timeout=5).nodes
        return {n.node: n.state for n in nodes}.get(name)

    def pool(self, **more):
        settings = dict(cooldown_ms=1000, ready_timeout_ms=60000)
        settings.update(more)
        return self.client.create_pool(**settings).pool


class Reloads:
    """SIGHUP for a daemon, over and over, from its first word until it has ended."""

    def __init__(self, daemon):
        self.process, self.n = daemon.process, 0
        with open(daemon.log, "rb") as f:
            said = len(f.read())
        self.thread = threading.Thread(target=self._send, args=(daemon, said), daemon=True)
        self.thread.start()

    def _send(self, daemon, said):
        while self.process.poll() is None:
            if os.path.getsize(daemon.log) > said:
                self.process.send_signal(signal.SIGHUP)
                self.n += 1
            time.sleep(0.0005)

    def end(self):
        self.thread.join()
        return self.n


def until(condition, seconds=15, what="", alive=None):
    """Poll a condition, bounded by PATIENCE times so many seconds; its value. No measure: what may not take longer than it is promised
    is timed by who tests it."""
    seconds *= PATIENCE
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if alive is not None and alive.poll() is not None:
            raise AssertionError("it ended with %s while waiting for %s" % (alive.returncode, what))
        if time.monotonic() > deadline:
            raise AssertionError("waited %g s in vain for %s" % (seconds, what or condition))
        time.sleep(0.01)


def code_of(call):
    """The status of a call that must fail, and its message."""
    try:
        call()
    except grpc.RpcError as error:
        return error.code().name, error.details()
    raise AssertionError("the call succeeded")
