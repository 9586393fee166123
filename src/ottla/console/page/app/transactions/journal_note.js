// Where the console sees transactions end, and what it may have missed.
import { html } from "../../vendor/preact.js";
import { Notice } from "../components/problems.js";
import { clock, count } from "../format.js";

export function JournalNote({ journal }) {
  if (!journal || journal.source === "none") return null;
  if (journal.source === "snapshots") {
    return html`<${Notice} kind="warn"><p>Transactions that are open for less than two looks at the cluster are missing here.</p><p class="muted">${journal.problem ?? "The log of the coordinators cannot be read"}: the console compares snapshots since ${clock(journal.since_ms)} instead.</p></${Notice}>`;
  }
  return html`<p class="muted">Followed in <code>__transaction_state</code> since ${clock(journal.since_ms)}${journal.skipped_count > 0 && `; ${count(journal.skipped_count)} records were skipped because there were too many`}.</p>`;
}
