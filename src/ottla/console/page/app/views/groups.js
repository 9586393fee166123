// Groups.
import { html } from "../../vendor/preact.js";
import { Empty } from "../components/empty.js";
import { View } from "../components/view.js";

export default function Groups() {
  return html`<${View} title="Groups">
    <${Empty} title="This view is being built">Consumer groups, their members, lag and rebalances.</${Empty}>
  </${View}>`;
}
