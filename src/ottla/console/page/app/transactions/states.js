// The states of transactions in words: as badges, and as sentences that say what happens next.
import { html } from "../../vendor/preact.js";
import { Badge } from "../components/badge.js";
import { useNow } from "../components/time.js";
import { duration, timestamp, UNKNOWN } from "../format.js";

const STATES = {
  Ongoing: ["info", "open", "The producer has begun it, and has not decided how it ends."],
  PrepareCommit: ["info", "committing", "Its commit is decided: the coordinator is writing commit markers to its partitions."],
  PrepareAbort: ["warn", "aborting", "Its abort is decided: the coordinator is writing abort markers to its partitions."],
  PrepareEpochFence: ["warn", "fencing", "A new instance of the producer has come: the coordinator is fencing the old one."],
  CompleteCommit: ["good", "committed", "The last transaction was committed: all markers are written."],
  CompleteAbort: ["neutral", "aborted", "The last transaction was aborted: all markers are written."],
  Empty: ["neutral", "empty", "A producer has initialised this id, and has not begun a transaction since."],
  Dead: ["neutral", "expired", "The coordinator is forgetting this id, which was not used for long."],
  Deleted: ["neutral", "expired", "The coordinator has forgotten this id, which was not used for long."],
};

export const stateText = (state) => STATES[state]?.[2];

export function StateBadge({ state }) {
  const [kind, text, title] = STATES[state] ?? ["neutral", state];
  return html`<${Badge} kind=${kind} title=${title}>${text}</${Badge}>`;
}

export const OutcomeBadge = ({ outcome, hasTimedOut }) =>
  outcome === "committed"
    ? html`<${Badge} kind="good">committed</${Badge}>`
    : html`<${Badge} kind=${hasTimedOut ? "warn" : "neutral"} title=${hasTimedOut ? "The coordinator aborted it when its timeout was over" : undefined}>${hasTimedOut ? "timed out" : "aborted"}</${Badge}>`;

// Coordinators look for transactions that are over their timeout every ten seconds by default.
const GRACE_MS = 20_000;

export const isOverdue = (startedMs, timeoutMs, now) => startedMs !== null && timeoutMs !== null && now - startedMs > timeoutMs + GRACE_MS;

// How long a transaction is open as a bar that is full when its timeout is over.
export function AgeBar({ startedMs, timeoutMs }) {
  const now = useNow();
  if (startedMs === null || startedMs === undefined) return html`<span>${UNKNOWN}</span>`;
  const age = Math.max(0, now - startedMs);
  const text = html`<time datetime=${new Date(startedMs).toISOString()} title=${`since ${timestamp(startedMs)}`}>${duration(Math.floor(age / 1000) * 1000)}</time>`;
  if (!timeoutMs) return text;
  const share = age / timeoutMs;
  const kind = share >= 1 ? "bad" : share >= 0.7 ? "warn" : "good";
  return html`<div class="age-bar">
    <div class="age-text">${text}<span class="muted">${share > 1 ? `timeout ${duration(timeoutMs)} is over` : `of ${duration(timeoutMs)}`}</span></div>
    <div class="meter-bar" aria-hidden="true"><span class=${`meter-fill meter-${kind}`} style=${{ "--share": Math.min(1, share) }}></span></div>
  </div>`;
}
