// One group: its lag, its members, its rebalances.
import { html, useState } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { Button } from "../components/button.js";
import { Loading } from "../components/empty.js";
import { Stat, Stats } from "../components/panel.js";
import { Notice, Problem, Problems } from "../components/problems.js";
import { Tabs } from "../components/tabs.js";
import { Age } from "../components/time.js";
import { toast } from "../components/toast.js";
import { View } from "../components/view.js";
import { count, plural, rate, UNKNOWN } from "../format.js";
import { DeleteDialog } from "../groups/delete_dialog.js";
import { ResetDialog } from "../groups/reset_dialog.js";
import { navigate, useQuery } from "../router.js";
import { useAllows } from "../session.js";
import { GroupLag } from "./group_lag.js";
import { GroupMembers } from "./group_members.js";
import { GroupRebalances } from "./group_rebalances.js";
import { GroupState, HeldUpBadge, protocolText, StuckBadge } from "./group_words.js";

export default function Group({ group }) {
  const [{ tab }] = useQuery({ tab: "lag" });
  const { answer, problem, reload } = useAnswer("/api/group", { id: group }, { live: true });
  const tabs = [
    ["lag", "Lag", answer && count(answer.partition_count)],
    ["members", "Members", answer && count(answer.member_count)],
    ["rebalances", "Rebalances"],
  ];
  const [dialog, setDialog] = useState(null);
  const close = () => setDialog(null);
  const mayChange = useAllows("operator") && answer;
  const mayReset = mayChange && answer.commits_offsets && answer.topics.length > 0;
  const actions = mayChange && html`${mayReset && html`<${Button} icon="refresh" onClick=${() => setDialog("reset")}>Reset offsets</${Button}>`}
    <${Button} icon="trash" onClick=${() => setDialog("delete")}>Delete</${Button}>`;
  const done = ({ done: text }) => {
    toast(`${text}.`);
    reload();
  };
  const deleted = ({ done: text }, isGroupGone) => {
    toast(`${text.charAt(0).toUpperCase()}${text.slice(1)}.`);
    if (isGroupGone) navigate("/groups");
    else reload();
  };
  const badges = answer && html`<${GroupState} state=${answer.state} />${answer.is_stuck && html`<${StuckBadge} />`}${answer.is_held_up && html`<${HeldUpBadge} />`}`;
  return html`<${View} title=${group} crumbs=${[["Groups", "/groups"]]} badges=${badges} actions=${actions}>
    <${Problem} problem=${problem} onRetry=${reload} />
    ${!answer && !problem && html`<${Loading} lines=${8} />`}
    ${answer &&
    html`<${Problems} problems=${answer.problems} />
      <${Worries} answer=${answer} />
      <${Summary} answer=${answer} />
      <${Tabs} tabs=${tabs.map(([id, title, note]) => [id, title, note ?? undefined])} current=${tab} />
      ${tab === "rebalances" ? html`<${GroupRebalances} group=${group} />` : tab === "members" ? html`<${GroupMembers} answer=${answer} />` : html`<${GroupLag} answer=${answer} />`}
      ${dialog === "reset" && html`<${ResetDialog} answer=${answer} onClose=${close} onDone=${done} />`}
      ${dialog === "delete" && html`<${DeleteDialog} answer=${answer} onClose=${close} onDone=${deleted} />`}`}
  </${View}>`;
}

// What a colleague would point at first.
function Worries({ answer }) {
  const { is_stuck: isStuck, is_held_up: isHeldUp, standing_since_ms: since, held_count: held } = answer;
  if (isHeldUp) {
    return html`<${Notice} kind="bad">It has committed nothing for <${Age} sinceMs=${since} />. Open transactions hold back ${plural(held, "offset")} in its partitions: consumers with read_committed wait for them. <a href="/transactions">See the transactions</a></${Notice}>`;
  }
  if (isStuck) {
    return html`<${Notice} kind="bad">It has members and ${plural(answer.lag, "offset")} to read, and has committed nothing for <${Age} sinceMs=${since} />: its consumers hang, fail again and again, or do not commit.</${Notice}>`;
  }
  if (answer.lag > 0 && answer.member_count === 0) {
    return html`<${Notice} kind="warn">Nobody reads for this group now, and it is ${plural(answer.lag, "offset")} behind.</${Notice}>`;
  }
  return null;
}

function Summary({ answer }) {
  const { epoch, target_epoch: targetEpoch, assignor, coordinator_id: coordinator } = answer;
  const isAhead = epoch !== null && epoch !== targetEpoch;
  return html`<${Stats}>
    <${Stat} label="Lag" value=${count(answer.lag)} unit=${answer.lag === null ? undefined : "offsets"} kind=${answer.is_stuck ? "bad" : undefined}
      note=${answer.held_count ? html`<a href="/transactions">${plural(answer.held_count, "offset")} held by open transactions</a>` : answer.commits_offsets ? undefined : "Share groups commit no offsets"} />
    <${Stat} label="Consumes" value=${answer.records_per_second === null ? UNKNOWN : rate(answer.records_per_second)} unit="records/s" note="By its commits" />
    <${Stat} label="Members" value=${count(answer.member_count)} note=${assignor ? `Assigned by ${assignor}` : "No assignor"} />
    <${Stat} label="Protocol" value=${protocolText(answer.type, answer.protocol_type)} note=${`Coordinator: broker ${coordinator}${epoch === null ? "" : `, epoch ${epoch}`}${isAhead ? `, targets of epoch ${targetEpoch}` : ""}`} />
  </${Stats}>`;
}
