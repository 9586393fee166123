// A schema is written, checked by the registry as it is written, and registered.
import { html, useEffect, useState } from "../../vendor/preact.js";
import { change } from "../api.js";
import { Badge } from "../components/badge.js";
import { Button } from "../components/button.js";
import { Dialog } from "../components/dialog.js";
import { AreaField, CheckField, SelectField, TextField } from "../components/field.js";
import { Notice, Problem } from "../components/problems.js";
import { toast } from "../components/toast.js";
import { plural } from "../format.js";
import { useAllows } from "../session.js";

const TYPES = [["AVRO", "Avro"], ["JSON", "JSON Schema"], ["PROTOBUF", "Protobuf"]];
const TYPING_MS = 600;

// With `subject` its name is given; `start` is the schema to begin with: { type, text, references }.
export function RegisterDialog({ subject, start, onClose, onDone }) {
  const [name, setName] = useState(subject ?? "");
  const [type, setType] = useState(start?.type ?? "AVRO");
  const [text, setText] = useState(start?.text ?? "");
  const [references, setReferences] = useState(lines(start?.references ?? []));
  const [normalize, setNormalize] = useState(false);
  const [result, setResult] = useState(null);
  const [problem, setProblem] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const mayRegister = useAllows("admin");
  const wrong = wrongReference(references);
  const isWritten = name.trim() !== "" && text.trim() !== "" && !wrong;
  const body = { subject: name.trim(), type, text, references: read(references), normalize };

  useEffect(() => {
    setResult(null);
    setProblem(null);
    if (!isWritten) return undefined;
    let isOpen = true;
    const ask = () => change("POST", "/api/schemas/check", body).then((found) => isOpen && setResult(found), (error) => isOpen && setProblem(error));
    const timer = setTimeout(ask, TYPING_MS);
    return () => ((isOpen = false), clearTimeout(timer));
  }, [name, type, text, references, normalize]);

  const isReady = mayRegister && result !== null && result.is_valid && result.is_compatible && result.registered_version === null && result.is_refused_by_mode === null;
  const run = async () => {
    if (!isReady || isBusy) return;
    setBusy(true);
    setProblem(null);
    try {
      const done = await change("POST", "/api/schemas/register", { ...body, preview: false });
      toast(`${body.subject} has version ${done.version ?? "?"} with the id ${done.id}`);
      onClose();
      onDone?.(done);
    } catch (error) {
      setProblem(error);
      setBusy(false);
    }
  };
  const actions = html`<${Button} onClick=${onClose}>${mayRegister ? "Cancel" : "Close"}</${Button}>
    ${mayRegister && html`<${Button} type="submit" kind="primary" disabled=${!isReady} isBusy=${isBusy}>${isReady ? `Register as version ${result.next_version}` : "Register"}</${Button}>`}`;
  return html`<${Dialog} title=${subject ? `${mayRegister ? "A new version" : "Check a schema"} of ${subject}` : "Register a schema"} isWide onClose=${onClose} actions=${actions} onSubmit=${run}>
    ${!subject && html`<${TextField} label="Subject" hint="The values of a topic have the subject TOPIC-value, its keys TOPIC-key." value=${name} onInput=${setName} autocomplete="off" spellcheck=${false} />`}
    <${SelectField} label="Format" value=${type} onChange=${setType} options=${TYPES} />
    <${AreaField} label="Schema" rows=${14} value=${text} onInput=${setText} spellcheck=${false} autocomplete="off" />
    <details class="schema-more" open=${references !== ""}><summary>References and normal form</summary>
      <div class="stack">
        <${AreaField} label="References" hint="One on each line: its name in the schema, the subject and the version, with blanks between." rows=${2} value=${references} onInput=${setReferences} error=${wrong} spellcheck=${false} />
        <${CheckField} label="Normalize" hint="Compare and keep the schema in its normal form." checked=${normalize} onChange=${setNormalize} />
      </div>
    </details>
    <div aria-live="polite">${isWritten && !result && !problem ? html`<p class="muted">The registry is asked …</p>` : result && html`<${CheckResult} result=${result} />`}</div>
    <${Problem} problem=${problem} />
  </${Dialog}>`;
}

const lines = (references) => references.map(({ name, subject, version }) => `${name} ${subject} ${version}`).join("\n");
const parts = (text) => text.split("\n").map((line) => line.trim().split(/\s+/)).filter(([first]) => first);
const read = (text) => parts(text).map(([name, subject, version]) => ({ name, subject, version: Number(version) }));

function wrongReference(text) {
  const wrong = parts(text).find((each) => each.length !== 3 || !/^\d{1,9}$/.test(each[2]));
  return wrong && `“${wrong.join(" ")}” is no name, subject and version`;
}

// The registry's reasons are in its words; long ones, as the old schema, fold.
function CheckResult({ result }) {
  const { subject, compatibility: level, compared_versions: versions } = result;
  if (result.is_refused_by_mode) return html`<${Notice} kind="bad"><p>The mode of ${subject} is ${result.is_refused_by_mode}: the registry takes no schema.</p></${Notice}>`;
  if (!result.is_valid) return html`<${Notice} kind="bad"><p><b>The registry cannot read this schema.</b></p><${Reasons} messages=${result.messages} /></${Notice}>`;
  if (result.registered_version !== null) return html`<${Notice}><p>It is registered: version ${result.registered_version} of ${subject}, id ${result.registered_id}.</p></${Notice}>`;
  if (!result.is_compatible)
    return html`<${Notice} kind="bad"><p><b>Not compatible.</b> The level of ${subject} is <${Badge}>${level ?? "unknown"}</${Badge}>${versions.length > 0 && `, which compares with ${versions.length === 1 ? `version ${versions[0]}` : plural(versions.length, "version")}`}.</p><${Reasons} messages=${result.messages} /></${Notice}>`;
  if (result.is_new_subject) return html`<${Notice} kind="good"><p>The registry can read it. ${subject} is a new subject${result.topic ? ` of the topic ${result.topic}` : ""}.</p></${Notice}>`;
  return html`<${Notice} kind="good"><p><b>Compatible</b> by the level ${level ?? "of the registry"}${versions.length ? `, with ${versions.length === 1 ? `version ${versions[0]}` : plural(versions.length, "version")}` : ": nothing is compared"}. It becomes version ${result.next_version}.</p></${Notice}>`;
}

function Reasons({ messages }) {
  const isLong = (text) => /^\{?\s*'?(oldSchema|validateFields|compatibility)\b/.test(text) || text.length > 400;
  const short = messages.filter((text) => !isLong(text));
  const long = messages.filter(isLong);
  if (!messages.length) return html`<p class="muted">The registry does not say why.</p>`;
  return html`<ul class="schema-reasons">${short.map((text) => html`<li key=${text}><code>${text}</code></li>`)}</ul>
    ${long.length > 0 && html`<details class="schema-more"><summary>More of what the registry says</summary><ul class="schema-reasons">${long.map((text) => html`<li key=${text}><code>${text}</code></li>`)}</ul></details>`}`;
}
