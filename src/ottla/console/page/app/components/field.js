// Fields of forms: every control has a label that is seen, or one that is read out.
import { html, useEffect, useId, useRef, useState } from "../../vendor/preact.js";
import { Icon } from "./icons.js";

function Field({ label, hint, error, id, isLabelHidden = false, children }) {
  return html`<div class=${error ? "field field-bad" : "field"}>
    <label for=${id} class=${isLabelHidden ? "visually-hidden" : undefined}>${label}</label>
    ${children}
    ${hint && html`<p class="field-hint" id=${`${id}-hint`}>${hint}</p>`}
    ${error && html`<p class="field-error" id=${`${id}-error`} role="alert">${error}</p>`}
  </div>`;
}

const described = (id, hint, error) => [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(" ") || undefined;

// type: text | password | number | datetime-local | …; `onInput` gets the text.
export function TextField({ label, hint, error, isLabelHidden, value, onInput, type = "text", ...rest }) {
  const id = useId();
  return html`<${Field} ...${{ label, hint, error, id, isLabelHidden }}>
    <input id=${id} class="input" type=${type} value=${value} aria-describedby=${described(id, hint, error)} aria-invalid=${error ? "true" : undefined}
      onInput=${(event) => onInput(event.currentTarget.value)} ...${rest} />
  </${Field}>`;
}

export function AreaField({ label, hint, error, isLabelHidden, value, onInput, rows = 6, ...rest }) {
  const id = useId();
  return html`<${Field} ...${{ label, hint, error, id, isLabelHidden }}>
    <textarea id=${id} class="input input-area" rows=${rows} value=${value} aria-describedby=${described(id, hint, error)} aria-invalid=${error ? "true" : undefined}
      onInput=${(event) => onInput(event.currentTarget.value)} ...${rest}></textarea>
  </${Field}>`;
}

// options: [["value", "Text"], …]
export function SelectField({ label, hint, error, isLabelHidden, value, onChange, options, ...rest }) {
  const id = useId();
  return html`<${Field} ...${{ label, hint, error, id, isLabelHidden }}>
    <select id=${id} class="input" value=${value} aria-describedby=${described(id, hint, error)} onChange=${(event) => onChange(event.currentTarget.value)} ...${rest}>
      ${options.map(([each, text]) => html`<option key=${each} value=${each} selected=${each === value}>${text}</option>`)}
    </select>
  </${Field}>`;
}

export function CheckField({ label, hint, checked, onChange, ...rest }) {
  const id = useId();
  return html`<div class="field field-check">
    <input id=${id} type="checkbox" checked=${checked} aria-describedby=${described(id, hint)} onChange=${(event) => onChange(event.currentTarget.checked)} ...${rest} />
    <label for=${id}>${label}</label>
    ${hint && html`<p class="field-hint" id=${`${id}-hint`}>${hint}</p>`}
  </div>`;
}

const SEARCH_PAUSE_MS = 250;

// A search that waits until the user pauses. The key `/` goes to the first one of a view.
export function SearchField({ label, value, onSearch, placeholder = label }) {
  const id = useId();
  const [text, setText] = useState(value);
  const timer = useRef(0);
  useEffect(() => setText(value), [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const input = (event) => {
    const wanted = event.currentTarget.value;
    setText(wanted);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onSearch(wanted), SEARCH_PAUSE_MS);
  };
  const now = (event) => {
    event.preventDefault();
    clearTimeout(timer.current);
    onSearch(text);
  };
  return html`<form role="search" class="search" onSubmit=${now}>
    <label class="visually-hidden" for=${id}>${label}</label>
    <${Icon} name="search" />
    <input id=${id} class="input" type="search" data-search placeholder=${placeholder} value=${text} onInput=${input} autocomplete="off" spellcheck=${false} />
  </form>`;
}
