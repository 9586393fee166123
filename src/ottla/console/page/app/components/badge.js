// A state in one or two words. Every kind has its own sign, because colour alone is not enough.
import { html } from "../../vendor/preact.js";
import { Icon } from "./icons.js";

const ICONS = { good: "good", warn: "warn", bad: "bad", info: "info" };

// kind: good | warn | bad | info | neutral
export function Badge({ kind = "neutral", title, children }) {
  const icon = ICONS[kind];
  return html`<span class=${`badge badge-${kind}`} title=${title}>${icon && html`<${Icon} name=${icon} />`}<span>${children}</span></span>`;
}
