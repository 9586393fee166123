// The frame of a view: its heading, the path to it, its actions.
import { html, useEffect } from "../../vendor/preact.js";

// crumbs: [["Topics", "/topics"], …], the views above this one.
export function View({ title, crumbs = [], badges, actions, lead, children }) {
  useEffect(() => {
    document.title = `${title} · Ottla`;
  }, [title]);
  return html`<div class="view">
    <header class="view-head">
      <div class="view-title">
        ${crumbs.length > 0 && html`<nav class="crumbs" aria-label="Path"><ol>${crumbs.map(([label, href]) => html`<li key=${href}><a href=${href}>${label}</a></li>`)}</ol></nav>`}
        <div class="view-name"><h1 tabindex="-1">${title}</h1>${badges}</div>
        ${lead && html`<p class="view-lead">${lead}</p>`}
      </div>
      ${actions && html`<div class="view-actions">${actions}</div>`}
    </header>
    ${children}
  </div>`;
}
