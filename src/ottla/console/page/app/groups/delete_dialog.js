// Deleting a group, or its offsets in one topic: first what is forgotten, then exactly that.
import { html, useState } from "../../vendor/preact.js";
import { change } from "../api.js";
import { SelectField } from "../components/field.js";
import { PlannedChange, PlanSteps } from "../components/planned_change.js";
import { Table } from "../components/table.js";
import { count, plural, UNKNOWN } from "../format.js";

const MAX_SHOWN = 200;

// `onDone(answer, isGroupGone)`.
export function DeleteDialog({ answer, onClose, onDone }) {
  const { group_id: id, topics } = answer;
  const [topic, setTopic] = useState("");
  const committed = topics.filter(({ partition_count: partitions }) => partitions > 0);
  const post = (rest) => (topic ? change("POST", "/api/group/delete-offsets", { id, topics: [topic], ...rest }) : change("POST", "/api/group/delete", { id, ...rest }));
  const act = ({ plan }) => post({ preview: false, fingerprint: plan.fingerprint });
  const options = [["", "The group, with all its offsets"], ...committed.map(({ topic: name, partition_count: partitions }) => [name, `Its ${plural(partitions, "offset")} in ${name}`])];
  return html`<${PlannedChange} title=${`Delete ${id}, or its offsets`} action=${topic ? "Delete the offsets" : "Delete the group"} isDanger isWide typed=${id} ...${{ onClose, act }} onDone=${(done) => onDone(done, !topic)}
      preview=${() => post()} show=${({ plan }) => html`<${Plan} plan=${plan} />`}>
    <${SelectField} label="What to delete" value=${topic} onChange=${setTopic} options=${options} />
  </${PlannedChange}>`;
}

const COLUMNS = [
  { id: "partition", label: "Partition", cell: ({ topic, partition }) => html`${topic} <span class="muted">${partition}</span>` },
  { id: "committed", label: "Committed now", align: "end", cell: ({ committed_offset: committed }) => count(committed) },
  { id: "end", label: "End", align: "end", cell: ({ end_offset: end }) => (end === null ? UNKNOWN : count(end)) },
  { id: "unread", label: "Not read", align: "end", cell: ({ unread_count: unread }) => (unread ? count(unread) : UNKNOWN) },
];

function Plan({ plan }) {
  const shown = plan.offsets.slice(0, MAX_SHOWN);
  return html`<${PlanSteps} steps=${plan.steps} />
    ${shown.length > 0 && html`<${Table} caption="Offsets that are forgotten" columns=${COLUMNS} rows=${shown} rowKey=${({ topic, partition }) => `${topic}-${partition}`} />`}
    ${plan.partition_count > shown.length && html`<p class="muted">The other ${plural(plan.partition_count - shown.length, "offset")} are not shown, and are forgotten too.</p>`}`;
}
