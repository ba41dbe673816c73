#!/usr/bin/python3
"""scripts/demo: exit 0, each command shown before it runs, and this machine as it was before."""
import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get('XCE_BUILD', f'{ROOT}/build')


def read(path):
    try:
        with open(path, errors='replace') as f:
            return f.read()
    except OSError as e:
        return type(e).__name__


def commands():
    """Command lines of what the demo starts; clusters of other tests may come and go meanwhile."""
    lines = [read(f'/proc/{pid}/cmdline').replace('\0', ' ') for pid in os.listdir('/proc') if pid.isdigit()]
    return sorted(line for line in lines if re.search(r'\bdemo\d+\b', line))


def others(name):
    """Whether it belongs to another cluster."""
    return re.search(r'xce-vcluster|^xce-(?!demo)', name) and not re.search(r'\bdemo\d+\b', name)


def machine():
    """What of this machine the demo might have touched."""
    mounts = sorted(line.split()[4] + ' ' + line.split(' - ')[1] for line in read('/proc/self/mountinfo').splitlines())
    return {
        'nsswitch': read('/etc/nsswitch.conf'),
        'users': read('/etc/passwd') + read('/etc/group') + read('/etc/subuid') + read('/etc/subgid'),
        'mounts': [m for m in mounts if not others(m)],
        'processes': commands(),
        'namespaces': [n for n in sorted(os.listdir('/run/netns')) if re.search('demo', n)]
        if os.path.isdir('/run/netns') else [],
        'links': sorted(os.listdir('/sys/class/net')),
        'etc': sorted(os.listdir('/etc')),
        'run': sorted(e for e in os.listdir('/run') if 'demo' in e or e == 'xce'),
        'lib': sorted(e for e in os.listdir('/var/lib') if 'xce' in e),
        'modules': [e for e in os.listdir('/usr/lib/x86_64-linux-gnu') if 'xce' in e]
        if os.path.isdir('/usr/lib/x86_64-linux-gnu') else [],
        'core_pattern': read('/proc/sys/kernel/core_pattern'),
    }


class DemoTest(unittest.TestCase):
    maxDiff = None

    def run_demo(self, *args):
        return subprocess.run([f'{ROOT}/scripts/demo', *args], capture_output=True, text=True, timeout=1800,
                              stdin=subprocess.DEVNULL, cwd='/')

    def test_demo_does_the_main_job_and_leaves_the_machine_as_it_was(self):
        before = machine()
        demo = self.run_demo('--build', BUILD)
        self.assertEqual(demo.returncode, 0, demo.stdout[-3000:] + demo.stderr[-3000:])
        after = machine()
        for what in before:
            self.assertEqual(before[what], after[what], what)
        for command in ('n1# leasectl pool create ', 'n1# leasectl acquire ', 'n1# getent passwd 2013265920',
                        'n1# systemd-run ', 'n1# leasectl release ', 'n1# leasectl history '):
            self.assertIn(command, demo.stdout)
        self.assertIn('uid=2013265920(xce-1w00000-1)', demo.stdout)
        self.assertRegex(demo.stdout, r'uid 2013265920 is free; its last epoch was 1')

    def test_demo_names_what_it_does_not_understand(self):
        demo = self.run_demo('--nonsense')
        self.assertEqual(demo.returncode, 2)
        self.assertIn('--nonsense', demo.stderr)


if __name__ == '__main__':
    if os.geteuid() != 0:
        print('skip: needs root: it boots a container')
        sys.exit(77)
    unittest.main()
