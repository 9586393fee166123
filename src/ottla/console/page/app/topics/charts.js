// The rates and the lag of a topic over time, as the console has seen them.
import { html, useMemo } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { Chart } from "../components/chart.js";
import { Chips } from "../components/chips.js";
import { Empty, Loading } from "../components/empty.js";
import { Panel } from "../components/panel.js";
import { Problem } from "../components/problems.js";
import { useQuery } from "../router.js";

const SPANS = [["recent", "15 minutes"], ["long", "6 hours"]];

export function TopicCharts({ path }) {
  const [{ span }, setState] = useQuery({ span: "recent" });
  const { answer, problem, reload } = useAnswer(`${path}/history`, { span }, { live: true });
  return html`<div class="stack topic-part">
    <div class="toolbar"><${Chips} label="How far back" value=${span} onChange=${(each) => setState({ span: each })} options=${SPANS} /></div>
    <${Problem} problem=${problem} onRetry=${reload} />
    ${!answer && !problem && html`<${Loading} lines=${6} />`}
    ${answer && (answer.times_ms.length < 2 ? html`<${Empty} icon="clock" title="Nothing to draw yet">The console has just begun to watch: the first lines come after some seconds.</${Empty}>` : html`<${Lines} history=${answer} />`)}
  </div>`;
}

function Lines({ history: { times_ms: times, values } }) {
  const records = useMemo(() => [{ label: "Records/s", values: values.records_per_second }], [values]);
  const size = useMemo(() => [{ label: "Bytes/s", values: values.bytes_per_second }], [values]);
  const lag = useMemo(() => [{ label: "Lag", values: values.lag }], [values]);
  return html`<div class="topic-charts">
    <${Panel} title="Records written" note="per second"><${Chart} title="Records written per second" isTitleHidden unit="rate" ...${{ times, series: records }} /></${Panel}>
    <${Panel} title="Growth" note="of the leaders' logs"><${Chart} title="Bytes per second by which the leaders' logs grow" isTitleHidden unit="bytes_rate" ...${{ times, series: size }} /></${Panel}>
    <${Panel} title="Lag" note="of all groups, in offsets"><${Chart} title="Lag of all groups in offsets" isTitleHidden unit="short" ...${{ times, series: lag }} /></${Panel}>
  </div>`;
}
