// The partitions of a topic, and what holds up the last stable offsets of those that are held up.
import { html, useState } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { IconButton } from "../components/button.js";
import { Chips } from "../components/chips.js";
import { OffsetBar } from "../components/offset_bar.js";
import { ServerTable } from "../components/table.js";
import { Age } from "../components/time.js";
import { toast } from "../components/toast.js";
import { bytes, count, plural, UNKNOWN } from "../format.js";
import { address } from "../router.js";
import { useAllows } from "../session.js";
import { DeleteRecords } from "./changes.js";
import { HeldPartitions } from "./held_partitions.js";

const PREFIX = "p.";

export function TopicPartitions({ detail, path }) {
  const [cut, setCut] = useState(null);
  const mayCut = useAllows("operator") && !detail.is_internal && (detail.cleanup_policy ?? "delete").includes("delete");
  return html`<div class="stack topic-part">
    ${detail.unstable_count > 0 && html`<${HeldPartitions} topic=${detail.name} path=${path} heldCount=${detail.held_partition_count} />`}
    <${ServerTable} path=${`${path}/partitions`} caption=${`Partitions of ${detail.name}`} columns=${columnsOf(detail, mayCut && setCut)} rowKey=${({ partition }) => partition} sort="partition" filters=${FILTERS} prefix=${PREFIX} />
    ${cut && html`<${DeleteRecords} detail=${detail} path=${path} partition=${cut} onClose=${() => setCut(null)} onDone=${({ done }) => toast(`${done.charAt(0).toUpperCase()}${done.slice(1)}.`)} />`}
  </div>`;
}

const FILTERS = {
  defaults: { show: "all" },
  draw: (state, setState, answer) => html`<${Chips} label="Which partitions" value=${state.show} onChange=${(show) => setState({ show })} options=${[
    ["all", "All"],
    ["held", "Held by transactions", answer?.held_count, "warn"],
    ["problems", "With problems", answer?.problem_count, "bad"],
  ]} />`,
};

const columnsOf = (detail, onCut) => [
  { id: "partition", label: "Partition", isSortable: true, cell: ({ partition }) => html`<a href=${address(["topics", detail.name, "records"], { partition })} title="Its records">${partition}</a>` },
  { id: "leader_id", label: "Leader", align: "end", isSortable: true, title: "The broker that leads it, and the epoch", cell: (row) => html`<${Leader} row=${row} />` },
  { id: "replicas", label: "Replicas", title: "The brokers that have it; those that are not in sync are struck out", cell: (row) => html`<${Replicas} row=${row} />` },
  { id: "offsets", label: "Offsets", cell: (row) => html`<${OffsetBar} start=${row.start_offset} stable=${row.last_stable_offset} end=${row.end_offset} isCompact />` },
  { id: "start", label: "Start", align: "end", cell: (row) => count(row.start_offset) },
  { id: "stable", label: "Last stable", align: "end", title: "Readers of committed records see what is before this offset", cell: (row) => html`<span class=${row.unstable_count ? "text-warn" : undefined}>${count(row.last_stable_offset)}</span>` },
  { id: "end", label: "End", align: "end", cell: (row) => count(row.end_offset) },
  { id: "records", label: "Records", align: "end", isSortable: true, title: "Offsets between start and end", cell: (row) => count(row.record_count) },
  { id: "size", label: "Size", align: "end", isSortable: true, cell: (row) => bytes(row.size_bytes) },
  { id: "standing_since", label: "Held by", isSortable: true, title: "Who has the transaction open that holds the last stable offset", cell: (row) => html`<${HeldBy} row=${row} topic=${detail.name} />` },
  ...(onCut ? [{ id: "cut", label: html`<span class="visually-hidden">Change</span>`, align: "end", cell: (row) => row.record_count > 0 && html`<${IconButton} icon="trash" label=${`Delete records of partition ${row.partition}`} onClick=${() => onCut(row)} />` }] : []),
];

function Leader({ row: { leader_id: leader, leader_epoch: epoch } }) {
  if (leader === null) return html`<span class="text-bad">none</span>`;
  return html`${leader} <span class="muted">epoch ${epoch ?? UNKNOWN}</span>`;
}

function Replicas({ row: { replicas, in_sync_replicas: inSync } }) {
  return replicas.map((broker, index) => {
    const text = inSync.includes(broker) ? broker : html`<s class="text-warn" title="not in sync">${broker}</s>`;
    return html`${index > 0 && ", "}${text}`;
  });
}

function HeldBy({ row, topic }) {
  if (!row.unstable_count) return html`<span class="muted">${row.end_offset === null ? UNKNOWN : "nothing"}</span>`;
  const [holder] = row.transactions;
  const age = row.standing_since_ms && html` <span class="muted">for <${Age} sinceMs=${row.standing_since_ms} /></span>`;
  if (!holder) return html`<span class="text-warn">an open transaction</span>${age}`;
  const name = holder.transactional_id ?? `producer ${holder.producer_id}`;
  const href = holder.transactional_id ? address(["transactions", holder.transactional_id]) : address(["producers"], { topic, partition: row.partition });
  const more = row.transaction_count - 1;
  return html`<a href=${href}>${name}</a>${more > 0 && html` <span class="muted" title=${`${plural(more, "more transaction")} open behind it`}>+${more}</span>`}${age}`;
}
