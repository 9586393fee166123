// Producers: what partitions remember of each, and the last batches of one partition.
import { html } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { Badge } from "../components/badge.js";
import { Button, IconButton } from "../components/button.js";
import { Empty, Loading } from "../components/empty.js";
import { CheckField, SearchField, SelectField } from "../components/field.js";
import { OffsetBar } from "../components/offset_bar.js";
import { Panel } from "../components/panel.js";
import { Problem, Problems } from "../components/problems.js";
import { useSteadyRows } from "../components/steady_rows.js";
import { RelativeTime, useNow } from "../components/time.js";
import { View } from "../components/view.js";
import { count, duration, plural, timestamp, UNKNOWN } from "../format.js";
import { address, useQuery } from "../router.js";
import { LastBatches } from "../transactions/last_batches.js";
import { partitionAddress, partitionName } from "../transactions/held_partition.js";

const LEAD = "Each partition remembers the producers that wrote to it: by their epochs and sequences it drops what is sent twice, and fences who was replaced.";
const START = { topic: "", partition: "", q: "", producer: "", state: "all", internal: false, offset: 0 };
const PAGE_SIZE = 20;
// As many partitions as a page of them may have.
const SEARCHED_LIVE = 100;
const STATES = [["all", "All producers"], ["open", "With an open transaction"], ["active", "Active"], ["idle", "Idle"], ["expired", "Expired"]];

const ACTIVITIES = {
  open: ["info", "open", "It has a transaction open on the partition."],
  active: ["good", "active", "It has written in the last five minutes."],
  idle: ["neutral", "idle", "It has not written for five minutes."],
  expired: ["neutral", "expired", "It has not written for so long that the broker is about to forget it."],
};

export default function Producers() {
  const [state, setState] = useQuery(START);
  const { topic, partition, producer, q, internal, offset } = state;
  const isOne = topic !== "" && partition !== "";
  const query = { ...state, limit: PAGE_SIZE };
  const isSearch = topic === "" && (producer !== "" || state.state !== "all");
  // A search through many partitions is asked once, not after each look at the cluster.
  const isOnce = (found) => isSearch && found.total > SEARCHED_LIVE;
  const { answer, problem, isLoading, reload } = useAnswer("/api/producers", query, { live: (found) => !isOnce(found) });
  const filter = (changes) => setState({ ...changes, offset: 0 }, { replace: true });
  const place = isOne ? answer?.partitions[0] : null;
  const title = isOne ? `Producers of ${topic}-${partition}` : topic ? `Producers of ${topic}` : "Producers";
  return html`<${View} title=${title} crumbs=${topic ? crumbs(topic, isOne) : []} lead=${topic ? undefined : LEAD}>
    <div class="toolbar">
      <${SearchField} label="Find a producer id or a transactional id" value=${producer} onSearch=${(text) => filter({ producer: text.trim() })} />
      ${topic === "" && html`<${SearchField} label="In topics with this in their names" value=${q} onSearch=${(text) => filter({ q: text })} />`}
      <${SelectField} label="Activity" isLabelHidden value=${state.state} onChange=${(value) => filter({ state: value })} options=${STATES} />
      ${topic === "" && html`<${CheckField} label="Internal topics" checked=${internal} onChange=${(checked) => filter({ internal: checked })} />`}
      <div class="toolbar-end">${answer && isOnce(answer) && html`<${Button} icon="refresh" onClick=${reload}>Search again</${Button}>`}</div>
    </div>
    <${Problem} problem=${problem} onRetry=${reload} />
    <${Problems} problems=${answer?.problems} />
    ${!answer && !problem && html`<${Loading} lines=${8} label=${isSearch ? "Asking the partitions" : "Loading"} />`}
    ${place && place.problem === null && html`<${Panel} title="Offsets" note=${place.leader_id === null ? "no leader" : `leader: broker ${place.leader_id}`}><${OffsetBar} start=${place.start_offset} stable=${place.last_stable_offset} end=${place.end_offset} transactions=${place.producers.filter(({ open_start_offset: at }) => at !== null).map(laneOf)} /></${Panel}>`}
    ${answer && html`<div aria-busy=${isLoading ? "true" : undefined}>${answer.partitions.length > 0 ? html`<${Partitions} answer=${answer} isOne=${isOne} />` : html`<${None} answer=${answer} isSearch=${isSearch} />`}</div>
      ${!isOne && html`<${Places} answer=${answer} offset=${offset} onMove=${(to) => setState({ offset: to })} />`}`}
    ${isOne && html`<${LastBatches} topic=${topic} partition=${partition} />`}
    ${answer && html`<p class="muted">Brokers forget a producer that has not written for ${duration(answer.expiration_ms)} (<code>producer.id.expiration.ms</code>${answer.is_expiration_known ? "" : ", Kafka's default: the cluster does not tell its own"}).</p>`}
  </${View}>`;
}

const crumbs = (topic, isOne) => [["Producers", "/producers"], ...(isOne ? [[topic, address(["producers"], { topic })]] : [])];

const laneOf = (row) => ({
  key: row.producer_id,
  start: row.open_start_offset,
  kind: row.is_hanging ? "hanging" : "open",
  label: row.transactional_id ?? `producer ${row.producer_id}`,
  href: row.transactional_id === null ? undefined : address(["transactions", row.transactional_id]),
  title: `producer id ${row.producer_id}, epoch ${row.producer_epoch}`,
});

const None = ({ answer, isSearch }) =>
  answer.total === 0
    ? html`<${Empty} title="No partitions">No topic fits, or you may not describe it.</${Empty}>`
    : html`<${Empty} icon="search" title="No such producer">${isSearch ? "None of the partitions that were asked remembers it." : "These partitions remember none."}</${Empty}>`;

