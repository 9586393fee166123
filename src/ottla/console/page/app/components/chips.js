// One of a few choices, all of them in sight, each with how much it shows.
import { html } from "../../vendor/preact.js";
import { count } from "../format.js";

// options: [[value, "Text", number, kind], …]; the number is left out where it is not known, and a kind of warn or bad
// marks it where it is not 0.
export function Chips({ label, value, onChange, options }) {
  return html`<div class="chips" role="group" aria-label=${label}>
    ${options.map(([each, text, number, kind]) => html`<button key=${each} type="button" class=${number && kind ? `chip chip-${kind}` : "chip"} aria-pressed=${each === value ? "true" : "false"} onClick=${() => onChange(each)}>
      ${text}${number !== undefined && html` <span class="chip-count">${count(number)}</span>`}
    </button>`)}
  </div>`;
}
