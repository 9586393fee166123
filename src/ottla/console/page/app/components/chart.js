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

// times: milliseconds; series: [{ label, values }], with null where nothing is known; unit: a key of FORMATS.
export function Chart({ title, times, series, unit = "count", height = 180, isTitleHidden = false }) {
  const place = useRef(null);
  const plot = useRef(null);
  const [at, setAt] = useState(null);
  const themeNow = useStore(theme);
  const format = FORMATS[unit];
  const names = series.map(({ label }) => label).join("\n");
  const data = useMemo(() => [times.map((ms) => ms / 1000), ...series.map(({ values }) => values)], [times, series]);

  useEffect(() => {
    const options = optionsFor({ element: place.current, series, format, height, onCursor: setAt });
    const made = (plot.current = new uPlot(options, data, place.current));
    const observer = new ResizeObserver(([{ contentRect }]) => made.setSize({ width: Math.max(50, contentRect.width), height }));
    observer.observe(place.current);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [names, unit, height, themeNow]);
  useEffect(() => plot.current?.setData(data), [data]);

  const shown = at ?? times.length - 1;
  return html`<figure class="chart">
    <figcaption class="chart-head"><span class=${isTitleHidden ? "visually-hidden" : "chart-title"}>${title}</span>
      <ul class="legend">${series.map(({ label, values }, index) => html`<li key=${label}><svg class=${`legend-line chart-colour-${(index % COLOURS.length) + 1}`} viewBox="0 0 18 4" aria-hidden="true"><path d="M0 2h18" stroke-dasharray=${DASHES[index % DASHES.length].join(" ")} /></svg>${label} <b>${format(values[shown])}</b></li>`)}
        ${at !== null && html`<li class="muted">${clock(times[at])}</li>`}</ul>
    </figcaption>
    <div class="chart-canvas" ref=${place} aria-hidden="true"></div>
    <${ReadOut} ...${{ title, times, series, format }} />
  </figure>`;
}

function ReadOut({ title, times, series, format }) {
  const step = Math.max(1, Math.ceil(times.length / READ_OUT_ROWS));
  const rows = times.map((ms, index) => [ms, index]).filter((_, index) => (times.length - 1 - index) % step === 0);
  return html`<table class="visually-hidden"><caption>${title}</caption>
    <thead><tr><th scope="col">Time</th>${series.map(({ label }) => html`<th scope="col">${label}</th>`)}</tr></thead>
    <tbody>${rows.map(([ms, index]) => html`<tr><th scope="row">${clock(ms)}</th>${series.map(({ values }) => html`<td>${format(values[index])}</td>`)}</tr>`)}</tbody>
  </table>`;
}

function optionsFor({ element, series, format, height, onCursor }) {
  const colour = colourReader(element);
  const axis = { stroke: colour("--text-muted"), font: "11px system-ui, sans-serif", ticks: { show: false }, grid: { stroke: colour("--line-soft"), width: 1 } };
  return {
    width: Math.max(50, element.clientWidth),
    height,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
    hooks: { setCursor: [(plot) => onCursor(plot.cursor.idx ?? null)] },
    scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), high ? high * 1.1 : 1] } },
    axes: [
      { ...axis, space: 70, size: 26, values: (_, splits) => splits.map((seconds) => clock(seconds * 1000).slice(0, isShort(splits) ? 8 : 5)) },
      { ...axis, size: 72, values: (_, splits) => splits.map((value) => format(value)) },
    ],
    series: [
      {},
      ...series.map((_, index) => ({
        stroke: colour(COLOURS[index % COLOURS.length]),
        width: 1.75,
        dash: DASHES[index % DASHES.length],
        points: { show: false },
        fill: series.length === 1 ? colour("--chart-fill") : undefined,
      })),
    ],
  };
}

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
