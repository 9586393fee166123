// One transactional id: its open transaction and what that holds up, and what it did before.
import { html, useEffect, useMemo, useRef, useState } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { Button } from "../components/button.js";
import { Chart } from "../components/chart.js";
import { CopyButton } from "../components/copy.js";
import { Empty, Loading } from "../components/empty.js";
import { Facts, Panel, Stat, Stats } from "../components/panel.js";
import { Notice, Problem, Problems } from "../components/problems.js";
import { LocalTable } from "../components/table.js";
import { RelativeTime, useNow } from "../components/time.js";
import { View } from "../components/view.js";
import { bytes, clock, count, duration, plural, timestamp, UNKNOWN } from "../format.js";
import { address } from "../router.js";
import { useAllows } from "../session.js";
import { AbortDialog } from "../transactions/abort_dialog.js";
import { GroupLinks, HeldPartition } from "../transactions/held_partition.js";
import { JournalNote } from "../transactions/journal_note.js";
import { AgeBar, isOverdue, OutcomeBadge, StateBadge, stateText } from "../transactions/states.js";
import { episodesOf, MAX_SHOWN, Timeline } from "../transactions/timeline.js";

const CRUMBS = [["Transactions", "/transactions"]];

export default function Transaction({ id }) {
  const { answer, problem, reload } = useAnswer("/api/transaction", { id }, { live: true });
  const [isAborting, setAborting] = useState(false);
  const mayAbort = useAllows("operator");
  const actions = answer?.state === "Ongoing" && mayAbort && html`<${Button} kind="danger" onClick=${() => setAborting(true)}>Abort the transaction</${Button}>`;
  return html`<${View} title=${id} crumbs=${CRUMBS} badges=${answer && html`<${StateBadge} state=${answer.state} /><${CopyButton} text=${id} label="Copy the id" />`} lead=${answer && stateText(answer.state)} actions=${actions}>
    <${Problem} problem=${problem} onRetry=${reload} />
    ${!answer && !problem && html`<${Loading} lines=${8} />`}
    ${answer && html`<${Detail} found=${answer} />`}
    ${isAborting && html`<${AbortDialog} transactionalId=${id} onClose=${() => setAborting(false)} onDone=${reload} />`}
  </${View}>`;
}

