// The broker's log as it happens: by level, name and text; it can be paused, and an event opened.
import { html, useEffect, useMemo, useRef, useState } from "../../vendor/preact.js";
import { Badge } from "../components/badge.js";
import { Button } from "../components/button.js";
import { Empty, Loading } from "../components/empty.js";
import { SearchField, SelectField } from "../components/field.js";
import { Code, Facts, Panel } from "../components/panel.js";
import { Notice } from "../components/problems.js";
import { VirtualTable } from "../components/virtual_table.js";
import { count, plural, timestamp } from "../format.js";
import { useQuery } from "../router.js";

// As many as the console keeps.
const MAX_EVENTS = 2000;
const DRAW_MS = 150;
const RETRY_MS = 2000;
const LEVELS = ["debug", "info", "warning", "error", "critical"];
const KINDS = { warning: "warn", error: "bad", critical: "bad", info: "neutral", debug: "neutral" };

const COLUMNS = [
  { id: "at", label: "Time", width: "128px", cell: ({ event }) => html`<time class="mono" datetime=${new Date(event.at_ms).toISOString()} title=${timestamp(event.at_ms)}>${timestamp(event.at_ms).slice(11)}</time>` },
  { id: "level", label: "Level", width: "100px", cell: ({ event }) => html`<${Badge} kind=${KINDS[event.level]}>${event.level}</${Badge}>` },
  { id: "name", label: "Event", width: "200px", cell: ({ event }) => html`<span class=${event.name ? "mono" : "mono muted"}>${event.name ?? event.logger}</span>` },
  { id: "sentence", label: "Text", cell: ({ event }) => html`<span title=${event.sentence}>${event.sentence}</span>` },
];

