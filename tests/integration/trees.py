"""Trees to be normalised, on file systems of the test's own: mounted in a mount namespace that goes with the process.

A test begins with `trees.alone()`, which gives the process such a namespace, and needs root."""
import atexit
import ctypes
import fcntl
import json
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import unittest

BUILD = os.environ.get("XCE_BUILD", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build"))
PROGRAM = os.path.join(BUILD, "normalise/xce-normalise")
LONG = os.environ.get("XCE_TEST_LONG") == "1"
SANITIZED = bool(os.environ.get("XCE_TEST_SANITIZED"))

# Whose the files are, whom they go to, and a colleague.
UID, GID = 70001, 70002
TO, TO_GID = 70011, 70012
OTHER, OTHER_GID = 70021, 70022
FROM_ARG, TO_ARG = "%d:%d" % (UID, GID), "%d:%d" % (TO, TO_GID)

ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, REST = 1, 2, 4, 8, 0x10, 0x20
NOBODY = 0xffffffff

_shared, _kept = {}, []

libc = ctypes.CDLL(None, use_errno=True)


def alone():
    """Go on in a mount namespace of one's own."""
    if os.geteuid() != 0:
        print("skip: needs root")
        sys.exit(77)
    if "XCE_TREES" not in os.environ:
        os.environ["XCE_TREES"] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])


def acl(*entries):
    """The value of an access list: (tag, permissions[, id])."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e[:2], e[2] if len(e) > 2 else NOBODY) for e in entries)


def set_flags(path, flags):
    """+i, +a: chattr of e2fsprogs; False: this file system has none."""
    return subprocess.run(["chattr", flags, path], stderr=subprocess.DEVNULL).returncode == 0


def subvolume(parent, name):
    """Of btrfs: BTRFS_IOC_SUBVOL_CREATE, which needs no privilege."""
    fd = os.open(parent, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, 0x5000940e, bytearray(struct.pack("<q4088s", 0, os.fsencode(name))))
    finally:
        os.close(fd)
    return os.path.join(parent, name)


def exchange(one, other):
    """renameat2(RENAME_EXCHANGE)"""
    if libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


class Done:
    """How a run ended and what it said."""

    def __init__(self, code, out, err):
        self.code, self.err = code, err
        self.records = [json.loads(line) for line in out.splitlines()]

    def of(self, kind):
        return [r for r in self.records if r["record"] == kind]

    @property
    def end(self):
        return self.of("end")[0]

    def classes(self):
        """Of what was told of: class -> sorted last parts of paths."""
        told = {}
        for e in self.of("exception"):
            told.setdefault(e["class"], []).append(os.path.basename(e.get("path", "")))
        return {key: sorted(value) for key, value in told.items()}

    def __repr__(self):
        return "exit %d, %s %s" % (self.code, self.records[-20:], self.err)


def start(*args, prefix=(), from_=FROM_ARG, to=TO_ARG, **kwargs):
    kwargs = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **kwargs}
    return subprocess.Popen([*prefix, PROGRAM, "--from", from_, "--to", to, "--map", "/nonexistent", *args], **kwargs)


def finish(process, timeout=120):
    """What it had to say, to its end."""
    out, err = process.communicate(timeout=timeout)
    return Done(process.returncode, out, err.decode(errors="replace"))


def run(*args, **kwargs):
    return finish(start(*args, **kwargs))


class TreeTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="xce-normalise.")
        self.addCleanup(shutil.rmtree, self.folder)

    def shared(self, kind):
        """A new folder on one of this kind that all tests share."""
        if kind not in _shared:
            top = _shared[kind] = self.mount(kind, keep=True)
            atexit.register(subprocess.run, ["umount", "-l", top], check=True)
        return tempfile.mkdtemp(dir=_shared[kind])

    def mount(self, kind, size="64M", keep=False, options=()):
        """A new one of this kind, or skip. keep: until the process ends. options: of its mkfs."""
        if keep and not _kept:
            _kept.append(tempfile.mkdtemp(prefix="xce-normalise."))
            atexit.register(shutil.rmtree, _kept[0])
        top = tempfile.mkdtemp(prefix=kind + ".", dir=_kept[0] if keep else self.folder)
        if kind in ("tmpfs", "ramfs"):
            subprocess.run(["mount", "-t", kind, "-o", "size=" + size, kind, top], check=True)
        elif kind == "overlay":
            below = self.shared("tmpfs") if keep else self.mount("tmpfs")
            for name in ("lower", "upper", "work"):
                os.mkdir(os.path.join(below, name))
            options = ",".join("%s=%s/%s" % (key, below, name) for key, name in
                               (("lowerdir", "lower"), ("upperdir", "upper"), ("workdir", "work")))
            subprocess.run(["mount", "-t", "overlay", "-o", options, "overlay", top], check=True)
        else:
            self.mount_image(kind, top, "320M" if kind in ("xfs", "btrfs") else size, *options)
        if not keep:
            self.addCleanup(subprocess.run, ["umount", "-l", top], check=True)
        return top

    def mount_image(self, kind, top, size, *options):
        image = top + ".image"
        if not shutil.which("mkfs." + kind):
            self.skipTest("mkfs.%s is missing" % kind)
        subprocess.run(["truncate", "-s", size, image], check=True)
        subprocess.run(["mkfs." + kind, "-q", *options, image], check=True)
        if subprocess.run(["mount", "-o", "loop", image, top], capture_output=True).returncode != 0:
            self.skipTest("no loop device with %s can be mounted here" % kind)

    # ---- what is in a tree ----

    def file(self, path, uid=UID, gid=GID, mode=0o644):
        with open(path, "wb") as f:
            f.write(b"text")
        os.chown(path, uid, gid)
        os.chmod(path, mode)
        return path

    def dir(self, path, uid=UID, gid=GID, mode=0o755):
        os.mkdir(path)
        os.chown(path, uid, gid)
        os.chmod(path, mode)
        return path

    def assert_is(self, path, uid=TO, gid=TO_GID, mode=None):
        st = os.lstat(path)
        self.assertEqual((st.st_uid, st.st_gid), (uid, gid), path)
        if mode is not None:
            self.assertEqual(oct(stat.S_IMODE(st.st_mode)), oct(mode), path)

    def assert_clean(self, done):
        self.assertEqual((done.code, done.end["verdict"], done.end["proof"]), (0, "clean", "double-collect"), done)
