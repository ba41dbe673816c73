#!/usr/bin/python3
"""Cuts, pauses, clocks, full disks and kills under load: no lease is lost, doubled or ended early, and all of it heals by itself."""
import datetime
import json
import os
import random
import shutil
import struct
import tempfile
import time

import lib
import machines
from replicas import Expiry, ReplicasCase

FOLDER = '/var/lib/xce/leased'
# Of the machines: the library whose wall clock steps, and what by.
LIBRARY, STEP = '/shared/libwall_step.so', '/etc/xce/clock'


class FaultCase(ReplicasCase):
    may_fail = ()
    # A node without a session for ten seconds ends its new leases; a machine that is busy elects and connects for long.
    pool_options = ('--ready-timeout', '60s')

    @classmethod
    def prepare(cls):
        # Below the ttl of leases that must not end early, and soon over for those that must end.
        cls.cluster.leased_settings = 'Grace = 3s\n'

    def run(self, result=None):
        bad = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > bad:
            print(f'XCE_TEST_SEED={self.seed}\n{self.journals()}', flush=True)
        return result

    def setUp(self):
        self.seed = int(os.environ.get('XCE_TEST_SEED') or random.randrange(1 << 32))
        self.random = random.Random(self.seed)
        self.whole()

    def begin(self, **settings):
        """Clients that go on until end(), and leases with a ttl beside them."""
        self.expiry = Expiry(self, may_end=(0, 4, 5, 6) if 'resource_exhausted' in self.may_fail else (0, 4, 5))
        self.clients = self.load(clients=6, pause=20, **settings)
        self.clients.wait_acquired(20)

    def end(self):
        """All is whole: the clients go on, nothing was lost, doubled or ended early, and the replicas are equal."""
        self.clients.wait_going()
        self.clients.stop()
        self.expiry.end()
        told, = self.check(self.clients, may_fail=self.may_fail)
        self.equal()
        return told

    def refuse(self, hosts, seconds=1):
        """Neither writes nor reads that have to be true are answered there; within the deadline, and what a busy machine takes to begin
        and to end six programs, if not each time then one of five."""
        self.assertLess(min(took for took in self.refusals(hosts, seconds)), seconds + 3)

    def refusals(self, hosts, seconds):
        """How long each of them took, until one was in time."""
        took = []
        while len(took) < 5 and (not took or took[-1] >= seconds + 3):
            began = time.monotonic()
            self.refuse_once(hosts, seconds)
            took.append(time.monotonic() - began)
        return took

    def refuse_once(self, hosts, seconds):
        asked = []
        for host in hosts:
            for words in (('acquire', '--pool', 'main', '--job', f'refused-{self.next_number()}', '--nodes', 'n1'), ('list',)):
                asked.append((host, words, self.cluster.start_in(host, 'leasectl', '--timeout', f'{seconds}s', *words, stdout=-1, stderr=-1)))
        for host, words, process in asked:
            said = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 4, f'{host}: {words}: {said}')

    @staticmethod
    def each_time(elects):
        """A busy machine elects now and then by itself; one that is disturbed does so each time."""
        return all(elects() for _ in range(3))


