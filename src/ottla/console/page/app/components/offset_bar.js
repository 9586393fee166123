// A partition as a bar from its first offset to its end: what readers of committed records see, what open transactions
// hold back behind the last stable offset, and a lane for each of these transactions from where it begins.
import { html } from "../../vendor/preact.js";
import { count, plural } from "../format.js";

const MAX_LANES = 6;
// However little is held or visible, both can be seen: then the bar is not to scale, and has a break.
const LEAST_HELD = 0.4;
const MOST_HELD = 0.82;

// start, stable, end: offsets, or null where they are not known.
// transactions: [{ key, start, label, href, kind: "open" | "hanging", title }]; groups: [{ name, offset }].
// isCompact: the bar alone, for a row of a table.
export function OffsetBar({ start, stable, end, transactions = [], groups = [], isCompact = false, label }) {
  if (isNothing(start) || isNothing(end)) return html`<span class="muted">offsets not known</span>`;
  const scale = scaleOf(start, isNothing(stable) ? end : stable, end);
  const lanes = [...transactions].sort((one, other) => one.start - other.start);
  const hasHanging = lanes.some(({ start: at, kind }) => kind === "hanging" && at === scale.stable);
  const sentence = label ?? sentenceOf(scale, lanes.length);
  const track = html`<div class=${`offset-track ${hasHanging ? "offset-track-bad" : ""}`} role="img" aria-label=${sentence} title=${isCompact ? sentence : undefined}>
    ${scale.stable > start && html`<span class="offset-visible" style=${{ "--size": 1 - scale.held }}>${scale.isBroken && html`<span class="offset-break"></span>`}</span>`}
    ${scale.held > 0 && html`<span class="offset-held" style=${{ "--size": scale.held }}></span>`}
  </div>`;
  if (isCompact) return html`<div class="offset-bar offset-bar-compact">${track}</div>`;
  return html`<div class="offset-bar">
    <${Flags} groups=${groups} scale=${scale} />
    ${track}
    <${Marks} scale=${scale} />
    ${lanes.length > 0 && html`<${Lanes} lanes=${lanes} scale=${scale} />`}
  </div>`;
}

const isNothing = (value) => value === null || value === undefined || value < 0;

// Where offsets are on the bar, from 0 to 1. `held` is the share of the bar behind the last stable offset.
function scaleOf(start, stable, end) {
  const total = Math.max(0, end - start);
  const hidden = Math.min(total, Math.max(0, end - stable));
  const share = total ? hidden / total : 0;
  const held = share === 0 || share === 1 ? share : Math.min(MOST_HELD, Math.max(LEAST_HELD, share));
  const place = (offset) => {
    if (!total) return 0;
    if (offset <= stable) return stable > start ? (Math.max(0, offset - start) / (stable - start)) * (1 - held) : 0;
    return 1 - held + (Math.min(hidden, offset - stable) / hidden) * held;
  };
  return { start, stable: Math.max(start, Math.min(stable, end)), end, held, hidden, place, isBroken: Math.abs(held - share) > 0.01 };
}

function sentenceOf({ start, stable, end, hidden }, openCount) {
  if (start === end) return `Empty at offset ${count(end)}`;
  if (!hidden) return `Offsets ${count(start)} to ${count(end)}: all can be read`;
  const by = openCount ? ` by ${plural(openCount, "open transaction")}` : "";
  return `Offsets ${count(start)} to ${count(end)}: readers of committed records see up to ${count(stable)}, and ${plural(hidden, "offset")} ${hidden === 1 ? "is" : "are"} held back${by}`;
}

// The offsets under the bar: its first one, the last stable one, its end.
function Marks({ scale }) {
  const { start, stable, end, held } = scale;
  if (!held) {
    return html`<div class="offset-marks"><span><b>${count(start)}</b> start</span><span class="offset-mark-end">${start === end ? "empty" : "all readable"}, end <b>${count(end)}</b></span></div>`;
  }
  return html`<div class="offset-marks">
    ${stable > start && html`<span class="offset-mark-start" style=${{ "--size": 1 - held }}><b>${count(start)}</b> start</span>`}
    <span class="offset-mark-stable"><b>${count(stable)}</b> last stable</span>
    <span class="offset-mark-end">end <b>${count(end)}</b></span>
  </div>`;
}

// Where groups have read to; those that wait have a text.
function Flags({ groups, scale }) {
  if (groups.length === 0) return null;
  const places = new Map();
  for (const { name, offset } of groups) places.set(offset, [...(places.get(offset) ?? []), name]);
  const waiting = places.get(scale.stable)?.length ?? 0;
  const at = scale.place(scale.stable);
  return html`<div class="offset-flags" aria-hidden="true">
    ${[...places].map(([offset, names]) => html`<span key=${offset} class=${`offset-flag ${offset === scale.stable && scale.held ? "offset-flag-waiting" : ""}`} style=${{ "--at": scale.place(offset) }} title=${`${names.slice(0, 10).join(", ")} at ${count(offset)}`}></span>`)}
    ${waiting > 0 && scale.held > 0 && html`<span class=${at > 0.5 ? "offset-flag-text offset-flag-text-before" : "offset-flag-text"} style=${{ "--at": at }}>${plural(waiting, "group")} ${waiting === 1 ? "waits" : "wait"} here</span>`}
  </div>`;
}

// Each transaction lasts from its first offset to the end, because it has none.
function Lanes({ lanes, scale }) {
  const shown = lanes.slice(0, MAX_LANES);
  return html`<ul class="offset-lanes">
    ${shown.map((lane) => {
      const at = scale.place(lane.start);
      const kind = lane.kind === "hanging" ? "hanging" : lane.start === scale.stable ? "holding" : "open";
      const what = kind === "hanging" ? "hangs" : kind === "holding" ? "holds the last stable offset" : "open behind it";
      const text = html`<span class="offset-lane-text" title=${lane.title}>${lane.href ? html`<a href=${lane.href}>${lane.label}</a>` : lane.label} <span class="muted">${what}, from ${count(lane.start)}</span></span>`;
      return html`<li key=${lane.key} class=${`offset-lane offset-lane-${kind} ${at > 0.5 ? "offset-lane-late" : ""}`} style=${{ "--at": at }}><span class="offset-lane-line" aria-hidden="true"></span>${text}</li>`;
    })}
    ${lanes.length > MAX_LANES && html`<li class="offset-lane-more muted">and ${plural(lanes.length - MAX_LANES, "more open transaction")}</li>`}
  </ul>`;
}
