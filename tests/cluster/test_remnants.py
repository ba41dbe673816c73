#!/usr/bin/python3
"""Each kind of remnant that a job can leave, planted for real on a booted machine: it is gone before its uid is clean, or the uid is
dirty with the reason, and never free with it there; and nothing of anybody else is touched.

Where each kind is shown (plants.py makes those of this file):

    own session, litter in all folders, IPC, keyrings, files without a name  test_life.GiveBack.test_everything_left_goes
    journal, entries in access lists, dumps in the coredump folder           test_life.GiveBack.test_next_holder_..., test_what_comes_...
    failed logins, what sudo remembers                                       test_life.GiveBack.test_everything_left_goes
    units that do not stop, that have failed                                 test_life.GiveBack.test_unit_that_refuses_..., test_failed_...
    an account of that number                                                test_life.GiveBack.test_unblocked_uid_...
    ids that root only lends to a thread: effective, file system, groups     tests/unit/noded/test_sweep_proc.c
    what is mounted meanwhile, hidden, deep, many, or changes as it is read  tests/unit/noded/test_sweep_*.c
    all others                                                               here: GOES, and DIRTY with the reason
"""
import concurrent.futures
import shutil
import time

import lib
import machines
from leases import FIRST, LeaseCase

GOES = ('threads', 'namespaces', 'user_namespace', 'traced', 'stopped', 'timers', 'user_manager', 'ipc_namespaces', 'names', 'core',
        'immutable', 'mounts')
# What waits for somebody, and the word for it.
DIRTY = {'served': 'process-unkillable', 'held_by_tracer': 'process-unkillable', 'kept_key': 'keyring', 'attached': 'ipc-shm',
         'group': 'group-member', 'immutable_folder': 'file-immutable', 'mount_of_the_uid': 'mount'}
PACKAGES = ('at', 'cron', 'cron-daemon-common')
INSTALL = r'''set -e
    for package; do
        tar -C "$package" -c . | tar -C / -x --numeric-owner --keep-directory-symlink
    done
    groupadd -r crontab 2>/dev/null || true
    mkdir -p /var/spool/cron/crontabs
    chown root:crontab /var/spool/cron/crontabs /usr/bin/crontab
    chmod 1730 /var/spool/cron/crontabs
    chmod 2755 /usr/bin/crontab
    chown -R daemon:daemon /var/spool/cron/atjobs /var/spool/cron/atspool
    echo 0 >/var/spool/cron/atjobs/.SEQ
    chown daemon:daemon /var/spool/cron/atjobs/.SEQ
    useradd -m alice'''
# Files, IPC and keys with an id from $1 to $2.
LOOK = r'''find /tmp /var/tmp /dev/shm /dev/mqueue /run /var/spool /var/mail /var/lib/systemd -printf '%U %p\n%G %p\n' |
        awk -v a="$1" -v b="$2" '$1 >= a && $1 <= b'
    awk -v a="$1" -v b="$2" '{for (i = 1; i <= NF; i++) if ($i >= a && $i <= b) print $i, "IPC"}' /proc/sysvipc/*
    awk -v a="$1" -v b="$2" '{sub(":", "", $1); split($3, n, "/"); if ($1 >= a && $1 <= b && n[1] > 0) print $1, "keys"}' /proc/key-users'''


class Plant:
    """A remnant of a lease, and what its planter says of it."""

    def __init__(self, test, kind, lease, number=0):
        self.test, self.kind, self.lease = test, kind, lease
        said = test.ok('n1', '/usr/bin/python3', '/shared/plants.py', kind, lease['uid'], lease['name'], number)
        self.said = [line.split(' ', 1) for line in said.splitlines()]

    def commands(self, what):
        return [command for word, command in self.said if word == what]

    def holding(self, what):
        """Those of its commands that are true now."""
        script = ''.join(f'if {command}; then echo {number}; fi 2>/dev/null\n' for number, command in enumerate(self.commands(what)))
        return [self.commands(what)[int(n)] for n in self.test.run_in('n1', 'sh', '-c', script).stdout.split()]

    def is_there(self):
        self.test.assertEqual(self.holding('while'), self.commands('while'), f'{self.kind}: it is planted')

    def is_gone(self):
        self.test.assertEqual(self.holding('while'), [], f'{self.kind}: it is gone')
        self.others_are_untouched()

    def others_are_untouched(self):
        self.test.assertEqual(self.holding('stays'), self.commands('stays'), f'{self.kind}: what is not the uid\'s is untouched')

    def cure(self):
        for command in self.commands('cure'):
            self.test.ok('n1', 'sh', '-c', command)


