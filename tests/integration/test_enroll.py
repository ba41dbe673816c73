#!/usr/bin/python3
"""How a node gets its certificate: a token, noded with it, the session that follows, renewal; and who does not."""
import hashlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import certs
import peer
from test_noded import Noded

CONFIG = "Heartbeat = 100ms\nLostAfter = 60s"


class Enrolling(Noded):
    """A noded that has a token and no certificate."""

    def __init__(self, leased, token, name="n1", more=""):
        super().__init__(leased, name=name)
        self.pem, self.key = os.path.join(self.folder, "node.pem"), os.path.join(self.folder, "node.key")
        self.ca, self.token = os.path.join(self.folder, "ca.pem"), token
        with open(self.conf) as f:
            text = f.read().replace("Server = unix:%s" % leased.socket, "Server = %s" % leased.address)
        with open(self.conf, "w") as f:
            f.write("%sCertificate = %s\nKey = %s\nCA = %s\nEnrollToken = %s\n%s\n" % (text, self.pem, self.key, self.ca,
                                                                                     token, more))


class EnrollTest(unittest.TestCase):
    config, ca, crl = "", (), False

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        self.leased = certs.Secure(CONFIG + "\n" + self.config, ca=self.ca, crl=self.crl).start()
        self.addCleanup(self.leased.__exit__)
        self.certs = self.leased.certs
        self.client = self.leased.client()
        self.addCleanup(self.client.close)
        self.nodeds = []

    def tearDown(self):
        for noded in self.nodeds:
            noded.stop()

    def token(self, node="n1", *more):
        path = os.path.join(self.leased.folder, node + ".token")
        self.certs.ctl("--server", "unix:" + self.leased.socket, "cert", "token", node, "--out", path, *more)
        return path

    def noded(self, token, **more):
        noded = Enrolling(self.leased, token, **more)
        self.nodeds.append(noded)
        return noded.start()

    def states(self):
        return {n.node: (n.state, n.connected) for n in
                self.client.node.List(self.client.m["node"].ListNodesRequest(), timeout=30).nodes}

    def enroll(self, token, csr):
        m = self.client.m["node"]
        return self.client.node.Enroll(m.EnrollRequest(token=token, csr=csr), timeout=30)

    def csr(self, uri, folder=None):
        """A request that was not made by us, with openssl."""
        base = os.path.join(folder or self.leased.folder, uri.replace("/", "_"))
        subprocess.run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                        base + ".key", "-out", base + ".csr", "-subj", "/O=admin/CN=root", "-addext",
                        "subjectAltName=URI:" + uri], check=True, capture_output=True)
        with open(base + ".csr", "rb") as f:
            return f.read()

    @staticmethod
    def text(path):
        with open(path) as f:
            return f.read()

    def secret(self, path):
        with open(path) as f:
            return bytes.fromhex([l for l in f if l.startswith("token = ")][0][8:].strip())

    def refused(self, code, call, *args):
        with self.assertRaises(peer.grpc.RpcError) as caught:
            call(*args)
        self.assertEqual(caught.exception.code().name, code, caught.exception.details())
        return caught.exception.details()


