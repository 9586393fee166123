// The keyboard: `g` and a letter go to a view, `/` to the search of the view, `?` shows the keys.
import { html, useEffect } from "../../vendor/preact.js";
import { Dialog } from "../components/dialog.js";
import { navigate } from "../router.js";
import { ROUTES } from "../routes.js";
import { chooseTheme, theme } from "../theme.js";

const PAUSE_MS = 1200;
const VIEWS = ROUTES.filter(({ key }) => key);

const OTHERS = [
  ["/", "Search in this view"],
  ["d", "Light or dark"],
  ["?", "Show these keys"],
  ["Esc", "Close a dialog, leave a field"],
];

export function Keys({ isShown, onShow }) {
  useEffect(() => {
    let goSince = 0;
    const press = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (document.querySelector("dialog[open]")) return;
      if (isTyping(event.target)) {
        if (event.key === "Escape") event.target.blur();
        return;
      }
      const isAfterGo = Date.now() - goSince < PAUSE_MS;
      goSince = 0;
      const view = isAfterGo && VIEWS.find(({ key }) => key === event.key);
      if (view) navigate(view.path);
      else if (event.key === "g") goSince = Date.now();
      else if (event.key === "?") onShow(true);
      else if (event.key === "d") chooseTheme(theme.value.isDark ? "light" : "dark");
      else if (event.key === "/") document.querySelector("main [data-search]")?.focus();
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
  if (!isShown) return null;
  return html`<${Dialog} title="Keys" onClose=${() => onShow(false)}>
    <dl class="keys">
      ${VIEWS.map(({ key, label }) => html`<div key=${key}><dt><kbd>g</kbd> <kbd>${key}</kbd></dt><dd>${label}</dd></div>`)}
      ${OTHERS.map(([key, label]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${label}</dd></div>`)}
    </dl>
  </${Dialog}>`;
}

const isTyping = (element) => element.matches?.("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]") ?? false;
