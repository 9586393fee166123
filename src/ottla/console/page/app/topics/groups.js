// The groups that have offsets in a topic, with their lags in offsets and in records.
import { html } from "../../vendor/preact.js";
import { Badge } from "../components/badge.js";
import { Empty } from "../components/empty.js";
import { ServerTable } from "../components/table.js";
import { RelativeTime } from "../components/time.js";
import { count, plural, rate, UNKNOWN } from "../format.js";
import { address } from "../router.js";
import { GroupState } from "../views/group_words.js";

const COLUMNS = [
  { id: "group_id", label: "Group", isSortable: true, cell: ({ group_id: group }) => html`<a href=${address(["groups", group])}>${group}</a>` },
  { id: "state", label: "State", isSortable: true, cell: ({ state }) => html`<${GroupState} state=${state} />` },
  { id: "partitions", label: "Partitions", align: "end", title: "For which it has committed an offset", cell: ({ partition_count: partitions }) => count(partitions) },
  { id: "lag", label: "Lag", align: "end", isSortable: true, title: "Offsets: the ends minus what was committed", cell: ({ lag }) => (lag ? count(lag) : html`<span class="muted">0</span>`) },
  { id: "records", label: "Records", align: "end", title: "Records that it has not read: without markers of transactions, and without what compaction removed", cell: (row) => html`<${Records} row=${row} />` },
  { id: "oldest", label: "Oldest unread", title: "The timestamp of the oldest record that it has not read", cell: ({ first_at_ms: at }) => (at === null ? UNKNOWN : html`<${RelativeTime} ms=${at} />`) },
  { id: "records_per_second", label: "Consumes/s", align: "end", isSortable: true, title: "Records per second, from all its topics", cell: (row) => rate(row.records_per_second) },
  { id: "position", label: "Where it is", cell: (row) => html`<${Position} row=${row} />` },
];

export function TopicGroups({ detail, path }) {
  return html`<div class="stack topic-part">
    <${ServerTable} path=${`${path}/groups`} caption=${`Groups of ${detail.name}`} columns=${COLUMNS} rowKey=${({ group_id: group }) => group} sort="lag" order="desc" search="Find a group" prefix="g."
      empty=${html`<${Empty} icon="groups" title="No group has offsets here">Groups are here from their first committed offset on; consumers without a group leave none.</${Empty}>`} />
    ${detail.group_count > 0 && html`<p class="muted topic-note">The lag counts offsets. Markers of transactions have offsets, too: the console reads the log behind small lags, and counts records.</p>`}
  </div>`;
}

function Records({ row: { lag, record_lag: records, is_counted: isCounted } }) {
  if (records === null) return html`<span class="muted" title="The log is being read, or the lag is large">${UNKNOWN}</span>`;
  if (lag > 0 && records === 0) return html`<span class="text-good" title="Only markers of transactions, or what compaction removed: everything is read">0</span>`;
  if (records === 0) return html`<span class="muted">0</span>`;
  return html`<span title=${isCounted ? undefined : "Not all of it was read: offsets that were not count as records"}>${isCounted ? "" : "≤ "}${count(records)}</span>`;
}

function Position({ row }) {
  const { lag, record_lag: records, waiting_count: waiting, lost_count: lost, lagging_count: lagging } = row;
  if (lost) return html`<${Badge} kind="bad" title="Records were deleted before the group read them">lost records in ${plural(lost, "partition")}</${Badge}>`;
  if (waiting) return html`<${Badge} kind="warn" title="It has read all that is stable, and an open transaction holds back the rest">waits in ${plural(waiting, "partition")}</${Badge}>`;
  if (!lag || records === 0) return html`<span class="muted">has read all</span>`;
  return html`behind in ${plural(lagging, "partition")}`;
}
