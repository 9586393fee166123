// How long the broker's event loop served nobody: over the last hour, how often, and the worst.
import { html, useMemo } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { Chart } from "../components/chart.js";
import { Empty, Loading } from "../components/empty.js";
import { Panel } from "../components/panel.js";
import { Problem } from "../components/problems.js";
import { Table } from "../components/table.js";
import { RelativeTime } from "../components/time.js";
import { duration, timestamp } from "../format.js";
import { useEvent } from "../live.js";
import { Histogram } from "./broker_histogram.js";

const COLUMNS = [
  { id: "held_ms", label: "Stall", cell: ({ held_ms: ms }) => duration(ms) },
  { id: "at_ms", label: "When", cell: ({ at_ms: at }) => html`<${RelativeTime} ms=${at} />` },
  { id: "at", label: "Time", cell: ({ at_ms: at }) => html`<span class="mono">${timestamp(at)}</span>` },
];

export function Loop() {
  const { answer, problem, reload } = useAnswer("/api/broker/loop");
  useEvent("internals", () => reload(), [reload]);
  const times = useMemo(() => answer?.intervals.map(({ at_ms: at }) => at) ?? [], [answer]);
  const series = useMemo(() => [{ label: "Worst stall", values: answer?.intervals.map(({ held_ms: ms }) => ms) ?? [] }], [answer]);
  if (!answer) return problem ? html`<${Problem} problem=${problem} onRetry=${reload} />` : html`<${Loading} lines=${8} />`;
  const stretch = duration(answer.interval_ms);
  return html`<${Problem} problem=${problem} onRetry=${reload} />
    <p class="muted broker-lead">One loop serves all clients of a broker. While it is held, by a long piece of work or by a machine that is busy, nobody is served.</p>
    <${Panel} title="Worst stall" note=${`of every ${stretch}, in the last hour`}><${Chart} title="Worst stall" isTitleHidden times=${times} series=${series} unit="duration" height=${170} /></${Panel}>
    <div class="columns">
      <${Panel} title="How often" note=${`stretches of ${stretch} by their worst stall`}><${Histogram} label="Stretches of time by their worst stall" bounds=${answer.histogram_bounds_ms} counts=${answer.histogram} /></${Panel}>
      <${Panel} title="The worst" note=${`of the newest that took more than ${duration(answer.long_hold_ms)}`} flush>
        <${Table} caption="The worst stalls" columns=${COLUMNS} rows=${answer.worst.slice(0, 20)} rowKey=${({ at_ms: at }) => at} empty=${html`<${Empty} icon="good" title="None">The loop was never held for ${duration(answer.long_hold_ms)}.</${Empty}>`} />
      </${Panel}>
    </div>`;
}
