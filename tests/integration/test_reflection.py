#!/usr/bin/python3
"""leased tells what it is: grpc.health.v1 and grpc.reflection, as tools that know nothing of our .proto files use them."""
import os
import subprocess
import sys
import tempfile
import threading
import unittest

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peer

GRPC_PROTO = os.environ.get('XCE_GRPC_PROTO', '/usr/share/grpc-proto')
SERVICES = ['grpc.health.v1.Health', 'grpc.reflection.v1.ServerReflection', 'grpc.reflection.v1alpha.ServerReflection',
            'xce.v1.ClusterService', 'xce.v1.LeaseService', 'xce.v1.NodeService', 'xce.v1.PoolService', 'xce.v1.RbacService']
VERSIONS = ('v1', 'v1alpha')


def setUpModule():
    """Messages of gRPC's own services, compiled into a folder that goes with the test."""
    global health_pb2, reflections
    stubs = tempfile.TemporaryDirectory(prefix='xce-stubs.')
    unittest.addModuleCleanup(stubs.cleanup)
    protos = ['grpc/health/v1/health.proto'] + ['grpc/reflection/%s/reflection.proto' % v for v in VERSIONS]
    subprocess.run(['protoc', '-I', GRPC_PROTO, '--python_out', stubs.name, *protos], check=True)
    # The folders are named like the installed package grpc: load by path, under a name of our own.
    import importlib.util

    def load(path):
        name = 'xce_' + path.replace('/', '_')
        spec = importlib.util.spec_from_file_location(name, os.path.join(stubs.name, path + '_pb2.py'))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    health_pb2 = load('grpc/health/v1/health')
    reflections = {v: load('grpc/reflection/%s/reflection' % v) for v in VERSIONS}


class Base(unittest.TestCase):
    preload = ()

    def setUp(self):
        self.leased = peer.Leased('Heartbeat = 100ms', preload=self.preload).__enter__()
        self.addCleanup(self.leased.__exit__, None, None, None)
        self.channel = grpc.insecure_channel('unix:' + self.leased.socket)
        self.addCleanup(self.channel.close)

    def check(self, service=''):
        call = self.channel.unary_unary('/grpc.health.v1.Health/Check',
                                        request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
                                        response_deserializer=health_pb2.HealthCheckResponse.FromString)
        return call(health_pb2.HealthCheckRequest(service=service), timeout=60).status

    def watch(self, service=''):
        call = self.channel.unary_stream('/grpc.health.v1.Health/Watch',
                                         request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
                                         response_deserializer=health_pb2.HealthCheckResponse.FromString)
        return call(health_pb2.HealthCheckRequest(service=service))


