#!/usr/bin/python3
"""pam_xce.so as it is installed, loaded by the real libpam, with service files in a folder of the test's own, and a /run,
passwd and nsswitch.conf that only the test sees. Who comes in is tested by tables in tests/unit/pam; this is what PAM makes of
it, and every kind of map that is none.

usage: test_pam.py MODULE NSS-MODULE MAPTOOL DOOR LIBDIR PACKAGING [unittest arguments]
"""
import os
import re
import shutil
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), '..', 'nss'))
from stage import BASE, MAP, NAME, Stage, Writer, enter, run  # noqa: E402

SUCCESS, PERM_DENIED, AUTH_ERR, CRED_ERR, AUTHTOK_ERR, MODULE_UNKNOWN, INCOMPLETE = 0, 6, 7, 17, 20, 28, 31
ALIAS = 'foo2'
LAST = BASE + 65535
GRANTED, ACTIVE, DRAINING = 1, 2, 3
MEMBER, CLOSED, READY = 1, 2, 4
FACILITIES = ('auth', 'account', 'password', 'session')
STEPS = ('authenticate', 'establish', 'account', 'password', 'open')
# No SESSION_ERR: sudo takes that for a session that one can do without.
REFUSED = [AUTH_ERR, CRED_ERR, PERM_DENIED, AUTHTOK_ERR, PERM_DENIED]
# What libpam makes of a stack in which all modules say that it is not their business.
NOBODY = [PERM_DENIED] * 5
LET_IN = [SUCCESS] * 5


def number_in_base(n):
    digits = ''
    while n:
        digits = '0123456789abcdefghjkmnpqrstvwxyz'[n % 32] + digits
        n //= 32
    return digits


