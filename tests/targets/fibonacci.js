// Computes for a second of CPU time, in functions that V8 compiles while they run. At its end it
// removes the perf map that node has written.
'use strict';
const fs = require('fs');

function awaitLine() {
  const byte = Buffer.alloc(1);
  while (fs.readSync(0, byte, 0, 1) === 1) {
    if (byte[0] === 10) return true;
  }
  return false;
}

function fibonacci(n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

function compute() {
  let sum = 0;
  while (process.cpuUsage().user < 1e6) sum += fibonacci(20);
  return sum;
}

fs.writeSync(1, `ready ${process.pid}\n`);
if (awaitLine()) {
  compute();
  fs.writeSync(1, 'computed\n');
  while (awaitLine());
}
fs.rmSync(`/tmp/perf-${process.pid}.map`, {force: true});
