// JSON as a tree that folds, made from its text: numbers keep their digits, and fields that occur twice are shown twice.
import { html, useMemo, useState } from "../../vendor/preact.js";
import { count } from "../format.js";
import { withMarks } from "./odd_characters.js";

const MAX_NODES = 300_000;
const MAX_DEPTH = 200;
const PAGE = 200;
// A small tree is open as a whole, of a large one the outer part.
const OPEN_NODES = 400;
const OPEN_DEPTH = 2;

const TOKEN = /\s*(?:([{}[\],:])|("(?:[^"\\]|\\[^])*")|(-?\d[\d.eE+-]*|true|false|null))/y;

// { kind: "object" | "array" | "scalar", text, children: [{ name, node }] }, or null if the text is no JSON that can be
// shown: then it is shown as it is.
export function parsed(text) {
  const root = { children: [], kind: "array" };
  const stack = [root];
  let name = null;
  let nodes = 0;
  let at = 0;
  let expects = "value"; // value | name | colon | comma
  while (at < text.length) {
    TOKEN.lastIndex = at;
    const found = TOKEN.exec(text);
    if (!found) {
      if (text.slice(at).trim()) return null;
      break;
    }
    at = TOKEN.lastIndex;
    const [, sign, string, literal] = found;
    const top = stack[stack.length - 1];
    if (sign === "{" || sign === "[" || ((string || literal) && expects === "value")) {
      if (expects !== "value") return null;
      nodes += 1;
      if (nodes > MAX_NODES || stack.length > MAX_DEPTH) return null;
      if (sign) {
        const node = { kind: sign === "{" ? "object" : "array", children: [] };
        top.children.push({ name, node });
        stack.push(node);
        expects = sign === "{" ? "name" : "value";
      } else {
        top.children.push({ name, node: { kind: "scalar", text: string ?? literal } });
        expects = "comma";
      }
      name = null;
    } else if (string && expects === "name") {
      name = string;
      expects = "colon";
    } else if (sign === ":" && expects === "colon") expects = "value";
    else if (sign === "," && expects === "comma" && stack.length > 1) expects = top.kind === "object" ? "name" : "value";
    else if ((sign === "}" && top.kind === "object") || (sign === "]" && top.kind === "array" && stack.length > 1)) {
      if (expects === "colon" || (expects === "value" && (top.kind === "object" || top.children.length))) return null;
      stack.pop();
      expects = "comma";
    } else return null;
  }
  if (stack.length !== 1 || root.children.length !== 1 || expects !== "comma") return null;
  return { node: root.children[0].node, size: nodes };
}

export function JsonTree({ text, label }) {
  const tree = useMemo(() => parsed(text), [text]);
  if (tree === null) return null;
  return html`<div class="json" role="region" aria-label=${label} tabindex="0"><${Node} node=${tree.node} depth=${0} openDepth=${tree.size <= OPEN_NODES ? MAX_DEPTH : OPEN_DEPTH} isLast /></div>`;
}

function Node({ name, node, depth, openDepth, isLast }) {
  const [isOpen, setOpen] = useState(depth < openDepth);
  const [shown, setShown] = useState(PAGE);
  const label = name && html`<span class="json-name">${withMarks(name)}</span><span class="json-sign">: </span>`;
  const comma = isLast ? "" : ",";
  if (node.kind === "scalar") {
    return html`<div class="json-line"><span class="json-fold"></span>${label}<span class=${`json-${kindOf(node.text)}`}>${withMarks(node.text)}</span><span class="json-sign">${comma}</span></div>`;
  }
  const [begin, end] = node.kind === "object" ? ["{", "}"] : ["[", "]"];
  const size = node.children.length;
  if (!size) return html`<div class="json-line"><span class="json-fold"></span>${label}<span class="json-sign">${begin}${end}${comma}</span></div>`;
  const what = node.kind === "object" ? (size === 1 ? "field" : "fields") : size === 1 ? "element" : "elements";
  return html`<div>
    <div class="json-line"><button type="button" class="json-fold" aria-expanded=${isOpen ? "true" : "false"} aria-label=${`${isOpen ? "Fold" : "Unfold"} ${name ? name : "the value"}`} onClick=${() => setOpen(!isOpen)}></button>${label}<span class="json-sign">${begin}</span>${isOpen ? html` <span class="json-count">${count(size)}</span>` : html`<button type="button" class="json-more" onClick=${() => setOpen(true)}>${count(size)} ${what}</button><span class="json-sign">${end}${comma}</span>`}</div>
    ${isOpen &&
    html`<div class="json-inside">
        ${node.children.slice(0, shown).map((child, index) => html`<${Node} key=${index} name=${child.name} node=${child.node} depth=${depth + 1} openDepth=${openDepth} isLast=${index === size - 1} />`)}
        ${size > shown && html`<div class="json-line"><span class="json-fold"></span><button type="button" class="json-more" onClick=${() => setShown(shown + 5 * PAGE)}>${count(size - shown)} more</button></div>`}
      </div>
      <div class="json-line"><span class="json-fold"></span><span class="json-sign">${end}${comma}</span></div>`}
  </div>`;
}

const kindOf = (text) => (text[0] === '"' ? "string" : /[tfn]/.test(text[0]) ? "literal" : "number");
