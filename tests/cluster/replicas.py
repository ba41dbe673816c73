"""What tests of several replicas share: who leads, whether they are equal, clients under load, and what must hold after it."""
import json
import os
import shutil
import statistics
import time

import lib
import machines
import oracle
from leases import LeaseCase


class ReplicasCase(LeaseCase):
    controllers = 3
    nodes = 1
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
        pid = self.main_pid(host)
        if pid != '0':
            self.run_in(host, 'kill', '-9', pid)

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

    def check(self, *loads):
        """What the clients of these loads were told against what is there now; the oracles."""
        listed = self.not_free()
        result = []
        for load in loads:
            told = oracle.Oracle(self, load.events())
            told.check({k: v for k, v in listed.items() if v['job'].startswith(f'{load.run}-')})
            result.append(told)
        return result

    def journals(self, lines=40):
        return '\n'.join(f'--- {host}\n{self.journal(host, "leased", lines)}' for host in self.names_of
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
        self.process = test.cluster.start_in('n1', '/shared/claimer', *[f'{k}={v}' for k, v in settings.items()])
        test.addCleanup(lambda: (self.process.kill(), self.process.wait()))

    def events(self):
        return oracle.read(self.path)

    def acquired(self, since=0.0):
        return [e for e in self.events() if e['ev'] == 'acquired' and e['t'] > since]

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


def spread(values_ms):
    return f'median {statistics.median(values_ms):.0f} ms, max {max(values_ms):.0f} ms, of {len(values_ms)}'
