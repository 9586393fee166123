// How subjects, formats and levels are called and drawn.
import { html } from "../../vendor/preact.js";
import { Badge } from "../components/badge.js";
import { UNKNOWN } from "../format.js";
import { address } from "../router.js";

export const subjectAddress = (name, query) => address(["schemas", "subjects", name], query);

const TYPES = { AVRO: "Avro", JSON: "JSON Schema", PROTOBUF: "Protobuf" };

export const TypeBadge = ({ type }) => (type === null ? html`<span class="muted">${UNKNOWN}</span>` : html`<${Badge}>${TYPES[type] ?? type}</${Badge}>`);

export const LevelBadge = ({ level }) => (level === null ? html`<span class="muted">as for all</span>` : html`<${Badge} kind=${level === "NONE" ? "warn" : "info"}>${level}</${Badge}>`);

export const LEVELS = [
  ["BACKWARD", "BACKWARD: new readers read the last version's records"],
  ["BACKWARD_TRANSITIVE", "BACKWARD_TRANSITIVE: new readers read all versions' records"],
  ["FORWARD", "FORWARD: readers of the last version read new records"],
  ["FORWARD_TRANSITIVE", "FORWARD_TRANSITIVE: readers of all versions read new records"],
  ["FULL", "FULL: both, with the last version"],
  ["FULL_TRANSITIVE", "FULL_TRANSITIVE: both, with all versions"],
  ["NONE", "NONE: nothing is compared"],
];

export const MODES = [
  ["READWRITE", "READWRITE: schemas may be registered"],
  ["READONLY", "READONLY: nothing may be registered or deleted"],
  ["IMPORT", "IMPORT: schemas come with their ids from another registry"],
];
