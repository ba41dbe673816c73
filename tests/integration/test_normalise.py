#!/usr/bin/python3
"""xce-normalise on file systems of the test's own: each kind of file, what is refused, what is told, how it ends.

usage: test_normalise.py MAPTOOL [unittest arguments]
"""
import base64
import json
import os
import re
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import trees
from trees import ACCESS, DEFAULT, GID, GROUP, GROUP_OBJ, MASK, OTHER, OTHER_GID, REST, TO, TO_GID, UID, USER, USER_OBJ, acl, run

CAPABILITY = "security.capability"
CAP_NET_RAW = bytes.fromhex("0100000200200000000000000000000000000000")
KINDS = ("ext4", "xfs", "tmpfs", "overlay")
# So that it can not have a mount of its own.
NO_MOUNT = ("capsh", "--drop=cap_sys_admin", "--", "-c", 'exec "$0" "$@"')
# Inodes with no room for more of a time.
WHOLE_SECONDS = ("-I", "128")
# With libfile_fault.
FAULTY = {**os.environ, "LD_PRELOAD": trees.BUILD + "/tests/lib/libfile_fault.so"}
# A deadline for what takes no time.
SOON = 60


def until(condition, what, seconds=SOON):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("not within %s s: %s" % (seconds, what))
        time.sleep(0.01)


def witness(path):
    """What a change of owner, mode or attributes would change, though they were the same afterwards."""
    st = os.lstat(path)
    return st.st_uid, st.st_gid, st.st_mode, st.st_ctime_ns


