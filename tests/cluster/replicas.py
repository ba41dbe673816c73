"""What tests of several replicas share: who leads, whether they are equal, clients under load, and what must hold after it."""
import json
import os
import shutil
import statistics
import threading
import time

import lib
import machines
import oracle
from leases import FIRST, LAST, LeaseCase, Watcher


class ReplicasCase(LeaseCase):
    controllers = 3
    nodes = 1
    range = (FIRST, LAST)  # long runs keep many leases
    cooldown = '1s'
    load_number = 0

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.names_of = tuple(f'c{i + 1}' for i in range(cls.controllers))
        cls.shared = f'{cls.cluster.disk}/shared'
        shutil.copy(f'{machines.find_build(None)}/tests/cluster/claimer', f'{cls.shared}/claimer')

    # ---- the replicas ----

    def status(self, host, timeout='5s'):
        done = self.run_in(host, 'leasectl', '--timeout', timeout, 'cluster', 'status', '--json')
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def wait_status(self, host):
        """status, waited for."""
        return self.wait(lambda: self.status(host), 30, f'{host} tells its status')

    def term(self):
        """That of the leader all agree on."""
        return self.wait_status(self.leader())['term']

    def leader(self, among=None, seconds=30):
        """The one that all of these agree on, waited for."""
        among = among or self.names_of
        found = []

        def agreed():
            found[:] = {self.status(host).get('leader') for host in among}
            return len(found) == 1 and found[0] in among

        self.wait(agreed, seconds, lambda: f'{among} agree on a leader: {found}')
        return found[0]

    def others(self, *names):
        return tuple(c for c in self.names_of if c not in names)

    def equal(self, among=None, seconds=60):
        """Until all of these have the same state, and say that they have."""
        seen = []

        def same():
            seen[:] = [self.status(host) for host in among or self.names_of]
            return len({(s.get('revision'), s.get('digest')) for s in seen}) == 1 and seen[0]

        self.wait(same, seconds, lambda: f'the replicas are equal: {seen}')

    def through(self, controller, *words, host='n1'):
        """leasectl on a node, asked of that controller alone."""
        return self.run_in(host, 'env', f'XCE_SERVER={controller}:7623', 'leasectl', *words)

    def main_pid(self, host, unit='leased'):
        return self.ok(host, 'systemctl', 'show', '-P', 'MainPID', unit)

    def kill_leased(self, host):
        """Whether it ran."""
        pid = self.main_pid(host)
        return pid != '0' and self.run_in(host, 'kill', '-9', pid).returncode == 0

    def power_on(self, host):
        self.cluster.machine(host).start()
        self.cluster.machine(host).wait_booted()

    def whole(self):
        """A test begins with all of them up, agreed and equal, however the last one ended."""
        self.cluster.heal()
        for host in self.names_of:
            machine = self.cluster.machine(host)
            if not machine.populated():
                self.power_on(host)
            elif machine.frozen():
                machine.freeze(False)
        self.leader()
        self.equal()

    # ---- clients ----

    def load(self, **settings):
        return Load(self, **settings)

    def not_free(self):
        """Leases by id, of all pools, as the replicas have them (linearizable)."""
        return {lease['lease']: lease for lease in self.json('n1', 'leasectl', 'list', '--all', '--json', timeout=120)['leases']}

    def check(self, *loads, may_fail=()):
        """What the clients of these loads were told against what is there now; the oracles."""
        listed = self.not_free()
        result = []
        for load in loads:
            told = oracle.Oracle(self, load.events())
            told.check({k: v for k, v in listed.items() if v['job'].startswith(f'{load.run}-')}, may_fail)
            result.append(told)
        return result

    def journals(self, lines=40):
        daemons = [(host, 'leased') for host in self.names_of] + [('n1', 'noded')]
        return '\n'.join(f'--- {host}\n{self.journal(host, daemon, lines)}' for host, daemon in daemons
                         if self.cluster.machine(host).running())


