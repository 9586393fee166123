// Transactions: the open ones by age and what they hold up, those that hang, those that have ended, all ids.
import { html, useRef, useState } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { Badge } from "../components/badge.js";
import { Button } from "../components/button.js";
import { Chart } from "../components/chart.js";
import { Empty, Loading } from "../components/empty.js";
import { SelectField } from "../components/field.js";
import { Panel, Stat, Stats } from "../components/panel.js";
import { Problem } from "../components/problems.js";
import { ServerTable } from "../components/table.js";
import { Tabs } from "../components/tabs.js";
import { Age, RelativeTime } from "../components/time.js";
import { View } from "../components/view.js";
import { count, duration, plural, UNKNOWN } from "../format.js";
import { address, useQuery } from "../router.js";
import { useAllows } from "../session.js";
import { AbortDialog } from "../transactions/abort_dialog.js";
import { Hanging } from "../transactions/hanging.js";
import { GroupLinks, TopicLinks } from "../transactions/held_partition.js";
import { JournalNote } from "../transactions/journal_note.js";
import { AgeBar, OutcomeBadge, StateBadge } from "../transactions/states.js";

const LEAD = "While a transaction is open, readers with isolation.level=read_committed wait at its first record, and for everything behind it.";

export default function Transactions() {
  const [{ tab }] = useQuery({ tab: "open" });
  const { answer: summary, problem, reload } = useAnswer("/api/transactions/summary", {}, { live: true });
  const { answer: hanging, reload: reloadHanging } = useAnswer("/api/transactions/hanging", {}, { live: true });
  const done = () => (reload(), reloadHanging());
  // What hangs when the view opens stands first; what is found later comes below, so that nothing jumps.
  const isKnownFirst = useRef(null);
  if (hanging && isKnownFirst.current === null) isKnownFirst.current = hanging.rows.length > 0 || hanging.problems.length > 0;
  const hangingPanel = html`<${Hanging} page=${hanging} onDone=${done} />`;
  return html`<${View} title="Transactions" lead=${LEAD}>
    <${Problem} problem=${problem} onRetry=${reload} />
    ${summary ? html`<${Summary} summary=${summary} />` : !problem && html`<${Loading} lines=${2} />`}
    ${isKnownFirst.current && hangingPanel}
    <${Tabs} tabs=${[["open", "Open", summary && count(summary.open_count)], ["ended", "Ended"], ["ids", "All ids"]]} current=${tab} />
    ${tab === "ended" ? html`<${Ended} journal=${summary?.journal} />` : tab === "ids" ? html`<${AllIds} />` : html`<${Open} onDone=${done} />`}
    ${isKnownFirst.current === false && hangingPanel}
  </${View}>`;
}

function Summary({ summary }) {
  const ended = summary.committed_last_minute + summary.aborted_last_minute;
  return html`<${Stats}>
    <${Stat} label="Open now" value=${count(summary.open_count)} note=${summary.open_count ? html`the oldest for <${Age} sinceMs=${summary.oldest_started_at_ms} />` : "none in the last snapshot"} />
    <${Stat} label="Held back" value=${count(summary.held_count)} unit=${summary.held_count === 1 ? "offset" : "offsets"} note=${summary.held_partition_count ? `in ${plural(summary.held_partition_count, "partition")}` : "readers see everything"} />
    <${Stat} label="Groups that wait" value=${count(summary.waiting_groups.length)} kind=${summary.waiting_groups.length ? "warn" : undefined} note=${html`<${GroupLinks} groups=${summary.waiting_groups.slice(0, 3)} none="none known" />`} />
    <${Stat} label="Hanging" value=${count(summary.hanging_count)} kind=${summary.hanging_count ? "bad" : undefined} note=${summary.hanging_count ? "no coordinator will end them" : "none found"} />
    <${Stat} label="Ended in the last minute" value=${summary.journal.source === "none" ? UNKNOWN : count(ended)} note=${`${count(summary.committed_last_minute)} committed, ${count(summary.aborted_last_minute)} aborted`} />
  </${Stats}>`;
}

// Open

