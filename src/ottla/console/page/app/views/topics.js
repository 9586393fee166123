// All topics: found, sorted and cut by the server.
import { html, useState } from "../../vendor/preact.js";
import { Button } from "../components/button.js";
import { Chips } from "../components/chips.js";
import { Empty } from "../components/empty.js";
import { CheckField } from "../components/field.js";
import { ServerTable } from "../components/table.js";
import { Age } from "../components/time.js";
import { toast } from "../components/toast.js";
import { View } from "../components/view.js";
import { bytes, bytesRate, count, plural, rate, shortCount, UNKNOWN } from "../format.js";
import { address, navigate } from "../router.js";
import { useAllows } from "../session.js";
import { CreateTopic } from "../topics/create_topic.js";
import { retentionText } from "../topics/settings.js";
import { ProblemBadges } from "../topics/topic_badges.js";

const number = (value) => html`<span title=${value === null ? undefined : count(value)}>${shortCount(value)}</span>`;

const COLUMNS = [
  { id: "name", label: "Topic", isSortable: true, cell: (row) => html`<${Name} row=${row} />` },
  { id: "problems", label: "State", isSortable: true, firstOrder: "desc", title: "What is wrong with it", cell: ({ problems }) => (problems.length ? html`<${ProblemBadges} problems=${problems} />` : html`<span class="muted">good</span>`) },
  { id: "partitions", label: "Partitions", align: "end", isSortable: true, cell: (row) => count(row.partition_count) },
  { id: "replication", label: "Replicas", align: "end", isSortable: true, title: "The replication factor", cell: (row) => count(row.replication_factor) },
  { id: "records", label: "Records", align: "end", isSortable: true, title: "Offsets between start and end: markers of transactions and compacted records count", cell: (row) => number(row.record_count) },
  { id: "size", label: "Size", align: "end", isSortable: true, title: "Of the leaders' replicas", cell: (row) => bytes(row.size_bytes) },
  { id: "records_per_second", label: "Records/s", align: "end", isSortable: true, title: "Written per second", cell: (row) => rate(row.records_per_second) },
  { id: "bytes_per_second", label: "Bytes/s", align: "end", isSortable: true, title: "How fast the leaders' logs grow", cell: (row) => bytesRate(row.bytes_per_second) },
  { id: "lag", label: "Lag", align: "end", isSortable: true, title: "Offsets that groups have yet to read, in all groups", cell: (row) => number(row.lag) },
  { id: "groups", label: "Groups", align: "end", isSortable: true, title: "Groups with offsets in it", cell: ({ name, group_count: groups }) => (groups ? html`<a href=${address(["topics", name], { tab: "groups" })}>${count(groups)}</a>` : html`<span class="muted">0</span>`) },
  { id: "unstable", label: "Held back", align: "end", isSortable: true, title: "Offsets that readers of committed records do not see because of open transactions", cell: (row) => html`<${HeldBack} row=${row} />` },
  { id: "cleanup_policy", label: "Cleanup", isSortable: true, title: "cleanup.policy, and how long records are kept", cell: (row) => html`<${Cleanup} row=${row} />` },
];

export default function Topics() {
  const [isCreating, setCreating] = useState(false);
  const mayCreate = useAllows("admin");
  const create = mayCreate && html`<${Button} kind="primary" icon="plus" onClick=${() => setCreating(true)}>Create a topic</${Button}>`;
  const created = (answer) => {
    toast(`Created ${answer.plan.name}`);
    navigate(address(["topics", answer.plan.name]));
  };
  return html`<${View} title="Topics" actions=${create}>
    <div class="topics-table"><${ServerTable} path="/api/topics" caption="Topics" columns=${COLUMNS} rowKey=${({ name }) => name} sort="name" search="Find a topic"
      filters=${FILTERS} empty=${html`<${Empty} icon="topics" title="There are no topics yet">Programs create them, and so does the button above. Internal topics can be switched on.</${Empty}>`} /></div>
    ${isCreating && html`<${CreateTopic} onClose=${() => setCreating(false)} onDone=${created} />`}
  </${View}>`;
}

const FILTERS = {
  defaults: { show: "all", internal: false },
  draw: (state, setState, answer) => html`<${Chips} label="Which topics" value=${state.show} onChange=${(show) => setState({ show })} options=${choices(answer?.counts)} />
    <${CheckField} label="Internal topics" checked=${state.internal} onChange=${(internal) => setState({ internal })} />`,
};

const choices = (counts) => [
  ["all", "All", counts?.all],
  ["problems", "With problems", counts?.problems, "bad"],
  ["held", "Held by transactions", counts?.held, "warn"],
  ["lagging", "With lag", counts?.lagging],
  ["unread", "Without groups", counts?.unread],
  ["empty", "Empty", counts?.empty],
  ["compacted", "Compacted", counts?.compacted],
];

const Name = ({ row: { name, is_internal: isInternal } }) =>
  html`<a href=${address(["topics", name])} title=${name}>${name}${isInternal && html` <span class="muted">internal</span>`}</a>`;

function HeldBack({ row: { name, unstable_count: unstable, held_partition_count: partitions, held_since_ms: since } }) {
  if (!unstable) return html`<span class="muted">0</span>`;
  const title = `In ${plural(partitions, "partition")}: see why`;
  return html`<a class="text-warn" href=${address(["topics", name])} title=${title}>${shortCount(unstable)}</a>${since && html` <span class="muted">for <${Age} sinceMs=${since} /></span>`}`;
}

function Cleanup({ row: { cleanup_policy: policy, retention_ms: retention } }) {
  if (!policy) return UNKNOWN;
  return html`${policy}${policy.includes("delete") && html` <span class="muted">${retentionText(retention)}</span>`}`;
}
