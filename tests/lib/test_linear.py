#!/usr/bin/python3
"""linear.py accepts what can have happened and rejects what can not."""
import collections
import json
import os
import random
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import linear


def lines(text):
    """A history in short: `1 acquire j`, `1 ok 5`, `2 release j 5`, `3 get j`, `3 none`; a uid and epoch may follow ok."""
    history = []
    for item in text.split(","):
        op, word, *more = item.split()
        line = {"op": int(op)}
        if word in linear.RESULTS:
            line.update(call=word, job=more[0])
            more = more[1:]
        else:
            line.update(result=word)
        line.update(zip(("lease", "uid", "epoch"), map(int, more)))
        history.append(json.dumps(line))
    return history


ACCEPTED = {
    "empty": "1 get j, 1 none",
    "one after the other": "1 acquire j, 1 ok 5, 2 get j, 2 ok 5, 3 release j 5, 3 ok, 4 get j, 4 none",
    "get at the same time sees it": "1 acquire j, 2 get j, 2 ok 5, 1 ok 5",
    "get at the same time does not see it": "1 acquire j, 2 get j, 2 none, 1 ok 5",
    "two ask, one gets it": "1 acquire j, 2 acquire j, 2 exists, 1 ok 5",
    "released in between": "1 acquire j, 1 ok 5, 2 release j 5, 3 acquire j, 3 ok 6, 2 ok",
    "released twice": "1 acquire j, 1 ok 5, 2 release j 5, 2 ok, 3 release j 5, 3 ok, 4 acquire j, 4 ok 6",
    "late release of an older lease": "1 acquire j, 1 ok 5, 2 release j 5, 2 ok, 3 acquire j, 3 ok 6, 4 release j 5, 4 ok, 5 get j, 5 ok 6",
    "unknown was done": "1 acquire j, 1 unknown, 2 get j, 2 ok 5",
    "unknown was not done": "1 acquire j, 1 unknown, 2 get j, 2 none, 3 acquire j, 3 ok 5",
    "unknown was done later": "1 acquire j, 1 unknown, 2 get j, 2 none, 3 get j, 3 ok 5",
    "no answer at all": "1 acquire j, 2 acquire j, 2 exists",
    "unknown release was done": "1 acquire j, 1 ok 5, 2 release j 5, 2 unknown, 3 get j, 3 none",
    "unknown release was not done": "1 acquire j, 1 ok 5, 2 release j 5, 2 unknown, 3 get j, 3 ok 5",
    "unknown lease is released": "1 acquire j, 1 unknown, 2 get j, 2 ok 5, 3 release j 5, 3 ok, 4 acquire j, 4 ok 6",
    "failed does not count": "1 acquire j, 1 failed, 2 get j, 2 none",
    "jobs do not hinder each other": "1 acquire j, 1 ok 5, 2 acquire k, 2 ok 6, 3 get j, 3 ok 5",
    "epochs of one uid": "1 acquire j, 1 ok 5 7 1, 2 release j 5, 2 ok, 3 acquire j, 3 ok 6 7 2",
}

REJECTED = {
    "lost": "1 acquire j, 1 ok 5, 2 get j, 2 none",
    "stale": "1 acquire j, 1 ok 5, 2 release j 5, 2 ok, 3 get j, 3 ok 5",
    "back again": "1 acquire j, 2 get j, 2 ok 5, 3 get j, 3 none, 1 ok 5",
    "two have it": "1 acquire j, 1 ok 5, 2 acquire j, 2 ok 6",
    "two have it at the same time": "1 acquire j, 2 acquire j, 1 ok 5, 2 ok 6",
    "exists, but nobody has it": "1 acquire j, 1 exists",
    "exists after the release": "1 acquire j, 1 ok 5, 2 release j 5, 2 ok, 3 acquire j, 3 exists",
    "another lease than the one given": "1 acquire j, 1 ok 5, 2 get j, 2 ok 6",
    "done twice": "1 acquire j, 1 ok 5, 2 release j 5, 2 ok, 3 get j, 3 ok 6",
    "unknown, done twice": "1 acquire j, 1 unknown, 2 get j, 2 ok 5, 3 release j 5, 3 ok, 4 get j, 4 ok 6",
    "unknown release of what is given later": "1 acquire j, 1 ok 5, 2 release j 5, 2 unknown, 3 get j, 3 none, 4 get j, 4 ok 5",
    "a lease of another job": "1 acquire j, 1 ok 5, 2 acquire k, 2 unknown, 3 get k, 3 ok 5",
    "the same lease for two jobs": "1 acquire j, 1 ok 5, 2 acquire k, 2 ok 5",
    "the same epoch twice": "1 acquire j, 1 ok 5 7 1, 2 acquire k, 2 ok 6 7 1",
    "an epoch that goes back": "1 acquire j, 1 ok 5 7 2, 2 release j 5, 2 ok, 3 acquire j, 3 ok 6 7 1",
}

