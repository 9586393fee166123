// Apps and dead letters.
import { html } from "../../vendor/preact.js";
import { Empty } from "../components/empty.js";
import { View } from "../components/view.js";

export default function Apps() {
  return html`<${View} title="Apps and dead letters">
    <${Empty} title="This view is being built">Retry and dead-letter topics, replay.</${Empty}>
  </${View}>`;
}
