#!/usr/bin/python3
"""xce-userdbd over a real map, asked by plain sockets: what it says, whom it lets wait (nobody), and how it ends.

usage: test_userdb.py MAPTOOL [unittest arguments]
"""
import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = os.environ.get("XCE_BUILD", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build"))
BASE = 0x78000000
FIRST = "xce-1w00000-1"
SERVICE = "io.xce.Lease"
DB = "io.systemd.UserDatabase."
NOBODY = 65534
# What a bystander may wait beside whatever others do, on a machine that is busy, too; a hung provider costs 45 s.
QUICK = 5.0


def until(condition, seconds, what):
    seconds *= 4  # a machine that is busy with other tests takes its time
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("not within %s s: %s" % (seconds, what))
        time.sleep(0.01)


class Client:
    """One connection."""

    def __init__(self, path, timeout=60):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        self.bytes = b""
        try:
            self.socket.connect(path)
        except OSError:
            self.socket.close()
            raise

    def close(self):
        self.socket.close()

    def send(self, method, more=False, **parameters):
        call = {"method": method, "parameters": parameters, **({"more": True} if more else {})}
        self.socket.sendall(json.dumps(call).encode() + b"\0")

    def receive(self):
        """The next reply; None: it was cut."""
        while b"\0" not in self.bytes:
            try:
                more = self.socket.recv(65536)
            except (ConnectionResetError, BrokenPipeError):
                more = b""
            if not more:
                return None
            self.bytes += more
        reply, _, self.bytes = self.bytes.partition(b"\0")
        return json.loads(reply)

    def call(self, method, **parameters):
        self.send(method, **parameters)
        return self.receive()

    def all(self, method, **parameters):
        """Every reply to a call that may have several."""
        self.send(method, more=True, **parameters)
        replies = [self.receive()]
        while replies[-1].get("continues"):
            replies.append(self.receive())
        return replies

    def is_cut(self):
        return self.receive() is None


class Notify:
    """The socket where a service manager hears."""

    def __init__(self, path):
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(60)
        self.socket.bind(path)

    def next(self):
        return self.socket.recv(4096).decode().split("\n")[0]


class UserdbTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="xce-userdb.")
        os.chmod(self.folder, 0o755)
        self.map, self.path = self.folder + "/uidmap", self.folder + "/" + SERVICE
        self.conf, self.log = self.folder + "/userdbd.conf", self.folder + "/log"
        self.daemon = self.writer = None
        self.addCleanup(self.clean)
        self.start_writer()
        self.write("shape %d %d" % (BASE, BASE + 65535))
        self.write("set %d 1 4001 %d" % (BASE, BASE + 1))
        self.write("set %d 7" % (BASE + 1))

    def clean(self):
        if self.daemon and self.daemon.poll() is None:
            self.daemon.kill()
            self.daemon.wait()
        self.stop_writer()
        shutil.rmtree(self.folder)

    # ---- the map ----

    def start_writer(self):
        self.writer = subprocess.Popen([MAPTOOL, self.map], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.assertIn(self.writer.stdout.readline().strip(), ("new", "taken"))

    def stop_writer(self):
        if self.writer:
            self.writer.stdin.close()
            self.writer.wait(60)
            self.writer.stdout.close()
            self.writer = None

    def write(self, line):
        self.writer.stdin.write(line + "\n")
        self.writer.stdin.flush()
        self.assertEqual(self.writer.stdout.readline().strip(), "ok", line)

    # ---- the daemon ----

    def configure(self, more=""):
        with open(self.conf, "w") as f:
            f.write("[userdbd]\nSocket = %s\nMap = %s\n%s\n" % (self.path, self.map, more))

    def start(self, more="", env=None, prefix=(), wait=True):
        self.configure(more)
        with open(self.log, "ab") as log:
            self.daemon = subprocess.Popen([*prefix, BUILD + "/userdb/xce-userdbd", "--config", self.conf], stderr=log, stdout=log,
                                           env={**os.environ, **(env or {})})
        if wait:
            until(self.listens, 10, "it listens")

    def listens(self):
        with contextlib.suppress(OSError):
            Client(self.path).close()
            return True
        return False

    def said(self):
        with open(self.log) as f:
            return f.read()

    def stop(self):
        self.daemon.terminate()
        return self.daemon.wait(10)

    def client(self, **kwargs):
        client = Client(self.path, **kwargs)
        self.addCleanup(client.close)
        return client

    def ask(self, method="GetUserRecord", **parameters):
        client = self.client()
        try:
            return client.call(DB + method, service=SERVICE, **parameters)
        finally:
            client.close()

    def name(self, uid):
        return self.ask(uid=uid).get("parameters", {}).get("record", {}).get("userName")

    def error(self, method="GetUserRecord", **parameters):
        return self.ask(method, **parameters).get("error", "").removeprefix(DB)

    def quick(self):
        """A bystander is served while others do what they do."""
        began = time.monotonic()
        self.assertEqual(self.name(BASE), FIRST)
        self.assertLess(time.monotonic() - began, QUICK)

    def alive(self):
        self.assertIsNone(self.daemon.poll(), self.said())
        self.quick()

    def rss_kib(self):
        with open("/proc/%d/status" % self.daemon.pid) as f:
            return int(next(line for line in f if line.startswith("VmRSS")).split()[1])

    # ---- what it says ----

    def test_records(self):
        self.start()
        self.assertEqual(self.ask(uid=BASE), {"parameters": {"incomplete": False, "record": {
            "userName": FIRST, "uid": BASE, "gid": BASE, "realName": "xce lease", "homeDirectory": "/nonexistent",
            "shell": "/usr/sbin/nologin", "disposition": "dynamic", "locked": True,
            "memberOf": ["xce-gid-4001", "xce-1w00001-7"], "service": SERVICE}}})
        self.assertEqual(self.ask("GetGroupRecord", groupName=FIRST), {"parameters": {"incomplete": False, "record": {
            "groupName": FIRST, "gid": BASE, "disposition": "dynamic", "service": SERVICE}}})
        client = self.client()
        self.assertEqual(client.all(DB + "GetMemberships", userName=FIRST, service=SERVICE), [
            {"parameters": {"userName": FIRST, "groupName": "xce-gid-4001"}, "continues": True},
            {"parameters": {"userName": FIRST, "groupName": "xce-1w00001-7"}}])
        self.assertEqual(self.error(uid=1000), "NoRecordFound")
        self.assertEqual(self.error(), "EnumerationNotSupported")
        self.assertEqual(client.call(DB + "GetUserRecord", uid=BASE, service="io.systemd.DynamicUser")["error"], DB + "BadService")
        self.assertEqual(client.call("org.varlink.service.GetInfo")["parameters"]["product"], "xce-userdbd")

    def test_it_follows_the_map(self):
        os.unlink(self.map)
        self.stop_writer()
        self.start()
        self.assertEqual(self.error(uid=BASE), "ServiceNotAvailable")
        self.assertEqual(self.error(userName="root"), "NoRecordFound")
        self.start_writer()
        self.write("shape %d %d" % (BASE, BASE + 9))
        self.write("set %d 1" % BASE)
        self.assertEqual(self.name(BASE), FIRST)
        self.write("set %d 2" % BASE)
        self.assertEqual(self.name(BASE), "xce-1w00000-2")
        self.assertEqual(self.error(userName=FIRST), "NoRecordFound")
        self.write("retire %d 2" % BASE)
        self.assertEqual(self.error(uid=BASE), "NoRecordFound")
        self.write("shape %d %d" % (BASE, BASE + 99))  # another file
        self.write("set %d 3" % (BASE + 50))
        self.assertEqual(self.name(BASE + 50), "xce-1w0001j-3")
        # Removed behind its writer's back: as good as before, and left for another within a second.
        os.unlink(self.map)
        self.assertEqual(self.name(BASE + 50), "xce-1w0001j-3")
        self.stop_writer()
        self.start_writer()
        self.write("shape %d %d" % (BASE, BASE + 9))
        self.write("set %d 9" % BASE)
        until(lambda: self.name(BASE) == "xce-1w00000-9", 3, "the new map is found")

    def test_lists(self):
        self.write("fill %d 5000" % (BASE + 2))
        self.start("Enumerate = yes")
        for method, key in (("GetUserRecord", "uid"), ("GetGroupRecord", "gid")):
            replies = self.client().all(DB + method, service=SERVICE)
            self.assertEqual([r["parameters"]["record"][key] for r in replies], list(range(BASE, BASE + 5002)))
        self.assertEqual(len(self.client().all(DB + "GetMemberships", service=SERVICE)), 2)

    def test_calls_in_a_row_are_answered_in_order(self):
        self.start()
        client = self.client()
        for uid in (BASE, BASE + 1, 1000):
            client.send(DB + "GetUserRecord", uid=uid, service=SERVICE)
        self.assertEqual(client.receive()["parameters"]["record"]["uid"], BASE)
        self.assertEqual(client.receive()["parameters"]["record"]["uid"], BASE + 1)
        self.assertEqual(client.receive()["error"], DB + "NoRecordFound")
        # One that says no more still hears.
        client.send(DB + "GetUserRecord", uid=BASE, service=SERVICE)
        client.socket.shutdown(socket.SHUT_WR)
        self.assertEqual(client.receive()["parameters"]["record"]["uid"], BASE)
        self.assertTrue(client.is_cut())

    def test_a_call_may_come_byte_by_byte(self):
        self.start()
        client = self.client()
        for byte in json.dumps({"method": DB + "GetUserRecord", "parameters": {"uid": BASE, "service": SERVICE}}) + "\0":
            client.socket.send(byte.encode())
        self.assertEqual(client.receive()["parameters"]["record"]["userName"], FIRST)

    # ---- those who mean no good ----

    def test_bad_bytes_end_their_own_conversation(self):
        self.start()
        for sent in (b"\0", b"{}\0", b"GET / HTTP/1.1\r\n\r\n\0", b"[" * 8000 + b"\0", b"{" * 9000, b"\xff" * 100000,
                     b'{"method":"a.B","parameters":[]}\0', b'{"method":"' + b"x" * 9000):
            client = self.client()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                client.socket.sendall(sent)
            self.assertTrue(client.is_cut(), sent[:40])
            self.alive()
        long = self.client()
        long.send("x" * 8000)
        self.assertEqual(long.receive()["error"], "org.varlink.service.InterfaceNotFound")
        self.alive()

    def test_a_crowd_of_one_user_is_its_own_problem(self):
        """Another user takes all places, again and again, and root is served, before and after."""
        self.start()
        before = self.client()
        script = """if 1:
            import os, socket, sys
            os.setgroups([]); os.setgid(%d); os.setuid(%d)
            kept = []
            for i in range(900):
                s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.send(b'{"half'); kept.append(s)
            print('there', flush=True)
            sys.stdin.read()""" % (NOBODY, NOBODY)
        crowd = subprocess.Popen([sys.executable, "-c", script, self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            self.assertEqual(crowd.stdout.readline(), b"there\n")
            for _ in range(50):
                self.quick()
            self.assertEqual(before.call(DB + "GetUserRecord", uid=BASE, service=SERVICE)["parameters"]["record"]["userName"], FIRST)
            self.assertIn("most of them of uid %d" % NOBODY, self.said())
        finally:
            crowd.communicate()
        self.alive()

    def test_who_does_not_move_holds_nobody_up_and_is_let_go(self):
        self.write("fill %d 65000" % (BASE + 2))
        self.start("Enumerate = yes")
        idle, deaf = [self.client(timeout=120) for _ in range(5)], [self.client() for _ in range(20)]
        idle[0].socket.send(b'{"half')
        for client in deaf:
            client.send(DB + "GetUserRecord", more=True, service=SERVICE)
        began = time.monotonic()
        for _ in range(20):
            self.quick()
        for client in idle:
            self.assertTrue(client.is_cut())
        self.assertGreater(time.monotonic() - began, 5)
        until(lambda: self.n_clients() == 0, 20, "all are cut")
        for client in deaf:  # in the middle of the list
            while reply := client.receive():
                self.assertTrue(reply["continues"])
        self.alive()

    def n_clients(self):
        """Sockets that it has beside the one at which it listens."""
        links = [os.readlink("/proc/%d/fd/%s" % (self.daemon.pid, fd)) for fd in os.listdir("/proc/%d/fd" % self.daemon.pid)]
        return len([link for link in links if link.startswith("socket:")]) - 1

    def test_without_descriptors_it_waits_for_some_and_does_not_spin(self):
        self.start(prefix=["prlimit", "--nofile=16:16", "--"])
        crowd = [self.client() for _ in range(20)]
        until(lambda: "can not be taken" in self.said(), 5, "it says so")
        before, began = self.cpu_seconds(), time.monotonic()
        crowd[0].send(DB + "GetUserRecord", uid=BASE, service=SERVICE)
        self.assertEqual(crowd[0].receive()["parameters"]["record"]["userName"], FIRST)
        until(lambda: time.monotonic() - began > 1, 5, "a second")
        self.assertLess(self.cpu_seconds() - before, 0.3)
        for client in crowd:
            client.close()
        self.alive()

    def cpu_seconds(self):
        with open("/proc/%d/stat" % self.daemon.pid) as f:
            return sum(map(int, f.read().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")

    # ---- never waits ----

    def test_the_manager_hears_of_it(self):
        notify = Notify(self.folder + "/notify")
        self.addCleanup(notify.socket.close)
        self.start(env={"NOTIFY_SOCKET": notify.path, "WATCHDOG_USEC": "1000000"}, wait=False)
        self.assertEqual(notify.next(), "READY=1")
        self.quick()  # it was ready when it said so
        # Each 0.25 s on a machine that is free; that is late now and then, and three times in a row it is not.
        times, in_time = [], 0
        while in_time < 3:
            self.assertLess(len(times), 40, times)
            self.assertEqual(notify.next(), "WATCHDOG=1")
            times.append(time.monotonic())
            in_time = in_time + 1 if times[1:] and times[-1] - times[-2] < 0.9 else 0
        self.daemon.send_signal(signal.SIGHUP)
        seen = []
        while "READY=1" not in seen:
            seen.append(notify.next())
        self.assertIn("RELOADING=1", seen)
        self.assertEqual(self.stop(), 0)
        while notify.next() != "STOPPING=1":
            pass

    def test_it_dies_rather_than_hangs(self):
        """A manager that does not hear: in time its queue is full, and what is sent there waits for ever."""
        notify = Notify(self.folder + "/notify")
        self.addCleanup(notify.socket.close)
        self.start(env={"NOTIFY_SOCKET": notify.path, "WATCHDOG_USEC": "4000"}, wait=False)
        self.assertEqual(self.daemon.wait(30), -signal.SIGALRM)
        with self.assertRaises(ConnectionRefusedError):  # at once, and not after 45 s
            Client(self.path)

    def test_a_held_back_or_ignored_alarm_ends_it_all_the_same(self):
        notify = Notify(self.folder + "/notify")
        self.addCleanup(notify.socket.close)
        prefix = [sys.executable, "-c", "import os, signal, sys; signal.signal(signal.SIGALRM, signal.SIG_IGN);"
                  " signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM, signal.SIGTERM]); os.execv(sys.argv[1], sys.argv[1:])"]
        self.start(env={"NOTIFY_SOCKET": notify.path, "WATCHDOG_USEC": "4000"}, prefix=prefix, wait=False)
        self.assertEqual(self.daemon.wait(30), -signal.SIGALRM)

    # ---- beginning and ending ----

    def test_ends_in_order_and_takes_its_socket_along(self):
        self.start()
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o666)
        self.client()
        self.assertEqual(self.stop(), 0)
        self.assertFalse(os.path.lexists(self.path))

    def test_killed_it_leaves_a_socket_that_refuses_and_the_next_one_begins(self):
        self.start()
        for _ in range(20):
            waiting = self.client()
            self.daemon.kill()
            self.daemon.wait()
            self.assertTrue(waiting.is_cut())
            with self.assertRaises(ConnectionRefusedError):
                Client(self.path)
            self.start()
            self.quick()

    def test_what_is_no_socket_is_not_removed(self):
        with open(self.path, "w") as f:
            f.write("mine")
        self.start(wait=False)
        self.assertEqual(self.daemon.wait(10), 1)
        self.assertIn(self.path, self.said())
        with open(self.path) as f:
            self.assertEqual(f.read(), "mine")

    def test_reload(self):
        self.start()
        self.assertEqual(self.error(), "EnumerationNotSupported")
        self.configure("Enumerate = yes")
        self.daemon.send_signal(signal.SIGHUP)
        until(lambda: self.error() == "org.varlink.service.ExpectedMore", 5, "lists are given")
        self.configure("Enumerate = perhaps")
        self.daemon.send_signal(signal.SIGHUP)
        until(lambda: "the configuration stays as it was" in self.said(), 5, "it says so")
        self.assertEqual(self.error(), "org.varlink.service.ExpectedMore")
        self.configure("Enumerate = no")
        with open(self.conf, "a") as f:
            f.write("LogLevel = debug\n")
        self.daemon.send_signal(signal.SIGHUP)
        until(lambda: self.error() == "EnumerationNotSupported", 5, "lists are not given")
        self.alive()

    def test_configuration_is_checked(self):
        for line, code in (("Enumerate = yes", 0), ("Socket = /run/xce/userdb", 2), ("Enumerate = 2", 2), ("Unknown = 1", 2)):
            with open(self.conf, "w") as f:
                f.write("[userdbd]\n%s\n" % line)
            done = subprocess.run([BUILD + "/userdb/xce-userdbd", "--config", self.conf, "--check-config"], capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual(done.returncode, code, done.stderr)

    def test_needs_no_privilege(self):
        os.chown(self.folder, NOBODY, NOBODY)
        self.start(prefix=["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "--bounding-set=-all",
                           "--no-new-privs", "--"])
        self.alive()

    # ---- what it costs ----

    def test_memory_is_small_whatever_is_asked(self):
        if os.environ.get("XCE_TEST_SANITIZED"):
            self.skipTest("sanitizers have memory of their own")
        self.write("fill %d 65534" % (BASE + 2))
        self.start("Enumerate = yes")
        client = self.client()
        for i in range(16384):  # all over the map
            self.assertIn("parameters", client.call(DB + "GetUserRecord", uid=BASE + i * 3989 % 65536, service=SERVICE))
        self.assertLess(self.rss_kib(), 8192)
        self.assertEqual(len(client.all(DB + "GetUserRecord", service=SERVICE)), 65536)
        self.assertLess(self.rss_kib(), 8192)
        crowd = [self.client() for _ in range(250)]
        for one in crowd:
            one.socket.send(b" " * 8000)
        self.quick()
        self.assertLess(self.rss_kib(), 8192)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skip: needs root, for a map that belongs to root")
        sys.exit(77)
    MAPTOOL = sys.argv.pop(1)
    unittest.main(verbosity=2)
