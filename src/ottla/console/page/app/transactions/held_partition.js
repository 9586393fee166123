// A partition of an open transaction as a picture: what its readers see, what is held back, by whom, and who waits.
import { html } from "../../vendor/preact.js";
import { OffsetBar } from "../components/offset_bar.js";
import { bytes, count, plural } from "../format.js";
import { address } from "../router.js";

const MAX_NAMES = 6;

export const partitionName = ({ topic, partition }) => `${topic}-${partition}`;

export const partitionAddress = ({ topic, partition }) => address(["producers"], { topic, partition });

export function GroupLinks({ groups, none = "none known" }) {
  if (groups.length === 0) return html`<span class="muted">${none}</span>`;
  return html`<span class="names">${groups.slice(0, MAX_NAMES).map((name) => html`<a key=${name} href=${address(["groups", name])}>${name}</a>`)}${groups.length > MAX_NAMES && html`<span class="muted">and ${count(groups.length - MAX_NAMES)} more</span>`}</span>`;
}

export const TopicLinks = ({ topics, total }) =>
  html`<span class="names">${topics.map((name) => html`<a key=${name} href=${address(["topics", name])}>${name}</a>`)}${total > topics.length && html`<span class="muted">and more</span>`}</span>`;

// `mine` is the producer id of the transaction that is looked at: its own lane has no link.
export function HeldPartition({ held, mine }) {
  const groups = held.groups.map(({ group_id: name, committed_offset: offset }) => ({ name, offset }));
  const waiting = held.groups.filter(({ position }) => position === "waiting").map(({ group_id: name }) => name);
  return html`<article class="held">
    <header class="held-head">
      <h3><a href=${partitionAddress(held)}>${partitionName(held)}</a></h3>
      <span class="muted">${sentence(held)}</span>
    </header>
    <${OffsetBar} start=${held.log_start_offset} stable=${held.last_stable_offset} end=${held.end_offset} groups=${groups} transactions=${held.open_there.map((each) => laneOf(each, mine))} />
    ${held.unseen_count > 0 &&
    html`<p class="held-note">${waiting.length > 0 ? html`Waiting: <${GroupLinks} groups=${waiting} />` : html`<span class="muted">No group is known to wait here: readers without a group do not show.</span>`}</p>`}
  </article>`;
}

function laneOf(each, mine) {
  const isMine = each.producer_id === mine;
  const label = each.transactional_id ?? `producer ${each.producer_id}`;
  return {
    key: `${each.producer_id} ${each.start_offset}`,
    start: each.start_offset,
    kind: each.is_hanging ? "hanging" : "open",
    label,
    href: isMine || each.transactional_id === null ? undefined : address(["transactions", each.transactional_id]),
    title: `${label}, producer id ${each.producer_id}, epoch ${each.producer_epoch}`,
  };
}

function sentence(held) {
  if (held.start_offset === null) return "nothing written here yet";
  if (!held.unseen_count) return "all that was written before can be read";
  const size = held.unseen_bytes === null ? "" : `, about ${bytes(held.unseen_bytes)}`;
  const behind = `${plural(held.unseen_count, "offset")} behind the last stable one${size}`;
  if (!held.is_held) return `${behind}; another transaction holds it`;
  if (held.freed_count === held.unseen_count) return behind;
  return `${behind}; ${count(held.freed_count)} can be read when this one ends`;
}
