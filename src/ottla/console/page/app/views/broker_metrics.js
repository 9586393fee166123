// The metrics of a broker, as Prometheus gets them.
import { html } from "../../vendor/preact.js";
import { Badge } from "../components/badge.js";
import { Empty } from "../components/empty.js";
import { ServerTable } from "../components/table.js";
import { count } from "../format.js";

const COLUMNS = [
  { id: "name", label: "Metric", isSortable: true, cell: ({ name, labels }) => html`<span class="mono">${name}${labels && html`<span class="muted">{${labels}}</span>`}</span>` },
  { id: "value", label: "Value", align: "end", isSortable: true, cell: ({ value }) => (/^-?\d+$/.test(value) ? count(Number(value)) : value) },
  { id: "kind", label: "Kind", cell: ({ kind }) => html`<${Badge}>${kind}</${Badge}>` },
  { id: "documentation", label: "Meaning", isWrapped: true, cell: ({ documentation }) => documentation },
];

export function Metrics() {
  return html`<div class="broker-metrics"><${ServerTable} path="/api/broker/metrics" caption="Metrics" columns=${COLUMNS} rowKey=${({ name, labels }) => `${name}{${labels}`} sort="name" search="Find a metric or a label"
    empty=${html`<${Empty} title="The broker has no metrics yet" />`} /></div>`;
}
