// Topics.
import { html } from "../../vendor/preact.js";
import { Empty } from "../components/empty.js";
import { View } from "../components/view.js";

export default function Topics() {
  return html`<${View} title="Topics">
    <${Empty} title="This view is being built">All topics with sizes, rates and lag.</${Empty}>
  </${View}>`;
}
