// Asks before letters are replayed or dropped: how many, and where they go.
import { html, useEffect, useState } from "../../vendor/preact.js";
import { change } from "../api.js";
import { Button } from "../components/button.js";
import { Dialog } from "../components/dialog.js";
import { Loading } from "../components/empty.js";
import { SelectField, TextField } from "../components/field.js";
import { Notice, Problem } from "../components/problems.js";
import { Table } from "../components/table.js";
import { toast } from "../components/toast.js";
import { count, plural } from "../format.js";

const TARGETS = [
  ["source", "Their original topic: every group that listens there reads them again"],
  ["group", "Their group alone, by its first retry topic"],
  ["topic", "Another topic"],
];
const TYPING_MS = 350;

const MOVED = [
  { id: "partition", label: "Partition", cell: ({ partition }) => String(partition) },
  { id: "to", label: "To", isWrapped: true, cell: ({ to }) => to },
  { id: "count", label: "Letters", align: "end", cell: ({ count: number }) => count(number) },
];
const DROPPED = MOVED.filter(({ id }) => id !== "to");
const SHOWN_ROWS = 20;

// `chosen` is what the API takes: places, or error, source, partitions and times. `what` says it in words.
export function LetterChangeDialog({ action, topic, chosen, what, onClose, onBegun }) {
  const [to, setTo] = useState("source");
  const [toTopic, setToTopic] = useState("");
  const [plan, setPlan] = useState(null);
  const [problem, setProblem] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const isReplay = action === "replay";
  const body = isReplay ? { topic, chosen, to, to_topic: to === "topic" ? toTopic.trim() : "" } : { topic, chosen };
  const isAsked = !(isReplay && to === "topic" && !toTopic.trim());

  useEffect(() => {
    setPlan(null);
    setProblem(null);
    if (!isAsked) return undefined;
    let isOpen = true;
    const ask = () =>
      change("POST", `/api/dead-letters/${action}`, { ...body, preview: true }).then(
        (found) => isOpen && setPlan(found.plan),
        (error) => isOpen && setProblem(error),
      );
    const timer = setTimeout(ask, to === "topic" ? TYPING_MS : 0);
    return () => ((isOpen = false), clearTimeout(timer));
  }, [to, toTopic]);

  const run = async () => {
    if (!plan?.total || isBusy) return;
    setBusy(true);
    setProblem(null);
    try {
      const { change: begun } = await change("POST", `/api/dead-letters/${action}`, { ...body, preview: false, end_offsets: plan.end_offsets, total: plan.total });
      onClose();
      if (begun.state === "done") toast(`${plural(begun.moved_count, "letter")} ${isReplay ? "replayed" : "dropped"}`);
      onBegun?.(begun);
    } catch (error) {
      setProblem(error);
      setBusy(false);
    }
  };

  const label = isReplay ? "Replay" : "Drop";
  const actions = html`<${Button} onClick=${onClose}>Cancel</${Button}>
    <${Button} type="submit" kind=${isReplay ? "primary" : "danger"} disabled=${!plan?.total} isBusy=${isBusy}>${plan?.total ? `${label} ${plural(plan.total, "letter")}` : label}</${Button}>`;
  return html`<${Dialog} title=${`${label} ${what}`} onClose=${onClose} actions=${actions} onSubmit=${run}>
    ${isReplay && html`<${SelectField} label="Send them to" value=${to} onChange=${setTo} options=${TARGETS} />`}
    ${isReplay && to === "topic" && html`<${TextField} label="Topic" hint="It has to exist. Keys decide on the partition." value=${toTopic} onInput=${setToTopic} autocomplete="off" spellcheck=${false} />`}
    <${Problem} problem=${problem} />
    ${isAsked && !plan && !problem && html`<${Loading} lines=${2} label="Counting the letters" />`}
    ${plan && html`<${Plan} plan=${plan} />`}
  </${Dialog}>`;
}

function Plan({ plan }) {
  if (!plan.total) return html`<${Notice}>No open letter fits: those that were replayed or dropped are done.</${Notice}>`;
  const isReplay = plan.action === "replay";
  return html`<${Table} caption="What would happen" columns=${isReplay ? MOVED : DROPPED} rows=${plan.moved.slice(0, SHOWN_ROWS)} rowKey=${({ partition, to }) => `${partition} ${to}`} />
    ${plan.moved.length > SHOWN_ROWS && html`<p class="muted">And ${plural(plan.moved.length - SHOWN_ROWS, "more partition")}.</p>`}
    <p class="muted">${isReplay
      ? "Each letter is sent exactly once, in transactions that note it as done, even if the console is stopped in between. It has a new timestamp and no headers of its failure. Letters that come after this look are left alone."
      : "Each letter is noted as done and is listed no more. Records at the start of a partition are deleted. This cannot be undone. Letters that come after this look are left alone."}</p>`;
}
