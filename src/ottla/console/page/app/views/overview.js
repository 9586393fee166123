// The overview: what needs attention first, then how much goes through, how fast, and on which brokers.
import { html, useMemo } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { Badge } from "../components/badge.js";
import { Chart } from "../components/chart.js";
import { Empty, Loading } from "../components/empty.js";
import { Icon } from "../components/icons.js";
import { Meter, Panel, Stat, Stats } from "../components/panel.js";
import { Problem } from "../components/problems.js";
import { Sparkline } from "../components/sparkline.js";
import { Table } from "../components/table.js";
import { Age } from "../components/time.js";
import { View } from "../components/view.js";
import { bytes, bytesRate, count, duration, percent, plural, rate, shortCount, UNKNOWN } from "../format.js";
import { address, useQuery } from "../router.js";

const SPANS = [["recent", "15 minutes"], ["long", "6 hours"]];
const LEAST_SPAN_MS = 60_000;
const NOT_TOLD = "Only Ottla's broker tells this, by its internals. Kafka's protocol has nothing like it.";

export default function Overview() {
  const [{ span }] = useQuery({ span: "recent" });
  const { answer, problem, reload } = useAnswer("/api/overview", {}, { live: true });
  const { answer: recent } = useAnswer("/api/overview/history", {}, { live: true });
  const { answer: long } = useAnswer(span === "long" ? "/api/overview/history" : null, { span }, { live: true });
  return html`<${View} title="Overview" badges=${answer && html`<${Standing} counts=${answer.attention_counts} parts=${answer.parts} />`} lead=${answer && html`<${Lead} answer=${answer} />`}>
    <${Problem} problem=${problem} onRetry=${reload} />
    ${!answer && !problem && html`<${Loading} lines=${8} />`}
    ${answer && html`<${Numbers} answer=${answer} history=${recent} />
      <${Attention} answer=${answer} />
      <${Charts} span=${span} history=${span === "long" ? long : recent} internals=${answer.internals} />
      <${Brokers} answer=${answer} />
      <div class="columns"><${Busiest} topics=${answer.busiest_topics} /><${Latest} groups=${answer.latest_groups} /></div>`}
  </${View}>`;
}

function Lead({ answer: { cluster_id: id, totals, broker_count: brokers, is_whole: isWhole } }) {
  return html`Cluster <span class="mono">${id ?? UNKNOWN}</span>: ${plural(brokers, "broker")}, <a href="/topics">${plural(totals.topic_count, "topic")}</a> with ${plural(totals.partition_count, "partition")}, <a href="/groups">${plural(totals.group_count, "group")}</a>${totals.size_bytes === null ? "" : `, ${bytes(totals.size_bytes)} on disk`}.${isWhole ? "" : " Topics, groups and sums are those that you may see."}`;
}

// What the sentence about nothing being wrong speaks of. A console that has just begun has not been told all of it.
const CHECKED = ["topics", "last stable offsets", "committed offsets", "log directories"];

function isStillLooking(parts) {
  const asked = new Set(parts.map(({ part }) => part));
  return CHECKED.some((part) => !asked.has(part));
}

function Standing({ counts, parts }) {
  if (counts.bad) return html`<${Badge} kind="bad">${plural(counts.bad, "problem")}</${Badge}>`;
  if (counts.warn) return html`<${Badge} kind="warn">${plural(counts.warn, "warning")}</${Badge}>`;
  if (isStillLooking(parts)) return html`<${Badge} kind="neutral">still looking</${Badge}>`;
  return html`<${Badge} kind="good">nothing wrong</${Badge}>`;
}

// Numbers

function Numbers({ answer, history }) {
  const { totals, internals } = answer;
  const past = (name) => history?.values[name] ?? [];
  const { now } = internals;
  return html`<${Stats}>
    <${Stat} label="Written" value=${rate(totals.records_per_second)} unit="records/s" note=${totals.bytes_per_second === null ? undefined : bytesRate(totals.bytes_per_second)}><${Sparkline} values=${past("records_per_second")} label="Records written per second, the last 15 minutes" /></${Stat}>
    <${Stat} label="Read by groups" value=${rate(totals.consumed_per_second)} unit="records/s" note=${`${count(totals.active_group_count)} of ${plural(totals.group_count, "group")} with members`}><${Sparkline} values=${past("consumed_per_second")} label="Records read per second, the last 15 minutes" /></${Stat}>
    <${Stat} label="Lag" value=${shortCount(totals.lag)} unit="offsets" href="/groups?sort=lag&order=desc" note="of all groups, markers included"><${Sparkline} values=${past("lag")} label="Lag of all groups, the last 15 minutes" /></${Stat}>
    <${Stat} label="Open transactions" value=${count(totals.open_transaction_count)} href="/transactions" note=${totals.unstable_count ? `${plural(totals.unstable_count, "offset")} held back` : "nothing is held back"}><${Sparkline} values=${past("unstable_count")} label="Offsets behind last stable offsets, the last 15 minutes" /></${Stat}>
    ${internals.is_offered
      ? html`<${Stat} label="Latency, 99%" value=${duration(now?.p99_ms)} note=${now ? `median ${duration(now.median_ms)}` : (internals.problem ? "the broker does not tell" : "after the next report")}><${Sparkline} values=${past("request_p99_ms")} label="Latency of requests, the last 15 minutes" /></${Stat}>
        <${Stat} label="Errors" value=${rate(now?.errors_per_second)} unit="/s" href="/broker" note=${now ? `of ${rate(now.requests_per_second)} requests/s` : undefined}><${Sparkline} values=${past("errors_per_second")} label="Requests that failed per second, the last 15 minutes" /></${Stat}>`
      : html`<${Stat} label="Round trip" value=${duration(past("round_trip_ms").at(-1))} note="of the console's smallest request"><${Sparkline} values=${past("round_trip_ms")} label="Round trip, the last 15 minutes" /></${Stat}>`}
  </${Stats}>`;
}

