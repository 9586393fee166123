// A text of any length, a page of it at a time: a browser takes minutes to lay out a paragraph of megabytes.
import { html, useEffect, useMemo, useRef, useState } from "../../vendor/preact.js";
import { IconButton } from "../components/button.js";
import { count } from "../format.js";
import { withMarks } from "./odd_characters.js";

// Whole lines of a hex dump, whose bytes take three characters each.
const LINE_CHARS = 16 * 3;
const PAGE_CHARS = 2_100 * LINE_CHARS;

export function LongText({ text, label, isHex }) {
  const [start, setStart] = useState(0);
  const shown = useRef(null);
  const end = endOf(text, start);
  const drawn = useMemo(() => (isHex ? hexLines(text.slice(start, end), start / 3) : withMarks(text.slice(start, end))), [text, start, isHex]);
  useEffect(() => setStart(0), [text, isHex]);
  const move = (next) => {
    setStart(next);
    shown.current.scrollTop = 0;
  };
  const last = startOf(text, Math.floor((text.length - 1) / PAGE_CHARS) * PAGE_CHARS);
  return html`<pre ref=${shown} class="code record-code" tabindex="0" aria-label=${label}>${drawn}</pre>
    ${text.length > PAGE_CHARS &&
    html`<nav class="pager" aria-label="Pages of the text"><span class="pager-place">${isHex ? `Bytes ${count(start / 3)}–${count(Math.ceil(end / 3) - 1)} of ${count(Math.ceil(text.length / 3))}` : `Characters ${count(start)}–${count(end - 1)} of ${count(text.length)}`}</span><span class="pager-buttons">
        <${IconButton} icon="first" label="Begin of the text" disabled=${start === 0} onClick=${() => move(0)} />
        <${IconButton} icon="previous" label="Text before" disabled=${start === 0} onClick=${() => move(startOf(text, start - PAGE_CHARS))} />
        <${IconButton} icon="next" label="Text behind" disabled=${end >= text.length} onClick=${() => move(end)} />
        <${IconButton} icon="last" label="End of the text" disabled=${end >= text.length} onClick=${() => move(last)} />
      </span></nav>`}`;
}

const endOf = (text, start) => Math.min(text.length, startOf(text, start + PAGE_CHARS));

// No page ends between the halves of a character.
function startOf(text, at) {
  const code = at > 0 ? text.charCodeAt(at) : 0;
  return Math.max(0, code >= 0xdc00 && code < 0xe000 ? at + 1 : at);
}

// As hex dumps are: sixteen bytes in a line, with their place and their characters.
function hexLines(text, start) {
  const found = text.split(" ").filter(Boolean);
  const lines = [];
  for (let at = 0; at < found.length; at += 16) {
    const some = found.slice(at, at + 16);
    const characters = some.map((pair) => parseInt(pair, 16)).map((code) => (code >= 32 && code < 127 ? String.fromCharCode(code) : "."));
    lines.push(`${(start + at).toString(16).padStart(8, "0")}  ${some.join(" ").padEnd(48)} ${characters.join("")}`);
  }
  return lines.join("\n");
}
