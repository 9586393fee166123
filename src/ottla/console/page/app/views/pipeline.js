// One pipeline: where it stands, its micro-batches, its sources and targets.
import { html, useEffect, useMemo, useRef } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { Badge } from "../components/badge.js";
import { Chart } from "../components/chart.js";
import { CopyButton } from "../components/copy.js";
import { Empty, Loading } from "../components/empty.js";
import { Icon } from "../components/icons.js";
import { Facts, Meter, Panel, Stat, Stats } from "../components/panel.js";
import { Notice, Problem, Problems } from "../components/problems.js";
import { LocalTable } from "../components/table.js";
import { RelativeTime } from "../components/time.js";
import { View } from "../components/view.js";
import { count, duration, percent, plural, timestamp, UNKNOWN } from "../format.js";
import { address } from "../router.js";
import { JournalNote } from "../transactions/journal_note.js";
import { PipelineBadge, PipelineStates, stateSentence } from "../transactions/pipeline_states.js";
import { AgeBar, StateBadge } from "../transactions/states.js";

const MAX_DRAWN = 100;
const CRUMBS = [["Pipelines", "/pipelines"]];

export default function Pipeline({ name }) {
  const { answer, problem, reload } = useAnswer("/api/pipeline", { name }, { live: true });
  return html`<${View} title=${name} crumbs=${CRUMBS} badges=${answer && html`<${PipelineBadge} state=${answer.row.state} />`} lead=${answer && stateSentence(answer.row.state)}>
    <${Problem} problem=${problem} onRetry=${reload} />
    <${Problems} problems=${answer?.problems} />
    ${!answer && !problem && html`<${Loading} lines=${8} />`}
    ${answer && html`<${Detail} found=${answer} />`}
  </${View}>`;
}

// The log is read again when a micro-batch was committed.
function useHistory(row) {
  const result = useAnswer("/api/pipeline/history", { name: row.name });
  const version = `${row.query} ${row.batch}`;
  const seen = useRef(version);
  useEffect(() => {
    if (seen.current === version) return;
    seen.current = version;
    result.reload();
  }, [version]);
  return result;
}

