// Buttons: with a text, or with an icon and a label that is read out and shown as a tooltip.
import { html } from "../../vendor/preact.js";
import { Icon } from "./icons.js";

// kind: plain | primary | danger | quiet
export function Button({ kind = "plain", icon, isBusy = false, disabled = false, type = "button", children, ...rest }) {
  return html`<button type=${type} class=${`button button-${kind}`} disabled=${disabled || isBusy} aria-busy=${isBusy ? "true" : undefined} ...${rest}>
    ${icon && html`<${Icon} name=${icon} />`}<span>${children}</span>
  </button>`;
}

export function IconButton({ icon, label, kind = "quiet", ...rest }) {
  return html`<button type="button" class=${`button button-${kind} button-icon`} aria-label=${label} title=${label} ...${rest}><${Icon} name=${icon} /></button>`;
}
