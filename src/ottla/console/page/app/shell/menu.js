// The menu of views. On narrow screens it is folded behind the button of the top bar.
import { html } from "../../vendor/preact.js";
import { Icon } from "../components/icons.js";
import { ROUTES } from "../routes.js";

const SECTIONS = [...new Set(ROUTES.filter(({ label }) => label).map(({ section }) => section))];

export function Menu({ isOpen, path, onChoose }) {
  const isCurrent = (route) => (route.path === "/" ? path === "/" : path === route.path || path.startsWith(`${route.path}/`));
  return html`<nav class=${isOpen ? "menu menu-open" : "menu"} id="menu" aria-label="Views">
    <div class="menu-views">
      ${SECTIONS.map((section) => html`<div class="menu-section" key=${section}>
        ${section && html`<p class="menu-title" id=${`menu-${section}`}>${section}</p>`}
        <ul aria-labelledby=${section ? `menu-${section}` : undefined}>
          ${ROUTES.filter((route) => route.label && route.section === section).map((route) => html`<li key=${route.path}>
            <a href=${route.path} onClick=${onChoose} aria-current=${isCurrent(route) ? "page" : undefined}><${Icon} name=${route.view} /><span>${route.label}</span></a>
          </li>`)}
        </ul>
      </div>`)}
    </div>
  </nav>`;
}
