#!/usr/bin/python3
"""A controller on a machine of its own, and nodes that reach it over TLS: names everywhere, and who may do what."""
import lib
from leases import LeaseCase


class OneController(LeaseCase):
    controllers = 1
    nodes = 2
    cooldown = '1s'

    def test_a_lease_resolves_on_all_members_when_acquire_returns(self):
        for i in range(lib.count(10, 100)):
            lease = self.acquire('--nodes', 'n[1-2]', job=f'both-{i}')
            for node in ('n1', 'n2'):
                self.assertEqual(self.ok(node, 'id', '-un', lease['uid']), lease['name'])
            self.release(lease)

    def test_a_unit_on_each_node_runs_under_the_same_uid(self):
        lease = self.acquire('--nodes', 'n[1-2]')
        said = [self.ok(node, 'systemd-run', '--wait', '--pipe', '-q', '-p', f'User={lease["name"]}', 'id', '-u') for node in ('n1', 'n2')]
        self.assertEqual(said, [str(lease['uid'])] * 2)
        self.release(lease)
        self.wait(lambda: self.run_in('n2', 'getent', 'passwd', lease['uid']).returncode == 2, 60, 'the name goes on n2, too')

    def test_root_of_a_node_is_no_administrator(self):
        """It has the node's certificate, which may hold a session and nothing more."""
        keys = ['XCE_SERVER=c1:7623', 'XCE_CERT=/etc/xce/n2.pem', 'XCE_KEY=/etc/xce/n2.key', 'XCE_CA=/etc/xce/ca.pem']
        lease = self.acquire('--nodes', 'n1')
        for command in (['leasectl', 'revoke', '--lease', lease['lease'], '--reason', 'x'], ['leasectl', 'acquire', '--nodes', 'n2'],
                        ['leasectl', 'show', '--lease', lease['lease']], ['leasectl', 'node', 'drain', 'n1', '--reason', 'x']):
            done = self.run_in('n2', 'env', *keys, *command)
            self.assertEqual(done.returncode, 3, f'{command}: {done.stdout}{done.stderr}')
        self.assertEqual(self.json('n1', 'leasectl', 'show', '--lease', lease['lease'], '--json')['state'], 'active')
        self.release(lease)

    def test_without_a_certificate_there_is_nothing(self):
        done = self.run_in('n2', 'env', 'XCE_SERVER=c1:7623', 'leasectl', 'list')
        self.assertNotEqual(done.returncode, 0)

    def test_a_node_of_another_name_than_its_certificate_has_no_session(self):
        self.ok('n2', 'sh', '-c', 'printf "[noded]\\nNode = n1\\n" >/etc/xce/noded.conf.d/zz.conf; systemctl restart noded')
        try:
            self.wait(lambda: 'is the certificate of node n2' in self.journal('n2', 'noded', 20), 30, 'noded says why')
            self.assertEqual(self.node_state('n1'), 'ready')
            self.wait(lambda: self.node_state('n2') is None, 30, 'n2 is not connected')
        finally:
            self.ok('n2', 'sh', '-c', 'rm /etc/xce/noded.conf.d/zz.conf; systemctl restart noded')
        self.wait(lambda: self.node_state('n2') == 'ready', 60, 'n2 is ready again')

    def test_the_controller_loses_its_power_and_nothing_else(self):
        lease = self.acquire('--nodes', 'n[1-2]')
        self.cluster.machine('c1').kill()
        for node in ('n1', 'n2'):
            self.assertEqual(self.ok(node, 'id', '-un', lease['uid']), lease['name'])
        self.cluster.machine('c1').start()
        self.cluster.machine('c1').wait_booted()
        for node in ('n1', 'n2'):
            self.wait(lambda: self.node_state(node) == 'ready', 60, lambda: f'{node} is ready: {self.journal(node, "noded", 20)}')
        self.assertEqual(self.json('n1', 'leasectl', 'show', '--lease', lease['lease'], '--json')['state'], 'active')
        self.release(lease)


lib.main()
