// A lane for each member, a block for each time in which it had the same partitions. The table of the same has the
// numbers for those who cannot see it, so the drawing itself is hidden from screen readers.
import { html, useLayoutEffect, useMemo, useRef } from "../../vendor/preact.js";
import { useNow } from "../components/time.js";
import { ago, clock, count, plural, timestamp } from "../format.js";
import { laneName, STATE_WORDS, topicText } from "./group_rebalances.js";
import { hostText } from "./group_words.js";

const LEAST_COLUMN = 64;
const LEVELS = 5;
const COLOUR_COUNT = 6;

export function MembersOverTime({ answer, scale: kind, colour, last }) {
  const now = Math.max(useNow(), answer.at_ms);
  const scroller = useRef(null);
  const wasAtEnd = useRef(true);
  const marks = useMemo(() => answer.rebalances.slice(0, last).reverse(), [answer, last]);
  const scale = kind === "time" ? timeScale(marks, answer.lanes, now) : evenScale(marks, answer.lanes, now, answer.rebalances.length > last);
  const most = Math.max(1, ...answer.lanes.flatMap(({ stints }) => stints.map(({ partition_count: partitions }) => partitions)));
  const lanes = answer.lanes.filter(({ stints }) => stints.some(({ ended_at_ms: end }) => (end ?? now) > scale.from));
  // The newest is in sight, unless the user looks at older ones.
  useLayoutEffect(() => {
    if (wasAtEnd.current) scroller.current.scrollLeft = scroller.current.scrollWidth;
  }, [marks.length, marks.at(-1)?.number, kind]);
  const scroll = ({ currentTarget: { scrollLeft, clientWidth, scrollWidth } }) => (wasAtEnd.current = scrollLeft + clientWidth >= scrollWidth - 4);

  return html`<div class="lanes" ref=${scroller} role="region" aria-label="Members over time, drawn: the list below and the table say the same" tabindex="0" onScroll=${scroll}>
    <div class="lanes-inner" aria-hidden="true" style=${{ "--least": `${(marks.length + 1) * LEAST_COLUMN}px` }}>
      <div class="lanes-axis">${marks.map((mark, index) => html`<${Mark} key=${markKey(mark)} mark=${mark} at=${scale.place(timeOf(mark))} isLast=${index === marks.length - 1} now=${now} />`)}</div>
      ${lanes.map((lane) => html`<div key=${lane.lane} class=${lane.is_present ? "lane" : "lane lane-gone"}>
        <div class="lane-name" title=${`${lane.member_id}${lane.host ? ` on ${hostText(lane.host)}` : ""}`}>${laneName(lane)}${!lane.is_present && html` <span class="muted">left</span>`}</div>
        <div class="lane-track">
          ${marks.map((mark) => html`<span key=${markKey(mark)} class="lane-line" style=${{ "--at": scale.place(timeOf(mark)) }}></span>`)}
          ${lane.stints.filter(({ ended_at_ms: end }) => (end ?? now) > scale.from).map((stint, index) => html`<${Block} key=${`${stint.number} ${stint.began_at_ms} ${index}`} ...${{ stint, scale, most, colour, now }} />`)}
          ${answer.is_rebalancing && lane.is_present && html`<span class="lane-now"></span>`}
        </div>
      </div>`)}
    </div>
  </div>`;
}

const markKey = ({ number, kind, ended_at_ms: end, began_at_ms: began }) => `${number} ${kind} ${began ?? end}`;
const timeOf = ({ began_at_ms: began, ended_at_ms: end, protocol }) => (protocol === "consumer" ? (began ?? end) : (end ?? began));

function Mark({ mark, at, isLast, now }) {
  const time = timeOf(mark);
  return html`<span class=${`lanes-mark lanes-mark-${mark.kind} ${mark.ended_at_ms === null ? "lanes-mark-open" : ""}`} style=${{ "--at": at }} title=${`${timestamp(time)}\n${mark.why.join(" ")}`}>
    <b>${count(mark.number)}</b> <span class="lanes-time">${isLast ? ago(time, now) : clock(time)}</span>
  </span>`;
}

function Block({ stint, scale, most, colour, now }) {
  const { began_at_ms: began, ended_at_ms: end, partition_count: partitions, number, state, topics } = stint;
  const at = scale.place(Math.max(began, scale.from));
  const size = scale.place(end ?? now) - at;
  if (size <= 0) return null;
  const level = partitions === 0 ? 0 : Math.max(1, Math.ceil((partitions / most) * LEVELS));
  const fill = colour === "number" && partitions ? `lane-number-${(Math.abs(number) % COLOUR_COUNT) + 1}` : `lane-level-${level}`;
  const text = `${plural(partitions, "partition")}${state === "stable" ? "" : `, ${STATE_WORDS[state] ?? state}`}, generation ${number}\n${timestamp(began)} – ${end === null ? "now" : timestamp(end)}\n${topics.map(topicText).join("\n")}`;
  return html`<span class=${`lane-block lane-${state} ${fill}`} style=${{ "--at": at, "--size": size }} title=${text}><span class="lane-count">${count(partitions)}</span></span>`;
}

// Where a time is, from 0 to 1. Between two rebalances there is as much room as between any two others. What was before
// the first one that is drawn has room if no older one is known.
function evenScale(marks, lanes, now, hasOlder) {
  const times = marks.map(timeOf);
  const earliest = Math.min(times[0], ...lanes.flatMap(({ stints }) => stints.map(({ began_at_ms: began }) => began)));
  const steps = [...(!hasOlder && earliest < times[0] ? [Math.max(earliest, times[0] - 60_000)] : []), ...times, Math.max(now, times.at(-1) + 1)];
  return { from: steps[0], place: (at) => placeIn(steps, at) };
}

function placeIn(steps, at) {
  const last = steps.length - 1;
  if (at <= steps[0]) return 0;
  if (at >= steps[last]) return 1;
  let low = 0;
  let high = last;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (steps[middle] <= at) low = middle;
    else high = middle;
  }
  return (low + (at - steps[low]) / Math.max(1, steps[high] - steps[low])) / last;
}

function timeScale(marks, lanes, now) {
  const first = timeOf(marks[0]);
  const earliest = Math.min(first, ...lanes.flatMap(({ stints }) => stints.map(({ began_at_ms: began }) => began)));
  const width = Math.max(1000, now - first);
  const from = Math.max(earliest, first - width * 0.04);
  return { from, place: (at) => Math.min(1, Math.max(0, (at - from) / (now - from))) };
}
