"""Calls made by another local user, as bytes: what comes back is compared byte for byte.

A Caller is a process under that user's uid and gid that holds one channel; it is told what to call by lines of JSON. Started
as a program, this is that process: caller.py TARGET."""
import json
import os
import pwd
import subprocess
import sys
import threading

import grpc

KINDS = ("unary_unary", "unary_stream", "stream_stream")


class Answer:
    """How a call ended, with all that the caller can see of it."""

    def __init__(self, said):
        self.code, self.text = said["code"], said["text"]
        self.initial, self.trailing = said["initial"], said["trailing"]
        self.replies = [bytes.fromhex(r) for r in said["replies"]]

    def seen(self):
        return (self.code, self.text, self.initial, self.trailing, self.replies)

    def __repr__(self):
        return "%s %r, %d replies" % (self.code, self.text, len(self.replies))


class Caller:
    def __init__(self, target, user):
        who = pwd.getpwnam(user)
        self.user, self.uid, self.gid = user, who.pw_uid, who.pw_gid
        self.process = subprocess.Popen(
            ["setpriv", "--reuid", str(self.uid), "--regid", str(self.gid), "--clear-groups", "/usr/bin/python3", "-B",
             os.path.abspath(__file__), target], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def begin(self, path, message=b"", kind="unary_unary", timeout=60, replies=0):
        """replies: a stream is cancelled after so many; 0 = not."""
        self.process.stdin.write(json.dumps({"path": path, "message": message.hex(), "kind": kind, "timeout": timeout,
                                             "replies": replies}) + "\n")
        self.process.stdin.flush()

    def _read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the caller %s is gone" % self.user)
        return json.loads(line)

    def reply(self):
        """The next message of a stream under way."""
        return bytes.fromhex(self._read()["reply"])

    def end(self):
        said = self._read()
        while "reply" in said:
            said = self._read()
        return Answer(said)

    def call(self, *args, **more):
        self.begin(*args, **more)
        return self.end()

    def close(self):
        self.process.stdin.close()
        self.process.kill()  # a call may be under way
        self.process.wait()
        self.process.stdout.close()


class TlsCaller:
    """The same for who has a certificate: it needs no process of its own."""

    def __init__(self, target, ca, certificate, key):
        texts = []
        for path in (ca, key, certificate):
            with open(path, "rb") as f:
                texts.append(f.read())
        self.channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(*texts),
                                           options=[("grpc.ssl_target_name_override", "localhost"),
                                                    ("grpc.use_local_subchannel_pool", 1)])

    def call(self, path, message=b"", kind="unary_unary", timeout=60, replies=0):
        return Answer(perform(self.channel, {"path": path, "message": message.hex(), "kind": kind, "timeout": timeout,
                                             "replies": replies}))

    def close(self):
        self.channel.close()


def pairs(metadata):
    return sorted([k, v if isinstance(v, str) else v.hex()] for k, v in metadata or ())


def perform(channel, ask, tell=lambda reply: None):
    """One call, as the lines want it."""
    message, kind = bytes.fromhex(ask["message"]), ask["kind"]
    call, replies, over = None, [], threading.Event()

    def say():
        yield message
        over.wait()  # our side stays open

    try:
        if kind == "unary_unary":
            reply, call = getattr(channel, kind)(ask["path"]).with_call(message, timeout=ask["timeout"])
            replies = [reply]
        else:
            call = getattr(channel, kind)(ask["path"])(say() if kind == "stream_stream" else message,
                                                       timeout=ask["timeout"])
            for reply in call:
                replies.append(reply)
                tell(reply)
                if len(replies) == ask["replies"]:
                    call.cancel()
    except grpc.RpcError as error:
        call = error
    finally:
        over.set()
    return {"code": call.code().name, "text": call.details(), "initial": pairs(call.initial_metadata()),
            "trailing": pairs(call.trailing_metadata()), "replies": [r.hex() for r in replies]}


def main():
    with grpc.insecure_channel(sys.argv[1]) as channel:
        def tell(reply):
            print(json.dumps({"reply": reply.hex()}), flush=True)

        for line in sys.stdin:
            print(json.dumps(perform(channel, json.loads(line), tell)), flush=True)


if __name__ == "__main__":
    main()