class Enrolment(EnrollTest):
    def test_noded_enrols_and_has_a_session(self):
        token = self.token()
        self.assertEqual(os.stat(token).st_mode & 0o777, 0o600)
        noded = self.noded(token)
        peer.until(lambda: self.states().get("n1") == (1, True), what="n1 to be ready", seconds=20)
        self.assertFalse(os.path.exists(token), "the token is used up")
        said = self.certs.ctl("cert", "show", noded.pem)
        self.assertEqual((said["kind"], said["name"], said["uses"], said["groups"]), ("node", "n1", ["client"], []))
        self.assertEqual(os.stat(noded.key).st_mode & 0o777, 0o600)
        with open(noded.ca) as ours, open(self.certs.ca_pem) as theirs:
            self.assertEqual(ours.read(), theirs.read())
        # And it comes back by its certificate alone.
        noded.stop()
        peer.until(lambda: not self.states()["n1"][1], what="n1 to go", seconds=20)
        noded.start()
        peer.until(lambda: self.states()["n1"][1], what="n1 to come back", seconds=20)
        self.assertIn("enrolled at", noded.said())

    def begun(self):
        """A noded that ended when it had asked; the token is spent on the key that waits, the answer was lost."""
        noded = Enrolling(self.leased, self.token())
        self.nodeds.append(noded)
        base = os.path.join(self.leased.folder, "xce:__node_n1")
        csr = self.csr("xce://node/n1")
        os.rename(base + ".key", noded.key + ".new")
        os.chmod(noded.key + ".new", 0o600)
        return noded, csr

    def test_answer_that_was_lost_is_asked_for_again(self):
        noded, csr = self.begun()
        key = self.text(noded.key + ".new")
        self.enroll(self.secret(noded.token), csr)
        noded.start()
        peer.until(lambda: self.states().get("n1") == (1, True), what="n1 to be ready", seconds=20)
        self.assertEqual(self.text(noded.key), key)
        self.assertFalse(os.path.exists(noded.key + ".new"))

    def test_key_of_a_token_that_is_not_good_is_not_kept(self):
        noded, _ = self.begun()
        key = self.text(noded.key + ".new")
        self.enroll(self.secret(noded.token), self.csr("xce://node/n1"))
        noded.start()
        peer.until(lambda: "the token is not good for node n1" in noded.said(), what="the reason", seconds=20)
        os.unlink(noded.token)
        self.token()
        peer.until(lambda: self.states().get("n1") == (1, True), what="n1 to be ready", seconds=40)
        self.assertNotEqual(self.text(noded.key), key)
        self.assertFalse(os.path.exists(noded.key + ".new"))

    def test_secret_is_kept_by_hash_only(self):
        secret = self.secret(self.token())
        for name in os.listdir(self.leased.state):
            with open(os.path.join(self.leased.state, name), "rb") as f:
                self.assertNotIn(secret, f.read(), name)
        self.leased.kill()
        self.leased.start()
        self.assertTrue(self.enroll(secret, self.csr("xce://node/n1")).certificate, "it outlives a restart")

    def test_token_is_good_for_one_key_and_its_node(self):
        secret = self.secret(self.token())
        csr = self.csr("xce://node/n1")
        self.refused("PERMISSION_DENIED", self.enroll, secret, self.csr("xce://node/n2"))
        self.refused("PERMISSION_DENIED", self.enroll, os.urandom(32), csr)
        first = self.enroll(secret, csr).certificate
        self.assertTrue(first)
        self.assertTrue(self.enroll(secret, csr).certificate, "the answer may have been lost")
        os.makedirs(os.path.join(self.leased.folder, "other"))
        text = self.refused("PERMISSION_DENIED", self.enroll, secret,
                            self.csr("xce://node/n1", os.path.join(self.leased.folder, "other")))
        self.assertEqual(text, "the token is not good for node n1")
        self.assertIn("enrolment refused: the token is not good", self.leased.said())
        path = os.path.join(self.leased.folder, "got.pem")
        with open(path, "wb") as f:
            f.write(first)
        said = self.certs.ctl("cert", "show", path)
        self.assertEqual((said["kind"], said["name"], said["groups"]), ("node", "n1", []), "CN and O count for nothing")

    def test_token_ends(self):
        secret = self.secret(self.token("n1", "--lifetime", "1s"))
        csr = self.csr("xce://node/n1")
        deadline = time.monotonic() + 20
        while True:
            try:
                self.enroll(secret, csr)
                self.assertLess(time.monotonic(), deadline, "it is good for ever")
            except peer.grpc.RpcError as error:
                self.assertEqual(error.code().name, "PERMISSION_DENIED")
                return
            time.sleep(0.1)

    def test_only_nodes_are_enrolled(self):
        secret = self.secret(self.token())
        for uri in ("xce://replica/b", "https://example.org/n1"):
            self.refused("INVALID_ARGUMENT", self.enroll, secret, self.csr(uri))
        for csr in (b"", b"rubbish", self.csr("xce://node/n1")[:-60]):
            self.refused("INVALID_ARGUMENT", self.enroll, secret, csr)

    def test_node_renews_itself_and_nobody_else(self):
        client = self.leased.secure_client(self.certs.issue("node", "n1"))
        self.addCleanup(client.close)
        m = client.m["node"]
        renew = lambda: client.node.Enroll(m.EnrollRequest(csr=self.csr("xce://node/n1")), timeout=30).certificate
        self.assertEqual(self.refused("FAILED_PRECONDITION", renew), "node n1 is not registered: no session, no newer certificate")
        peer.Node(client, "n1").wait(lambda n: n.welcome, what="welcome").close()
        self.assertTrue(renew())
        self.refused("PERMISSION_DENIED", lambda: client.node.Enroll(m.EnrollRequest(csr=self.csr("xce://node/n2")),
                                                                     timeout=30))
        self.refused("PERMISSION_DENIED", lambda: client.node.Token(
            client.request(m.TokenRequest(node=b"n1", hash=os.urandom(32))), timeout=30))
        self.refused("PERMISSION_DENIED", self.enroll, b"", self.csr("xce://node/n1"))

    def test_node_that_is_fenced_or_forgotten_does_not_renew(self):
        client = self.leased.secure_client(self.certs.issue("node", "n1"))
        self.addCleanup(client.close)
        m = client.m["node"]
        renew = lambda: client.node.Enroll(m.EnrollRequest(csr=self.csr("xce://node/n1")), timeout=30).certificate
        ctl = lambda *args: self.certs.ctl("--server", "unix:" + self.leased.socket, "node", *args, "n1", "--reason", "gone")

        def session(boot):
            peer.Node(client, "n1", boot=boot * 32).wait(lambda n: n.welcome, what="welcome").close()

        def fence():
            with self.leased.losing():
                peer.until(lambda: self.states()["n1"][0] == 4, what="n1 to be lost", seconds=20)
            ctl("fence")

        session("a")
        fence()
        self.assertEqual(self.refused("FAILED_PRECONDITION", renew), "node n1 is fenced: no session, no newer certificate")
        session("b")
        self.assertTrue(renew(), "it came back")
        fence()
        ctl("forget")
        self.assertIn("is not registered", self.refused("FAILED_PRECONDITION", renew))

    def test_stranger_may_enrol_and_nothing_else(self):
        """Who comes by the protocol of enrolment shows no certificate: one method, with a token."""
        with certs.Tunnel(self.leased, "xce-enroll/1") as tunnel:
            client = peer.Client(tunnel.target)
            self.addCleanup(client.close)
            m = client.m["node"]
            self.refused("INVALID_ARGUMENT", lambda: client.node.Enroll(m.EnrollRequest(), timeout=30))
            self.refused("PERMISSION_DENIED", lambda: client.node.Enroll(
                m.EnrollRequest(csr=self.csr("xce://node/n1")), timeout=30))
            self.refused("PERMISSION_DENIED", lambda: client.node.List(m.ListNodesRequest(), timeout=30))
            self.refused("PERMISSION_DENIED", lambda: client.node.Token(client.request(
                m.TokenRequest(node=b"n1", hash=os.urandom(32))), timeout=30))
            self.refused("PERMISSION_DENIED", lambda: client.pool.List(client.m["pool"].ListPoolsRequest(), timeout=30))
            self.refused("PERMISSION_DENIED", lambda: client.lease.List(client.m["lease"].ListLeasesRequest(), timeout=30))
            for path in ("/grpc.health.v1.Health/Check", "/xce.v1.RbacService/Check"):
                self.refused("PERMISSION_DENIED", lambda: client.channel.unary_unary(path)(b"", timeout=30))
            node = peer.Node(client, "n1")
            peer.until(lambda: node.ended, what="the session to be refused")
            self.assertEqual(node.ended.code().name, "PERMISSION_DENIED")

    def test_who_guesses_floods_neither_journal_nor_audit_file(self):
        csr = self.csr("xce://node/n1")
        with certs.Tunnel(self.leased, "xce-enroll/1") as tunnel:
            client = peer.Client(tunnel.target)
            self.addCleanup(client.close)
            m = client.m["node"]
            for _ in range(100):
                self.refused("PERMISSION_DENIED", lambda: client.node.Enroll(m.EnrollRequest(
                    token=os.urandom(32), csr=csr), timeout=30))
                self.refused("PERMISSION_DENIED", lambda: client.node.List(m.ListNodesRequest(), timeout=30))
                self.refused("INVALID_ARGUMENT", lambda: client.node.Enroll(m.EnrollRequest(), timeout=30))
        self.enroll(self.secret(self.token()), csr)  # what is done is written
        self.assertIn(self.leased.said().count("enrolment refused"), range(1, 50))
        self.assertIn(self.leased.said().count(" denied"), range(1, 50))
        self.leased.stop()
        with open(os.path.join(self.leased.state, "audit.log"), encoding="utf-8") as f:
            lines = [json.loads(line) for line in f if line.endswith("\n")]
        refused = [line for line in lines if line["outcome"] != "OK"]
        self.assertIn(len(refused), range(20, 60))
        self.assertEqual(len(refused) + sum(line.get("left_out", 0) for line in lines), 300)
        self.assertEqual([line["method"] for line in lines if line["outcome"] == "OK"][-2:],
                         ["NodeService/Token", "NodeService/Enroll"])

    def test_wrong_token_files_are_named(self):
        token = self.token("n2")
        noded = self.noded(token)
        peer.until(lambda: "is for node n2, and this is n1" in noded.said(), what="a reason", seconds=20)
        self.assertTrue(os.path.exists(token))
        noded.stop()
        good = self.token("n1")
        os.chmod(good, 0o644)
        self.nodeds.remove(noded)
        noded = self.noded(good)
        peer.until(lambda: "others than its owner can read the token" in noded.said(), what="a reason", seconds=20)
        os.chmod(good, 0o600)
        peer.until(lambda: self.states().get("n1") == (1, True), what="n1 to be ready after all", seconds=20)

    def test_without_a_key_no_certificates(self):
        with certs.Secure(CONFIG, ca_key=False) as leased:
            client = leased.client()
            self.addCleanup(client.close)
            text = self.refused("UNIMPLEMENTED", lambda: client.node.Token(client.request(
                client.m["node"].TokenRequest(node=b"n1", hash=hashlib.sha256(b"x").digest())), timeout=30))
            self.assertIn("CAKey", text)


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


