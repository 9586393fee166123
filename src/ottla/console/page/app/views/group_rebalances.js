// The rebalances of a group: who had which partitions when, why it changed, and how long it took.
import { html, useEffect, useMemo, useRef, useState } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { Badge } from "../components/badge.js";
import { Empty, Loading } from "../components/empty.js";
import { SelectField } from "../components/field.js";
import { Panel } from "../components/panel.js";
import { Notice, Problem } from "../components/problems.js";
import { LocalTable } from "../components/table.js";
import { RelativeTime } from "../components/time.js";
import { count, duration, plural, timestamp, UNKNOWN } from "../format.js";
import { useEvent } from "../live.js";
import { useQuery } from "../router.js";
import { MembersOverTime } from "./members_over_time.js";
import { hostText } from "./group_words.js";

const DEFAULTS = { as: "lanes", scale: "even", colour: "size", last: 12 };

export function GroupRebalances({ group }) {
  const [state, setState] = useQuery(DEFAULTS);
  const { answer, problem, reload } = useAnswer("/api/group/rebalances", { id: group }, { live: true });
  useEvent("rebalance", ({ group_id: name }) => name === group && reload(), [group, reload]);
  if (!answer) return problem ? html`<${Problem} problem=${problem} onRetry=${reload} />` : html`<${Loading} lines=${8} />`;
  const { journal, rebalances } = answer;
  return html`<div class="stack group-lag-tab">
    <${Source} journal=${journal} />
    <${News} rebalances=${rebalances} />
    ${rebalances.length === 0
      ? journal.source === "log" && html`<${Empty} icon="clock" title="No rebalance is known">The console reads the newest records of __consumer_offsets, and follows it from then on. The group has not rebalanced in that time.</${Empty}>`
      : html`<${Drawing} ...${{ answer, state, setState }} /><${List} rebalances=${rebalances} journal=${journal} />`}
  </div>`;
}

function Source({ journal }) {
  const { source, problem, skipped_count: skipped, notes_problem: notesProblem } = journal;
  return html`${source !== "log" && html`<${Notice} kind="warn">${problem ? `Rebalances are not known: ${problem}.` : "The console is about to read __consumer_offsets."} The members of now are still shown.</${Notice}>`}
    ${skipped > 0 && html`<${Notice} kind="warn">${plural(skipped, "record")} of __consumer_offsets ${skipped === 1 ? "was" : "were"} skipped, because there were too many at once: some rebalances may be missing.</${Notice}>`}
    ${notesProblem && html`<${Notice} kind="warn">The broker does not tell its reasons now: ${notesProblem}</${Notice}>`}`;
}

// What is new is said once, to those who cannot see it move.
function News({ rebalances }) {
  const [latest] = rebalances;
  const key = latest ? `${latest.number} ${latest.ended_at_ms}` : "";
  const first = useRef(key);
  const text = latest && key !== first.current ? `${numberText(latest)}: ${latest.ended_at_ms === null ? "rebalancing. " : ""}${latest.why.join(" ")}` : "";
  return html`<p class="visually-hidden" role="status">${text}</p>`;
}

const SCALES = [["even", "Evenly"], ["time", "By time"]];
const COLOURS = [["size", "Darker for more"], ["number", "By generation"]];
const LASTS = [["6", "Last 6"], ["12", "Last 12"], ["30", "Last 30"], ["200", "All that are known"]];

function Drawing({ answer, state, setState }) {
  const choose = (name) => (value) => setState({ [name]: name === "last" ? Number(value) : value }, { replace: true });
  const isTable = state.as === "table";
  const actions = html`<div class="row rebalance-choices">
    <${SelectField} label="How it is shown" isLabelHidden value=${state.as} options=${[["lanes", "As lanes"], ["table", "As a table"]]} onChange=${choose("as")} />
    ${!isTable && html`<${SelectField} label="Colours" isLabelHidden value=${state.colour} options=${COLOURS} onChange=${choose("colour")} />
    <${SelectField} label="Scale" isLabelHidden value=${state.scale} options=${SCALES} onChange=${choose("scale")} />
    <${SelectField} label="How many" isLabelHidden value=${String(state.last)} options=${LASTS} onChange=${choose("last")} />`}
  </div>`;
  return html`<${Panel} title="Members over time" actions=${actions} flush=${isTable}>
    ${isTable ? html`<${Stints} lanes=${answer.lanes} />` : html`<${MembersOverTime} answer=${answer} ...${state} />`}
    ${answer.left_out_lanes > 0 && html`<p class="muted">${plural(answer.left_out_lanes, "more member")} ${answer.left_out_lanes === 1 ? "is" : "are"} not drawn.</p>`}
  </${Panel}>`;
}

export const laneName = ({ instance_id: instance, client_id: client, member_id: member }) => instance ?? (client || member);

