// The text of a schema with its words coloured, and the difference of two.
import { html, useMemo, useState } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { CopyButton } from "../components/copy.js";
import { Empty, Loading } from "../components/empty.js";
import { CheckField } from "../components/field.js";
import { Problem } from "../components/problems.js";
import { plural } from "../format.js";
import { subjectAddress } from "./words.js";

// Larger texts are shown without colours.
const MAX_COLOURED_CHARS = 200_000;
const JSON_WORDS = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|\b(true|false|null)\b/g;
const PROTO_WORDS = /(\/\/[^\n]*|\/\*[\s\S]*?\*\/)|("(?:[^"\\]|\\.)*")|\b(syntax|package|import|option|message|enum|service|rpc|returns|oneof|map|repeated|optional|required|reserved|extensions|extend|public|weak|stream)\b|\b(double|float|u?int32|u?int64|s?int32|s?int64|s?fixed32|s?fixed64|bool|string|bytes)\b|\b(\d+)\b/g;

// A list of [class, text]; the texts together are the whole.
export function words(text, isProto) {
  if (text.length > MAX_COLOURED_CHARS) return [[null, text]];
  const found = [];
  let end = 0;
  for (const match of text.matchAll(isProto ? PROTO_WORDS : JSON_WORDS)) {
    if (match.index > end) found.push([null, text.slice(end, match.index)]);
    if (isProto) {
      const [, comment, string, keyword, type] = match;
      found.push([comment ? "comment" : string ? "string" : keyword ? "keyword" : type ? "type" : "number", match[0]]);
    } else {
      const [, string, colon, number] = match;
      if (string) {
        found.push([colon ? "name" : "string", string]);
        if (colon) found.push([null, colon]);
      } else found.push([number ? "number" : "keyword", match[0]]);
    }
    end = match.index + match[0].length;
  }
  if (end < text.length) found.push([null, text.slice(end)]);
  return found;
}

const coloured = (text, isProto) => words(text, isProto).map(([kind, word]) => (kind === null ? word : html`<span class=${`schema-${kind}`}>${word}</span>`));

export function SchemaText({ schema }) {
  const [isRaw, setRaw] = useState(false);
  const text = isRaw ? schema.text : schema.pretty;
  const isProto = schema.type === "PROTOBUF";
  const drawn = useMemo(() => coloured(text, isProto), [text, isProto]);
  return html`<div class="stack">
    <div class="row schema-tools">${schema.text !== schema.pretty && html`<${CheckField} label="As it was registered" checked=${isRaw} onChange=${setRaw} />`}<span class="schema-copy"><${CopyButton} label="Copy the schema" text=${text} /></span></div>
    <pre class="code schema-code" tabindex="0" role="group" aria-label="Schema">${drawn}</pre>
    ${schema.references.length > 0 && html`<div><h3>Refers to</h3><ul>${schema.references.map(({ name, subject, version }) => html`<li key=${name}><code>${name}</code>: <a href=${subjectAddress(subject, { version })}>${subject} version ${version}</a></li>`)}</ul></div>`}
    ${schema.hidden_reference_count > 0 && html`<p class="muted">And ${plural(schema.hidden_reference_count, "subject")} that you may not see.</p>`}
  </div>`;
}

const SIGNS = { same: " ", added: "+", removed: "−" };
const READ_OUT = { added: "added: ", removed: "removed: " };
const AROUND = 4;

// Lines far from a change are folded.
export function Difference({ subject, before, after }) {
  const { answer, problem, reload } = useAnswer(before === after ? null : "/api/schemas/difference", { subject, old: before, new: after });
  const [isWhole, setWhole] = useState(false);
  if (before === after) return html`<${Empty} title="The same version">Choose two versions to compare.</${Empty}>`;
  if (problem) return html`<${Problem} problem=${problem} onRetry=${reload} />`;
  if (!answer) return html`<${Loading} lines=${6} />`;
  if (!answer.added_count && !answer.removed_count) return html`<${Empty} icon="good" title="No line differs">The versions differ at most in their references or in white space.</${Empty}>`;
  const shown = isWhole ? answer.lines : folded(answer.lines);
  return html`<div class="stack">
    <div class="row"><span><b class="text-good">${plural(answer.added_count, "line")} added</b>, <b class="text-bad">${plural(answer.removed_count, "line")} removed</b></span>
      <${CheckField} label="All lines" checked=${isWhole} onChange=${setWhole} /></div>
    <div class="schema-difference" role="region" aria-label=${`Version ${before} and version ${after}`} tabindex="0"><table>
      <caption class="visually-hidden">${`From version ${before} to version ${after}`}</caption>
      <thead class="visually-hidden"><tr><th scope="col">Line of version ${before}</th><th scope="col">Line of version ${after}</th><th scope="col">Change</th><th scope="col">Text</th></tr></thead>
      <tbody>${shown.map((line, index) => line.folded
        ? html`<tr key=${index} class="difference-fold"><td colspan="4">${plural(line.folded, "line")} that are the same</td></tr>`
        : html`<tr key=${index} class=${`difference-${line.kind}`}><td class="difference-number">${line.old_line}</td><td class="difference-number">${line.new_line}</td><td class="difference-sign"><span aria-hidden="true">${SIGNS[line.kind]}</span><span class="visually-hidden">${READ_OUT[line.kind]}</span></td><td class="difference-text">${line.text}</td></tr>`)}
      </tbody></table></div>
    ${answer.is_cut && html`<p class="muted">Only the first lines were compared: the texts are very long.</p>`}
  </div>`;
}

function folded(lines) {
  const isNear = lines.map(() => false);
  lines.forEach((line, index) => {
    if (line.kind !== "same") for (let near = Math.max(0, index - AROUND); near <= Math.min(lines.length - 1, index + AROUND); near += 1) isNear[near] = true;
  });
  const found = [];
  lines.forEach((line, index) => {
    if (isNear[index]) found.push(line);
    else if (found.at(-1)?.folded) found.at(-1).folded += 1;
    else found.push({ folded: 1 });
  });
  return found;
}