class Partitions(FaultCase):
    def cases(self, a, b, c):
        """a leads: (what, cuts, who can not serve meanwhile, whether a goes on leading)."""
        def one_way(x, y):
            return (x, y, True)

        return [
            ('the leader alone', [(a, 'all', False)], [a], False),
            ('the leader from the replicas', [(a, b, False), (a, c, False)], [a], False),
            ('a follower alone', [(b, 'all', False)], [b], True),
            ('a follower from the replicas', [(b, a, False), (b, c, False)], [b], True),
            ('the followers from each other', [(b, c, False)], [], True),
            ('the leader from one follower', [(a, b, False)], [b], True),
            ('the leader is not heard by one follower', [one_way(a, b)], [b], True),
            ('the leader does not hear one follower', [one_way(b, a)], [], True),
            ('the leader is heard by nobody', [one_way(a, b), one_way(a, c)], [a], False),
            ('the leader hears nobody', [one_way(b, a), one_way(c, a)], [a], False),
            ('a follower is heard by nobody', [one_way(b, a), one_way(b, c)], [b], True),
            ('a follower hears nobody', [one_way(a, b), one_way(c, b)], [b], True),
        ]

    def cut(self, number):
        """Whether it has cost a leader its office that could go on."""
        a = self.leader()
        term = self.wait_status(a)['term']
        b, c = self.random.sample(self.others(a), 2)
        what, cuts, apart, stays = self.cases(a, b, c)[number]
        with self.subTest(what):
            for x, y, one_way in cuts:
                self.cluster.cut(x, y, one_way)
            began = time.monotonic()
            try:
                self.clients.wait_going(began)
                print(f'{what}: the clients go on after {(time.monotonic() - began) * 1000:.0f} ms', flush=True)
                self.refuse(apart)
                if not stays:
                    self.assertNotEqual(self.leader(self.others(a)), a)
                time.sleep(self.random.random() * lib.count(0.5, 3))
            finally:
                self.cluster.heal()
            self.clients.wait_going()
        return stays and self.term() != term

    def test_a_cut_of_every_kind(self):
        self.begin(keep=20)
        for _ in range(lib.count(1, 10)):
            for number in range(len(self.cases('', '', ''))):
                self.assertFalse(self.each_time(lambda number=number: self.cut(number)),
                                 f'{self.cases("a", "b", "c")[number][0]}: that has cost the leader its office')
        self.end()

    def pause(self):
        """Whether it has cost the next leader its office that the one before came back."""
        old = self.leader()
        self.cluster.machine(old).freeze(True)
        began = time.monotonic()
        self.clients.wait_going(began)
        self.wait(lambda: time.monotonic() - began > Expiry.TTL + 2, 60, 'it was paused for longer than a ttl')
        new = self.leader(self.others(old))
        self.cluster.machine(old).freeze(False)
        # Whatever it says now is of an old term, and nobody minds.
        return self.leader() != new

    def test_a_leader_that_is_paused_for_longer_than_a_ttl(self):
        self.begin(keep=20)
        for _ in range(lib.count(1, 10)):
            self.assertFalse(self.each_time(self.pause), 'that has cost the next leader its office')
        self.end()


