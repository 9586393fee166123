// The last batches of a partition as its leader stores them: a strip from the older to the newest, and a table.
import { html } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { Badge } from "../components/badge.js";
import { Button } from "../components/button.js";
import { Empty, Loading } from "../components/empty.js";
import { SelectField } from "../components/field.js";
import { Panel } from "../components/panel.js";
import { Problem } from "../components/problems.js";
import { LocalTable } from "../components/table.js";
import { bytes, count, plural, timestamp, UNKNOWN } from "../format.js";
import { address, useQuery } from "../router.js";
import { OutcomeBadge } from "./states.js";

const SIZES = ["20", "50", "100"].map((size) => [size, `the last ${size}`]);

export function LastBatches({ topic, partition }) {
  const [{ batches: limit }, setState] = useQuery({ batches: "20" });
  const { answer, problem, reload } = useAnswer("/api/producers/batches", { topic, partition, limit });
  const actions = html`<${SelectField} label="How many" isLabelHidden value=${limit} onChange=${(size) => setState({ batches: size }, { replace: true })} options=${SIZES} /><${Button} icon="refresh" onClick=${reload}>Read again</${Button}>`;
  return html`<${Panel} title="Last batches" note=${answer ? `up to offset ${count(answer.end_offset)}${answer.is_limited ? "; fewer than asked for, because they are large" : ""}` : ""} actions=${actions} flush>
    <div class="panel-pad"><${Problem} problem=${problem} onRetry=${reload} />
      ${!answer && !problem && html`<${Loading} lines=${5} label="Reading the end of the log" />`}
      ${answer?.batches.length > 0 && html`<${Strip} batches=${answer.batches} />`}
    </div>
    ${answer && html`<${LocalTable} caption="Last batches, the newest first" columns=${COLUMNS} rows=${answer.batches.map((each) => ({ ...each, topic, partition }))} rowKey=${({ base_offset: offset }) => offset} prefix="batch-" empty=${html`<${Empty} title="The partition is empty" />`} />`}
  </${Panel}>`;
}

const kindOf = (batch) => (batch.is_control ? "control" : (batch.outcome ?? "plain"));

const KINDS = [["plain", "no transaction"], ["committed", "committed"], ["aborted", "aborted"], ["open", "open"], ["control", "marker"]];

function Strip({ batches }) {
  const shown = [...batches].reverse();
  const kinds = KINDS.filter(([kind]) => shown.some((each) => kindOf(each) === kind));
  return html`<div class="strip-block">
    <div class="strip" aria-hidden="true">${shown.map((each) => html`<span key=${each.base_offset} class=${`strip-batch strip-${kindOf(each)}`} style=${{ "--records": Math.sqrt(Math.max(1, each.record_count)) }} title=${`${count(each.base_offset)}–${count(each.last_offset)}: ${plural(each.record_count, "record")}, ${bytes(each.size_bytes)}, producer ${each.producer_id ?? "without an id"}`}></span>`)}</div>
    <ul class="legend">${kinds.map(([kind, text]) => html`<li key=${kind}><span class=${`strip-key strip-${kind}`} aria-hidden="true"></span>${text}</li>`)}<li class="muted">the newest on the right; the width grows with the records</li></ul>
  </div>`;
}

const sequences = ({ base_sequence: first, last_sequence: last }) => (first === null ? UNKNOWN : first === last ? count(first) : `${count(first)}–${count(last)}`);

const COLUMNS = [
  { id: "offsets", label: "Offsets", cell: (row) => html`<a href=${address(["topics", row.topic, "records"], { partition: row.partition, offset: row.base_offset })}>${row.base_offset === row.last_offset ? count(row.base_offset) : `${count(row.base_offset)}–${count(row.last_offset)}`}</a>` },
  { id: "what", label: "Transaction", cell: (row) => (row.is_control ? html`<${Badge} kind=${row.outcome === "committed" ? "good" : "neutral"}>${row.outcome === "committed" ? "commit marker" : "abort marker"}</${Badge}>` : row.outcome === null ? html`<span class="muted">none</span>` : row.outcome === "open" ? html`<${Badge} kind="info">open</${Badge}>` : html`<${OutcomeBadge} outcome=${row.outcome} />`) },
  { id: "records", label: "Records", align: "end", cell: ({ record_count: number }) => count(number) },
  { id: "size", label: "Size", align: "end", cell: ({ size_bytes: size }) => bytes(size) },
  { id: "codec", label: "Compression", cell: ({ codec }) => codec },
  { id: "producer", label: "Producer", align: "end", cell: ({ producer_id: id }) => (id === null ? UNKNOWN : html`<a href=${address(["producers"], { producer: id })}>${id}</a>`) },
  { id: "epoch", label: "Epoch", align: "end", cell: ({ producer_epoch: epoch }) => epoch ?? UNKNOWN },
  { id: "sequences", label: "Sequences", align: "end", cell: sequences },
  { id: "leader_epoch", label: "Leader epoch", align: "end", cell: ({ leader_epoch: epoch }) => epoch },
  { id: "at", label: "Largest timestamp", cell: ({ max_timestamp_ms: ms }) => html`<span class="mono">${ms < 0 ? UNKNOWN : timestamp(ms)}</span>` },
];
