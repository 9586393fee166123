// What pipelines do. Nothing tells whether a query's process lives: the state follows from what it left in the cluster.
import { html } from "../../vendor/preact.js";
import { Badge } from "../components/badge.js";
import { Icon } from "../components/icons.js";

const STATES = {
  writing: ["info", "writing", "Its transaction is open: a micro-batch is being written."],
  running: ["good", "running", "It has committed a micro-batch in the last two minutes."],
  waiting: ["good", "waiting", "It has read everything that its sources have."],
  fenced: ["warn", "taken over", "An instance has begun and fenced the one before; it has not written yet."],
  aborted: ["warn", "aborted", "Its last transaction was aborted, and none was committed since: Spark tries the micro-batch again."],
  stopped: ["bad", "stopped", "There is something to read, and it has committed nothing for two minutes."],
  unknown: ["neutral", "unknown", "What the cluster tells is not enough: its sources are no topics of this cluster, or its last commit is too old."],
};

export const STATE_NAMES = Object.entries(STATES).map(([state, [, name]]) => [state, name]);

export const stateSentence = (state) => STATES[state]?.[2];

export function PipelineBadge({ state }) {
  const [kind, text, title] = STATES[state] ?? ["neutral", state];
  return html`<${Badge} kind=${kind} title=${title}>${text}</${Badge}>`;
}

export const PipelineStates = () => html`<details class="explained"><summary><${Icon} name="info" />What the states mean</summary>
  <dl>${Object.keys(STATES).map((state) => html`<div key=${state}><dt><${PipelineBadge} state=${state} /></dt><dd>${stateSentence(state)}</dd></div>`)}</dl>
  <p class="muted">A query's process does not show in a cluster: the state follows from its transactions and offsets.</p>
</details>`;