function Detail({ found }) {
  const { row } = found;
  const history = useHistory(row);
  const gaps = (history.answer?.micro_batches ?? []).map(({ gap_ms: gap }) => gap).filter((gap) => gap !== null).sort((one, other) => one - other);
  return html`
    <${Stats}>
      <${Stat} label="Last micro-batch" value=${row.batch === null ? UNKNOWN : `# ${count(row.batch)}`} note=${row.committed_at_ms === null ? "not seen to be committed" : html`committed <${RelativeTime} ms=${row.committed_at_ms} />`} />
      ${row.started_at_ms !== null
        ? html`<${Stat} label="Transaction open for" value=${html`<${AgeBar} startedMs=${row.started_at_ms} timeoutMs=${row.timeout_ms} />`} />`
        : html`<${Stat} label="Between commits" value=${gaps.length ? duration(gaps[Math.floor(gaps.length / 2)]) : UNKNOWN} note=${gaps.length ? `median of ${gaps.length}, at most ${duration(gaps.at(-1))}` : "one commit is not enough"} />`}
      <${Stat} label="Lag" value=${count(row.lag)} unit="offsets" note=${row.lag === null ? "its sources are no topics of this cluster" : row.lag === 0 ? "everything is read" : "up to the last stable offsets"} />
      <${Stat} label="Transactions" value=${count(row.committed_count)} unit="committed" note=${`${count(row.aborted_count)} aborted, since the console looks`} kind=${row.aborted_count > row.committed_count ? "warn" : undefined} />
    </${Stats}>
    <${Flow} found=${found} />
    <div class="columns">
      <${MicroBatchCharts} history=${history} />
      <${Panel} title="Where it keeps its progress"><div class="stack">
        <${Facts} facts=${[
          ["Query", row.query === null ? UNKNOWN : html`<span class="mono">${row.query}</span> <${CopyButton} text=${row.query} label="Copy the id of the query" />`],
          ["Group of the source", html`<a href=${address(["groups", found.group_id])}>${found.group_id}</a>`],
          ["Group of the markers", html`<a href=${address(["groups", found.marker_group_id])}>${found.marker_group_id}</a>`],
          ["Transactional id", html`<a href=${address(["transactions", row.transactional_id])}>${row.transactional_id}</a>${row.transaction_state !== null && html` <${StateBadge} state=${row.transaction_state} />`}`],
          ["Producer", row.producer_id === null ? UNKNOWN : html`<a href=${address(["producers"], { producer: row.producer_id })}>${row.producer_id}</a>, epoch ${row.producer_epoch}`],
          ...oneOfEach(found.markers).map(({ topic, batch, query }) => [`Marker on ${topic}`, html`micro-batch ${count(batch)}${query !== row.query && html` <${Badge} kind="warn">of another query</${Badge}>`}`]),
        ]} />
        <${JournalNote} journal=${found.journal} />
      </div></${Panel}>
    </div>
    <${Sources} sources=${found.sources} />
    <${History} history=${history} />
    <${PipelineStates} />`;
}

// Each partition of a topic has a marker; they are the same.
const oneOfEach = (markers) => [...new Map(markers.map((each) => [`${each.topic} ${each.query} ${each.batch}`, each])).values()];

// From the sources through the pipeline to its targets.
function Flow({ found }) {
  const { row } = found;
  return html`<section class="flow" aria-label="From sources to targets">
    <ul class="flow-side">${row.source_topics.length
      ? row.source_topics.map((topic) => html`<li key=${topic}><a class="flow-box" href=${address(["topics", topic])}><${Icon} name="topics" /><span>${topic}</span></a></li>`)
      : html`<li><span class="flow-box muted">other sources of Spark</span></li>`}</ul>
    <span class="flow-arrow" aria-hidden="true"></span>
    <div class="flow-box flow-self"><${Icon} name="pipelines" /><span>${row.name}</span>${row.last_input_count !== null && html`<span class="muted">read ${plural(row.last_input_count, "offset")} last</span>`}</div>
    <span class="flow-arrow" aria-hidden="true"></span>
    <ul class="flow-side">${row.target_topics.length
      ? row.target_topics.map((topic) => html`<li key=${topic}><a class="flow-box" href=${address(["topics", topic])}><${Icon} name="topics" /><span>${topic}</span></a></li>`)
      : html`<li><span class="flow-box muted">nothing written yet</span></li>`}</ul>
  </section>`;
}

function MicroBatchCharts({ history: { answer, problem } }) {
  const batches = useMemo(() => (answer?.micro_batches ?? []).slice(0, MAX_DRAWN).reverse(), [answer]);
  const times = useMemo(() => batches.map(({ committed_at_ms: ms }) => ms), [batches]);
  const rows = useMemo(() => [{ label: "offsets read", values: batches.map(({ input_count: number }) => number) }], [batches]);
  const gaps = useMemo(() => [{ label: "since the one before", values: batches.map(({ gap_ms: ms }) => ms), colour: 3 }], [batches]);
  return html`<${Panel} title="Micro-batches">
    <${Problem} problem=${problem} />
    ${!answer && !problem && html`<${Loading} lines=${4} label="Reading __consumer_offsets" />`}
    ${answer?.problem && html`<${Notice}>${answer.problem}</${Notice}>`}
    ${answer && batches.length < 2 && html`<${Empty} title="Too few to draw">A chart comes with the second micro-batch that is in the log.</${Empty}>`}
    ${batches.length > 1 &&
    html`<div class="stack">
      ${rows[0].values.some((value) => value !== null) && html`<${Chart} title="How much each one read" times=${times} series=${rows} unit="short" kind="bars" height=${130} />`}
      <${Chart} title="Time between commits" times=${times} series=${gaps} unit="duration" kind="bars" height=${130} />
    </div>`}
  </${Panel}>`;
}

// Of what the partition has now.
function shareRead({ offset, start_offset: start, end_offset: end }) {
  if (start === null || end === null) return null;
  // The end may be from a moment before the offset.
  return end > start ? Math.min(1, Math.max(0, offset - start) / (end - start)) : 1;
}

const SOURCE_COLUMNS = [
  { id: "place", label: "Partition", isSortable: true, value: (row) => `${row.topic} ${String(row.partition).padStart(6, "0")}`, cell: (row) => html`<a href=${address(["topics", row.topic])}>${row.topic}</a>-${row.partition}${row.is_differing && html` <${Badge} kind="warn" title="Not all sources of the query have read up to the offset">sources differ</${Badge}>`}` },
  { id: "bar", label: "What it has read", cell: (row) => html`<${Meter} share=${shareRead(row)} label=${percent(shareRead(row))} warnAt=${2} badAt=${2} />` },
  { id: "offset", label: "Read up to", align: "end", isSortable: true, cell: ({ offset }) => count(offset) },
  { id: "last_stable_offset", label: "Last stable", align: "end", isSortable: true, cell: (row) => count(row.last_stable_offset) },
  { id: "end_offset", label: "End", align: "end", isSortable: true, cell: (row) => count(row.end_offset) },
  { id: "lag", label: "Lag", align: "end", isSortable: true, cell: ({ lag }) => count(lag) },
];

const Sources = ({ sources }) => html`<${Panel} title="Sources" note=${sources.length ? plural(sources.length, "partition") : ""} flush>
  <${LocalTable} caption="Partitions that it reads" columns=${SOURCE_COLUMNS} rows=${sources} rowKey=${({ topic, partition }) => `${topic} ${partition}`} sort="place" pageSize=${50} prefix="source-"
    empty=${html`<${Empty} title="No position of a source is stored">The query reads something else than topics of this cluster, or has not committed yet.</${Empty}>`} />
</${Panel}>`;

const BATCH_COLUMNS = [
  { id: "batch", label: "Micro-batch", cell: ({ batch }) => count(batch) },
  { id: "at", label: "Committed", cell: ({ committed_at_ms: ms }) => html`<span class="mono">${timestamp(ms)}</span>` },
  { id: "gap", label: "Since the one before", align: "end", cell: ({ gap_ms: ms }) => duration(ms) },
  { id: "input", label: "Offsets read", align: "end", title: "Markers in the sources count, too", cell: ({ input_count: number }) => count(number) },
  { id: "topic", label: "Written to", cell: ({ topic }) => html`<a href=${address(["topics", topic])}>${topic}</a>` },
  { id: "query", label: "Query", isMono: true, cell: ({ query }) => html`<span title=${query}>${query.slice(0, 8)}</span>` },
];

function History({ history: { answer } }) {
  if (!answer || answer.micro_batches.length === 0) return null;
  return html`<${Panel} title="Micro-batches one by one" note=${`${plural(answer.micro_batches.length, "commit")} in __consumer_offsets${answer.is_whole ? "" : ", the newest"}`} flush>
    <${LocalTable} caption="Micro-batches, the newest first" columns=${BATCH_COLUMNS} rows=${answer.micro_batches} rowKey=${({ query, batch }) => `${query} ${batch}`} pageSize=${25} prefix="batch-" />
  </${Panel}>`;
}
