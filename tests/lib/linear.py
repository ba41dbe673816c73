#!/usr/bin/python3
"""Whether a history of acquire, release and get could have happened one after the other: linearizability.

usage: linear.py HISTORY     prints what it found; exit 0 it could, 1 it could not, 2 it is no history

A history is one JSON object a line, in the order in which things happened as whoever wrote it saw them (one process, or one
clock): a line when an operation begins, another when its answer is there.

  {"op": 7, "call": "acquire", "job": "j1"}              op: a number of its own; call: acquire, release, get
  {"op": 7, "result": "ok", "lease": 12, "uid": 2013265920, "epoch": 3}
  {"op": 8, "call": "release", "job": "j1", "lease": 12}
  {"op": 8, "result": "ok"}
  {"op": 9, "call": "get", "job": "j1"}                  which lease has that job now?
  {"op": 9, "result": "none"}                            or "ok" with the lease

results: acquire ok, exists (somebody has the job); release ok; get ok, none. "failed": it is certain that nothing was done,
such operations are left out. "unknown", or no second line at all: it was done or not, at any time from its call on. A job is
used by one owner, and its leases end by release alone (no ttl, ready timeouts longer than the run).

The search is that of Wing and Gong (Testing and verifying concurrent objects, JPDC 17, 1993), with the memory of states and
sets of operations by Lowe (Testing for linearizability, Concurrency and Computation 29(4), 2017). Each job is an object of its
own: a history is linearizable if it is for each object (Herlihy and Wing, TOPLAS 12(3), 1990). Beside that, over all jobs:
no lease number twice, and of one uid a later epoch for whoever asked later."""
import json
import sys
from collections import defaultdict, namedtuple

Operation = namedtuple("Operation", "op call job lease result uid epoch begin end")  # end None = it may never have been done
NEVER = None
SOME = "some"  # a lease whose number nobody was told: (SOME, op)


class NotAHistory(Exception):
    pass


class NotLinearizable(Exception):
    pass


# ---- reading ----

RESULTS = {"acquire": {"ok", "exists"}, "release": {"ok"}, "get": {"ok", "none"}}


def _begin(line, number):
    if line["call"] not in RESULTS or not isinstance(line.get("job"), str):
        raise NotAHistory("line %d: an acquire, release or get of a job is wanted" % number)
    if line["call"] == "release" and "lease" not in line:
        raise NotAHistory("line %d: a release says of which lease" % number)


def read(lines):
    """The operations of a history, in the order of their calls."""
    calls, ends = {}, {}
    for number, text in enumerate(lines, 1):
        try:
            line = json.loads(text)
            op = line["op"]
            if "call" in line:
                _begin(line, number)
                if op in calls:
                    raise NotAHistory("line %d: operation %s begins twice" % (number, op))
                calls[op] = (number, line)
            elif op not in calls or op in ends:
                raise NotAHistory("line %d: operation %s ends, but is not under way" % (number, op))
            else:
                if line["result"] not in RESULTS[calls[op][1]["call"]] | {"failed", "unknown"}:
                    raise NotAHistory("line %d: no %s ends with %s" % (number, calls[op][1]["call"], line["result"]))
                ends[op] = (number, line)
        except (ValueError, KeyError, TypeError) as error:
            raise NotAHistory("line %d: %s" % (number, error)) from error
    return [_join(op, calls[op], ends.get(op)) for op in calls
            if op not in ends or ends[op][1]["result"] != "failed"]


def _join(op, call, end):
    begin, asked = call
    number, told = end or (NEVER, {"result": "unknown"})
    if told["result"] == "unknown":
        number = NEVER
    lease = asked.get("lease", told.get("lease"))
    if told["result"] == "ok" and lease is None:
        raise NotAHistory("line %d: ok, but which lease?" % number)
    return Operation(op, asked["call"], asked["job"], lease, told["result"], told.get("uid"), told.get("epoch"), begin, number)


# ---- one job ----

def step(state, o, named):
    """The state after the operation, or NEVER if it could not have its result there. A state is the lease that has the job; 0 = none.
    named: leases of which it is known what acquired them."""
    unnamed = isinstance(state, tuple)
    if o.call == "acquire":
        if o.result == "ok":
            return o.lease if state == 0 else NEVER
        if o.result == "exists":
            return state if state != 0 else NEVER
        return (SOME, o.op) if state == 0 else state
    if o.call == "release":  # of a lease that has ended: nothing, and that is ok; who releases it was told its number
        return 0 if state == o.lease else state
    if o.result == "unknown":
        return state
    if o.result == "none":
        return state if state == 0 else NEVER
    if unnamed:  # now it has a name, unless that is another's
        return o.lease if o.lease not in named else NEVER
    return state if state == o.lease else NEVER


