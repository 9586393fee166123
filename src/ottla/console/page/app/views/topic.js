// One topic.
import { html } from "../../vendor/preact.js";
import { Empty } from "../components/empty.js";
import { View } from "../components/view.js";

export default function Topic({ topic }) {
  return html`<${View} title=${topic} crumbs=${[["Topics", "/topics"]]}>
    <${Empty} title="This view is being built">Partitions, offsets, the last stable offset and why it stands, configs.</${Empty}>
  </${View}>`;
}
