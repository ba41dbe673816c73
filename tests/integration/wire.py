"""Wires between replicas, on loopback: each reaches another one through a port of this process, which sees whose connection it
is and how long each TLS record on it is, and can lose one, and all behind it."""
import contextlib
import os
import socket
import threading

HEADER, APPLICATION_DATA = 5, 23


def _owns(pid, port):
    """Whether the process holds the end of a connection that has this port."""
    with open("/proc/net/tcp", encoding="ascii") as f:
        inodes = {line.split()[9] for line in f if line.split()[1].endswith(":%04X" % port)}
    folder = "/proc/%d/fd" % pid
    for fd in os.listdir(folder):
        with contextlib.suppress(OSError):
            if os.readlink(os.path.join(folder, fd)) in {"socket:[%s]" % inode for inode in inodes - {"0"}}:
                return True
    return False


class Loss:
    """One record that gets lost: the first on a connection of this process that is longer. From then on the connection carries
    nothing in either direction; others do. answer: the record itself gets through, what comes back does not."""

    def __init__(self, pid, longer_than, answer=False):
        self.pid, self.longer_than, self.answer = pid, longer_than, answer
        self.happened, self.pair = threading.Event(), None

    def cut(self):
        self.pair.close()

    def heal(self):
        """What was held back comes late."""
        self.pair.let_go()


class _Pair:
    """A connection and the one that goes on with it."""

    def __init__(self, wire, near, far):
        self.wire, self.near, self.far = wire, near, far
        self.port = near.getpeername()[1]
        self.lock, self.dead, self.held = threading.Lock(), False, []
        for pump in (self._there, self._back):
            threading.Thread(target=pump, daemon=True).start()

    def close(self):
        for end in (self.near, self.far):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def let_go(self):
        with self.lock:
            self.dead = False
            for to, data in self.held:
                to.sendall(data)
            self.held = []

    def _carry(self, to, data):
        with self.lock:
            if self.dead:
                self.held.append((to, data))
            else:
                to.sendall(data)

    def _is_lost(self, header, body):
        loss = self.wire.loss
        return loss and not loss.pair and header[0] == APPLICATION_DATA and len(body) > loss.longer_than \
            and _owns(loss.pid, self.port)

    def _lose(self, loss, record):
        loss.pair = self
        if loss.answer:
            self._carry(self.far, record)
        with self.lock:
            self.dead = True
        if not loss.answer:
            self._carry(self.far, record)
        loss.happened.set()

    def _read(self, n):
        data = b""
        while len(data) < n:
            piece = self.near.recv(n - len(data))
            if not piece:
                raise OSError("closed")
            data += piece
        return data

    def _there(self):
        try:
            while True:
                header = self._read(HEADER)
                body = self._read(int.from_bytes(header[3:], "big"))
                if self._is_lost(header, body):
                    self._lose(self.wire.loss, header + body)
                else:
                    self._carry(self.far, header + body)
        except OSError:
            self.close()

    def _back(self):
        try:
            while True:
                data = self.far.recv(65536)
                if not data:
                    raise OSError("closed")
                self._carry(self.near, data)
        except OSError:
            self.close()


class Wire:
    """What others reach a port by."""

    def __init__(self, port, to):
        self.to, self.loss, self.pairs = to, None, []
        self.listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                self.pairs.append(_Pair(self, near, socket.create_connection(("127.0.0.1", self.to))))
            except OSError:
                near.close()

    def lose(self, *args, **more):
        self.loss = Loss(*args, **more)
        return self.loss

    def close(self):
        self.listener.close()
        for pair in self.pairs:
            pair.close()
