#!/usr/bin/python3
"""A smoke test with @grpc/grpc-js over mutual TLS. The modules come from $XCE_NODE_MODULES, or by npm into the build folder;
where neither can be had the test is skipped, saying so."""
import json
import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import certs
import peer

WANTED = ("@grpc/grpc-js@^1.14", "@grpc/proto-loader@^0.8")
HERE = os.path.dirname(os.path.abspath(__file__))


def modules():
    """The folder of node modules; raises SkipTest."""
    given = os.environ.get("XCE_NODE_MODULES")
    if given:
        return given
    if not shutil.which("node") or not shutil.which("npm"):
        raise unittest.SkipTest("skip: needs node and npm, or XCE_NODE_MODULES")
    folder = os.path.join(peer.BUILD, "tests/integration/grpc_js")
    found = os.path.join(folder, "node_modules")
    if not os.path.isdir(os.path.join(found, "@grpc/proto-loader")):
        os.makedirs(folder, exist_ok=True)
        try:
            subprocess.run(["npm", "install", "--prefix", folder, "--no-audit", "--no-fund", "--ignore-scripts", "--silent",
                            *WANTED], capture_output=True, timeout=120, check=True)
        except subprocess.SubprocessError as error:
            raise unittest.SkipTest("skip: npm can not get %s" % " and ".join(WANTED)) from error
    return found


class GrpcJs(unittest.TestCase):
    def test_smoke(self):
        folder = modules()
        leased = certs.Secure("Heartbeat = 100ms").start()
        self.addCleanup(leased.__exit__)
        pair = leased.certs.issue("user", "boss", "--group", "xce-admin")
        run = subprocess.run(["node", os.path.join(HERE, "grpc_js.js"), folder, os.path.join(peer.ROOT, "proto"),
                              leased.address, leased.certs.ca_pem, *pair], capture_output=True, text=True, timeout=120)
        self.assertEqual(run.returncode, 0, run.stderr)
        said = json.loads(run.stdout)
        self.assertEqual(said["created"]["reply"]["pool"]["name"], "main", said["created"])
        self.assertEqual(said["again"]["reply"]["pool"], said["created"]["reply"]["pool"], "the same request")
        self.assertEqual([p["name"] for p in said["listed"]["reply"]["pools"]], ["main"])
        self.assertEqual(said["absent"]["code"], "NOT_FOUND")
        self.assertEqual(said["invalid"]["code"], "INVALID_ARGUMENT")
        self.assertIn("leases", said["invalid"]["details"])
        self.assertEqual(said["cancelled"]["code"], "CANCELLED")
        self.assertGreater(said["cancelled"]["messages"], 0)
        self.assertEqual(said["late"]["code"], "DEADLINE_EXCEEDED")
        self.assertEqual(said["many"], 500)
        self.assertIn(said["nobody"]["code"], ("UNAVAILABLE", "DEADLINE_EXCEEDED"))
        peer.until(lambda: "shows no certificate" in leased.said(), what="the log to say why")


if __name__ == "__main__":
    unittest.main()