class Health(Base):
    def test_check_of_each_service(self):
        for service in [''] + SERVICES:
            self.assertEqual(self.check(service), health_pb2.HealthCheckResponse.SERVING, service)

    def test_check_of_unknown_services_is_not_found(self):
        for service in ('nope', 'xce.v1', 'xce.v1.LeaseServic', 'xce.v1.LeaseService/', 'xce.v1.LeaseService/Get', '/'):
            self.assertEqual(peer.code_of(lambda: self.check(service))[0], 'NOT_FOUND', service)

    def test_watch_of_an_unknown_service_stays(self):
        watch = self.watch('nope')
        self.addCleanup(watch.cancel)
        self.assertEqual(next(watch).status, health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
        self.assertTrue(watch.is_active())

    def test_watch_tells_the_end_and_holds_up_no_shutdown(self):
        watches = [self.watch() for _ in range(5)]
        for watch in watches:
            self.assertEqual(next(watch).status, health_pb2.HealthCheckResponse.SERVING)
        self.assertEqual(self.leased.stop(), 0)
        for watch in watches:
            self.assertEqual(next(watch).status, health_pb2.HealthCheckResponse.NOT_SERVING)
            self.assertEqual(peer.code_of(lambda: next(watch))[0], 'UNAVAILABLE')

    def test_malformed_requests_are_refused(self):
        call = self.channel.unary_unary('/grpc.health.v1.Health/Check')
        for request in (b'\x0a', b'\x0a\xff', b'\x0a\x02\xff\xfe', b'\x08\x01', b'\xff' * 20):
            self.assertEqual(peer.code_of(lambda: call(request, timeout=60))[0], 'INVALID_ARGUMENT', request)

    def test_others_may_ask(self):
        script = ('import grpc; c = grpc.insecure_channel("unix:%s")\n'
                  'print(c.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=60))' % self.leased.socket)
        run = subprocess.run(['setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups', '/usr/bin/python3', '-B',
                              '-c', script], capture_output=True, text=True, timeout=240)
        self.assertEqual(run.stdout.strip(), r"b'\x08\x01'", run.stderr)


@unittest.skipIf(os.getuid() != 0, 'needs root: mounts a small file system in a namespace of its own')
class HealthOfADisk(Base):
    SIZE = 8 << 20
    preload = ['unshare', '--mount', 'sh', '-c',
               'mkdir -p "$0/state" && mount -t tmpfs -o size=8m none "$0/state" && exec "$@"']

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='xce-leased.')
        self.addCleanup(folder.cleanup)
        # Without the audit file, which would refuse an administrator before the engine meets the full disk.
        self.leased = peer.Leased('Heartbeat = 100ms\nAuditSize = 0', folder=folder.name, preload=[*self.preload, folder.name])
        self.leased.__enter__()
        self.addCleanup(self.leased.__exit__, None, None, None)
        self.channel = grpc.insecure_channel('unix:' + self.leased.socket)
        self.addCleanup(self.channel.close)

    def test_full_disk_is_not_serving_and_room_is_again(self):
        client = self.leased.client()
        self.addCleanup(client.close)
        seen = []
        watch = self.watch('xce.v1.LeaseService')

        def read():
            try:
                seen.extend(m.status for m in watch)
            except grpc.RpcError:
                pass

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        fill = '/proc/%d/root%s/fill' % (self.leased.process.pid, self.leased.state)
        try:
            with open(fill, 'wb', buffering=0) as f:
                while True:
                    f.write(bytes(4096))
        except OSError:
            pass

        def refused():
            try:
                client.create_pool(name=os.urandom(6).hex().encode(), first=2013265920 + refused.n * 1024, count=1024)
            except grpc.RpcError as error:
                return error.code().name == 'RESOURCE_EXHAUSTED'
            finally:
                refused.n += 1
            return False
        refused.n = 0
        peer.until(refused, seconds=60, what='the disk to be full')
        peer.until(lambda: health_pb2.HealthCheckResponse.NOT_SERVING in seen, what='the watcher to be told')
        os.unlink(fill)
        peer.until(lambda: self.check() == health_pb2.HealthCheckResponse.SERVING, seconds=30, what='serving again')
        peer.until(lambda: seen[-1] == health_pb2.HealthCheckResponse.SERVING, what='the watcher to be told again')
        watch.cancel()
        thread.join(10)


