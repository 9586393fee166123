// Short messages that something is done: read out by screen readers, and gone after a while.
import { html } from "../../vendor/preact.js";
import { Store, useStore } from "../store.js";
import { IconButton } from "./button.js";
import { Icon } from "./icons.js";

const SHOWN_MS = 6000;
const toasts = new Store([]);
let next = 0;

const remove = (id) => toasts.set(toasts.value.filter((each) => each.id !== id));

// kind: good | info | warn | bad
export function toast(message, kind = "good") {
  const id = next++;
  toasts.set([...toasts.value.slice(-3), { id, message, kind }]);
  setTimeout(() => remove(id), SHOWN_MS);
}

export function Toasts() {
  const shown = useStore(toasts);
  return html`<div class="toasts" role="status" aria-live="polite">
    ${shown.map(({ id, message, kind }) => html`<div key=${id} class=${`toast toast-${kind}`}><${Icon} name=${kind} /><span>${message}</span><${IconButton} icon="close" label="Dismiss" onClick=${() => remove(id)} /></div>`)}
  </div>`;
}