class Clocks(FaultCase):
    """The wall clock of one machine jumps, for its daemons alone: the machines of a cluster have one kernel, and one clock."""

    @classmethod
    def prepare(cls):
        super().prepare()
        cls.library = f'{machines.find_build(None)}/tests/lib/libwall_step.so'
        # Certificates that hold also where the clock is slow.
        step = tempfile.NamedTemporaryFile(prefix='xce-test-step.')
        cls.addClassCleanup(step.close)
        step.write(struct.pack('<q', -3 * 3600))
        step.flush()
        cls.cluster.issuing = {'LD_PRELOAD': cls.library, 'XCE_TEST_WALL_STEP': step.name}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        shutil.copy(cls.library, cls.shared)
        for host, unit in [(c, 'leased') for c in cls.names_of] + [('n1', 'noded')]:
            cls.set_clock(host, 0)
            drop_in = f'[Service]\nEnvironment=LD_PRELOAD={LIBRARY} XCE_TEST_WALL_STEP={STEP}\n'
            done = cls.cluster.run(host, 'sh', '-ec', 'mkdir -p "$1"; cat >"$1/clock.conf"; systemctl daemon-reload; systemctl restart "$2"',
                                   'sh', f'/run/systemd/system/{unit}.service.d', unit, input=drop_in)
            if done.returncode != 0:
                raise AssertionError(f'{host}: {unit} under {LIBRARY}: {done.stderr}')
        cls.wait_ready()

    @classmethod
    def set_clock(cls, host, hours):
        """In place: who runs has it mapped."""
        code = 'import os, struct, sys; os.pwrite(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o644), struct.pack("<q", int(sys.argv[2])), 0)'
        done = cls.cluster.run(host, '/usr/bin/python3', '-c', code, STEP, hours * 3600)
        if done.returncode != 0:
            raise AssertionError(f'{host}: {STEP}: {done.stderr}')

    def hours_ahead(self, controller, lease):
        """Of that replica's wall clock, by when it says that a lease ends. Far off while it has no answer."""
        done = self.through(controller, 'show', '--lease', lease['lease'], '--json')
        self.assertIn(done.returncode, (0, 4), done.stderr)
        if done.returncode == 4:  # it elects
            return 1000
        told, real = (datetime.datetime.fromisoformat(t.replace('Z', '+00:00')) for t in (json.loads(done.stdout)['expires'], lease['expires']))
        return (told - real).total_seconds() / 3600

    def jumps(self, host, probe):
        """Whether that has cost the leader its office."""
        term = self.term()
        for to in (1, -1, 0):
            self.set_clock(host, to)
            self.wait(lambda to=to: abs(self.hours_ahead(host, probe) - to) < 0.01, 20,
                      lambda to=to: f'{host} is {to} h off: {self.hours_ahead(host, probe)}')
            self.clients.wait_going()
            time.sleep(lib.count(1, Expiry.TTL))
        return self.term() != term

    def test_of_a_replica(self):
        leader = self.leader()
        probe = self.acquire('--ttl', '20m', '--nodes', 'n1')
        self.begin(keep=20)
        for host in (leader, *self.others(leader)[:lib.count(1, 2)]):
            self.assertFalse(self.each_time(lambda host=host: self.jumps(host, probe)), 'a clock has cost the leader its office')
        # One that starts with such a clock, and one that is elected with it.
        for to in (1, -1):
            old = self.leader()
            for host in self.others(old):
                self.set_clock(host, to)
            self.kill_leased(old)
            self.wait(lambda: self.leader() and self.status(old).get('leader'), 30, f'{old} is back')
            self.clients.wait_going()
        for host in self.names_of:
            self.set_clock(host, 0)
        self.end()
        self.assertEqual(self.state(probe), 'active')
        self.release(probe)

    def test_of_a_node(self):
        self.begin(keep=20)
        lease = self.acquire('--nodes', 'n1')
        maps = self.ok('n1', 'sh', '-c', 'grep -c libwall_step /proc/$(systemctl show -P MainPID noded)/maps')
        self.assertGreater(int(maps), 0, 'noded has a clock of its own')
        for to in (1, -1, 0):
            self.set_clock('n1', to)
            time.sleep(lib.count(2, 10))
            self.clients.wait_going()
            self.assertEqual(self.wait(lambda: self.node_state('n1'), 30, 'n1 is connected'), 'ready')
            self.release(self.acquire('--nodes', 'n1'))
        self.assertEqual(self.names(lease['uid'])[0], lease['name'])
        self.end()
        self.release(lease)