class Reflection(Base):
    def ask(self, version, **request):
        module = reflections[version]
        call = self.channel.stream_stream('/grpc.reflection.%s.ServerReflection/ServerReflectionInfo' % version,
                                          request_serializer=module.ServerReflectionRequest.SerializeToString,
                                          response_deserializer=module.ServerReflectionResponse.FromString)
        asked = module.ServerReflectionRequest(host='a host', **request)
        answers = list(call(iter([asked]), timeout=60))
        self.assertEqual(len(answers), 1)
        self.assertEqual(answers[0].original_request, asked)
        self.assertEqual(answers[0].valid_host, 'a host')
        return answers[0]

    def files(self, answer):
        self.assertEqual(answer.WhichOneof('message_response'), 'file_descriptor_response', answer)
        return [descriptor_pb2.FileDescriptorProto.FromString(f) for f in answer.file_descriptor_response.file_descriptor_proto]

    def not_found(self, answer, name):
        self.assertEqual(answer.WhichOneof('message_response'), 'error_response')
        self.assertEqual(answer.error_response.error_code, grpc.StatusCode.NOT_FOUND.value[0])
        self.assertIn(name, answer.error_response.error_message)

    def test_services_are_listed(self):
        for version in VERSIONS:
            answer = self.ask(version, list_services='')
            self.assertEqual([s.name for s in answer.list_services_response.service], SERVICES)

    def test_file_by_name_comes_with_what_it_needs(self):
        for version in VERSIONS:
            names = [f.name for f in self.files(self.ask(version, file_by_filename='xce/v1/node.proto'))]
            self.assertEqual(names[0], 'xce/v1/node.proto')
            self.assertEqual(sorted(names), ['xce/v1/common.proto', 'xce/v1/lease.proto', 'xce/v1/node.proto', 'xce/v1/pool.proto'])

    def test_file_of_each_kind_of_symbol(self):
        for symbol in ('xce.v1.LeaseService', 'xce.v1.LeaseService.Get', 'xce.v1.Lease', 'xce.v1.Lease.uid',
                       'xce.v1.LeaseState', 'xce.v1.LEASE_STATE_FREE', 'xce.v1.LeaseKey.key'):
            self.assertEqual(self.files(self.ask('v1alpha', file_containing_symbol=symbol))[0].name, 'xce/v1/lease.proto', symbol)

    def test_what_there_is_not_is_named(self):
        for version in VERSIONS:
            self.not_found(self.ask(version, file_by_filename='xce/v1/command.proto'), 'xce/v1/command.proto')
            self.not_found(self.ask(version, file_by_filename=''), '""')
            self.not_found(self.ask(version, file_containing_symbol='xce.v1.Nope'), 'xce.v1.Nope')
            self.not_found(self.ask(version, file_containing_symbol='xce.v1'), 'xce.v1')
            self.not_found(self.ask(version, file_containing_symbol='x' * 100000), 'xxx')
            self.not_found(self.ask(version, file_containing_symbol='Ünïcode' * 30), 'n')
            self.not_found(self.ask(version, all_extension_numbers_of_type='xce.v1.Nope'), 'xce.v1.Nope')
            extension = dict(containing_type='xce.v1.Lease', extension_number=7)
            self.not_found(self.ask(version, file_containing_extension=extension), 'xce.v1.Lease')

    def test_types_have_no_extensions(self):
        answer = self.ask('v1', all_extension_numbers_of_type='xce.v1.Lease').all_extension_numbers_response
        self.assertEqual((answer.base_type_name, list(answer.extension_number)), ('xce.v1.Lease', []))

    def test_request_for_nothing_is_an_error(self):
        self.assertEqual(self.ask('v1').error_response.error_code, grpc.StatusCode.INVALID_ARGUMENT.value[0])

    def test_many_questions_in_one_call_are_answered_in_order(self):
        module = reflections['v1']
        call = self.channel.stream_stream('/grpc.reflection.v1.ServerReflection/ServerReflectionInfo',
                                          request_serializer=module.ServerReflectionRequest.SerializeToString,
                                          response_deserializer=module.ServerReflectionResponse.FromString)
        asked = (module.ServerReflectionRequest(host=str(i), file_by_filename='xce/v1/node.proto') for i in range(2000))
        self.assertEqual([a.valid_host for a in call(asked, timeout=60)], [str(i) for i in range(2000)])

    def test_every_method_can_be_called_by_reflection_alone(self):
        pool = descriptor_pool.DescriptorPool()
        added = set()
        for service in SERVICES:
            for file in reversed(self.files(self.ask('v1', file_containing_symbol=service))):
                if file.name not in added:
                    added.add(file.name)
                    pool.Add(file)
        called = 0
        for service in SERVICES:
            for method in pool.FindServiceByName(service).methods:
                with self.subTest(service=service, method=method.name):
                    self.call_empty(pool, service, method)
                called += 1
        self.assertGreaterEqual(called, 33)

    def call_empty(self, pool, service, method):
        """An empty message to it: whatever it says, it is there and takes the message."""
        factory = message_factory.MessageFactory(pool)
        request, reply = factory.GetPrototype(method.input_type), factory.GetPrototype(method.output_type)
        proto = descriptor_pb2.MethodDescriptorProto()
        method.CopyToProto(proto)
        kind = '%s_%s' % ('stream' if proto.client_streaming else 'unary', 'stream' if proto.server_streaming else 'unary')
        call = getattr(self.channel, kind)('/%s/%s' % (service, method.name), request_serializer=request.SerializeToString,
                                           response_deserializer=reply.FromString)
        asked = iter([request()]) if proto.client_streaming else request()
        try:
            answer = call(asked, timeout=60)
            if proto.server_streaming:
                next(answer, None)
                answer.cancel()
        except grpc.RpcError as error:
            # What is between replicas is for nobody else.
            if service == 'xce.v1.ClusterService' and method.name in ('Overlap', 'Past'):
                self.assertEqual(error.code().name, 'PERMISSION_DENIED')
                return
            # This one has no key to make certificates with, and says so.
            if error.code().name != 'UNIMPLEMENTED' or 'CAKey' not in error.details():
                self.assertIn(error.code().name, ('INVALID_ARGUMENT', 'NOT_FOUND', 'FAILED_PRECONDITION'), error)


if __name__ == '__main__':
    unittest.main(verbosity=2)
