// The schema with an id, which records carry.
import { html } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { Loading } from "../components/empty.js";
import { Panel } from "../components/panel.js";
import { Problem } from "../components/problems.js";
import { View } from "../components/view.js";
import { SchemaText } from "../schemas/schema_text.js";
import { subjectAddress, TypeBadge } from "../schemas/words.js";

export default function SchemaOfId({ id }) {
  const { answer, problem, reload } = useAnswer("/api/schemas/id", { id });
  return html`<${View} title=${`Schema ${id}`} crumbs=${[["Schemas", "/schemas"]]} badges=${answer && html`<${TypeBadge} type=${answer.schema.type} />`}>
    <${Problem} problem=${problem} onRetry=${reload} />
    ${!answer && !problem && html`<${Loading} lines=${8} />`}
    ${answer && html`<${Panel} title="Subjects that have it">
        ${answer.places.length ? html`<ul>${answer.places.map(({ subject, version }) => html`<li key=${`${subject} ${version}`}><a href=${subjectAddress(subject, { version })}>${subject} version ${version}</a></li>`)}</ul>` : html`<p class="muted">None any more: their versions are deleted. Records with this id can still be read.</p>`}
      </${Panel}>
      <${Panel} title="Schema"><${SchemaText} schema=${answer.schema} /></${Panel}>`}
  </${View}>`;
}
