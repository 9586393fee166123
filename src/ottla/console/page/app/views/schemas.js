// Schemas.
import { html } from "../../vendor/preact.js";
import { Empty } from "../components/empty.js";
import { View } from "../components/view.js";

export default function Schemas() {
  return html`<${View} title="Schemas">
    <${Empty} title="This view is being built">Subjects and versions of the registry.</${Empty}>
  </${View}>`;
}
