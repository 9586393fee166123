// The parts that a view is made of: panels, numbers, facts, bars.
import { html, useId } from "../../vendor/preact.js";
import { UNKNOWN } from "../format.js";

// A titled section. `actions` stand on the right of the title.
export function Panel({ title, note, actions, flush = false, children }) {
  const id = useId();
  return html`<section class=${flush ? "panel panel-flush" : "panel"} aria-labelledby=${title ? id : undefined}>
    ${title && html`<header class="panel-head"><h2 id=${id}>${title}</h2>${note && html`<span class="muted">${note}</span>`}<div class="panel-actions">${actions}</div></header>`}
    <div class="panel-body">${children}</div>
  </section>`;
}

// Numbers in a row: `<${Stats}><${Stat} label="Lag" value=${count(12)} /></${Stats}>`
export const Stats = ({ children }) => html`<dl class="stats">${children}</dl>`;

// kind: warn | bad where the number is a worry. `children` is what stands below, as a sparkline.
export function Stat({ label, value, unit, note, href, kind, children }) {
  const shown = html`<span class="stat-value">${value ?? UNKNOWN}</span>${unit && html` <span class="stat-unit">${unit}</span>`}`;
  return html`<div class=${kind ? `stat stat-${kind}` : "stat"}>
    <dt>${label}</dt>
    <dd>${href ? html`<a href=${href}>${shown}</a>` : shown}${note && html`<div class="stat-note">${note}</div>`}${children}</dd>
  </div>`;
}

// Names with values: `<${Facts} facts=${[["Cluster", id], ["Version", version]]} />`; rows with undefined are left out.
export function Facts({ facts }) {
  return html`<dl class="facts">
    ${facts.filter(([, value]) => value !== undefined).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value ?? UNKNOWN}</dd></div>`)}
  </dl>`;
}

// A part of a whole as a bar with its text. From `warnAt` on it is a worry.
export function Meter({ share, label, warnAt = 0.85, badAt = 0.95 }) {
  if (share === null || share === undefined) return html`<span>${UNKNOWN}</span>`;
  const kind = share >= badAt ? "bad" : share >= warnAt ? "warn" : "good";
  return html`<span class="meter"><span class="meter-bar" aria-hidden="true"><span class=${`meter-fill meter-${kind}`} style=${{ "--share": Math.min(1, Math.max(0, share)) }}></span></span><span class="meter-label">${label}</span></span>`;
}

export const Code = ({ label = "Text", children }) => html`<pre class="code" tabindex="0" role="group" aria-label=${label}>${children}</pre>`;
