// What topics are set to, as people read it.
import { bytes, count, duration, UNKNOWN } from "../format.js";

const LONG_MAX = "9223372036854775807";
const INT_MAX = "2147483647";
const NO_LIMIT = "no limit";

export function retentionText(ms) {
  if (ms === null || ms === undefined) return UNKNOWN;
  return ms < 0 ? "for ever" : duration(ms);
}

// The value of a config in a unit that people read, or null where it says all itself.
export function readableValue(name, value) {
  if (value === null || !/^-?\d+$/.test(value)) return null;
  if (value === LONG_MAX || value === INT_MAX) return NO_LIMIT;
  const number = Number(value);
  if (/\.(ms|bytes)$/.test(name) && number === -1) return NO_LIMIT;
  if (number < 0) return null;
  if (name.endsWith(".ms") && number >= 1000) return duration(number);
  if (/\.bytes(\.max)?$/.test(name) && number >= 1024) return bytes(number);
  return Math.abs(number) >= 10_000 ? count(number) : null;
}
