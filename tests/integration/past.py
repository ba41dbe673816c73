"""A cluster's past, as long as one likes: leases by the thousand in one request, granted for real and ended by their node."""
import os
import time

import grpc

import peer

IN_REQUEST = 1024


class Node(peer.Node):
    """A node that answers a message of changes with one report. What is granted to it it refuses, or has ready."""

    refuses = False

    def _take(self, down):
        if down.WhichOneof("body") != "changes":
            super()._take(down)
            return
        said = [said for said in map(self._answer, down.changes.leases) if said]
        if said:
            self.up.put(self.m.SessionUp(report=self.m.Report(members=said)))
        self.revision = down.changes.revision
        self.beat()

    def _answer(self, lease):
        mine = [n for n in lease.nodes if n.node == self.name]
        kind, reason = None, b""
        if lease.state == 1 and mine and mine[0].proof == 0:
            kind = self.m.REPORT_KIND_REFUSED if self.refuses else self.m.REPORT_KIND_READY
            reason = b"no-space" if self.refuses else b""
        elif lease.state == 3 and mine and mine[0].proof not in (3, 5):
            kind = self.m.REPORT_KIND_CLEAN
        return kind and self.m.MemberReport(uid=lease.uid, epoch=lease.epoch, kind=kind, reason=reason)


def _grant(client, n, first, until):
    """n leases of one request; again while their uids are not free yet."""
    m, request_id = client.m["lease"], os.urandom(16)
    ask = client.request(m.AcquireRequest(), request_id)
    for i in range(n):
        ask.leases.add(job=b"past-%d" % (first + i), nodes=[b"n1"])
    while True:
        try:
            return client.lease.Acquire(ask, timeout=20).leases
        except grpc.RpcError as error:
            if error.code() not in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.FAILED_PRECONDITION):
                raise
            if time.monotonic() > until:
                raise
            # A refusal is an answer, and would come again under the same id.
            ask.request.id = os.urandom(16)
            time.sleep(0.02)


def make(client, n, seconds):
    """n leases of one replica that are all over, by ids in order: [(lease, uid)]. It has a pool; its node n1 comes and goes."""
    node, until, past = Node(client, beats=1), time.monotonic() + seconds, []
    node.refuses = True
    node.wait(lambda node: node.welcome, what="a welcome")
    m = client.m["lease"]
    try:
        while len(past) < n:
            granted = _grant(client, min(IN_REQUEST, n - len(past)), len(past), until)
            past += [(lease.lease, lease.uid) for lease in granted]
        peer.until(lambda: not client.lease.List(m.ListLeasesRequest(all=True), timeout=10).leases,
                   what="all leases to be free", seconds=60)
    finally:
        node.close()
    return sorted(past)