class Remnants(LeaseCase):
    cooldown = '1s'
    range = (FIRST, FIRST + 1023)

    @classmethod
    def setUpClass(cls):
        folders = [lib.unpacked(package) for package in PACKAGES]
        super().setUpClass()
        for file in (f'{machines.HERE}/plants.py', f'{machines.find_build(None)}/tests/cluster/bomb'):
            shutil.copy(file, f'{cls.cluster.disk}/shared/')
        done = cls.cluster.run('n1', 'sh', '-c', INSTALL, 'sh', *folders)
        assert done.returncode == 0, done.stderr

    def leases(self, kinds):
        """One for each, all of the same submitter."""
        taken = self.acquire('--owner', 'alice', '--ttl', 'none', '--count', len(kinds), job=f'plants-{self.next_number()}-%i')
        return dict(zip(kinds, taken['leases']))

    def plant(self, kinds):
        leases = self.leases(kinds)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            plants = list(pool.map(lambda kind: Plant(self, kind, leases[kind]), kinds))
        for plant in plants:
            plant.is_there()
        return plants

    def release_all(self, plants):
        self.ok('n1', 'leasectl', 'release', *(plant.lease['name'] for plant in plants))

    def left(self):
        """What is there of the pool's uids: uid -> what."""
        found = self.processes_between(*self.range)
        for line in self.run_in('n1', 'sh', '-c', LOOK, 'sh', *self.range).stdout.splitlines():
            uid, what = line.split(' ', 1)
            found.setdefault(int(uid), []).append(what)
        return found

    def nothing_left(self, plants):
        uids = {plant.lease['uid'] for plant in plants}
        # A keyring without keys goes when the kernel has time.
        self.wait(lambda: not uids & set(self.left()), 10, lambda: f'nothing is left: {self.left()}')
        for plant in plants:
            plant.is_gone()

    others = ()

    def setUp(self):
        """alice herself, and a lease of hers that goes on while those of the tests end."""
        if not self.others:
            alice = {'uid': int(self.ok('n1', 'id', '-u', 'alice')), 'name': 'alice'}
            type(self).others = [Plant(self, 'belongings', one) for one in (self.leases(['second'])['second'], alice)]

    def tearDown(self):
        for one in self.others:
            one.others_are_untouched()
        self.assertEqual(self.state(self.others[0].lease), 'active')

    def shown(self, *plants):
        """Their leases as they are; None for one that is free."""
        leases = {lease['lease']: lease for lease in self.json('n1', 'leasectl', 'list', '--all', '--json')['leases']}
        return [leases.get(plant.lease['lease']) for plant in plants]

    def wait_all(self, holds, plants, seconds, what):
        """Until holds(lease or None, plant) of each."""
        late = []

        def all_hold():
            late[:] = [plant for plant, lease in zip(plants, self.shown(*plants)) if not holds(lease, plant)]
            return not late

        self.wait(all_hold, seconds, lambda: f'{what}: not {[plant.kind for plant in late]}: {self.explain(late[0].lease)}')

    def wait_all_free(self, plants):
        self.wait_all(lambda lease, plant: lease is None, plants, 60, 'free')

    @staticmethod
    def is_dirty(lease, plant):
        """With its reason. Free with it there would be the end."""
        return lease['state'] == 'draining' and lease['members'][0]['reason'] == DIRTY[plant.kind]

    def test_each_kind(self):
        plants = self.plant([*GOES, *DIRTY])
        goes, dirty = plants[:len(GOES)], plants[len(GOES):]
        began = time.monotonic()
        self.release_all(plants)
        self.wait_all(lambda lease, plant: not lease or lease['state'] not in ('active', 'draining'), goes, 60, 'clean')
        print(f'{len(goes)} kinds are gone after {time.monotonic() - began:.1f} s', flush=True)
        self.wait_all(self.is_dirty, dirty, 60, 'dirty, and why')
        print(f'{len(dirty)} kinds are dirty, and why, after {time.monotonic() - began:.1f} s', flush=True)
        self.nothing_left(goes)
        self.wait_all_free(goes)
        self.stay_dirty(dirty)
        for plant in dirty:
            plant.cure()
        self.can_not_look()
        self.wait_all_free(dirty)
        for plant in dirty:
            self.assertEqual(plant.holding('while'), [], plant.kind)

    def stay_dirty(self, dirty):
        """As often as it is looked, and who ends meanwhile is held up by none of them."""
        for _ in range(lib.count(2, 10)):
            self.ok('n1', 'leasectl', 'node', 'sweep', 'n1')
            other = self.acquire('--owner', 'alice')
            began = time.monotonic()
            self.release(other, '--wait=clean')
            print(f'another is clean after {time.monotonic() - began:.1f} s', flush=True)
            for plant, lease in zip(dirty, self.shown(*dirty)):
                self.assertTrue(self.is_dirty(lease, plant), f'{plant.kind}: {lease}')
                self.assertNotEqual(plant.holding('while'), [], f'{plant.kind}: dirty, and nothing is there')
        for plant in dirty:
            plant.others_are_untouched()

    def can_not_look(self):
        """Of every uid: nobody knows what of which lies there."""
        plant, = self.plant(['served_folder'])
        self.release_all([plant])
        self.wait(lambda: self.shown(plant)[0]['members'][0]['reason'] == 'scan-failed', 20, lambda: self.explain(plant.lease))
        plant.is_there()
        plant.cure()
        self.ok('n1', 'leasectl', 'node', 'sweep', 'n1')
        self.wait_free(plant.lease)

    def test_what_forks(self):
        """A bomb of 2,000 that refills itself, and what makes two of itself at SIGTERM, are gone within five seconds."""
        for kind, number in (('bomb', 2000), ('forker', 0)):
            for _ in range(lib.count(1, 10)):
                plant = Plant(self, kind, self.leases([kind])[kind], number)
                plant.is_there()
                began = time.monotonic()
                self.release(plant.lease, '--wait=clean')
                took = time.monotonic() - began
                print(f'{kind}: clean {took:.1f} s after the end of the lease', flush=True)
                self.nothing_left([plant])
                # On a machine that does something else besides, another cluster for one, it may take a little longer.
                self.assertLess(took, lib.count(15, 5), kind)


lib.main()