// One table, with a part for each partition.

const HEADINGS = [
  ["Producer id"],
  ["Transactional id"],
  ["Activity"],
  ["Epoch", "end"],
  ["Last sequence", "end", "Of the last record that it wrote here"],
  ["Last write", undefined, "By the producer's clock"],
  ["Open since", "end", "The first offset of its open transaction"],
  ["Coordinator epoch", "end", "Of the coordinator that wrote its last marker; none before its first transaction has ended"],
  ["Forgotten", undefined, "When the broker drops it, if it does not write again"],
];

function Partitions({ answer, isOne }) {
  return html`<div class="table-scroll" role="region" aria-label="Producers of partitions" tabindex="0">
    <table class="table producers">
      <caption class="visually-hidden">Producers of partitions</caption>
      <thead><tr>${HEADINGS.map(([label, align, title]) => html`<th key=${label} scope="col" class=${align}>${title ? html`<abbr title=${title}>${label}</abbr>` : label}</th>`)}</tr></thead>
      ${answer.partitions.map((place) => html`<${PartitionRows} key=${partitionName(place)} ...${{ place, isOne }} expirationMs=${answer.expiration_ms} />`)}
    </table>
  </div>`;
}

function PartitionRows({ place, isOne, expirationMs }) {
  const { rows, gone, listeners } = useSteadyRows(place.producers, ({ producer_id: id }) => id, "");
  return html`<tbody ...${listeners}>
    ${!isOne &&
    html`<tr class="producers-place"><th scope="rowgroup" colspan=${HEADINGS.length}><div class="producers-head">
      <a class="producers-name" href=${partitionAddress(place)}>${partitionName(place)}</a>
      <${OffsetBar} start=${place.start_offset} stable=${place.last_stable_offset} end=${place.end_offset} transactions=${place.producers.filter(({ open_start_offset: at }) => at !== null).map(laneOf)} isCompact />
      <span class=${place.unseen_count > 0 ? "text-warn" : "muted"}>${place.unseen_count > 0 ? `${plural(place.unseen_count, "offset")} held back` : `end ${count(place.end_offset)}`}</span>
      ${place.problem === null && place.producer_count === 0 && html`<span class="muted">no producer with an id</span>`}
    </div></th></tr>`}
    ${place.problem !== null && html`<tr><td colspan=${HEADINGS.length} class="wrapped text-warn">${place.problem}</td></tr>`}
    ${isOne && place.problem === null && place.producer_count === 0 && html`<tr><td colspan=${HEADINGS.length} class="muted">No producer: nothing was written with a producer id, or they are forgotten</td></tr>`}
    ${rows.map((row) => html`<${ProducerRow} key=${row.producer_id} row=${row} isGone=${gone.has(row.producer_id)} expirationMs=${expirationMs} />`)}
    ${place.producer_count > place.producers.length && html`<tr><td colspan=${HEADINGS.length} class="muted">and ${count(place.producer_count - place.producers.length)} more: search for a producer id</td></tr>`}
  </tbody>`;
}

function ProducerRow({ row, isGone, expirationMs }) {
  const [kind, text, title] = ACTIVITIES[row.activity];
  return html`<tr class=${isGone ? "row-gone" : undefined}>
    <th scope="row"><a href=${address(["producers"], { producer: row.producer_id })} title="All partitions that remember it">${row.producer_id}</a></th>
    <td>${row.transactional_id === null ? html`<span class="muted">${UNKNOWN}</span>` : html`<a href=${address(["transactions", row.transactional_id])}>${row.transactional_id}</a>`}</td>
    <td>${row.is_hanging ? html`<${Badge} kind="bad" title="No coordinator will end its transaction">hangs</${Badge}>` : html`<${Badge} kind=${kind} title=${title}>${text}</${Badge}>`}</td>
    <td class="end">${row.producer_epoch}</td>
    <td class="end">${count(row.last_sequence)}</td>
    <td><${RelativeTime} ms=${row.last_timestamp_ms} /></td>
    <td class="end">${count(row.open_start_offset)}</td>
    <td class="end">${row.coordinator_epoch ?? UNKNOWN}</td>
    <td><${Forgotten} row=${row} expirationMs=${expirationMs} /></td>
  </tr>`;
}

function Forgotten({ row, expirationMs }) {
  const now = useNow();
  if (row.open_start_offset !== null) return html`<span class="muted">not while it is open</span>`;
  if (row.last_timestamp_ms === null) return html`<span>${UNKNOWN}</span>`;
  const at = row.last_timestamp_ms + expirationMs;
  return html`<span class="muted" title=${timestamp(at)}>${at <= now ? "any moment" : `in ${duration(at - now)}`}</span>`;
}

// The server answers partitions from an offset on, and where to go on.
function Places({ answer, offset, onMove }) {
  const { next_offset: next, total } = answer;
  if (offset === 0 && next === null) return html`<div class="pager"><span class="muted">${plural(total, "partition")} asked</span></div>`;
  return html`<nav class="pager" aria-label="Pages">
    <span class="pager-place">partitions ${count(Math.min(offset + 1, total))}–${count(next ?? total)} of ${count(total)}</span>
    <span class="pager-buttons">
      <${IconButton} icon="first" label="First partitions" disabled=${offset === 0} onClick=${() => onMove(0)} />
      <${IconButton} icon="next" label="Next partitions" disabled=${next === null} onClick=${() => onMove(next)} />
    </span>
  </nav>`;
}
