// Pipelines of Spark with format("ottla"), as the cluster shows them: what they have committed, and how far behind they are.
import { html } from "../../vendor/preact.js";
import { Empty } from "../components/empty.js";
import { SelectField } from "../components/field.js";
import { ServerTable } from "../components/table.js";
import { RelativeTime } from "../components/time.js";
import { View } from "../components/view.js";
import { count } from "../format.js";
import { address } from "../router.js";
import { TopicLinks } from "../transactions/held_partition.js";
import { PipelineBadge, PipelineStates, STATE_NAMES } from "../transactions/pipeline_states.js";

const LEAD = "A pipeline is a query of Spark that writes with format(\"ottla\"). With each micro-batch it commits its rows, what it has read, and a marker in one transaction.";

const COLUMNS = [
  { id: "name", label: "Pipeline", isSortable: true, cell: ({ name }) => html`<a href=${address(["pipelines", name])}>${name}</a>` },
  { id: "state", label: "State", isSortable: true, cell: ({ state }) => html`<${PipelineBadge} state=${state} />` },
  { id: "batch", label: "Micro-batch", align: "end", isSortable: true, title: "The number of the last one that was committed", cell: ({ batch }) => count(batch) },
  { id: "committed_at_ms", label: "Committed", isSortable: true, firstOrder: "desc", cell: ({ committed_at_ms: ms }) => html`<${RelativeTime} ms=${ms} />` },
  { id: "input", label: "It read", align: "end", title: "Offsets of the sources in the last micro-batch, if the console saw it", cell: ({ last_input_count: number }) => count(number) },
  { id: "lag", label: "Lag", align: "end", isSortable: true, title: "Offsets that its sources have yet to read", cell: ({ lag }) => count(lag) },
  { id: "sources", label: "Reads", isWrapped: true, cell: ({ source_topics: topics }) => (topics.length ? html`<${TopicLinks} topics=${topics} />` : html`<span class="muted">other sources</span>`) },
  { id: "targets", label: "Writes", isWrapped: true, cell: ({ target_topics: topics }) => html`<${TopicLinks} topics=${topics} />` },
  { id: "transactions", label: "Transactions", align: "end", title: "Committed and aborted since the console looks", cell: (row) => html`${count(row.committed_count)}${row.aborted_count > 0 && html` <span class="text-warn">${count(row.aborted_count)} aborted</span>`}` },
];

const STATES = [["all", "All states"], ...STATE_NAMES];

export default function Pipelines() {
  return html`<${View} title="Pipelines" lead=${LEAD}>
    <${ServerTable} path="/api/pipelines" caption="Pipelines" columns=${COLUMNS} rowKey=${({ name }) => name} sort="name" search="Find a pipeline, a query or a topic"
      filters=${{ defaults: { state: "all" }, draw: ({ state }, set) => html`<${SelectField} label="State" isLabelHidden value=${state} onChange=${(value) => set({ state: value })} options=${STATES} />` }}
      empty=${html`<${Empty} title="No pipeline has written here yet">A query with <code>writeStream.format("ottla").option("pipeline", "a-name")</code> shows as soon as its first micro-batch is written, and for seven days after its last.</${Empty}>`} />
    <${PipelineStates} />
  </${View}>`;
}
