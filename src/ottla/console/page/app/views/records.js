// Records of a topic.
import { html } from "../../vendor/preact.js";
import { Empty } from "../components/empty.js";
import { View } from "../components/view.js";
import { address } from "../router.js";

export default function Records({ topic }) {
  return html`<${View} title="Records" crumbs=${[["Topics", "/topics"], [topic, address(["topics", topic])]]}>
    <${Empty} title="This view is being built">Live tail, search, decoded values.</${Empty}>
  </${View}>`;
}
