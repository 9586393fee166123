// Overview.
import { html } from "../../vendor/preact.js";
import { Empty } from "../components/empty.js";
import { View } from "../components/view.js";

export default function Overview() {
  return html`<${View} title="Overview">
    <${Empty} title="This view is being built">Throughput, lag, brokers, and what needs attention.</${Empty}>
  </${View}>`;
}
