"""Certificates for integration tests: made by leasectl cert in a folder that goes with the test."""
import json
import os
import random
import select
import shutil
import socket
import ssl
import subprocess
import threading

import grpc

import peer

LEASECTL = os.path.join(peer.BUILD, "ctl/leasectl")


def free_port():
    """A port that nobody has at this moment, and that the kernel gives to no outgoing connection in the next one."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        end = int(f.read().split()[0])
    while True:
        port = random.randrange(1024 if end < 12000 else 10000, end)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def listens(port):
    """Whether somebody listens on it; asked without a connection, which the listener would notice."""
    with open("/proc/net/tcp", encoding="ascii") as f:
        return any(line.split()[3] == "0A" and line.split()[1].endswith(":%04X" % port) for line in f)


class Certs:
    def __init__(self, folder, *more):
        self.folder, self.ca = folder, os.path.join(folder, "ca")
        self.ctl("cert", "init", self.ca, *more)
        self.ca_pem, self.crl = os.path.join(self.ca, "ca.pem"), os.path.join(self.ca, "crl.pem")

    def ctl(self, *args, check=True, env=None):
        done = subprocess.run([LEASECTL, "--json", *args], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **(env or {})})
        if check and done.returncode != 0:
            raise AssertionError("leasectl %s: %s%s" % (" ".join(args), done.stdout, done.stderr))
        return json.loads(done.stdout) if done.stdout else None

    def issue(self, kind, name, *more, out=None):
        out = out or self.folder
        os.makedirs(out, exist_ok=True)
        said = self.ctl("cert", "issue", kind, name, "--ca", self.ca, "--out", out, *more)
        return said["file"], said["key"]

    def replica(self, name="a", *more, out=None):
        return self.issue("replica", name, "--host", "localhost", "--host", "127.0.0.1", *more, out=out)

    def credentials(self, pair):
        """For python3-grpcio; pair None = no certificate."""
        def read(path):
            with open(path, "rb") as f:
                return f.read()

        if pair is None:
            return grpc.ssl_channel_credentials(read(self.ca_pem))
        return grpc.ssl_channel_credentials(read(self.ca_pem), read(pair[1]), read(pair[0]))

    def env(self, pair):
        """For leasectl."""
        return {"XCE_CERT": pair[0], "XCE_KEY": pair[1], "XCE_CA": self.ca_pem}


def replace(path, by):
    """As an administrator's tools would: whole or not at all."""
    shutil.copyfile(by, path + ".new")
    shutil.copymode(by, path + ".new")
    os.rename(path + ".new", path)


class Change:
    """Two CAs, and the files CA= and CRL= while the one takes the place of the other."""

    def __init__(self, folder, *more):
        def make(name):
            os.mkdir(os.path.join(folder, name))
            return Certs(os.path.join(folder, name), *more)

        self.old, self.new = make("old"), make("new")
        self.trusted, self.lists = os.path.join(folder, "trusted.pem"), os.path.join(folder, "lists.pem")
        self.files = [(self.trusted, lambda c: os.path.join(c.ca, "ca.pem")), (self.lists, lambda c: os.path.join(c.ca, "crl.pem"))]
        self.trust(self.old)
        # Whoever has a certificate of either trusts these.
        for c in (self.old, self.new):
            c.ca_pem, c.crl = self.trusted, self.lists

    def trust(self, *cas):
        for path, of in self.files:
            with open(path + ".new", "w", encoding="ascii") as f:
                for c in cas:
                    with open(of(c), encoding="ascii") as one:
                        f.write(one.read())
            os.rename(path + ".new", path)


class Tunnel:
    """A port of this machine whose bytes go through TLS to leased, under an ALPN of the test's choice and without a
    certificate unless one is given: for protocols that grpcio does not offer by itself."""

    def __init__(self, leased, alpn, pair=None):
        self.context = ssl.create_default_context(cafile=leased.certs.ca_pem)
        self.context.set_alpn_protocols([alpn])
        if pair:
            self.context.load_cert_chain(*pair)
        self.to, self.open = leased.port, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.target = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                plain, _ = self.listener.accept()
                secure = self.context.wrap_socket(socket.create_connection(("127.0.0.1", self.to)), server_hostname="localhost")
            except OSError:
                return
            self.open += [plain, secure]
            threading.Thread(target=self._carry, args=(plain, secure), daemon=True).start()

    @staticmethod
    def _carry(plain, secure):
        """By one thread: an SSL object is not for two at a time."""
        try:
            while True:
                ready = [secure] if secure.pending() else select.select([plain, secure], [], [])[0]
                for end in ready:
                    data = end.recv(65536)
                    if not data:
                        return
                    (plain if end is secure else secure).sendall(data)
        except OSError:
            pass
        finally:
            plain.close()
            secure.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for end in [self.listener, *self.open]:
            end.close()


class Lossy:
    """A port whose bytes go to leased's and come back, until lose() says that what comes is to be lost: then the connection
    breaks."""

    def __init__(self, to, lose):
        self.to, self.lose, self.lost, self.open = to, lose, 0, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                return
            self.open += [client, server]
            threading.Thread(target=self._carry, args=(client, server, lambda: False), daemon=True).start()
            threading.Thread(target=self._carry, args=(server, client, self.lose), daemon=True).start()

    def _carry(self, source, to, lose):
        try:
            while data := source.recv(65536):
                if lose():
                    self.lost += 1
                    break
                to.sendall(data)
        except OSError:
            pass
        for end in (source, to):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for end in [self.listener, *self.open]:
            end.close()


class Secure(peer.Leased):
    """A leased with a TCP port, and the CA beside it."""

    def __init__(self, config="", certs=None, crl=False, ca_key=True, ca=()):
        super().__init__()
        self.certs = certs or Certs(self.folder, *ca)
        self.pair = self.certs.replica("a")
        self.port = free_port()
        self.address = "localhost:%d" % self.port
        with open(self.conf, "a") as f:
            f.write("Listen = %s\nCertificate = %s\nKey = %s\nCA = %s\n" % (self.address, *self.pair, self.certs.ca_pem))
            if crl:
                f.write("CRL = %s\n" % self.certs.crl)
            if ca_key:
                f.write("CAKey = %s/ca.key\n" % self.certs.ca)
            f.write(config + "\n")

    def answers(self):
        return super().answers() and listens(self.port)

    def secure_client(self, pair):
        return peer.Client(self.address, self.certs.credentials(pair))
