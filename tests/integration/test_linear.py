#!/usr/bin/python3
"""Many clients acquire, release and look while leased is killed again and again: what they were told could have happened one
after the other (tests/lib/linear.py), and everybody gets an answer."""
import json
import os
import unittest

import workers
import peer

LONG = os.environ.get("XCE_TEST_LONG") == "1"
CLIENTS = 12
OPERATIONS = 20000 if LONG else 1500
KILLS = 60 if LONG else 8


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
        self.history = workers.History()
        self.clients = [self.leased.client() for _ in range(CLIENTS)]
        for client in self.clients:
            self.addCleanup(client.close)

    def is_ready(self, client):
        return [n.state for n in client.node.List(client.m["node"].ListNodesRequest(), timeout=5).nodes] == [1]

    def kill_now_and_then(self, crew):
        """Kills spread over the operations, not over time."""
        for n in range(1, KILLS + 1):
            due = OPERATIONS * n // (KILLS + 1)
            peer.until(lambda: self.history.n >= due or crew.failed, what="work", seconds=600)
            self.leased.kill()
            self.leased.start()

    def test_histories_over_kills_are_linearizable(self):
        crew = workers.Crew(CLIENTS, self.history, OPERATIONS, lambda chance: chance.choice(self.clients))
        self.kill_now_and_then(crew)
        crew.join()
        self.assertGreater(crew.again, 0, "no kill has hit anybody")
        results = [json.loads(line).get("result") for line in self.history.lines]
        for result in ("ok", "exists", "none"):
            self.assertIn(result, results)
        self.assertGreaterEqual(self.history.check(), OPERATIONS)
        with self.assertRaises(workers.linear.NotLinearizable, msg="one lie in it is found"):
            workers.linear.check(self.history.with_a_lie())


if __name__ == "__main__":
    unittest.main(verbosity=2)
