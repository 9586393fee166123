// One group.
import { html } from "../../vendor/preact.js";
import { Empty } from "../components/empty.js";
import { View } from "../components/view.js";

export default function Group({ group }) {
  return html`<${View} title=${group} crumbs=${[["Groups", "/groups"]]}>
    <${Empty} title="This view is being built">Members, assignment, lag over time, the timeline of rebalances.</${Empty}>
  </${View}>`;
}