class Kinds(trees.TreeTest):
    """Each kind of file, on each kind of file system."""

    def each(self, test):
        for kind in KINDS:
            with self.subTest(fs=kind):
                test(self.dir(os.path.join(self.shared(kind), "job")), ["--allow-overlay"] if kind == "overlay" else [])

    def test_modes(self):
        self.each(self.modes)

    def modes(self, top, options):
        """Set-id bits of every combination go from files that are given away and from nothing else; folders keep theirs."""
        wanted, untouched = {}, {}
        for mode in range(0, 0o10000, 0o111):
            name = "%04o" % mode
            for kind, uid, gid in (("f", UID, GID), ("u", UID, OTHER_GID), ("g", OTHER, GID), ("o", OTHER, OTHER_GID)):
                path = self.file(os.path.join(top, kind + name), uid, gid, mode)
                if kind == "o":
                    untouched[path] = witness(path)
                else:
                    wanted[path] = (TO if uid == UID else uid, TO_GID if gid == GID else gid, mode & 0o1777)
            wanted[self.dir(os.path.join(top, "d" + name), mode=mode)] = (TO, TO_GID, mode)
        done = run(top, *options)
        self.assert_clean(done)
        for path, (uid, gid, mode) in wanted.items():
            self.assert_is(path, uid, gid, mode)
        for path, before in untouched.items():
            self.assertEqual(witness(path), before, path)
        self.assertEqual(done.end["changed"], len(wanted) + 1)
        again = run(top, *options)
        self.assert_clean(again)
        self.assertEqual(again.end["changed"], 0)

    def test_without_a_gid_groups_stay(self):
        top = self.dir(os.path.join(self.shared("tmpfs"), "job"))
        ours, group = self.file(top + "/ours"), self.file(top + "/group", uid=OTHER)
        before = witness(group)
        self.assert_clean(run(top, from_=str(UID), to=str(TO)))
        self.assert_is(ours, TO, GID)
        self.assertEqual(witness(group), before)

    def test_special(self):
        self.each(self.special)

    def special(self, top, options):
        outside = os.path.join(os.path.dirname(top), "outside")
        os.mkdir(outside)
        victim = self.file(os.path.join(outside, "victim"), OTHER, OTHER_GID, 0o4755)
        links = {"to-victim": victim, "dangling": "nowhere", "loop": "loop", "absolute": "/etc/passwd", "folder": outside}
        for name, target in links.items():
            os.symlink(target, os.path.join(top, name))
            os.lchown(os.path.join(top, name), UID, GID)
        os.mkfifo(top + "/fifo")
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(top + "/socket")
        special = ["fifo", "socket"]
        if not options:  # an overlay has a meaning of its own for it
            special.append("whiteout")
            os.mknod(top + "/whiteout", stat.S_IFCHR, 0)
        for name in special:
            os.chown(os.path.join(top, name), UID, GID)
        # Another's file by a link in the tree, one of ours by a link out of it.
        os.link(victim, top + "/victim")
        os.link(self.file(top + "/linked"), outside + "/linked")
        before, passwd = witness(victim), witness("/etc/passwd")
        done = run(top, *options)
        self.assert_clean(done)
        for name in [*links, *special, "linked"]:
            self.assert_is(os.path.join(top, name))
        self.assert_is(outside + "/linked")
        self.assertEqual((witness(victim), witness("/etc/passwd")), (before, passwd))
        self.assertEqual(done.end["linked"], 1)

    def test_blocked(self):
        self.each(self.blocked)

    def blocked(self, top, options):
        """What can not be given away is told by name, and the rest goes on."""
        want = {}
        for name, flag in (("immutable", "+i"), ("append-only", "+a")):
            path = self.file(os.path.join(top, name), mode=0o6755)
            if not options and trees.set_flags(path, flag):
                self.addCleanup(trees.set_flags, path, flag.replace("+", "-"))
                want.setdefault("blocked.immutable", []).append(name)
        os.mknod(top + "/device", stat.S_IFCHR, os.makedev(1, 3))
        os.chown(top + "/device", UID, GID)
        want["blocked.device"] = ["device"]
        ours = self.file(top + "/ours")
        done = run(top, *options)
        self.assertEqual((done.code, done.end["verdict"]), (1, "blocked"), done)
        told = done.classes()
        blocked = sorted(n for names in want.values() for n in names)
        self.assertEqual(told.pop("left"), blocked)
        self.assertEqual(told, {key: sorted(value) for key, value in want.items()})
        self.assert_is(ours)
        self.assert_is(top)
        for name in blocked:
            self.assert_is(os.path.join(top, name), UID, GID)
            trees.set_flags(os.path.join(top, name), "-ia")
        os.unlink(top + "/device")
        self.assert_clean(run(top, *options))

    def test_lists(self):
        self.each(self.lists)

    def lists(self, top, options):
        """The uid goes off everybody's access lists, the mask stays, and no bit of a mode is another one."""
        rest = (MASK, 7), (REST, 0)
        before = acl((USER_OBJ, 6), (USER, 7, UID), (USER, 4, OTHER), (GROUP_OBJ, 4), (GROUP, 5, GID), (GROUP, 1, OTHER_GID), *rest)
        given = acl((USER_OBJ, 6), (USER, 4, OTHER), (GROUP_OBJ, 4), (GROUP, 5, TO_GID), (GROUP, 1, OTHER_GID), *rest)
        others = acl((USER_OBJ, 6), (USER, 4, OTHER), (GROUP_OBJ, 4), (GROUP, 1, OTHER_GID), *rest)
        foreign = acl((USER_OBJ, 6), (USER, 4, OTHER), (GROUP_OBJ, 4), *rest)
        only = acl((USER_OBJ, 6), (USER, 7, UID), (GROUP_OBJ, 4), *rest)
        plain = acl((USER_OBJ, 6), (GROUP_OBJ, 4), *rest)
        cases = {}
        for kind, make in (("file", self.file), ("dir", self.dir)):
            for name, uid, gid, has, want in (("ours", UID, GID, before, given), ("theirs", OTHER, OTHER_GID, before, others),
                                              ("only", UID, GID, only, plain), ("foreign", OTHER, OTHER_GID, foreign, foreign)):
                path = make(os.path.join(top, kind + "-" + name), uid, gid)
                lists = (ACCESS, DEFAULT) if kind == "dir" else (ACCESS,)
                for attribute in lists:
                    os.setxattr(path, attribute, has)
                cases[path] = lists, want, witness(path)
        # Set-gid of a folder is not lost by a change of its list.
        shared = self.dir(top + "/shared", OTHER, OTHER_GID)
        os.setxattr(shared, ACCESS, before)
        os.chmod(shared, os.stat(shared).st_mode | stat.S_ISGID)
        mode = os.stat(shared).st_mode
        done = run(top, *options)
        self.assert_clean(done)
        for path, (lists, want, (uid, _, was, ctime)) in cases.items():
            for attribute in lists:
                self.assertEqual(os.getxattr(path, attribute), want, (path, attribute))
            self.assertEqual(oct(os.lstat(path).st_mode), oct(was), path)
            if path.endswith("foreign"):
                self.assertEqual(os.lstat(path).st_ctime_ns, ctime, path)
        self.assertEqual(os.stat(shared).st_mode, mode)
        self.assertEqual(done.end["lists"], 7)

    def test_lists_of_the_given_alone(self):
        top = self.dir(os.path.join(self.shared("tmpfs"), "job"))
        value = acl((USER_OBJ, 6), (USER, 7, UID), (GROUP_OBJ, 4), (MASK, 7), (REST, 0))
        ours, theirs = self.file(top + "/ours"), self.file(top + "/theirs", OTHER, OTHER_GID)
        for path in (ours, theirs):
            os.setxattr(path, ACCESS, value)
        # What they are given to may name the uid as well: a write path of the submitter does.
        given = [self.file(top + "/given", TO, TO_GID), self.dir(top + "/path", TO, TO_GID), self.dir(top + "/inherited", TO, TO_GID)]
        for path, attribute in zip(given, (ACCESS, ACCESS, DEFAULT)):
            os.setxattr(path, attribute, value)
        done = run("--acl", "owned", top)
        self.assert_clean(done)
        self.assertEqual((done.end["rounds"], done.end["lists"]), (1, 4))
        self.assertEqual(os.getxattr(theirs, ACCESS), value)
        for path in (ours, *given):
            self.assertNotIn(value, [os.getxattr(path, a) for a in os.listxattr(path) if a in (ACCESS, DEFAULT)], path)

    def test_capabilities(self):
        self.each(self.capabilities)

    def capabilities(self, top, options):
        ours, theirs = self.file(top + "/ours", mode=0o755), self.file(top + "/theirs", OTHER, OTHER_GID, 0o755)
        for path in (ours, theirs):
            os.setxattr(path, CAPABILITY, CAP_NET_RAW)
        done = run(top, *options)
        self.assert_clean(done)
        self.assertNotIn(CAPABILITY, os.listxattr(ours))
        self.assertEqual(os.getxattr(theirs, CAPABILITY), CAP_NET_RAW)
        self.assertEqual(done.end["capabilities"], 1)

    def test_names(self):
        self.each(self.names)

    def names(self, top, options):
        """Also as they are told: text as text, bytes that are none in base64."""
        names = [b"new\nline", b"\xff\xfe", b"-rf", b"\xc3\xa9" * 127 + b"x", b" ", b"a\\b\"c", b"\x1b[31m"]
        for name in names:
            path = os.path.join(os.fsencode(top), name)
            os.mknod(path, stat.S_IFBLK, os.makedev(1, 0))
            os.chown(path, UID, GID)
            os.mkdir(path + b"d" if len(name) < 255 else path[:-1] + b"d")
            os.chown(path + b"d" if len(name) < 255 else path[:-1] + b"d", UID, GID)
        done = run(top, *options)
        told = {os.fsencode(e["path"]) if "path" in e else base64.b64decode(e["path_b64"])
                for e in done.of("exception") if e["class"] == "blocked.device"}
        self.assertEqual(told, {os.path.join(os.fsencode(top), name) for name in names})
        for name in os.listdir(os.fsencode(top)):
            path = os.path.join(os.fsencode(top), name)
            self.assertEqual(os.lstat(path).st_uid, TO if os.path.isdir(path) else UID, path)


