// One record with all that is known of it: value, key, headers, batch, and what can be copied.
import { html, useEffect, useMemo, useRef, useState } from "../../vendor/preact.js";
import { ApiProblem, apiAddress, get, useAnswer } from "../api.js";
import { Badge } from "../components/badge.js";
import { Button, IconButton } from "../components/button.js";
import { CopyButton } from "../components/copy.js";
import { Dialog } from "../components/dialog.js";
import { Loading } from "../components/empty.js";
import { SelectField } from "../components/field.js";
import { Facts } from "../components/panel.js";
import { Notice, Problem } from "../components/problems.js";
import { RelativeTime } from "../components/time.js";
import { bytes, count, timestamp, plural } from "../format.js";
import { address } from "../router.js";
import { FORMATS, FORMAT_NAMES, MARKS, sizeOf } from "./formats.js";
import { JsonTree, parsed } from "./json_tree.js";
import { LongText } from "./long_text.js";
import { withMarks } from "./odd_characters.js";

const ALL_CHARS = 20_000_000;
const HEADERS_AT_ONCE = 100;

const pathOf = (topic, { partition, offset }) => `/api/topics/${encodeURIComponent(topic)}/records/${partition}/${offset}`;

export function RecordDetail({ topic, place, formats, onFormats, onMove, onClose }) {
  const [part, setPart] = useState("value");
  const [isWhole, setWhole] = useState(false);
  const [headerOffset, setHeaderOffset] = useState(0);
  const key = `${place.partition}:${place.offset}`;
  useEffect(() => {
    setWhole(false);
    setHeaderOffset(0);
  }, [key]);
  const path = pathOf(topic, place);
  const query = { key_format: formats.key, value_format: formats.value, max_chars: isWhole ? ALL_CHARS : undefined, header_offset: headerOffset, header_limit: HEADERS_AT_ONCE };
  const { answer, problem, isLoading, reload } = useAnswer(path, query);
  const heading = useRef(null);
  const detail = answer && answer.partition === place.partition && answer.offset === place.offset ? answer : null;
  const mark = detail?.mark && MARKS[detail.mark];
  return html`<section class="record-detail panel" aria-labelledby="record-title" aria-busy=${isLoading ? "true" : undefined}>
    <header class="record-head">
      <h2 id="record-title" ref=${heading} tabindex="-1">Partition ${place.partition}, offset ${count(place.offset)}</h2>
      ${mark && html`<${Badge} kind=${mark[0]} title=${mark[2]}>${mark[1]}</${Badge}>`}
      <span class="record-head-end">
        <${IconButton} icon="previous" label="The offset before" disabled=${place.offset <= (detail?.start_offset ?? 0)} onClick=${() => onMove(place.offset - 1)} />
        <${IconButton} icon="next" label="The offset behind" disabled=${detail !== null && place.offset >= detail.end_offset - 1} onClick=${() => onMove(place.offset + 1)} />
        ${detail && html`<${Copies} path=${path} />`}
        <${IconButton} icon="close" label="Close the record" onClick=${onClose} />
      </span>
    </header>
    <div class="record-body">
      <${Problem} problem=${problem} onRetry=${reload} />
      ${!detail && !problem && html`<${Loading} lines=${6} label="Loading the record" />`}
      ${detail &&
      html`<${Times} detail=${detail} />
        <${Parts} detail=${detail} part=${part} onPart=${setPart} />
        ${part === "value" && html`<${FieldPart} ...${{ detail, path, isWhole }} name="value" field=${detail.value} format=${formats.value} onFormat=${(value) => onFormats({ ...formats, value })} onWhole=${() => setWhole(true)} />`}
        ${part === "key" && html`<${FieldPart} ...${{ detail, path, isWhole }} name="key" field=${detail.key} format=${formats.key} onFormat=${(value) => onFormats({ ...formats, key: value })} onWhole=${() => setWhole(true)} />`}
        ${part === "headers" && html`<${Headers} ...${{ detail, path }} onPage=${setHeaderOffset} />`}
        ${part === "batch" && html`<${Batch} detail=${detail} />`}`}
    </div>
  </section>`;
}

function Times({ detail }) {
  const by = detail.timestamp_type === "append" ? "set by the broker when it was written" : "set by the producer";
  return html`<p class="record-times"><span class="mono">${timestamp(detail.timestamp_ms)}</span> <span class="muted">(<${RelativeTime} ms=${detail.timestamp_ms} />, ${by}) · ${bytes(detail.size_bytes)} without compression</span></p>`;
}

