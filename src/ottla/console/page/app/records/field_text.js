// A key or value in one line of the list: null and the empty text cannot be taken for a text.
import { html } from "../../vendor/preact.js";
import { inOneLine } from "./odd_characters.js";
import { FORMAT_NAMES } from "./formats.js";

const PLAIN = new Set(["text", "json"]);

export function FieldText({ field, isTombstone = false }) {
  if (field.format === "null") return html`<span class="nothing">${isTombstone ? "null · tombstone" : "null"}</span>`;
  if (field.format === "empty") return html`<span class="nothing">empty</span>`;
  const tag = PLAIN.has(field.format) ? null : html`<span class="format-tag">${FORMAT_NAMES[field.format]}</span>`;
  return html`${field.problem && html`<span class="format-tag format-tag-bad" title=${field.problem}>!</span>`}${tag}<bdi class="field-text">${inOneLine(field.text)}${field.is_cut ? "…" : ""}</bdi>`;
}
