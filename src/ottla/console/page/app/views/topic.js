// One topic: its partitions and why their last stable offsets stand, rates over time, groups, configs.
import { html, useState } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { Button } from "../components/button.js";
import { CopyButton } from "../components/copy.js";
import { Empty, Loading } from "../components/empty.js";
import { Stat, Stats } from "../components/panel.js";
import { Notice, Problem, Problems } from "../components/problems.js";
import { Tabs } from "../components/tabs.js";
import { Age } from "../components/time.js";
import { toast } from "../components/toast.js";
import { View } from "../components/view.js";
import { bytes, bytesRate, count, plural, rate, shortCount } from "../format.js";
import { address, navigate, useQuery } from "../router.js";
import { useAllows } from "../session.js";
import { AddPartitions, DeleteRecords, DeleteTopic } from "../topics/changes.js";
import { TopicCharts } from "../topics/charts.js";
import { TopicConfigs } from "../topics/configs.js";
import { TopicGroups } from "../topics/groups.js";
import { TopicPartitions } from "../topics/partitions.js";
import { retentionText } from "../topics/settings.js";
import { KindBadges, ProblemBadges } from "../topics/topic_badges.js";

const PARTS = { partitions: TopicPartitions, charts: TopicCharts, groups: TopicGroups, configs: TopicConfigs };
const DIALOGS = { partitions: AddPartitions, records: DeleteRecords, topic: DeleteTopic };

export default function Topic({ topic }) {
  const [{ tab }] = useQuery({ tab: "partitions" });
  const [dialog, setDialog] = useState(null);
  const path = `/api/topics/${encodeURIComponent(topic)}`;
  const { answer, problem, reload } = useAnswer(path, {}, { live: true });
  const isGone = problem?.status === 404;
  const detail = isGone || answer?.name !== topic ? null : answer;
  const Part = PARTS[tab] ?? TopicPartitions;
  const Dialog = DIALOGS[dialog];
  const done = (found) => {
    toast(sentence(found.done));
    if (dialog === "topic") navigate("/topics");
    else reload();
  };
  const badges = detail && html`<${KindBadges} isInternal=${detail.is_internal} policy=${detail.cleanup_policy} /><${ProblemBadges} problems=${detail.worries} />`;
  return html`<${View} title=${topic} crumbs=${[["Topics", "/topics"]]} badges=${badges} lead=${detail && html`<${Settings} detail=${detail} />`} actions=${detail && html`<${Actions} detail=${detail} onOpen=${setDialog} />`}>
    ${isGone
      ? html`<${Empty} icon="topics" title=${`There is no topic ${topic}`}>It may have been deleted, or you may not describe it. <a href="/topics">All topics</a></${Empty}>`
      : html`<${Problem} problem=${problem} onRetry=${reload} />`}
    ${!detail && !problem && html`<${Loading} lines=${8} />`}
    ${detail &&
    html`<${Problems} problems=${detail.problems} />
      ${detail.worries.map(({ kind, is_severe: isSevere, text }) => html`<${Notice} key=${kind} kind=${isSevere ? "bad" : "warn"}>${sentence(text)}</${Notice}>`)}
      <${Numbers} detail=${detail} />
      <${Tabs} label="Parts of this topic" current=${tab} tabs=${[["partitions", "Partitions", count(detail.partition_count)], ["charts", "Charts"], ["groups", "Groups", count(detail.group_count)], ["configs", "Configs"]]} />
      <${Part} key=${topic} detail=${detail} path=${path} />
      ${Dialog && html`<${Dialog} detail=${detail} path=${path} onClose=${() => setDialog(null)} onDone=${done} />`}`}
  </${View}>`;
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + ".";

function Actions({ detail, onOpen }) {
  const isOperator = useAllows("operator");
  const isAdmin = useAllows("admin");
  const mayCut = isOperator && !detail.is_internal && (detail.cleanup_policy ?? "delete").includes("delete");
  return html`<a class="button" href=${address(["topics", detail.name, "records"])}>Records</a>
    <a class="button" href=${address(["producers"], { topic: detail.name })}>Producers</a>
    ${mayCut && html`<${Button} onClick=${() => onOpen("records")}>Delete records</${Button}>`}
    ${isAdmin && html`<${Button} icon="plus" onClick=${() => onOpen("partitions")}>Add partitions</${Button}>`}
    ${isAdmin && !detail.is_internal && html`<${Button} icon="trash" onClick=${() => onOpen("topic")}>Delete</${Button}>`}`;
}

// What the topic is set to, in a line.
function Settings({ detail }) {
  const { cleanup_policy: policy, retention_ms: age, retention_bytes: size, min_in_sync_replicas: least, topic_id: id } = detail;
  const parts = [
    policy && html`cleanup <b>${policy}</b>`,
    policy?.includes("delete") && html`kept <b>${retentionText(age)}</b>${size > 0 && html`, <b>${bytes(size)}</b> a partition`}`,
    least !== null && html`at least <b>${least}</b> in sync`,
    id && html`id <code title=${id}>${id.slice(0, 8)}…</code> <${CopyButton} text=${id} label=${`Copy the id ${id}`} />`,
  ];
  return html`<span class="topic-settings">${parts.filter(Boolean).map((part) => html`<span>${part}</span>`)}</span>`;
}

function Numbers({ detail }) {
  const { name, unstable_count: unstable, held_since_ms: since } = detail;
  const heldNote = unstable ? html`in ${plural(detail.held_partition_count, "partition")}${since && html`, for <${Age} sinceMs=${since} />`}` : "all can be read";
  return html`<${Stats}>
    <${Stat} label="Records" value=${shortCount(detail.record_count)} note="offsets, with markers" />
    <${Stat} label="Size" value=${bytes(detail.size_bytes)} note="of the leaders' replicas" />
    <${Stat} label="Written" value=${rate(detail.records_per_second)} unit="records/s" note=${bytesRate(detail.bytes_per_second)} />
    <${Stat} label="Lag" value=${shortCount(detail.lag)} href=${address(["topics", name], { tab: "groups" })} note=${detail.group_count ? `of ${plural(detail.group_count, "group")}` : "no group reads it"} />
    <${Stat} label="Held back" value=${shortCount(unstable)} kind=${unstable ? "warn" : undefined} note=${heldNote} />
    <${Stat} label="Replicas" value=${count(detail.replication_factor)} note=${replicasNote(detail)} />
  </${Stats}>`;
}

// What the cluster tells of copies, and nothing more.
function replicasNote({ storage_folder: folder, broker_count: brokers, leaders }) {
  if (folder) return html`<span title=${`Ottla keeps the records in ${folder}: replicas are a number for clients, and there are as many copies as that storage has`}>a number only: this is one folder</span>`;
  const led = leaders.map(({ broker_id: broker, partition_count: partitions }) => `${broker} (${partitions})`).join(", ");
  return html`<span title=${led && `Leaders: broker ${led}`}>${plural(brokers, "broker")}, ${leaders.length === 1 ? "one leads" : `${leaders.length} lead`}</span>`;
}
