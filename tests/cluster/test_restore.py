#!/usr/bin/python3
"""All controllers lose their folders; one begins anew with an old backup, under nodes that live on with what they hold since."""
import json

import lib
from leases import FIRST
from replicas import ReplicasCase

NODES = ('n1', 'n2', 'n3')
POOL = (FIRST + 8192, FIRST + 8197)   # so few that each uid comes round
GAP = 1024
BACKUP = '/shared/backup'
STATE = '/var/lib/xce/leased'


class Restore(ReplicasCase):
    nodes = 3
    range = (FIRST, FIRST + 4095)

    def ctl(self, *words, status=0, host='n1'):
        done = self.run_in(host, 'leasectl', *words)
        self.assertEqual(done.returncode, status, f'{words}: {done.stdout}{done.stderr}')
        return done.stdout + done.stderr

    def awaited(self, host='c1'):
        """What the restored state waits for; None while it does not answer."""
        restored = self.status(host).get('restored')
        return restored and [f'{a["node"]}: {a["what"]}' for a in restored['awaited']]

    def hold(self, lease):
        """A process and a file of the lease on each of its members."""
        for node in lease['nodes']:
            name = node if isinstance(node, str) else node['node']
            self.ok(name, 'systemd-run', '-q', '-p', 'Type=exec', '-p', f'User={lease["name"]}', 'sleep', '1000')
            self.ok(name, 'install', '-o', lease['uid'], '-g', lease['uid'], '/dev/null', f'/var/tmp/of-{lease["name"]}')
            self.assertIn(str(lease['uid']), self.processes_of_pool(name))
        return lease

    def processes_of_pool(self, node):
        return self.ok(node, 'sh', '-c', 'ps -eo ruid=,euid=,args= | awk -v a="$0" -v b="$1" "\\$1 >= a && \\$1 <= b || '
                       '\\$2 >= a && \\$2 <= b"', *POOL)

    def files_of_pool(self, node):
        return self.ok(node, 'find', '/tmp', '/var/tmp', '/dev/shm', '/run', '/var/spool', '-uid', f'+{POOL[0] - 1}', '-uid',
                       f'-{POOL[1] + 1}')

    def pin(self, node, lease):
        """A file that nobody can remove there."""
        self.ok(node, 'sh', '-c', 'mkdir /var/tmp/pinned && mount -t tmpfs none /var/tmp/pinned && touch /var/tmp/pinned/f && '
                'chown "$0" /var/tmp/pinned/f && mount -o remount,ro /var/tmp/pinned', lease['uid'])

    def lose_all(self):
        """The old folders of c2 and c3 are kept, for an administrator who has not read on."""
        for host in self.names_of:
            self.ok(host, 'systemctl', 'stop', 'leased')
        self.ok('c1', 'sh', '-c', f'rm -rf {STATE}/raft {STATE}/engine.db*')

    def begin_anew(self):
        self.assertEqual(self.json('c1', 'leasectl', 'cluster', 'restore', BACKUP, '--json')['leases'], 1)
        self.ok('c1', 'systemctl', 'start', 'leased')
        self.wait(lambda: self.awaited() is not None, 30, lambda: f'c1 answers:\n{self.journal("c1", "leased")}')

    def old_ones_are_refused(self):
        """c2 and c3 with what they had are a majority of old; no node goes back to them, and they end."""
        self.wait(lambda: not any('hello' in a for a in self.awaited()), 30, lambda: f'all nodes speak to c1: {self.awaited()}')
        for host in ('c2', 'c3'):
            self.ok(host, 'systemctl', 'start', 'leased')
        self.leader(('c2', 'c3'))
        self.ok('n2', 'sh', '-c', 'printf "[noded]\\nServer = c2:7623, c3:7623\\n" >/etc/xce/noded.conf.d/zz.conf; '
                'systemctl restart noded')
        try:
            self.wait(lambda: 'this node has left for' in self.journal('n2', 'noded'), 30,
                      lambda: f'n2 refuses the old state:\n{self.journal("n2", "noded")}')
        finally:
            self.ok('n2', 'sh', '-c', 'rm /etc/xce/noded.conf.d/zz.conf; systemctl restart noded')
        for host in ('c2', 'c3'):
            self.ok(host, 'sh', '-c', f'systemctl stop leased; mv {STATE}/raft {STATE}/raft.old; rm -f {STATE}/engine.db*')

    def join(self, *hosts):
        for host in hosts:
            self.ok(host, 'systemctl', 'start', 'leased')
            self.wait(lambda: self.run_in('c1', 'leasectl', 'cluster', 'add', host).returncode == 0, 30, f'{host} joins')

    def take(self, job):
        done = self.run_in('n1', 'leasectl', 'acquire', '--pool', 'few', '--nodes', 'n[1-3]', '--job', job, '--wait', '--json')
        return json.loads(done.stdout) if done.returncode == 0 else None

    def test_an_old_backup_gives_nothing_to_two(self):
        self.make_pool('few', *POOL, '--cooldown', '1s')
        kept = self.hold(self.acquire('--nodes', 'n[1-3]', pool='few'))
        self.ctl('cluster', 'backup', BACKUP)
        later = [self.hold(self.acquire('--nodes', nodes, pool='few')) for nodes in ('n1', 'n2', 'n3', 'n[1-2]', 'n[1-3]')]
        held = {lease['uid']: lease for lease in [kept, *later]}
        self.assertEqual(len(held), POOL[1] - POOL[0] + 1)
        pinned = later[2]
        self.pin('n3', pinned)
        self.lose_all()
        self.assertEqual(self.names(pinned['uid'], 'n3')[0], pinned['name'])  # jobs and look-ups go on without any leader
        self.begin_anew()
        self.assertIn('a backup was restored, no uid is given out yet', self.ctl('acquire', '--pool', 'few', '--nodes', 'n1', status=1))
        self.old_ones_are_refused()
        self.join('c2')
        # Everything that ran ends; what the backup does not know is there again, under its own epoch.
        self.wait(lambda: self.awaited() == [], 60, lambda: f'all nodes are clean: {self.awaited()}')
        for node in NODES:
            self.assertEqual(self.processes_of_pool(node), '')
        leases = {lease['uid']: lease for lease in self.not_free().values()}
        self.assertEqual({uid: lease['epoch'] for uid, lease in leases.items()}, {uid: lease['epoch'] for uid, lease in held.items()})
        self.assertIn('unknown', json.dumps(leases[pinned['uid']]['owner']))
        self.assertIn('n3 is registered and not named', self.ctl('cluster', 'confirm', 'n[1-2]', status=1))
        self.assertIsNone(self.take('too-early'))
        self.ctl('cluster', 'confirm', 'n[1-3]')
        self.equal(('c1', 'c2'))
        new = self.nothing_is_doubled(held, pinned)
        self.a_new_replica_knows_who_held(new[0])

    def nothing_is_doubled(self, held, pinned):
        """All come again but the one of which a file is left; that one when the file is gone, and not before."""
        new = []

        def come(n):
            lease = self.take(f'anew-{len(new)}')
            if lease:
                new.append(lease)
            return len(new) == n

        self.wait(lambda: come(len(held) - 1), 60, lambda: f'the others come again: {new}\n{self.ctl("list", "--all")}')
        self.assertIsNone(self.take('one-too-many'))
        self.assertEqual({lease['uid'] for lease in new}, set(held) - {pinned['uid']})
        self.assertIn('n3', self.ctl('explain', pinned['uid']))
        self.ok('n3', 'umount', '/var/tmp/pinned')
        self.wait(lambda: come(len(held)), 60, lambda: self.ctl('explain', pinned['uid']))
        self.assertEqual(new[-1]['uid'], pinned['uid'])
        for lease in new:
            old = held[lease['uid']]
            self.assertGreater(lease['epoch'], old['epoch'] + GAP)
            self.assertGreater(lease['lease'], 10**12)
        for node in NODES:
            self.assertEqual(self.processes_of_pool(node) + self.files_of_pool(node), '')
            # The names of now resolve, those of before do not.
            known = self.run_in(node, 'getent', 'passwd', *[lease['name'] for lease in [*new, *held.values()]]).stdout
            self.assertEqual([line.split(':')[0] for line in known.splitlines()], [lease['name'] for lease in new])
        # Whoever holds on to a lease of before has nothing.
        self.ctl('renew', '--lease', pinned['lease'], status=3)
        self.ctl('release', '--lease', pinned['lease'], status=3)
        self.assertEqual(self.state(new[-1]), 'active')
        return new

    def history(self, controller, *words):
        """Lease and epoch of each row; None while it is not known there."""
        done = self.through(controller, 'history', '--stale', '--json', *words)
        return [(row['lease'], row['epoch']) for row in json.loads(done.stdout)['history']] if done.returncode == 0 else None

    def a_new_replica_knows_who_held(self, lease):
        """Granted and free again before c3 joins, under an id that has leapt."""
        self.ctl('release', '--lease', lease['lease'])
        self.wait(lambda: lease['uid'] not in {other['uid'] for other in self.not_free().values()}, 60, lambda: self.ctl('list', '--all'))
        rows = self.history('c1', '--uid', lease['uid'])
        self.assertIn((lease['lease'], lease['epoch']), rows)
        self.assertEqual(self.history('c1', '--lease', lease['lease']), [(lease['lease'], lease['epoch'])])
        self.join('c3')
        self.equal()
        self.wait(lambda: self.history('c3', '--uid', lease['uid']) == rows, 60,
                  lambda: f'c3 knows as much as c1: {self.history("c3", "--uid", lease["uid"])}, not {rows}')
        self.assertEqual(self.history('c3', '--lease', lease['lease']), [(lease['lease'], lease['epoch'])])


lib.main()
