#!/usr/bin/python3
"""Clients of leased, run in a machine by test_crash.py: acquire, ask again, hold, release, until the stop file is there.

usage: load.py CLIENTS POOL RUN OUT STOP

OUT gets a JSON object a line, written before the next step begins, so that what stands there was acknowledged:
{"ev": acquired | again | releasing | released | failed, "t": monotonic seconds, "client", "rid", "lease", "uid", "epoch", ...}
Jobs are named RUN-CLIENT-NUMBER. An answer that does not come (exit 4 or 5) is asked for again under the same request id,
as a client must. A refusal because the node is `unknown` is an answer: another request comes after it.
"""
import json
import os
import random
import subprocess
import sys
import threading
import time
import uuid

CLIENTS, POOL, RUN, OUT, STOP = int(sys.argv[1]), *sys.argv[2:6]
PATIENCE = 90


class Load:
    def __init__(self):
        self.out = open(OUT, 'a', encoding='utf-8', buffering=1)
        self.lock = threading.Lock()

    def record(self, ev, **fields):
        with self.lock:
            self.out.write(json.dumps({'ev': ev, 't': time.monotonic(), **fields}) + '\n')

    def call(self, client, *args):
        """What leasectl answers in the end: (exit code, stdout). None when it never does."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            done = subprocess.run(['leasectl', *args], capture_output=True, text=True, stdin=subprocess.DEVNULL)
            if done.returncode not in (4, 5):
                break
            time.sleep(0.05)
        else:
            self.record('failed', client=client, args=args, why='no answer in time', said=done.stdout + done.stderr)
            return None
        # A node whose noded was killed takes no new lease until it has looked.
        if done.returncode == 1 and 'is unknown' in done.stdout + done.stderr:
            time.sleep(0.1)
            return None
        if done.returncode != 0:
            self.record('failed', client=client, args=args, why=f'exit {done.returncode}', said=done.stdout + done.stderr)
            return None
        return done.stdout

    def round(self, client, number):
        rid = uuid.uuid4().hex
        wait = ['--wait'] if number % 2 else []
        acquire = ['acquire', '--pool', POOL, '--job', f'{RUN}-{client}-{number}', '--request-id', rid, *wait, '--json']
        answers = []
        for ev in ('acquired', 'again'):
            text = self.call(client, *acquire)
            if text is None:
                return
            lease = json.loads(text)
            answers.append((lease['lease'], lease['uid'], lease['epoch']))
            self.record(ev, client=client, rid=rid, waited=bool(wait), **{k: lease[k] for k in ('lease', 'uid', 'epoch', 'name', 'state')})
        if answers[0] != answers[1]:
            self.record('failed', client=client, args=acquire, why=f'two answers to one request: {answers}', said='')
        if random.random() < 0.1:
            return  # held to the end
        time.sleep(random.random() * 0.2)
        self.record('releasing', client=client, rid=rid, lease=lease['lease'], uid=lease['uid'], epoch=lease['epoch'])
        if self.call(client, 'release', '--lease', str(lease['lease'])) is not None:
            self.record('released', client=client, rid=rid, lease=lease['lease'], uid=lease['uid'], epoch=lease['epoch'])

    def client(self, client):
        number = 0
        while not os.path.exists(STOP):
            number += 1
            self.round(client, number)


load = Load()
threads = [threading.Thread(target=load.client, args=(i,)) for i in range(CLIENTS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
