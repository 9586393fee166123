// KafkaJS, with faults and the broker's clock in the hands of the test.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { after, before, beforeEach, test } from "node:test";
import { Kafka, logLevel } from "kafkajs";

const LOST_ANSWER = { api: "Produce", topic: "orders", drop: "after", times: 1 };

let broker, servers, control;

before(async () => {
  // The broker stops when its standard input ends, which it does with this process.
  broker = spawn(process.env.OTTLA ?? "ottla", ["test-broker", "--stop-with-stdin"], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: broker.stdout })[Symbol.asyncIterator]();
  servers = await textAfter("listening on ", lines);
  control = await textAfter("control on ", lines);
});

after(async () => {
  const ended = once(broker, "exit");
  broker.kill();
  await ended;
});

beforeEach(() => ask("POST", "/reset"));

async function textAfter(prefix, lines) {
  const { value: line } = await lines.next();
  assert.ok(line?.startsWith(prefix), `ottla test-broker printed ${line}`);
  return line.slice(prefix.length);
}

async function ask(method, path, body) {
  const response = await fetch(control + path, { method, body: body && JSON.stringify(body) });
  const answer = await response.json();
  assert.equal(response.status, 200, answer.error);
  return answer;
}

async function valuesOf(topic) {
  const { records } = await ask("GET", `/records/${topic}`);
  return records.map((record) => record.value);
}

async function withProducer(options, use) {
  const retry = { initialRetryTime: 50 };
  const kafka = new Kafka({ brokers: servers.split(","), logLevel: logLevel.NOTHING, retry });
  const producer = kafka.producer(options);
  await producer.connect();
  try {
    await use(producer);
  } finally {
    await producer.disconnect();
  }
}

const tea = { topic: "orders", messages: [{ value: "tea" }] };

test("a lost answer duplicates without idempotence", async () => {
  await ask("POST", "/topics", { orders: {} });
  await ask("POST", "/faults", LOST_ANSWER);
  await withProducer({}, (producer) => producer.send(tea));
  assert.deepEqual(await valuesOf("orders"), ["tea", "tea"]);
});

test("a lost answer duplicates nothing with idempotence", async () => {
  await ask("POST", "/topics", { orders: {} });
  await ask("POST", "/faults", LOST_ANSWER);
  await withProducer({ idempotent: true }, (producer) => producer.send(tea));
  assert.deepEqual(await valuesOf("orders"), ["tea"]);
});

test("a transaction that takes too long is aborted", async () => {
  await ask("POST", "/topics", { orders: {} });
  const options = { transactionalId: "till", transactionTimeout: 60_000, idempotent: true };
  await withProducer(options, async (producer) => {
    const transaction = await producer.transaction();
    await transaction.send(tea);
    await ask("POST", "/clock/advance", { duration: "2m" });
    await assert.rejects(transaction.commit());
  });
  assert.deepEqual(await valuesOf("orders"), []);
});