class Pam(unittest.TestCase):
    def setUp(self):
        self.conf = os.path.join(STAGE.dir, 'pam.d')
        os.mkdir(self.conf)
        self.addCleanup(shutil.rmtree, self.conf)
        self.writer = Writer(TOOL)
        self.addCleanup(self.clean)
        self.writer.do('shape', BASE, LAST)
        self.writer.do('synced', 1)
        self.writer.do('beat', 0)
        self.lease()
        self.service('other', [f'{f} required pam_deny.so' for f in FACILITIES])
        # As the others are, when ours has nothing to say.
        self.service('open', self.stack('required') + [f'{f} required pam_permit.so' for f in FACILITIES])
        with open(f'{PACKAGING}/pam.d/xce') as f:
            self.service('xce', f.read().replace('pam_xce.so', MODULE).splitlines())

    def clean(self):
        if self.writer:
            self.writer.close()
        os.chmod('/run/xce', 0o755)
        for name in os.listdir('/run/xce'):
            os.unlink('/run/xce/' + name)

    def lease(self, uid=BASE, epoch=1, state=ACTIVE, flags=MEMBER | READY):
        self.writer.do('lease', uid, epoch, state, flags)

    def service(self, name, lines):
        with open(os.path.join(self.conf, name), 'w') as f:
            f.write('\n'.join(lines) + '\n')

    @staticmethod
    def stack(control, *arguments, module=None):
        return [' '.join([f, control, module or MODULE, *arguments]) for f in FACILITIES]

    def door(self, service, user, *steps):
        done = run(DOOR, self.conf, service, user, *steps)
        self.assertEqual(done.returncode, 0, f'{service} {user} {steps}: {done.stdout}{done.stderr}')
        return done.stdout

    def codes(self, service, user, *steps):
        """What PAM says to each step."""
        said = self.door(service, user, *(steps or STEPS))
        return [int(line.split()[1]) for line in said.splitlines() if re.fullmatch(r'[a-z]+ \d+', line)]

    def refused(self, user=NAME):
        """Nobody comes in as that user, and root and others do."""
        for service in ('xce', 'open'):
            self.assertEqual(self.codes(service, user), REFUSED, (service, user))
        for other in ('root', 'daemon', 'alice', 'nosuch'):
            self.assertEqual(self.codes('open', other), LET_IN, other)
            self.assertEqual(self.codes('xce', other), NOBODY, other)

    # ---- a lease ----

    def test_its_job_comes_in(self):
        """All that is needed to run it is let through; that somebody is it, on his word alone, is not."""
        self.assertEqual(self.codes('xce', NAME, 'account', 'establish', 'open', 'delete', 'close'), [SUCCESS] * 5)
        self.assertEqual(self.codes('xce', NAME, 'authenticate', 'password'), [PERM_DENIED] * 2)

    def test_session_knows_its_lease(self):
        self.lease(BASE + 77, 4711)
        name = f'xce-{number_in_base(BASE + 77)}-{number_in_base(4711)}'
        said = self.door('xce', name, 'account', 'env', 'open', 'env')
        uid = BASE + 77
        self.assertEqual(said.split('\n'), ['account 0', 'open 0', f'XCE_LEASE={uid << 16 | 4711}', f'XCE_UID={uid}', f'XCE_GID={uid}',
                                            'XCE_EPOCH=4711', f'XCE_NAME={name}', ''])

    def test_nobody_comes_in_under_a_dead_noded(self):
        self.writer.do('beat', 55000)
        self.assertEqual(self.codes('xce', NAME, 'account', 'open'), [SUCCESS] * 2)
        self.writer.do('beat', 61000)
        self.refused()

    def test_every_other_service_refuses_it(self):
        self.assertEqual(self.codes('open', NAME), REFUSED)
        self.assertEqual(self.door('open', NAME, 'open', 'env').count('XCE_'), 0)

    def test_user_is_told_once_and_the_same(self):
        """But not while he is only trying names."""
        told = {user: self.door('open', user, 'account') for user in (NAME, 'xce-1w00000-2', 'xce-1w00001-1', str(BASE))}
        self.assertEqual(len(set(told.values())), 1, told)
        self.assertIn("message This user is a lease's", told[NAME])
        self.assertNotIn('message', self.door('open', NAME, 'authenticate', 'establish'))

    def test_service_of_the_list(self):
        self.service('sshd', self.stack('required', 'services=xce,sshd'))
        self.service('sshd2', self.stack('required', 'services=xce,sshd'))
        self.assertEqual(self.codes('sshd', NAME, 'account', 'open'), [SUCCESS] * 2)
        self.assertEqual(self.codes('sshd2', NAME, 'account', 'open'), [PERM_DENIED, PERM_DENIED])

    def test_argument_that_is_no_argument_changes_nothing(self):
        self.service('xce', self.stack('required', 'service=login', 'debug', 'ranges=x'))
        self.service('login', self.stack('required', 'service=login', 'debug', 'ranges=x'))
        self.assertEqual(self.codes('xce', NAME, 'account'), [SUCCESS])
        self.assertEqual(self.codes('login', NAME, 'account'), [PERM_DENIED])
        self.assertEqual(self.codes('login', 'root', 'account'), [PERM_DENIED])

    def test_not_here_or_not_ready(self):
        for state, flags in ((GRANTED, MEMBER), (ACTIVE, MEMBER), (ACTIVE, 0), (ACTIVE, READY), (DRAINING, MEMBER | READY),
                             (ACTIVE, MEMBER | READY | CLOSED)):
            with self.subTest(state=state, flags=flags):
                self.writer.do('retire', BASE, 1)
                self.lease(BASE + 1, 1, state, flags)
                self.refused('xce-1w00001-1')
                self.writer.do('retire', BASE + 1, 1)
                self.writer.close()
                self.clean()
                self.writer = Writer(TOOL)
                self.writer.do('shape', BASE, LAST)
                self.writer.do('synced', 1)

    def test_its_end_needs_no_lease(self):
        """The lease is over by then, and who ends the session is the leased uid itself."""
        said = self.door('xce', NAME, 'open', f'as={BASE}', 'delete', 'close')
        self.assertEqual(said, 'open 0\ndelete 0\nclose 0\n')
        process = f'user={NAME}'  # a session that was never opened is nobody's business
        self.assertEqual(self.codes('open', 'root', process, 'close', 'delete'), [SUCCESS] * 2)
        self.assertEqual(self.codes('xce', NAME, 'close'), [PERM_DENIED])

    def test_retired_and_next_epoch(self):
        self.writer.do('retire', BASE, 1)
        self.refused()
        self.lease(epoch=2)
        self.refused()
        self.assertEqual(self.codes('xce', 'xce-1w00000-2', 'account', 'open'), [SUCCESS] * 2)

    # ---- who is meant ----

    def test_other_names_of_the_uid(self):
        for user in (ALIAS, str(BASE), str(LAST), '0x78000000', 'XCE-1W00000-1', 'xce-01w00000-1', 'xce-1wooo00-1', 'xce-1w00000-2',
                     'xce-1w00001-1'):
            with self.subTest(user):
                self.refused(user)

    def test_account_that_took_a_leases_name(self):
        with STAGE.passwd(f'{NAME}:x:1000:1000::/:/bin/sh\n'):
            self.refused()

    def test_sudo_asks_for_another_user_in_the_session(self):
        self.assertEqual(self.codes('open', 'root', 'account', f'user={NAME}', 'open'), [SUCCESS, PERM_DENIED])
        self.assertEqual(self.codes('open', NAME, 'account', 'user=root', 'open'), [PERM_DENIED, SUCCESS])

    def test_no_user_is_nobody(self):
        self.assertEqual(self.codes('open', 'root', 'user=-', 'establish', 'account', 'open'), [CRED_ERR, PERM_DENIED, PERM_DENIED])

    def test_user_who_is_not_known_yet_is_asked_for_again(self):
        """An application that lives by events has no answer yet: it is told to come again, and does."""
        self.service('ours', self.stack('[success=ok ignore=ignore default=die]') + [f'{f} required pam_permit.so' for f in FACILITIES])
        stacks = ['ours', 'open', *self.stacks(MODULE)]
        for service in stacks:
            for user, then in (('root', SUCCESS), (NAME, AUTH_ERR)):
                steps = ('user=-', f'say={user}', 'later', 'authenticate', 'authenticate')
                self.assertEqual(self.codes(service, 'root', *steps), [INCOMPLETE, then], (service, user))

    # ---- without a map ----

    def test_map_missing(self):
        self.writer.close()
        os.unlink(MAP)
        for user in (NAME, ALIAS, str(BASE), 'xce-4e20-1', 'XCE-1w00000-1'):
            with self.subTest(user):
                self.refused(user)
        os.unlink(MAP + '.lock')
        os.rmdir('/run/xce')
        try:
            self.refused()
        finally:
            os.mkdir('/run/xce')

    def damaged(self, *changes):
        """Each change of a map that is otherwise good, with a look before."""
        self.writer.close()
        with open(MAP, 'rb') as f:
            good = f.read()
        for what, change in changes:
            with self.subTest(what):
                self.assertEqual(self.codes('xce', NAME, 'account', 'open'), [SUCCESS] * 2, 'the good map')
                change()
                self.refused()
                self.refused(ALIAS)
                for name in (MAP, MAP + '.elsewhere'):
                    if os.path.lexists(name):
                        shutil.rmtree(name) if os.path.isdir(name) else os.unlink(name)
                with open(MAP, 'wb') as f:
                    f.write(good)
                os.chmod(MAP, 0o644)

    def poke(self, offset, data):
        def change():
            with open(MAP, 'r+b') as f:
                f.seek(offset)
                f.write(data)
        return change

    @staticmethod
    def become(make):
        def change():
            os.rename(MAP, MAP + '.elsewhere')
            make(MAP)
        return change

    def test_map_not_to_be_trusted(self):
        self.damaged(('group may write', lambda: os.chmod(MAP, 0o664)),
                     ('others may write', lambda: os.chmod(MAP, 0o646)),
                     ('not root', lambda: os.chown(MAP, 1000, 0)),
                     ('a symbolic link', self.become(lambda path: os.symlink(MAP + '.elsewhere', path))),
                     ('a fifo', self.become(os.mkfifo)),
                     ('a folder', self.become(os.mkdir)))

    def test_map_damaged(self):
        size = os.stat(MAP).st_size
        self.damaged(('empty', lambda: os.truncate(MAP, 0)),
                     ('short', lambda: os.truncate(MAP, 4096)),
                     ('a byte short', lambda: os.truncate(MAP, size - 1)),
                     ('a byte long', lambda: os.truncate(MAP, size + 1)),
                     ('magic', self.poke(0, b'\0')),
                     ('version', self.poke(8, b'\x09\0\x09\0')),
                     ('header', self.poke(100, b'x')),
                     ('superseded', self.poke(64, b'\x02')),
                     ('no state', self.poke(64, b'\x07')))

    def test_record_damaged(self):
        with open(MAP, 'rb') as f:
            at = f.read().index(NAME.encode(), 4096) - 48  # behind the header, which has one as well
        self.damaged(('flags', self.poke(at + 33, b'\x0d')), ('uid', self.poke(at + 8, b'\x01')), ('check', self.poke(at + 120, b'\0\0')))

    def test_map_unreadable(self):
        os.chmod(MAP, 0o600)
        for user, code in ((NAME, PERM_DENIED), (ALIAS, PERM_DENIED), ('root', SUCCESS), ('alice', SUCCESS)):
            self.assertEqual(self.codes('open', user, 'as=1000', 'open'), [code], user)
            self.assertEqual(self.codes('xce', user, 'as=1000', 'open'), [code or PERM_DENIED], user)

    # ---- the stacks that are shipped ----

    def profile(self):
        """common-*, as pam-auth-update makes them of our profile and of pam_unix, with pam_permit for that."""
        with open(f'{PACKAGING}/pam-configs/xce') as f:
            text = f.read()
        self.assertEqual(re.findall(r'^Priority: (\d+)$', text, re.M), ['1000'])
        ours = {}
        for title, line in re.findall(r'^(Auth|Account|Session|Password):\n\t(.*)$', text, re.M):
            kind = re.search(fr'^{title}-Type: (\w+)$', text, re.M)[1]
            ours[title.lower()] = kind, line
        self.assertEqual(set(ours), set(FACILITIES))
        lines = []
        for facility, (kind, line) in ours.items():
            others = [f'{facility} [success=1 default=ignore] pam_permit.so', f'{facility} requisite pam_deny.so',
                      f'{facility} required pam_permit.so']
            mine = [f'{facility} {line}']
            lines += mine + others if kind == 'Primary' else others + mine
        return lines

    def authselect(self):
        with open(f'{PACKAGING}/authselect/pam_xce') as f:
            ours = [line.strip() for line in f if not line.startswith('#')]
        self.assertEqual([line.split()[0] for line in ours], list(FACILITIES))
        return ours + [f'{f} sufficient pam_permit.so' for f in FACILITIES] + [f'{f} required pam_deny.so' for f in FACILITIES]

    def stacks(self, module):
        for service, lines in (('debian', self.profile()), ('authselect', self.authselect())):
            self.assertEqual(sum('pam_xce.so' in line for line in lines), 4)
            self.service(service, [line.replace('pam_xce.so', module) for line in lines])
            yield service

    def test_shipped_stacks_refuse_leases_alone(self):
        for service in self.stacks(MODULE):
            for user in (NAME, ALIAS, 'xce-1w00000-2'):
                self.assertEqual(self.codes(service, user), REFUSED, (service, user))
            for user in ('root', 'daemon', 'alice'):
                self.assertEqual(self.codes(service, user), LET_IN, (service, user))

    def test_missing_module_locks_nobody_out(self):
        broken = os.path.join(STAGE.dir, 'broken.so')
        with open(broken, 'w') as f:
            f.write('no library')
        self.addCleanup(os.unlink, broken)
        for module in ('/nonexistent/pam_xce.so', broken):
            for service in self.stacks(module):
                for user in ('root', 'daemon', 'alice'):
                    self.assertEqual(self.codes(service, user), LET_IN, (module, service, user))

    def test_missing_module_lets_nothing_run_under_a_lease(self):
        with open(f'{PACKAGING}/pam.d/xce') as f:
            self.service('xce', f.read().replace('pam_xce.so', '/nonexistent/pam_xce.so').splitlines())
        for user in (NAME, 'root'):
            self.assertEqual(self.codes('xce', user), [MODULE_UNKNOWN] * 5)

    # ---- a guest ----

    def files_opened(self, user):
        done = run('strace', '-f', '-e', 'trace=open,openat', DOOR, self.conf, 'open', user, *STEPS)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr.count(MAP)

    def test_users_that_no_pool_can_have_cost_no_look_at_the_map(self):
        if shutil.which('strace') is None:
            self.skipTest('strace is missing: run scripts/setup')
        STAGE.nsswitch('files')  # or the NSS module looks
        self.addCleanup(STAGE.nsswitch, 'files xce')
        for user in ('root', 'daemon', 'nobody', 'nosuch', 'xce-leased'):
            self.assertEqual(self.files_opened(user), 0, user)
        self.assertEqual(self.files_opened('alice'), len(STEPS) + 1, 'once a call; the password is asked for twice')

    def test_nothing_is_left_behind(self):
        for user in (NAME, 'root', 'alice', ALIAS, 'xce-1w00000-2'):
            self.assertEqual(self.door('xce', user, 'again=100').splitlines()[-1], 'left 0 0', user)

    def test_maps_are_replaced_meanwhile(self):
        """A new pool is a new file: the lease is let in all the while."""
        for i in range(60):
            if i % 3 == 0:
                self.writer.do('shape', BASE, LAST - i)
            self.assertEqual(self.codes('xce', NAME, 'account', 'open'), [SUCCESS] * 2)

    def test_symbols(self):
        shows = {line.split()[-1] for line in run('nm', '-D', '--defined-only', MODULE).stdout.splitlines()}
        self.assertEqual(shows, {'pam_sm_' + n for n in ('authenticate', 'setcred', 'acct_mgmt', 'open_session', 'close_session',
                                                         'chauthtok')})
        needs = {line.split()[-1].split('@')[0] for line in run('nm', '-D', '--undefined-only', MODULE).stdout.splitlines()}
        self.assertLessEqual(needs, {
            'pam_get_data', 'pam_get_item', 'pam_get_user', 'pam_modutil_getpwnam', 'pam_prompt', 'pam_putenv', 'pam_set_data',
            'pam_syslog', '__errno_location', '__stack_chk_fail', 'close', 'open', 'open64', 'fstat', 'fstat64', 'lstat', 'lstat64',
            'mmap', 'mmap64', 'munmap', 'memcmp', 'memcpy', '__memcpy_chk', 'strchr', 'strcmp', 'strcspn', 'strlen', 'strncmp',
            'strnlen', 'clock_gettime', '__cxa_finalize', '__gmon_start__', '_ITM_deregisterTMCloneTable', '_ITM_registerTMCloneTable'})
        text = run('readelf', '-ldW', MODULE).stdout
        self.assertNotIn('TLS', text)
        self.assertEqual(set(re.findall(r'NEEDED.*\[(.*)\]', text)), {'libpam.so.0', 'libc.so.6'})
        self.assertNotRegex(text, r'RPATH|RUNPATH|TEXTREL')
        self.assertRegex(text, 'GNU_RELRO')
        self.assertRegex(text, r'GNU_STACK.* RW ')


if __name__ == '__main__':
    if len(sys.argv) < 7:
        sys.exit(__doc__)
    enter()
    MODULE, NSS, TOOL, DOOR, LIBDIR, PACKAGING = map(os.path.abspath, sys.argv[1:7])
    STAGE = Stage(NSS, LIBDIR)
    try:
        STAGE.accounts(f'alice:x:1000:1000::/:/bin/sh\nxce-leased:x:990:990::/:/bin/sh\n{ALIAS}:x:{BASE + 9}:100::/:/bin/sh\n')
        program = unittest.main(argv=[sys.argv[0]] + sys.argv[7:], exit=False)
    finally:
        STAGE.close()
    sys.exit(not program.result.wasSuccessful())