class Strangers(EnrollTest):
    """Who shows no certificate may be anybody: what such people hold costs nobody else anything, nor each other."""
    config = "Connections = 16"
    MANY = 70

    def stranger(self):
        """A connection with a call of enrolment whose message does not come to its end."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.certs.ca_pem)
        context.set_alpn_protocols(["xce-enroll/1"])
        plain = socket.create_connection(("127.0.0.1", self.leased.port))
        plain.settimeout(120)
        self.addCleanup(plain.close)
        s = context.wrap_socket(plain, server_hostname="localhost")
        self.addCleanup(s.close)
        fields = ((b":method", b"POST"), (b":scheme", b"https"), (b":path", b"/xce.v1.NodeService/Enroll"),
                  (b":authority", b"x"), (b"te", b"trailers"), (b"content-type", b"application/grpc"))
        block = b"".join(b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value for name, value in fields)
        s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0) + frame(1, 4, 1, block) +
                  frame(0, 0, 1, b"\0" + (100000).to_bytes(4, "big") + b"x" * 10000))
        return s

    def until_ended(self, s):
        said = b""
        while True:
            more = s.recv(65536)
            if not more:
                return said
            said += more

    def test_many_of_them_keep_nobody_out(self):
        token = self.token()
        held = [self.stranger() for _ in range(self.MANY)]
        self.client.node.List(self.client.m["node"].ListNodesRequest(), timeout=30)
        for s in held[:self.MANY - 64]:
            self.assertIn(b"too many connections", self.until_ended(s))
        self.noded(token)
        peer.until(lambda: self.states().get("n1") == (1, True), what="n1 to be ready", seconds=20)

    def test_their_messages_are_small(self):
        with certs.Tunnel(self.leased, "xce-enroll/1") as tunnel:
            client = peer.Client(tunnel.target)
            self.addCleanup(client.close)
            text = self.refused("RESOURCE_EXHAUSTED", lambda: client.node.Enroll(
                client.m["node"].EnrollRequest(csr=b"x" * 200000), timeout=30))
            self.assertIn("larger than the limit of 131072", text)


class Renewal(EnrollTest):
    config = "NodeCertificate = 60s"

    def test_noded_renews_at_two_thirds_without_losing_its_session(self):
        noded = self.noded(self.token())
        peer.until(lambda: self.states().get("n1") == (1, True), what="n1 to be ready", seconds=20)
        serials, sessions = set(), set()
        # The skew of five minutes makes every certificate of this length due at once; sessions live through each.
        deadline = time.monotonic() + 240
        while len(serials) < 4:
            self.assertLess(time.monotonic(), deadline, noded.said()[-2000:])
            serials.add(self.certs.ctl("cert", "show", noded.pem)["serial"])
            node = self.client.node.Get(self.client.m["node"].NodeKey(node=b"n1"), timeout=30).node
            self.assertTrue(node.connected)
            sessions.add(node.session)
            time.sleep(0.05)
        self.assertEqual(len(sessions), 1)
        self.assertIn("the certificate is renewed", noded.said())


class AnotherToken(EnrollTest):
    """A node that runs with a certificate which nobody takes any more comes back by a token that is brought to it."""
    crl = True

    def begin_again(self):
        """leased ends and starts; the old channel may not have noticed yet when it is used next."""
        self.leased.kill()
        self.leased.start()
        self.client.close()
        self.client = self.leased.client()
        self.addCleanup(self.client.close)

    def comes_back(self, noded):
        was, key = self.certs.ctl("cert", "show", noded.pem)["serial"], self.text(noded.key)
        token = self.token()
        peer.until(lambda: self.states()["n1"][1], what="n1 to come back", seconds=40)
        self.assertNotEqual(self.certs.ctl("cert", "show", noded.pem)["serial"], was)
        self.assertFalse(os.path.exists(token), "the token is used up")
        self.assertEqual(noded.said().count("enrolled at"), 2)
        self.assertNotEqual(self.text(noded.key), key, "who stole the old key has nothing of it")
        self.assertEqual(os.stat(noded.key).st_mode & 0o777, 0o600)
        self.assertFalse(os.path.exists(noded.key + ".new"))

    def test_after_the_end(self):
        with open(self.leased.conf, "a") as f:
            f.write("NodeCertificate = 30s\n")
        self.begin_again()
        noded = self.noded(self.token(), more="Renew = no")
        peer.until(lambda: self.states().get("n1", (0, False))[1], what="n1 to have a session", seconds=20)
        peer.until(lambda: not self.states()["n1"][1], what="n1 to be cut", seconds=30)
        self.comes_back(noded)

    def test_after_it_was_revoked(self):
        noded = self.noded(self.token())
        peer.until(lambda: self.states().get("n1", (0, False))[1], what="n1 to have a session", seconds=20)
        self.certs.ctl("cert", "revoke", noded.pem, "--ca", self.certs.ca)
        peer.until(lambda: not self.states()["n1"][1], what="n1 to be cut", seconds=30)
        self.comes_back(noded)

    def test_token_is_left_alone_while_there_is_a_session(self):
        noded = self.noded(self.token())
        peer.until(lambda: self.states().get("n1", (0, False))[1], what="n1 to have a session", seconds=20)
        token = self.token()
        self.begin_again()
        peer.until(lambda: self.states().get("n1", (0, False))[1], what="n1 to be back", seconds=20)
        self.assertTrue(os.path.exists(token))
        self.assertEqual(noded.said().count("enrolled at"), 1)


class LockedOut(EnrollTest):
    """leased signs for nodes by itself: what it made stands in its audit file, and can be revoked by that."""
    crl = True

    def serials(self, node):
        with open(os.path.join(self.leased.state, "audit.log"), encoding="utf-8") as f:
            lines = [json.loads(line) for line in f if line.endswith("\n")]
        return [l["serial"] for l in lines if l["method"] == "NodeService/Enroll" and l.get("node") == node]

    def test_node_that_enrolled(self):
        noded, other = self.noded(self.token()), self.leased.secure_client(self.certs.issue("node", "n2"))
        self.addCleanup(other.close)
        peer.until(lambda: self.states().get("n1", (0, False))[1], what="n1 to have a session", seconds=20)
        serial = self.certs.ctl("cert", "show", noded.pem)["serial"]
        peer.until(lambda: self.serials("n1") == [serial], what="the line in the audit file")
        self.certs.ctl("cert", "revoke", "--serial", serial, "--ca", self.certs.ca)
        peer.until(lambda: not self.states()["n1"][1], what="n1 to be cut", seconds=30)
        peer.until(lambda: "certificate revoked" in noded.said(), what="noded to hear why", seconds=20)
        other.node.List(other.m["node"].ListNodesRequest(), timeout=30)


class LastDays(EnrollTest):
    """The CA ends before what it signs should."""
    config, ca = "NodeCertificate = 120d", ("--lifetime", "100d")

    def test_nodes_enrol_and_renew_until_the_end_of_the_ca(self):
        end = subprocess.run(["openssl", "x509", "-in", self.certs.ca_pem, "-noout", "-enddate", "-dateopt", "iso_8601"],
                             check=True, capture_output=True, text=True).stdout
        noded = self.noded(self.token())
        peer.until(lambda: self.states().get("n1") == (1, True), what="n1 to be ready", seconds=20)
        self.assertIn(self.certs.ctl("cert", "show", noded.pem)["until"][:10], end)
        client = self.leased.secure_client((noded.pem, noded.key))
        self.addCleanup(client.close)
        self.assertTrue(client.node.Enroll(client.m["node"].EnrollRequest(csr=self.csr("xce://node/n1")), timeout=30).certificate)


class AnotherCa(EnrollTest):
    """The CA that signs is replaced under a leased that runs."""

    def setUp(self):
        super().setUp()
        folder = os.path.join(self.leased.folder, "change")
        os.mkdir(folder)
        self.old, self.new = self.certs, certs.Certs(folder)
        self.trusted, self.key = os.path.join(folder, "trusted.pem"), os.path.join(folder, "signs.key")
        self.trust(self.old, self.new)
        certs.replace(self.key, os.path.join(self.old.ca, "ca.key"))
        with open(self.leased.conf) as f:
            text = f.read().replace("CA = %s\n" % self.old.ca_pem, "CA = %s\n" % self.trusted)
        with open(self.leased.conf, "w") as f:
            f.write(text.replace("CAKey = %s/ca.key" % self.old.ca, "CAKey = " + self.key))
        self.reload("configuration read again")
        node = peer.Node(self.client, "n1").wait(lambda n: n.welcome, what="welcome")
        self.addCleanup(node.close)

    def trust(self, *cas):
        with open(self.trusted + ".new", "w") as f:
            for ca in cas:
                with open(ca.ca_pem) as one:
                    f.write(one.read())
        os.rename(self.trusted + ".new", self.trusted)

    def reload(self, says):
        said = self.leased.said().count(says)
        self.leased.process.send_signal(signal.SIGHUP)
        peer.until(lambda: self.leased.said().count(says) > said, what=says)

    def issuer(self):
        """Of what a node is given now."""
        client = self.leased.secure_client(self.old.issue("node", "n1", out=os.path.join(self.leased.folder, os.urandom(4).hex())))
        self.addCleanup(client.close)
        path = os.path.join(self.leased.folder, "given.pem")
        with open(path, "wb") as f:
            f.write(client.node.Enroll(client.m["node"].EnrollRequest(csr=self.csr("xce://node/n1")), timeout=30).certificate)
        return self.certs.ctl("cert", "show", path)["issuer"]

    def name(self, ca):
        return ca.ctl("cert", "show", ca.issue("user", "u" + os.urandom(4).hex())[0])["issuer"]

    def test_changed_files_are_taken_by_themselves(self):
        self.assertEqual(self.issuer(), self.name(self.old))
        self.trust(self.new, self.old)
        certs.replace(self.key, os.path.join(self.new.ca, "ca.key"))
        peer.until(lambda: self.issuer() == self.name(self.new), what="the new CA to sign", seconds=20)

    def test_key_that_follows_its_ca_late_is_taken_too(self):
        self.trust(self.new, self.old)
        peer.until(lambda: "certificates of nodes are made as before: leased.CAKey: the key is not" in self.leased.said(),
                   what="the reason in the log")
        self.assertEqual(self.issuer(), self.name(self.old))
        certs.replace(self.key, os.path.join(self.new.ca, "ca.key"))
        peer.until(lambda: self.issuer() == self.name(self.new), what="the new CA to sign", seconds=20)

    def test_reload_does_not_say_that_all_was_read_when_the_key_was_not(self):
        certs.replace(self.key, os.path.join(self.new.ca, "ca.key"))
        said = self.leased.said().count("configuration read again")
        self.reload("the rest of the configuration is read again")
        self.assertEqual(self.leased.said().count("configuration read again"), said)
        self.assertIn("leased.CAKey: the key is not the CA certificate's", self.leased.said())
        self.assertEqual(self.issuer(), self.name(self.old))


if __name__ == "__main__":
    unittest.main()
