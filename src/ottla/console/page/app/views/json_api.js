// What programs can ask of the console: the OpenAPI document, to read.
import { html, useEffect, useMemo } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { Badge } from "../components/badge.js";
import { CopyButton } from "../components/copy.js";
import { Empty, Loading } from "../components/empty.js";
import { SearchField } from "../components/field.js";
import { Panel } from "../components/panel.js";
import { Problem } from "../components/problems.js";
import { View } from "../components/view.js";
import { plural } from "../format.js";
import { useQuery } from "../router.js";
import { session } from "../session.js";

const DOCUMENT = "/api/openapi.json";
const LEAD = "Everything that the page shows and does, programs can ask for, too. Reads answer JSON; changes need a role, and say what they would do unless preview is false.";

export default function JsonApi() {
  const [{ q, open }, setState] = useQuery({ q: "", open: "" });
  const { answer, problem, reload } = useAnswer(DOCUMENT);
  const all = useMemo(() => (answer ? operationsOf(answer) : []), [answer]);
  const shown = all.filter(({ text }) => text.includes(q.toLowerCase()));
  // A link to a request shows it, wherever it is in the list.
  useEffect(() => {
    if (answer && open) document.getElementById(`about-${open}`)?.parentElement.scrollIntoView({ block: "center" });
  }, [answer !== null]);
  const choose = (id) => setState({ open: id === open ? "" : id }, { replace: true });
  const actions = html`<a class="button" href=${DOCUMENT} download="openapi.json">OpenAPI document</a>`;
  return html`<${View} title="JSON API" lead=${LEAD} actions=${actions}>
    <div class="toolbar"><${SearchField} label="Find a request" value=${q} onSearch=${(text) => setState({ q: text }, { replace: true })} />
      ${answer && html`<span class="muted">${shown.length === all.length ? plural(all.length, "request") : `${shown.length} of ${plural(all.length, "request")}`}</span>`}</div>
    <${Problem} problem=${problem} onRetry=${reload} />
    ${!answer && !problem && html`<${Loading} lines=${8} />`}
    ${answer && shown.length === 0 && html`<${Empty} icon="search" title="No such request">Search for a part of a path or of what it does.</${Empty}>`}
    ${answer && answer.tags.map(({ name, description }) => [name, description, shown.filter(({ tag }) => tag === name)]).filter(([, , some]) => some.length > 0).map(([name, description, some]) => html`<${Panel} key=${name} title=${titleOf(name)} flush>
        <p class="api-about muted">${withCode(description)}</p>
        <ul class="api-list">${some.map((each) => html`<li key=${each.id}><${Operation} operation=${each} isOpen=${each.id === open} onToggle=${() => choose(each.id)} schemas=${answer.components.schemas} /></li>`)}</ul>
      </${Panel}>`)}
  </${View}>`;
}

const titleOf = (tag) => tag.charAt(0).toUpperCase() + tag.slice(1).replaceAll("_", " ");

function operationsOf({ paths }) {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, found]) => ({
      ...found,
      id: found.operationId,
      tag: found.tags[0],
      path,
      method: method.toUpperCase(),
      text: `${method} ${path} ${found.summary} ${found.description ?? ""}`.toLowerCase(),
    })),
  );
}

function Operation({ operation, isOpen, onToggle, schemas }) {
  const { id, method, path, summary } = operation;
  return html`<button type="button" class="api-head" aria-expanded=${isOpen ? "true" : "false"} aria-controls=${`about-${id}`} onClick=${onToggle}>
      <span class=${`api-method api-method-${method.toLowerCase()}`}>${method}</span> <span class="mono api-path">${path}</span> <span class="api-summary">${summary}</span>
    </button>
    <div id=${`about-${id}`} class="api-detail" hidden=${!isOpen}>${isOpen && html`<${Detail} ...${{ operation, schemas }} />`}</div>`;
}

