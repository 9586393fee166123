// Creating a topic: a form with the cluster's defaults, what the cluster would make of it, and then the topic.
import { html, useState } from "../../vendor/preact.js";
import { change, useAnswer } from "../api.js";
import { Button, IconButton } from "../components/button.js";
import { SelectField, TextField } from "../components/field.js";
import { Facts } from "../components/panel.js";
import { PlannedChange, PlanSteps } from "../components/planned_change.js";
import { Problems } from "../components/problems.js";
import { count, plural } from "../format.js";
import { readableValue } from "./settings.js";
import { ConfigField } from "./config_field.js";

const wholeNumber = (text) => (/^\d+$/.test(text.trim()) ? Number(text) : null);

export function CreateTopic({ onClose, onDone }) {
  const { answer: defaults } = useAnswer("/api/new-topic");
  const [name, setName] = useState("");
  const [partitions, setPartitions] = useState("");
  const [replicas, setReplicas] = useState("");
  const [configs, setConfigs] = useState([]);
  const isNumber = (text) => text.trim() === "" || wholeNumber(text) > 0;
  const body = () => ({
    name: name.trim(),
    partition_count: wholeNumber(partitions),
    replication_factor: wholeNumber(replicas),
    configs: Object.fromEntries(configs.map((each) => [each.name, each.value])),
  });
  const set = (index, value) => setConfigs(configs.map((each, at) => (at === index ? { ...each, value } : each)));
  const brokers = defaults?.broker_count;
  return html`<${PlannedChange} title="Create a topic" action="Create the topic" isWide onClose=${onClose} onDone=${onDone}
      canPreview=${name.trim() !== "" && isNumber(partitions) && isNumber(replicas)}
      preview=${() => change("POST", "/api/topics", body())} act=${() => change("POST", "/api/topics", { ...body(), preview: false })} show=${({ plan }) => html`<${Plan} plan=${plan} />`}>
    <${TextField} label="Name" value=${name} onInput=${setName} autocomplete="off" spellcheck=${false} maxlength="249" hint="Letters, digits, dots, underscores and hyphens; up to 249 of them." />
    <div class="topic-numbers">
      <${TextField} label="Partitions" value=${partitions} onInput=${setPartitions} inputmode="numeric" placeholder=${placeholder(defaults?.partition_count)} error=${isNumber(partitions) ? undefined : "Write a whole number, or nothing for the default"} hint="More can be added later, but that moves keys." />
      <${TextField} label="Replicas" value=${replicas} onInput=${setReplicas} inputmode="numeric" placeholder=${placeholder(defaults?.replication_factor)} error=${isNumber(replicas) ? undefined : "Write a whole number, or nothing for the default"} hint=${brokers ? `The cluster has ${plural(brokers, "broker")}.` : undefined} />
    </div>
    <${Problems} problems=${defaults?.problems} />
    ${configs.map((each, index) => html`<div class="topic-config" key=${each.name}><${ConfigField} row=${each.row} value=${each.value} onInput=${(value) => set(index, value)} /><${IconButton} icon="trash" label=${`Leave ${each.name} at its default`} onClick=${() => setConfigs(configs.filter((_, at) => at !== index))} /></div>`)}
    ${defaults && html`<${AddConfig} rows=${defaults.configs.filter((row) => !row.is_read_only && !configs.some((each) => each.name === row.name))} onAdd=${(row) => setConfigs([...configs, { name: row.name, row, value: row.value ?? "" }])} />`}
  </${PlannedChange}>`;
}

const placeholder = (value) => (value ? `default: ${count(value)}` : "the cluster's default");

function AddConfig({ rows, onAdd }) {
  const [name, setName] = useState("");
  const add = () => {
    const row = rows.find((each) => each.name === name);
    if (row) onAdd(row);
    setName("");
  };
  if (!rows.length) return null;
  return html`<div class="topic-config"><${SelectField} label="Config" value=${name} onChange=${setName} options=${[["", "Choose one to set it"], ...rows.map((row) => [row.name, row.name])]} />
    <${Button} icon="plus" disabled=${!name} onClick=${add}>Set it</${Button}></div>`;
}

function Plan({ plan }) {
  const facts = [
    ["Topic", plan.name],
    ["Partitions", plan.partition_count ?? undefined],
    ["Replicas", plan.replication_factor ?? undefined],
    ...plan.configs.map(({ name, value }) => [name, html`<code>${value}</code> <span class="muted">${readableValue(name, value)}</span>`]),
  ];
  return html`<p>The cluster has checked this topic. It would be:</p><${Facts} facts=${facts} /><${PlanSteps} steps=${plan.steps} />`;
}
