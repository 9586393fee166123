// Transactions that hang (KIP-664): open on a partition, and no coordinator will ever end them.
import { html, useState } from "../../vendor/preact.js";
import { Badge } from "../components/badge.js";
import { Button } from "../components/button.js";
import { Problems } from "../components/problems.js";
import { Age, RelativeTime } from "../components/time.js";
import { count, plural } from "../format.js";
import { address } from "../router.js";
import { useAllows } from "../session.js";
import { AbortDialog } from "./abort_dialog.js";
import { HeldPartition } from "./held_partition.js";

// `page` is the answer of /api/transactions/hanging.
export function Hanging({ page, onDone }) {
  const [aborting, setAborting] = useState(null);
  const mayAbort = useAllows("operator");
  if (!page || (page.rows.length === 0 && page.problems.length === 0)) return null;
  return html`<section class="panel panel-bad" aria-labelledby="hanging-title">
    <header class="panel-head"><h2 id="hanging-title">${plural(page.rows.length, "transaction hangs", "transactions hang")}</h2>
      <span class="muted">open on a partition and unknown to every coordinator: no timeout and no producer will end ${page.rows.length === 1 ? "it" : "them"}</span></header>
    <div class="panel-body stack">
      <${Problems} problems=${page.problems} />
      ${page.left_out_count > 0 && html`<p class="muted">${count(page.left_out_count)} more partitions whose last stable offset stands were not asked.</p>`}
      ${page.rows.map((row) => html`<div class="hanging" key=${`${row.held.topic} ${row.held.partition} ${row.held.start_offset}`}>
        <div class="hanging-head">
          <${Badge} kind="bad">hangs</${Badge}>
          <span>Producer <a href=${address(["producers"], { producer: row.producer_id })}>${row.producer_id}</a>, epoch ${row.producer_epoch}</span>
          ${row.last_written_at_ms !== null && html`<span class="muted">wrote last <${RelativeTime} ms=${row.last_written_at_ms} /></span>`}
          ${row.standing_since_ms !== null && html`<span class="muted">seen for <${Age} sinceMs=${row.standing_since_ms} /></span>`}
          ${mayAbort && html`<span class="hanging-action"><${Button} onClick=${() => setAborting(row.held)}>Abort on ${row.held.topic}-${row.held.partition}</${Button}></span>`}
        </div>
        <${HeldPartition} held=${row.held} />
        <p class="muted">${row.transactional_id === null
          ? "No transactional id has this producer id now: its coordinator has forgotten it, or never had it."
          : html`<a href=${address(["transactions", row.transactional_id])}>${row.transactional_id}</a> has this producer id, but its coordinator has no transaction on this partition.`}
          ${" "}This is left behind by clients and brokers from before KIP-890, when a write comes after the end of its transaction.</p>
      </div>`)}
    </div>
    ${aborting && html`<${AbortDialog} hanging=${aborting} onClose=${() => setAborting(null)} onDone=${onDone} />`}
  </section>`;
}
