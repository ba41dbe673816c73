#!/usr/bin/python3
"""A full disk: under leased nothing acknowledged is lost and it goes on by itself; under noded likewise."""
import re

import lib
from leases import FIRST, LeaseCase


class Full(LeaseCase):
    range = (FIRST, FIRST + 1023)

    def fill(self, folder):
        """Write until there is no byte left below folder."""
        self.ok('n1', 'sh', '-c', 'dd if=/dev/zero of=$1/filler bs=64k 2>/dev/null; dd if=/dev/zero of=$1/filler2 bs=1 count=65536 2>/dev/null;'
                ' ! sh -c "echo x >$1/more" 2>/dev/null || rm -f $1/more', 'sh', folder)
        self.assertEqual(self.ok('n1', 'sh', '-c', f'df --output=avail {folder} | tail -1').strip(), '0')

    def acquire_until(self, pool, otherwise):
        """Lease after lease, in one shell of the machine, until the end that `otherwise` makes when one is not granted."""
        script = 'while :; do i=$((i + 1)); leasectl acquire --pool "$1" --job "$2-$i" --print lease || ' + otherwise + '; done'
        return self.run_in('n1', 'sh', '-c', script, 'sh', pool, f'full-{self.next_number()}', timeout=300)

    def empty(self, folder):
        self.ok('n1', 'sh', '-c', 'rm -f $1/filler $1/filler2 $1/more', 'sh', folder)

    def test_disk_of_leased(self):
        folder = '/var/lib/xce/leased'
        self.ok('n1', 'systemctl', 'stop', 'leased')
        self.cluster.mount_small('n1', folder, 24 << 20)
        self.ok('n1', 'systemctl', 'start', 'leased')
        self.wait_ready()
        self.make_pool('disk', FIRST + 8192, FIRST + 16383, '--cooldown', '1s')
        held = [self.acquire(pool='disk') for _ in range(5)]
        self.fill(folder)
        # What was reserved may take a few more; then comes the word.
        refusal = self.acquire_until('disk', 'exit $?')
        acknowledged = list(map(int, refusal.stdout.split()))
        self.assertEqual(refusal.returncode, 6, refusal.stderr)
        self.assertRegex(refusal.stderr, r'(?i)no space|disk.*full|full.*disk')
        self.assertIn(folder, refusal.stderr)
        for lease in held:
            self.assertEqual(self.names(lease['uid'])[0], lease['name'])
            self.assertEqual(self.state(lease), 'active')
        self.assertEqual(self.ok('n1', 'systemctl', 'is-active', 'leased'), 'active')
        # A crash while it is full: all that was acknowledged is there again.
        self.ok('n1', 'systemctl', 'kill', '--signal=KILL', '--kill-whom=main', 'leased')
        self.empty(folder)
        self.wait(lambda: self.run_in('n1', 'leasectl', 'list', '--json').returncode == 0, 30, 'leased answers')
        listed = {lease['lease'] for lease in self.json('n1', 'leasectl', 'list', '--all', '--json')['leases']}
        self.assertLessEqual({lease['lease'] for lease in held} | set(acknowledged), listed)
        self.wait_ready()
        self.acquire(pool='disk')

    def test_disk_of_leased_goes_on_by_itself(self):
        folder = '/var/lib/xce/leased'
        pid = self.ok('n1', 'systemctl', 'show', '-P', 'MainPID', 'leased')
        self.fill_until_refused(folder)
        self.empty(folder)
        self.wait(lambda: self.run_in('n1', 'leasectl', 'acquire', '--pool', 'main', '--job', f'room-{self.next_number()}').returncode == 0,
                  30, 'leases are granted again')
        self.assertEqual(self.ok('n1', 'systemctl', 'show', '-P', 'MainPID', 'leased'), pid, 'without a restart')

    def fill_until_refused(self, folder):
        if self.run_in('n1', 'mountpoint', '-q', folder).returncode != 0:
            self.ok('n1', 'systemctl', 'stop', 'leased')
            self.cluster.mount_small('n1', folder, 24 << 20)
            self.ok('n1', 'systemctl', 'start', 'leased')
            self.wait_ready()
        self.fill(folder)
        self.assertEqual(self.acquire_until('main', '[ $? != 6 ] || exit 0').returncode, 0, 'leased says that the disk is full')


class FullRun(LeaseCase):
    """/run under noded: a map that does not fit is refused whole, and what was there goes on."""

    range = (FIRST, FIRST + 255)

    def test_run_of_noded(self):
        self.ok('n1', 'systemctl', 'stop', 'noded')
        # With what is there copied into it; 128 bytes a uid and a page: `main` fits, 65,536 uids do not.
        self.ok('n1', 'sh', '-c', 'mkdir /tmp/keep && cp -a /run/xce/. /tmp/keep/ && mount -t tmpfs -o size=1m,mode=0755 tmpfs /run/xce'
                ' && cp -a /tmp/keep/. /run/xce/')
        self.ok('n1', 'systemctl', 'restart', 'leased', 'noded')
        self.wait_ready()
        lease = self.acquire()
        self.make_pool('big', FIRST + (1 << 17), FIRST + (1 << 17) + 65535, '--cooldown', '1s', '--ready-timeout', '3s')
        big = self.run_in('n1', 'leasectl', 'acquire', '--pool', 'big', '--job', 'b1', '--wait', '--timeout', '60s')
        self.assertNotEqual(big.returncode, 0, 'ready without a map')
        self.assertEqual(self.ok('n1', 'systemctl', 'is-active', 'noded'), 'active')
        self.assertEqual(self.names(lease['uid'])[0], lease['name'])
        self.wait(lambda: re.search(r'(?i)/run/xce.*(no space|full)', self.journal('n1', 'noded', 1000)), 10, 'noded says why')
        self.acquire()
        self.ok('n1', 'mount', '-o', 'remount,size=64m', '/run/xce')
        self.wait(lambda: self.run_in('n1', 'leasectl', 'acquire', '--pool', 'big', '--job', f'b{self.next_number()}', '--wait',
                                      '--timeout', '20s').returncode == 0, 90, 'leases of the big pool are granted')
        self.assertEqual(self.names(lease['uid'])[0], lease['name'])


lib.main()