function Parts({ detail, part, onPart }) {
  const parts = [
    ["value", "Value", sizeOf(detail.value)],
    ["key", "Key", sizeOf(detail.key)],
    ["headers", "Headers", count(detail.header_count)],
    ["batch", "Batch", null],
  ];
  return html`<div class="record-parts" role="group" aria-label="Parts of the record">
    ${parts.map(([id, label, note]) => html`<button key=${id} type="button" class="record-part" aria-pressed=${part === id ? "true" : "false"} onClick=${() => onPart(id)}>${label}${note !== null && html` <span class="tab-note">${note}</span>`}</button>`)}
  </div>`;
}

function FieldPart({ detail, path, name, field, format, onFormat, isWhole, onWhole }) {
  const [isText, setText] = useState(false);
  const canBeTree = useMemo(() => field.is_json && !field.is_cut && parsed(field.text) !== null, [field]);
  const isTree = canBeTree && !isText;
  const raw = apiAddress(`${path}/raw`, { part: name });
  const hasData = field.size_bytes !== null;
  return html`<div class="record-field">
    <div class="record-tools">
      <${SelectField} label=${`Show the ${name} as`} isLabelHidden value=${format} onChange=${onFormat} options=${FORMATS.map(([id, text]) => [id, id === "auto" && format === "auto" ? `Automatic: ${FORMAT_NAMES[field.format]}` : text])} />
      ${canBeTree && html`<div class="segments" role="group" aria-label="Tree or text"><button type="button" class="segment" aria-pressed=${isText ? "false" : "true"} onClick=${() => setText(false)}>Tree</button><button type="button" class="segment" aria-pressed=${isText ? "true" : "false"} onClick=${() => setText(true)}>Text</button></div>`}
      ${hasData && html`<span class="record-tools-end"><${CopyButton} text=${field.text} label=${field.is_cut ? "Copy what is shown" : `Copy the ${name}`} /><a class="button button-quiet" href=${raw} download>Download bytes</a></span>`}
    </div>
    <${SchemaLine} schema=${field.schema} />
    ${field.problem && html`<${Notice} kind="warn"><p>${withMarks(field.problem)}</p></${Notice}>`}
    ${field.format === "null"
      ? html`<p class="record-nothing">null${name === "value" ? ": a tombstone, which compaction takes as the deletion of the key" : ": the record has no key"}</p>`
      : field.format === "empty"
        ? html`<p class="record-nothing">The ${name} is there, and has no bytes</p>`
        : isTree
          ? html`<${JsonTree} text=${field.text} label=${name === "key" ? "Key" : "Value"} />`
          : html`<${LongText} text=${field.text} label=${name === "key" ? "Key" : "Value"} isHex=${field.format === "hex"} />`}
    ${field.is_cut && html`<${Notice}><p>The first ${count(field.text.length)} characters of ${sizeOf(field)}. ${!isWhole && html`<button type="button" class="link" onClick=${onWhole}>Show all of it</button>`}</p></${Notice}>`}
    ${field.tried.length > 0 && html`<details class="record-tried"><summary>How this format was found</summary><ol>${field.tried.map((step) => html`<li key=${step}>${withMarks(step)}</li>`)}</ol></details>`}
  </div>`;
}

function SchemaLine({ schema }) {
  if (!schema) return null;
  const name = schema.subject ? `${schema.subject}, version ${schema.version}` : `schema ${schema.id ?? schema.guid}`;
  const href = address(["schemas"], schema.subject ? { subject: schema.subject, version: schema.version } : { id: schema.id });
  return html`<p class="record-schema"><${Badge}>${schema.type}</${Badge}> <a href=${href}>${name}</a>${schema.id !== null && html` <span class="muted">id ${schema.id}</span>`}${schema.message && html` <span class="mono">${schema.message}</span>`}</p>`;
}

