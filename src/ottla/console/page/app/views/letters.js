// The letters of a dead-letter topic, newest first; replaying and dropping them.
import { html, useMemo, useState } from "../../vendor/preact.js";
import { errorName, Hops, letterAddress } from "../apps/hops.js";
import { ShownInLine } from "../apps/shown_bytes.js";
import { Changes } from "../apps/changes.js";
import { LetterChangeDialog } from "../apps/change_dialog.js";
import { useAnswer } from "../api.js";
import { Badge } from "../components/badge.js";
import { Button } from "../components/button.js";
import { Empty, Loading } from "../components/empty.js";
import { SearchField, SelectField } from "../components/field.js";
import { Panel } from "../components/panel.js";
import { Notice, Problem } from "../components/problems.js";
import { Table } from "../components/table.js";
import { RelativeTime } from "../components/time.js";
import { View } from "../components/view.js";
import { count, plural, timestamp } from "../format.js";
import { address, useQuery } from "../router.js";
import { useAllows } from "../session.js";

const STATES = [["open", "Open letters"], ["done", "Replayed or dropped"], ["all", "All letters"]];
const SINCE = [["", "Any time"], ["3600000", "Last hour"], ["86400000", "Last 24 hours"], ["604800000", "Last 7 days"]];
const DEFAULTS = { state: "open", error: "", source: "", partition: "", since: "", older: "" };

export const originalAddress = ({ source_topic: topic, source_partition: partition, source_offset: offset }) => address(["topics", topic, "records"], { partition, offset });

const keyOf = ({ partition, offset }) => `${partition}:${offset}`;

const errorCell = ({ error, message, source_topic: source }) =>
  error === null && message === null && source === null
    ? html`<span class="muted">no headers tell its history</span>`
    : html`<span class="letter-error" title=${error ?? undefined}>${errorName(error)}</span>${message && html`<div class="cell-note letter-message">${message}</div>`}`;

const originCell = (row) =>
  row.source_topic === null
    ? html`<span class="muted">unknown</span>`
    : html`<a href=${originalAddress(row)}>${row.source_topic}</a><div class="cell-note">partition ${row.source_partition}, offset ${row.source_offset}</div>`;

const COLUMNS = [
  { id: "error", label: "Error", isWrapped: true, cell: errorCell },
  { id: "key", label: "Key", cell: ({ key }) => html`<${ShownInLine} shown=${key} />` },
  { id: "value", label: "Value", cell: ({ value }) => html`<${ShownInLine} shown=${value} />` },
  { id: "origin", label: "Original record", cell: originCell },
  { id: "attempts", label: "Attempts", align: "end", cell: ({ attempts }) => count(attempts) },
];

