// The conditions of a search: what is written becomes one with Enter, and goes by its own button.
import { html, useState } from "../../vendor/preact.js";
import { IconButton } from "../components/button.js";
import { Icon } from "../components/icons.js";
import { inOneLine } from "./odd_characters.js";

const EXAMPLES = [
  ["late", "a text in key, value or headers, whatever its case"],
  ["key = o-17", "the whole key"],
  ["value contains Darjeeling", "a part of the value, whatever its case"],
  ["value.order.id = 7", "a field of JSON, Avro, Protobuf or JSON Schema"],
  ["value.items[*].sku = tea-1", "any element; [0] is the first, [-1] the last"],
  ["value.amount >= 100", "numbers: < <= > >="],
  ['value.state != "paid"', "not equal, or not there"],
  ["value.note exists", "the field is there"],
  ["value = null", "tombstones"],
  ["header.trace contains 4bf", "a header; without a name, any of them"],
  ["value matches ^A[0-9]+", "a regular expression (RE2); (?i) ignores case"],
];

export function FilterBar({ filters, onFilters, children }) {
  const [text, setText] = useState("");
  const [isHelpOpen, setHelpOpen] = useState(false);
  const add = (event) => {
    event.preventDefault();
    const wanted = text.trim();
    if (!wanted) return;
    setText("");
    if (!filters.includes(wanted)) onFilters([...filters, wanted]);
  };
  return html`<div class="filter-bar">
    <div class="filter-line">
      <form role="search" class="search filter-search" onSubmit=${add}>
        <label class="visually-hidden" for="record-filter">Filter</label>
        <${Icon} name="search" />
        <input id="record-filter" class="input" type="search" data-search placeholder="A text, or value.order.id = 7" value=${text} onInput=${(event) => setText(event.currentTarget.value)} autocomplete="off" spellcheck=${false} aria-describedby="filter-hint" />
        <span id="filter-hint" class="visually-hidden">Enter adds the condition and searches</span>
      </form>
      <${IconButton} icon="info" label="How filters are written" aria-expanded=${isHelpOpen ? "true" : "false"} onClick=${() => setHelpOpen(!isHelpOpen)} />
      ${children}
    </div>
    ${filters.length > 0 &&
    html`<ul class="filter-chips" aria-label="Filters">${filters.map((filter) => html`<li key=${filter} class="filter-chip"><bdi class="mono">${inOneLine(filter)}</bdi><${IconButton} icon="close" label=${`Remove the filter ${filter}`} onClick=${() => onFilters(filters.filter((each) => each !== filter))} /></li>`)}</ul>`}
    ${isHelpOpen &&
    html`<div class="filter-help"><p class="muted">All conditions have to hold. A click takes an example over.</p><dl>${EXAMPLES.map(([example, meaning]) => html`<div key=${example}><dt><button type="button" class="link mono" onClick=${() => (setText(example), document.getElementById("record-filter").focus())}>${example}</button></dt><dd>${meaning}</dd></div>`)}</dl></div>`}
  </div>`;
}
