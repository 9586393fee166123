// What stands where there is nothing: why, and what to do.
import { html } from "../../vendor/preact.js";
import { Icon } from "./icons.js";

export function Empty({ icon = "info", title, children }) {
  return html`<div class="empty"><${Icon} name=${icon} /><p class="empty-title">${title}</p>${children && html`<div class="empty-text">${children}</div>`}</div>`;
}

// Grey bars in the place of what is awaited.
export function Loading({ lines = 3, label = "Loading" }) {
  return html`<div class="loading" role="status"><span class="visually-hidden">${label}</span>
    ${Array.from({ length: lines }, () => html`<div class="loading-line"></div>`)}
  </div>`;
}
