// The lag of a group: over time, by topic and partition, in offsets and in records.
import { html, useMemo, useState } from "../../vendor/preact.js";
import { get, useAnswer } from "../api.js";
import { Badge } from "../components/badge.js";
import { Button } from "../components/button.js";
import { Chart } from "../components/chart.js";
import { Empty, Loading } from "../components/empty.js";
import { SelectField } from "../components/field.js";
import { Panel } from "../components/panel.js";
import { Notice, Problem, Problems } from "../components/problems.js";
import { ServerTable } from "../components/table.js";
import { RelativeTime } from "../components/time.js";
import { count, plural, UNKNOWN } from "../format.js";
import { address, useQuery } from "../router.js";

export function GroupLag({ answer }) {
  if (!answer.commits_offsets) {
    return html`<${Empty} icon="groups" title="Share groups have no committed offsets">Brokers keep for each record whether it was delivered and acknowledged (KIP-932).</${Empty}>`;
  }
  return html`<div class="stack group-lag-tab">
    <${OverTime} group=${answer.group_id} />
    <${Records} answer=${answer} />
    <${Partitions} answer=${answer} />
  </div>`;
}

function OverTime({ group }) {
  const [{ span }, setState] = useQuery({ span: "recent" });
  const { answer } = useAnswer("/api/group/history", { id: group, span }, { live: true });
  const lag = useMemo(() => [{ label: "Lag in offsets", values: answer?.lag ?? [] }], [answer]);
  const consumed = useMemo(() => [{ label: "Records per second", values: answer?.records_per_second ?? [] }], [answer]);
  const spans = html`<${SelectField} label="Time span" isLabelHidden value=${span} options=${[["recent", "Last 15 minutes"], ["long", "Last 6 hours"]]} onChange=${(each) => setState({ span: each }, { replace: true })} />`;
  return html`<${Panel} title="Lag over time" note="since the console began" actions=${spans}>
    ${!answer
      ? html`<${Loading} lines=${4} />`
      : answer.at_ms.length === 0
        ? html`<${Empty} icon="clock" title="No history">You may not see all topics of this group, or the console has just begun.</${Empty}>`
        : html`<div class="columns"><${Chart} title="Lag" times=${answer.at_ms} series=${lag} unit="short" height=${150} /><${Chart} title="Consumed" times=${answer.at_ms} series=${consumed} unit="rate" height=${150} /></div>`}
  </${Panel}>`;
}

// Why the lag in offsets may be larger than the number of records: counted when somebody asks, because it reads the log.
function Records({ answer }) {
  const [state, setState] = useState({ found: null, problem: null, isBusy: false });
  if (!answer.lag) return null;
  const ask = async () => {
    setState({ ...state, isBusy: true, problem: null });
    try {
      setState({ found: await get("/api/group/record-lag", { id: answer.group_id }), problem: null, isBusy: false });
    } catch (problem) {
      setState({ found: null, problem, isBusy: false });
    }
  };
  const { found, problem, isBusy } = state;
  const button = html`<${Button} icon="search" isBusy=${isBusy} onClick=${ask}>${found ? "Count again" : "Count the records"}</${Button}>`;
  return html`<div class="group-records">
    <${Problem} problem=${problem} />
    <${Problems} problems=${found?.problems} />
    ${found === null
      ? html`<${Notice}><div class="row group-records-row"><span class="group-records-text">The lag counts offsets. Markers of transactions have offsets too, and so have records that compaction removed.</span>${button}</div></${Notice}>`
      : html`<${Notice} kind=${found.record_lag === 0 ? "good" : "info"}><div class="row group-records-row"><span class="group-records-text">${recordsSentence(found)}</span>${button}</div></${Notice}>`}
  </div>`;
}

function recordsSentence({ lag, record_lag: records, is_counted: isCounted, left_out_count: left }) {
  const others = lag - records;
  const rest = left ? ` ${plural(left, "partition")} more ${left === 1 ? "was" : "were"} not read.` : "";
  if (!isCounted) return `Of ${plural(lag, "offset")}, at most ${plural(records, "record")}: ${others ? `${count(others)} of those that were read are markers, or were compacted away` : "what was read had no markers"}. The log was read up to a limit.${rest}`;
  if (records === 0) return `No records: all ${plural(lag, "offset")} are markers of transactions, or were compacted away. The group has read everything.`;
  if (others === 0) return `${plural(records, "record")}: there are no markers among the ${plural(lag, "offset")}.`;
  return `${plural(records, "record")}: the other ${plural(others, "offset")} are markers of transactions, or were compacted away.`;
}

