// The logs on a broker's disk: sizes, segments, and how long group commits wait for the disk.
import { html } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { Empty, Loading } from "../components/empty.js";
import { Facts, Meter, Panel } from "../components/panel.js";
import { Notice, Problem } from "../components/problems.js";
import { LocalTable } from "../components/table.js";
import { bytes, count, duration, plural } from "../format.js";
import { useEvent } from "../live.js";
import { address } from "../router.js";
import { Histogram } from "./broker_histogram.js";

const COLUMNS = [
  { id: "name", label: "Topic", isSortable: true, cell: ({ name }) => html`<a href=${address(["topics", name])}>${name}</a>` },
  { id: "size_bytes", label: "Size", align: "end", isSortable: true, cell: ({ size_bytes: size }) => bytes(size) },
  { id: "partitions", label: "Partitions", align: "end", isSortable: true, cell: ({ partitions }) => count(partitions) },
  { id: "open_partitions", label: "In use", align: "end", isSortable: true, title: "Partitions that were used since the broker started", cell: ({ open_partitions: number }) => count(number) },
  { id: "segments", label: "Segments", align: "end", isSortable: true, title: "Files of the partitions in use", cell: ({ segments }) => count(segments) },
];

export function Storage() {
  const { answer, problem, reload } = useAnswer("/api/broker/storage");
  useEvent("internals", () => reload(), [reload]);
  if (!answer) return problem ? html`<${Problem} problem=${problem} onRetry=${reload} />` : html`<${Loading} lines=${8} />`;
  const { disk, offline } = answer;
  const used = disk && disk.total_bytes - disk.free_bytes;
  return html`<${Problem} problem=${problem} onRetry=${reload} />
    ${offline.length > 0 && html`<${Notice} kind="bad">${plural(offline.length, "partition")} cannot be read: ${offline.slice(0, 5).map(({ topic, partition }) => `${topic}-${partition}`).join(", ")}. The log says why.</${Notice}>`}
    <div class="columns">
      <${Panel} title="Disk">
        <${Facts} facts=${[
          ["Folder", answer.folder ? html`<span class="mono broker-value">${answer.folder}</span>` : "none: all data is in memory"],
          ["Logs", `${bytes(answer.size_bytes)} in ${plural(answer.topic_count, "topic")}, ${plural(answer.partition_count, "partition")}`],
          ["Disk", disk ? html`<${Meter} share=${used / disk.total_bytes} label=${`${bytes(disk.free_bytes)} of ${bytes(disk.total_bytes)} free`} />` : undefined],
        ]} />
      </${Panel}>
      <${Panel} title="Group commit" note="writes to the disk, since the start">
        ${answer.sync_count
          ? html`<div class="stack"><${Facts} facts=${[["Commits", count(answer.sync_count)], ["Median", `up to ${duration(answer.sync_median_ms)}`], ["99%", `up to ${duration(answer.sync_p99_ms)}`], ["Mean", duration(answer.sync_mean_ms)]]} />
              <${Histogram} label="Group commits by their time" bounds=${answer.syncs.bounds_ms} counts=${answer.syncs.counts} /></div>`
          : html`<${Empty} title="Nothing was synced yet">Without log.flush.interval.messages the system writes to the disk when it likes.</${Empty}>`}
      </${Panel}>
    </div>
    <${Panel} title="Largest topics" note="by what they have on this broker's disk" flush>
      <${LocalTable} caption="Topics by size" columns=${COLUMNS} rows=${answer.topics} rowKey=${({ name }) => name} sort="size_bytes" order="desc" prefix="t_" empty=${html`<${Empty} icon="topics" title="No topics">There are none, or you may see none of them.</${Empty}>`} />
    </${Panel}>`;
}