class Shapes(trees.TreeTest):
    """Deep, wide, and with mounts in it."""

    LIMITS = ("prlimit", "--nofile=64")

    def deep(self, top, n):
        """Folders in each other, a file in each; made from the bottom of what is there, as no path is so long."""
        fd = os.open(top, os.O_RDONLY)
        for _ in range(n):
            os.mkdir("d" * 20, dir_fd=fd)
            below = os.open("d" * 20, os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = below
            os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
            os.chown("file", UID, GID, dir_fd=fd)
            os.fchown(fd, UID, GID)
        os.close(fd)

    def deep_owners(self, top):
        fd, owners = os.open(top, os.O_RDONLY), set()
        while True:
            owners |= {(st.st_uid, st.st_gid) for st in (os.stat(n, dir_fd=fd) for n in os.listdir(fd))}
            try:
                below = os.open("d" * 20, os.O_RDONLY, dir_fd=fd)
            except FileNotFoundError:
                os.close(fd)
                return owners
            os.close(fd)
            fd = below

    def test_deep(self):
        """By handles, and where there are none."""
        for kind, n, handles in (("tmpfs", 2000, True), ("overlay", 200, False)):
            with self.subTest(fs=kind):
                top = self.dir(os.path.join(self.shared(kind), "job"))
                self.deep(top, n)
                done = run("--allow-overlay", top, prefix=self.LIMITS)
                self.assert_clean(done)
                self.assertEqual(self.deep_owners(top), {(TO, TO_GID)})
                self.assertEqual(done.end["changed"], 2 * n + 1)
                self.assertEqual(done.of("root")[0]["handles"], handles)

    def wide(self, n, make):
        top = self.dir(os.path.join(self.mount("tmpfs", "100%"), "job"))
        for i in range(n):
            make("%s/%d" % (top, i))
            os.chown("%s/%d" % (top, i), UID, GID)
        # 32 MiB is what is promised for any size; here less.
        memory = () if trees.SANITIZED else ("--data=%d" % ((32 if trees.LONG else 5) << 20),)
        done = run("--threads", "2", top, prefix=(*self.LIMITS, *memory))
        self.assert_clean(done)
        self.assertEqual(done.end["changed"], n + 1)
        with os.scandir(top) as entries:
            self.assertEqual({e.stat().st_uid for e in entries}, {TO})

    def test_many_files(self):
        self.wide(1000000 if trees.LONG else 20000, lambda path: os.mknod(path))

    def test_many_folders(self):
        """More than are kept in mind at once."""
        self.wide(1000000 if trees.LONG else 20000, os.mkdir)

    def test_mounts(self):
        """What is mounted in the tree is no part of it, also on the same device; what lies under it is."""
        fs = self.mount("ext4")
        top = self.dir(fs + "/job")
        elsewhere = self.dir(fs + "/elsewhere")
        bound, covered = self.dir(top + "/bound"), self.dir(top + "/covered")
        foreign = self.file(elsewhere + "/file")
        self.file(covered + "/under")
        before = witness(foreign)
        subprocess.run(["mount", "--bind", elsewhere, bound], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", covered], check=True)
        over = self.file(covered + "/over")
        try:
            # Without a mount of its own it does not see what lies under them, and goes into none of them.
            done = run(top, prefix=NO_MOUNT)
            self.assertEqual((done.code, done.end["verdict"], done.end["proof"]), (3, "unproven", "none"), done)
            self.assertRegex(done.end["reason"], "under mounts")
            self.assertEqual(done.classes(), {"mount": ["bound", "covered"]})
            self.assertEqual((done.of("root")[0]["own_mount"], done.of("root")[0]["mounts"]), (False, 2))
            self.assert_is(top)
            for path in (over, foreign, covered, bound):
                self.assertEqual(os.lstat(path).st_uid, 0 if path == covered else UID, path)
            os.chown(top, UID, GID)
            done = run(top)
            self.assert_clean(done)
            self.assertEqual((done.of("root")[0]["own_mount"], done.of("root")[0]["mounts"]), (True, 2))
            self.assertEqual(sorted(e["path"] for e in done.of("exception") if e["class"] == "mount"), [bound, covered])
            self.assertEqual(witness(foreign), before)
            self.assert_is(over, UID, GID)
        finally:
            subprocess.run(["umount", covered], check=True)
            subprocess.run(["umount", bound], check=True)
        for path in (covered + "/under", covered, bound, top):
            self.assert_is(path)

    def test_whole_seconds(self):
        """Where times have no more, one round is enough all the same."""
        fs = self.mount("ext4", options=WHOLE_SECONDS)
        ours = self.file(self.dir(self.dir(fs + "/job") + "/below") + "/file")
        self.assertEqual(os.stat(ours).st_ctime_ns % 10**9, 0)
        done = run(fs + "/job")
        self.assert_clean(done)
        self.assertEqual(done.end["rounds"], 1)
        self.assert_is(ours)

    def test_file_systems_of_unknown_times(self):
        """Their files are given away, and nothing is proved."""
        top = self.dir(self.mount("ramfs") + "/job")
        ours = self.file(top + "/file")
        for _ in range(2):
            done = run(top)
            self.assertEqual((done.code, done.end["verdict"], done.end["proof"], done.end["left"]), (3, "unproven", "none", 0), done)
            self.assertRegex(done.end["reason"], "times")
            self.assert_is(ours)
        os.chown(ours, UID, GID)
        self.assertEqual(run("--dry-run", top).end["verdict"], "dirty")

    def test_subvolumes(self):
        """Whoever makes one may call it as a snapshot is called, and keep files of others there."""
        top = self.dir(self.mount("btrfs") + "/job")
        ours = []
        for uid, name in ((OTHER, ".snapshots"), (TO, ".zfs"), (UID, ".snapshot"), (0, "plain")):
            folder = trees.subvolume(top, name)
            os.chown(folder, uid, uid and OTHER_GID)
            ours.append(self.file(folder + "/file"))
        done = run(top)
        self.assert_clean(done)
        for path in ours:
            self.assert_is(path)
        self.assertEqual(done.end["snapshots"], 0)

    def test_read_only(self):
        """It stops trying."""
        fs = self.mount("ext4")
        top = self.dir(fs + "/job")
        for i in range(100):
            self.file("%s/%d" % (top, i))
        subprocess.run(["mount", "-o", "remount,ro", fs], check=True)
        done = run(top, "--threads", "1")
        self.assertEqual((done.code, done.end["verdict"]), (1, "blocked"), done)
        self.assertEqual(done.end["exceptions"], {"blocked.readonly": 64, "left": 101})
        self.assertEqual(done.end["blocked"], 101)
        subprocess.run(["mount", "-o", "remount,rw", fs], check=True)
        self.assert_clean(run(top))

    def test_roots_together(self):
        fs = self.shared("tmpfs")
        tops = [self.dir("%s/%d" % (fs, i)) for i in range(3)]
        for top in tops:
            self.file(top + "/file")
        done = run(*tops)
        self.assert_clean(done)
        self.assertEqual([r["path"] for r in done.of("root")], tops)
        self.assertEqual([r["changed"] for r in done.of("root")], [2, 2, 2])


class Refused(trees.TreeTest):
    def refused(self, pattern, *args, **kwargs):
        done = run(*args, **kwargs)
        self.assertEqual((done.code, done.records), (2, []), done)
        self.assertRegex(done.err, pattern)

    def test_paths(self):
        top = self.dir(self.folder + "/job")
        os.symlink(top, self.folder + "/link")
        self.dir(top + "/below")
        plain = self.file(self.folder + "/plain")
        ours = self.file(top + "/file")
        overlay = self.mount("overlay")
        for pattern, path in (("root of the machine", "/"), ("root of the machine", "/etc/.."), ("symlink", self.folder + "/link"),
                              ("symlink", self.folder + "/link/below"), ("Not a directory", plain), ("No such file", self.folder + "/none"),
                              ("nobody has files", "/proc"), ("--allow-overlay", overlay)):
            with self.subTest(path=path):
                # Before anything is done in those that would do.
                self.refused(pattern, top, path)
        self.refused("no path", )
        self.assert_is(ours, UID, GID)

    def test_ids(self):
        top = self.dir(self.folder + "/job")
        ours = self.file(top + "/file")
        for from_, to in (("0", "5"), ("5", "0"), ("4294967295", "5"), ("5", "4294967295"), ("5:0", "6:7"), ("5:7", "6:0"),
                          ("5:7", "6"), ("5", "6:7"), ("5", "5"), ("5:7", "6:7"), ("", "5"), ("5:", "6:"), ("root", "5"), ("-5", "6")):
            with self.subTest(from_=from_, to=to):
                self.refused("--(from|to)", top, from_=from_, to=to)
        self.assert_is(ours, UID, GID)

    def test_pools(self):
        """As the map of this machine names them; a map that can not be believed is no map without pools."""
        top = self.dir(os.path.join(self.shared("tmpfs"), "job"))
        path = self.folder + "/uidmap"
        tool = subprocess.Popen([MAPTOOL, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(tool.stdout.readline().strip(), "new")
            tool.stdin.write("shape %d %d\n" % (0x78000000, 0x78000000 + 65535))
            tool.stdin.flush()
            self.assertEqual(tool.stdout.readline().strip(), "ok")
            pool, last = str(0x78000000), str(0x78000000 + 65535)
            for from_, to in ((pool, "5"), ("5", last), ("5:" + pool, "6:7"), ("5:7", "6:" + last)):
                with self.subTest(from_=from_, to=to):
                    self.refused("of a pool of leases", top, "--map", path, from_=from_, to=to)
            self.assert_clean(run(top, "--map", path, from_=str(0x78000000 + 65536), to="5"))
        finally:
            tool.stdin.close()
            tool.wait(SOON)
            tool.stdout.close()
        with open(path, "r+b") as f:
            f.write(b"damaged!")
        self.refused("can not be believed", top, "--map", path)

    def test_privilege(self):
        top = self.dir(self.folder + "/job")
        self.refused("user namespace", top, prefix=("unshare", "--user", "--map-root-user"))
        self.refused("CAP_FOWNER is missing", top, prefix=("capsh", "--drop=cap_fowner", "--", "-c", 'exec "$0" "$@"'))

    def test_options(self):
        top = self.dir(self.folder + "/job")
        for args in (("--threads", "0"), ("--threads", "65"), ("--proof", "walk"), ("--acl", "none"), ("--max-exceptions", "-1"), ("--nonsense",)):
            with self.subTest(args=args):
                self.refused(".", top, *args)


class Faults(trees.TreeTest):
    """Servers and disks that fail: what that is called, and that all else is done."""

    def setUp(self):
        if trees.SANITIZED:
            self.skipTest("a sanitizer's runtime has to be loaded first")
        super().setUp()

    def faulty(self, *names, args=()):
        """A run over files of these names, and one that is well."""
        top = self.dir(os.path.join(self.shared("tmpfs"), "job"))
        for name in names:
            self.file(os.path.join(top, name))
        well = self.file(top + "/well")
        done = run(*args, top, env=FAULTY)
        self.assert_is(well)
        return top, done

    def test_classes(self):
        for error, class_, verdict in (("EPERM", "blocked.refused", "blocked"), ("EINVAL", "blocked.refused", "blocked"),
                                       ("EROFS", "blocked.readonly", "blocked"), ("EDQUOT", "blocked.quota", "blocked"),
                                       ("LIE", "blocked.refused", "blocked"), ("EIO", "unknown", "dirty")):
            with self.subTest(error=error):
                top, done = self.faulty(error)
                self.assertEqual((done.code, done.end["verdict"]), (1, verdict), done)
                self.assertEqual(done.classes(), {class_: [error], "left": [error]})
                self.assertEqual(done.end["rounds"], 1)
                self.assert_is(top)
                self.assert_is(os.path.join(top, error), UID, GID)
                self.assert_clean(run(top))

    def test_a_scan_that_takes_long(self):
        """It says how far it is, and ends when it is told to."""
        top = self.dir(self.mount("xfs") + "/job", TO, TO_GID)
        held = self.file(top + "/HELD", TO, TO_GID)
        process = trees.start("--proof", "inode-scan", top, env=FAULTY)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        until(lambda: self.signals(process.pid, "SigBlk") >> (signal.SIGTERM - 1) & 1, "it takes signals")
        said = b""

        def says_so():
            nonlocal said
            os.kill(process.pid, signal.SIGUSR1)
            if select.select([process.stdout], [], [], 0.05)[0]:
                said += os.read(process.stdout.fileno(), 65536)
            return any(json.loads(line).get("phase") == "scan" for line in said.split(b"\n")[:-1])

        until(says_so, "a word of the scan")
        os.kill(process.pid, signal.SIGTERM)
        until(lambda: not self.signals(process.pid, "ShdPnd"), "it takes the signal")
        os.unlink(held)
        out, err = process.communicate(timeout=SOON)
        done = trees.Done(process.returncode, said + out, err.decode(errors="replace"))
        self.assertEqual((done.code, done.end["verdict"]), (3, "unproven"), done)
        self.assertRegex(done.end["reason"], "interrupted")

    def signals(self, pid, which):
        with open("/proc/%d/status" % pid) as f:
            return next(int(line.split()[1], 16) for line in f if line.startswith(which + ":"))

    def test_given_on(self):
        """By the new owner, at once: no server has lied."""
        top, done = self.faulty("CHGRP")
        self.assert_clean(done)
        self.assertEqual((done.end["blocked"], done.end["changed"]), (0, 3))
        self.assert_is(top + "/CHGRP", TO, OTHER_GID)

    def test_set_id_meanwhile(self):
        """By a process of the uid, after the look at it: the kernel leaves a set-gid bit that is not for programs."""
        top, done = self.faulty("SETGID")
        self.assert_clean(done)
        self.assert_is(top + "/SETGID", mode=0o644)

    def test_mode_of_others(self):
        """It is theirs, also if the group of the file changes: what they take from others just then stays taken."""
        top = self.dir(os.path.join(self.shared("tmpfs"), "job"))
        theirs = self.file(top + "/PRIVATE", OTHER, GID, 0o4755)
        self.assert_clean(run(top, env=FAULTY))
        self.assert_is(theirs, OTHER, TO_GID, 0o600)

    def test_lists_of_others(self):
        """Theirs as well: what is taken from somebody as the list is being changed is not given back by the one that was read."""
        top = self.dir(os.path.join(self.shared("tmpfs"), "job"))
        theirs = self.file(top + "/CLOSED", OTHER, OTHER_GID)
        os.setxattr(theirs, ACCESS, acl((USER_OBJ, 6), (USER, 7, UID), (USER, 7, TO), (GROUP_OBJ, 4), (MASK, 7), (REST, 4)))
        done = run(top, env=FAULTY)
        self.assert_clean(done)
        self.assertEqual(done.end["lists"], 1)
        self.assert_is(theirs, OTHER, OTHER_GID, 0o600)
        self.assertEqual(os.getxattr(theirs, ACCESS), acl((USER_OBJ, 6), (USER, 7, TO), (GROUP_OBJ, 4), (MASK, 0), (REST, 0)))

    def test_group_of_others(self):
        """He gives it to another group of his, behind the look at it: it is not the gid's any more."""
        top = self.dir(os.path.join(self.shared("tmpfs"), "job"))
        theirs = self.file(top + "/REGROUPED", OTHER, GID)
        done = run(top, env=FAULTY)
        self.assert_clean(done)
        self.assert_is(theirs, OTHER, OTHER_GID)

    def test_stale(self):
        """Once, as a server has forgotten a handle: the next round does it. Always: it is left, and that is said."""
        _, done = self.faulty("ESTALE+1")
        self.assert_clean(done)
        self.assertEqual((done.end["rounds"], done.end["vanished"], done.end["changed"]), (2, 1, 3))
        _, done = self.faulty("ESTALE")
        self.assertEqual((done.code, done.end["verdict"], done.end["rounds"]), (1, "dirty", 5), done)

    def test_snapshots(self):
        """Those of the file system are left out, by name; what is not of root is none of those."""
        top = self.dir(os.path.join(self.shared("tmpfs"), "job"))
        kept = self.file(self.dir(top + "/.snapshot", 0, 0, 0o777) + "/file")
        ours = self.file(self.dir(self.dir(top + "/below") + "/.snapshot", OTHER, OTHER_GID) + "/file")
        done = run(top, env=FAULTY)
        self.assert_clean(done)
        self.assertEqual((done.end["snapshots"], [e["path"] for e in done.of("exception") if e["class"] == "snapshot"]),
                         (1, [os.path.dirname(kept)]))
        self.assert_is(kept, UID, GID)
        self.assert_is(ours)

    def test_refused_again_and_again(self):
        """As by a server for which root is nobody: it stops after 64 in a row."""
        top = self.dir(os.path.join(self.shared("tmpfs"), "job"))
        for i in range(200):
            self.file("%s/EPERM-%d" % (top, i))
        done = run("--threads", "1", top, env=FAULTY)
        self.assertEqual((done.code, done.end["verdict"]), (1, "blocked"), done)
        self.assertEqual(done.end["exceptions"], {"blocked.refused": 64, "left": 201})
        self.assertEqual((done.end["blocked"], done.end["changed"]), (201, 0))
        self.assert_clean(run(top))


    def busy(self, **env):
        """A run over a tree of which one folder changes whenever somebody goes into it."""
        top = self.dir(os.path.join(self.shared("tmpfs"), "job"))
        self.dir(top + "/BUSY", TO, TO_GID, 0o777)
        self.file(self.dir(top + "/quiet") + "/file")
        done = run(top, env={**os.environ, **env, "LD_PRELOAD": " ".join(trees.BUILD + "/tests/lib/lib%s.so" % name for name in (
            "file_fault", "wall_step")[:2 if env else 1])})
        self.assertEqual((done.code, done.end["verdict"], done.end["proof"], done.end["rounds"]), (3, "unproven", "none", 5), done)
        self.assertRegex(done.end["reason"], "change all the time")
        self.assert_is(top + "/quiet/file")
        self.assert_clean(run(top))
        return done

    def test_folders_that_change_are_no_proof(self):
        self.assertEqual(self.busy().classes(), {"mutating": ["BUSY"] * 5})

    def ahead(self, seconds):
        """A run over a tree that is quiet, on a server whose clock is so far ahead of ours."""
        top = self.dir(os.path.join(self.shared("tmpfs"), "job"))
        ours = self.file(self.dir(top + "/below") + "/file")
        step = self.folder + "/step"
        with open(step, "wb") as f:
            f.write(struct.pack("<q", -seconds))
        done = run(top, env={**os.environ, "XCE_TEST_WALL_STEP": step, "LD_PRELOAD": trees.BUILD + "/tests/lib/libwall_step.so"})
        self.assert_is(ours)
        return done

    def test_a_clock_that_is_ahead(self):
        """A little: it waits, and proves. An hour: it says that it can not."""
        self.assert_clean(self.ahead(2))
        done = self.ahead(3600)
        self.assertEqual((done.code, done.end["verdict"], done.end["left"]), (3, "unproven", 0), done)
        self.assertRegex(done.end["reason"], "clock")

    def test_folders_that_change_in_the_same_second(self):
        """Where times are whole seconds, none tells of a change in the second of the one before it: that second is waited for."""
        top = self.dir(self.mount("ext4", options=WHOLE_SECONDS) + "/job")
        self.dir(top + "/BUSY+3", TO, TO_GID, 0o777)  # at each walk of one round
        done = run(top, env=FAULTY)
        self.assert_clean(done)
        self.assertEqual((done.end["rounds"], done.classes()), (2, {"mutating": ["BUSY+3"]}))

    def test_folders_that_change_by_another_clock(self):
        """A server's is an hour behind ours: its times differ all the same."""
        step = self.folder + "/step"
        with open(step, "wb") as f:
            f.write(struct.pack("<q", 3600))
        self.assertEqual(self.busy(XCE_TEST_WALL_STEP=step).classes(), {})


class Ends(trees.TreeTest):
    def job(self, n):
        top = self.dir(os.path.join(self.shared("tmpfs"), "job"))
        for i in range(n):
            folder = self.dir("%s/%d" % (top, i))
            for name in ("a", "b"):
                self.file(os.path.join(folder, name), mode=0o4755)
        return top, 3 * n + 1

    def all_given(self, top):
        for folder, dirs, files in os.walk(top):
            for name in [".", *dirs, *files]:
                self.assert_is(os.path.join(folder, name))
            for name in files:
                self.assert_is(os.path.join(folder, name), mode=0o755)

    def test_dry_run(self):
        top, n = self.job(10)
        before = {path: witness(path) for path in (os.path.join(d, f) for d, _, files in os.walk(top) for f in files)}
        done = run("--dry-run", top)
        self.assertEqual((done.code, done.end["verdict"], done.end["left"], done.end["changed"]), (1, "dirty", n, 0), done)
        self.assertGreater(done.end["estimate_ms"], 0)
        self.assertEqual({path: witness(path) for path in before}, before)
        self.assert_clean(run(top))
        self.assert_clean(run("--dry-run", top))

    def test_a_better_proof_than_there_is(self):
        top, _ = self.job(1)
        for level in ("inode-scan", "quota"):
            done = run("--proof", level, top)
            self.assertEqual((done.code, done.end["verdict"], done.end["proof"]), (3, "unproven", "double-collect"), done)

    def test_rate(self):
        top, n = self.job(20)
        done = run("--rate", "100", "--threads", "4", top)
        self.assert_clean(done)
        self.assertEqual(done.end["changed"], n)
        self.assertGreaterEqual(done.end["ms"], (n - 1) * 10)

    def test_rate_holds_up_no_end(self):
        """What waits for its turn is left."""
        top, n = self.job(20)
        process, _ = self.held("--rate", "1", top)
        os.kill(process.pid, signal.SIGTERM)
        done = trees.finish(process)
        self.assertEqual(done.code, 3, done)
        self.assertLess(done.end["changed"], n)

    def test_deadline(self):
        """Whoever makes work for it all the time does not keep it for ever."""
        top, n = self.job(20)
        done = run("--rate", "1", "--deadline", "1", top)
        self.assertEqual((done.code, done.end["verdict"]), (3, "unproven"), done)
        self.assertRegex(done.end["reason"], "--deadline")
        self.assertLess(done.end["changed"], n)
        self.assert_clean(run("--deadline", "600", top))

    def test_inode_scan(self):
        """What is in no tree, or has no name, no walk finds; the file system does."""
        fs = self.mount("xfs")
        top = self.dir(fs + "/job")
        hidden = self.file(fs + "/hidden")
        open_one = os.open(fs, os.O_TMPFILE | os.O_RDWR)
        try:
            os.fchown(open_one, OTHER, GID)
            for i in range(1200):  # more than one page of the list
                os.mknod("%s/%d" % (fs, i))
            done = run(top)
            self.assert_clean(done)
            self.assertIn("open ones", done.end["blind_to"])
            done = run("--proof", "inode-scan", top)
            self.assertEqual((done.code, done.end["verdict"], done.end["left"]), (1, "dirty", 2), done)
            self.assertFalse(any("path" in e for e in done.of("exception")))
            self.assertEqual({e["ino"] for e in done.of("exception")}, {os.stat(hidden).st_ino, os.fstat(open_one).st_ino})
        finally:
            os.close(open_one)
        os.chown(hidden, TO, TO_GID)
        done = run("--proof", "inode-scan", top, self.dir(fs + "/job2"))
        self.assertEqual((done.code, done.end["verdict"], done.end["proof"]), (0, "clean", "inode-scan"), done)
        self.assertEqual(run("--proof", "inode-scan", top, self.dir(os.path.join(self.shared("tmpfs"), "job"))).code, 3)
        self.assertEqual(run("--proof", "quota", top).code, 3)

    def test_exceptions_are_capped(self):
        top, n = self.job(10)
        done = run("--dry-run", "--max-exceptions", "3", top)
        self.assertEqual((len(done.of("exception")), done.end["exceptions_untold"]), (3, n - 3))
        self.assertEqual(done.end["exceptions"], {"left": n})

    def test_report_that_nobody_takes(self):
        top, _ = self.job(1)
        with open("/dev/full", "wb") as full:
            process = trees.start(top, stdout=full)
        _, err = process.communicate(timeout=SOON)
        self.assertEqual(process.returncode, 4, err)
        self.assertIn(b"No space left", err)

    def test_mounted_meanwhile(self):
        """Over a folder with files of the uid, where it has no mount of its own: nobody has seen those."""
        top = self.dir(os.path.join(self.shared("tmpfs"), "job"))
        covered = self.dir(top + "/covered", OTHER, OTHER_GID)
        under = self.file(covered + "/file")
        process, _ = self.held(top, prefix=NO_MOUNT)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", covered], check=True)
        try:
            done = trees.finish(process)
        finally:
            subprocess.run(["umount", covered], check=True)
        self.assertEqual((done.code, done.end["verdict"], done.end["mounts"]), (3, "unproven", 0), done)
        self.assertEqual(done.classes(), {"mount": ["covered"]})
        self.assert_is(under, UID, GID)
        self.assert_clean(run(top, prefix=NO_MOUNT))
        self.assert_is(under)

    def held(self, *args, **kwargs):
        """One that waits for its first record to be taken: the process and where to take it."""
        take, give = os.pipe()
        os.set_blocking(give, False)
        try:
            while True:
                os.write(give, b" " * 4096)
        except BlockingIOError:
            os.set_blocking(give, True)
        process = trees.start(*args, stdout=give, **kwargs)
        os.close(give)
        self.addCleanup(process.stderr.close)
        process.stdout = os.fdopen(take, "rb")

        def status(key):
            with open("/proc/%d/status" % process.pid) as f:
                return next(line.split(":")[1].strip() for line in f if line.startswith(key + ":"))

        # SIGTERM is blocked just before the record.
        until(lambda: int(status("SigBlk"), 16) >> (signal.SIGTERM - 1) & 1 and status("State")[0] == "S", "it waits")
        return process, status

    def test_signals(self):
        """Interrupted it says so and is gone on with; SIGUSR1 has it say how far it is."""
        top, _ = self.job(100)
        process, _ = self.held(top)
        os.kill(process.pid, signal.SIGUSR1)
        os.kill(process.pid, signal.SIGTERM)
        done = trees.finish(process)
        self.assertEqual((done.code, done.end["verdict"]), (3, "unproven"), done)
        self.assertRegex(done.end["reason"], "interrupted")
        self.assertEqual(len(done.of("progress")), 1)
        self.assert_clean(run(top))
        self.all_given(top)

    def test_privilege_is_given_up(self):
        top, _ = self.job(1)
        process, status = self.held(top)
        needed = sum(1 << cap for cap in (0, 2, 3, 4))  # chown, dac_read_search, fowner, fsetid
        until(lambda: int(status("CapEff"), 16) == needed, "it has no more than it needs")
        self.assertEqual({key: int(status(key), 16) & ~needed for key in ("CapPrm", "CapInh", "CapBnd", "CapAmb")},
                         {"CapPrm": 0, "CapInh": 0, "CapBnd": 0, "CapAmb": 0})
        self.assertEqual(status("NoNewPrivs"), "1")
        self.assertEqual(trees.finish(process).code, 0)

    def test_killed_and_gone_on_with(self):
        """Whenever it is killed, what is done stays right, its top is the last, and the next run does the rest."""
        top, _ = self.job(2000 if trees.LONG else 300)
        began = time.monotonic()
        self.assertEqual(run("--dry-run", top).code, 1)
        took = time.monotonic() - began
        for i in range(100 if trees.LONG else 10):
            process = trees.start(top)
            time.sleep(took * (i % 10) / 10)
            os.kill(process.pid, signal.SIGKILL)
            done = trees.finish(process)
            if any(os.lstat(os.path.join(d, f)).st_uid == UID for d, _, files in os.walk(top) for f in files):
                self.assertEqual(os.lstat(top).st_uid, UID)
                self.assertNotEqual(done.code, 0)
            if i % 5 == 4:
                self.assert_clean(run(top))
                self.all_given(top)
                for folder, dirs, files in os.walk(top, topdown=False):
                    for name in [*files, "."]:
                        os.chown(os.path.join(folder, name), UID, GID)
                        os.chmod(os.path.join(folder, name), 0o4755 if name != "." else 0o755)

    def test_two_at_once(self):
        top, n = self.job(300)
        two = [trees.start(top) for _ in range(2)]
        done = [trees.finish(process) for process in two]
        for each in done:
            # One may see what the other one does as changes of the tree, all the time.
            self.assertIn(each.code, (0, 3), each)
        self.assert_clean(run(top))
        self.all_given(top)

    def test_removed_meanwhile(self):
        """What goes as it is looked at is no error; a verdict is about what is there."""
        top, _ = self.job(600)
        rm = subprocess.Popen(["sh", "-c", 'exec rm -rf -- "$0"/*', top])
        try:
            seen = []
            while rm.poll() is None or not seen:
                seen.append(run(top))
        finally:
            rm.wait(SOON)
        for done in seen:
            # Unproven: folders changed all the time.
            self.assertIn(done.code, (0, 3), done)
            self.assertEqual((done.end["blocked"], done.end["unknown"], done.end["left"]), (0, 0, 0), done)
        self.assert_clean(run(top))
        self.assertEqual(os.listdir(top), [])

    def test_help_and_version(self):
        for option, pattern in (("--help", "^xce-normalise --from"), ("--version", r"^xce-normalise \d")):
            done = subprocess.run([trees.PROGRAM, option], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertRegex(done.stdout, pattern)

    def test_on_a_terminal(self):
        """Lines for people; --json all the same."""
        top, _ = self.job(2)
        os.mknod(top + "/dev\nice", stat.S_IFCHR, os.makedev(1, 3))
        os.chown(top + "/dev\nice", UID, GID)

        def said(*args):
            return subprocess.run(["script", "-qec", "%s --from %s --to %s --map /nonexistent %s" % (
                trees.PROGRAM, trees.FROM_ARG, trees.TO_ARG, " ".join(args)), "/dev/null"], stdin=subprocess.DEVNULL,
                capture_output=True, text=True).stdout

        text = said(top)
        self.assertIn("blocked.device: %s/dev\\x0aice" % top, text)
        self.assertRegex(text, "(?m)^blocked: something could not be changed")
        self.assertTrue(re.search(r'^{"record": "start"', said("--json", top), re.M))


if __name__ == "__main__":
    trees.alone()
    if len(sys.argv) < 2:
        sys.exit("usage: test_normalise.py MAPTOOL [unittest arguments]")
    MAPTOOL = sys.argv.pop(1)
    unittest.main(verbosity=2)
