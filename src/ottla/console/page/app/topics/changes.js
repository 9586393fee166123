// Changes of a topic that ask first: more partitions, deleting records, deleting the topic.
import { html, useState } from "../../vendor/preact.js";
import { change } from "../api.js";
import { Confirm } from "../components/dialog.js";
import { SelectField, TextField } from "../components/field.js";
import { Facts } from "../components/panel.js";
import { PlannedChange, PlanSteps } from "../components/planned_change.js";
import { Table } from "../components/table.js";
import { bytes, count, plural } from "../format.js";
import { address } from "../router.js";

const wholeNumber = (text) => (/^\d+$/.test(text.trim()) ? Number(text) : null);

export function AddPartitions({ detail, path, onClose, onDone }) {
  const [total, setTotal] = useState(String(detail.partition_count + 1));
  const wanted = wholeNumber(total);
  const isMore = wanted > detail.partition_count;
  const post = (rest) => change("POST", `${path}/partitions`, { total_count: wanted, ...rest });
  return html`<${PlannedChange} title=${`Add partitions to ${detail.name}`} action="Add them" isDanger onClose=${onClose} onDone=${onDone} canPreview=${isMore}
      preview=${() => post()} act=${({ plan }) => post({ preview: false, before_count: plan.before_count })}
      show=${({ plan }) => html`<p>From <b>${count(plan.before_count)}</b> to <b>${plural(plan.after_count, "partition")}</b>.</p><${PlanSteps} steps=${plan.steps} />`}>
    <${TextField} label="Partitions in all" value=${total} onInput=${setTotal} inputmode="numeric" error=${isMore ? undefined : `Write a whole number above ${detail.partition_count}`} hint=${`There are ${count(detail.partition_count)} now.`} />
  </${PlannedChange}>`;
}

// Of one partition (a row of the table), or of all of them.
export function DeleteRecords({ detail, path, partition = null, onClose, onDone }) {
  const [mode, setMode] = useState(partition ? "offset" : "all");
  const [offset, setOffset] = useState(String(partition?.end_offset ?? ""));
  const wanted = wholeNumber(offset);
  const isWhole = mode === "all";
  const asked = () => {
    if (partition) return [{ partition: partition.partition, before_offset: isWhole ? -1 : wanted }];
    return Array.from({ length: detail.partition_count }, (_, index) => ({ partition: index, before_offset: -1 }));
  };
  const url = `${path}/delete-records`;
  const act = ({ plan }) => change("POST", url, { preview: false, partitions: plan.partitions.map((each) => ({ partition: each.partition, before_offset: each.before_offset })) });
  return html`<${PlannedChange} title=${partition ? `Delete records of partition ${partition.partition}` : `Delete all records of ${detail.name}`} action="Delete the records" isDanger isWide typed=${detail.name} onClose=${onClose} onDone=${onDone}
      canPreview=${isWhole || wanted !== null} preview=${() => change("POST", url, { partitions: asked() })} act=${act} show=${({ plan }) => html`<${RecordsPlan} plan=${plan} />`}>
    ${partition
      ? html`<${SelectField} label="Which records" value=${mode} onChange=${setMode} options=${[["offset", "Those before an offset"], ["all", "All that are there now"]]} />
          ${!isWhole && html`<${TextField} label="Offset" value=${offset} onInput=${setOffset} inputmode="numeric" hint=${`From ${count(partition.start_offset)} to ${count(partition.end_offset)}. The record with this offset stays.`} error=${wanted === null ? "Write a whole number" : undefined} />`}`
      : html`<p>All records of ${plural(detail.partition_count, "partition")} that are there now. The topic, its configs and the offsets of groups stay. To delete those of one partition, or those before an offset, use the button in the partition's row.</p>`}
  </${PlannedChange}>`;
}

const STRETCHES = [
  { id: "partition", label: "Partition", cell: ({ partition }) => partition },
  { id: "start", label: "Start now", align: "end", cell: (row) => count(row.start_offset) },
  { id: "then", label: "Start then", align: "end", cell: (row) => count(row.before_offset) },
  { id: "end", label: "End", align: "end", cell: (row) => count(row.end_offset) },
  { id: "count", label: "Offsets that go", align: "end", cell: (row) => count(row.offset_count) },
  { id: "groups", label: "Groups that have not read them", isWrapped: true, cell: ({ groups }) => (groups.length ? groups.slice(0, 5).map(({ group_id: group, unread_count: unread }) => html`<div key=${group}>${group}: ${count(unread)}</div>`) : html`<span class="muted">none</span>`) },
];

function RecordsPlan({ plan }) {
  const some = plan.partitions.filter(({ offset_count: gone }) => gone > 0).slice(0, 100);
  return html`<${PlanSteps} steps=${plan.steps} />${some.length > 0 && html`<${Table} caption="What goes from each partition" columns=${STRETCHES} rows=${some} rowKey=${({ partition }) => partition} />`}`;
}

export function DeleteTopic({ detail, path, onClose, onDone }) {
  const post = (rest) => change("POST", `${path}/delete`, rest);
  return html`<${Confirm} title=${`Delete ${detail.name}`} action="Delete the topic" isDanger typed=${detail.name} onClose=${onClose} onDone=${onDone}
    preview=${() => post({})} act=${({ plan }) => post({ preview: false, topic_id: plan.topic_id })} show=${({ plan }) => html`<${DeletePlan} plan=${plan} />`} />`;
}

function DeletePlan({ plan }) {
  const groups = plan.groups.slice(0, 10);
  const facts = [
    ["Records", plan.record_count === null ? undefined : `${count(plan.record_count)} offsets in ${plural(plan.partition_count, "partition")}`],
    ["Size", plan.size_bytes === null ? undefined : bytes(plan.size_bytes)],
    ["Groups", groups.length ? html`<ul>${groups.map(({ group_id: group, state, lag }) => html`<li key=${group}><a href=${address(["groups", group])}>${group}</a> <span class="muted">${state ?? "state not known"}, ${lag ? `${count(lag)} not read` : "all read"}</span></li>`)}${plan.group_count > groups.length && html`<li class="muted">and ${plural(plan.group_count - groups.length, "more group")}</li>`}</ul>` : "none has offsets here"],
    ["Open transactions", plan.open_transactions.length ? plan.open_transactions.slice(0, 10).join(", ") : undefined],
  ];
  return html`<${Facts} facts=${facts} /><${PlanSteps} steps=${plan.steps} />`;
}