export function BrokerLog() {
  const [state, setState] = useQuery({ level: "info", name: "", q: "", event: "" });
  const [isPaused, setPaused] = useState(false);
  const [isFollowing, setFollowing] = useState(true);
  const { events, waiting, missed, problem, hasBegun } = useLog(isPaused);
  const shown = useMemo(() => filtered(events, state), [events, state.level, state.name, state.q]);
  const names = useMemo(() => [...new Set(events.map(({ event }) => event.name).filter(Boolean))].sort(), [events]);
  const filter = (changes) => setState(changes, { replace: true });
  const selected = state.event ? events.find(({ id }) => id === state.event) : undefined;
  return html`<div class="table-block">
    <div class="toolbar">
      <${SearchField} label="Find in the log" value=${state.q} onSearch=${(q) => filter({ q })} />
      <${SelectField} label="Level" isLabelHidden value=${state.level} options=${LEVELS.slice(0, 4).map((each) => [each, each === "debug" ? "Everything" : `${each[0].toUpperCase()}${each.slice(1)} and worse`])} onChange=${(level) => filter({ level })} />
      <${SelectField} label="Event" isLabelHidden value=${state.name} options=${[["", "All events"], ...withChosen(names, state.name).map((each) => [each, each])]} onChange=${(name) => filter({ name })} />
      <div class="toolbar-end">
        ${!isFollowing && html`<${Button} icon="down" onClick=${() => setFollowing(true)}>Newest</${Button}>`}
        <${Button} icon=${isPaused ? "play" : "pause"} aria-pressed=${isPaused ? "true" : "false"} onClick=${() => setPaused(!isPaused)}>${isPaused ? `Go on${waiting ? ` (${count(waiting)} new)` : ""}` : "Pause"}</${Button}>
      </div>
    </div>
    ${problem && html`<${Notice} kind="warn">${problem} The console tries again.</${Notice}>`}
    ${missed > 0 && html`<${Notice} kind="warn">${plural(missed, "event")} came faster than they could be read, and ${missed === 1 ? "is" : "are"} not here. The broker's own log has them.</${Notice}>`}
    ${!hasBegun && !problem
      ? html`<${Loading} lines=${8} />`
      : html`<div class="broker-log"><${VirtualTable} caption="Events" columns=${COLUMNS} rows=${shown} rowKey=${({ id }) => id} selected=${state.event} rowClass=${({ event }) => `broker-event-${KINDS[event.level] ?? "neutral"}`}
          onSelect=${({ id }) => filter({ event: id === state.event ? "" : id })} isFollowing=${isFollowing && !isPaused} onFollow=${setFollowing}
          empty=${html`<${Empty} icon="search" title=${events.length ? "No event fits" : "Nothing happened yet"}>${events.length ? "Change the search or the filters." : "Events show here as the broker logs them."}</${Empty}>`} /></div>
        <p class="muted" role="status">${shown.length === events.length ? plural(events.length, "event") : `${count(shown.length)} of ${plural(events.length, "event")}`}${events.length >= MAX_EVENTS ? ", the newest" : ""}</p>`}
    ${selected && html`<${Detail} event=${selected.event} />`}
  </div>`;
}

const withChosen = (names, chosen) => (!chosen || names.includes(chosen) ? names : [chosen, ...names]);

function Detail({ event }) {
  const fields = Object.entries(event.fields).map(([name, value]) => [name, html`<span class="mono broker-value">${String(value)}</span>`]);
  return html`<${Panel} title=${event.name ?? "Event"} note=${timestamp(event.at_ms)}>
    <div class="stack"><p class="broker-value">${event.sentence}</p>
      <${Facts} facts=${[["Level", event.level], ["Logger", html`<span class="mono">${event.logger}</span>`], ...fields]} />
      ${event.trace && html`<${Code}>${event.trace}</${Code}>`}
    </div>
  </${Panel}>`;
}

function filtered(events, { level, name, q }) {
  const least = LEVELS.indexOf(level);
  const wanted = q.toLowerCase();
  return events.filter(
    ({ event, text }) => LEVELS.indexOf(event.level) >= least && (!name || event.name === name) && (!wanted || text.includes(wanted)),
  );
}

// The stream of the log. What comes is drawn some times a second, or when it goes on after a pause.
function useLog(isPaused) {
  const [state, setState] = useState({ events: [], waiting: 0, missed: 0, problem: null, hasBegun: false });
  const log = useRef({ known: new Set(), events: [], missed: 0, problem: null, hasBegun: false, isPaused, drawn: 0 }).current;
  log.isPaused = isPaused;
  const draw = () => {
    if (log.isPaused) {
      setState((last) => ({ ...last, waiting: log.known.size - log.drawn, problem: log.problem }));
      return;
    }
    log.drawn = log.known.size;
    setState({ events: log.events.slice(), waiting: 0, missed: log.missed, problem: log.problem, hasBegun: log.hasBegun });
  };
  useEffect(() => {
    if (!isPaused) draw();
  }, [isPaused]);
  useEffect(() => {
    let source = null;
    let retry = 0;
    let isDue = false;
    const soon = () => {
      if (!isDue) setTimeout(() => ((isDue = false), draw()), DRAW_MS);
      isDue = true;
    };
    const take = ({ id, event }) => {
      if (log.known.has(id)) return;
      log.known.add(id);
      log.events.push({ id, event, text: `${event.name ?? ""} ${event.sentence} ${event.logger}`.toLowerCase() });
      if (log.events.length > MAX_EVENTS) log.events.shift();
      soon();
    };
    const connect = () => {
      source = new EventSource("/api/broker/events");
      source.addEventListener("event", ({ data }) => take(JSON.parse(data)));
      source.addEventListener("state", ({ data }) => {
        const { problem, missed_count: missed } = JSON.parse(data);
        log.problem = problem;
        log.missed += missed;
        log.hasBegun = true;
        soon();
      });
      source.addEventListener("failed", ({ data }) => ((log.problem = JSON.parse(data).error), soon()));
      source.onerror = () => {
        source.close();
        retry = setTimeout(connect, RETRY_MS);
      };
    };
    connect();
    return () => {
      clearTimeout(retry);
      source.close();
    };
  }, []);
  return state;
}