const idCell = ({ transactional_id: id, producer_id: producer, producer_epoch: epoch, coordinator_id: coordinator }) => html`<a href=${address(["transactions", id])}>${id}</a>
  <div class="cell-note">producer ${producer}${epoch === null ? "" : `, epoch ${epoch}`} · coordinator ${coordinator ?? UNKNOWN}</div>`;

const heldCell = (row) => {
  if (row.held_count === null) return html`<span class="muted" title="A last stable offset has to stand in two snapshots before its partitions are asked">not known yet</span>`;
  if (row.held_partition_count === 0) return html`<span class="muted">nothing yet: others are before it</span>`;
  return html`<b>${plural(row.held_count, "offset")}</b><div class="cell-note">in ${plural(row.held_partition_count, "partition")}</div>`;
};

const OPEN_COLUMNS = [
  { id: "transactional_id", label: "Transactional id", isSortable: true, cell: idCell },
  { id: "state", label: "State", cell: ({ state }) => html`<${StateBadge} state=${state} />` },
  { id: "age", label: "Open for", isSortable: true, firstOrder: "desc", cell: (row) => html`<${AgeBar} startedMs=${row.started_at_ms} timeoutMs=${row.timeout_ms} />` },
  { id: "writes", label: "Writes to", isWrapped: true, cell: (row) => html`<${TopicLinks} topics=${row.topics} /><div class="cell-note">${row.partition_count === null ? "" : plural(row.partition_count, "partition")}</div>` },
  { id: "held", label: "Holds back", title: "Offsets that readers of committed records get to see when it ends", cell: heldCell },
  { id: "groups", label: "Groups that wait", isWrapped: true, cell: ({ waiting_groups: groups }) => html`<${GroupLinks} groups=${groups} />` },
];

