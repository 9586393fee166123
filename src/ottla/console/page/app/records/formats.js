// The names of formats, marks and bounds, as people read them.
import { bytes } from "../format.js";

export const FORMATS = [
  ["auto", "Automatic"],
  ["text", "Text"],
  ["json", "JSON"],
  ["schema", "By its schema"],
  ["hex", "Hex"],
  ["base64", "Base64"],
  ["integer", "Integer"],
  ["float", "Float"],
  ["arrow", "Arrow"],
];

export const FORMAT_NAMES = { null: "null", empty: "empty", text: "text", json: "JSON", avro: "Avro", protobuf: "Protobuf", json_schema: "JSON Schema", arrow: "Arrow", internal: "internal", integer: "integer", float: "float", hex: "bytes", base64: "bytes" };

// [kind of badge, word, what it means]
export const MARKS = {
  control: ["info", "control", "A control record: it ends a transaction, and consumers do not see it"],
  aborted: ["bad", "aborted", "Of an aborted transaction: readers of committed records do not see it"],
  unstable: ["warn", "held back", "Behind the last stable offset: of an open transaction, or behind one; readers of committed records do not see it yet"],
};

export const REASONS = {
  limit: "as many as asked for",
  end: "all of the range",
  records: "the bound of scanned records is reached",
  bytes: "the bound of scanned bytes is reached",
  seconds: "the bound of time is reached",
};

export const sizeOf = (field) => (field.size_bytes === null ? "null" : bytes(field.size_bytes));