function Detail({ operation, schemas }) {
  const { description, parameters = [], requestBody, responses } = operation;
  const isStream = JSON.stringify(responses).includes("text/event-stream");
  const answered = responses["200"]?.content?.["application/json"]?.schema;
  const body = requestBody?.content["application/json"].schema;
  const command = curlOf(operation, schemas);
  return html`<div class="stack">
    <p>${withCode(description)} <${Badge}>role ${operation["x-role"]}</${Badge}>${isStream && html` <${Badge} kind="info">server-sent events</${Badge}>`}</p>
    <${Fields} title="Parameters" rows=${parameters.map(({ name, in: place, required, schema, description: text }) => ({ name, note: place === "query" ? "" : place, required, schema, text }))} />
    ${body && html`<${Fields} title="Body" rows=${rowsOf(body, schemas)} />`}
    ${answered && html`<${Fields} title="Answer" rows=${rowsOf(answered, schemas)} isAnswer />`}
    <div><div class="row"><h3>Command</h3><${CopyButton} text=${command} label="Copy the command" /></div><pre class="code" tabindex="0" aria-label="Command">${command}</pre></div>
  </div>`;
}

function Fields({ title, rows, isAnswer = false }) {
  if (!rows.length) return null;
  return html`<div><h3>${title}</h3><div class="table-scroll" role="region" aria-label=${title} tabindex="0"><table class="table api-fields">
    <thead><tr><th scope="col">Name</th><th scope="col">Type</th><th scope="col">Meaning</th></tr></thead>
    <tbody>${rows.map(({ name, note, required, schema, text }) => html`<tr key=${name}><th scope="row" class="mono">${name}</th><td class="mono">${typeOf(schema)}</td><td class="wrapped">${withCode([note, text ?? schema.description, !isAnswer && required && "has to be given", !isAnswer && schema.default !== undefined && schema.default !== "" && `${JSON.stringify(schema.default)} by default`].filter(Boolean).join("; "))}</td></tr>`)}</tbody>
  </table></div></div>`;
}

// OpenAPI's texts are Markdown, of which ours have only `code`.
const withCode = (text = "") => text.split("`").map((part, index) => (index % 2 ? html`<code class="mono">${part}</code>` : part));

function rowsOf(schema, schemas) {
  const { properties = {}, required = [] } = resolved(schema, schemas);
  return Object.entries(properties).map(([name, each]) => ({ name, required: required.includes(name), schema: each }));
}

const resolved = (schema, schemas) => (schema.$ref ? schemas[nameOf(schema.$ref)] : schema);
const nameOf = (reference) => reference.split("/").at(-1);

function typeOf(schema) {
  if (schema.$ref) return nameOf(schema.$ref);
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" | ");
  const parts = schema.anyOf ?? schema.oneOf;
  if (parts) return parts.map(typeOf).join(" | ");
  if (schema.type === "array") return `[${typeOf(schema.items ?? {})}]`;
  return Array.isArray(schema.type) ? schema.type.join(" | ") : (schema.type ?? "any");
}

// In single quotes nothing means anything to a shell. What has to be given is there, to be replaced.
function curlOf({ method, path, parameters = [], "x-has-preview": hasPreview, requestBody }, schemas) {
  const query = parameters.filter(({ in: place, required }) => place === "query" && required).map(({ name }) => `${name}=${name.toUpperCase()}`);
  const lines = [`curl '${location.origin}${path.replace(/{(\w+)}/g, (_, name) => name.toUpperCase())}${query.length ? `?${query.join("&")}` : ""}'`];
  if (session.value?.needs_login || session.value?.logins.length) lines.push("-H 'Authorization: Bearer TOKEN'");
  else if (method !== "GET") lines.push(`-H 'x-csrf-token: ${session.value?.token ?? "TOKEN"}'`);
  if (requestBody) {
    const body = { ...exampleOf(requestBody.content["application/json"].schema, schemas), ...(hasPreview && { preview: true }) };
    lines.push("-H 'content-type: application/json'", `-d '${JSON.stringify(body)}'`);
  }
  return lines.join(" \\\n  ");
}

// The least that a body has to have: texts are the names of their fields.
function exampleOf(schema, schemas, name = "text") {
  const { type, enum: choices, anyOf, oneOf, items, properties = {}, required = [] } = resolved(schema, schemas);
  if (choices) return choices[0];
  if (anyOf ?? oneOf) return exampleOf((anyOf ?? oneOf)[0], schemas, name);
  if (type === "object") return Object.fromEntries(required.map((each) => [each, exampleOf(properties[each] ?? {}, schemas, each)]));
  if (type === "array") return [exampleOf(items ?? {}, schemas, name)];
  if (type === "integer" || type === "number") return 0;
  return type === "boolean" ? true : name.toUpperCase();
}
