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

    def test_a_node_enrols_as_operations_says(self):
        """The packaged unit may write to /var/lib/xce/noded alone."""
        with open(f'{self.cluster.disk}/ca/ca.key', encoding='ascii') as f:
            key = f.read()
        self.ok('c1', 'sh', '-c', f'echo "{key}" >/etc/xce/ca.key; chmod 0600 /etc/xce/ca.key; chown xce-leased: /etc/xce/ca.key; '
                'printf "[leased]\\nCAKey = /etc/xce/ca.key\\n" >/etc/xce/leased.conf.d/zz.conf; systemctl restart leased')
        self.wait(lambda: self.node_state('n1') == 'ready', 60, 'the controller is back')
        self.ok('n1', 'leasectl', 'cert', 'token', 'n2', '--out', '/root/n2.token')
        token = self.ok('n1', 'cat', '/root/n2.token')
        there = '/var/lib/xce/noded'
        settings = f'Certificate = {there}/node.pem\\nKey = {there}/node.key\\nCA = {there}/ca.pem\\nEnrollToken = {there}/token\\n'
        self.ok('n2', 'sh', '-c', f'echo "{token}" >{there}/token; chmod 0600 {there}/token; '
                f'printf "[noded]\\n{settings}" >/etc/xce/noded.conf.d/zz.conf; systemctl restart noded')
        try:
            self.wait(lambda: self.run_in('n2', 'test', '-e', f'{there}/token').returncode == 1, 60,
                      lambda: f'the token is spent: {self.journal("n2", "noded", 20)}')
            self.wait(lambda: self.node_state('n2') == 'ready', 60, lambda: f'n2 is ready: {self.journal("n2", "noded", 20)}')
            self.ok('n2', 'test', '-s', f'{there}/node.pem', '-a', '-s', f'{there}/ca.pem')
            lease = self.acquire('--nodes', 'n2')
            self.release(lease)
        finally:
            self.ok('n2', 'sh', '-c', 'rm /etc/xce/noded.conf.d/zz.conf; systemctl restart noded')
        self.wait(lambda: self.node_state('n2') == 'ready', 60, 'n2 is ready with its old certificate')

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
