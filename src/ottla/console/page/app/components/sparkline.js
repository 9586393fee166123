// A small line without axes; the numbers beside it say the same in text.
import { html } from "../../vendor/preact.js";

const WIDTH = 120;
const HEIGHT = 28;

// values: numbers, or null where nothing is known (a gap).
export function Sparkline({ values, label }) {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (known.length < 2) return html`<svg class="sparkline" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true"></svg>`;
  const top = Math.max(...known) || 1;
  const x = (index) => (index / (values.length - 1)) * WIDTH;
  const y = (value) => HEIGHT - 2 - (value / top) * (HEIGHT - 5);
  return html`<svg class="sparkline" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${label}>
    ${pieces(values).map((piece) => {
      const line = piece.map(([index, value]) => `${x(index).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
      const area = `${x(piece[0][0]).toFixed(1)},${HEIGHT} ${line} ${x(piece.at(-1)[0]).toFixed(1)},${HEIGHT}`;
      return html`<g><polygon class="sparkline-area" points=${area} /><polyline class="sparkline-line" points=${line} /></g>`;
    })}
  </svg>`;
}

function pieces(values) {
  const found = [];
  let piece = [];
  values.forEach((value, index) => {
    if (value === null || value === undefined) {
      if (piece.length) found.push(piece);
      piece = [];
    } else piece.push([index, value]);
  });
  if (piece.length) found.push(piece);
  return found;
}
