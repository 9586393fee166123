// Keys, values and headers as the API shows them: text, JSON, or bytes in hexadecimal digits.
import { html } from "../../vendor/preact.js";
import { Badge } from "../components/badge.js";
import { CopyButton } from "../components/copy.js";
import { Code } from "../components/panel.js";
import { bytes } from "../format.js";

export function ShownInLine({ shown }) {
  if (shown.form === "null") return html`<span class="muted">null</span>`;
  if (shown.size_bytes === 0) return html`<span class="muted">empty</span>`;
  const text = shown.text.replace(/\s+/g, " ");
  return html`<span class=${`shown-line mono ${shown.form === "hex" ? "muted" : ""}`} title=${bytes(shown.size_bytes)}><bdi>${text}</bdi>${shown.is_cut && "…"}</span>`;
}

export function ShownWhole({ label, shown }) {
  const note = html`<span class="muted">${shown.form === "null" ? "" : bytes(shown.size_bytes)}</span>`;
  return html`<div class="stack">
    <div class="row"><${Badge}>${shown.form}</${Badge}>${note}${shown.form !== "null" && html`<${CopyButton} label=${`Copy the ${label}`} text=${shown.text} />`}</div>
    ${shown.form === "null" ? html`<p class="muted">No ${label}.</p>` : shown.size_bytes === 0 ? html`<p class="muted">Empty: no byte.</p>` : html`<${Code} label=${label}>${shown.text}</${Code}>`}
    ${shown.is_cut && html`<p class="muted">The first ${bytes(shown.form === "hex" ? (shown.text.length + 1) / 3 : shown.text.length)} are shown.</p>`}
  </div>`;
}
