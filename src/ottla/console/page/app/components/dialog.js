// Dialogs: the browser's own <dialog> keeps the focus inside, closes with Escape and gives the focus back.
import { html, useEffect, useId, useLayoutEffect, useRef, useState } from "../../vendor/preact.js";
import { Button, IconButton } from "./button.js";
import { Loading } from "./empty.js";
import { TextField } from "./field.js";
import { Problem } from "./problems.js";

// Shown while it is drawn. `actions` are the buttons at its end; `onSubmit` makes it a form.
export function Dialog({ title, onClose, actions, isWide = false, onSubmit, children }) {
  const element = useRef(null);
  const id = useId();
  // In the same step as the dialog is drawn and taken away: what happens in between would lose the focus.
  useLayoutEffect(() => {
    const before = document.activeElement;
    const dialog = element.current;
    dialog.showModal();
    return () => {
      // As long as it is open, nothing behind it can have the focus.
      dialog.close();
      if (before?.isConnected) before.focus();
    };
  }, []);
  const submit = (event) => {
    event.preventDefault();
    onSubmit?.();
  };
  const clickOutside = (event) => event.target === element.current && onClose();
  return html`<dialog ref=${element} class=${isWide ? "dialog dialog-wide" : "dialog"} aria-labelledby=${id} onCancel=${(event) => (event.preventDefault(), onClose())} onMouseDown=${clickOutside}>
    <form class="dialog-form" method="dialog" onSubmit=${submit}>
      <header class="dialog-head"><h2 id=${id}>${title}</h2><${IconButton} icon="close" label="Close" onClick=${onClose} /></header>
      <div class="dialog-body">${children}</div>
      ${actions && html`<footer class="dialog-foot">${actions}</footer>`}
    </form>
  </dialog>`;
}

// A change asks first: `preview` is awaited and drawn by `show`; only then `act` may run. Where the change cannot be
// undone, `typed` is what the user has to write.
export function Confirm({ title, action, isDanger = false, preview, show, act, typed, onDone, onClose, children }) {
  const [shown, setShown] = useState(null);
  const [problem, setProblem] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const [text, setText] = useState("");
  useEffect(() => {
    let isOpen = true;
    Promise.resolve(preview?.() ?? {}).then(
      (found) => isOpen && setShown(found),
      (error) => isOpen && setProblem(error),
    );
    return () => (isOpen = false);
  }, []);
  const isReady = shown !== null && (!typed || text === typed);
  const run = async () => {
    if (!isReady || isBusy) return;
    setBusy(true);
    setProblem(null);
    try {
      const result = await act(shown);
      onClose();
      onDone?.(result);
    } catch (error) {
      setProblem(error);
      setBusy(false);
    }
  };
  const actions = html`<${Button} onClick=${onClose}>Cancel</${Button}>
    <${Button} type="submit" kind=${isDanger ? "danger" : "primary"} disabled=${!isReady} isBusy=${isBusy}>${action}</${Button}>`;
  return html`<${Dialog} ...${{ title, onClose, actions }} onSubmit=${run}>
    ${children}
    ${shown === null && !problem ? html`<${Loading} lines=${2} label="Asking the cluster what this would do" />` : shown !== null && show?.(shown)}
    ${typed && html`<${TextField} label=${`Write ${typed} to confirm`} value=${text} onInput=${setText} autocomplete="off" spellcheck=${false} />`}
    <${Problem} problem=${problem} />
  </${Dialog}>`;
}
