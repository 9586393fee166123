// One pipeline.
import { html } from "../../vendor/preact.js";
import { Empty } from "../components/empty.js";
import { View } from "../components/view.js";

export default function Pipelines() {
  return html`<${View} title="Pipelines">
    <${Empty} title="This view is being built">Pipelines on Spark: last micro-batch, lag, committed transactions.</${Empty}>
  </${View}>`;
}