// What needs attention

const SEVERITIES = { bad: "Problem", warn: "Warning", info: "Note" };

function Attention({ answer: { attention, totals, parts } }) {
  const worries = attention.filter(({ severity }) => severity !== "info");
  return html`<${Panel} title="Needs attention">
    ${worries.length === 0 && html`<${Nothing} totals=${totals} parts=${parts} />`}
    ${attention.length > 0 && html`<ul class="worries">${attention.map((worry) => html`<${Worry} key=${`${worry.kind} ${worry.severity} ${worry.title}`} worry=${worry} />`)}</ul>`}
  </${Panel}>`;
}

function Worry({ worry: { kind, severity, title, why, place, name, since_ms: since } }) {
  const href = placeOf(kind, place, name);
  return html`<li class=${`worry worry-${severity}`}>
    <${Icon} name=${severity} />
    <div class="worry-text"><p class="worry-title"><span class="visually-hidden">${SEVERITIES[severity]}: </span>${href ? html`<a href=${href}>${title}</a>` : title}</p><p class="muted">${why}</p></div>
    ${since !== null && html`<span class="worry-since muted">for <${Age} sinceMs=${since} /></span>`}
  </li>`;
}

const VIEWS = { topics: "/topics", groups: "/groups?sort=lag&order=desc", transactions: "/transactions", apps: "/apps", brokers: "#brokers" };

function placeOf(kind, place, name) {
  if (place === "topic") return address(["topics", name]);
  if (place === "group") return address(["groups", name], kind === "repeated_rebalances" ? { tab: "rebalances" } : undefined);
  if (place === "transaction") return address(["transactions", name]);
  return VIEWS[place] ?? null;
}

// That nothing is wrong is said of what was looked at, and of nothing else.
function Nothing({ totals, parts }) {
  const told = new Set(parts.filter(({ told_at_ms: at }) => at !== null).map(({ part }) => part));
  const checks = [
    told.has("topics") && `${totals.partition_count === 1 ? "the partition has its leader and all replicas" : `all ${count(totals.partition_count)} partitions have leaders and replicas in sync`}`,
    told.has("last stable offsets") && "no transaction holds readers up for long",
    told.has("committed offsets") && "no group is stuck or falls behind",
    told.has("log directories") && "disks have room",
  ].filter(Boolean);
  const isEarly = isStillLooking(parts);
  return html`<p class="all-well"><${Icon} name=${isEarly ? "info" : "good"} /><span><b>${isEarly ? "Nothing wrong was found yet." : "Nothing is wrong."}</b> ${checks.length ? `${checks.join(", ")}.`.replace(/^./, (first) => first.toUpperCase()) : "The cluster has told little yet."}</span></p>`;
}

// Charts

function Charts({ span, history, internals }) {
  const shown = useMemo(() => history && spread(history), [history]);
  const chart = (title, unit, lines) => html`<${Chart} title=${title} times=${shown.times} unit=${unit} height=${170} series=${lines.map(([label, name]) => ({ label, values: shown.values[name] ?? shown.times.map(() => null) }))} />`;
  const has = (name) => shown.values[name]?.some((value) => value !== null);
  const isTold = internals.is_offered || (shown && has("requests_per_second"));
  return html`<${Panel} title="Over time" actions=${html`<${SpanLinks} current=${span} />`}>
    ${!shown && html`<${Loading} lines=${6} />`}
    ${shown && html`<div class="overview-charts">
      ${chart("Records per second", "rate", [["written", "records_per_second"], ["read by groups", "consumed_per_second"]])}
      ${has("received_bytes_per_second") ? chart("Bytes per second", "bytes_rate", [["received", "received_bytes_per_second"], ["sent", "sent_bytes_per_second"]]) : chart("Growth of logs", "bytes_rate", [["bytes per second", "bytes_per_second"]])}
      ${chart("Lag of all groups", "short", [["offsets", "lag"]])}
      ${has("unstable_count") ? chart("Held back by open transactions", "short", [["offsets", "unstable_count"]]) : null}
      ${isTold ? chart("Latency of requests", "duration", [["99%", "request_p99_ms"], ["median", "request_p50_ms"]]) : chart("Round trip of the console", "duration", [["describe cluster", "round_trip_ms"]])}
      ${isTold ? chart("Requests that failed", "rate", [["per second", "errors_per_second"]]) : html`<figure class="chart"><figcaption class="chart-head"><span class="chart-title">Latency and errors of requests</span></figcaption><${Empty} title="This cluster does not tell">${NOT_TOLD}</${Empty}></figure>`}
    </div>`}
  </${Panel}>`;
}