NO_HISTORY = {
    "not JSON": ["{"], "no op": ['{"call": "get", "job": "j"}'], "another call": ['{"op": 1, "call": "put", "job": "j"}'],
    "begins twice": lines("1 get j, 1 get j"), "ends without a beginning": lines("1 none"),
    "ends twice": lines("1 get j, 1 none, 1 none"), "another's result": lines("1 get j, 1 exists"),
    "ok of nothing": lines("1 get j, 1 ok"), "release of nothing": lines("1 release j, 1 ok"), "a list": ["[]"],
}


class LinearTest(unittest.TestCase):
    def test_accepts_what_can_be(self):
        for name, text in ACCEPTED.items():
            with self.subTest(name):
                linear.check(lines(text))

    def test_rejects_what_can_not_be(self):
        for name, text in REJECTED.items():
            with self.subTest(name), self.assertRaises(linear.NotLinearizable):
                linear.check(lines(text))

    def test_refuses_what_is_no_history(self):
        for name, text in NO_HISTORY.items():
            with self.subTest(name), self.assertRaises(linear.NotAHistory):
                linear.check(text)

    def test_says_which_operation_and_job(self):
        with self.assertRaisesRegex(linear.NotLinearizable, "job j: after .*1 acquire of j -> ok lease 5.* operation 2, get of j -> none"):
            linear.check(lines(REJECTED["lost"]))

    def run_against_register(self, seed, spoil):
        """Many clients of a register that does one thing at a time; each thing at some moment between call and answer."""
        chance, state, history = random.Random(seed), {}, []
        busy, number, lease, known = {}, 0, 100, collections.defaultdict(list)
        while number < 400 or busy:
            client = chance.randrange(8)
            if client not in busy and number < 400:
                number += 1
                job = "j%d" % chance.randrange(4)
                call = chance.choice(["acquire", "get", "release"])
                line = {"op": number, "call": call, "job": job}
                if call == "release":
                    if not known[job]:
                        continue
                    line["lease"] = chance.choice(known[job][-2:])
                history.append(dict(line))
                busy[client] = [line, None]
            elif client in busy and busy[client][1] is None:
                line = busy[client][0]
                has = state.get(line["job"], 0)
                if line["call"] == "acquire":
                    lease += 1
                    busy[client][1] = {"result": "exists"} if has else {"result": "ok", "lease": lease}
                    state[line["job"]] = has or lease
                elif line["call"] == "get":
                    busy[client][1] = {"result": "ok", "lease": has} if has else {"result": "none"}
                else:
                    busy[client][1] = {"result": "ok"}
                    if has == line["lease"]:
                        state[line["job"]] = 0
            elif client in busy:
                line, answer = busy.pop(client)
                lost = chance.random() < 0.05
                if "lease" in answer and not lost:
                    known[line["job"]].append(answer["lease"])
                history.append(dict(answer, op=line["op"]) if not lost else {"op": line["op"], "result": "unknown"})
        if spoil:
            jobs = {line["op"]: line["job"] for line in history if "call" in line}
            victim = chance.choice([line for line in history if line.get("result") == "none"])
            of_another = [line for line in history if line.get("result") == "ok" and line.get("lease", 0) > 100 and
                          jobs[line["op"]] != jobs[victim["op"]]]
            victim.update(result="ok", lease=chance.choice(of_another)["lease"])
        return [json.dumps(line) for line in history]

    def test_accepts_histories_of_a_register(self):
        for seed in range(30):
            with self.subTest(seed=seed):
                self.assertGreater(linear.check(self.run_against_register(seed, False)), 300)

    def test_rejects_histories_of_a_register_with_one_lie(self):
        for seed in range(30):
            with self.subTest(seed=seed), self.assertRaises(linear.NotLinearizable):
                linear.check(self.run_against_register(seed, True))


if __name__ == "__main__":
    unittest.main()
