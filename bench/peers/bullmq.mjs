// BullMQ as its users run it: the npm package. Speaks the protocol of bench/child.py on stdin and stdout.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";

const require = createRequire(process.env.BENCH_NODE_MODULES + "/package.json");
const { Queue, Worker } = require("bullmq");
const [url, , size] = process.argv.slice(2);
const PHRASE = "The quick brown fox jumps over the lazy dog. ";
const TEXT = PHRASE.repeat(Math.floor(Number(size) / PHRASE.length) + 1).slice(0, Number(size));
const TOKEN = "bench"; // the name of the worker that holds a job
const where = new URL(url);
const connection = { host: where.hostname, port: Number(where.port), maxRetriesPerRequest: null };
let queue, worker;

function job(number) {
  const data = {
    body: TEXT, label: "order", id: `c-${String(number).padStart(12, "0")}`,
    properties: { region: "EU-west", customer: number, amount: 129.95, urgent: false },
  };
  return { name: "work", data, opts: { removeOnComplete: true } };
}

function check(data) {
  if (data.body !== TEXT || data.label !== "order" || !data.id.startsWith("c-") || data.properties.amount !== 129.95) {
    throw new Error("another message than was sent");
  }
}

const works = {
  async open() {
    queue = new Queue("bench", { connection });
    await queue.waitUntilReady();
    worker = new Worker("bench", null, { connection, autorun: false });
    await worker.waitUntilReady();
  },
  async close() {
    await worker.close(true);
    await queue.close();
  },
  async send({ first, count }) {
    for (let number = first; number < first + count; number++) {
      const { name, data, opts } = job(number);
      await queue.add(name, data, opts);
    }
  },
  async send_batch({ first, count, size: many }) {
    for (let start = first; start < first + count; start += many) {
      const jobs = [];
      for (let number = start; number < Math.min(start + many, first + count); number++) jobs.push(job(number));
      await queue.addBulk(jobs);
    }
  },
  async fill({ first, count }) {
    await works.send_batch({ first, count, size: 100 });
  },
  async receive({ count }) {
    for (let done = 0; done < count; done++) {
      const next = await worker.getNextJob(TOKEN);
      check(next.data);
      await next.moveToCompleted(null, TOKEN, false);
    }
  },
  async drain({ count }) {
    const times = [];
    await new Promise((enough) => {
      const running = new Worker("bench", async (next) => {
        check(next.data);
        times.push(performance.now() / 1000);
        if (times.length === count) setImmediate(async () => { await running.close(true); enough(); });
      }, { connection });
    });
    return times;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  let answer;
  try {
    const cpu = process.cpuUsage();
    const start = performance.now();
    const times = await works[order.work](order);
    const used = process.cpuUsage(cpu);
    answer = { seconds: (performance.now() - start) / 1000, cpu: (used.user + used.system) / 1e6 };
    if (times) answer.times = times;
  } catch (error) {
    answer = { error: String(error) };
  }
  console.log(JSON.stringify(answer));
}
process.exit(0);
