#!/usr/bin/python3
"""Some rows of test_matrix.py, asked of a replica that follows: it decides by who calls it, and what it passes on comes back as
from the one that leads."""
import json
import os
import subprocess
import unittest

import peer
import test_matrix

LEASECTL = os.path.join(peer.BUILD, "ctl/leasectl")
ASKED = ("LeaseService/Acquire", "LeaseService/Get", "LeaseService/List", "LeaseService/Release", "LeaseService/Revoke",
         "NodeService/Get", "NodeService/Session", "PoolService/Get", "RbacService/GetConfig")
CALLERS = ("local root", "local bin", "local daemon", "local lp", "local mail", "certificate daemon", "certificate ghost",
           "certificate n2URI:xce://node/n2")


class FollowerTest(test_matrix.MatrixTest):
    methods = {method: test_matrix.METHODS[method] for method in ASKED}

    @classmethod
    def principals(cls):
        found = {p.label: p for p in super().principals()}
        return [found[label] for label in CALLERS]

    @staticmethod
    def ctl(leased, *words):
        run = subprocess.run([LEASECTL, "--server", "unix:" + leased.socket, "--json", "cluster", *words], capture_output=True,
                             text=True, timeout=240)
        return json.loads(run.stdout or "{}") if run.returncode == 0 else None

    @classmethod
    def serve(cls):
        # Longer than a busy machine keeps a process from its work: nobody is elected meanwhile.
        (leader, _), follower = (cls.start(name, "Engine = raft\nElectionTimeout = 3s") for name in ("r1", "r2"))
        if cls.ctl(leader, "init") is None:
            raise AssertionError("no cluster begins")
        peer.until(lambda: (cls.ctl(leader, "status") or {}).get("leader") == "r1", what="r1 to lead", seconds=30)
        peer.until(lambda: cls.ctl(leader, "add", "r2", "--address", follower[1]), what="r2 to be added", seconds=30)
        return follower

    def tearDown(self):
        self.assertEqual(self.ctl(self.leased, "status")["leader"], "r1", "who is asked has not led")


if __name__ == "__main__":
    unittest.main(verbosity=2)
