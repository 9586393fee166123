// The subjects of the schema registry.
import { html, useState } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { Badge } from "../components/badge.js";
import { Button } from "../components/button.js";
import { Empty, Loading } from "../components/empty.js";
import { CheckField, SelectField } from "../components/field.js";
import { Stat, Stats } from "../components/panel.js";
import { Notice, Problem, Problems } from "../components/problems.js";
import { ServerTable } from "../components/table.js";
import { View } from "../components/view.js";
import { count, duration, plural, UNKNOWN } from "../format.js";
import { address, useQuery } from "../router.js";
import { CompatibilityDialog, ModeDialog } from "../schemas/rule_dialogs.js";
import { RegisterDialog } from "../schemas/register_dialog.js";
import { LevelBadge, subjectAddress, TypeBadge } from "../schemas/words.js";
import { useAllows } from "../session.js";

export default function Schemas() {
  const { answer: registry, problem, reload } = useAnswer("/api/schemas/registry", {}, { live: true });
  if (registry && !registry.is_configured) return html`<${View} title="Schemas"><${NotConfigured} /></${View}>`;
  return html`<${Registry} registry=${registry} problem=${problem} onChange=${reload} />`;
}

const NotConfigured = () => html`<${Empty} icon="schemas" title="This console has no schema registry">
  <p>Start it with <code>--registry http://HOST:8081</code>: any registry that speaks Confluent's protocol, as Confluent's, Apicurio's or <code>ottla registry</code>.</p>
  <p>Subjects and versions are shown here then, and records with schemas are decoded.</p></${Empty}>`;

function Registry({ registry, problem, onChange }) {
  const [dialog, setDialog] = useState(null);
  const [version, setVersion] = useState(0);
  const isAdmin = useAllows("admin");
  const changed = () => (onChange(), setVersion((last) => last + 1));
  const actions = isAdmin && registry?.health.is_up && html`<${Button} kind="primary" icon="plus" onClick=${() => setDialog("register")}>Register a schema</${Button}>`;
  return html`<${View} title="Schemas" lead=${registry && registry.addresses.join(", ")} actions=${actions}>
    <${Problem} problem=${problem} onRetry=${onChange} />
    ${!registry && !problem && html`<${Loading} lines=${2} />`}
    ${registry && html`<${Health} registry=${registry} />`}
    ${registry && html`<${Rules} registry=${registry} isAdmin=${isAdmin} onOpen=${setDialog} />`}
    ${registry && html`<${Subjects} key=${version} types=${registry.types} isUp=${registry.health.is_up} />`}
    ${dialog === "register" && html`<${RegisterDialog} onClose=${() => setDialog(null)} onDone=${changed} />`}
    ${dialog === "compatibility" && html`<${CompatibilityDialog} subject=${null} current=${registry.compatibility} onClose=${() => setDialog(null)} onDone=${changed} />`}
    ${dialog === "mode" && html`<${ModeDialog} subject=${null} current=${registry.mode} onClose=${() => setDialog(null)} onDone=${changed} />`}
  </${View}>`;
}

function Health({ registry }) {
  const { health, problems } = registry;
  if (health.is_up) return html`<${Problems} problems=${problems} />`;
  return html`<${Notice} kind="bad"><p>The schema registry does not answer: ${health.problem}</p>
    <p>It is asked again ${health.retry_in_ms ? `in ${duration(Math.ceil(health.retry_in_ms / 1000) * 1000)}` : "now"}. Everything else of the console goes on; records with schemas are shown as bytes.</p></${Notice}>`;
}

function Rules({ registry, isAdmin, onOpen }) {
  const edit = (name, label) => isAdmin && html`<button type="button" class="link" aria-label=${label} onClick=${() => onOpen(name)}>Change</button>`;
  return html`<${Stats}>
    <${Stat} label="Compatibility of all subjects" value=${html`<span class="stat-text">${registry.compatibility ?? UNKNOWN}</span>`} note=${edit("compatibility", "Change the compatibility of all subjects") || "unless a subject has its own"} />
    <${Stat} label="Mode of all subjects" value=${html`<span class="stat-text">${registry.mode ?? UNKNOWN}</span>`} note=${edit("mode", "Change the mode of all subjects") || "unless a subject has its own"} />
    <${Stat} label="Formats" value=${html`<span class="stat-text">${registry.types.join(", ")}</span>`} note="that the registry knows" />
  </${Stats}>`;
}

const topicCell = ({ topic, part }) => (topic === null ? html`<span class="muted">none of this name</span>` : html`<a href=${address(["topics", topic])}>${topic}</a>${part && html` <span class="muted">${part}</span>`}`);

const COLUMNS = [
  { id: "name", label: "Subject", isSortable: true, cell: ({ name, is_deleted: isDeleted }) => html`<a href=${subjectAddress(name)}>${name}</a>${isDeleted && html` <${Badge} kind="warn">deleted</${Badge}>`}` },
  { id: "type", label: "Format", isSortable: true, cell: ({ type }) => html`<${TypeBadge} type=${type} />` },
  { id: "version", label: "Latest", align: "end", isSortable: true, cell: ({ name, version }) => (version === null ? UNKNOWN : html`<a href=${subjectAddress(name, { version })}>version ${version}</a>`) },
  { id: "versions", label: "Versions", align: "end", cell: ({ version_count: number }) => count(number) },
  { id: "id", label: "Id", align: "end", isSortable: true, cell: ({ id }) => (id === null ? UNKNOWN : html`<a href=${address(["schemas", "ids", id])}>${id}</a>`) },
  { id: "topic", label: "Topic", title: "The topic that the subject is called after", cell: topicCell },
  { id: "compatibility", label: "Compatibility", title: "Its own level; otherwise that of all subjects counts", cell: ({ compatibility, mode }) => html`<${LevelBadge} level=${compatibility} />${mode && html` <${Badge} kind="info">${mode}</${Badge}>`}` },
];

const WHERE = [["name", "In names"], ["text", "In the text of schemas"]];

function Subjects({ types, isUp }) {
  const [{ q, where }] = useQuery({ q: "", where: "name" });
  const id = /^\s*#?(\d{1,10})\s*$/.exec(q)?.[1];
  const filters = {
    defaults: { where: "name", type: "", deleted: false },
    draw: (state, set) => html`
      <${SelectField} label="Where to search" isLabelHidden value=${state.where} onChange=${(value) => set({ where: value })} options=${WHERE} />
      <${SelectField} label="Format" isLabelHidden value=${state.type} onChange=${(value) => set({ type: value })} options=${[["", "All formats"], ...types.map((type) => [type, type])]} />
      <${CheckField} label="Deleted ones, too" checked=${state.deleted} onChange=${(value) => set({ deleted: value })} />`,
  };
  return html`${id && where === "name" && html`<${Notice}>Is <b>${id}</b> the id of a schema? <a href=${address(["schemas", "ids", id])}>Show schema ${id}</a></${Notice}>`}
    <${ServerTable} path="/api/schemas" caption="Subjects" columns=${COLUMNS} rowKey=${({ name }) => name} sort="name" search="Find a subject, a text or an id" filters=${filters} live=${isUp}
      empty=${html`<${Empty} icon="schemas" title="No subjects">Serializers register them with the first record, or register one here.</${Empty}>`} />`;
}