function Headers({ detail, path, onPage }) {
  const { headers, header_offset: from, header_count: total } = detail;
  if (!total) return html`<p class="record-nothing">The record has no headers</p>`;
  const last = from + headers.length;
  return html`<div class="record-field">
    <div class="table-scroll" role="region" aria-label="Headers" tabindex="0"><table class="table record-headers">
      <thead><tr><th scope="col" class="end">No.</th><th scope="col">Name</th><th scope="col">Value</th><th scope="col" class="end">Size</th><th scope="col"><span class="visually-hidden">Copy, download</span></th></tr></thead>
      <tbody>${headers.map((header, index) => html`<tr key=${from + index}>
        <td class="end muted">${count(from + index)}</td>
        <th scope="row" class="mono wrapped">${withMarks(header.name)}</th>
        <td class="mono wrapped">${header.value === null ? html`<span class="nothing">null</span>` : header.value === "" ? html`<span class="nothing">empty</span>` : html`${withMarks(header.value)}${header.is_cut && "…"}`}</td>
        <td class="end">${header.size_bytes === null ? "–" : bytes(header.size_bytes)}</td>
        <td class="nowrap">${header.value !== null && html`<${CopyButton} text=${header.value} label=${`Copy header ${from + index}`} />${header.is_cut && html`<a href=${apiAddress(`${path}/raw`, { part: "header", header: from + index })} download>bytes</a>`}`}</td>
      </tr>`)}</tbody>
    </table></div>
    ${total > headers.length &&
    html`<nav class="pager" aria-label="Pages of headers"><span class="pager-place">${count(from)}–${count(last - 1)} of ${count(total)}</span><span class="pager-buttons">
        <${IconButton} icon="first" label="First headers" disabled=${from === 0} onClick=${() => onPage(0)} />
        <${IconButton} icon="previous" label="Headers before" disabled=${from === 0} onClick=${() => onPage(Math.max(0, from - HEADERS_AT_ONCE))} />
        <${IconButton} icon="next" label="Headers behind" disabled=${last >= total} onClick=${() => onPage(last)} />
        <${IconButton} icon="last" label="Last headers" disabled=${last >= total} onClick=${() => onPage(Math.floor((total - 1) / HEADERS_AT_ONCE) * HEADERS_AT_ONCE)} />
      </span></nav>`}
  </div>`;
}

function Batch({ detail }) {
  const { batch, control } = detail;
  const facts = [
    ["Control record", control ? `${control.outcome}${control.coordinator_epoch === null ? "" : `, coordinator epoch ${control.coordinator_epoch}`}` : undefined],
    ["Transaction", batch && !control ? (batch.is_transactional ? { aborted: "aborted", unstable: "open, or not known yet" }[detail.mark] ?? "committed" : detail.mark === "unstable" ? "none: it is behind an open one" : "none") : undefined],
    ["Producer id", batch && (batch.producer_id === null ? "none: the producer is not idempotent" : html`<a href=${address(["producers"], { topic: detail.topic, partition: detail.partition, producer: batch.producer_id })}>${batch.producer_id}</a>`)],
    ["Producer epoch", batch?.producer_epoch ?? undefined],
    ["Sequence", batch?.sequence ?? undefined],
    ["Leader epoch", batch && (batch.leader_epoch < 0 ? undefined : batch.leader_epoch)],
    ["Compression", batch?.codec],
    ["Batch", batch && `offsets ${count(batch.base_offset)} to ${count(batch.last_offset)}: ${plural(batch.record_count, "record")}, ${bytes(batch.size_bytes)} on the wire`],
    ["Partition", `offsets ${count(detail.start_offset)} to ${count(detail.end_offset - 1)}; last stable offset ${count(detail.stable_offset)}`],
  ];
  return html`<div class="record-field">${batch === null && html`<${Notice}><p>The record was written in a format from before Kafka 0.11, which has no such batches.</p></${Notice}>`}<${Facts} facts=${facts} /></div>`;
}

function Copies({ path }) {
  const [copies, setCopies] = useState(null);
  const open = async () => {
    setCopies({ isLoading: true });
    try {
      setCopies(await get(`${path}/copies`));
    } catch (problem) {
      setCopies({ problem: problem instanceof ApiProblem ? problem : new ApiProblem(0, String(problem)) });
    }
  };
  const items = copies?.commands ? [{ label: "JSON", text: copies.json, problem: null }, ...copies.commands] : [];
  return html`<${IconButton} icon="copy" label="Copy as JSON or as a command" onClick=${open} />
    ${copies &&
    html`<${Dialog} title="Copy the record" isWide onClose=${() => setCopies(null)} actions=${html`<${Button} onClick=${() => setCopies(null)}>Close</${Button}>`}>
        <${Problem} problem=${copies.problem} />
        ${copies.isLoading && html`<${Loading} lines=${4} />`}
        ${items.map(({ label, text, problem }) => html`<div key=${label} class="copy-item"><div class="row"><h3>${label}</h3>${text !== null && html`<${CopyButton} text=${text} label=${`Copy: ${label}`} />`}</div>${text === null ? html`<p class="muted">${problem}</p>` : html`<pre class="code copy-text" tabindex="0" aria-label=${label}>${withMarks(text.slice(0, 3000))}${text.length > 3000 && "…"}</pre>`}</div>`)}
      </${Dialog}>`}`;
}