function Open({ onDone }) {
  const [aborting, setAborting] = useState(null);
  const mayAbort = useAllows("operator");
  const abortColumn = {
    id: "abort",
    label: html`<span class="visually-hidden">Abort</span>`,
    align: "end",
    cell: ({ transactional_id: id, state }) => state === "Ongoing" && html`<${Button} aria-label=${`Abort the transaction of ${id}`} onClick=${() => setAborting(id)}>Abort</${Button}>`,
  };
  return html`<${ServerTable} path="/api/transactions" query=${{ state: "open" }} caption="Open transactions" columns=${mayAbort ? [...OPEN_COLUMNS, abortColumn] : OPEN_COLUMNS}
      rowKey=${({ transactional_id: id }) => id} sort="age" order="desc" search="Find an id or a producer id" filters=${TOPIC_FILTER}
      empty=${html`<${Empty} icon="good" title="No transaction is open">Nothing is held back by the coordinators' transactions. Short ones come and go between two looks at the cluster: see those that have ended.</${Empty}>`} />
    ${aborting && html`<${AbortDialog} transactionalId=${aborting} onClose=${() => setAborting(null)} onDone=${onDone} />`}`;
}

// A link from a topic brings its name.
const TOPIC_FILTER = {
  defaults: { topic: "" },
  draw: ({ topic }, set) => topic && html`<${Badge}>writes to ${topic}</${Badge}><${Button} kind="quiet" icon="close" onClick=${() => set({ topic: "" })}>All topics</${Button}>`,
};

// Ended

const ENDED_COLUMNS = [
  { id: "transactional_id", label: "Transactional id", cell: (row) => html`<a href=${address(["transactions", row.transactional_id])}>${row.transactional_id}</a>` },
  { id: "outcome", label: "Outcome", cell: (row) => html`<${OutcomeBadge} outcome=${row.outcome} hasTimedOut=${row.has_timed_out} />` },
  { id: "ended", label: "Ended", cell: ({ ended_at_ms: ms }) => html`<${RelativeTime} ms=${ms} />` },
  { id: "duration", label: "Was open for", align: "end", cell: ({ duration_ms: ms }) => duration(ms) },
  { id: "producer", label: "Producer", align: "end", title: "Producer id and epoch", cell: (row) => html`<a href=${address(["producers"], { producer: row.producer_id })}>${row.producer_id}</a> <span class="muted">epoch ${row.producer_epoch < 0 ? UNKNOWN : row.producer_epoch}</span>` },
  { id: "partitions", label: "Partitions", align: "end", cell: ({ partition_count: number }) => count(number) },
  { id: "topics", label: "Wrote to", isWrapped: true, cell: ({ topics }) => html`<${TopicLinks} topics=${topics} />` },
];

const OUTCOMES = [["all", "All outcomes"], ["committed", "Committed"], ["aborted", "Aborted"]];

function Ended({ journal }) {
  const { answer } = useAnswer("/api/transactions/ended", { limit: 1 }, { live: true });
  return html`<div class="stack">
    ${answer && answer.rates.at_ms.length > 1 && html`<${Panel} title="Commits and aborts per minute" note=${`${count(answer.committed_count)} committed and ${count(answer.aborted_count)} aborted since the console looks`}><${EndRates} rates=${answer.rates} /></${Panel}>`}
    <${JournalNote} journal=${journal} />
    <${ServerTable} path="/api/transactions/ended" caption="Transactions that have ended, the newest first" columns=${ENDED_COLUMNS} rowKey=${(row) => `${row.transactional_id} ${row.ended_at_ms} ${row.started_at_ms}`}
      order=${null} search="Find an id"
      filters=${{ defaults: { outcome: "all" }, draw: ({ outcome }, set) => html`<${SelectField} label="Outcome" isLabelHidden value=${outcome} onChange=${(value) => set({ outcome: value })} options=${OUTCOMES} />` }}
      empty=${html`<${Empty} title="No transaction has ended yet">Since this console looks, and as far as the log was read back.</${Empty}>`} />
  </div>`;
}

function EndRates({ rates }) {
  const perMinute = 60_000 / rates.bucket_ms;
  // The newest stretch of time is not over.
  const times = rates.at_ms.slice(0, -1);
  const series = [
    { label: "committed", values: rates.committed.slice(0, -1).map((number) => number * perMinute), colour: 4 },
    { label: "aborted", values: rates.aborted.slice(0, -1).map((number) => number * perMinute), colour: 2 },
  ];
  return html`<${Chart} title="Commits and aborts per minute" isTitleHidden times=${times} series=${series} unit="rate" kind="bars" height=${150} />`;
}

// All ids

const ID_COLUMNS = [
  { id: "transactional_id", label: "Transactional id", isSortable: true, cell: ({ transactional_id: id }) => html`<a href=${address(["transactions", id])}>${id}</a>` },
  { id: "state", label: "State", isSortable: true, cell: ({ state }) => html`<${StateBadge} state=${state} />` },
  { id: "age", label: "Open for", isSortable: true, firstOrder: "desc", cell: (row) => (row.is_open ? html`<${AgeBar} startedMs=${row.started_at_ms} timeoutMs=${row.timeout_ms} />` : UNKNOWN) },
  { id: "producer_id", label: "Producer id", align: "end", isSortable: true, cell: ({ producer_id: id }) => html`<a href=${address(["producers"], { producer: id })}>${id}</a>` },
  { id: "coordinator_id", label: "Coordinator", align: "end", isSortable: true, cell: ({ coordinator_id: id }) => id ?? UNKNOWN },
  { id: "committed", label: "Committed", align: "end", title: "Since the console looks", cell: ({ committed_count: number }) => count(number) },
  { id: "aborted", label: "Aborted", align: "end", title: "Since the console looks", cell: ({ aborted_count: number }) => count(number) },
  { id: "ended", label: "Ended last", cell: ({ ended_at_ms: ms }) => html`<${RelativeTime} ms=${ms} />` },
];

const STATES = [["all", "All states"], ["open", "Open"], ["committed", "Committed"], ["aborted", "Aborted"], ["empty", "Empty"]];

const AllIds = () => html`<${ServerTable} path="/api/transactions" caption="Transactional ids" columns=${ID_COLUMNS} rowKey=${({ transactional_id: id }) => id} sort="age" order="desc" search="Find an id or a producer id"
  filters=${{ defaults: { state: "all" }, draw: ({ state }, set) => html`<${SelectField} label="State" isLabelHidden value=${state} onChange=${(value) => set({ state: value })} options=${STATES} />` }}
  empty=${html`<${Empty} title="No transactional ids">No producer of this cluster has used transactions yet, or you may not describe their ids.</${Empty}>`} />`;
