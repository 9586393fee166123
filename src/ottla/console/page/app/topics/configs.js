// The configs of a topic: value, where it comes from, what the cluster says of it, and changing it.
import { html, useMemo, useState } from "../../vendor/preact.js";
import { change, useAnswer } from "../api.js";
import { Badge } from "../components/badge.js";
import { IconButton } from "../components/button.js";
import { Empty, Loading } from "../components/empty.js";
import { CheckField, SearchField } from "../components/field.js";
import { Problem } from "../components/problems.js";
import { Table } from "../components/table.js";
import { toast } from "../components/toast.js";
import { PlannedChange, PlanSteps } from "../components/planned_change.js";
import { Confirm } from "../components/dialog.js";
import { useQuery } from "../router.js";
import { useAllows } from "../session.js";
import { ConfigField } from "./config_field.js";
import { readableValue } from "./settings.js";

export function TopicConfigs({ detail, path }) {
  const [{ q, set }, setState] = useQuery({ q: "", set: false }, { prefix: "c." });
  const [editing, setEditing] = useState(null);
  const [resetting, setResetting] = useState(null);
  const mayChange = useAllows("admin");
  const { answer, problem, reload } = useAnswer(`${path}/configs`);
  const rows = useMemo(() => (answer?.rows ?? []).filter((row) => (!set || row.is_set) && fits(row, q)), [answer, q, set]);
  const done = ({ plan }) => {
    toast(`Changed ${plan.changes.map(({ name }) => name).join(", ")} of ${plan.topic}`);
    reload();
  };
  return html`<div class="stack topic-part">
    <div class="toolbar">
      <${SearchField} label="Find a config" value=${q} onSearch=${(text) => setState({ q: text }, { replace: true })} />
      <${CheckField} label=${answer ? `Only those that the topic sets (${answer.set_count})` : "Only those that the topic sets"} checked=${set} onChange=${(is) => setState({ set: is }, { replace: true })} />
    </div>
    <${Problem} problem=${problem} onRetry=${reload} />
    ${!answer && !problem && html`<${Loading} lines=${8} />`}
    ${answer && html`<${Table} caption=${`Configs of ${detail.name}`} columns=${columnsOf(mayChange, setEditing, setResetting)} rows=${rows} rowKey=${({ name }) => name} version=${`${q} ${set} ${answer.set_count}`}
      empty=${answer.set_count === 0 && set && !q ? html`<${Empty} icon="info" title="The topic sets nothing itself">All values are the brokers'.</${Empty}>` : html`<${Empty} icon="search" title="No config fits">Change the search.</${Empty}>`} />`}
    ${editing && html`<${EditConfig} row=${editing} path=${path} onClose=${() => setEditing(null)} onDone=${done} />`}
    ${resetting && html`<${ResetConfig} row=${resetting} path=${path} onClose=${() => setResetting(null)} onDone=${done} />`}
  </div>`;
}

const fits = ({ name, value, documentation }, q) => {
  const part = q.trim().toLowerCase();
  return !part || [name, value, documentation].some((text) => text?.toLowerCase().includes(part));
};

const columnsOf = (mayChange, onEdit, onReset) => [
  { id: "name", label: "Config", isWrapped: true, cell: ({ name, documentation }) => html`<code class="config-name">${name}</code>${documentation && html`<p class="config-text">${documentation}</p>`}` },
  { id: "value", label: "Value", isWrapped: true, cell: (row) => html`<${Value} row=${row} />` },
  { id: "source", label: "From", cell: (row) => html`<${Source} row=${row} />` },
  ...(mayChange
    ? [{ id: "change", label: html`<span class="visually-hidden">Change</span>`, align: "end", cell: (row) => (row.is_read_only ? html`<span class="muted">read-only</span>` : html`<${IconButton} icon="edit" label=${`Edit ${row.name}`} onClick=${() => onEdit(row)} />${row.is_set && html`<${IconButton} icon="refresh" label=${`Take ${row.name} back to ${row.has_fallback ? row.fallback_value || "its default" : "its default"}`} onClick=${() => onReset(row)} />`}`) }]
    : [{ id: "change", label: "Kind", cell: ({ type, is_read_only: isReadOnly }) => html`<span class="muted">${type}${isReadOnly ? ", read-only" : ""}</span>` }]),
];

function Value({ row: { name, value, is_sensitive: isSensitive } }) {
  if (isSensitive) return html`<span class="muted">not shown: it is a secret</span>`;
  const readable = readableValue(name, value);
  return html`<code>${value === "" ? html`<span class="muted">(empty)</span>` : (value ?? html`<span class="muted">none</span>`)}</code>${readable && html` <span class="muted nowrap">${readable}</span>`}`;
}

// Where a value comes from; what other places have for it unfolds.
function Source({ row: { is_set: isSet, source, synonyms } }) {
  const badge = isSet ? html`<${Badge} kind="info">this topic</${Badge}>` : html`<span class="muted">${source}</span>`;
  if (synonyms.length < 2) return badge;
  return html`<details class="config-sources"><summary>${badge}</summary>
    <ol>${synonyms.map(({ name, value, source: from }) => html`<li key=${`${from} ${name}`}><span class="muted">${from}:</span> <code>${name} = ${value ?? "(secret)"}</code></li>`)}</ol>
  </details>`;
}

function EditConfig({ row, path, onClose, onDone }) {
  const [value, setValue] = useState(row.value ?? "");
  const body = (rest) => ({ changes: [{ name: row.name, value: value.trim() }], ...rest });
  return html`<${PlannedChange} title=${`Change ${row.name}`} action="Change it" onClose=${onClose} onDone=${onDone} canPreview=${row.is_sensitive || value.trim() !== row.value}
      preview=${() => change("POST", `${path}/configs`, body())} act=${({ plan }) => change("POST", `${path}/configs`, body({ preview: false, state: plan.state }))} show=${({ plan }) => html`<${Plan} plan=${plan} />`}>
    <${ConfigField} row=${row} value=${value} onInput=${setValue} />
  </${PlannedChange}>`;
}

function ResetConfig({ row, path, onClose, onDone }) {
  const body = (rest) => ({ changes: [{ name: row.name, value: null }], ...rest });
  return html`<${Confirm} title=${`Take ${row.name} back`} action="Take it back" onClose=${onClose} onDone=${onDone}
    preview=${() => change("POST", `${path}/configs`, body())} act=${({ plan }) => change("POST", `${path}/configs`, body({ preview: false, state: plan.state }))} show=${({ plan }) => html`<${Plan} plan=${plan} />`} />`;
}

function Plan({ plan }) {
  return html`${plan.changes.map(({ name, before, after, before_source: source, is_reset: isReset, is_after_known: isKnown }) => html`<dl class="config-plan" key=${name}>
      <div><dt>Now</dt><dd><code>${before ?? "(secret)"}</code> <span class="muted">${readableValue(name, before)} from ${source === "topic" ? "this topic" : source}</span></dd></div>
      <div><dt>Then</dt><dd>${isKnown ? html`<code>${after ?? "(secret)"}</code> <span class="muted">${readableValue(name, after)} ${isReset ? "from the brokers" : "from this topic"}</span>` : "what the brokers have"}</dd></div>
    </dl>`)}
    <${PlanSteps} steps=${plan.steps} /><p class="muted">The cluster has checked it. Other configs of the topic stay as they are.</p>`;
}
