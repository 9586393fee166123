// The brokers of the cluster, and what an Ottla broker tells of itself.
import { html, useMemo } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { Badge } from "../components/badge.js";
import { Chart } from "../components/chart.js";
import { Empty, Loading } from "../components/empty.js";
import { Meter, Panel, Stat, Stats } from "../components/panel.js";
import { Notice, Problem, Problems } from "../components/problems.js";
import { LocalTable } from "../components/table.js";
import { Tabs } from "../components/tabs.js";
import { Age } from "../components/time.js";
import { View } from "../components/view.js";
import { bytes, count, duration, rate, UNKNOWN } from "../format.js";
import { useEvent } from "../live.js";
import { address, useQuery } from "../router.js";
import { BrokerConfigs } from "./broker_configs.js";
import { Cleaning } from "./broker_cleaning.js";
import { Loop } from "./broker_loop.js";
import { BrokerLog } from "./broker_log.js";
import { Metrics } from "./broker_metrics.js";
import { Requests } from "./broker_requests.js";
import { Storage } from "./broker_storage.js";
import { Versions } from "./broker_versions.js";

const LONG_STALL_MS = 100;

// Those with `isOwn` are told by Ottla brokers alone; those with `isLog` name what not everybody may see.
const TABS = {
  brokers: { title: "Brokers" },
  log: { title: "Log", draw: BrokerLog, isOwn: true, isLog: true },
  requests: { title: "Requests", draw: Requests, isOwn: true },
  loop: { title: "Loop", draw: Loop, isOwn: true },
  storage: { title: "Storage", draw: Storage, isOwn: true },
  cleaning: { title: "Cleaning", draw: Cleaning, isOwn: true },
  metrics: { title: "Metrics", draw: Metrics, isOwn: true, isLog: true },
  configs: { title: "Configs", draw: BrokerConfigs },
  versions: { title: "Versions", draw: Versions },
};

export default function Broker() {
  const [{ tab }] = useQuery({ tab: "brokers" });
  const told = useAnswer("/api/broker/internals");
  const found = useAnswer("/api/brokers", {}, { live: true });
  useEvent("internals", () => told.reload(), [told.reload]);
  const current = TABS[tab] ? tab : "brokers";
  const brokers = found.answer?.rows;
  return html`<${View} title="Broker" badges=${told.answer?.version && html`<${Badge}>Ottla ${told.answer.version}</${Badge}>`}>
    <${Problem} problem=${told.problem} onRetry=${told.reload} />
    ${told.answer && html`<${Summary} told=${told.answer} />`}
    <${Tabs} tabs=${Object.entries(TABS).map(([id, { title }]) => [id, title])} current=${current} />
    ${current === "brokers" ? html`<${Brokers} found=${found} told=${told.answer} />` : html`<${Part} tab=${TABS[current]} told=${told.answer} brokers=${brokers} />`}
  </${View}>`;
}

const sentence = (text) => text && `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;

// A tab, or why there is nothing to show in it.
function Part({ tab: { draw: Drawn, isOwn, isLog }, told, brokers }) {
  if (!isOwn) return brokers ? html`<${Drawn} brokers=${brokers} />` : html`<${Loading} lines=${8} />`;
  if (!told) return html`<${Loading} lines=${8} />`;
  if (told.why_not) return html`<${Empty} icon="broker" title=${told.is_offered ? "The broker does not answer" : "Only Ottla's broker tells this"}>${told.is_offered ? "This fills as soon as it does." : "Kafka's protocol has no request for a broker's log, loop, storage and cleaner."}</${Empty}>`;
  if (isLog && !told.sees_log) {
    return html`<${Notice} kind="info">The broker's log and metrics name topics, groups and clients that you may not see. Users who may alter the configs of the cluster see them.</${Notice}>`;
  }
  return html`<${Drawn} />`;
}

