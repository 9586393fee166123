// What a transactional id did: its transactions on one line of time, from the changes in `__transaction_state`.
import { html } from "../../vendor/preact.js";
import { useNow } from "../components/time.js";
import { clock, duration, plural, timestamp } from "../format.js";

export const MAX_SHOWN = 60;

// The transactions in changes (the newest first): [{ key, startMs, endMs, outcome: committed | aborted | timed-out | open, epoch, partitionCount }].
export function episodesOf(changes) {
  const found = [];
  let current = null;
  for (const change of [...changes].reverse()) {
    const { state } = change;
    if (state === "Ongoing" || state.startsWith("Prepare")) {
      if (change.started_at_ms === null) continue;
      if (current === null || current.startMs !== change.started_at_ms) {
        current = { key: `${change.offset}`, startMs: change.started_at_ms, endMs: null, outcome: "open", epoch: change.producer_epoch, partitionCount: 0, timeoutMs: change.timeout_ms };
        found.push(current);
      }
      current.partitionCount = Math.max(current.partitionCount, change.partitions.length);
    } else if (state.startsWith("Complete") && current !== null && current.endMs === null) {
      current.endMs = change.at_ms;
      const isOver = current.timeoutMs !== null && current.endMs - current.startMs >= current.timeoutMs;
      current.outcome = state === "CompleteCommit" ? "committed" : isOver ? "timed-out" : "aborted";
      current = null;
    } else current = null;
  }
  return found;
}

const OUTCOMES = [["committed", "committed"], ["aborted", "aborted"], ["timed-out", "timed out"], ["open", "open"]];

// `startedMs` and `timeoutMs` of the transaction that is open now, or null.
export function Timeline({ episodes, startedMs, timeoutMs }) {
  const now = useNow();
  const shown = episodes.slice(-MAX_SHOWN).filter(({ outcome, startMs }) => outcome !== "open" || startMs === startedMs);
  if (startedMs !== null && !shown.some(({ startMs }) => startMs === startedMs)) shown.push({ key: "open", startMs: startedMs, endMs: null, outcome: "open" });
  if (shown.length === 0) return null;
  const isOpen = startedMs !== null;
  const timeoutAt = isOpen && timeoutMs ? startedMs + timeoutMs : null;
  const from = shown[0].startMs;
  const lastEnd = Math.max(...shown.map(({ startMs, endMs }) => endMs ?? startMs));
  const to = Math.max(isOpen ? Math.max(now, timeoutAt ?? 0) : lastEnd, from + 1);
  const place = (ms) => Math.min(1, Math.max(0, (ms - from) / (to - from)));
  const counts = OUTCOMES.map(([outcome, name]) => [outcome, name, shown.filter((each) => each.outcome === outcome).length]).filter(([, , number]) => number);
  return html`<figure class="timeline">
    <figcaption class="timeline-head"><span>${plural(shown.length, "transaction")}, from ${timestamp(from).slice(0, 19)}</span>
      <ul class="legend">${counts.map(([outcome, name, number]) => html`<li key=${outcome}><span class=${`timeline-key timeline-${outcome}`} aria-hidden="true"></span>${name} <b>${number}</b></li>`)}</ul>
    </figcaption>
    <div class="timeline-track" role="img" aria-label=${`${counts.map(([, name, number]) => `${number} ${name}`).join(", ")} between ${clock(from)} and ${clock(to)}`}>
      ${shown.map((each) => html`<span key=${each.key} class=${`timeline-bar timeline-${each.outcome}`} style=${{ "--begin": place(each.startMs), "--end": place(each.endMs ?? now) }} title=${title(each, now)}></span>`)}
      ${isOpen && html`<span class="timeline-now" style=${{ "--at": place(now) }}></span>`}
    </div>
    <div class="timeline-axis"><span>${clock(from)}</span>
      ${isOpen && timeoutAt > now && html`<span class="timeline-now-label" style=${{ "--at": place(now) }}>now</span>`}
      <span>${timeoutAt !== null ? (timeoutAt > now ? `timeout ${clock(timeoutAt)}` : `now, timeout was ${clock(timeoutAt)}`) : clock(to)}</span></div>
  </figure>`;
}

const title = ({ startMs, endMs, outcome }, now) => `${clock(startMs)}, ${outcome === "open" ? `open for ${duration(now - startMs)}` : `${outcome.replace("-", " ")} after ${duration(endMs - startMs)}`}`;