const SpanLinks = ({ current }) => html`<nav class="span-links" aria-label="Time">${SPANS.map(([id, label]) => html`<a key=${id} href=${address([], id === "recent" ? {} : { span: id })} aria-current=${id === current ? "true" : undefined}>${label}</a>`)}</nav>`;

// A young console draws what it has seen, and not an hour before it; the first minute it draws as one.
function spread({ times_ms: times, values }) {
  const first = (times.at(-1) ?? Date.now()) - LEAST_SPAN_MS;
  if (times.length && times[0] <= first) return { times, values };
  return { times: [first, ...times], values: Object.fromEntries(Object.entries(values).map(([name, some]) => [name, [null, ...some]])) };
}

// Brokers

const BROKER_COLUMNS = [
  { id: "id", label: "Broker", cell: ({ id, is_controller: isController }) => html`${id}${isController && html` <${Badge} title="It decides on leaders, topics and configs">controller</${Badge}>`}` },
  { id: "address", label: "Address", isMono: true, cell: ({ host, port }) => `${host}:${port}` },
  { id: "rack", label: "Rack", cell: ({ rack }) => rack ?? UNKNOWN },
  { id: "leaders", label: "Leads", align: "end", title: "Partitions whose leader it is", cell: ({ leader_count: leaders }) => count(leaders) },
  { id: "replicas", label: "Replicas", align: "end", cell: ({ replica_count: replicas }) => count(replicas) },
  { id: "stored", label: "Logs", align: "end", title: "Bytes of all replicas", cell: ({ log_dirs: dirs }) => (dirs ? bytes(dirs.reduce((total, dir) => total + dir.replicas_bytes, 0)) : UNKNOWN) },
  { id: "disk", label: "Disk", cell: ({ log_dirs: dirs }) => html`<${Disks} dirs=${dirs} />` },
];

function Brokers({ answer: { brokers, broker_count: total } }) {
  const columns = brokers.some(({ rack }) => rack) ? BROKER_COLUMNS : BROKER_COLUMNS.filter(({ id }) => id !== "rack");
  return html`<div id="brokers"><${Panel} title="Brokers" note=${total > brokers.length ? `the first ${count(brokers.length)} of ${count(total)}` : undefined} flush>
    <${Table} caption="Brokers of the cluster" columns=${columns} rows=${brokers} rowKey=${({ id }) => id} empty=${html`<${Empty} title="No broker is known" />`} />
  </${Panel}></div>`;
}

function Disks({ dirs }) {
  if (!dirs) return html`<span class="muted">not told</span>`;
  return html`<ul class="disks">${dirs.map(({ path, error, total_bytes: all, usable_bytes: free }) => html`<li key=${path} title=${path}>
    ${error ? html`<${Badge} kind="bad" title=${error}>failed</${Badge}>` : all ? html`<${Meter} share=${1 - free / all} warnAt=${0.9} badAt=${0.95} label=${`${percent(free / all)} of ${bytes(all)} free`} />` : html`<span class="muted">size not told</span>`}
    ${dirs.length > 1 && html` <span class="mono muted">${path}</span>`}
  </li>`)}</ul>`;
}

// The busiest

const TOPIC_COLUMNS = [
  { id: "name", label: "Topic", cell: ({ name }) => html`<a href=${address(["topics", name])}>${name}</a>` },
  { id: "records", label: "Records/s", align: "end", cell: ({ records_per_second: records }) => rate(records) },
  { id: "bytes", label: "Growth", align: "end", cell: ({ bytes_per_second: grown }) => bytesRate(grown) },
];

const Busiest = ({ topics }) => html`<${Panel} title="Busiest topics" note="written now" flush>
  <${Table} caption="Topics that are written to most" columns=${TOPIC_COLUMNS} rows=${topics} rowKey=${({ name }) => name} empty=${html`<${Empty} title="Nothing is written now" />`} />
</${Panel}>`;

const GROUP_COLUMNS = [
  { id: "group", label: "Group", cell: ({ group_id: name }) => html`<a href=${address(["groups", name])}>${name}</a>` },
  { id: "state", label: "State", cell: ({ state }) => state ?? UNKNOWN },
  { id: "lag", label: "Lag", align: "end", cell: ({ lag }) => count(lag) },
  { id: "read", label: "Reads/s", align: "end", cell: ({ records_per_second: records }) => rate(records) },
];

const Latest = ({ groups }) => html`<${Panel} title="Furthest behind" note="offsets, markers included" flush>
  <${Table} caption="Groups that are furthest behind" columns=${GROUP_COLUMNS} rows=${groups} rowKey=${({ group_id: name }) => name} empty=${html`<${Empty} icon="good" title="No group has a lag" />`} />
</${Panel}>`;
