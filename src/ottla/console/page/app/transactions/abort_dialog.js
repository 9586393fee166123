// Aborting a transaction: what exactly will happen is read from the cluster first, and is what the user confirms.
import { html } from "../../vendor/preact.js";
import { change } from "../api.js";
import { Confirm } from "../components/dialog.js";
import { Notice } from "../components/problems.js";
import { Facts } from "../components/panel.js";
import { toast } from "../components/toast.js";
import { bytes, count, plural } from "../format.js";
import { GroupLinks, partitionName } from "./held_partition.js";

// `transactionalId`, or `hanging` with topic, partition and start_offset of a transaction that no coordinator knows.
export function AbortDialog({ transactionalId, hanging, onClose, onDone }) {
  const [path, which] = hanging
    ? ["/api/transactions/hanging/abort", { topic: hanging.topic, partition: hanging.partition, start_offset: hanging.start_offset }]
    : ["/api/transaction/abort", { transactional_id: transactionalId }];
  const abort = ({ plan }) => {
    const seen = { producer_id: plan.producer_id, producer_epoch: plan.producer_epoch };
    if (!hanging) seen.started_at_ms = plan.started_at_ms;
    return change("POST", path, { ...which, ...seen, preview: false });
  };
  const done = (answer) => {
    toast(capitalised(answer.done));
    onDone?.();
  };
  return html`<${Confirm} title=${hanging ? `Abort the transaction on ${partitionName(hanging)}` : `Abort the transaction of ${transactionalId}`} action="Abort the transaction" isDanger
    preview=${() => change("POST", path, { ...which, preview: true })} show=${({ plan }) => html`<${Plan} plan=${plan} />`} act=${abort} onDone=${done} onClose=${onClose} />`;
}

function Plan({ plan }) {
  const { lost } = plan;
  const records = plural(lost.record_count, "record");
  return html`<${Notice} kind="warn">${plan.way === "fence" ? "The producer is fenced: it has to be started again." : "One abort marker is written to one partition. No producer is fenced."}</${Notice}>
    <${Facts} facts=${[
      ["Producer", html`id <b>${plan.producer_id}</b>, epoch <b>${plan.producer_epoch}</b>`],
      ["Never seen", lost.is_whole ? html`<b>${records}</b>, ${bytes(lost.size_bytes)}` : lost.record_count ? html`<b>${records}</b> at least` : "not known: its records cannot be read"],
      ["Seen then", html`up to <b>${count(plan.freed_count)}</b> offsets that are held back now, without these records`],
      ["Groups that go on", html`<${GroupLinks} groups=${plan.groups} />`],
    ]} />
    <div class="stack"><h3>What will happen</h3>
      <ol class="steps">${plan.steps.map((step) => html`<li key=${step}>${step}</li>`)}</ol>
    </div>`;
}

const capitalised = (text) => text.charAt(0).toUpperCase() + text.slice(1) + ".";