function Partitions({ answer }) {
  const columns = useMemo(() => columnsFor(answer), [answer.member_count > 0]);
  const topics = [["", "All topics"], ...answer.topics.map(({ topic, lag }) => [topic, `${topic} (lag ${count(lag)})`])];
  const filters = {
    defaults: { topic: "", state: "all" },
    draw: (state, filter) => html`<${SelectField} label="Topic" isLabelHidden value=${state.topic} options=${topics} onChange=${(each) => filter({ topic: each })} />
      <${SelectField} label="Which partitions" isLabelHidden value=${state.state} options=${[["all", "All partitions"], ["lagging", "With a lag"]]} onChange=${(each) => filter({ state: each })} />`,
  };
  return html`<${ServerTable} path="/api/group/partitions" query=${{ id: answer.group_id }} caption="Partitions" columns=${columns} rowKey=${({ topic, partition }) => `${topic}-${partition}`}
    sort="partition" search="Find a topic or a member" filters=${filters} prefix="p_"
    empty=${html`<${Empty} icon="groups" title="Nothing is committed">The group has committed no offset yet, and its members have no partitions.</${Empty}>`} />`;
}

const columnsFor = ({ member_count: members }) => [
  { id: "partition", label: "Partition", isSortable: true, cell: ({ topic, partition }) => html`<a href=${address(["topics", topic])}>${topic}</a> <span class="muted">${partition}</span>` },
  { id: "committed_offset", label: "Committed", align: "end", isSortable: true, cell: (row) => html`<${Committed} row=${row} />` },
  { id: "last_stable_offset", label: "Last stable", align: "end", title: "Where readers of committed records stop: an open transaction begins there", cell: (row) => html`<${Stable} row=${row} />` },
  { id: "end_offset", label: "End", align: "end", isSortable: true, cell: ({ end_offset: end }) => count(end) },
  { id: "lag", label: "Lag", align: "end", isSortable: true, title: "The end minus the committed offset", cell: ({ lag }) => (lag === 0 ? html`<span class="muted">0</span>` : count(lag)) },
  { id: "record_lag", label: "Records", align: "end", title: "Records after the committed offset, without markers and what compaction removed", cell: (row) => html`<${RecordCount} row=${row} />` },
  { id: "oldest_at_ms", label: "Waits since", title: "The timestamp of the first record that was not read", cell: ({ oldest_at_ms: at }) => (at === null ? UNKNOWN : html`<${RelativeTime} ms=${at} />`) },
  ...(members ? [{ id: "member", label: "Member", isSortable: true, cell: ({ client_id: client, member_id: member }) => (client === null ? html`<span class="muted">nobody</span>` : html`<span title=${member}>${client || member}</span>`) }] : []),
  { id: "metadata", label: "Metadata", title: "What the consumer stored with the offset", cell: ({ metadata, leader_epoch: epoch }) => html`<span class="group-metadata" title=${metadata}>${metadata || UNKNOWN}</span>${epoch !== null && html` <span class="muted" title="Leader epoch of the committed offset">epoch ${epoch}</span>`}` },
];

function Committed({ row }) {
  if (row.committed_offset === null) return html`<span class="muted">none</span>`;
  if (!row.is_behind_start) return count(row.committed_offset);
  return html`<span class="group-behind">${count(row.committed_offset)} <${Badge} kind="warn" title=${`Retention has deleted records that the group never read: the log begins at ${row.start_offset}`}>lost</${Badge}></span>`;
}

function Stable({ row }) {
  const { last_stable_offset: stable, end_offset: end, topic } = row;
  if (stable === null || end === null || stable >= end) return html`<span class="muted">${count(stable)}</span>`;
  return html`<a class="text-warn" href=${address(["transactions"], { topic })} title="An open transaction holds it up">${count(stable)}</a>`;
}

function RecordCount({ row }) {
  const { record_lag: records, is_counted: isCounted, lag } = row;
  if (records === null) return UNKNOWN;
  if (records === 0 && lag > 0) return html`<span class="text-good" title="Only markers of transactions, or what compaction removed: everything is read">0</span>`;
  if (records === 0) return html`<span class="muted">0</span>`;
  return isCounted ? count(records) : html`<span title="Not all of it was read">≤ ${count(records)}</span>`;
}
