// A record that is written on the page: first what it leads to, then the cluster has it.
import { html, useState } from "../../vendor/preact.js";
import { change } from "../api.js";
import { Button, IconButton } from "../components/button.js";
import { AreaField, SelectField, TextField } from "../components/field.js";
import { Facts } from "../components/panel.js";
import { PlannedChange, PlanSteps } from "../components/planned_change.js";
import { bytes, count } from "../format.js";

const FORMATS = [
  ["null", "null"],
  ["text", "Text"],
  ["json", "JSON"],
  ["hex", "Hex"],
  ["base64", "Base64"],
];
const NOTHING = { format: "null", text: "" };

// `partitions` are the numbers of the topic's partitions; `onDone` gets where the record is.
export function ProduceDialog({ topic, path, partitions, onClose, onDone }) {
  const [key, setKey] = useState(NOTHING);
  const [value, setValue] = useState({ format: "text", text: "" });
  const [headers, setHeaders] = useState([]);
  const [partition, setPartition] = useState("");
  const record = {
    key: written(key),
    value: written(value),
    headers: headers.map((header) => ({ name: header.name, value: written(header) })),
    partition: partition === "" ? null : Number(partition),
  };
  const setHeader = (at, changes) => setHeaders(headers.map((header, index) => (index === at ? { ...header, ...changes } : header)));
  return html`<${PlannedChange} title=${`Write a record to ${topic}`} action="Write the record" isWide ...${{ onClose, onDone }}
      preview=${() => change("POST", path, record)} act=${() => change("POST", path, { ...record, preview: false })} show=${({ plan }) => html`<${Plan} plan=${plan} />`}>
    <${Data} label="Key" data=${key} onChange=${setKey} rows=${1} />
    <${Data} label="Value" data=${value} onChange=${setValue} rows=${8} />
    ${headers.map((header, index) => html`<div class="new-header" key=${index}>
      <${TextField} label=${`Name of header ${index}`} value=${header.name} onInput=${(name) => setHeader(index, { name })} autocomplete="off" spellcheck=${false} />
      <${Data} label=${`Value of header ${index}`} data=${header} onChange=${(data) => setHeader(index, data)} rows=${1} />
      <${IconButton} icon="trash" label=${`Remove header ${index}`} onClick=${() => setHeaders(headers.filter((_, other) => other !== index))} />
    </div>`)}
    <p><${Button} icon="plus" onClick=${() => setHeaders([...headers, { name: "", format: "text", text: "" }])}>Add a header</${Button}></p>
    <${SelectField} label="Partition" value=${partition} onChange=${setPartition} options=${[["", "The one that the key chooses, or any"], ...partitions.map((number) => [String(number), String(number)])]} />
  </${PlannedChange}>`;
}

const written = ({ format, text }) => (format === "null" ? null : { format, text });

function Data({ label, data, onChange, rows }) {
  const set = (changes) => onChange({ format: data.format, text: data.text, ...changes });
  const field = { label, value: data.text, onInput: (text) => set({ text }), autocomplete: "off", spellcheck: false };
  return html`<div class="new-data">
    <${SelectField} label=${`${label} as`} value=${data.format} onChange=${(format) => set({ format })} options=${FORMATS} />
    ${data.format !== "null" && (rows > 1 ? html`<${AreaField} ...${field} rows=${rows} />` : html`<${TextField} ...${field} />`)}
  </div>`;
}

function Plan({ plan }) {
  const facts = [
    ["Key", plan.key_size_bytes === null ? "null" : bytes(plan.key_size_bytes)],
    ["Value", plan.value_size_bytes === null ? "null" : bytes(plan.value_size_bytes)],
    ["Headers", count(plan.header_count)],
  ];
  return html`<${Facts} facts=${facts} /><${PlanSteps} steps=${plan.steps} />`;
}