class Disks(FaultCase):
    """/var/lib/xce/leased of each replica is a small file system of its own, which fills."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for host in cls.names_of:
            cls.cluster.run(host, 'systemctl', 'stop', 'leased')
            cls.cluster.mount_small(host, FOLDER, 256 << 20)
            done = cls.cluster.run(host, 'systemctl', 'start', 'leased')
            if done.returncode != 0:
                raise AssertionError(f'{host}: leased on a disk of its own: {done.stderr}')

    def fill(self, host):
        """Also what has become free since the last time; nothing of the filler is given back meanwhile."""
        # Nothing is written: a disk that is busy would pass for one that is full.
        script = '''f="$1/filler"; touch "$f"
            for n in 1048576 4096; do while fallocate -o "$(stat -c %s "$f")" -l $n "$f" 2>/dev/null; do :; done; done'''
        self.ok(host, 'sh', '-c', script, 'sh', FOLDER)

    def empty(self, *hosts):
        for host in hosts:
            self.ok(host, 'rm', '-f', f'{FOLDER}/filler')
        self.wait(lambda: not any(self.health(h) for h in hosts), 60, lambda: f'all go on: {[self.health(h) for h in hosts]}')

    def health(self, host):
        return self.status(host).get('health') or ''

    def ask_each(self):
        """(exit code, what was said) of an acquire of each replica, all at once."""
        words = [('env', f'XCE_SERVER={c}:7623', 'leasectl', '--timeout', '3s', 'acquire', '--pool', 'main', '--nodes', 'n1',
                  '--job', f'ask-{self.next_number()}') for c in self.names_of]
        asked = [self.cluster.start_in('n1', *w, stdout=-1, stderr=-1) for w in words]
        return [(process.communicate(timeout=60)[1], process.returncode)[::-1] for process in asked]

    def write_until(self, condition, full, seconds, what):
        """Grow the log, by 200 KiB a time, with batches of leases for nodes that there are not, until condition()."""
        nodes = ','.join(f'{"x" * 50}{i}' for i in range(20))
        end, codes = time.monotonic() + seconds, []
        while not condition():
            if time.monotonic() > end:
                self.fail(f'not within {seconds} s: {what}: {[self.status(c) for c in self.names_of]}')
            for host in full:
                self.fill(host)  # a snapshot of its own has made room
            asked = [self.cluster.start_in('n1', 'leasectl', '--timeout', '3s', 'acquire', '--pool', 'main', '--count', '200', '--nodes',
                                           nodes, '--job', f'none-{self.next_number()}-%i', stdout=-1, stderr=-1) for _ in range(10)]
            for process in asked:
                said = process.communicate(timeout=60)
                self.assertIn(process.returncode, (3, 4, 5, 6), said)
                codes.append(process.returncode)
        print(f'{what}: {codes.count(3) // 5} MiB of log in {len(codes)} requests', flush=True)

    def restarts(self):
        return [self.ok(c, 'systemctl', 'show', '-P', 'NRestarts', 'leased') for c in self.names_of]

    def one(self, host):
        self.begin(keep=20)
        self.addCleanup(self.empty, host)
        self.fill(host)
        self.write_until(lambda: self.health(host), [host], 90, f'{host} says that its disk is full')
        self.assertIn(FOLDER, self.health(host))
        self.assertNotEqual(self.leader(self.others(host)), host, 'one that can not write leads')
        # Clients and the node that were there are elsewhere by now; who insists is told why.
        done = self.through(host, '--timeout', '3s', 'acquire', '--pool', 'main', '--job', f'there-{self.next_number()}', '--nodes', 'n1')
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        self.assertIn(FOLDER, done.stderr)
        self.release(self.acquire('--nodes', 'n1'))
        self.clients.wait_going()
        self.empty(host)
        self.end()

    def test_of_one_replica(self):
        restarts = self.restarts()
        leader = self.leader()
        for host in (leader, *self.others(leader)[:lib.count(0, 2)]):
            self.one(host)
        self.assertEqual(self.restarts(), restarts, 'by themselves, without a restart')

    def test_of_two_replicas(self):
        restarts = self.restarts()
        leader = self.leader()
        full = (leader, self.others(leader)[0])
        # A majority without room is the one thing that clients are told of.
        self.may_fail = ('resource_exhausted',)
        self.begin(keep=20)
        self.addCleanup(self.empty, *full)
        refused = []

        def nobody_grants():
            refused.append(self.ask_each())
            return all(code in (4, 5, 6) for answers in refused[-2:] for code, _ in answers) and len(refused) > 1

        for host in full:
            self.fill(host)
        self.write_until(nobody_grants, full, 120, 'nothing is granted where a majority can not write it')
        print(*(f'{host}: exit {code}: {said.strip()}' for host, (code, said) in zip(self.names_of, refused[-1])), sep='\n', flush=True)
        self.empty(*full)
        self.end()
        self.assertEqual(self.restarts(), restarts, 'by themselves, without a restart')


class Kills(FaultCase):
    def restarts(self):
        return sum(int(self.ok(c, 'systemctl', 'show', '-P', 'NRestarts', 'leased')) for c in self.names_of)

    def test_kill_9_of_random_replicas(self):
        self.begin(keep=20)
        before, kills = self.restarts(), 0
        while kills < lib.count(8, 200):
            for host in self.random.sample(self.names_of, self.random.choice((1, 1, 1, 2, 3))):
                kills += self.kill_leased(host)
            time.sleep(self.random.random() * 1.5)
        self.wait(lambda: all(self.status(c).get('leader') for c in self.names_of), 60, 'all are back')
        crashes = self.restarts() - before - kills
        print(f'{kills} kills, {crashes} crashes beside them', flush=True)
        self.end()


lib.main()
