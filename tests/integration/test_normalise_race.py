#!/usr/bin/python3
"""Whoever may write in the tree exchanges the job's files with a colleague's, all the time: xce-normalise changes none of those,
where `find -exec chown` does. And a folder with a symlink that leads out of it.

A colleague's files have set-id bits: any change of owner, be it to the same one, would take them. (Their times of change say
nothing: to be renamed counts as one.)"""
import mmap
import os
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import trees
from trees import OTHER, OTHER_GID, TO, TO_GID, UID, run

PAIRS = 200
SWAPS = 1000000 if trees.LONG else 20000
RUNS = 20 if trees.LONG else 5
SOON = 120


class Swapper:
    """A process of the new owner that exchanges each pair of names, again and again; how often is to be read."""

    def __init__(self, pairs):
        self.shared = mmap.mmap(-1, 16)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setgroups([])
                os.setresgid(TO_GID, TO_GID, TO_GID)
                os.setresuid(TO, TO, TO)
                n = 0
                while True:
                    for pair in pairs:
                        trees.exchange(*pair)
                        n += 1
                        struct.pack_into("Q", self.shared, 0, n)
            finally:
                os._exit(1)

    def count(self):
        return struct.unpack_from("Q", self.shared)[0]

    def alive(self):
        return os.waitpid(self.pid, os.WNOHANG) == (0, 0)

    def end(self):
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        self.shared.close()


class RaceTest(trees.TreeTest):
    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o755)
        self.fds = []
        self.addCleanup(lambda: [os.close(fd) for fd in self.fds])

    def held(self, path):
        """A way to an inode, whatever its name is."""
        self.fds.append(os.open(path, os.O_PATH | os.O_NOFOLLOW))
        return "/proc/self/fd/%d" % self.fds[-1]

    def make(self, kind):
        """Pairs in a folder that the new owner may write; a folder of the job beside a symlink to a colleague's."""
        self.fs = self.mount(kind)
        os.chmod(self.fs, 0o755)
        self.top = self.dir(self.fs + "/job", TO, TO_GID, 0o777)
        self.dir(self.top + "/side", TO, TO_GID, 0o777)
        self.pairs, self.ours, self.theirs = [], [], []
        for i in range(PAIRS):
            # Every other one from folder to folder: ahead of who looks, and behind.
            pair = "%s/a%d" % (self.top, i), "%s/%sb%d" % (self.top, "side/" if i % 2 else "", i)
            self.ours.append(self.held(self.file(pair[0])))
            self.theirs.append(self.held(self.file(pair[1], OTHER, OTHER_GID, 0o6755)))
            self.pairs.append(pair)
        outside = self.dir(self.fs + "/outside", OTHER, OTHER_GID)
        folder = self.dir(self.top + "/folder", mode=0o777)
        # Of the job, too, but in no tree that was named.
        self.escaped = self.held(self.file(outside + "/f0", mode=0o6755))
        for i in range(1, 20):
            self.ours.append(self.held(self.file("%s/f%d" % (folder, i))))
            self.theirs.append(self.held(self.file("%s/f%d" % (outside, i), OTHER, OTHER_GID, 0o6755)))
        os.symlink(outside, self.top + "/link")
        self.pairs.append((folder, self.top + "/link"))

    def stolen(self):
        wrong = []
        for path in self.theirs:
            st = os.stat(path)
            if (st.st_uid, st.st_gid, st.st_mode & 0o7777) != (OTHER, OTHER_GID, 0o6755):
                wrong.append((st.st_uid, st.st_gid, oct(st.st_mode)))
        return wrong

    def test_nothing_of_a_colleague_is_changed(self):
        for kind in ("ext4", "tmpfs"):
            with self.subTest(fs=kind):
                self.make(kind)
                swapper = Swapper(self.pairs)
                runs, verdicts, end = 0, [], time.monotonic() + (3600 if trees.LONG else SOON)
                try:
                    while runs < RUNS or swapper.count() < SWAPS:
                        done = run(self.top)
                        verdicts.append(done.end["verdict"])
                        runs += 1
                        self.assertEqual(self.stolen(), [])
                        # Those files stay in the tree all the time.
                        if done.code == 0:
                            self.assertEqual({os.stat(path).st_uid for path in self.ours}, {TO})
                        st = os.stat(self.escaped)
                        self.assertEqual((st.st_uid, st.st_mode & 0o7777), (UID, 0o6755))
                        self.assertTrue(swapper.alive())
                        self.assertLess(time.monotonic(), end, (runs, swapper.count()))
                        for path in self.ours:
                            os.chown(path, UID, trees.GID)
                finally:
                    swapper.end()
                for path in self.ours:
                    os.chown(path, UID, trees.GID)
                self.assert_clean(run(self.top))
                self.assertEqual({os.stat(path).st_uid for path in self.ours}, {TO})
                self.assertEqual(self.stolen(), [])

    def test_find_gives_away_what_is_exchanged_in_time(self):
        """The harness sees it when it happens: names are found, exchanged, then used."""
        self.make("tmpfs")
        found, exchanged = self.folder + "/found", self.folder + "/exchanged"
        script = 'touch "$0"; while [ ! -e "$1" ]; do sleep 0.01; done; shift; exec chown -h %d:%d -- "$@"' % (TO, TO_GID)
        find = subprocess.Popen(["find", self.top, "-uid", str(UID), "-exec", "sh", "-c", script, found, exchanged, "{}", "+"])
        end = time.monotonic() + SOON
        try:
            while not os.path.exists(found):
                self.assertLess(time.monotonic(), end)
                time.sleep(0.01)
            for pair in self.pairs[:PAIRS]:
                trees.exchange(*pair)
        finally:
            with open(exchanged, "w"):
                pass
            self.assertEqual(find.wait(SOON), 0)
        self.assertEqual(len(self.stolen()), PAIRS)


if __name__ == "__main__":
    trees.alone()
    unittest.main(verbosity=2)
