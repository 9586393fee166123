// All groups: who keeps up, who falls behind, who stands still.
import { html } from "../../vendor/preact.js";
import { Empty } from "../components/empty.js";
import { SearchField, SelectField } from "../components/field.js";
import { Sparkline } from "../components/sparkline.js";
import { ServerTable } from "../components/table.js";
import { RelativeTime } from "../components/time.js";
import { View } from "../components/view.js";
import { count, plural, rate, UNKNOWN } from "../format.js";
import { address } from "../router.js";
import { GroupState, HeldUpBadge, Protocol, StuckBadge } from "./group_words.js";

const STATES = [
  ["all", "Any state"],
  ["stuck", "Stuck"],
  ["lagging", "With a lag"],
  ["rebalancing", "Rebalancing"],
  ["stable", "Stable"],
  ["empty", "Without members"],
];
const TYPES = [
  ["all", "Any protocol"],
  ["classic", "Classic"],
  ["consumer", "Consumer (KIP-848)"],
  ["share", "Share"],
  ["streams", "Streams"],
  ["other", "Others"],
];

const COLUMNS = [
  { id: "group_id", label: "Group", isSortable: true, cell: ({ group_id: name }) => html`<a href=${address(["groups", name])}>${name}</a>` },
  { id: "state", label: "State", isSortable: true, cell: (row) => html`<${State} row=${row} />` },
  { id: "type", label: "Protocol", isSortable: true, cell: (row) => html`<${Protocol} type=${row.type} protocolType=${row.protocol_type} />` },
  { id: "members", label: "Members", align: "end", cell: ({ member_count: members }) => count(members) },
  { id: "topics", label: "Topics", cell: (row) => html`<${Topics} ...${row} />` },
  { id: "lag", label: "Lag", align: "end", isSortable: true, title: "Offsets between what is committed and the ends of the partitions", cell: ({ lag }) => count(lag) },
  { id: "records", label: "Records", align: "end", title: "The same without markers of transactions and what compaction removed, where the console has looked: at small lags", cell: (row) => html`<${Records} row=${row} />` },
  { id: "trend", label: "Last 15 min", cell: (row) => html`<span class="group-trend"><${Sparkline} values=${row.lag_trend} label=${`Lag of ${row.group_id} over the last quarter of an hour`} /></span>` },
  { id: "records_per_second", label: "Consumes", align: "end", isSortable: true, title: "Records per second, by its commits", cell: (row) => (row.records_per_second === null ? UNKNOWN : `${rate(row.records_per_second)}/s`) },
  { id: "rebalanced_at_ms", label: "Rebalanced", isSortable: true, firstOrder: "desc", title: "When its last rebalance ended, as far as the console has read __consumer_offsets", cell: ({ group_id: name, rebalanced_at_ms: at }) => (at === null ? html`<span class="muted">${UNKNOWN}</span>` : html`<a class="group-when" href=${address(["groups", name], { tab: "rebalances" })}><${RelativeTime} ms=${at} /></a>`) },
];

export default function Groups() {
  const filters = {
    defaults: { state: "all", type: "all", topic: "" },
    draw: (state, filter) => html`<${SelectField} label="State" isLabelHidden value=${state.state} options=${STATES} onChange=${(each) => filter({ state: each })} />
      <${SelectField} label="Protocol" isLabelHidden value=${state.type} options=${TYPES} onChange=${(each) => filter({ type: each })} />
      <${SearchField} label="In topic (its whole name)" value=${state.topic} onSearch=${(each) => filter({ topic: each })} />`,
  };
  return html`<${View} title="Groups" lead="Consumer groups of every protocol, by what they have committed.">
    <div class="groups-table"><${ServerTable} path="/api/groups" caption="Groups" columns=${COLUMNS} rowKey=${({ group_id: name }) => name} sort="group_id" search="Find a group" filters=${filters}
      rowClass=${(row) => (row.is_stuck ? "group-stuck" : undefined)}
      empty=${html`<${Empty} icon="groups" title="There are no groups">A group shows as soon as a consumer with a group.id joins or commits.</${Empty}>`} /></div>
  </${View}>`;
}

function Topics({ topics, topic_count: total }) {
  if (!total) return UNKNOWN;
  const shown = topics.slice(0, 2);
  return html`<span class="group-topics" title=${topics.join(", ")}>${shown.map((name, index) => html`${index > 0 && ", "}<a key=${name} href=${address(["topics", name])}>${name}</a>`)}${total > shown.length && html`<span class="muted"> +${count(total - shown.length)}</span>`}</span>`;
}

function State({ row }) {
  if (row.is_stuck) return html`<${StuckBadge} sinceMs=${row.standing_since_ms} />`;
  if (row.is_held_up) return html`<${HeldUpBadge} sinceMs=${row.standing_since_ms} />`;
  return html`<${GroupState} state=${row.state} />`;
}

// A lag of markers only is no lag.
function Records({ row }) {
  const { lag, record_lag: records } = row;
  if (records === null) return html`<span class="muted">${UNKNOWN}</span>`;
  return records < lag ? html`<span class=${records === 0 ? "text-good" : undefined} title=${`The other ${plural(lag - records, "offset")}: markers of transactions, or records that compaction removed`}>${count(records)}</span>` : count(records);
}