class Load:
    """A claimer on n1. Its settings are claimer's keys; servers: all replicas."""

    def __init__(self, test, clients=8, count=0, keep=50, pause=20, nodes='n1', **settings):
        ReplicasCase.load_number += 1
        self.test, self.run = test, f'load{ReplicasCase.load_number}'
        self.path, self.stop_path = f'{test.shared}/{self.run}.out', f'{test.shared}/{self.run}.stop'
        settings.setdefault('servers', ','.join(f'{c}:7623' for c in test.names_of))
        settings.update(clients=clients, count=count, keep=keep, pause=pause, nodes=nodes, run=self.run,
                        out=f'/shared/{self.run}.out', stop=f'/shared/{self.run}.stop')
        self.file = oracle.Events(self.path)
        self.process = test.cluster.start_in('n1', '/shared/claimer', *[f'{k}={v}' for k, v in settings.items()])
        test.addCleanup(lambda: (self.process.kill(), self.process.wait()))

    def events(self):
        return self.file.all()

    def acquired(self, since=0.0):
        return [e for e in self.file.since(since) if e['ev'] == 'acquired']

    def wait_acquired(self, n, seconds=60):
        """Until so many have been acknowledged, counted finely."""
        def counted():
            return machines.read(self.path).count('"acquired"') >= n

        try:
            machines.poll(counted, seconds, f'{n} acquires', 0.005)
        except lib.Error as e:
            self.test.fail(f'{e} (there are {len(self.acquired())})\n{self.test.journals()}')

    def wait_going(self, since=None, seconds=30):
        """Until one that began after now (or since) has been acknowledged."""
        since = time.monotonic() if since is None else since
        self.test.wait(lambda: any(e['t'] - e['took'] > since for e in self.acquired(since)), seconds,
                       lambda: f'the clients go on; the last they said: {self.events()[-3:]}\n{self.test.journals()}')

    def stop(self, seconds=150):
        machines.write(self.stop_path, '')
        self.join(seconds)

    def join(self, seconds=150):
        self.test.assertEqual(self.process.wait(timeout=seconds), 0)
        os.path.exists(self.stop_path) and os.unlink(self.stop_path)


class Expiry:
    """Leases with a ttl through whatever a test does meanwhile: two are renewed and must live, two are left alone and end, but none
    early. Cluster time is nobody's wall clock, so it is checked by the clock that all machines share."""
    TTL = 6
    RENEWED_TTL = 20  # a busy machine does not get to it every second

    def __init__(self, test, may_end=(0, 4, 5)):
        """may_end: exit codes of a renewal that are in order."""
        self.test, self.wrong, self.over, self.may_end = test, [], threading.Event(), may_end
        self.renewals = []  # (when it was done, when it was asked for, name, exit code, what was said)
        self.watcher = Watcher(test.cluster)
        test.addCleanup(self.watcher.close)
        self.renewed, self.left = [self._lease(self.RENEWED_TTL) for _ in range(2)], [self._lease(self.TTL) for _ in range(2)]
        self.thread = threading.Thread(target=self._renew, daemon=True)
        self.thread.start()
        test.addCleanup(self.over.set)

    def _lease(self, ttl):
        """(lease, when it was asked for)"""
        began = time.monotonic()
        return self.test.acquire('--ttl', f'{ttl}s', '--nodes', 'n1'), began

    def _renew(self):
        while not self.over.wait(1):
            for lease, _ in self.renewed:
                began = time.monotonic()
                done = self.test.run_in('n1', 'leasectl', '--timeout', f'{self.TTL}s', 'renew', '--lease', lease['lease'])
                self.renewals.append((time.monotonic(), began, lease['name'], done.returncode, done.stderr))
                if done.returncode not in self.may_end:
                    self.wrong.append((lease['name'], done.returncode, done.stderr))

    def _ended(self, lease):
        return next((line for line in list(self.watcher.lines) if line.get('lease') == lease['lease']
                     and line['state'] not in ('granted', 'active')), None)

    def _told(self, lease):
        """When it ended, and what its last renewals said."""
        said = [r for r in self.renewals if r[2] == lease['name']]
        return f'{self._ended(lease)}\n' + '\n'.join(f'asked {r[1]:.3f}, told {r[0]:.3f}: {r[3]} {r[4]}' for r in said[-60:])

    def end(self, seconds=90):
        test = self.test
        self.over.set()
        self.thread.join()
        test.assertEqual(self.wrong[:3], [], 'a lease that is renewed was ended')
        for lease, _ in self.renewed:
            test.assertEqual(test.state(lease), 'active', self._told(lease))
            test.release(lease)
        for lease, began in self.left:
            test.wait(lambda lease=lease: self._ended(lease), seconds, lambda lease=lease: f'{lease["name"]} ends:\n{test.explain(lease)}')
            test.assertGreaterEqual(self._ended(lease)['t'] - began, self.TTL, f'{lease["name"]} ended early')
        self.watcher.close()


def spread(values_ms):
    return f'median {statistics.median(values_ms):.0f} ms, max {max(values_ms):.0f} ms, of {len(values_ms)}'
