// The groups that have offsets in a topic.
import { html } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { Empty, Loading } from "../components/empty.js";
import { Problem, Problems } from "../components/problems.js";

export function TopicGroups({ path }) {
  const { answer, problem, reload } = useAnswer(`${path}/groups`, {}, { live: true });
  return html`<div class="stack topic-part"><${Problem} problem=${problem} onRetry=${reload} /><${Problems} problems=${answer?.problems} />
    ${!answer && !problem && html`<${Loading} lines=${4} />`}
    ${answer?.rows.length === 0 && html`<${Empty} icon="groups" title="No group reads this topic">Groups are here from their first committed offset on.</${Empty}>`}
  </div>`;
}
