// The configs of a broker: values, where they come from, what they mean; those that may change while it runs can be edited.
import { html, useMemo, useState } from "../../vendor/preact.js";
import { change, useAnswer } from "../api.js";
import { Badge } from "../components/badge.js";
import { Button, IconButton } from "../components/button.js";
import { Confirm, Dialog } from "../components/dialog.js";
import { Empty, Loading } from "../components/empty.js";
import { SearchField, SelectField, TextField } from "../components/field.js";
import { Facts } from "../components/panel.js";
import { Problem } from "../components/problems.js";
import { LocalTable } from "../components/table.js";
import { toast } from "../components/toast.js";
import { count, plural } from "../format.js";
import { useQuery } from "../router.js";
import { useAllows } from "../session.js";
import { BrokerChoice, useBroker } from "./broker_choice.js";

const KINDS = [
  ["all", "All configs"],
  ["changed", "Not the default"],
  ["dynamic", "Can change while it runs"],
];

export function BrokerConfigs({ brokers }) {
  const [broker, choose] = useBroker(brokers);
  const [state, setState] = useQuery({ q: "", kind: "all", config: "" });
  const { answer, problem, reload } = useAnswer("/api/broker/configs", { id: broker });
  const isAdmin = useAllows("admin");
  const [editing, setEditing] = useState(null);
  const rows = useMemo(() => filtered(answer?.rows ?? [], state), [answer, state.q, state.kind]);
  const filter = (changes) => setState({ ...changes, offset: 0 }, { replace: true });
  const columns = useMemo(() => columnsFor(isAdmin, setEditing, (name) => setState({ config: name }, { replace: true })), [isAdmin]);
  const opened = answer?.rows.find(({ name }) => name === state.config);
  return html`<div class="table-block">
    <${BrokerChoice} ...${{ brokers, broker, choose }} />
    <div class="toolbar">
      <${SearchField} label="Find a config" value=${state.q} onSearch=${(q) => filter({ q })} />
      <${SelectField} label="Which configs" isLabelHidden value=${state.kind} options=${KINDS} onChange=${(kind) => filter({ kind })} />
    </div>
    <${Problem} problem=${problem} onRetry=${reload} />
    ${!answer && !problem && html`<${Loading} lines=${8} />`}
    ${answer &&
    html`<${LocalTable} caption="Configs" columns=${columns} rows=${rows} rowKey=${({ name }) => name} sort="name" empty=${html`<${Empty} icon="search" title="No config fits">Change the search or the filter.</${Empty}>`} />
      <p class="muted" role="status">${rows.length === answer.rows.length ? plural(rows.length, "config") : `${count(rows.length)} of ${plural(answer.rows.length, "config")}`}</p>`}
    ${opened && html`<${Meaning} row=${opened} onClose=${() => setState({ config: "" }, { replace: true })} />`}
    ${editing && html`<${Edit} row=${editing} broker=${broker} hasSeveral=${brokers.length > 1} onClose=${() => setEditing(null)} onDone=${reload} />`}
  </div>`;
}

function filtered(rows, { q, kind }) {
  const wanted = q.toLowerCase();
  return rows.filter((row) => {
    if (kind === "changed" && row.source === "default") return false;
    if (kind === "dynamic" && row.is_read_only) return false;
    return !wanted || `${row.name} ${row.value ?? ""} ${row.documentation ?? ""}`.toLowerCase().includes(wanted);
  });
}

const columnsFor = (isAdmin, edit, open) => [
  { id: "name", label: "Config", isSortable: true, cell: ({ name }) => html`<button type="button" class="broker-config" aria-haspopup="dialog" onClick=${() => open(name)}>${name}</button>` },
  { id: "value", label: "Value", isSortable: true, isWrapped: true, cell: (row) => html`<${Value} row=${row} />` },
  { id: "source", label: "Comes from", isSortable: true, cell: ({ source }) => (source === "default" ? html`<span class="muted">default</span>` : html`<${Badge} kind=${source.includes("dynamic") ? "info" : "neutral"}>${source}</${Badge}>`) },
  { id: "is_read_only", label: "Changes", isSortable: true, cell: ({ name, is_read_only: isFixed, ...row }) => (isFixed ? html`<span class="muted">with a start</span>` : isAdmin ? html`<${IconButton} icon="edit" label=${`Edit ${name}`} onClick=${() => edit({ name, is_read_only: isFixed, ...row })} />` : "while it runs") },
];

