"""A certificate authority that lives as long as the test, by the openssl program."""
import os
import subprocess

EC = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


def openssl(*args):
    run = subprocess.run(["openssl", *args], capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError("openssl %s: %s" % (" ".join(args), run.stderr))


class Authority:
    def __init__(self, folder):
        self.folder = folder
        self.ca, self.key = self.path("ca.pem"), self.path("ca.key")
        openssl("req", "-x509", *EC, "-keyout", self.key, "-out", self.ca, "-subj", "/CN=CA of a test", "-days", "1",
                "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        os.chmod(self.key, 0o600)

    def path(self, name):
        return os.path.join(self.folder, name)

    def issue(self, name, cn="", groups=(), names=(), use="clientAuth"):
        """Certificate and key of a holder; names: of the SAN, "URI:xce://node/n1"."""
        certificate, key, request = self.path(name + ".pem"), self.path(name + ".key"), self.path(name + ".csr")
        subject = "".join("/O=" + g for g in groups) + "/CN=" + (cn or name)
        openssl("req", "-new", *EC, "-keyout", key, "-out", request, "-subj", subject)
        with open(self.path(name + ".ext"), "w") as f:
            f.write("basicConstraints=CA:FALSE\nextendedKeyUsage=%s\n" % use)
            if names:
                f.write("subjectAltName=%s\n" % ",".join(names))
        openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.key, "-CAcreateserial", "-days", "1",
                "-extfile", self.path(name + ".ext"), "-out", certificate)
        os.chmod(key, 0o600)
        return certificate, key

    def replica(self, name="r1"):
        return self.issue("replica-" + name, names=("URI:xce://replica/" + name, "DNS:localhost"), use="serverAuth,clientAuth")
