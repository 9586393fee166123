// Records of a topic: a search or the live tail, a list, and one record that is open.
import { html, useEffect, useMemo, useState } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { Button, IconButton } from "../components/button.js";
import { Empty, Loading } from "../components/empty.js";
import { Notice, Problem } from "../components/problems.js";
import { toast } from "../components/toast.js";
import { View } from "../components/view.js";
import { bytes, clock, count, duration, percent, plural, rate } from "../format.js";
import { ExportDialog } from "../records/export_dialog.js";
import { FilterBar } from "../records/filter_bar.js";
import { REASONS } from "../records/formats.js";
import { ProduceDialog } from "../records/produce_dialog.js";
import { ModeFields, Modes, MoreFields, partitionsOf } from "../records/range_fields.js";
import { RecordDetail } from "../records/record_detail.js";
import { RecordList } from "../records/record_list.js";
import { useLiveTail, useSearch } from "../records/use_records.js";
import { address, useQuery } from "../router.js";
import { useAllows } from "../session.js";

const DEFAULTS = {
  mode: "newest",
  filter: [],
  partitions: "",
  at: "",
  since: "",
  until: "",
  limit: "50",
  keys: "auto",
  values: "auto",
  isolation: "committed",
  aborted: false,
  control: false,
  // The record that is open; -1 for none.
  partition: -1,
  offset: -1,
};

export default function Records({ topic }) {
  const [state, setState] = useQuery(DEFAULTS);
  const path = `/api/topics/${encodeURIComponent(topic)}/records`;
  const { answer: place, problem, reload } = useAnswer(path);
  const [dialog, setDialog] = useState(null);
  const chosen = place && partitionsOf(state.partitions, place.partitions.map(({ partition }) => partition));
  const queries = useMemo(() => (chosen === null ? null : queriesOf(state, chosen)), [JSON.stringify([state, chosen])]);
  const mayProduce = useAllows("operator") && place && !place.is_internal;
  const produced = ({ done }) => {
    toast(`The record is at offset ${count(done.offset)} of partition ${done.partition}.`);
    reload();
    setState({ partition: done.partition, offset: done.offset });
  };
  const actions = html`${mayProduce && html`<${Button} icon="plus" onClick=${() => setDialog("produce")}>Write a record</${Button}>`}<${Button} icon="download" disabled=${!queries || state.mode === "live"} onClick=${() => setDialog("export")}>Export</${Button}>`;
  return html`<${View} title="Records" crumbs=${[["Topics", "/topics"], [topic, address(["topics", topic])]]} actions=${actions}>
    <${Problem} problem=${problem} onRetry=${reload} />
    ${!place && !problem && html`<${Loading} lines=${10} />`}
    ${place && place.without_leader.length > 0 && html`<${Notice} kind="warn">${place.without_leader.length === 1 ? "Partition" : "Partitions"} ${place.without_leader.join(", ")} ${place.without_leader.length === 1 ? "has" : "have"} no leader: nobody can read ${place.without_leader.length === 1 ? "its" : "their"} records now, and they are left out here.</${Notice}>`}
    ${place &&
    html`<${Controls} ...${{ state, setState }} partitions=${place.partitions} isWrong=${chosen === null} />
      ${queries && (state.mode === "live" ? html`<${Live} ...${{ topic, path, state, setState }} query=${queries.live} />` : html`<${Search} ...${{ topic, path, place, state, setState }} query=${queries.search} />`)}`}
    ${dialog === "produce" && html`<${ProduceDialog} ...${{ topic, path }} partitions=${place.partitions.map(({ partition }) => partition)} onClose=${() => setDialog(null)} onDone=${produced} />`}
    ${dialog === "export" && html`<${ExportDialog} ...${{ topic, path }} query=${queries.range} onClose=${() => setDialog(null)} />`}
  </${View}>`;
}

