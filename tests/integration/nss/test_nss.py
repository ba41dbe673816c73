#!/usr/bin/python3
"""libnss_xce.so.2 as it is installed, behind glibc, in a mount name space with a /run, nsswitch.conf and library folder of
its own: the machine sees nothing of it. Tests are named after the ways in which such modules have failed (docs/map.md).

usage: test_nss.py MODULE MAPTOOL PROBE PROBE-STATIC LIBDIR [unittest arguments]
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from stage import BASE, MAP, NAME, Stage, Writer, enter, run  # noqa: E402

class Nss(unittest.TestCase):
    def setUp(self):
        STAGE.nsswitch('files xce')
        self.writer = Writer(TOOL)
        self.addCleanup(self.clean)
        self.writer.do('shape', BASE, BASE + 65535)
        self.writer.do('set', BASE, 1, 4001, 4002, 4003)

    def clean(self):
        if self.writer:
            self.writer.close()
        os.chmod('/run/xce', 0o755)
        for name in os.listdir('/run/xce'):
            os.unlink('/run/xce/' + name)

    def good(self, *args, **kw):
        done = run(*args, **kw)
        self.assertEqual(done.returncode, 0, f'{args}: {done.stdout}{done.stderr}')
        return done.stdout

    def quick(self, seconds, *args, code=0):
        """If not the first time then one of ten: a machine that is busy with other tests is late now and then, and what waits is so
        each time."""
        took = []
        while not took or took[-1] >= seconds:
            self.assertLess(len(took), 10, f'{args}: {took}')
            began = time.monotonic()
            done = run(*args)
            took.append(time.monotonic() - began)
            self.assertEqual(done.returncode, code, f'{args}: {done.stdout}{done.stderr}')
        return done.stdout

    # ---- what users see ----

    def test_all_ways_to_a_lease_agree(self):
        line = f'{NAME}:x:{BASE}:{BASE}:xce lease:/nonexistent:/usr/sbin/nologin\n'
        self.assertEqual(self.good('getent', 'passwd', BASE), line)
        self.assertEqual(self.good('getent', 'passwd', NAME), line)
        self.assertEqual(self.good('getent', 'group', BASE), f'{NAME}:x:{BASE}:\n')
        self.assertEqual(self.good('getent', 'group', NAME), f'{NAME}:x:{BASE}:\n')
        self.assertEqual(self.good('id', NAME),
                         f'uid={BASE}({NAME}) gid={BASE}({NAME}) groups={BASE}({NAME}),4001,4002,4003\n')
        self.assertEqual(self.good('setpriv', f'--reuid={BASE}', f'--regid={BASE}', '--clear-groups', 'whoami'), NAME + '\n')
        for what in (BASE + 1, 'xce-1w00000-2', 'xce-1w00001-1', 'nosuch'):
            self.assertEqual(run('getent', 'passwd', what).returncode, 2)
            self.assertEqual(run('getent', 'group', what).returncode, 2)

    def test_files_of_a_lease_are_shown_with_its_name(self):
        path = os.path.join(STAGE.dir, 'file')
        open(path, 'w').close()
        os.chown(path, BASE, BASE)
        self.assertEqual(self.good('stat', '-c', '%U %G', path), f'{NAME} {NAME}\n')
        self.writer.do('retire', BASE, 1)
        self.assertEqual(self.good('stat', '-c', '%U %G', path), 'UNKNOWN UNKNOWN\n')

    def test_f38_old_name_is_gone_in_each_state(self):
        self.writer.do('retire', BASE, 1)
        self.assertEqual(run('getent', 'passwd', NAME).returncode, 2)
        self.writer.do('set', BASE, 2)
        self.assertEqual(run('getent', 'passwd', NAME).returncode, 2)
        self.assertIn('xce-1w00000-2:', self.good('getent', 'passwd', BASE))

    def test_f16_f17_enumeration_is_complete_and_ends(self):
        self.writer.do('fill', BASE, 3000)
        self.assertEqual(self.good(PROBE, 'enumerate'), '3000 3000\n')
        uids = [int(line.split(':')[2]) for line in self.good('getent', 'passwd').splitlines() if line.startswith('xce-')]
        self.assertEqual(uids, list(range(BASE, BASE + 3000)))

    # ---- nobody there ----

    def test_f1_stopped_writer_changes_nothing(self):
        self.writer.process.send_signal(signal.SIGSTOP)
        self.quick(0.3, 'getent', 'passwd', BASE)
        self.quick(0.3, 'getent', 'passwd', 'nosuch', code=2)
        self.quick(0.3, 'getent', 'passwd', BASE + 1, code=2)
        self.quick(0.3, 'id', NAME)

    def test_f24_no_map_is_no_error(self):
        self.clean()
        self.quick(0.3, 'getent', 'passwd', 'nosuch', code=2)
        self.quick(0.3, 'getent', 'passwd', BASE, code=2)
        self.good(PROBE, 'absent')
        self.good('id', 'root')
        os.rmdir('/run/xce')
        self.addCleanup(os.mkdir, '/run/xce', 0o755)
        self.good(PROBE, 'absent')
        self.assertEqual(run('getent', 'passwd', NAME).returncode, 2)

    def test_f24_with_a_map_it_is_none_either(self):
        self.good(PROBE, 'absent')

    def test_map_that_comes_late_is_found(self):
        self.clean()
        self.writer = None
        process = subprocess.Popen([PROBE, 'late', str(BASE), NAME], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.assertEqual(process.stdout.readline(), 'waiting\n')
        self.writer = Writer(TOOL)
        self.writer.do('shape', BASE, BASE + 9)
        self.writer.do('set', BASE, 1)
        process.stdin.write('go\n')
        process.stdin.close()
        self.assertEqual(process.wait(10), 0)

    def test_f46_writer_that_was_killed_leaves_the_map(self):
        self.writer.process.kill()
        self.writer.process.wait()
        self.good(PROBE, 'both', BASE, NAME)
        self.writer.close()
        self.writer = Writer(TOOL)
        self.assertEqual(self.writer.began, 'taken')
        self.good(PROBE, 'both', BASE, NAME)

    # ---- the host process ----

    def test_f10_no_descriptor_is_passed_on(self):
        self.assertEqual(self.good(PROBE, 'exec', stdin=subprocess.DEVNULL, close_fds=True).split(), ['0', '1', '2', '3'])

    def test_f25_static_program(self):
        self.good(STATIC, 'both', BASE, NAME)
        self.good(STATIC, 'absent')

    def test_f26_sandbox_that_forbids_everything(self):
        self.good(PROBE, 'sandboxed', MODULE, BASE, 'warm')
        self.good(PROBE, 'sandboxed', MODULE, BASE, 'cold')

    def test_f18_f19_others_cost_no_system_call(self):
        self.good(PROBE, 'no-system-call', MODULE, BASE)

    def test_f27_folder_that_cannot_be_entered(self):
        os.chmod('/run/xce', 0o700)
        as_user = ['setpriv', '--reuid=1000', '--regid=1000', '--clear-groups']
        self.assertEqual(run(*as_user, 'getent', 'passwd', BASE).returncode, 2)
        self.good(*as_user, PROBE, 'absent')
        os.chmod('/run/xce', 0o755)
        self.good(*as_user, PROBE, 'both', BASE, NAME)

    def test_f27_landlocked_away(self):
        """As InaccessiblePaths= does it: something else is mounted there."""
        done = run('unshare', '--mount', 'sh', '-c', f'mount -t tmpfs -o mode=000 none /run/xce && {PROBE} both {BASE} -')
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_f31_allocator_that_breaks(self):
        self.good(PROBE, 'broken-malloc', BASE, NAME)

    def test_f41_set_uid_program_heeds_no_environment(self):
        probe = os.path.join('/run', 'probe-setuid')
        shutil.copy(PROBE, probe)
        self.addCleanup(os.unlink, probe)
        os.chmod(probe, 0o4755)
        forged = os.path.join('/run', 'forged')
        process = subprocess.run([TOOL, forged], input=f'shape {BASE} {BASE + 9}\nset {BASE + 1} 7\n', text=True,
                                 stdout=subprocess.PIPE)
        self.addCleanup(os.unlink, forged)
        self.addCleanup(os.unlink, forged + '.lock')
        self.assertEqual(process.stdout, 'new\nok\nok\n')
        env = dict(os.environ)
        for name in ('XCE_MAP', 'XCE_MAP_PATH', 'XCE_UIDMAP', 'XCE_NSS_MAP', 'XCE_RUN', 'XCE_SERVER', 'UIDMAP', 'HOME', 'TMPDIR'):
            env[name] = forged
        env.update(LD_LIBRARY_PATH='/run', NSS_PATH='/run', GCONV_PATH='/run')
        as_user = ['setpriv', '--reuid=1000', '--regid=1000', '--clear-groups', probe]
        self.good(*as_user, 'both', BASE, NAME, env=env)
        self.good(*as_user, 'both', BASE + 1, '-', env=env)
        with open(MODULE, 'rb') as f:
            self.assertNotIn(b'getenv', f.read())

    def test_after_chroot_it_goes_on(self):
        self.good(PROBE, 'chroot', BASE, NAME, STAGE.dir)

    def test_no_descriptors_left(self):
        self.good(PROBE, 'no-descriptors', BASE, NAME)

    def test_no_addresses_left(self):
        self.good(PROBE, 'no-addresses', MODULE, BASE)

    def test_loaded_again_and_again(self):
        self.good(PROBE, 'reloaded', MODULE, BASE)

    def test_user_name_space_without_root(self):
        """The map belongs to nobody there: not to be trusted, and no harm."""
        done = run('setpriv', '--reuid=1000', '--regid=1000', '--clear-groups', 'unshare', '--user', PROBE, 'both', BASE, '-')
        if done.returncode != 0 and 'unshare' in done.stderr:
            self.skipTest('no user name spaces: ' + done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stderr)

    # ---- the chain ----

    def test_f4_merged_groups_do_not_wait(self):
        STAGE.nsswitch('files xce', 'group: files xce [SUCCESS=merge] systemd\n')
        self.assertEqual(self.quick(0.3, 'getent', 'group', NAME), f'{NAME}:x:{BASE}:\n')
        self.assertEqual(self.quick(0.3, 'getent', 'group', BASE), f'{NAME}:x:{BASE}:\n')
        self.quick(0.3, 'getent', 'group', 'nosuch', code=2)

    def test_f33_initgroups_of_others_costs_nothing(self):
        self.writer.do('fill', BASE, 65536)
        took = {}
        for services in ('files', 'files xce'):
            STAGE.nsswitch(services)
            took[services] = min(float(run(PROBE, 'groups', 'root', 0).stderr) for _ in range(20))
        self.assertLess(took['files xce'] - took['files'], 1000, took)

    def test_f34_initgroups_line_changes_nothing(self):
        groups = {}
        for extra in ('', 'initgroups: files xce\n', 'initgroups: xce files\n', 'initgroups: files [SUCCESS=continue] xce\n'):
            STAGE.nsswitch('files xce', extra)
            groups[extra] = self.good(PROBE, 'groups', NAME, BASE)
        self.assertEqual(set(groups.values()), {f'{BASE}\n4001\n4002\n4003\n'}, groups)

    def test_orders_of_the_chain(self):
        for services in ('xce', 'xce files', 'files xce', 'files xce systemd', 'xce [NOTFOUND=continue] files'):
            STAGE.nsswitch(services)
            self.good(PROBE, 'both', BASE, NAME)
            if services != 'xce':
                self.good('getent', 'passwd', 'root')
                self.assertEqual(self.good('id', '-u', 'nobody'), '65534\n')
            self.assertEqual(run('getent', 'passwd', BASE + 1).returncode, 2)

    def test_f37_name_is_a_user_name_to_systemd(self):
        if not shutil.which('systemd-analyze'):
            self.skipTest('no systemd-analyze')
        unit = os.path.join(STAGE.dir, 'probe.service')
        for name in (NAME, 'xce-1zzvzzz-3zzzzzz', 'a-1-1', 'abcdefghijklmno-1zzvzzz-3zzzzzz'):
            self.assertRegex(name, r'^[a-z][a-z0-9-]{0,30}$')
            with open(unit, 'w') as f:
                f.write(f'[Service]\nExecStart=/bin/true\nUser={name}\nGroup={name}\n')
            done = run('systemd-analyze', 'verify', '--man=no', unit)
            self.assertNotRegex(done.stderr, r'(?i)user|group', name)

    def test_f48_map_that_others_can_change_is_refused(self):
        def refused(why):
            self.assertEqual(run('getent', 'passwd', BASE).returncode, 2, why)

        os.chmod(MAP, 0o666)
        refused('mode')
        os.chmod(MAP, 0o644)
        os.chown(MAP, 1000, 0)
        refused('owner')
        os.chown(MAP, 0, 0)
        self.good(PROBE, 'both', BASE, NAME)
        os.rename(MAP, MAP + '.real')
        os.symlink(MAP + '.real', MAP)
        refused('symlink')
        os.unlink(MAP)
        os.mkfifo(MAP)
        self.quick(0.3, 'getent', 'passwd', BASE, code=2)

    def test_f13_short_file_is_refused(self):
        size = os.stat(MAP).st_size
        self.writer.close()
        for cut in (0, 1, 4095, 4096, size // 2, size - 4096, size - 1):
            os.truncate(MAP, cut)
            self.assertEqual(run('getent', 'passwd', BASE).returncode, 2, cut)
        self.writer = Writer(TOOL)
        self.assertEqual(self.writer.began, 'new')


class File(unittest.TestCase):
    """The module as a file: what it needs and what it shows."""

    def test_f25_f26_f31_symbols(self):
        done = run('nm', '-D', '--undefined-only', MODULE)
        needs = {line.split()[-1].split('@')[0] for line in done.stdout.splitlines()}
        allowed = {'__errno_location', '__stack_chk_fail', 'clock_gettime', 'time', 'close', 'open', 'open64', 'fstat',
                   'fstat64', 'lstat', 'lstat64', 'mmap', 'mmap64', 'munmap', 'memcmp', 'memcpy', 'strcmp', 'strnlen',
                   'pthread_setcancelstate', 'realloc', '__cxa_finalize', '__gmon_start__',
                   '_ITM_deregisterTMCloneTable', '_ITM_registerTMCloneTable'}
        self.assertLessEqual(needs, allowed)
        done = run('nm', '-D', '--defined-only', MODULE)
        shows = {line.split()[-1] for line in done.stdout.splitlines()}
        wanted = {'getpwuid_r', 'getpwnam_r', 'getgrgid_r', 'getgrnam_r', 'initgroups_dyn', 'setpwent', 'getpwent_r',
                  'endpwent', 'setgrent', 'getgrent_r', 'endgrent'}
        self.assertEqual(shows, {'_nss_xce_' + name for name in wanted})

    def test_f25_headers(self):
        text = run('readelf', '-ldW', MODULE).stdout
        self.assertNotIn('TLS', text)
        self.assertEqual(re.findall(r'NEEDED.*\[(.*)\]', text), ['libc.so.6'])
        self.assertEqual(re.findall(r'SONAME.*\[(.*)\]', text), ['libnss_xce.so.2'])
        self.assertRegex(text, 'NODELETE')
        self.assertRegex(text, 'BIND_NOW|NOW')
        self.assertNotRegex(text, r'RPATH|RUNPATH|TEXTREL')
        self.assertRegex(text, 'GNU_RELRO')
        self.assertRegex(text, r'GNU_STACK.* RW ')


if __name__ == '__main__':
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    enter()
    MODULE, TOOL, PROBE, STATIC, LIBDIR = map(os.path.abspath, sys.argv[1:6])
    STAGE = Stage(MODULE, LIBDIR)
    try:
        program = unittest.main(argv=[sys.argv[0]] + sys.argv[6:], exit=False)
    finally:
        STAGE.close()
    sys.exit(not program.result.wasSuccessful())
