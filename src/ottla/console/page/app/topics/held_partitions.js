// Why last stable offsets stand: each partition that is held up as a picture, with the transactions that are open there.
import { html } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { Badge } from "../components/badge.js";
import { Loading } from "../components/empty.js";
import { OffsetBar } from "../components/offset_bar.js";
import { Panel } from "../components/panel.js";
import { Problem, Problems } from "../components/problems.js";
import { Age, RelativeTime } from "../components/time.js";
import { count, duration, plural, UNKNOWN } from "../format.js";
import { address } from "../router.js";

const SHOWN = 10;

export function HeldPartitions({ topic, path, heldCount }) {
  const { answer, problem, reload } = useAnswer(`${path}/partitions`, { show: "held", sort: "standing_since", limit: SHOWN }, { live: true });
  const note = answer && answer.total > SHOWN ? `the ${SHOWN} of ${count(answer.total)} partitions that have waited longest` : plural(heldCount, "partition");
  return html`<${Panel} title="Why the last stable offset stands" note=${note}>
    <${Problem} problem=${problem} onRetry=${reload} />
    <${Problems} problems=${answer?.problems} />
    ${!answer && !problem && html`<${Loading} lines=${4} />`}
    <ul class="topic-held">${answer?.rows.map((row) => html`<${HeldPartition} key=${row.partition} topic=${topic} row=${row} />`)}</ul>
  </${Panel}>`;
}

function HeldPartition({ topic, row }) {
  const { partition, last_stable_offset: stable, unstable_count: unseen, standing_since_ms: since, transactions, groups } = row;
  const waiting = groups.filter(({ position }) => position === "waiting");
  return html`<li class="topic-held-partition">
    <div class="topic-held-sentence">
      <h3>Partition ${partition}</h3>
      <p>The last stable offset stands at <b>${count(stable)}</b>${since && html` for <${Age} sinceMs=${since} />`}: readers of committed records do not see ${unseen === 1 ? html`the <b>one</b> offset` : html`the <b>${count(unseen)}</b> offsets`} behind it.${waiting.length > 0 && html` ${waiting.length === 1 ? "Group" : "Groups"} ${waiting.slice(0, 5).map(({ group_id: group }, index) => html`${index > 0 && ", "}<a href=${address(["groups", group])}>${group}</a>`)}${waiting.length > 5 && ` and ${waiting.length - 5} more`} ${waiting.length === 1 ? "waits" : "wait"} there.`}</p>
    </div>
    <${OffsetBar} start=${row.start_offset} stable=${stable} end=${row.end_offset} groups=${groups.map(({ group_id: name, committed_offset: offset }) => ({ name, offset }))}
      transactions=${transactions.map((each) => ({ key: `${each.producer_id}-${each.start_offset}`, start: each.start_offset, label: nameOf(each), href: hrefOf(each, topic, partition), kind: each.is_hanging ? "hanging" : "open" }))} />
    ${transactions.length === 0
      ? html`<p class="muted">Who holds it is asked for when it has stood for two seconds.</p>`
      : html`<div class="table-scroll" role="region" aria-label=${`Open transactions of partition ${partition}`} tabindex="0"><table class="table topic-held-table">
          <caption class="visually-hidden">Transactions that are open on partition ${partition}</caption>
          <thead><tr><th scope="col">Transaction</th><th scope="col" class="end">From</th><th scope="col">Open for</th><th scope="col">Ends by itself</th><th scope="col">Producer</th><th scope="col">Coordinator</th><th scope="col">Last wrote here</th></tr></thead>
          <tbody>${transactions.map((each) => html`<${Holder} key=${`${each.producer_id}-${each.start_offset}`} ...${{ each, topic, partition }} />`)}</tbody>
        </table></div>`}
    ${row.transaction_count > transactions.length && html`<p class="muted">and ${plural(row.transaction_count - transactions.length, "more transaction")} behind these</p>`}
  </li>`;
}

const nameOf = ({ transactional_id: name, producer_id: producer }) => name ?? `producer ${producer}`;

const hrefOf = ({ transactional_id: name }, topic, partition) => (name ? address(["transactions", name]) : address(["producers"], { topic, partition }));

function Holder({ each, topic, partition }) {
  const { is_hanging: isHanging, holds_last_stable_offset: holds, started_at_ms: started, timeout_ms: timeout } = each;
  const state = isHanging ? html`<${Badge} kind="bad" title="No coordinator knows it: it stays open until it is aborted">hangs</${Badge}>` : holds ? html`<${Badge} kind="warn">holds the offset</${Badge}>` : html`<${Badge}>behind it</${Badge}>`;
  return html`<tr>
    <th scope="row"><a href=${hrefOf(each, topic, partition)}>${nameOf(each)}</a> ${state}</th>
    <td class="end">${count(each.start_offset)}</td>
    <td>${started === null ? html`<span title="Only its coordinator knows">${UNKNOWN}</span>` : html`<${Age} sinceMs=${started} />`}</td>
    <td>${isHanging ? html`<a href=${address(["transactions"])}>never: abort it</a>` : timeout === null || started === null ? UNKNOWN : html`<span title=${`transaction.timeout.ms is ${duration(timeout)}`}><${RelativeTime} ms=${started + timeout} /></span>`}</td>
    <td><a href=${address(["producers"], { producer: each.producer_id })}>${each.producer_id}</a> <span class="muted">epoch ${each.producer_epoch}</span></td>
    <td>${each.coordinator_id === null ? html`<span class="muted">${isHanging ? "none knows it" : UNKNOWN}</span>` : `broker ${each.coordinator_id}`}</td>
    <td><${RelativeTime} ms=${each.last_timestamp_ms} /></td>
  </tr>`;
}
