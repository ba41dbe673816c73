"""What clients were told, held against what leased says in the end: nothing acknowledged is lost, nothing is given out twice.

Clients write an object a line, before their next step, so what stands there was told to somebody:
    acquiring {job}                  is asked for now
    acquired {job rid lease uid epoch name}
    again    {rid lease uid epoch}   the same request, asked once more (load.py), or {what code said} an attempt that had no
                                     answer and is made once more under its id (claimer)
    releasing, released {lease uid epoch}
    failed   {...}                   it ended with an error
Each has "t", seconds of the monotonic clock, which all machines of a cluster share with the test.
"""
import json


class Events:
    """The events in a file that may still grow; each is read once. A last line without its end is not there yet."""

    def __init__(self, path):
        self.path, self.read, self.events = path, 0, []

    def all(self):
        try:
            with open(self.path, 'rb') as f:
                f.seek(self.read)
                new = f.read()
        except FileNotFoundError:
            new = b''
        whole = new[:new.rfind(b'\n') + 1]
        self.read += len(whole)
        self.events += [json.loads(line) for line in whole.split(b'\n')[:-1]]
        return self.events

    def since(self, t):
        """Those after t, in order: each line bears the time at which it was written."""
        events = self.all()
        first = len(events)
        while first > 0 and events[first - 1]['t'] > t:
            first -= 1
        return events[first:]


class Oracle:
    """Goes through events in their order; test is a TestCase that is failed when they contradict each other."""

    def __init__(self, test, events):
        self.test = test
        self.granted = {}   # (uid, epoch) -> acquired
        self.held = {}      # uid -> acquired, of those that nobody has begun to release
        self.leaving = {}   # lease -> releasing, of those that may or may not be gone
        self.unanswered = set()  # jobs of acquires that have no answer yet
        self.failed, self.retried = [], []
        for e in events:
            self.take(e)

    def take(self, e):
        key = (e.get('uid'), e.get('epoch'))
        if e['ev'] == 'acquiring':
            self.unanswered.add(e['job'])
        elif e['ev'] == 'acquired':
            self.test.assertNotIn(key, self.granted, f'{key} was given to two requests')
            self.test.assertNotIn(e['uid'], self.held, f'{e["uid"]} was given out while held')
            self.granted[key] = self.held[e['uid']] = e
            self.unanswered.discard(e.get('job'))
        elif e['ev'] == 'again' and 'rid' in e:
            self.test.assertEqual((self.granted[key]['rid'], self.granted[key]['lease']), (e['rid'], e['lease']))
        elif e['ev'] == 'again':
            self.retried.append(e)
        elif e['ev'] == 'releasing':
            self.leaving[e['lease']] = self.held.pop(e['uid'])
        elif e['ev'] == 'released':
            self.leaving.pop(e['lease'], None)
        elif e['ev'] == 'failed':
            self.failed.append(e)
            # Of an attempt before, that had no answer, a refusal says nothing.
            if not any(r.get('job') == e.get('job') for r in self.retried):
                self.unanswered.discard(e.get('job'))

    def check(self, listed, may_fail=()):
        """listed: the leases that are not free, by id, as leased shows them now. may_fail: codes of errors that are in order."""
        test = self.test
        failed = [e for e in self.failed if e.get('code') not in may_fail]
        test.assertEqual(failed[:3], [], f'{len(failed)} requests failed')
        uids = [lease['uid'] for lease in listed.values()]
        test.assertEqual(len(uids), len(set(uids)), 'a uid has two leases')
        for e in self.held.values():
            test.assertIn(e['lease'], listed, f'{e["name"]} was acknowledged and is lost')
            lease = listed[e['lease']]
            test.assertEqual((lease['uid'], lease['epoch'], lease['name']), (e['uid'], e['epoch'], e['name']))
            test.assertIn(lease['state'], ('granted', 'active'), f'{e["name"]} has ended by itself: {lease}')
        known = {e['lease'] for e in self.held.values()} | set(self.leaving)
        for lease in listed.values():
            if lease['state'] in ('granted', 'active') and lease['job'] not in self.unanswered:
                test.assertIn(lease['lease'], known, f'{lease["name"]} ({lease["job"]}) is held by nobody who knows')


class Lives:
    """Every change of every lease, as watchers were told it, in the order of revisions: no uid has two leases, epochs go up by one,
    states follow each other as they may, and nothing goes on to be free without the proof of each member.

    lines: of one watcher or of several of the same cluster; what several were told of one revision is the same."""
    MAY_FOLLOW = {'granted': ('active', 'draining'), 'active': ('draining',), 'draining': ('normalising', 'cooling'),
                  'normalising': ('draining', 'cooling'), 'cooling': ('draining', 'retired'), 'retired': ('draining', 'free'), 'free': ()}
    SAME = ('lease', 'uid', 'epoch', 'name', 'job', 'state', 'members', 'reasons', 'cause')

    def __init__(self, test, lines=()):
        self.test = test
        self.changes = {}   # by revision
        self.last = {}      # uid -> the last that was told of it
        self.leases = {}    # lease -> uid, epoch, name
        self.differ = []    # what two were told of one revision
        self.skipped = 0
        for line in list(lines):
            self.add(line)

    def add(self, line):
        """From the threads of watchers: nothing is judged yet."""
        if 'lease' not in line:
            self.skipped += line['event'] == 'skipped'
            return
        kept = {k: line[k] for k in (*self.SAME, 'changed')}
        first = self.changes.setdefault(line['revision'], kept)
        if any(first[k] != kept[k] for k in self.SAME):
            self.differ.append((first, kept))
        self.last[line['uid']] = max(self.last.get(line['uid'], (0, None)), (line['revision'], kept), key=lambda known: known[0])

    def check(self):
        """All that was told is in order."""
        self.test.assertEqual(self.differ[:1], [], 'two replicas differ')
        self.last, told = {}, self.last
        for revision, line in sorted(self.changes.items()):
            self.take(line)
            self.last[line['uid']] = (revision, line)
        self.test.assertEqual(self.last, told)

    def take(self, line):
        _, before = self.last.get(line['uid'], (0, None))
        if not before:
            pass
        elif before['lease'] != line['lease']:
            self.test.assertEqual(before['state'], 'free', f'{line["uid"]} was given out while held: {before}, {line}')
            self.test.assertEqual((line['epoch'], line['state']), (before['epoch'] + 1, 'granted'), line)
        elif before["state"] != line["state"]:
            self.test.assertIn(line['state'], self.MAY_FOLLOW[before['state']], f'{before}, {line}')
        self.proofs(line)
        self.leases[line['lease']] = (line['uid'], line['epoch'], line['name'])

    def proofs(self, line):
        proofs = {m['node']: m['proof'] for m in line['members'] if line['state'] != 'active' or not m['released']}
        if line['state'] in ('cooling', 'retired', 'free'):
            self.test.assertLessEqual(set(proofs.values()), {'clean', 'fenced'}, line)
        elif line['state'] == 'active':
            self.test.assertEqual(set(proofs.values()), {'ready'}, line)
