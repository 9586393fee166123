// Lines over time by uPlot, in the colours of the theme; a table beside it, for readers only, has the same numbers.
import { html, useEffect, useMemo, useRef, useState } from "../../vendor/preact.js";
import uPlot from "../../vendor/uplot/uplot.js";
import { bytes, bytesRate, clock, count, duration, percent, rate, shortCount } from "../format.js";
import { useStore } from "../store.js";
import { theme } from "../theme.js";

const FORMATS = { count, short: shortCount, rate, bytes, bytes_rate: bytesRate, duration, percent };
const COLOURS = ["--chart-1", "--chart-2", "--chart-3", "--chart-4", "--chart-5", "--chart-6"];
const DASHES = [[], [6, 4], [2, 3], [10, 4, 2, 4], [1, 4], [8, 2]];
const READ_OUT_ROWS = 12;
// What the axis of a unit may step by, so that its labels are round and each says something else; `least` is the least
// that its top stands for.
const decimal = (from, to) => Array.from({ length: to - from + 1 }, (_, index) => [1, 2, 5].map((digit) => Number(`${digit}e${from + index}`))).flat();
const binary = { steps: Array.from({ length: 56 }, (_, index) => 2 ** index), least: 4 };
const whole = { steps: decimal(0, 15), least: 1 };
const AXES = {
  count: whole,
  short: whole,
  rate: { steps: decimal(-2, 12), least: 0.1 },
  bytes: binary,
  bytes_rate: binary,
  duration: { steps: [...decimal(-3, 2), 1000, 2000, 5000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, ...[1, 2, 6, 12, 24, 48, 240, 2400].map((hours) => hours * 3_600_000)], least: 0.01 },
  percent: { steps: decimal(-3, 0), least: 0.01 },
};
const LABEL_PX = 6.3;

// times: milliseconds; series: [{ label, values, colour: 1 to 6 }], with null where nothing is known; unit: a key of
// FORMATS; kind: lines, or bars, where series stand on top of each other.
export function Chart({ title, times, series, unit = "count", height = 180, kind = "lines", isTitleHidden = false }) {
  const place = useRef(null);
  const plot = useRef(null);
  const [at, setAt] = useState(null);
  const themeNow = useStore(theme);
  const format = FORMATS[unit];
  const names = series.map(({ label }) => label).join("\n");
  const data = useMemo(() => [times.map((ms) => ms / 1000), ...(kind === "bars" ? piled(series) : series.map(({ values }) => values))], [times, series]);

  useEffect(() => {
    const options = optionsFor({ element: place.current, series, unit, height, kind, onCursor: setAt });
    const made = (plot.current = new uPlot(options, data, place.current));
    const observer = new ResizeObserver(([{ contentRect }]) => made.setSize({ width: Math.max(50, contentRect.width), height }));
    observer.observe(place.current);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [names, unit, height, kind, themeNow]);
  useEffect(() => plot.current?.setData(data), [data]);

  const shown = at ?? times.length - 1;
  return html`<figure class="chart">
    <figcaption class="chart-head"><span class=${isTitleHidden ? "visually-hidden" : "chart-title"}>${title}</span>
      <ul class="legend">${series.map(({ label, values }, index) => html`<li key=${label}><svg class=${`legend-line chart-colour-${colourOf(series, index)}`} viewBox="0 0 18 4" aria-hidden="true"><path d="M0 2h18" stroke-dasharray=${kind === "bars" ? "" : DASHES[index % DASHES.length].join(" ")} /></svg>${label} <b>${format(values[shown])}</b></li>`)}
        ${at !== null && html`<li class="muted">${clock(times[at])}</li>`}</ul>
    </figcaption>
    <div class="chart-canvas" ref=${place} aria-hidden="true"></div>
    <${ReadOut} ...${{ title, times, series, format }} />
  </figure>`;
}

function ReadOut({ title, times, series, format }) {
  const step = Math.max(1, Math.ceil(times.length / READ_OUT_ROWS));
  const rows = times.map((ms, index) => [ms, index]).filter((_, index) => (times.length - 1 - index) % step === 0);
  // A table does not shrink below its content, and would widen a narrow page.
  return html`<div class="visually-hidden"><table><caption>${title}</caption>
    <thead><tr><th scope="col">Time</th>${series.map(({ label }) => html`<th scope="col">${label}</th>`)}</tr></thead>
    <tbody>${rows.map(([ms, index]) => html`<tr><th scope="row">${clock(ms)}</th>${series.map(({ values }) => html`<td>${format(values[index])}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

const colourOf = (series, index) => series[index].colour ?? (index % COLOURS.length) + 1;

// Bars of the last series are the highest and drawn first: the others stand before them.
function piled(series) {
  const sums = [];
  series.forEach(({ values }, index) => sums.push(values.map((value, at) => (index === 0 ? value : (value ?? 0) + (sums[index - 1][at] ?? 0)))));
  return sums.reverse();
}

// Half of the place of a bar, so that the first and the last one are whole.
function padded(plot, from, to) {
  const [times] = plot.data;
  const half = (times.length > 1 ? (times.at(-1) - times[0]) / (times.length - 1) : 10) / 2;
  return [from - half, to + half];
}

// Labels without zeros that say nothing: 8 KiB/s, not 8.00 KiB/s.
const short = (text) => text.replace(/(\.\d*?)0+(?!\d)/, "$1").replace(/\.(?!\d)/, "");

const widthOf = (labels) => 14 + LABEL_PX * Math.max(1, ...(labels ?? []).map((label) => label.length));

function optionsFor({ element, series, unit, height, kind, onCursor }) {
  const colour = colourReader(element);
  const format = FORMATS[unit];
  const { steps, least } = AXES[unit];
  const axis = { stroke: colour("--text-muted"), font: "11px system-ui, sans-serif", ticks: { show: false }, grid: { stroke: colour("--line-soft"), width: 1 } };
  return {
    width: Math.max(50, element.clientWidth),
    height,
    padding: [8, 24, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
    hooks: { setCursor: [(plot) => onCursor(plot.cursor.idx ?? null)] },
    scales: { ...(kind === "bars" && { x: { range: padded } }), y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(least, (high ?? 0) * 1.1)] } },
    axes: [
      { ...axis, space: 70, size: 26, values: (_, splits) => splits.map((seconds) => clock(seconds * 1000).slice(0, isShort(splits) ? 8 : 5)) },
      { ...axis, incrs: steps, size: (_, labels) => widthOf(labels), values: (_, splits) => splits.map((value) => (value === 0 ? "0" : short(format(value)))) },
    ],
    series: [
      {},
      ...(kind === "bars" ? series.map((_, index) => barsOf(colour(COLOURS[colourOf(series, index) - 1]))).reverse() : []),
      ...(kind === "bars" ? [] : series).map((_, index) => ({
        stroke: colour(COLOURS[colourOf(series, index) - 1]),
        width: 1.75,
        dash: DASHES[index % DASHES.length],
        points: { show: false },
        fill: series.length === 1 ? colour("--chart-fill") : undefined,
      })),
    ],
  };
}

const barsOf = (colour) => ({ stroke: colour, fill: colour, width: 0, points: { show: false }, paths: uPlot.paths.bars({ size: [0.75, 36], align: 0 }) });

// Between labels that are less than a minute apart, seconds tell them apart.
const isShort = (splits) => splits.length > 1 && splits[1] - splits[0] < 60;

// Colours are tokens of the style sheet; a canvas needs them resolved.
function colourReader(element) {
  return (token) => {
    const probe = document.createElement("span");
    probe.style.color = `var(${token})`;
    element.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };
}
