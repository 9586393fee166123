// The requests of a broker by API, and its connections.
import { html } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { Empty, Loading } from "../components/empty.js";
import { Facts, Panel } from "../components/panel.js";
import { Problem } from "../components/problems.js";
import { LocalTable } from "../components/table.js";
import { count, duration, rate, UNKNOWN } from "../format.js";
import { useEvent } from "../live.js";

const time = (ms) => (ms === null ? UNKNOWN : duration(ms));
const atMost = (ms) => (ms === null ? UNKNOWN : `≤ ${duration(ms)}`);

const COLUMNS = [
  { id: "api", label: "API", isSortable: true, cell: ({ api }) => api },
  { id: "per_second", label: "Per second", align: "end", isSortable: true, cell: ({ per_second: number }) => rate(number) },
  { id: "errors_per_second", label: "Errors/s", align: "end", isSortable: true, cell: ({ errors_per_second: number }) => (number ? html`<span class="text-warn">${rate(number)}</span>` : html`<span class="muted">0</span>`) },
  { id: "median_ms", label: "Median", align: "end", isSortable: true, title: "Half of the requests were answered in this time", cell: ({ median_ms: ms }) => atMost(ms) },
  { id: "p99_ms", label: "99%", align: "end", isSortable: true, cell: ({ p99_ms: ms }) => atMost(ms) },
  { id: "mean_ms", label: "Mean", align: "end", isSortable: true, cell: ({ mean_ms: ms }) => time(ms) },
  { id: "waiting", label: "Waiting", align: "end", isSortable: true, title: "Requests that are not answered yet", cell: ({ waiting }) => count(waiting) },
  { id: "received", label: "Since start", align: "end", isSortable: true, cell: ({ received }) => count(received) },
  { id: "errors", label: "Errors since start", cell: ({ errors }) => html`<${Errors} errors=${errors} />` },
];

export function Requests() {
  const { answer, problem, reload } = useAnswer("/api/broker/requests");
  useEvent("internals", () => reload(), [reload]);
  if (!answer) return problem ? html`<${Problem} problem=${problem} onRetry=${reload} />` : html`<${Loading} lines=${8} />`;
  return html`<${Problem} problem=${problem} onRetry=${reload} />
    <${LocalTable} caption="Requests by API" columns=${COLUMNS} rows=${answer.rows} rowKey=${({ api }) => api} sort="per_second" order="desc"
      empty=${html`<${Empty} icon="clock" title="No rates yet">They are the differences of two reports: a moment.</${Empty}>`} />
    ${answer.seconds !== null && html`<p class="muted">Rates and times are those of the last ${duration(answer.seconds * 1000)}. Fetches and joins of groups wait for records and members as long as clients ask for.</p>`}
    <${Panel} title="Connections">
      <${Facts} facts=${[
        ...Object.entries(answer.connections_by_listener).map(([name, number]) => [`Open at ${name}`, count(number)]),
        ["Accepted since the start", count(answer.connections_accepted)],
        ["Refused", count(answer.connections_refused)],
        ["Ended because of an error", count(answer.connections_faulted)],
      ]} />
    </${Panel}>`;
}

function Errors({ errors }) {
  const found = Object.entries(errors).sort(([, one], [, other]) => other - one);
  if (!found.length) return html`<span class="muted">none</span>`;
  return html`<span class="broker-errors">${found.slice(0, 3).map(([name, number]) => html`<span key=${name}><span class="mono">${name}</span> ${count(number)}</span>`)}${found.length > 3 && html`<span class="muted" title=${found.map(([name, number]) => `${name} ${number}`).join("\n")}>+${found.length - 3}</span>`}</span>`;
}
