// Broker.
import { html } from "../../vendor/preact.js";
import { Empty } from "../components/empty.js";
import { View } from "../components/view.js";

export default function Broker() {
  return html`<${View} title="Broker">
    <${Empty} title="This view is being built">Event log, loop stalls, storage, cleaner, metrics.</${Empty}>
  </${View}>`;
}
