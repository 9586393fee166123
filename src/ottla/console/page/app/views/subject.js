// One subject of the schema registry: its versions, what changed between them, its rules.
import { html, useState } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { Badge } from "../components/badge.js";
import { Button } from "../components/button.js";
import { Empty, Loading } from "../components/empty.js";
import { SelectField } from "../components/field.js";
import { Facts, Panel } from "../components/panel.js";
import { Notice, Problem } from "../components/problems.js";
import { Tabs } from "../components/tabs.js";
import { View } from "../components/view.js";
import { plural } from "../format.js";
import { address, navigate, useQuery } from "../router.js";
import { DeleteDialog } from "../schemas/delete_dialog.js";
import { RegisterDialog } from "../schemas/register_dialog.js";
import { CompatibilityDialog, ModeDialog } from "../schemas/rule_dialogs.js";
import { Difference, SchemaText } from "../schemas/schema_text.js";
import { subjectAddress, TypeBadge } from "../schemas/words.js";
import { useAllows } from "../session.js";

const MAX_LISTED = 200;

export default function Subject({ subject }) {
  const [{ tab, version, before, after }, setState] = useQuery({ tab: "schema", version: 0, before: 0, after: 0 });
  const { answer: found, problem, reload } = useAnswer("/api/schemas/subject", { name: subject });
  const [dialog, setDialog] = useState(null);
  const isAdmin = useAllows("admin");
  const latest = found?.versions[0] ?? found?.deleted_versions[0] ?? 0;
  const shown = version || latest;
  const { answer: detail, problem: detailProblem, reload: reloadDetail } = useAnswer(shown ? "/api/schemas/version" : null, { subject, version: shown });
  const close = () => setDialog(null);
  const changed = () => (reload(), reloadDetail());
  const registered = (done) => (reload(), setState({ version: done.version ?? 0, tab: "schema" }));
  const deleted = (wasPermanent) => {
    const isGone = dialog.version === undefined ? wasPermanent : wasPermanent && found.versions.length + found.deleted_versions.length === 1;
    if (isGone) return navigate(address(["schemas"]));
    changed();
    return setState({ version: 0 });
  };
  const actions = found && html`
    <${Button} kind=${isAdmin ? "primary" : "plain"} icon=${isAdmin ? "plus" : "check"} disabled=${!detail} onClick=${() => setDialog({ kind: "register" })}>${isAdmin ? "New version" : "Check a schema"}</${Button}>
    ${isAdmin && html`<${Button} icon="trash" onClick=${() => setDialog({ kind: "delete" })}>Delete subject</${Button}>`}`;
  const isDeleted = found && found.versions.length === 0;
  return html`<${View} title=${subject} crumbs=${[["Schemas", "/schemas"]]} actions=${actions} badges=${html`${detail && html`<${TypeBadge} type=${detail.schema.type} />`}${isDeleted && html`<${Badge} kind="warn">deleted</${Badge}>`}`}>
    <${Problem} problem=${problem} onRetry=${reload} />
    ${!found && !problem && html`<${Loading} lines=${8} />`}
    ${found && html`<${Rules} ...${{ found, isAdmin, setDialog }} />
      <${Tabs} tabs=${[["schema", "Schema"], ["difference", "Difference"]]} current=${tab} />
      <${Problem} problem=${detailProblem} onRetry=${reloadDetail} />
      ${tab === "difference"
        ? html`<${Compare} ...${{ subject, found, before, after, setState }} />`
        : html`<div class="schema-columns"><${Versions} ...${{ found, shown, subject }} />${detail ? html`<${Version} ...${{ detail, isAdmin, setDialog }} />` : !detailProblem && html`<${Loading} lines=${6} />`}</div>`}`}
    ${dialog?.kind === "register" && html`<${RegisterDialog} subject=${subject} start=${detail && { type: detail.schema.type, text: detail.schema.pretty, references: detail.schema.references }} onClose=${close} onDone=${registered} />`}
    ${dialog?.kind === "delete" && html`<${DeleteDialog} subject=${subject} version=${dialog.version ?? null} isDeleted=${dialog.version === undefined ? isDeleted : detail.is_deleted} onClose=${close} onDone=${deleted} />`}
    ${dialog?.kind === "compatibility" && html`<${CompatibilityDialog} subject=${subject} current=${found.compatibility} onClose=${close} onDone=${changed} />`}
    ${dialog?.kind === "mode" && html`<${ModeDialog} subject=${subject} current=${found.mode} onClose=${close} onDone=${changed} />`}
  </${View}>`;
}