function Controls({ state, setState, partitions, isWrong }) {
  const isChanged = ["keys", "values", "isolation", "aborted", "control"].some((name) => state[name] !== DEFAULTS[name]);
  const [isOpen, setOpen] = useState(isChanged);
  return html`<div class="record-controls">
    <div class="record-range">
      <${Modes} mode=${state.mode} onMode=${(mode) => setState({ mode })} />
      <${ModeFields} ...${{ state, setState, partitions }} />
    </div>
    <${FilterBar} filters=${state.filter} onFilters=${(filter) => setState({ filter })}>
      <${Button} kind="quiet" icon=${isOpen ? "up" : "down"} aria-expanded=${isOpen ? "true" : "false"} onClick=${() => setOpen(!isOpen)}>Formats, transactions</${Button}>
    </${FilterBar}>
    ${isOpen && html`<${MoreFields} ...${{ state, setState }} />`}
    ${isWrong && html`<${Notice} kind="bad"><p>“${state.partitions}” names no partitions: write numbers and ranges, as in 0, 3-5.</p></${Notice}>`}
  </div>`;
}

// What the API is asked, of what is in the address.
function queriesOf(state, partitions) {
  const read = { partition: partitions, filter: state.filter, key_format: state.keys, value_format: state.values, isolation: state.isolation, aborted: state.aborted, control: state.control };
  const range = { ...read, order: state.mode === "newest" ? "newest" : "oldest" };
  if (state.mode === "offset" && /^\d+$/.test(state.at)) range.from_offset = state.at;
  if (state.mode === "time") {
    range.since_ms = timeOf(state.since);
    range.until_ms = timeOf(state.until);
  }
  return { live: read, range, search: { ...range, limit: /^\d+$/.test(state.limit) ? state.limit : DEFAULTS.limit } };
}

function timeOf(text) {
  if (!text) return undefined;
  const ms = /^\d{6,}$/.test(text) ? Number(text) : new Date(text).getTime();
  return Number.isNaN(ms) ? undefined : ms;
}

// The list, and beside it the record that is open.
function ListAndRecord({ topic, state, setState, children, ...list }) {
  const isOpen = state.partition >= 0 && state.offset >= 0;
  const open = (row) => setState({ partition: row.partition, offset: row.offset }, { replace: isOpen });
  return html`<div class=${isOpen ? "record-split record-split-open" : "record-split"}>
    <div class="record-side">${children}<${RecordList} ...${list} selected=${isOpen ? `${state.partition}:${state.offset}` : null} onSelect=${open} /></div>
    ${isOpen &&
    html`<${RecordDetail} topic=${topic} place=${{ partition: state.partition, offset: state.offset }} formats=${{ key: state.keys, value: state.values }}
        onFormats=${({ key, value }) => setState({ keys: key, values: value }, { replace: true })}
        onMove=${(offset) => setState({ offset }, { replace: true })} onClose=${() => setState({ partition: -1, offset: -1 })} />`}
  </div>`;
}

// Search

function Search({ topic, path, place, state, setState, query }) {
  const found = useSearch(`${path}/search`, query, state.mode === "newest");
  const { rows, isRunning, ended, problem } = found;
  const empty = isRunning || problem ? null : html`<${Nothing} ...${{ place, state }} />`;
  return html`<${ListAndRecord} ...${{ topic, state, setState, rows, empty }}>
    <${Problem} problem=${problem} onRetry=${found.again} />
    <${HeldBack} ...${{ place, state, setState }} />
    <${SearchStatus} ...${found} count=${rows.length} />
    ${rows.dropped > 0 && html`<${Notice}><p>The page holds as many records as it can: the first ${count(rows.dropped)} were let go.</p></${Notice}>`}
    ${ended?.cursor.length > 0 && ended.reason !== "limit" && html`<${Notice} kind="warn"><p>${capital(REASONS[ended.reason])}: ${plural(ended.progress.scanned_count, "record")} and ${bytes(ended.progress.scanned_bytes)} were scanned, ${percent(ended.progress.share)} of the range. <button type="button" class="link" onClick=${found.goOn}>Go on from there</button></p></${Notice}>`}
  </${ListAndRecord}>`;
}

