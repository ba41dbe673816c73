#!/usr/bin/python3
"""leasectl cert: a small CA in a folder, and what must never happen to it."""
import base64
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from certs import LEASECTL, Certs


def read(path):
    with open(path) as f:
        return f.read()


def openssl(*args):
    return subprocess.run(["openssl", *args], check=True, capture_output=True, text=True).stdout


class CertTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="xce-cert.")
        self.addCleanup(shutil.rmtree, self.folder)
        self.certs = Certs(self.folder)
        self.index = os.path.join(self.certs.ca, "index")

    def refused(self, *args, says):
        done = subprocess.run([LEASECTL, *args], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn(says, done.stderr)

    def revoke(self, path):
        self.certs.ctl("cert", "revoke", path, "--ca", self.certs.ca)

    def revoked(self):
        """The revocation list, in DER."""
        return base64.b64decode("".join(read(self.certs.crl).splitlines()[1:-1]))

    def serial(self, path):
        return bytes.fromhex(self.certs.ctl("cert", "show", path)["serial"])

    def foreign(self, name):
        """A user's certificate of this CA that leasectl did not make."""
        base = os.path.join(self.folder, "foreign")
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", base + ".key",
                "-subj", "/CN=" + name, "-out", base + ".csr")
        with open(base + ".ext", "w") as f:
            f.write("extendedKeyUsage = clientAuth\n")
        openssl("x509", "-req", "-in", base + ".csr", "-CA", self.certs.ca_pem, "-CAkey", os.path.join(self.certs.ca, "ca.key"),
                "-days", "1", "-extfile", base + ".ext", "-out", base + ".pem")
        return base + ".pem"

    def test_keys_are_nobody_elses(self):
        _, key = self.certs.issue("user", "alice")
        for path in (key, os.path.join(self.certs.ca, "ca.key")):
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(self.certs.ca).st_mode), 0o700)

    def test_nothing_that_is_there_is_written_over(self):
        pem, key = self.certs.issue("user", "alice")
        before = [read(path) for path in (pem, key, self.certs.ca_pem, self.index)]
        self.refused("cert", "init", self.certs.ca, says="is there already")
        self.refused("cert", "issue", "user", "alice", "--ca", self.certs.ca, "--out", self.folder, says="is there already")
        self.assertEqual(before, [read(path) for path in (pem, key, self.certs.ca_pem, self.index)])

    def test_renewed_one_says_the_same_of_the_same_key(self):
        pem, _ = self.certs.issue("user", "alice", "--group", "hpc", "--group", "xce-admin", "--lifetime", "1d")
        was, key = self.certs.ctl("cert", "show", pem), openssl("x509", "-in", pem, "-noout", "-pubkey")
        self.certs.ctl("cert", "renew", pem, "--ca", self.certs.ca, "--lifetime", "9d")
        now = self.certs.ctl("cert", "show", pem)
        self.assertEqual(openssl("x509", "-in", pem, "-noout", "-pubkey"), key)
        self.assertEqual([now[k] for k in ("kind", "name", "groups")], [was[k] for k in ("kind", "name", "groups")])
        self.assertGreater(now["until"], was["until"])
        self.assertNotEqual(now["serial"], was["serial"])

    def test_only_what_the_ca_made_and_did_not_revoke_is_renewed(self):
        other = Certs(tempfile.mkdtemp(dir=self.folder), "--name", "other")
        # He may claim what he likes: anybody can make such a file.
        stranger = other.issue("user", "root", "--group", "xce-admin")[0]
        revoked = self.certs.issue("user", "mallory")[0]
        self.revoke(revoked)
        for path, says in ((stranger, "was not made by the CA ("), (revoked, "is revoked since "),
                           (other.ca_pem, "is a CA's own certificate")):
            before = read(path), read(self.index)
            self.refused("cert", "renew", path, "--ca", self.certs.ca, says=says)
            self.assertEqual((read(path), read(self.index)), before)

    def test_file_that_holds_more_than_the_certificate_is_not_renewed(self):
        """The rest would be gone, and of the key there may be no other copy."""
        pem, key = self.certs.issue("user", "alice")
        good = read(pem)
        for text, says in ((good + read(key), "holds more than a certificate (PRIVATE KEY)"),
                           (read(key) + good, "holds more than a certificate (PRIVATE KEY)"),
                           (good + read(self.certs.ca_pem), "holds more than a certificate (CERTIFICATE)")):
            with open(pem, "w") as f:
                f.write(text)
            self.refused("cert", "renew", pem, "--ca", self.certs.ca, says=says)
            self.assertEqual(read(pem), text)

    def test_revoked_stay_revoked(self):
        paths = [self.certs.issue("user", name)[0] for name in ("alice", "bob", "carol")]
        for path in (paths[2], paths[0], paths[0]):
            self.revoke(path)
        self.certs.issue("node", "n1")
        self.assertEqual([self.serial(path) in self.revoked() for path in paths], [True, False, True])

    def test_certificates_made_elsewhere_are_revoked_too(self):
        alice, bob = self.certs.issue("user", "alice")[0], self.certs.issue("user", "bob")[0]
        other = self.foreign("smith.a")
        for path in (alice, other, bob):
            self.revoke(path)
        for path in (alice, other, bob):
            self.assertIn(self.serial(path), self.revoked())
        self.assertEqual([line.split()[2] for line in read(self.index).splitlines()], ["alice", "bob", "smith.a"])

    def test_another_cas_certificate_is_not_revoked_here(self):
        """Nor its own: nothing is said to be done, and nothing is."""
        os.mkdir(os.path.join(self.folder, "other"))
        other = Certs(os.path.join(self.folder, "other"), "--name", "other")
        alice = other.issue("user", "alice")[0]
        same = Certs(tempfile.mkdtemp(dir=self.folder), "--name", "same")
        twin = Certs(tempfile.mkdtemp(dir=self.folder), "--name", "same")
        for ca, path, says in ((self.certs, alice, "was not made by the CA ("), (same, twin.issue("user", "bob")[0], "was not made by"),
                               (other, other.ca_pem, "is a CA's own certificate")):
            before = read(os.path.join(ca.ca, "index")), read(ca.crl)
            self.refused("cert", "revoke", path, "--ca", ca.ca, says=says)
            self.assertEqual((read(os.path.join(ca.ca, "index")), read(ca.crl)), before)

    def test_revoked_by_serial(self):
        """Also one that the folder does not know: leased made it with the same key."""
        alice, bob = self.certs.issue("user", "alice")[0], self.certs.issue("user", "bob")[0]
        serial = self.serial(alice).hex()
        as_openssl = ":".join(serial[i:i + 2] for i in range(0, len(serial), 2)).upper()
        for serials in ((as_openssl,), (serial, "0abc"), ("ABC",)):
            self.certs.ctl("cert", "revoke", *(o for s in serials for o in ("--serial", s)), "--ca", self.certs.ca)
        crl = openssl("crl", "-in", self.certs.crl, "-noout", "-text")
        self.assertEqual(sorted(l.split()[2] for l in crl.splitlines() if "Serial Number:" in l), sorted((serial.upper(), "0ABC")))
        self.assertNotIn(self.serial(bob), self.revoked())
        self.refused("cert", "renew", alice, "--ca", self.certs.ca, says="is revoked since ")
        self.assertEqual([line.split()[1:3] for line in read(self.index).splitlines()],
                         [["user", "alice"], ["user", "bob"], ["unknown", "-"]])

    def test_revoked_by_the_name_of_a_node(self):
        first = self.certs.issue("node", "n1")[0]
        serials = [self.serial(first)]
        self.certs.ctl("cert", "renew", first, "--ca", self.certs.ca)
        serials.append(self.serial(first))
        others = [self.serial(self.certs.issue(kind, name, out=os.path.join(self.folder, kind))[0])
                  for kind, name in (("node", "n10"), ("user", "n1"))]
        done = subprocess.run([LEASECTL, "cert", "revoke", "--node", "n1", "--ca", self.certs.ca], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("node n1: 2 certificates revoked", done.stderr)
        self.assertEqual([s in self.revoked() for s in serials + others], [True, True, False, False])
        done = subprocess.run([LEASECTL, "cert", "revoke", "--node", "n3", "--ca", self.certs.ca], capture_output=True, text=True)
        self.assertEqual(done.returncode, 3, done)
        self.assertIn("node n3: ", done.stderr)

    def test_revoke_takes_one_way_to_say_what(self):
        alice = self.certs.issue("user", "alice")[0]
        before = read(self.index)
        for more in ((), (alice, "--serial", "0a"), ("--serial", "0a", "--node", "n1"), ("--serial", "xyz"), ("--serial", "0" * 60),
                     ("--serial", ""), ("--serial", "00"), ("--node", "a b")):
            done = subprocess.run([LEASECTL, "cert", "revoke", "--ca", self.certs.ca, *more], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, (more, done))
        self.assertEqual(read(self.index), before)

    def test_damaged_index_forgets_nobody(self):
        alice, bob = self.certs.issue("user", "alice")[0], self.certs.issue("user", "bob")[0]
        self.revoke(bob)
        good, crl = read(self.index), read(self.certs.crl)
        first, second = good.splitlines()
        for bad, line in ((first + "\n\n" + second + "\n", 2), (first + "\n" + second, 2), ("x\n" + good, 1),
                          (good + first + " more\n", 3)):
            with open(self.index, "w") as f:
                f.write(bad)
            self.refused("cert", "revoke", alice, "--ca", self.certs.ca, says="index: line %d is damaged" % line)
            self.refused("cert", "issue", "node", "n1", "--ca", self.certs.ca, "--out", self.folder, says="is damaged")
            self.assertEqual((read(self.index), read(self.certs.crl)), (bad, crl))
        with open(self.index, "w") as f:
            f.write(good)
        self.revoke(alice)
        for path in (alice, bob):
            self.assertIn(self.serial(path), self.revoked())


if __name__ == "__main__":
    unittest.main()
