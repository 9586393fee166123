// The value of a config as a field: a choice where the cluster says that it is yes or no, a text otherwise.
import { html } from "../../vendor/preact.js";
import { SelectField, TextField } from "../components/field.js";
import { readableValue } from "./settings.js";

export function ConfigField({ row, value, onInput }) {
  const hint = html`${row.documentation ?? "The cluster has no documentation of it."}${row.has_fallback && row.fallback_value !== null && html` <span class="nowrap">Without a value of its own: <code>${row.fallback_value || "(empty)"}</code>.</span>`}`;
  if (row.type === "boolean") return html`<${SelectField} label=${row.name} value=${value} onChange=${onInput} options=${[["true", "true"], ["false", "false"]]} hint=${hint} />`;
  const readable = readableValue(row.name, value.trim());
  const label = readable ? html`${row.name} <span class="muted">${readable}</span>` : row.name;
  return html`<${TextField} label=${label} value=${value} onInput=${onInput} hint=${hint} autocomplete="off" spellcheck=${false} inputmode=${["int", "long", "short"].includes(row.type) ? "numeric" : undefined} />`;
}
