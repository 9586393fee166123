// One dead letter: where it comes from, how it failed, what it holds; replaying and dropping it.
import { html, useState } from "../../vendor/preact.js";
import { errorName, lettersAddress } from "../apps/hops.js";
import { ShownInLine, ShownWhole } from "../apps/shown_bytes.js";
import { Changes } from "../apps/changes.js";
import { LetterChangeDialog } from "../apps/change_dialog.js";
import { useAnswer } from "../api.js";
import { Badge } from "../components/badge.js";
import { Button } from "../components/button.js";
import { CopyButton } from "../components/copy.js";
import { Loading } from "../components/empty.js";
import { Code, Facts, Panel } from "../components/panel.js";
import { Notice, Problem } from "../components/problems.js";
import { Table } from "../components/table.js";
import { RelativeTime } from "../components/time.js";
import { View } from "../components/view.js";
import { count, plural, timestamp } from "../format.js";
import { address } from "../router.js";
import { useAllows } from "../session.js";
import { originalAddress } from "./letters.js";

export default function Letter({ topic, partition, offset }) {
  const { answer: letter, problem, reload } = useAnswer("/api/dead-letter", { topic, partition, offset });
  const [action, setAction] = useState(null);
  const mayChange = useAllows("operator");
  const actions = mayChange && letter && !letter.is_done && html`<${Button} kind="primary" icon="refresh" onClick=${() => setAction("replay")}>Replay</${Button}>
    <${Button} icon="trash" onClick=${() => setAction("drop")}>Drop</${Button}>`;
  return html`<${View} title=${`Letter ${partition} / ${offset}`} crumbs=${[["Apps and dead letters", "/apps"], [topic, lettersAddress(topic)]]}
      badges=${letter && html`<${Badge} kind=${letter.is_done ? "good" : "warn"}>${letter.is_done ? "done" : "open"}</${Badge}>`} actions=${actions}>
    <${Problem} problem=${problem} onRetry=${reload} />
    ${!letter && !problem && html`<${Loading} lines=${8} />`}
    <${Changes} topic=${topic} onEnd=${reload} />
    ${letter && html`<${Detail} letter=${letter} />`}
    ${action && html`<${LetterChangeDialog} action=${action} topic=${topic} what="this letter" chosen=${{ places: [{ partition: Number(partition), offset: Number(offset) }] }} onClose=${() => setAction(null)} onBegun=${reload} />`}
  </${View}>`;
}

const HEADERS = [
  { id: "name", label: "Name", isMono: true, cell: ({ name }) => html`<bdi>${name}</bdi>` },
  { id: "value", label: "Value", isWrapped: true, cell: ({ value }) => html`<${ShownInLine} shown=${value} />` },
];

function Detail({ letter }) {
  const { history } = letter;
  return html`
    ${history ? html`<${Failure} letter=${letter} history=${history} />` : html`<${Notice} kind="warn"><p>No headers of this record tell where it came from and how it failed. It can be looked at and dropped; only letters with a history can be replayed.</p></${Notice}>`}
    <div class="columns">
      <${Panel} title="Value"><${ShownWhole} label="value" shown=${letter.value} /></${Panel}>
      <div class="stack letter-side">
        <${Panel} title="Key"><${ShownWhole} label="key" shown=${letter.key} /></${Panel}>
        <${Panel} title="Headers" note=${letter.header_count > letter.headers.length ? `the first ${count(letter.headers.length)} of ${count(letter.header_count)}` : "without those of its failure"} flush>
          <${Table} caption="Headers of the record" columns=${HEADERS} rows=${letter.headers} rowKey=${(row, index) => index} empty=${html`<p class="muted letter-none">No headers of its own.</p>`} />
        </${Panel}>
      </div>
    </div>`;
}

function Failure({ letter, history }) {
  const steps = [
    ["Read first", history.source_timestamp_ms, html`as <a href=${originalAddress(history)}>${history.source_topic} partition ${history.source_partition}, offset ${history.source_offset}</a>`],
    ["Failed first", history.first_failed_ms, history.listener && `in the listener ${history.listener}`],
    ["Failed last", history.last_failed_ms, history.attempts > 1 && `after ${plural(history.attempts, "attempt")}`],
    history.due_ms === null ? ["Given up", letter.timestamp_ms, "became a dead letter"] : ["Next attempt", history.due_ms, "waits until then"],
  ].filter(([, ms]) => ms !== null);
  const facts = [
    ["Original record", html`<a href=${originalAddress(history)}>${history.source_topic} / ${history.source_partition} / ${history.source_offset}</a>`],
    ["Group", history.group && html`<a href=${address(["groups", history.group])}>${history.group}</a>`],
    ["Listener", history.listener],
    ["Attempts", count(history.attempts)],
    ["Letter written", timestamp(letter.timestamp_ms)],
  ];
  return html`<${Panel} title=${errorName(history.error)} note=${history.error}>
    <div class="stack">
      ${history.message && html`<p class="letter-quote"><bdi>${history.message}</bdi></p>`}
      ${history.cause && html`<p class="muted">Caused by <code>${history.cause}</code></p>`}
      <div class="columns"><${Facts} facts=${facts} />
        <ol class="letter-steps" aria-label="Its history">${steps.map(([label, ms, note]) => html`<li key=${label}><b>${label}</b> <${RelativeTime} ms=${ms} /><div class="cell-note">${timestamp(ms)}${note && html` · ${note}`}</div></li>`)}</ol></div>
      ${history.traceback && html`<details class="letter-trace" open><summary>Stack trace</summary><div class="row letter-copy"><${CopyButton} label="Copy the stack trace" text=${history.traceback} /></div><${Code} label="Stack trace">${history.traceback}</${Code}></details>`}
    </div>
  </${Panel}>`;
}
