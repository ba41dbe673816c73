#!/usr/bin/python3
"""The gRPC layer as python3-grpcio, a client we did not write, sees it. usage: test_grpc.py GRPC_ECHO"""
import collections
import concurrent.futures
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import grpc

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import certs

ECHO = None


class Server:
    """grpc_echo on a socket in a folder of its own."""

    def __init__(self, *args):
        self.folder = tempfile.TemporaryDirectory(prefix='xce-test-grpc-')
        self.path = os.path.join(self.folder.name, 's')
        # What a sanitizer holds back is not the server's memory.
        options = os.environ.get('ASAN_OPTIONS', '') + ':quarantine_size_mb=4'
        self.process = subprocess.Popen([ECHO, self.path, *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=dict(os.environ, ASAN_OPTIONS=options))
        line = self.process.stdout.readline()
        assert line == 'ready\n', f'grpc_echo said {line!r}'

    def channel(self, *options):
        return grpc.insecure_channel('unix:' + self.path, options=[('grpc.use_local_subchannel_pool', 1), *options])

    def rss_kib(self):
        with open(f'/proc/{self.process.pid}/status', encoding='ascii') as f:
            return next(int(line.split()[1]) for line in f if line.startswith('VmRSS:'))

    def stop(self):
        """End it in order; its exit code, as sanitizers report by it."""
        self.process.stdin.close()
        try:
            code = self.process.wait(120)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.folder.cleanup()
        return code


class TlsServer(Server):
    """The same over mutual TLS on a port of loopback."""

    def __init__(self, *args):
        self.folder = tempfile.TemporaryDirectory(prefix='xce-test-grpc-')
        self.certs = certs.Certs(self.folder.name)
        self.user = self.certs.issue('user', 'alice')
        pair = self.certs.replica('a')
        with socket.create_server(('127.0.0.1', 0), backlog=1024) as listener:
            self.target = 'localhost:%d' % listener.getsockname()[1]
            # The server takes it as descriptor 3.
            self.process = subprocess.Popen(
                ['sh', '-c', 'fd=$1; shift; eval "exec 3<&$fd"; exec "$@"', 'sh', str(listener.fileno()), ECHO,
                 'tls:%s,%s,%s' % (*pair, self.certs.ca_pem), *map(str, args)], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, text=True, pass_fds=[listener.fileno()])
        line = self.process.stdout.readline()
        assert line == 'ready\n', f'grpc_echo said {line!r}'

    def channel(self, *options):
        return grpc.secure_channel(self.target, self.certs.credentials(self.user),
                                   options=[('grpc.use_local_subchannel_pool', 1), *options])


def eventually(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError('did not come about in time')
        time.sleep(0.01)


class Grpc(unittest.TestCase):
    make = Server

    def setUp(self):
        self.server = self.make()
        self.addCleanup(self.stop)
        self.channel = self.server.channel()
        self.addCleanup(self.channel.close)

    def stop(self):
        self.assertEqual(self.server.stop(), 0)

    def unary(self, method, channel=None):
        return (channel or self.channel).unary_unary('/test.Echo/' + method)

    def fails(self, code, call, *args, **kwargs):
        with self.assertRaises(grpc.RpcError) as caught:
            answer = call(*args, **kwargs)
            if isinstance(answer, collections.abc.Iterator):
                list(answer)
        self.assertEqual(caught.exception.code(), code, caught.exception)
        return caught.exception.details()

    def test_unary_gives_back_what_was_sent(self):
        for size in (0, 1, 5, 16379, 16384, 65535, 65536, 1 << 20):
            message = os.urandom(size)
            self.assertEqual(self.unary('Unary')(message, timeout=60), message)

    def test_unary_of_4_mib(self):
        options = [('grpc.max_receive_message_length', -1), ('grpc.max_send_message_length', -1)]
        with self.server.channel(*options) as channel:
            message = os.urandom(4 << 20)
            for _ in range(5):
                self.assertEqual(self.unary('Unary', channel)(message, timeout=30), message)

    def test_message_beyond_the_limit_is_refused_naming_it(self):
        with self.server.channel(('grpc.max_send_message_length', -1)) as channel:
            details = self.fails(grpc.StatusCode.RESOURCE_EXHAUSTED, self.unary('Unary', channel), bytes(5 << 20), timeout=60)
            self.assertIn('5242880', details)
            self.assertIn(str((4 << 20) + (64 << 10)), details)
            self.assertEqual(self.unary('Unary', channel)(b'still', timeout=60), b'still')

    def test_server_stream_comes_whole_and_in_order(self):
        stream = self.channel.unary_stream('/test.Echo/Stream')
        numbers = [int(m.split(b' ')[0]) for m in stream(b'20000 100', timeout=60)]
        self.assertEqual(numbers, list(range(20000)))

    def test_server_stream_of_nothing_is_ok(self):
        call = self.channel.unary_stream('/test.Echo/Stream')(b'0 0', timeout=60)
        self.assertEqual(list(call), [])
        self.assertEqual(call.code(), grpc.StatusCode.OK)

    def test_client_stream_is_gathered(self):
        gather = self.channel.stream_unary('/test.Echo/Gather')
        self.assertEqual(gather((b'x' * 100 for _ in range(5000)), timeout=60), b'5000 500000')
        self.assertEqual(gather(iter(()), timeout=60), b'0 0')

    def test_bidi_echoes_in_turns(self):
        outgoing = []
        ready = threading.Condition()

        def requests():
            for i in range(500):
                with ready:
                    ready.wait_for(lambda: len(outgoing) >= i)
                yield b'%d' % i

        for i, answer in enumerate(self.channel.stream_stream('/test.Echo/Bidi')(requests(), timeout=60)):
            self.assertEqual(answer, b'%d' % i)
            with ready:
                outgoing.append(answer)
                ready.notify()
        self.assertEqual(len(outgoing), 500)

    def test_bidi_floods_both_ways(self):
        message = bytes(10000)
        call = self.channel.stream_stream('/test.Echo/Bidi')((message for _ in range(3000)), timeout=60)
        self.assertEqual(sum(len(m) for m in call), 30000000)

    def test_deadline_passes_on_both_ends(self):
        begin = time.monotonic()
        self.fails(grpc.StatusCode.DEADLINE_EXCEEDED, self.unary('Hang'), b'', timeout=0.3)
        self.assertLess(time.monotonic() - begin, 30)
        eventually(lambda: self.unary('Ended')(b'', timeout=60) == b'1')

    def test_deadline_is_known_to_the_server(self):
        left = int(self.unary('Left')(b'', timeout=60))
        self.assertGreater(left, 1000)
        self.assertLessEqual(left, 60100)  # this client rounds up
        self.assertEqual(self.unary('Left')(b''), b'never')

    def test_cancel_ends_the_call_on_the_server(self):
        futures = [self.unary('Hang').future(b'') for _ in range(10)]
        eventually(lambda: self.unary('Ended')(b'', timeout=60) == b'0')
        for future in futures:
            future.cancel()
        eventually(lambda: self.unary('Ended')(b'', timeout=60) == b'10')

    def test_cancel_of_a_stream_stops_the_server(self):
        call = self.channel.unary_stream('/test.Echo/Stream')(b'100000000 10000')
        for _ in range(10):
            next(call)
        call.cancel()
        self.assertEqual(self.unary('Unary')(b'x', timeout=60), b'x')

    def test_connection_lost_ends_the_calls(self):
        other = self.server.channel()
        futures = [self.unary('Hang', other).future(b'') for _ in range(10)]
        self.assertEqual(self.unary('Unary', other)(b'x', timeout=60), b'x')
        other.close()
        eventually(lambda: self.unary('Ended')(b'', timeout=60) == b'10')
        self.assertEqual([f.code() for f in futures], [grpc.StatusCode.CANCELLED] * 10)

    def test_every_status_and_its_message(self):
        for code in grpc.StatusCode:
            number, _ = code.value
            if number == 0:
                continue
            for method in ('Fail', 'FailLate'):
                text = self.fails(code, self.channel.unary_stream('/test.Echo/' + method), b'%d why %d' % (number, number),
                                  timeout=60)
                self.assertEqual(text, 'why %d' % number)

    def test_message_of_a_status_is_utf8(self):
        for text in ('Ünïcödé – 日本語 🙂', '100% sure', 'line\nbreak\ttab', '%41', ''):
            self.assertEqual(self.fails(grpc.StatusCode.NOT_FOUND, self.unary('Fail'), b'5 ' + text.encode(), timeout=60), text)

    def test_message_of_a_status_that_is_no_utf8_is_mended(self):
        self.assertEqual(self.fails(grpc.StatusCode.NOT_FOUND, self.unary('Fail'), b'5 a\xffb\xc3', timeout=60), 'a\ufffdb\ufffd')

    def test_message_of_a_status_is_cut_at_a_character(self):
        text = self.fails(grpc.StatusCode.NOT_FOUND, self.unary('Fail'), b'5 a' + '日'.encode() * 1000, timeout=60)
        self.assertEqual(text, 'a' + '日' * 341)

    def test_metadata_reaches_the_server(self):
        answer = self.unary('Metadata')(b'x-thing', metadata=[('x-thing', 'a value'), ('x-other', 'b')], timeout=60)
        self.assertEqual(answer, b'a value')
        self.fails(grpc.StatusCode.NOT_FOUND, self.unary('Metadata'), b'x-none', timeout=60)

    def test_metadata_beyond_the_limit_is_refused_naming_it(self):
        big = [('x-big-%d' % i, 'v' * 1000) for i in range(30)]
        details = self.fails(grpc.StatusCode.RESOURCE_EXHAUSTED, self.unary('Metadata'), b'x', metadata=big, timeout=60)
        self.assertIn('16384', details)
        self.assertEqual(self.unary('Unary')(b'still', timeout=60), b'still')

    def test_peer_is_the_kernels_word(self):
        self.assertEqual(self.unary('Who')(b'', timeout=60), b'%d %d' % (os.getuid(), os.getpid()))

    def test_unknown_method_is_unimplemented_and_named(self):
        for path in ('/test.Echo/Nope', '/no.Such/Thing', '/x'):
            details = self.fails(grpc.StatusCode.UNIMPLEMENTED, self.channel.unary_unary(path), b'', timeout=60)
            self.assertIn(path, details)

    def test_compression_is_refused_and_named(self):
        call = self.channel.unary_unary('/test.Echo/Unary')
        details = self.fails(grpc.StatusCode.UNIMPLEMENTED, call, b'x' * 1000, compression=grpc.Compression.Gzip, timeout=60)
        self.assertIn('gzip', details)

    def test_unary_with_none_or_two_messages_is_refused(self):
        for messages in ([], [b'a', b'b']):
            self.fails(grpc.StatusCode.UNIMPLEMENTED, self.channel.stream_unary('/test.Echo/Unary'), iter(messages), timeout=60)

    def test_a_thousand_calls_at_once(self):
        futures = [self.unary('Unary').future(b'%d' % i, timeout=60) for i in range(1000)]
        self.assertEqual([f.result() for f in futures], [b'%d' % i for i in range(1000)])

    def test_a_thousand_hanging_calls_end_together(self):
        futures = [self.unary('Hang').future(b'', timeout=60) for _ in range(1000)]
        for future in futures:
            future.cancel()
        eventually(lambda: int(self.unary('Ended')(b'', timeout=60)) + sum(1 for f in futures if f.cancelled()) >= 1000)
        self.assertEqual(self.unary('Unary')(b'x', timeout=60), b'x')

    def test_more_calls_than_streams_wait_their_turn(self):
        small = self.make(10)
        try:
            with small.channel() as channel:
                unary = channel.unary_unary('/test.Echo/Unary')
                futures = [unary.future(b'%d' % i, timeout=60) for i in range(500)]
                self.assertEqual([f.result() for f in futures], [b'%d' % i for i in range(500)])
        finally:
            self.assertEqual(small.stop(), 0)

    def test_many_threads_on_many_connections(self):
        def work(n):
            with self.server.channel(('thread', n)) as channel:
                unary = channel.unary_unary('/test.Echo/Unary')
                return all(unary(b'%d' % i, timeout=60) == b'%d' % i for i in range(100))

        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            self.assertTrue(all(pool.map(work, range(20))))

    def test_slow_reader_costs_the_server_little_and_others_nothing(self):
        unary = self.unary('Unary')
        unary(b'warm up', timeout=60)
        before = self.server.rss_kib()
        slow = [self.channel.unary_stream('/test.Echo/Stream')(b'100000 16000') for _ in range(20)]
        for call in slow:
            next(call)
        for i in range(200):
            self.assertEqual(unary(b'%d' % i, timeout=60), b'%d' % i)
        # A sanitizer keeps what was freed for a while.
        times = 6 if os.environ.get('XCE_TEST_SANITIZED') else 1
        self.assertLess(self.server.rss_kib() - before, times * 64 * 1024)
        for call in slow:
            call.cancel()

    def test_close_in_order_lets_calls_end(self):
        stream = self.channel.unary_stream('/test.Echo/Stream')(b'2000 2000', timeout=60)
        next(stream)
        self.assertEqual(self.unary('Close')(b'', timeout=60), b'closing')
        self.assertEqual(sum(1 for _ in stream), 1999)
        self.assertEqual(self.server.process.wait(120), 0)

    def test_close_cuts_what_does_not_end(self):
        hang = self.unary('Hang').future(b'', timeout=60)
        self.assertEqual(self.unary('Unary')(b'x', timeout=60), b'x')
        self.assertEqual(self.unary('Close')(b'', timeout=60), b'closing')
        details = self.fails(grpc.StatusCode.UNAVAILABLE, hang.result)
        self.assertIn('closing', details)
        self.assertEqual(self.server.process.wait(120), 0)


class GrpcOverTls(Grpc):
    make = TlsServer

    def test_peer_is_the_kernels_word(self):
        self.assertEqual(self.unary('Who')(b'', timeout=60), b'user alice')


if __name__ == '__main__':
    ECHO = sys.argv.pop(1)
    unittest.main(verbosity=2)
