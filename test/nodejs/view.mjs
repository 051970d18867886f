// What a program in Node.js does with a controller: it writes documents, waits for what becomes of them, reads records,
// pages and events, and deletes. It needs no library but the NATS client. Run as: node view.mjs nats://127.0.0.1:4222
import assert from "node:assert/strict";
import { connect } from "@nats-io/transport-node";
import { jetstream } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";

// conditionOf is what a record says of its document: whether it is reconciled, and if not, why.
const conditionOf = (record) => record.conditions?.find((c) => c.type === "Reconciled");

// settled waits for the outcome of a revision, which put has returned, and returns the record. What is Retrying is not
// settled yet: the controller tries again.
async function settled(records, key, revision) {
  const watch = await records.watch({ key });
  try {
    for await (const entry of watch) {
      if (entry.operation !== "PUT") continue;
      const record = entry.json();
      const condition = conditionOf(record);
      if (condition?.observedGeneration >= revision && condition.reason !== "Retrying") return record;
    }
  } finally {
    watch.stop();
  }
}

// tornDown waits until a document that was deleted is torn down: the record goes last.
async function tornDown(records, key) {
  const watch = await records.watch({ key });
  try {
    if ((await exists(records, key)) === false) return;
    for await (const entry of watch) {
      if (entry.operation !== "PUT") return;
    }
  } finally {
    watch.stop();
  }
}

async function exists(bucket, key) {
  const entry = await bucket.get(key);
  return entry !== null && entry.operation === "PUT";
}

// eventOf waits for an event about a key. The subject says the kind, the type and the key.
async function eventOf(js, type, key, reason) {
  const filter = { filter_subjects: `nagi.events.Site.${type}.${key}.*` };
  const consumer = await js.consumers.get("NAGI_EVENTS", filter);
  const messages = await consumer.consume();
  try {
    for await (const m of messages) {
      const event = m.json();
      if (event.reason === reason) return event;
    }
  } finally {
    messages.stop();
  }
}

// check runs one step. One that waits for a minute ends the program.
async function check(name, step) {
  const timer = setTimeout(() => {
    console.error("for a minute nothing has come in:", name);
    process.exit(1);
  }, 60_000);
  await step();
  clearTimeout(timer);
  console.log("ok", name);
}

const nc = await connect({ servers: process.argv[2] });
const js = jetstream(nc);
const kvm = new Kvm(nc);
const sites = await kvm.open("sites");
const pages = await kvm.open("pages");
const records = await kvm.open("sites-status");
const document = (title) => JSON.stringify({ spec: { title } });

await check("a valid document is reconciled, and has a status", async () => {
  const revision = await sites.put("shop", document("Shop"));
  const record = await settled(records, "shop", revision);
  assert.equal(conditionOf(record).status, "True");
  assert.equal(conditionOf(record).reason, "Synced");
  assert.equal(record.observedRevision, revision);
  assert.deepEqual(record.status, { length: 4 });
  const page = (await pages.get("shop.home")).json();
  assert.equal(page.spec.title, "Shop");
  assert.equal(page.metadata.annotations["kumori/ownerkey"], "shop");
});

await check("an update is, too, and one that fails at first", async () => {
  for (const title of ["Shops", "flaky"]) {
    const revision = await sites.put("shop", document(title));
    const record = await settled(records, "shop", revision);
    assert.equal(conditionOf(record).reason, "Synced");
    assert.equal((await pages.get("shop.home")).json().spec.title, title);
  }
});

await check("a compare-and-set that is late is refused", async () => {
  const entry = await sites.get("shop");
  await sites.update("shop", document("first"), entry.revision);
  await assert.rejects(sites.update("shop", document("second"), entry.revision), /wrong last sequence/);
});

const bytes = Uint8Array.from({ length: 1000 }, (_, i) => (i * 7) % 256);
for (const [name, value] of [
  ["broken", '{"spec":'],
  ["empty", ""],
  ["binary", bytes],
  ["mistyped", '{"spec":{"title":5}}'],
  ["another", JSON.stringify({ metadata: { name: "somebody" } })],
]) {
  await check(`a document that is ${name} is invalid, stays as it is, and an event says so`, async () => {
    const revision = await sites.put(name, value);
    const record = await settled(records, name, revision);
    assert.equal(conditionOf(record).status, "False");
    assert.equal(conditionOf(record).reason, "Invalid");
    assert.ok(conditionOf(record).message.length > 0);
    const event = await eventOf(js, "Warning", name, "Invalid");
    assert.equal(event.involvedObject.kind, "Site");
    assert.equal(event.involvedObject.name, name);
    const kept = await sites.get(name);
    assert.equal(kept.revision, revision);
    assert.deepEqual(Buffer.from(kept.value), Buffer.from(value));
  });
  await check(`a document that was ${name} is reconciled when it is mended`, async () => {
    const revision = await sites.put(name, document("mended"));
    assert.equal(conditionOf(await settled(records, name, revision)).reason, "Synced");
  });
}

await check("a document that was reconciled and becomes invalid keeps its page", async () => {
  const revision = await sites.put("shop", "no JSON any more");
  const record = await settled(records, "shop", revision);
  assert.equal(conditionOf(record).reason, "Invalid");
  assert.ok(record.observedRevision < revision);
  assert.ok(await exists(pages, "shop.home"));
});

await check("a terminal error is told once, with an event", async () => {
  const revision = await sites.put("forbidden", document("forbidden"));
  const record = await settled(records, "forbidden", revision);
  assert.equal(conditionOf(record).reason, "Terminal");
  assert.match(conditionOf(record).message, /this title is forbidden/);
  const event = await eventOf(js, "Warning", "forbidden", "Terminal");
  assert.match(event.message, /this title is forbidden/);
});

await check("a huge document is reconciled, and one that the server does not take is refused", async () => {
  const revision = await sites.put("huge", document("x".repeat(900_000)));
  const record = await settled(records, "huge", revision);
  assert.equal(conditionOf(record).reason, "Synced");
  assert.deepEqual(record.status, { length: 900_000 });
  await assert.rejects(sites.put("huge", document("x".repeat(nc.info.max_payload))), /payload/i);
  assert.equal((await sites.get("huge")).revision, revision);
});

await check("what is deleted is torn down, valid or not", async () => {
  await sites.put("never", "was valid");
  await settled(records, "never", (await sites.get("never")).revision);
  await assert.rejects(sites.purge("huge"), /rollup not permitted/); // Nagi's buckets take no rollups
  await sites.delete("huge");
  for (const key of ["binary", "shop", "empty", "forbidden", "never"]) await sites.delete(key);
  for (const key of ["huge", "binary", "shop", "empty", "forbidden", "never", "nothing"]) {
    await tornDown(records, key);
    assert.equal(await exists(pages, `${key}.home`), false, `the page of ${key}`);
  }
  assert.ok(await exists(pages, "broken.home"));
});

await check("what comes back is reconciled again", async () => {
  const revision = await sites.put("shop", document("Back"));
  const record = await settled(records, "shop", revision);
  assert.equal(conditionOf(record).reason, "Synced");
  assert.deepEqual(record.status, { length: 4 });
});

await nc.close();
