// Producers.
import { html } from "../../vendor/preact.js";
import { Empty } from "../components/empty.js";
import { View } from "../components/view.js";

export default function Producers() {
  return html`<${View} title="Producers">
    <${Empty} title="This view is being built">Producers of each partition: sequences, epochs, last batches.</${Empty}>
  </${View}>`;
}
