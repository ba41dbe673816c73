// What @grpc/grpc-js, a client that this project did not write, gets from leased over mutual TLS.
// usage: node grpc_js.js MODULES PROTO-FOLDER HOST:PORT CA CERTIFICATE KEY
// Prints one JSON object; test_grpc_js.py says what must be in it.
'use strict';
const fs = require('fs');
const path = require('path');
const [modules, protos, target, ca, certificate, key] = process.argv.slice(2);
const grpc = require(path.join(modules, '@grpc/grpc-js'));
const loader = require(path.join(modules, '@grpc/proto-loader'));

const files = ['lease', 'pool', 'node'].map((name) => `xce/v1/${name}.proto`);
const api = grpc.loadPackageDefinition(loader.loadSync(files, {includeDirs: [protos], longs: String, enums: String})).xce.v1;
const pem = (file) => fs.readFileSync(file);
const credentials = grpc.credentials.createSsl(pem(ca), pem(key), pem(certificate));
const deadline = (ms) => ({deadline: Date.now() + ms});

function call(client, method, request, ms = 10000) {
  return new Promise((resolve) => client[method](request, deadline(ms), (error, reply) => resolve(
      error ? {code: grpc.status[error.code], details: error.details} : {reply})));
}

// The first message of a stream, then how it ends when we cancel it, or when its deadline passes.
function follow(client, method, request, ms, cancel) {
  return new Promise((resolve) => {
    const stream = client[method](request, deadline(ms));
    let messages = 0;
    stream.on('data', () => {
      messages++;
      if (cancel) stream.cancel();
    });
    stream.on('error', (error) => resolve({messages, code: grpc.status[error.code]}));
    stream.on('end', () => resolve({messages, code: 'OK'}));
  });
}

async function main() {
  const pools = new api.PoolService(target, credentials);
  const leases = new api.LeaseService(target, credentials);
  const result = {version: require(path.join(modules, '@grpc/grpc-js/package.json')).version};
  const create = {
    request: {id: Buffer.from('0123456789abcdef')},
    name: Buffer.from('main'),
    range: {first: 2013265920, last: 2013266943},
    directoryNone: true,
  };

  result.created = await call(pools, 'Create', create, 30000);
  result.again = await call(pools, 'Create', create, 30000);
  result.listed = await call(pools, 'List', {});
  result.absent = await call(leases, 'Get', {lease: '4711'});
  result.invalid = await call(leases, 'Acquire', {request: {id: Buffer.from('x')}});
  result.cancelled = await follow(leases, 'Watch', {}, 20000, true);
  result.late = await follow(leases, 'Watch', {}, 1000, false);
  result.many = (await Promise.all(Array.from({length: 500}, () => call(pools, 'List', {}))))
      .filter((answer) => answer.reply).length;
  const nobody = new api.PoolService(target, grpc.credentials.createSsl(pem(ca)));
  result.nobody = await call(nobody, 'List', {}, 3000);
  console.log(JSON.stringify(result));
  process.exit(0);
}

main();
