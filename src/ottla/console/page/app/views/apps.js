// Apps: groups with retry and dead-letter topics, and how far records are on the way through them.
import { html } from "../../vendor/preact.js";
import { errorName, GroupState, Hops } from "../apps/hops.js";
import { useAnswer } from "../api.js";
import { Empty, Loading } from "../components/empty.js";
import { SelectField } from "../components/field.js";
import { Stat, Stats } from "../components/panel.js";
import { ServerTable } from "../components/table.js";
import { RelativeTime } from "../components/time.js";
import { View } from "../components/view.js";
import { Changes } from "../apps/changes.js";
import { count, plural, UNKNOWN } from "../format.js";
import { address } from "../router.js";

const LEAD = "A record that a listener fails to handle waits in a retry topic for its next attempt. After the last one it is a dead letter, until it is replayed or dropped.";

const STATES = [["all", "All apps"], ["letters", "With dead letters"], ["waiting", "With waiting retries"], ["stopped", "Not running"]];

const groupCell = ({ group, group_state: state, listeners, naming }) => html`
  ${group ? html`<a href=${address(["groups", group])}>${group}</a>` : html`<span class="muted">unknown group</span>`}
  <div class="cell-note">${state && html`<${GroupState} state=${state} /> `}${listeners.length > 0 && `listener ${listeners.join(", ")}`}${naming === "others" && " named as Spring Kafka does"}</div>`;

const errorsCell = ({ dead_letter_topics: topics, open_count: open }) => {
  const errors = topics.flatMap(({ topic, counts }) => (counts?.errors ?? []).map((each) => ({ ...each, topic }))).slice(0, 3);
  if (!errors.length) return html`<span class="muted">${open === 0 ? "none" : UNKNOWN}</span>`;
  return html`<ul class="error-counts">${errors.map(({ topic, error, count: number }) => html`<li key=${topic + error}>
    <a href=${address(["apps", "dead-letters", topic], { error })} title=${error ?? undefined}>${errorName(error)}</a> <span class="muted">${count(number)}</span></li>`)}</ul>`;
};

const COLUMNS = [
  { id: "group", label: "App", title: "The consumer group of the listener", isSortable: true, cell: groupCell },
  { id: "open", label: "Way of a record", title: "From its source through the retry topics to the dead letters; sorted by open letters", isSortable: true, firstOrder: "desc", isWrapped: true, cell: (row) => html`<${Hops} app=${row} />` },
  { id: "errors", label: "Open letters by error", cell: errorsCell },
  { id: "newest", label: "Newest letter", isSortable: true, firstOrder: "desc", cell: ({ newest_ms: ms }) => html`<${RelativeTime} ms=${ms} />` },
];

export default function Apps() {
  const { answer } = useAnswer("/api/apps", { limit: 1 }, { live: true });
  return html`<${View} title="Apps and dead letters" lead=${LEAD}>
    ${answer ? html`<${Totals} totals=${answer.totals} />` : html`<${Loading} lines=${2} />`}
    <${Changes} />
    <${ServerTable} path="/api/apps" caption="Apps with retry and dead-letter topics" columns=${COLUMNS} rowKey=${({ group, source }) => `${group} ${source}`}
      sort="open" order="desc" search="Find a group, a listener or a topic"
      filters=${{ defaults: { state: "all" }, draw: ({ state }, set) => html`<${SelectField} label="Which apps" isLabelHidden value=${state} onChange=${(value) => set({ state: value })} options=${STATES} />` }}
      empty=${html`<${Empty} icon="apps" title="No app has retry or dead-letter topics">
        They are created when a listener starts that has retries or dead letters, and are found by their names: <code>orders.billing.retry.1</code>, <code>orders.billing.dlt</code>, and Spring Kafka's <code>orders-retry-0</code>, <code>orders-dlt</code>.</${Empty}>`} />
  </${View}>`;
}

function Totals({ totals }) {
  const more = totals.is_whole ? "" : "+";
  const [first] = totals.errors;
  return html`<${Stats}>
    <${Stat} label="Apps" value=${count(totals.app_count)} note=${totals.stopped_count ? `${plural(totals.stopped_count, "group")} without a member` : "group and source topic"} />
    <${Stat} label="Open dead letters" value=${count(totals.open_count) + more} kind=${totals.open_count ? "warn" : undefined} note=${totals.open_count ? html`the oldest <${RelativeTime} ms=${totals.oldest_ms} />` : "none to look at"} />
    <${Stat} label="Waiting for a retry" value=${count(totals.waiting)} note="counted by offsets" />
    <${Stat} label="Most frequent error" value=${first ? html`<span class="stat-text">${errorName(first.error)}</span>` : UNKNOWN} note=${first ? plural(first.count, "open letter") : "no open letters"} />
  </${Stats}>`;
}
