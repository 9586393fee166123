// Where a group goes on: first what that means for each partition, then exactly these offsets are committed.
import { html, useState } from "../../vendor/preact.js";
import { change } from "../api.js";
import { SelectField, TextField } from "../components/field.js";
import { PlannedChange, PlanSteps } from "../components/planned_change.js";
import { Table } from "../components/table.js";
import { count, plural, UNKNOWN } from "../format.js";

const PATH = "/api/group/reset-offsets";
const TARGETS = [
  ["earliest", "From the beginning"],
  ["latest", "At the end: skip all that is there now"],
  ["time", "At a time"],
  ["offset", "At an offset"],
  ["shift", "So many offsets on, or back"],
];
const MAX_SHOWN = 200;

const wholeNumber = (text) => (/^[+-]?\d+$/.test(text.trim()) ? Number(text) : null);

export function ResetDialog({ answer, onClose, onDone }) {
  const { group_id: id, topics } = answer;
  const [to, setTo] = useState("earliest");
  const [topic, setTopic] = useState("");
  const [text, setText] = useState("");
  const isNumber = to === "offset" || to === "shift";
  const number = wholeNumber(text);
  const time = new Date(text).getTime();
  const canPreview = isNumber ? number !== null && (to === "shift" || number >= 0) : to !== "time" || !Number.isNaN(time);
  const asked = { id, to, topics: topic ? [topic] : [], offset: isNumber ? number : null, at_ms: to === "time" ? time : null };
  const act = ({ plan }) => change("POST", PATH, { id, preview: false, offsets: plan.partitions.map((each) => ({ topic: each.topic, partition: each.partition, before_offset: each.before_offset, after_offset: each.after_offset })) });
  const choose = (next) => (setTo(next), setText(""));
  return html`<${PlannedChange} title=${`Reset the offsets of ${id}`} action="Commit these offsets" isDanger isWide ...${{ onClose, onDone, canPreview, act }}
      preview=${() => change("POST", PATH, asked)} show=${({ plan }) => html`<${Plan} plan=${plan} />`}>
    <${SelectField} label="Where it goes on" value=${to} onChange=${choose} options=${TARGETS} />
    ${to === "time" && html`<${TextField} label="Time" type="datetime-local" step="1" value=${text} onInput=${setText} hint="Of this browser's time zone. Each partition goes on at its first record of this time or later." />`}
    ${isNumber && html`<${TextField} label=${to === "offset" ? "Offset" : "How many"} value=${text} onInput=${setText} inputmode="numeric" hint=${to === "offset" ? "The same in every partition." : "Below zero: back, to read them again."} />`}
    <${SelectField} label="Topics" value=${topic} onChange=${setTopic} options=${[["", `All ${plural(topics.length, "topic")} of the group`], ...topics.map((each) => [each.topic, each.topic])]} />
  </${PlannedChange}>`;
}

const COLUMNS = [
  { id: "partition", label: "Partition", cell: ({ topic, partition }) => html`${topic} <span class="muted">${partition}</span>` },
  { id: "before", label: "Committed now", align: "end", cell: ({ before_offset: before }) => (before === null ? html`<span class="muted">none</span>` : count(before)) },
  { id: "after", label: "Then", align: "end", cell: ({ after_offset: after, wanted_offset: wanted }) => html`<b>${count(after)}</b>${wanted !== after && html` <span class="muted" title="There is no such offset: the nearest is taken">instead of ${count(wanted)}</span>`}` },
  { id: "again", label: "Read again", align: "end", cell: ({ again_count: again }) => (again ? count(again) : UNKNOWN) },
  { id: "skipped", label: "Skipped", align: "end", cell: ({ skipped_count: skipped }) => (skipped ? html`<span class="text-bad">${count(skipped)}</span>` : UNKNOWN) },
  { id: "end", label: "End", align: "end", cell: ({ end_offset: end }) => count(end) },
];

function Plan({ plan }) {
  const shown = plan.partitions.slice(0, MAX_SHOWN);
  return html`<p>Of ${plural(plan.partitions.length, "partition")}, ${count(plan.changed_count)} ${plan.changed_count === 1 ? "gets" : "get"} another offset.</p>
    <${PlanSteps} steps=${plan.steps} />
    <${Table} caption="Offsets now and then" columns=${COLUMNS} rows=${shown} rowKey=${({ topic, partition }) => `${topic}-${partition}`} />
    ${plan.partitions.length > shown.length && html`<p class="muted">The other ${plural(plan.partitions.length - shown.length, "partition")} are not shown, and are reset too.</p>`}`;
}
