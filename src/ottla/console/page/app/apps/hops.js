// The way of a record through an app: its source topic, the retry topics in their order, the dead letters.
import { html } from "../../vendor/preact.js";
import { Badge } from "../components/badge.js";
import { Icon } from "../components/icons.js";
import { RelativeTime } from "../components/time.js";
import { count, plural, UNKNOWN } from "../format.js";
import { address } from "../router.js";

export const lettersAddress = (topic, query) => address(["apps", "dead-letters", topic], query);
export const letterAddress = (topic, partition, offset) => address(["apps", "dead-letters", topic, partition, offset]);

// The class of an exception without its package: `java.lang.IllegalStateException`, `shop.mailer.MailboxFullError`.
export const errorName = (error) => (error === null || error === undefined ? "no error told" : error.split(/[.$]/).filter(Boolean).at(-1) ?? error);

const STATES = { stable: "good", empty: "warn", dead: "bad" };

export const GroupState = ({ state }) => html`<${Badge} kind=${STATES[state.toLowerCase()] ?? "info"}>${state}</${Badge}>`;

export function Hops({ app }) {
  return html`<ol class="hops">
    <li class="hop">
      <span class="hop-name">${app.source ? html`<a href=${address(["topics", app.source])}>${app.source}</a>` : html`<span class="muted">source unknown</span>`}</span>
      <span class="hop-note">${app.lag === null ? "lag unknown" : app.lag ? `${count(app.lag)} behind` : "keeps up"}</span>
    </li>
    ${app.retry_topics.map((retry, index) => html`<${Retry} key=${retry.topic} retry=${retry} index=${index} />`)}
    ${app.dead_letter_topics.map((dead) => html`<${DeadLetters} key=${dead.topic} dead=${dead} />`)}
  </ol>`;
}

const Arrow = () => html`<${Icon} name="next" />`;

function Retry({ retry, index }) {
  const { topic, waiting, due_ms: due } = retry;
  return html`<li class=${waiting ? "hop hop-waiting" : "hop"}><${Arrow} />
    <span class="hop-name"><a href=${address(["topics", topic])} title=${topic}>retry ${index + 1}</a></span>
    <span class="hop-note">${waiting === null ? "no reader" : waiting ? html`${count(waiting)} waiting${due !== null && html`, due <${RelativeTime} ms=${due} />`}` : "none waiting"}</span>
  </li>`;
}

function DeadLetters({ dead }) {
  const { topic, counts, record_count: records } = dead;
  const open = counts ? `${count(counts.open)}${counts.is_whole ? "" : "+"} open` : records ? `${count(records)} offsets` : records === 0 ? "none" : UNKNOWN;
  const done = counts && counts.counted - counts.open;
  return html`<li class=${counts?.open ? "hop hop-letters" : "hop"}><${Arrow} />
    <span class="hop-name"><a href=${lettersAddress(topic)} title=${topic}>dead letters</a></span>
    <span class="hop-note">${open}${done ? `, ${count(done)} done` : ""}${dead.reading_groups.length ? ` · read by ${plural(dead.reading_groups.length, "group")}` : ""}</span>
  </li>`;
}
