// Where reading begins, in which partitions, and which records are shown.
import { html } from "../../vendor/preact.js";
import { CheckField, SelectField, TextField } from "../components/field.js";
import { FORMATS } from "./formats.js";

export const MODES = [
  ["newest", "Newest"],
  ["oldest", "Oldest"],
  ["offset", "Offset"],
  ["time", "Time"],
  ["live", "Live"],
];

export function Modes({ mode, onMode }) {
  return html`<div class="segments" role="group" aria-label="Where reading begins">
    ${MODES.map(([id, label]) => html`<button key=${id} type="button" class="segment" aria-pressed=${mode === id ? "true" : "false"} onClick=${() => onMode(id)}>${label}</button>`)}
  </div>`;
}

// The fields that a mode needs; changes are taken over with Enter, or when the field is left.
export function ModeFields({ state, setState, partitions }) {
  const commit = (name) => ({
    onInput: () => {},
    onChange: (event) => setState({ [name]: event.currentTarget.value.trim() }),
    autocomplete: "off",
    spellcheck: false,
  });
  return html`
    ${state.mode === "offset" && html`<${TextField} label="From offset" value=${state.at} inputmode="numeric" pattern="[0-9]*" ...${commit("at")} />`}
    ${state.mode === "time" && html`<${TextField} label="From" type="datetime-local" step="1" value=${state.since} ...${commit("since")} /><${TextField} label="to" type="datetime-local" step="1" value=${state.until} ...${commit("until")} />`}
    <${TextField} label="Partitions" placeholder=${partitions.length > 1 ? `all ${partitions.length}` : "all"} value=${state.partitions} ...${commit("partitions")} title="All, or numbers and ranges: 0, 3-5" />
    ${state.mode !== "live" && html`<${SelectField} label="Show" value=${state.limit} onChange=${(limit) => setState({ limit })} options=${["20", "50", "200", "1000", "5000"].map((size) => [size, `${Number(size).toLocaleString("en")} records`])} />`}`;
}

export function MoreFields({ state, setState }) {
  return html`<div class="record-more">
    <${SelectField} label="Keys as" value=${state.keys} onChange=${(keys) => setState({ keys })} options=${FORMATS} />
    <${SelectField} label="Values as" value=${state.values} onChange=${(values) => setState({ values })} options=${FORMATS} />
    <${SelectField} label="Records of open transactions" value=${state.isolation} onChange=${(isolation) => setState({ isolation })} options=${[["committed", "Hidden, as read_committed"], ["uncommitted", "Shown, as read_uncommitted"]]} />
    <${CheckField} label="Aborted records" checked=${state.aborted || (state.isolation === "uncommitted" && state.mode !== "live")} disabled=${state.isolation === "uncommitted"} onChange=${(aborted) => setState({ aborted })} />
    <${CheckField} label="Control records" checked=${state.control} onChange=${(control) => setState({ control })} />
  </div>`;
}

// The numbers that a text such as "0, 3-5" names; null if it is none.
export function partitionsOf(text, there) {
  const found = [];
  for (const part of text.split(",").map((each) => each.trim()).filter(Boolean)) {
    const range = /^(\d+)(?:\s*-\s*(\d+))?$/.exec(part);
    if (!range) return null;
    const [first, last] = [Number(range[1]), Number(range[2] ?? range[1])];
    if (last < first || last - first > 10_000) return null;
    for (let number = first; number <= last; number += 1) found.push(number);
  }
  return found.length === there.length && there.every((number) => found.includes(number)) ? [] : found;
}