class _Entry:
    """In the list of calls and returns that are not yet placed."""
    __slots__ = ("o", "bit", "match", "before", "after")

    def __init__(self, o, bit, match=None):
        self.o, self.bit, self.match, self.before, self.after = o, bit, match, None, None

    def out(self):
        self.before.after = self.after
        if self.after:
            self.after.before = self.before

    def back(self):
        self.before.after = self
        if self.after:
            self.after.before = self


def _entries(operations):
    events = []
    for bit, o in enumerate(operations):
        end = _Entry(o, bit) if o.end is not NEVER else None
        events.append((o.begin, _Entry(o, bit, end)))
        if end:
            events.append((o.end, end))
    head = at = _Entry(None, -1)
    for _, entry in sorted(events, key=lambda event: event[0]):
        at.after, entry.before = entry, at
        at = entry
    return head


def check_job(operations, named):
    """None if there is an order; else the longest one found, and the operation that had to come next and could not."""
    head = _entries(operations)
    calls = {id(e) for e in _walk(head) if e.match or e.o.end is NEVER}
    todo = sum(1 for o in operations if o.end is not NEVER)
    state, done, seen, placed = 0, 0, set(), []
    best = ([], None)
    entry = head.after
    while todo:
        if id(entry) in calls:
            after = step(state, entry.o, named)
            key = (done | 1 << entry.bit, after)
            if after is not NEVER and key not in seen:
                seen.add(key)
                placed.append((entry, state))
                state, done = after, key[0]
                todo -= entry.match is not None
                entry.out()
                if entry.match:
                    entry.match.out()
                entry = head.after
            else:
                entry = entry.after
            continue
        if len(placed) >= len(best[0]):
            best = ([e.o for e, _ in placed], entry.o)
        if not placed:
            return best
        entry, state = placed.pop()  # it returned without a place: back, and on from there
        done &= ~(1 << entry.bit)
        todo += entry.match is not None
        if entry.match:
            entry.match.back()
        entry.back()
        entry = entry.after
    return None


def _walk(head):
    at = head.after
    while at:
        yield at
        at = at.after


# ---- all of it ----

def _say(o):
    return "%s of %s%s -> %s%s" % (o.call, o.job, " (lease %s)" % o.lease if o.call == "release" else "", o.result,
                                   " lease %s" % o.lease if o.result == "ok" and o.call != "release" else "")


def _check_numbers(operations):
    granted = [o for o in operations if o.call == "acquire" and o.result == "ok"]
    leases, by_uid = {}, defaultdict(list)
    for o in granted:
        if o.lease in leases:
            raise NotLinearizable("lease %s was given by operations %s and %s" % (o.lease, leases[o.lease], o.op))
        leases[o.lease] = o.op
        if o.uid is not None:
            by_uid[o.uid].append(o)
    for uid, held in by_uid.items():
        epochs = defaultdict(list)
        for o in held:
            epochs[o.epoch].append(o.op)
        for epoch, ops in epochs.items():
            if len(ops) > 1:
                raise NotLinearizable("uid %s was given under epoch %s by operations %s" % (uid, epoch, ops))
        held.sort(key=lambda o: o.epoch)
        latest = held[0]
        for o in held[1:]:
            if o.end < latest.begin:
                raise NotLinearizable("uid %s: operation %s got epoch %s before operation %s, which got %s, was asked for" % (
                    uid, o.op, o.epoch, latest.op, latest.epoch))
            latest = max(latest, o, key=lambda p: p.begin)


def check(lines):
    """Raises NotLinearizable, which says why, or NotAHistory. Returns how many operations there were."""
    operations = read(lines)
    _check_numbers(operations)
    named = {o.lease for o in operations if o.call == "acquire" and o.result == "ok"}
    by_job = defaultdict(list)
    for o in operations:
        by_job[o.job].append(o)
    for job in sorted(by_job):
        wrong = check_job(by_job[job], named)
        if wrong:
            order, stuck = wrong
            raise NotLinearizable("job %s: after %s there is no place for operation %s, %s" % (
                job, "; ".join("%s %s" % (o.op, _say(o)) for o in order[-5:]) or "nothing", stuck.op, _say(stuck)))
    return len(operations)


def main():
    try:
        with open(sys.argv[1], encoding="utf-8") as history:
            print("linearizable: %d operations" % check(history))
    except NotLinearizable as error:
        print("not linearizable: %s" % error)
        return 1
    except (NotAHistory, OSError) as error:
        print("linear.py: %s" % error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