function SearchStatus({ isRunning, progress, ended, stop, goOn, again, count: shown }) {
  const scanned = progress && `${plural(progress.scanned_count, "record")} scanned (${bytes(progress.scanned_bytes)}) in ${duration(progress.elapsed_ms)}`;
  return html`<div class="record-status" role="status" aria-busy=${isRunning ? "true" : undefined}>
    <span><b>${count(shown)}</b> ${shown === 1 ? "record" : "records"}</span>
    ${isRunning && html`<progress class="record-progress" max="1" value=${progress?.share ?? 0} aria-label="How much of the range was scanned"></progress>`}
    ${isRunning && !progress && html`<span class="muted">searching…</span>`}
    ${scanned && html`<span class="muted">${scanned}${isRunning && progress.at_ms !== null ? `, at ${clock(progress.at_ms)}` : ""}</span>`}
    ${ended && html`<span class="muted">${ended.reason === "stopped" ? "stopped" : REASONS[ended.reason]}</span>`}
    <span class="record-status-end">
      ${isRunning && html`<${Button} icon="pause" onClick=${stop}>Stop</${Button}>`}
      ${ended?.reason === "limit" && html`<${Button} onClick=${goOn}>Show more</${Button}>`}
      ${!isRunning && html`<${IconButton} icon="refresh" label="Search again" onClick=${again} />`}
    </span>
  </div>`;
}

// What readers of committed records do not see is said, and not left out in silence.
function HeldBack({ place, state, setState }) {
  const held = place.partitions.reduce((sum, each) => sum + Math.max(0, each.end_offset - each.stable_offset), 0);
  if (!held || state.isolation === "uncommitted") return null;
  return html`<${Notice} kind="warn"><p>${plural(held, "offset")} at the end ${held === 1 ? "is" : "are"} held back by open transactions. <button type="button" class="link" onClick=${() => setState({ isolation: "uncommitted" })}>Show them</button></p></${Notice}>`;
}

function Nothing({ place, state }) {
  const size = place.partitions.reduce((sum, each) => sum + each.end_offset - each.start_offset, 0);
  if (!size) return html`<${Empty} title="The topic has no records">What is produced from now on comes with <b>Live</b>.</${Empty}>`;
  if (state.filter.length) return html`<${Empty} icon="search" title="No record passes the filters">Change the filters, the partitions or the time.</${Empty}>`;
  return html`<${Empty} icon="search" title="No records here">There are ${plural(size, "offset")} in the topic. Those in this range have no records that readers of committed records see.</${Empty}>`;
}

// Live

function Live({ topic, path, state, setState, query }) {
  const found = useLiveTail(`${path}/live`, query);
  const { rows, isPaused, setPaused, isOpen, problem } = found;
  const [isFollowing, setFollowing] = useState(true);
  useEffect(() => setFollowing(true), [JSON.stringify(query)]);
  const empty = problem ? null : html`<${Empty} icon="play" title=${isPaused ? "Paused" : isOpen ? "Waiting for records" : "Connecting"}>${state.filter.length ? "Those that pass the filters appear here." : "They appear here as they come in."}</${Empty}>`;
  return html`<${ListAndRecord} ...${{ topic, state, setState, rows, empty }} isFollowing=${isFollowing && !isPaused} onFollow=${(isAtEnd) => !isPaused && setFollowing(isAtEnd)}>
    <${Problem} problem=${problem} />
    <div class="record-status">
      <span class=${isOpen && !isPaused ? "live-state live-state-on" : "live-state"}>${isPaused ? "Paused" : isOpen ? "Live" : "Connecting"}</span>
      <span><b data-count="received">${count(found.received)}</b> received</span>
      <span class="muted">${rate(found.rate)} / s</span>
      ${state.filter.length > 0 && html`<span class="muted">of ${count(found.scanned)} scanned</span>`}
      ${found.skippedRows > 0 && html`<span class="text-warn"><span data-count="left-out">${count(found.skippedRows)}</span> left out: too many at a time</span>`}
      ${found.skippedOffsets > 0 && html`<span class="text-warn"><span data-count="skipped">${count(found.skippedOffsets)}</span> skipped: too far behind</span>`}
      ${rows.dropped > 0 && html`<span class="muted">the oldest ${count(rows.dropped)} let go</span>`}
      <span class="record-status-end">
        ${!isFollowing && !isPaused && html`<${Button} icon="down" onClick=${() => setFollowing(true)}>Follow the end</${Button}>`}
        <${Button} icon=${isPaused ? "play" : "pause"} onClick=${() => setPaused(!isPaused)}>${isPaused ? "Resume" : "Pause"}</${Button}>
        <${Button} kind="quiet" icon="trash" onClick=${found.clear}>Clear</${Button}>
      </span>
    </div>
  </${ListAndRecord}>`;
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
