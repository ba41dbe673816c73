#!/usr/bin/python3
"""Many clients acquire, release and look while leased is killed again and again: what they were told could have happened one
after the other (tests/lib/linear.py), and everybody gets an answer."""
import json
import os
import random
import sys
import tempfile
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lib"))
import linear
import peer

LONG = os.environ.get("XCE_TEST_LONG") == "1"
CLIENTS, JOBS = 12, 5
OPERATIONS = 20000 if LONG else 1500
KILLS = 60 if LONG else 8
ANSWER_S = 60  # for one operation, however often it is asked again

# The request was not refused: it may have been done, or will be.
AGAIN = {"UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED", "UNKNOWN", "ABORTED", "INTERNAL"}


class History:
    """Lines in the order in which they were written; each client's numbers are its own."""

    def __init__(self):
        self.lines, self.lock, self.n = [], threading.Lock(), 0

    def begin(self, **line):
        with self.lock:
            self.n += 1
            self.lines.append(json.dumps(dict(line, op=self.n)))
            return self.n

    def end(self, op, **line):
        with self.lock:
            self.lines.append(json.dumps(dict(line, op=op)))


class Worker(threading.Thread):
    def __init__(self, test, seed):
        super().__init__(daemon=True)
        self.test, self.chance, self.held, self.error, self.again = test, random.Random(seed), [], None, 0
        self.client = test.leased.client()

    def run(self):
        try:
            while self.test.history.n < OPERATIONS:
                self.one()
        except Exception as error:  # pylint: disable=broad-except
            self.error = error
        finally:
            self.client.close()

    def one(self):
        job = "j%d" % self.chance.randrange(JOBS)
        kind = self.chance.choice(["acquire", "acquire", "release", "release", "get"])
        if kind == "release" and self.held:
            lease = self.chance.choice(self.held[-3:])
            op = self.test.history.begin(call="release", job=lease.job, lease=lease.lease)
            key = os.urandom(16)
            self.answer(op, lambda: self.client.release(lease, request_id=key), lambda _: {"result": "ok"}, {})
        elif kind == "get":
            op = self.test.history.begin(call="get", job=job)
            self.answer(op, lambda: self.client.get(job=job.encode()).lease, self.told, {"NOT_FOUND": {"result": "none"}})
        else:
            op = self.test.history.begin(call="acquire", job=job)
            key = os.urandom(16)
            self.answer(op, lambda: self.client.acquire(job=job.encode(), ttl_ms=0, request_id=key).leases[0], self.told,
                        {"ALREADY_EXISTS": {"result": "exists"}})

    def told(self, lease):
        self.held.append(lease)
        return {"result": "ok", "lease": lease.lease, "uid": lease.uid, "epoch": lease.epoch}

    def answer(self, op, ask, told, refusals):
        """Ask until there is an answer; the same request again under the same id."""
        end = time.monotonic() + ANSWER_S
        while True:
            try:
                reply = ask()
                self.test.history.end(op, **told(reply))
                return
            except peer.grpc.RpcError as error:
                code = error.code().name
                if code in refusals:
                    self.test.history.end(op, **refusals[code])
                    return
                if code not in AGAIN or time.monotonic() > end:
                    raise
            self.again += 1
            time.sleep(self.chance.random() * 0.02)  # clients back off


class LinearTest(unittest.TestCase):
    def setUp(self):
        self.leased = peer.Leased("Heartbeat = 100ms\nLostAfter = 3600s").__enter__()
        self.addCleanup(self.leased.__exit__, None, None, None)
        client = self.leased.client()
        client.create_pool(count=65536, ready_timeout_ms=600000, ttl_min_ms=1000)
        node = peer.Node(client, "n1").wait(lambda n: n.welcome, what="welcome")
        peer.until(lambda: self.is_ready(client), what="node ready")
        node.close()
        client.close()
        self.history = History()

    def is_ready(self, client):
        return [n.state for n in client.node.List(client.m["node"].ListNodesRequest(), timeout=5).nodes] == [1]

    def kill_now_and_then(self, workers):
        """Kills spread over the operations, not over time."""
        for n in range(1, KILLS + 1):
            due = OPERATIONS * n // (KILLS + 1)
            peer.until(lambda: self.history.n >= due or any(w.error for w in workers), what="work", seconds=600)
            self.leased.kill()
            self.leased.start()

    def test_histories_over_kills_are_linearizable(self):
        workers = [Worker(self, seed) for seed in range(CLIENTS)]
        for worker in workers:
            worker.start()
        self.kill_now_and_then(workers)
        for worker in workers:
            worker.join(300)
            self.assertFalse(worker.is_alive(), "a client still waits")
            if worker.error:
                raise worker.error
        self.assertGreater(sum(worker.again for worker in workers), 0, "no kill has hit anybody")
        results = [json.loads(line).get("result") for line in self.history.lines]
        for result in ("ok", "exists", "none"):
            self.assertIn(result, results)
        try:
            self.assertGreaterEqual(linear.check(self.history.lines), OPERATIONS)
        except linear.NotLinearizable as error:
            with tempfile.NamedTemporaryFile("w", prefix="xce-history.", suffix=".jsonl", delete=False) as f:
                f.write("\n".join(self.history.lines) + "\n")
            raise AssertionError("%s; the history is in %s" % (error, f.name)) from error
        with self.assertRaises(linear.NotLinearizable, msg="one lie in it is found"):
            linear.check(self.with_a_lie())

    def with_a_lie(self):
        """The history, and at its end somebody who finds the lease of one job under another."""
        job = json.loads(self.history.lines[0])["job"]
        return self.history.lines + [json.dumps(line) for line in (
            {"op": "x1", "call": "acquire", "job": "new"}, {"op": "x1", "result": "ok", "lease": 1 << 40},
            {"op": "x2", "call": "get", "job": job}, {"op": "x2", "result": "ok", "lease": 1 << 40})]


if __name__ == "__main__":
    unittest.main(verbosity=2)
