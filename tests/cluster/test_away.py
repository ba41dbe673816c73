#!/usr/bin/python3
"""leased and noded stopped, or stuck: names go on, look-ups of others cost nothing, the machine boots, useradd works."""
import lib
from leases import LeaseCase

# Wall time of one look-up in a fresh process, ms, and its exit code.
LOOK_UP = 'b=$(date +%s%N); getent passwd "$1" >/dev/null; r=$?; e=$(date +%s%N); echo $r $(((e - b) / 1000000))'


class Away(LeaseCase):
    def is_quick(self, key, code):
        """A look-up takes 50 ms at most beyond one of root, which asks nobody but a file: if not the first time then one of twenty, as
        this machine is shared, and one that waits does so each time."""
        seen = []

        def quick():
            found = [tuple(map(int, self.ok('n1', 'sh', '-c', LOOK_UP, 'sh', k).split())) for k in ('root', key)]
            self.assertEqual([exit for exit, _ in found], [0, code])
            seen.append([ms for _, ms in found])
            return seen[-1][1] <= seen[-1][0] + 50

        self.assertTrue(any(quick() for _ in range(20)), f'{key}: ms of root and of it: {seen}')

    def nothing_waits(self, lease):
        self.is_quick('nosuch', 2)
        self.is_quick(lease['uid'], 0)
        self.assertEqual(self.names(lease['uid'])[0], lease['name'])
        name = f'person{self.next_number()}'
        self.ok('n1', 'useradd', '-m', name, timeout=20)
        self.assertIn(name, self.ok('n1', 'id', name, timeout=20))
        self.ok('n1', 'userdel', '-r', name, timeout=20)
        done = self.run_in('n1', 'systemd-run', '--wait', '--pipe', '-q', '-p', f'User={lease["name"]}', 'id', '-un', timeout=20)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, lease['name']), done.stderr)

    def test_stopped(self):
        lease = self.acquire()
        self.ok('n1', 'systemctl', 'stop', 'leased', 'noded')
        self.addCleanup(self.ok, 'n1', 'systemctl', 'start', 'leased', 'noded')
        self.nothing_waits(lease)
        done = self.run_in('n1', 'leasectl', 'list', '--timeout', '5s')
        self.assertEqual(done.returncode, 4, done.stderr)

    def test_stuck(self):
        lease = self.acquire()
        for unit in ('leased', 'noded'):
            # Longer than the watchdog would let it be.
            self.ok('n1', 'systemctl', 'kill', '--signal=STOP', '--kill-whom=main', unit)
            self.addCleanup(self.ok, 'n1', 'systemctl', 'kill', '--signal=CONT', '--kill-whom=main', unit)
        self.nothing_waits(lease)

    def test_stuck_is_replaced(self):
        """systemd's watchdog ends what hangs, and its successor serves."""
        pids = {unit: self.ok('n1', 'systemctl', 'show', '-P', 'MainPID', unit) for unit in ('leased', 'noded')}
        for unit in pids:
            self.ok('n1', 'systemctl', 'kill', '--signal=STOP', '--kill-whom=main', unit)
        for unit, pid in pids.items():
            self.wait(lambda: self.ok('n1', 'systemctl', 'show', '-P', 'MainPID', unit) not in ('0', pid), 90, f'{unit} is replaced')
        self.wait_ready()
        self.release(self.acquire())

    def reboot(self):
        machine = self.cluster.machine('n1')
        machine.kill()
        machine.start()
        machine.wait_booted()

    def drop_in(self, unit, text):
        folder = f'/etc/systemd/system/{unit}.service.d'
        self.ok('n1', 'sh', '-c', 'mkdir -p $1 && cat >$1/test.conf && sync', 'sh', folder, input=text)
        self.addCleanup(self.ok, 'n1', 'sh', '-c', f'rm -r {folder} && systemctl daemon-reload')

    def test_boots_without_them(self):
        lease = self.acquire()
        for unit in ('leased', 'noded'):
            self.drop_in(unit, '[Unit]\nConditionPathExists=/no/such\n')
        self.reboot()
        self.assertEqual(self.run_in('n1', 'getent', 'passwd', 'nosuch').returncode, 2)
        self.assertEqual(self.run_in('n1', 'getent', 'passwd', lease['uid']).returncode, 2, 'no map, no name')
        self.ok('n1', 'systemd-run', '--wait', '-q', '-p', 'User=daemon', 'true')
        self.doCleanups()
        self.ok('n1', 'systemctl', 'start', 'leased', 'noded')
        self.wait_ready()

    def test_boots_with_them_stuck(self):
        for unit in ('leased', 'noded'):
            self.drop_in(unit, '[Service]\nExecStart=\nExecStart=/bin/sleep 1000\n')
        machine = self.cluster.machine('n1')
        machine.kill()
        machine.start()
        self.wait(machine.running, 30, 'systemd is there')
        # What waits for names waits for noded's TimeoutStartSec at most.
        self.wait(lambda: self.run_in('n1', 'systemctl', 'is-active', 'systemd-logind.service', 'systemd-user-sessions.service'
                                      ).stdout.split() == ['active'] * 2, 60, 'people can log in')
        self.assertEqual(self.run_in('n1', 'getent', 'passwd', 'nosuch', timeout=20).returncode, 2)
        self.doCleanups()
        self.ok('n1', 'systemctl', 'restart', 'leased', 'noded')
        self.wait_ready()

    def test_names_are_there_before_logind(self):
        """F39: after a boot noded is up before nss-user-lookup.target."""
        self.reboot()
        stamps = {unit: int(self.ok('n1', 'systemctl', 'show', '-P', 'ActiveEnterTimestampMonotonic', unit))
                  for unit in ('noded.service', 'nss-user-lookup.target')}
        self.assertGreater(stamps['noded.service'], 0)
        self.assertLessEqual(stamps['noded.service'], stamps['nss-user-lookup.target'])
        self.wait_ready()

    def test_paused_machine_comes_back(self):
        lease = self.acquire()
        machine = self.cluster.machine('n1')
        machine.freeze(True)
        machine.freeze(False)
        self.wait_ready()
        self.assertEqual(self.state(lease), 'active')
        self.release(lease)


lib.main()
