"""What tests of several nodes share: power, who is lost, and what leased says of it."""
from leases import FIRST
from replicas import ReplicasCase


class NodesCase(ReplicasCase):
    nodes = 3
    node_names = ('n1', 'n2', 'n3')
    range = (FIRST, FIRST + 255)

    @classmethod
    def prepare(cls):
        cls.cluster.leased_settings = 'Heartbeat = 500ms\nLostAfter = 10s\nGrace = 2s\n'

    def run(self, result=None):
        bad = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > bad:
            print(self.journals(), *(f'--- {n}\n{self.journal(n, "noded", 40)}' for n in self.node_names[1:]
                                     if self.cluster.machine(n).running() and not self.cluster.machine(n).frozen()), sep='\n', flush=True)
        return result

    def whole(self):
        super().whole()
        for name in self.node_names:
            if not self.cluster.machine(name).populated():
                self.power_on(name)
            elif self.cluster.machine(name).frozen():
                self.cluster.machine(name).freeze(False)
        self.wait_state('ready', *self.node_names, seconds=60)

    # ---- what leased says ----

    def node(self, name):
        """As node list shows it; {} when it does not."""
        nodes = self.json('n1', 'leasectl', 'node', 'list', '--json')['nodes']
        return next((n for n in nodes if n['node'] == name), {})

    def wait_state(self, state, *names, seconds=30):
        self.wait(lambda: all(self.node(n).get('state') == state for n in names), seconds,
                  lambda: f'{names} are {state}: {[self.node(n) for n in names]}')

    def shown(self, lease):
        return self.json('n1', 'leasectl', 'show', '--lease', lease['lease'], '--json')

    def proof(self, lease, node):
        return next(m['proof'] for m in self.shown(lease)['members'] if m['node'] == node)

    def waits(self, lease):
        """What explain says that it waits for: what, detail and cure of each."""
        waits = self.json('n1', 'leasectl', 'explain', '--lease', lease['lease'], '--json')['waits']
        return {w['what']: (w['detail'], w['cure']) for w in waits}

    def refused(self, node, why):
        done = self.run_in('n1', 'leasectl', 'acquire', '--pool', 'main', '--nodes', node, '--job', f'refused-{self.next_number()}')
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(f'node {node} is {why}', done.stderr)

    def held_by(self, lease, node):
        """Its uid is held, for that node alone, and explain says what one can do."""
        shown = self.shown(lease)
        self.assertEqual((shown['state'], shown['cause'], shown['reasons']), ('draining', 'member-lost', ['member-lost']))
        waits = self.waits(lease)
        self.assertEqual(list(waits), [f'member {node}'])
        detail, cure = waits[f'member {node}']
        self.assertEqual(detail.split(':')[0], 'node is lost')
        self.assertIn(f'leasectl node fence {node}', cure)

    # ---- what is on a node ----

    def hold(self, lease, *nodes):
        """A process and a file of it on these nodes."""
        for node in nodes:
            self.ok(node, 'systemd-run', '-q', '-p', 'Type=exec', '-p', f'User={lease["name"]}', '--slice',
                    f'xce-{lease["uid"]}-{lease["epoch"]}.slice', 'sleep', '1000')
            self.ok(node, 'install', '-o', lease['uid'], '-g', lease['uid'], '/dev/null', f'/var/tmp/of-{lease["name"]}')

    def power_off(self, *names):
        for name in names:
            self.cluster.machine(name).kill()

    def boot(self, *names):
        for name in names:
            self.cluster.machine(name).start()
        for name in names:
            self.cluster.machine(name).wait_booted()

    def disk(self, name):
        """Where the files of a machine without power are."""
        return f'{self.cluster.disk}/{name}/upper'
