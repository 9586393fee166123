// Which broker a tab is about: in the address, the first one if nothing is chosen.
import { html } from "../../vendor/preact.js";
import { SelectField } from "../components/field.js";
import { useQuery } from "../router.js";

export function useBroker(brokers) {
  const [{ broker }, setState] = useQuery({ broker: -1 });
  const isThere = brokers.some(({ id }) => id === broker);
  return [isThere || broker >= 0 ? broker : (brokers[0]?.id ?? 0), (id) => setState({ broker: Number(id) })];
}

export function BrokerChoice({ brokers, broker, choose }) {
  const options = brokers.map(({ id, host, port }) => [String(id), `Broker ${id} at ${host}:${port}`]);
  if (!brokers.some(({ id }) => id === broker)) options.unshift([String(broker), `Broker ${broker}`]);
  if (options.length < 2) return null;
  return html`<div class="toolbar"><${SelectField} label="Broker" value=${String(broker)} options=${options} onChange=${choose} /></div>`;
}