function Summary({ told }) {
  if (told.why_not) {
    const [why, advice] = [told.why_not, told.advice].map(sentence);
    return html`<${Notice} kind=${told.is_offered ? "warn" : "info"}><p>${why}</p><p class="muted">${advice}</p></${Notice}>`;
  }
  const { disk, worst_held_ms: held } = told;
  return html`<${Stats}>
    <${Stat} label="Requests" value=${told.requests_per_second === null ? UNKNOWN : rate(told.requests_per_second)} unit="per second" note=${told.errors_per_second ? html`<span class="text-warn">${rate(told.errors_per_second)} errors/s</span>` : "No errors"} />
    <${Stat} label="Answered in" value=${told.p99_ms === null ? UNKNOWN : `≤ ${duration(told.p99_ms)}`} note="99% of them, without those that wait for records" />
    <${Stat} label="Worst stall" value=${duration(held)} kind=${held >= LONG_STALL_MS ? "warn" : undefined} note="of the loop, in the last hour" href=${address(["broker"], { tab: "loop" })} />
    <${Stat} label="Connections" value=${count(told.connections)} />
    <${Stat} label="Disk free" value=${disk ? bytes(disk.free_bytes) : UNKNOWN} note=${disk ? `of ${bytes(disk.total_bytes)}` : "Data in memory"} kind=${disk && disk.free_bytes < disk.total_bytes * 0.05 ? "bad" : undefined} />
    <${Stat} label="Runs for" value=${html`<${Age} sinceMs=${told.started_at_ms} />`} note=${told.offline_count ? html`<span class="text-bad">${count(told.offline_count)} partitions offline</span>` : "All partitions online"} />
  </${Stats}>`;
}

const COLUMNS = [
  { id: "id", label: "Broker", isSortable: true, cell: (row) => html`${row.id} ${row.is_controller && html`<${Badge} kind="info">controller</${Badge}>`}` },
  { id: "host", label: "Address", isSortable: true, cell: ({ host, port }) => html`<span class="mono">${host}:${port}</span>` },
  { id: "rack", label: "Rack", isSortable: true, cell: ({ rack }) => rack ?? UNKNOWN },
  { id: "leader_count", label: "Leads", align: "end", isSortable: true, title: "Partitions that it leads", cell: ({ leader_count: number }) => count(number) },
  { id: "replica_count", label: "Replicas", align: "end", isSortable: true, cell: ({ replica_count: number }) => count(number) },
  { id: "replicas_bytes", label: "Size", align: "end", isSortable: true, cell: ({ replicas_bytes: size }) => bytes(size) },
  { id: "disk", label: "Disk", cell: (row) => html`<${Disks} dirs=${row.log_dirs} />` },
  { id: "more", label: "More", cell: ({ id }) => html`<a href=${address(["broker"], { tab: "configs", broker: id })}>Configs</a> · <a href=${address(["broker"], { tab: "versions", broker: id })}>Versions</a>` },
];

function Brokers({ found: { answer, problem, reload }, told }) {
  return html`<${Problem} problem=${problem} onRetry=${reload} />
    <${Problems} problems=${answer?.problems} />
    ${!answer && !problem && html`<${Loading} lines=${4} />`}
    ${answer && html`<${LocalTable} caption="Brokers" columns=${COLUMNS} rows=${answer.rows} rowKey=${({ id }) => id} sort="id" />`}
    ${told?.samples?.at_ms.length > 1 && html`<${Busy} samples=${told.samples} />`}
    ${answer && html`<p class="muted">Cluster <span class="mono">${answer.cluster_id ?? UNKNOWN}</span></p>`}`;
}

function Disks({ dirs }) {
  if (dirs === null) return html`<span class="muted" title="The cluster does not tell its log directories">${UNKNOWN}</span>`;
  return html`<span class="broker-disks">${dirs.map((dir) => html`<span key=${dir.path} class="broker-disk" title=${dir.path}>
    ${dir.error ? html`<${Badge} kind="bad">${dir.error}</${Badge}>` : dir.total_bytes ? html`<${Meter} share=${1 - dir.usable_bytes / dir.total_bytes} label=${`${bytes(dir.usable_bytes)} free`} />` : html`<span class="muted">${bytes(dir.replicas_bytes)} used</span>`}
  </span>`)}</span>`;
}

function Busy({ samples }) {
  const requests = useMemo(() => [{ label: "Requests/s", values: samples.requests_per_second }, { label: "Errors/s", values: samples.errors_per_second }], [samples]);
  const traffic = useMemo(() => [{ label: "In", values: samples.received_bytes_per_second }, { label: "Out", values: samples.sent_bytes_per_second }], [samples]);
  return html`<div class="columns">
    <${Panel} title="Requests" note="since the console looks"><${Chart} title="Requests and errors" isTitleHidden times=${samples.at_ms} series=${requests} unit="rate" height=${150} /></${Panel}>
    <${Panel} title="Network"><${Chart} title="Bytes received and sent" isTitleHidden times=${samples.at_ms} series=${traffic} unit="bytes_rate" height=${150} /></${Panel}>
  </div>`;
}
