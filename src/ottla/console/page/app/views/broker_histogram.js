// Counts by range as bars; the numbers stand beside them.
import { html } from "../../vendor/preact.js";
import { count, duration } from "../format.js";

// bounds: upper bounds in milliseconds; counts has one more, for what is longer than all.
export function Histogram({ label, bounds, counts }) {
  const most = Math.max(...counts, 1);
  const last = counts.findLastIndex((number) => number > 0);
  const shown = counts.slice(0, Math.max(last + 1, 4));
  return html`<table class="broker-histogram"><caption class="visually-hidden">${label}</caption>
    <tbody>${shown.map((number, index) => html`<tr key=${index}><th scope="row">${index < bounds.length ? `up to ${duration(bounds[index])}` : `over ${duration(bounds.at(-1))}`}</th>
      <td class="broker-bar-cell"><span class="broker-bar" style=${{ "--share": number / most }} aria-hidden="true"></span></td><td class="end">${count(number)}</td></tr>`)}</tbody>
  </table>`;
}
