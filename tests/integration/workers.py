"""Clients that acquire, release and look, each asking until it is answered, and what they were told: a history for
tests/lib/linear.py."""
import json
import os
import random
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import linear
import peer

JOBS = 5
ANSWER_S = 240  # for one operation, however often it is asked again

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

    def check(self):
        """How many operations there are; it could have been like that, or the history is kept and said where."""
        try:
            return linear.check(self.lines)
        except linear.NotLinearizable as error:
            with tempfile.NamedTemporaryFile("w", prefix="xce-history.", suffix=".jsonl", delete=False) as f:
                f.write("\n".join(self.lines) + "\n")
            raise AssertionError("%s; the history is in %s" % (error, f.name)) from error

    def with_a_lie(self):
        """The lines, and at their end somebody who finds the lease of one job under another."""
        job = json.loads(self.lines[0])["job"]
        return self.lines + [json.dumps(line) for line in (
            {"op": "x1", "call": "acquire", "job": "new"}, {"op": "x1", "result": "ok", "lease": 1 << 40},
            {"op": "x2", "call": "get", "job": job}, {"op": "x2", "result": "ok", "lease": 1 << 40})]


class Worker(threading.Thread):
    """client(chance): whom to ask this time; within these seconds there is an answer, or another may be asked."""

    def __init__(self, history, operations, client, seed, seconds=(10, 10)):
        super().__init__(daemon=True)
        self.history, self.operations, self.client, self.seconds = history, operations, client, seconds
        self.chance, self.held, self.error, self.again = random.Random(seed), [], None, 0

    def run(self):
        try:
            while self.history.n < self.operations:
                self.one()
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def one(self):
        job = "j%d" % self.chance.randrange(JOBS)
        kind = self.chance.choice(["acquire", "acquire", "release", "release", "get"])
        if kind == "release" and self.held:
            lease = self.chance.choice(self.held[-3:])
            op = self.history.begin(call="release", job=lease.job, lease=lease.lease)
            key = os.urandom(16)
            self.answer(op, lambda c: c.release(lease, request_id=key, timeout=self.patience()), lambda _: {"result": "ok"}, {})
        elif kind == "get":
            op = self.history.begin(call="get", job=job)
            self.answer(op, lambda c: c.get(job=job.encode(), timeout=self.patience()).lease, self.told,
                        {"NOT_FOUND": {"result": "none"}})
        else:
            op = self.history.begin(call="acquire", job=job)
            key = os.urandom(16)
            self.answer(op, lambda c: c.acquire(job=job.encode(), ttl_ms=0, request_id=key, timeout=self.patience()).leases[0],
                        self.told, {"ALREADY_EXISTS": {"result": "exists"}})

    def patience(self):
        return self.chance.uniform(*self.seconds)

    def told(self, lease):
        self.held.append(lease)
        return {"result": "ok", "lease": lease.lease, "uid": lease.uid, "epoch": lease.epoch}

    def answer(self, op, ask, told, refusals):
        """Ask until there is an answer; the same request again under the same id."""
        end = time.monotonic() + ANSWER_S
        while True:
            try:
                reply = ask(self.client(self.chance))
                self.history.end(op, **told(reply))
                return
            except peer.grpc.RpcError as error:
                code = error.code().name
                if code in refusals:
                    self.history.end(op, **refusals[code])
                    return
                if code not in AGAIN or time.monotonic() > end:
                    raise
            self.again += 1
            time.sleep(self.chance.random() * 0.02)  # clients back off


class Crew:
    """All of them at once."""

    def __init__(self, n, *args, **more):
        self.workers = [Worker(*args, seed, **more) for seed in range(n)]
        for worker in self.workers:
            worker.start()

    @property
    def failed(self):
        return any(worker.error for worker in self.workers)

    @property
    def again(self):
        """How often somebody had to ask again."""
        return sum(worker.again for worker in self.workers)

    def join(self, seconds=1200):
        for worker in self.workers:
            worker.join(seconds)
            if worker.is_alive():
                raise AssertionError("a client still waits")
            if worker.error:
                raise worker.error
