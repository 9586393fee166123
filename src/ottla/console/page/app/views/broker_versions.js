// What a broker speaks: its APIs with their versions, and the features of the cluster.
import { html } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { Empty, Loading } from "../components/empty.js";
import { Panel } from "../components/panel.js";
import { Problem, Problems } from "../components/problems.js";
import { LocalTable } from "../components/table.js";
import { UNKNOWN } from "../format.js";
import { BrokerChoice, useBroker } from "./broker_choice.js";

const APIS = [
  { id: "name", label: "API", isSortable: true, cell: ({ name }) => name },
  { id: "key", label: "Key", align: "end", isSortable: true, cell: ({ key }) => key ?? UNKNOWN },
  { id: "min_version", label: "From", align: "end", isSortable: true, cell: ({ min_version: version }) => version },
  { id: "max_version", label: "To", align: "end", isSortable: true, cell: ({ max_version: version }) => version },
];
const FEATURES = [
  { id: "name", label: "Feature", isSortable: true, cell: ({ name }) => name },
  { id: "level", label: "In use", align: "end", cell: ({ level }) => level ?? UNKNOWN },
  { id: "levels", label: "Supported", align: "end", cell: ({ min_level: least, max_level: most }) => (most === null ? UNKNOWN : `${least}–${most}`) },
];

export function Versions({ brokers }) {
  const [broker, choose] = useBroker(brokers);
  const { answer, problem, reload } = useAnswer("/api/broker/versions", { id: broker });
  return html`<${BrokerChoice} ...${{ brokers, broker, choose }} />
    <${Problem} problem=${problem} onRetry=${reload} />
    <${Problems} problems=${answer?.problems} />
    ${!answer && !problem && html`<${Loading} lines=${8} />`}
    ${answer &&
    html`<div class="columns">
      <${Panel} title="APIs" note="and the versions that it serves" flush><${LocalTable} caption="API versions" columns=${APIS} rows=${answer.apis} rowKey=${({ name }) => name} sort="key" prefix="a_" /></${Panel}>
      <${Panel} title="Features" note="of the cluster" flush><${LocalTable} caption="Feature levels" columns=${FEATURES} rows=${answer.features} rowKey=${({ name }) => name} sort="name" prefix="f_" empty=${html`<${Empty} title="The broker reports no features" />`} /></${Panel}>
    </div>`}`;
}