export default function Letters({ topic }) {
  const [state, setState] = useQuery(DEFAULTS);
  // The span ends when the filter was chosen: otherwise each drawing would ask anew.
  const since = useMemo(() => (state.since ? Date.now() - Number(state.since) : null), [state.since]);
  const query = { topic, state: state.state, error: state.error, source: state.source, partition: state.partition, since_ms: since, older: state.older };
  const { answer, problem, isLoading, reload } = useAnswer("/api/dead-letters", query);
  const { answer: apps } = useAnswer("/api/apps", { q: topic, limit: 20 }, { live: true });
  const app = apps?.rows.find((row) => row.dead_letter_topics.some((each) => each.topic === topic));
  const counts = app?.dead_letter_topics.find((each) => each.topic === topic).counts;
  const [selected, setSelected] = useState(new Map());
  const [asking, setAsking] = useState(null);
  const mayChange = useAllows("operator");
  const filter = (changes) => {
    setSelected(new Map());
    setState({ older: "", ...changes }, { replace: true });
  };
  const ended = () => {
    setSelected(new Map());
    reload();
  };
  const isFiltered = state.error || state.source || state.partition !== "" || state.since;
  const chosen = { error: state.error, source: state.source, partitions: state.partition === "" ? [] : [Number(state.partition)], since_ms: since };
  const places = [...selected.values()].map(({ partition, offset }) => ({ partition, offset }));
  const ask = (action, isSelected) =>
    setAsking({
      action,
      chosen: isSelected ? { places } : chosen,
      what: isSelected ? plural(places.length, "selected letter") : isFiltered ? "all letters that fit the filters" : "all open letters",
    });
  const hasNewer = counts && answer && !state.older && state.state === "open" && !isFiltered && answer.rows.length > 0 && counts.newest_ms > answer.rows[0].timestamp_ms;

  return html`<${View} title=${topic} crumbs=${[["Apps and dead letters", "/apps"]]} badges=${answer && html`<${Kind} page=${answer} />`}
      actions=${mayChange && answer && html`<${Button} icon="refresh" onClick=${() => ask("replay", false)}>${isFiltered ? "Replay those that fit" : "Replay all"}</${Button}>
        <${Button} icon="trash" onClick=${() => ask("drop", false)}>${isFiltered ? "Drop those that fit" : "Drop all"}</${Button}>`}>
    ${app && html`<${Panel} title="The way of a record"><${Hops} app=${app} /></${Panel}>`}
    <${Changes} topic=${topic} onEnd=${ended} />
    ${counts && counts.errors.length > 0 && html`<${Errors} counts=${counts} current=${state.error} onChoose=${(error) => filter({ error, state: "open" })} />`}
    <div class="toolbar">
      <${SearchField} label="Find an error or a message" value=${state.error} onSearch=${(error) => filter({ error })} />
      <${SelectField} label="Which letters" isLabelHidden value=${state.state} onChange=${(value) => filter({ state: value })} options=${STATES} />
      <${SelectField} label="Since" isLabelHidden value=${state.since} onChange=${(value) => filter({ since: value })} options=${SINCE} />
      ${answer && answer.partition_count > 1 && html`<${SelectField} label="Partition" isLabelHidden value=${state.partition} onChange=${(value) => filter({ partition: value })} options=${partitions(answer.partition_count)} />`}
      ${state.source && html`<${Button} kind="quiet" icon="close" onClick=${() => filter({ source: "" })}>From ${state.source} only</${Button}>`}
      <div class="toolbar-end"><${Button} icon="refresh" kind="quiet" onClick=${reload}>Read again</${Button}></div>
    </div>
    ${hasNewer && html`<${Notice}>There are newer letters. <button type="button" class="link" onClick=${reload}>Show them</button></${Notice}>`}
    <${Problem} problem=${problem} onRetry=${reload} />
    ${!answer && !problem && html`<${Loading} lines=${8} />`}
    ${answer && html`<${Rows} ...${{ answer, isLoading, topic, selected, setSelected, mayChange, ask, setState }} isFirst=${!state.older} isFiltered=${isFiltered || state.state !== "open"} />`}
    ${asking && html`<${LetterChangeDialog} ...${asking} topic=${topic} onClose=${() => setAsking(null)} onBegun=${ended} />`}
  </${View}>`;
}

const partitions = (number) => [["", "All partitions"], ...Array.from({ length: Math.min(number, 500) }, (_, index) => [String(index), `Partition ${index}`])];

const Kind = ({ page }) =>
  page.is_retry_topic
    ? html`<${Badge} kind="info" title="Its records wait for their next attempt">retry topic</${Badge}>`
    : page.naming === null
      ? html`<${Badge} title="Its name is not that of a dead-letter topic">other topic</${Badge}>`
      : html`<${Badge}>${page.naming === "ottla" ? "dead letters" : "dead letters, named as Spring Kafka does"}</${Badge}>`;