function Detail({ found }) {
  const now = useNow();
  const held = found.partitions.filter(({ is_held: isHeld }) => isHeld);
  const waiting = [...new Set(held.flatMap(({ groups }) => groups.filter(({ position }) => position === "waiting").map(({ group_id: name }) => name)))];
  const sizes = held.map(({ unseen_bytes: size }) => size);
  const timeoutAt = found.started_at_ms === null ? null : found.started_at_ms + found.timeout_ms;
  const history = useHistory(found);
  return html`
    ${found.is_open && isOverdue(found.started_at_ms, found.timeout_ms, now) && html`<${Notice} kind="bad"><p>Its timeout was over ${duration(now - timeoutAt)} ago, and its coordinator has not ended it.</p><p class="muted">Coordinators look every ten seconds. One that does not act is overloaded, or cannot reach the leaders of the partitions: look at broker ${found.coordinator_id}.</p></${Notice}>`}
    <${Problems} problems=${found.problems} />
    ${found.is_open &&
    html`<${Stats}>
      <${Stat} label="Open for" value=${html`<${AgeBar} startedMs=${found.started_at_ms} timeoutMs=${found.timeout_ms} />`} />
      <${Stat} label="Partitions" value=${count(found.partition_count)} note=${held.length ? `holds the last stable offset of ${count(held.length)}` : "holds no last stable offset"} />
      <${Stat} label="Behind these offsets" value=${count(held.reduce((sum, each) => sum + each.unseen_count, 0))} unit="offsets" note=${sizes.length && !sizes.includes(null) ? `about ${bytes(sizes.reduce((sum, size) => sum + size, 0))}` : "size not known"} />
      <${Stat} label="Groups that wait" value=${count(waiting.length)} kind=${waiting.length ? "warn" : undefined} note=${html`<${GroupLinks} groups=${waiting} />`} />
    </${Stats}>`}
    <div class="columns">
      <${Panel} title="Producer">
        <${Facts} facts=${[
          ["Producer id", html`<a href=${address(["producers"], { producer: found.producer_id })}>${found.producer_id}</a>, epoch ${found.producer_epoch}`],
          ["Coordinator", `broker ${found.coordinator_id}`],
          [found.is_open ? "Began" : "Began last", found.started_at_ms === null ? undefined : html`${timestamp(found.started_at_ms)} <span class="muted">(<${RelativeTime} ms=${found.started_at_ms} />)</span>`],
          ["Timeout", `${duration(found.timeout_ms)}${found.is_open && timeoutAt !== null && timeoutAt > now ? `, the coordinator aborts it at ${clock(timeoutAt)}` : ""}`],
          ["Ended since the console looks", `${count(found.committed_count)} committed, ${count(found.aborted_count)} aborted`],
          ["Client", html`<span class="muted">not told by Kafka's protocol</span>`],
        ]} />
      </${Panel}>
      <${Past} found=${found} history=${history} />
    </div>
    ${found.is_open &&
    html`<${Panel} title="What it holds up" note=${plural(found.partition_count, "partition")}>
      ${found.partitions.length === 0
        ? html`<${Empty} title="It has not written yet">Partitions show as soon as the producer has added them to the transaction.</${Empty}>`
        : html`<div class="held-list">${found.partitions.map((each) => html`<${HeldPartition} key=${`${each.topic} ${each.partition}`} held=${each} mine=${found.producer_id} />`)}</div>`}
    </${Panel}>`}
    <${Changes} found=${found} history=${history} />`;
}

// The log is read again when something has changed.
function useHistory(found) {
  const result = useAnswer("/api/transaction/history", { id: found.transactional_id });
  const version = [found.state, found.producer_epoch, found.started_at_ms, found.partition_count, found.ended[0]?.ended_at_ms].join(" ");
  const seen = useRef(version);
  useEffect(() => {
    if (seen.current === version) return;
    seen.current = version;
    result.reload();
  }, [version]);
  return result;
}

const endedEpisodes = (ended) =>
  ended
    .filter(({ started_at_ms: startMs }) => startMs !== null)
    .map((each) => ({ key: `${each.ended_at_ms} ${each.started_at_ms}`, startMs: each.started_at_ms, endMs: each.ended_at_ms, outcome: each.has_timed_out ? "timed-out" : each.outcome }))
    .reverse();

function Past({ found, history: { answer, problem } }) {
  const episodes = useMemo(() => (answer?.changes.length ? episodesOf(answer.changes) : endedEpisodes(found.ended)), [answer, found.ended]);
  const ended = episodes.filter(({ endMs }) => endMs !== null).slice(-MAX_SHOWN);
  const openMs = found.is_open ? found.started_at_ms : null;
  return html`<${Panel} title="Timeline">
    ${!answer && !problem && html`<${Loading} lines=${3} />`}
    ${(answer || problem) && episodes.length === 0 && openMs === null && html`<${Empty} title="Nothing is known of its past">Its transactions are not in the log any more, and none has ended since the console looks.</${Empty}>`}
    <div class="stack">
      <${Timeline} episodes=${episodes} startedMs=${openMs} timeoutMs=${found.timeout_ms} />
      ${ended.length > 1 && html`<${Chart} title="How long they were open" times=${ended.map(({ endMs }) => endMs)} series=${[{ label: "duration", values: ended.map(({ startMs, endMs }) => endMs - startMs) }]} unit="duration" kind="bars" height=${110} />`}
      ${problem && html`<p class="muted">${problem.message} Only what the console saw itself is shown.</p>`}
    </div>
  </${Panel}>`;
}

const CHANGE_COLUMNS = [
  { id: "at", label: "At", cell: ({ at_ms: ms }) => html`<span class="mono">${timestamp(ms)}</span>` },
  { id: "state", label: "State", cell: ({ state }) => html`<${StateBadge} state=${state} />` },
  { id: "after", label: "After", align: "end", title: "Time since the change before", cell: ({ after_ms: ms }) => (ms === null ? UNKNOWN : duration(ms)) },
  { id: "producer", label: "Producer", align: "end", title: "Producer id and epoch", cell: (row) => (row.producer_id === null ? UNKNOWN : html`${row.producer_id} <span class="muted">epoch ${row.producer_epoch}</span>`) },
  { id: "partitions", label: "Partitions", isWrapped: true, cell: ({ partitions }) => (partitions.length ? `${partitions.slice(0, 8).join(", ")}${partitions.length > 8 ? ` and ${partitions.length - 8} more` : ""}` : html`<span class="muted">${UNKNOWN}</span>`) },
  { id: "offset", label: "Offset", align: "end", title: "In the partition of __transaction_state", cell: ({ offset }) => count(offset) },
];

const ENDED_COLUMNS = [
  { id: "ended", label: "Ended", cell: ({ ended_at_ms: ms }) => html`<span class="mono">${timestamp(ms)}</span>` },
  { id: "outcome", label: "Outcome", cell: (row) => html`<${OutcomeBadge} outcome=${row.outcome} hasTimedOut=${row.has_timed_out} />` },
  { id: "duration", label: "Was open for", align: "end", cell: ({ duration_ms: ms }) => duration(ms) },
  { id: "epoch", label: "Epoch", align: "end", cell: ({ producer_epoch: epoch }) => (epoch < 0 ? UNKNOWN : epoch) },
  { id: "topics", label: "Wrote to", isWrapped: true, cell: ({ topics }) => topics.join(", ") },
];

function Changes({ found, history: { answer, problem } }) {
  if (problem) {
    return html`<${Panel} title="Ended" flush><${JournalNote} journal=${found.journal} />
      <${LocalTable} caption="Transactions that have ended, the newest first" columns=${ENDED_COLUMNS} rows=${found.ended} rowKey=${(row) => `${row.ended_at_ms} ${row.started_at_ms}`} empty=${html`<${Empty} title="None has ended since the console looks" />`} />
    </${Panel}>`;
  }
  if (!answer) return null;
  const rows = answer.changes.map((each, index) => ({ ...each, after_ms: index + 1 < answer.changes.length ? each.at_ms - answer.changes[index + 1].at_ms : null }));
  const source = html`as the coordinator wrote them to <a href=${address(["topics", "__transaction_state", "records"], { partition: answer.partition })}>__transaction_state-${answer.partition}</a>${answer.is_whole ? "" : ", the newest"}`;
  return html`<${Panel} title="Changes of its state" note=${source} flush>
    <${LocalTable} caption="Changes of the state, the newest first" columns=${CHANGE_COLUMNS} rows=${rows} rowKey=${({ offset }) => offset} pageSize=${25} empty=${html`<${Empty} title="Nothing in the log">Compaction has removed its changes.</${Empty}>`} />
  </${Panel}>`;
}
