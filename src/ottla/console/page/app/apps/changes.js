// Replays and drops that run, with their progress as it is told, and the last ones.
import { html, useState } from "../../vendor/preact.js";
import { change, useAnswer } from "../api.js";
import { Badge } from "../components/badge.js";
import { Button } from "../components/button.js";
import { Problem } from "../components/problems.js";
import { RelativeTime } from "../components/time.js";
import { count, plural } from "../format.js";
import { useEvent } from "../live.js";
import { useAllows } from "../session.js";

const STATES = { running: ["info", "running"], done: ["good", "done"], stopped: ["warn", "stopped"], failed: ["bad", "failed"] };
const VERBS = { replay: ["Replay", "replayed"], drop: ["Drop", "dropped"] };
const SHOWN = 5;
const RECENT_MS = 3_600_000;

// `topic` alone, or all of them. `onEnd` is called when a change has ended.
export function Changes({ topic, onEnd }) {
  const { answer } = useAnswer("/api/dead-letters/changes");
  const [told, setTold] = useState({});
  useEvent("letter_change", (found) => {
    if (topic !== undefined && found.topic !== topic) return;
    setTold((last) => ({ ...last, [found.id]: found }));
    if (found.state !== "running") onEnd?.(found);
  }, [topic, onEnd]);
  const all = new Map((answer?.changes ?? []).map((each) => [each.id, each]));
  for (const each of Object.values(told)) all.set(each.id, each);
  const recent = ({ state, ended_at_ms: ms }) => state === "running" || Date.now() - ms < RECENT_MS;
  const shown = [...all.values()].filter((each) => (topic === undefined || each.topic === topic) && recent(each)).sort((one, other) => other.id - one.id).slice(0, SHOWN);
  if (!shown.length) return null;
  return html`<ul class="letter-changes" aria-label="Replays and drops">${shown.map((each) => html`<${Change} key=${each.id} found=${each} hasTopic=${topic === undefined} />`)}</ul>`;
}

function Change({ found, hasTopic }) {
  const mayStop = useAllows("operator");
  const [problem, setProblem] = useState(null);
  const [kind, word] = STATES[found.state];
  const [verb, past] = VERBS[found.action];
  const share = found.total ? Math.min(1, found.moved_count / found.total) : 0;
  const stop = () => change("POST", "/api/dead-letters/changes/stop", { id: found.id }).catch(setProblem);
  return html`<li class="letter-change">
    <div class="letter-change-line">
      <${Badge} kind=${kind}>${word}</${Badge}>
      <span><b>${verb}</b>${hasTopic && ` of ${found.topic}`} by ${found.user}, <${RelativeTime} ms=${found.began_at_ms} />: ${found.total === null ? plural(found.moved_count, "letter") : `${count(found.moved_count)} of ${plural(found.total, "letter")}`} ${past}${targets(found)}</span>
      ${found.state === "running" && mayStop && html`<${Button} icon="pause" onClick=${stop}>Stop</${Button}>`}
    </div>
    ${found.state === "running" && html`<progress class="letter-progress" value=${share} max="1" aria-label=${`${verb} of ${found.topic}`}></progress>`}
    ${found.problem && html`<${Problem} problem=${{ message: found.problem, advice: found.advice }} />`}
    <${Problem} problem=${problem} />
  </li>`;
}

function targets({ moved }) {
  const names = [...new Set(moved.map(({ to }) => to).filter(Boolean))];
  return names.length ? ` to ${names.slice(0, 3).join(", ")}${names.length > 3 ? ", …" : ""}` : "";
}
