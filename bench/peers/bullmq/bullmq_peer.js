// BullMQ's part of the rows about a fleet over Redis (P-14): a Redis of its own, on loopback and in memory only, and
// `threads` worker processes (this file again). All of it is started here, in a temporary folder, and ended here.
"use strict";

const { fork, spawn } = require("node:child_process");
const fs = require("node:fs");
const net = require("node:net");
const os = require("node:os");
const path = require("node:path");
const { FlowProducer, Queue, QueueEvents, Worker } = require("bullmq");

const QUEUE = "bench";
const CONCURRENCY = 64; // Jobs that a worker process takes at a time.
const REPETITIONS = 3;
const ENOUGH_MS = 2000;
const OPTIONS = { removeOnComplete: true, removeOnFail: true };

const connectionTo = (port) => ({ host: "127.0.0.1", port: Number(port), maxRetriesPerRequest: null });

function median(values) {
  const sorted = values.slice().sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

function expect(got, want) {
  console.error(`result ${got}`);
  if (got !== want) throw new Error(`wrong result: ${got}, expected ${want}`);
}

// Once to warm up, then up to three times: the median, in microseconds divided by count.
async function usEach(count, once) {
  await once();
  const values = [];
  let done = 0;
  const start = performance.now();
  while (values.length < REPETITIONS && (values.length === 0 || performance.now() - start < ENOUGH_MS)) {
    const begun = performance.now();
    done = await once();
    values.push(((performance.now() - begun) * 1000) / count);
  }
  expect(done, count);
  return median(values);
}

// Resolves with `count` when so many jobs have ended.
function ended(events, count) {
  return new Promise((resolve) => {
    let seen = 0;
    const onCompleted = () => {
      if (++seen < count) return;
      events.off("completed", onCompleted);
      resolve(seen);
    };
    events.on("completed", onCompleted);
  });
}

const WORKS = {
  redis_flat: ({ queue, events }, count) =>
    usEach(count, async () => {
      const all = ended(events, count);
      await queue.addBulk(Array.from({ length: count }, (_, i) => ({ name: "noop", data: { i }, opts: OPTIONS })));
      return all;
    }),
  // Each job is the only child of the next one, which waits for it.
  redis_chain: ({ flow, events }, count) =>
    usEach(count, async () => {
      const all = ended(events, count);
      let job;
      for (let i = 0; i < count; ++i) {
        job = { name: "noop", queueName: QUEUE, data: { i }, opts: OPTIONS, children: job ? [job] : [] };
      }
      await flow.add(job);
      return all;
    }),
  redis_round_trip: async ({ queue, events }, count) => {
    const values = [];
    for (let i = 0; i <= count; ++i) {
      const begun = performance.now();
      const job = await queue.add("noop", { i }, OPTIONS);
      await job.waitUntilFinished(events);
      if (i > 0) values.push((performance.now() - begun) * 1000);
    }
    expect(values.length, count);
    return median(values);
  },
};

function freePort() {
  return new Promise((resolve, reject) => {
    const probe = net.createServer().once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

// Resolves when the server accepts connections.
async function serverUp(port) {
  for (let i = 0; i < 3600; ++i) {
    const up = await new Promise((resolve) => {
      const socket = net.connect(port, "127.0.0.1");
      socket.once("connect", () => resolve(socket.destroy() && true)).once("error", () => resolve(false));
    });
    if (up) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error("redis-server did not start");
}

async function measure(work, threads, count) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "rota_bench_"));
  const port = await freePort();
  const started = [
    spawn("redis-server", ["--port", port, "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--appendonly", "no"], {
      stdio: "ignore",
    }),
  ];
  process.once("exit", () => {
    for (const child of started) child.kill("SIGKILL");
    fs.rmSync(folder, { recursive: true, force: true });
  });
  await serverUp(port);
  for (let i = 0; i < threads; ++i) {
    const child = fork(__filename, ["--worker", port], { stdio: ["ignore", "ignore", "inherit", "ipc"] });
    started.push(child);
    await new Promise((resolve) => child.once("message", resolve));
  }
  const connection = connectionTo(port);
  const ends = {
    queue: new Queue(QUEUE, { connection }),
    flow: new FlowProducer({ connection }),
    events: new QueueEvents(QUEUE, { connection }),
  };
  await ends.events.waitUntilReady();
  return WORKS[work](ends, count);
}

async function main(argv) {
  if (argv[0] === "--worker") {
    const worker = new Worker(QUEUE, async () => null, { connection: connectionTo(argv[1]), concurrency: CONCURRENCY });
    await worker.waitUntilReady();
    process.on("disconnect", () => process.exit(0));
    process.send("ready");
    return;
  }
  if (argv.length !== 2 && argv.length !== 3) {
    console.error(`usage: bullmq <work> <threads> [size]\nworks: ${Object.keys(WORKS).join(" ")}`);
    process.exit(2);
  }
  if (!(argv[0] in WORKS)) {
    console.error(`no such work here: ${argv[0]}`);
    process.exit(2);
  }
  console.log((await measure(argv[0], Number(argv[1]), Number(argv[2] || 100))).toPrecision(6));
  process.exit(0);
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
