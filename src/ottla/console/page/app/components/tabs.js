// Tabs are links to the same view with another `tab` in the query, so that each has its address.
import { html } from "../../vendor/preact.js";
import { useRoute } from "../router.js";

// tabs: [["partitions", "Partitions"], …]; the first is the default.
export function Tabs({ tabs, current, label = "Parts of this view", name = "tab" }) {
  const { path } = useRoute();
  return html`<nav class="tabs" aria-label=${label}><ul>
    ${tabs.map(([id, title, note]) => {
      const href = id === tabs[0][0] ? path : `${path}?${name}=${encodeURIComponent(id)}`;
      return html`<li key=${id}><a href=${href} aria-current=${id === current ? "page" : undefined}>${title}${note !== undefined && html` <span class="tab-note">${note}</span>`}</a></li>`;
    })}
  </ul></nav>`;
}