function Value({ row: { value, is_sensitive: isSecret } }) {
  if (isSecret) return html`<span class="muted">hidden</span>`;
  if (value === null) return html`<span class="muted">none</span>`;
  return value === "" ? html`<span class="muted">empty</span>` : html`<span class="mono broker-value">${value}</span>`;
}

function Meaning({ row, onClose }) {
  return html`<${Dialog} title=${row.name} onClose=${onClose} isWide actions=${html`<${Button} onClick=${onClose}>Close</${Button}>`}>
    <p class="broker-documentation">${row.documentation ?? "The broker tells no documentation."}</p>
    <${Facts} facts=${[
      ["Value", html`<${Value} row=${row} />`],
      ["Type", row.type],
      ["Comes from", row.source],
      ...row.synonyms.map(({ name, value, source }, index) => [index === 0 ? "In order" : "then", html`<span class="mono broker-value">${name}=${value ?? "(hidden or none)"}</span> <span class="muted">${source}</span>`]),
    ]} />
  </${Dialog}>`;
}

// First the value, then what it would do, as the cluster sees it.
function Edit({ row, broker, hasSeveral, onClose, onDone }) {
  const [scope, setScope] = useState(row.source === "all brokers, dynamic" ? "all" : "broker");
  const [value, setValue] = useState(row.value ?? "");
  const [asked, setAsked] = useState(null);
  const own = row.synonyms.some(({ source }) => source === (scope === "all" ? "all brokers, dynamic" : "broker, dynamic"));
  const body = (wanted) => ({ id: broker, scope, changes: [{ name: row.name, value: wanted }] });
  if (asked !== null) {
    const { wanted } = asked;
    return html`<${Confirm} title=${`Change ${row.name}`} action="Change it" onClose=${onClose} onDone=${(done) => (toast(done), onDone())}
      preview=${() => change("POST", "/api/broker/configs", { ...body(wanted), preview: true })}
      show=${({ plan }) => html`<${Plan} plan=${plan} isSecret=${row.is_sensitive} />`}
      act=${async ({ plan }) => (await change("POST", "/api/broker/configs", { ...body(wanted), preview: false, state: plan.state })).done} />`;
  }
  const actions = html`${own && html`<${Button} onClick=${() => setAsked({ wanted: null })}>Take the value away</${Button}>`}
    <${Button} onClick=${onClose}>Cancel</${Button}><${Button} type="submit" kind="primary">Show what it does</${Button}>`;
  return html`<${Dialog} title=${`Change ${row.name}`} onClose=${onClose} onSubmit=${() => setAsked({ wanted: value })} actions=${actions}>
    <p class="muted broker-documentation">${row.documentation}</p>
    <${SelectField} label="For" value=${scope} onChange=${setScope} options=${[["broker", `Broker ${broker} alone`], ["all", hasSeveral ? "All brokers" : "All brokers, also those to come"]]} />
    <${TextField} label="New value" hint=${`${row.type}${row.value === null ? "" : `; now ${row.value}`}`} value=${value} onInput=${setValue} autocomplete="off" spellcheck=${false} />
  </${Dialog}>`;
}

function Plan({ plan, isSecret }) {
  const text = (value, isKnown = true) => (isSecret ? "hidden" : !isKnown ? "what the broker's file or the default says" : value === null ? "none" : value === "" ? "empty" : value);
  return html`<div class="stack">
    ${plan.changes.map((each) => html`<p key=${each.name}><span class="mono">${each.name}</span> at broker ${plan.broker_id}: <b class="mono broker-value">${text(each.before)}</b> → <b class="mono broker-value">${text(each.after, each.is_after_known)}</b></p>`)}
    <ul class="broker-steps">${plan.steps.map((step) => html`<li key=${step}>${step}</li>`)}</ul>
  </div>`;
}
