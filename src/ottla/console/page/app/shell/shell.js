// What stands around every view: the bar at the top, the menu, what is wrong with the connection, the keys.
import { html, useEffect, useErrorBoundary, useRef, useState } from "../../vendor/preact.js";
import { Empty, Loading } from "../components/empty.js";
import { Problem } from "../components/problems.js";
import { View } from "../components/view.js";
import { useRoute } from "../router.js";
import { loadView, routeOf } from "../routes.js";
import { ConnectionBanner } from "./connection_banner.js";
import { Keys } from "./keys.js";
import { Menu } from "./menu.js";
import { TopBar } from "./top_bar.js";

export function Shell() {
  const { path } = useRoute();
  const [isMenuOpen, setMenuOpen] = useState(false);
  const [areKeysShown, showKeys] = useState(false);
  const route = routeOf(path);
  return html`<div class="shell">
    <a class="skip" href="#content">Skip to the content</a>
    <${TopBar} isMenuOpen=${isMenuOpen} onMenu=${() => setMenuOpen(!isMenuOpen)} onKeys=${() => showKeys(true)} />
    <${Menu} isOpen=${isMenuOpen} path=${path} onChoose=${() => setMenuOpen(false)} />
    <main class="content" id="content" tabindex="-1">
      <${ConnectionBanner} />
      ${route ? html`<${Loaded} key=${path} route=${route} />` : html`<${NoSuchView} path=${path} />`}
    </main>
    <${Keys} isShown=${areKeysShown} onShow=${showKeys} />
  </div>`;
}

// The module of a view is fetched when it is opened first.
function Loaded({ route }) {
  const [drawn, setDrawn] = useState(null);
  const [problem, setProblem] = useState(null);
  const [bug] = useErrorBoundary((error) => console.error(error));
  useEffect(() => {
    let isOpen = true;
    loadView(route.view).then(
      (component) => isOpen && setDrawn(() => component),
      () => isOpen && setProblem({ message: "This view could not be loaded.", advice: "Load the page again." }),
    );
    return () => (isOpen = false);
  }, []);
  useFocusOnHeading(drawn !== null);
  if (bug) return html`<${View} title="This view failed"><${Problem} problem=${{ message: String(bug.message ?? bug), advice: "This is a bug of the console. Other views work." }} /></${View}>`;
  if (problem) return html`<${View} title="Not loaded"><${Problem} problem=${problem} /></${View}>`;
  if (!drawn) return html`<${Loading} lines=${6} />`;
  const Drawn = drawn;
  return html`<${Drawn} ...${route.variables} />`;
}

let isFirstView = true;

// Who opens another view hears its heading; the first view of a page leaves the focus where the browser puts it.
function useFocusOnHeading(isDrawn) {
  const wasMoved = useRef(false);
  useEffect(() => {
    if (!isDrawn || wasMoved.current) return;
    wasMoved.current = true;
    if (!isFirstView) document.querySelector("main h1")?.focus({ preventScroll: true });
    isFirstView = false;
  }, [isDrawn]);
}

const NoSuchView = ({ path }) =>
  html`<${View} title="Nothing here"><${Empty} icon="search" title=${`There is no view at ${path}`}><a href="/">Go to the overview</a></${Empty}></${View}>`;
