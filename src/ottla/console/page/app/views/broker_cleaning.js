// Compaction and retention: the rounds, what was compacted, and the logs that wait for it.
import { html } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { Badge } from "../components/badge.js";
import { Empty, Loading } from "../components/empty.js";
import { Facts, Meter, Panel } from "../components/panel.js";
import { Notice, Problem } from "../components/problems.js";
import { LocalTable } from "../components/table.js";
import { RelativeTime } from "../components/time.js";
import { bytes, count, duration, percent, plural, UNKNOWN } from "../format.js";
import { useEvent } from "../live.js";
import { address } from "../router.js";

const partition = ({ topic, partition: number }) => html`<a href=${address(["topics", topic])}>${topic}</a> <span class="muted">${number}</span>`;

const COMPACTIONS = [
  { id: "partition", label: "Partition", isSortable: true, value: ({ topic, partition: number }) => `${topic} ${number}`, cell: partition },
  { id: "at_ms", label: "When", isSortable: true, cell: ({ at_ms: at }) => html`<${RelativeTime} ms=${at} />` },
  { id: "took_ms", label: "Took", align: "end", isSortable: true, cell: ({ took_ms: ms }) => duration(ms) },
  { id: "bytes_before", label: "Before", align: "end", isSortable: true, cell: ({ bytes_before: size }) => bytes(size) },
  { id: "bytes_after", label: "After", align: "end", isSortable: true, cell: ({ bytes_after: size }) => bytes(size) },
  { id: "saved", label: "Saved", align: "end", isSortable: true, value: (row) => row.bytes_before - row.bytes_after, cell: ({ bytes_before: before, bytes_after: after }) => (before ? percent((before - after) / before) : UNKNOWN) },
  { id: "dirty_keys", label: "Keys", align: "end", isSortable: true, title: "Different keys in the part that was new", cell: ({ dirty_keys: keys }) => count(keys) },
];

const PARTITIONS = [
  { id: "partition", label: "Partition", isSortable: true, value: ({ topic, partition: number }) => `${topic} ${number}`, cell: partition },
  { id: "dirty_ratio", label: "Dirty", isSortable: true, firstOrder: "desc", title: "The part of the log that was not compacted yet; from min.cleanable.dirty.ratio on, it is", cell: (row) => html`<${Dirty} row=${row} />` },
  { id: "size_bytes", label: "Size", align: "end", isSortable: true, cell: ({ size_bytes: size }) => bytes(size) },
  { id: "dirty_bytes", label: "Not compacted", align: "end", isSortable: true, cell: ({ dirty_bytes: size }) => bytes(size) },
  { id: "cleaned_offset", label: "Compacted to", align: "end", isSortable: true, cell: ({ cleaned_offset: offset }) => count(offset) },
  { id: "cleanable_to_offset", label: "Could be to", align: "end", title: "The active segment, open transactions and min.compaction.lag.ms keep the rest", cell: ({ cleanable_to_offset: offset }) => count(offset) },
  { id: "end_offset", label: "End", align: "end", isSortable: true, cell: ({ end_offset: offset }) => count(offset) },
  { id: "state", label: "State", isSortable: true, cell: ({ state }) => (state === "uncleanable" ? html`<${Badge} kind="bad">${state}</${Badge}>` : state) },
];

const Dirty = ({ row: { dirty_ratio: ratio, min_dirty_ratio: least } }) => html`<${Meter} share=${ratio} warnAt=${2} badAt=${2} label=${`${percent(ratio)} of ${percent(least)}`} />`;

export function Cleaning() {
  const { answer, problem, reload } = useAnswer("/api/broker/cleaning");
  useEvent("internals", () => reload(), [reload]);
  if (!answer) return problem ? html`<${Problem} problem=${problem} onRetry=${reload} />` : html`<${Loading} lines=${8} />`;
  return html`<${Problem} problem=${problem} onRetry=${reload} />
    ${answer.nodes.map((node) => html`<${Node} key=${node.node_id} node=${node} hasSeveral=${answer.nodes.length > 1} />`)}
    <${Panel} title="Compacted lately" flush><${LocalTable} caption="Compactions" columns=${COMPACTIONS} rows=${answer.compactions} rowKey=${({ topic, partition: number, at_ms: at }) => `${topic}-${number}-${at}`} sort="at_ms" order="desc" prefix="c_" pageSize=${10}
      empty=${html`<${Empty} icon="clock" title="Nothing was compacted since the start">It begins when a log is dirty enough: see below.</${Empty}>`} /></${Panel}>
    <${Panel} title="Compacted logs" note="those in use" flush><${LocalTable} caption="Logs with compaction" columns=${PARTITIONS} rows=${answer.partitions} rowKey=${({ topic, partition: number }) => `${topic}-${number}`} sort="dirty_ratio" order="desc" prefix="p_" pageSize=${50}
      empty=${html`<${Empty} icon="topics" title="No log is compacted">Topics with cleanup.policy=compact are listed here.</${Empty}>`} /></${Panel}>`;
}

function Node({ node, hasSeveral }) {
  const round = (isBusy, beganAt, tookMs, rounds) =>
    isBusy ? html`<${Badge} kind="info">at work</${Badge}>` : rounds ? html`<${RelativeTime} ms=${beganAt} />${tookMs !== null && `, took ${duration(tookMs)}`}` : "none yet";
  const of = hasSeveral ? ` of node ${node.node_id}` : "";
  return html`${node.uncleanable_count > 0 && html`<${Notice} kind="bad">${plural(node.uncleanable_count, "partition")}${of} cannot be compacted, as ${node.uncleanable_count === 1 ? "it is" : "they are"} damaged: ${node.uncleanable.map(({ topic, partition: number }) => `${topic}-${number}`).join(", ")}.</${Notice}>`}
    <div class="columns">
      <${Panel} title=${`Compaction${of}`}><${Facts} facts=${[
        ["State", node.is_compaction_enabled ? (node.cleaning ? html`compacts ${node.cleaning.topic}-${node.cleaning.partition}` : "on") : html`<${Badge} kind="warn">log.cleaner.enable is false</${Badge}>`],
        ["Last round", round(node.is_compacting, node.compaction_began_at_ms, node.compaction_took_ms, node.compaction_rounds)],
        ["Rounds", count(node.compaction_rounds)],
      ]} /></${Panel}>
      <${Panel} title=${`Retention${of}`}><${Facts} facts=${[
        ["Looks every", duration(node.retention_interval_ms)],
        ["Last round", round(node.is_deleting, node.retention_began_at_ms, node.retention_took_ms, node.retention_rounds)],
        ["Rounds", count(node.retention_rounds)],
      ]} /></${Panel}>
    </div>`;
}
