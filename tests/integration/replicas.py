"""Replicas for tests: leased with certificates of their own on loopback, made, grown, asked."""
import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest

import grpc

import certs
import peer

LEASECTL = os.path.join(peer.BUILD, "ctl/leasectl")


class Replica(peer.Leased):
    """One of the three; its port is its own as long as the test runs."""

    def __init__(self, cluster, name, engine="raft"):
        self.name, self.port, self.more = name, certs.free_port(), cluster.config
        folder = os.path.join(cluster.folder, name)
        os.mkdir(folder)
        certificate, key = cluster.authority.replica(name, out=os.path.join(cluster.folder, "certs"))
        super().__init__(self.config(engine, certificate, key, cluster.authority.ca_pem), folder=folder)

    def config(self, engine, certificate, key, ca):
        return "Engine = %s\nListen = localhost:%d\nCertificate = %s\nKey = %s\nCA = %s\nPrefix = xce-\n%s" % (
            engine, self.port, certificate, key, ca, self.more)

    @property
    def address(self):
        return "localhost:%d" % self.port

    def ctl(self, *args, status=0, timeout="60s"):
        """leasectl on this replica's socket; what it printed as JSON."""
        run = subprocess.run([LEASECTL, "--server", "unix:" + self.socket, "--json", "--timeout", timeout, *args],
                             capture_output=True, text=True)
        if run.returncode != status:
            raise AssertionError("%s: leasectl %s: exit %d, %s%s" % (self.name, " ".join(args), run.returncode, run.stdout,
                                                                     run.stderr))
        return json.loads(run.stdout) if run.stdout else None

    def status(self):
        return self.ctl("cluster", "status", timeout="20s")


class Cluster(unittest.TestCase):
    """A test with replicas that it makes; they end with it."""

    config = ""  # lines more, of each replica
    pool_range, pool_options = "2013265920-2013266943", ("--ready-timeout", "2m")

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="xce-cluster.")
        os.chmod(self.folder, 0o755)
        self.authority = certs.Certs(self.folder)
        self.replicas, self.node = [], None
        self.clients = {}
        self.addCleanup(self.away)

    def away(self):
        for replica in self.replicas:
            if replica.process and replica.process.poll() is None:
                replica.kill()
        if any(test is self for test, _ in self._outcome.result.failures + self._outcome.result.errors):
            for replica in self.replicas:
                print("---- %s\n%s" % (replica.name, replica.said()[-3000:]))
        shutil.rmtree(self.folder, ignore_errors=True)

    def client_of(self, replica):
        """One channel for each life of it."""
        key = (replica.name, replica.process.pid)
        if key not in self.clients:
            self.clients[key] = replica.client()
            self.addCleanup(self.clients[key].close)
        return self.clients[key]

    def replica(self, name, **how):
        replica = Replica(self, name, **how)
        self.replicas.append(replica)
        return replica

    def form(self, n=3):
        """Of n replicas, or of those that were made before."""
        for i in range(len(self.replicas), n):
            self.replica("c%d" % (i + 1))
        for replica in self.replicas:
            replica.start()
        first = self.replicas[0]
        first.ctl("cluster", "init")
        self.leader(first)
        for replica in self.replicas[1:]:
            first.ctl("cluster", "add", replica.name, "--address", replica.address)
        first.ctl("pool", "create", "main", "--range", self.pool_range, "--directory-ranges", "none", *self.pool_options)
        return self.replicas

    def leader(self, asked=None, among=None):
        """The replica that all of those that run agree on, waited for."""
        asked = [asked] if asked else [r for r in self.replicas if r.process.poll() is None]
        found = []

        def agreed():
            try:
                names = {r.status()["leader"] for r in asked}
            except (AssertionError, json.JSONDecodeError):
                return False
            found[:] = [r for r in self.replicas if {r.name} == names and (not among or r in among)]
            return bool(found)

        peer.until(agreed, what="a leader", seconds=20)
        return found[0]

    def equal(self):
        self.equal_of(self.replicas)

    def equal_of(self, replicas):
        def same():
            states = [r.status() for r in replicas if r.process.poll() is None]
            return len({(s["revision"], s["digest"], s["applied"]) for s in states}) == 1

        peer.until(same, what="equal digests", seconds=20)

    def speak(self, replica):
        """The node n1 has looked through itself; its session is at this replica, if it has none."""
        if not self.node or self.node.ended:
            self.node_client = replica.client()
            self.node = peer.Node(self.node_client, name="n1", clean=self.node is not None)
        if self.node.welcome:
            self.node.beat()

    def acquire(self, replica, job, timeout=80):
        """Asked of one replica until it is answered, under one id."""
        client, request_id, until = replica.client(), os.urandom(16), time.monotonic() + timeout
        while True:
            try:
                return client.acquire(job=job, request_id=request_id, timeout=20).leases[0]
            except grpc.RpcError as error:
                unknown = error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
                if not unknown and "node n1" not in error.details() or time.monotonic() > until:
                    raise
                # A refusal is an answer, and would come again under the same id.
                request_id = request_id if unknown else os.urandom(16)
                self.speak(replica)
                time.sleep(0.05)
