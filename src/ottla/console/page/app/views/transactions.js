// Transactions.
import { html } from "../../vendor/preact.js";
import { Empty } from "../components/empty.js";
import { View } from "../components/view.js";

export default function Transactions() {
  return html`<${View} title="Transactions">
    <${Empty} title="This view is being built">Open transactions by age, and the last stable offset that they hold.</${Empty}>
  </${View}>`;
}