function Errors({ counts, current, onChoose }) {
  const most = Math.max(...counts.errors.map((each) => each.count));
  return html`<${Panel} title="Open letters by error" note=${counts.is_whole ? plural(counts.open, "open letter") : `of the newest ${plural(counts.counted, "letter")}`}>
    <ul class="error-bars">${counts.errors.map(({ error, count: number }) => html`<li key=${error}>
      <button type="button" class="error-bar" disabled=${error === null} aria-pressed=${error !== null && error === current} title=${error ?? undefined} onClick=${() => onChoose(error === current ? "" : error)}>
        <span class="error-bar-fill" style=${{ "--share": number / most }} aria-hidden="true"></span>
        <span class="error-bar-name">${errorName(error)}</span><span class="error-bar-count">${count(number)}</span>
      </button></li>`)}</ul>
  </${Panel}>`;
}

function Rows({ answer, isLoading, topic, selected, setSelected, mayChange, ask, setState, isFirst, isFiltered }) {
  const open = answer.rows.filter((row) => !row.is_done);
  const isAll = open.length > 0 && open.every((row) => selected.has(keyOf(row)));
  const toggle = (rows, isOn) => {
    const next = new Map(selected);
    for (const row of rows) isOn ? next.set(keyOf(row), row) : next.delete(keyOf(row));
    setSelected(next);
  };
  const select = {
    id: "select",
    label: html`<input type="checkbox" aria-label="Select all open letters of this page" checked=${isAll} disabled=${!open.length} onChange=${(event) => toggle(open, event.currentTarget.checked)} />`,
    cell: (row) => html`<input type="checkbox" aria-label=${`Select the letter of partition ${row.partition} at offset ${row.offset}`} disabled=${row.is_done} checked=${selected.has(keyOf(row))} onChange=${(event) => toggle([row], event.currentTarget.checked)} />`,
  };
  const letter = {
    id: "letter",
    label: "Letter",
    cell: (row) => html`<a href=${letterAddress(topic, row.partition, row.offset)}>${row.partition} / ${row.offset}</a>
      <div class="cell-note"><${RelativeTime} ms=${row.timestamp_ms} />${row.is_done && html` <${Badge} kind="good">done</${Badge}>`}</div>`,
  };
  const columns = mayChange ? [letter, select, ...COLUMNS] : [letter, ...COLUMNS];
  return html`<div class="table-block" aria-busy=${isLoading ? "true" : undefined}>
    ${selected.size > 0 && html`<div class="selection" role="status"><b>${plural(selected.size, "letter")} selected</b>
      <${Button} kind="primary" icon="refresh" onClick=${() => ask("replay", true)}>Replay selected</${Button}>
      <${Button} icon="trash" onClick=${() => ask("drop", true)}>Drop selected</${Button}>
      <${Button} kind="quiet" onClick=${() => setSelected(new Map())}>Clear</${Button}></div>`}
    <${Table} caption="Letters, the newest first" columns=${columns} rows=${answer.rows} rowKey=${keyOf} version=${answer.rows.map((row) => keyOf(row) + row.is_done).join()} rowClass=${(row) => (row.is_done ? "letter-done" : undefined)}
      empty=${isFiltered ? html`<${Empty} icon="search" title="No letter fits">${answer.is_cut ? "The search stopped at its limit: go on below." : "Change the search or the filters."}</${Empty}>` : html`<${Empty} icon="good" title="No open letters">Nothing was given up, or everything was replayed or dropped.</${Empty}>`} />
    <nav class="pager" aria-label="Pages">
      <span class="muted">${count(answer.scanned_count)} read${answer.is_cut && answer.scanned_to_ms !== null ? `, back to ${timestamp(answer.scanned_to_ms)}` : ""}</span>
      ${!isFirst && html`<${Button} onClick=${() => setState({ older: "" })}>Newest</${Button}>`}
      ${answer.older && html`<${Button} onClick=${() => setState({ older: answer.older })}>${answer.is_cut ? "Search further back" : "Older"}</${Button}>`}
    </nav>
  </div>`;
}
