#!/usr/bin/python3
"""Many clients acquire, release and look at all three replicas while these are killed, or stopped for a while and let go on,
whoever leads too: what the clients were told could have happened one after the other (tests/lib/linear.py)."""
import json
import os
import random
import signal
import time
import unittest

import workers
import peer
import replicas

LONG = os.environ.get("XCE_TEST_LONG") == "1"
CLIENTS = 12
OPERATIONS = 30000 if LONG else 3000
FAULTS = 150 if LONG else 16
# Then another replica is asked: some go on meanwhile, and some still wait when one that was stopped goes on.
ASKED_S = (0.1, 2)


class LinearReplicasTest(replicas.Cluster):
    pool_range, pool_options = "2013265920-2013331455", ("--ready-timeout", "10m")
    config = "Heartbeat = 100ms\nLostAfter = 3600s\n"

    def setUp(self):
        super().setUp()
        self.seed = int(os.environ.get("XCE_TEST_SEED") or random.randrange(1 << 32))
        self.chance = random.Random(self.seed)
        self.history, self.hit = workers.History(), {"killed": 0, "stopped": 0, "leader": 0}
        self.form()
        self.speak(self.leader())
        peer.until(lambda: self.node.welcome and self.is_ready(), what="node ready")
        self.node.close()

    def is_ready(self):
        client = self.node_client
        return [n.state for n in client.node.List(client.m["node"].ListNodesRequest(), timeout=5).nodes] == [1]

    def victim(self):
        """Two of three times it is who leads."""
        if self.chance.random() < 0.67:
            leader = self.leader()
            self.hit["leader"] += 1
            return leader
        return self.chance.choice(self.replicas)

    def disturb(self):
        replica = self.victim()
        if self.chance.random() < 0.5:
            self.hit["killed"] += 1
            replica.kill()
            time.sleep(self.chance.random() * 0.5)
            replica.start()
        else:  # up to well over an election: it wakes up with requests at its door, and does not know that it lost
            self.hit["stopped"] += 1
            replica.process.send_signal(signal.SIGSTOP)
            time.sleep(0.3 + self.chance.random())
            replica.process.send_signal(signal.SIGCONT)

    def test_histories_over_faults_are_linearizable(self):
        crew = workers.Crew(CLIENTS, self.history, OPERATIONS, lambda chance: self.client_of(chance.choice(self.replicas)),
                            seconds=ASKED_S)
        for n in range(1, FAULTS + 1):
            due = OPERATIONS * n // (FAULTS + 1)
            peer.until(lambda: self.history.n >= due or crew.failed, what="work", seconds=600)
            self.disturb()
        crew.join()
        said = "XCE_TEST_SEED=%d: %s, %d asked again" % (self.seed, self.hit, crew.again)
        print(said, flush=True)
        self.assertGreater(crew.again, 0, said)
        results = [json.loads(line).get("result") for line in self.history.lines]
        for result in ("ok", "exists", "none"):
            self.assertIn(result, results, said)
        self.assertGreaterEqual(self.history.check(), OPERATIONS)
        self.equal()


if __name__ == "__main__":
    unittest.main(verbosity=2)