const STINTS = [
  { id: "name", label: "Member", isSortable: true, cell: ({ name, member_id: id }) => html`<span title=${id}>${name}</span>` },
  { id: "began_at_ms", label: "From", isSortable: true, firstOrder: "desc", cell: ({ began_at_ms: at }) => timestamp(at) },
  { id: "ended_at_ms", label: "To", isSortable: true, cell: ({ ended_at_ms: at }) => (at === null ? "now" : timestamp(at)) },
  { id: "number", label: "Generation", align: "end", isSortable: true, title: "Of the new protocol: the member's epoch", cell: ({ number }) => count(number) },
  { id: "partition_count", label: "Partitions", align: "end", isSortable: true, cell: ({ partition_count: partitions }) => count(partitions) },
  { id: "topics", label: "Which", isWrapped: true, cell: ({ topics }) => topics.map(topicText).join("; ") || UNKNOWN },
  { id: "state", label: "State", isSortable: true, cell: ({ state }) => STATE_WORDS[state] ?? state },
];

export const STATE_WORDS = { stable: "has them", revoking: "gives up others", waiting: "waits for others", away: "away for a while" };

export const topicText = ({ topic, ranges }) => `${topic} ${ranges.map(([first, last]) => (first === last ? first : `${first}–${last}`)).join(", ")}`;

// The same as the lanes, for those who cannot see them or want to search.
function Stints({ lanes }) {
  const rows = useMemo(() => lanes.flatMap((lane) => lane.stints.map((stint, index) => ({ ...stint, name: laneName(lane), key: `${lane.lane} ${index}` }))), [lanes]);
  return html`<${LocalTable} caption="Members over time" columns=${STINTS} rows=${rows} rowKey=${({ key }) => key} sort="began_at_ms" order="desc" prefix="s_" pageSize=${50} />`;
}

const numberText = ({ protocol, number }) => `${protocol === "consumer" ? "Epoch" : "Generation"} ${number}`;

const KINDS = {
  emptied: ["neutral", "Empty"],
  restarted: ["info", "Restarted"],
  converted: ["info", "Other protocol"],
  deleted: ["neutral", "Deleted"],
};

function List({ rebalances, journal }) {
  const columns = [
    { id: "number", label: "Generation", cell: (row) => html`<span class="rebalance-number">${numberText(row)}${row.kind in KINDS && html` <${Badge} kind=${KINDS[row.kind][0]}>${KINDS[row.kind][1]}</${Badge}>`}</span><span class="rebalance-when muted"><${When} row=${row} /></span>` },
    { id: "why", label: "What happened", isWrapped: true, cell: (row) => html`<${Why} row=${row} />` },
    { id: "members", label: "Members", align: "end", cell: ({ member_count: members }) => count(members) },
    { id: "moved", label: "Moved", align: "end", title: "Partitions that went from one member to another", cell: ({ moved_count: moved }) => count(moved) },
    { id: "took", label: "Took", align: "end", title: "From when it began until all members had their partitions, as far as it is told", cell: (row) => html`<${Took} row=${row} />` },
  ];
  const rows = rebalances.map((each, index) => ({ ...each, key: `${each.protocol} ${each.number} ${each.kind} ${each.ended_at_ms ?? index}` }));
  const note = journal.has_notes ? "reasons by the records of __consumer_offsets and the broker's log" : "by the records of __consumer_offsets: reasons that clients give are not in them";
  return html`<${Panel} title="Rebalances" note=${note} flush>
    <${LocalTable} caption="What happened when" columns=${columns} rows=${rows} rowKey=${({ key }) => key} prefix="r_" pageSize=${20} rowClass=${(row) => (row.ended_at_ms === null ? "rebalance-open" : undefined)} />
  </${Panel}>`;
}

function When({ row }) {
  if (row.ended_at_ms === null) return html`<${Badge} kind="warn">Goes on</${Badge}>`;
  return html`<${RelativeTime} ms=${row.ended_at_ms} />`;
}

function Took({ row }) {
  if (row.ended_at_ms === null) return html`<span class="muted">not over</span>`;
  if (row.duration_ms !== null) return html`<span title=${`since ${timestamp(row.began_at_ms)}`}>${duration(row.duration_ms)}${row.is_overtaken && html` <span class="muted" title="The next one began before all members had reached it">overtaken</span>`}</span>`;
  if (row.assigning_ms !== null) return html`<span title="From when all had joined until the leader had assigned; how long members took to join is not in the log">≥ ${duration(row.assigning_ms)}</span>`;
  return html`<span class="muted" title="When it began is not in the log">${UNKNOWN}</span>`;
}

function Why({ row }) {
  const hosts = [...new Set([...row.joined, ...row.left].map(({ host }) => hostText(host)).filter(Boolean))];
  return html`<span title=${hosts.length ? `From ${hosts.join(", ")}` : undefined}>${row.why.join(" ")}</span>
    ${row.notes.length > 0 && html`<ul class="rebalance-notes">${row.notes.map((note, index) => html`<li key=${index}><span class="muted" title=${timestamp(note.at_ms)}>broker:</span> ${note.sentence}</li>`)}</ul>`}`;
}