function Rules({ found, isAdmin, setDialog }) {
  const edit = (kind, label) => isAdmin && html` · <button type="button" class="link" aria-label=${label} onClick=${() => setDialog({ kind })}>Change</button>`;
  const value = (own, fallback) => (own ? html`<b>${own}</b>` : html`${fallback ?? "not known"} <span class="muted">as for all subjects</span>`);
  const facts = [
    ["Topic", found.topic ? html`<a href=${address(["topics", found.topic])}>${found.topic}</a>${found.part && ` (${found.part}s of its records)`}` : html`<span class="muted">No topic of the cluster is called so</span>`],
    ["Compatibility", html`${value(found.compatibility, found.default_compatibility)}${edit("compatibility", "Change the compatibility")}`],
    ["Mode", html`${value(found.mode, found.default_mode)}${edit("mode", "Change the mode")}`],
  ];
  return html`<div class="schema-rules"><${Panel} title="Rules"><${Facts} facts=${facts} /></${Panel}></div>`;
}

function Versions({ found, shown, subject }) {
  const entry = (version, isDeleted) => html`<li key=${version}><a href=${subjectAddress(subject, { version })} aria-current=${version === shown ? "true" : undefined}>Version ${version}${isDeleted ? html` <${Badge} kind="warn">deleted</${Badge}>` : version === found.versions[0] && html` <${Badge} kind="good">latest</${Badge}>`}</a></li>`;
  const all = [...found.versions.map((each) => [each, false]), ...found.deleted_versions.map((each) => [each, true])].sort(([one], [other]) => other - one);
  return html`<nav class="schema-versions" aria-label="Versions"><ul>${all.slice(0, MAX_LISTED).map(([each, isDeleted]) => entry(each, isDeleted))}</ul>
    ${all.length > MAX_LISTED && html`<p class="muted">The newest ${MAX_LISTED} of ${plural(all.length, "version")}.</p>`}</nav>`;
}

function Version({ detail, isAdmin, setDialog }) {
  const { schema } = detail;
  const places = (list) => html`<ul>${list.map(({ subject, version }) => html`<li key=${`${subject} ${version}`}><a href=${subjectAddress(subject, { version })}>${subject} version ${version}</a></li>`)}</ul>`;
  const facts = [
    ["Id", html`<a href=${address(["schemas", "ids", schema.id])}>${schema.id}</a>`],
    ["GUID", detail.guid ? html`<code>${detail.guid}</code>` : undefined],
    ["Same schema", detail.same_id.length ? places(detail.same_id) : undefined],
    ["Referred to by", detail.referenced_by_count ? html`${places(detail.referenced_by)}${detail.referenced_by.length === 0 && plural(detail.referenced_by_count, "schema")}` : undefined],
  ];
  const remove = isAdmin && html`<${Button} kind="quiet" icon="trash" onClick=${() => setDialog({ kind: "delete", version: detail.version })}>Delete version</${Button}>`;
  return html`<${Panel} title=${`Version ${detail.version}`} actions=${remove}>
    <div class="stack">${detail.is_deleted && html`<${Notice} kind="warn">This version is deleted softly: records with its id can still be read.</${Notice}>`}
      <${Facts} facts=${facts} /><${SchemaText} schema=${schema} /></div>
  </${Panel}>`;
}

function Compare({ subject, found, before, after, setState }) {
  const all = [...found.versions, ...found.deleted_versions].sort((one, other) => other - one);
  if (all.length < 2) return html`<${Empty} title="There is one version">A second one shows what has changed.</${Empty}>`;
  const [newer, older] = [after || all[0], before || all[1]];
  const options = all.map((each) => [String(each), `Version ${each}`]);
  return html`<div class="stack">
    <div class="toolbar"><${SelectField} label="From" value=${String(older)} onChange=${(value) => setState({ before: Number(value) })} options=${options} />
      <${SelectField} label="to" value=${String(newer)} onChange=${(value) => setState({ after: Number(value) })} options=${options} /></div>
    <${Difference} subject=${subject} before=${older} after=${newer} />
  </div>`;
}
