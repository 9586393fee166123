// Numbers, sizes, rates and times as people read them. Null and undefined are a dash: the cluster does not tell.
export const UNKNOWN = "–";

const counts = new Intl.NumberFormat("en");
const shorts = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

const isNothing = (value) => value === null || value === undefined || Number.isNaN(value);

export const count = (value) => (isNothing(value) ? UNKNOWN : counts.format(value));

export const shortCount = (value) => (isNothing(value) ? UNKNOWN : Math.abs(value) < 10_000 ? counts.format(Math.round(value)) : shorts.format(value));

export function bytes(value) {
  if (isNothing(value)) return UNKNOWN;
  let size = Math.abs(value);
  let unit = 0;
  while (size >= 1024 && unit < BYTES.length - 1) {
    size /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return `${value < 0 ? "−" : ""}${size.toFixed(digits)} ${BYTES[unit]}`;
}

export function rate(value) {
  if (isNothing(value)) return UNKNOWN;
  if (value > 0 && value < 10) return value.toFixed(value < 1 ? 2 : 1);
  return shortCount(value);
}

export const bytesRate = (value) => (isNothing(value) ? UNKNOWN : `${bytes(value)}/s`);

export const percent = (share) => (isNothing(share) ? UNKNOWN : `${(share * 100).toFixed(share < 0.1 && share > 0 ? 1 : 0)}%`);

const STEPS = [
  [86_400_000, "d", 3_600_000, "h"],
  [3_600_000, "h", 60_000, "min"],
  [60_000, "min", 1000, "s"],
];

// 532 µs, 12 ms, 3.4 s, 2 min 5 s, 3 h 12 min, 4 d 2 h
export function duration(ms) {
  if (isNothing(ms)) return UNKNOWN;
  const size = Math.abs(ms);
  if (size < 1 && size > 0) return `${Math.round(size * 1000)} µs`;
  if (size < 1000) return `${size < 10 && size % 1 ? size.toFixed(1) : Math.round(size)} ms`;
  if (size < 60_000) return `${size < 10_000 ? Number((size / 1000).toFixed(1)) : Math.floor(size / 1000)} s`;
  for (const [large, largeName, small, smallName] of STEPS) {
    if (size < large) continue;
    const rest = Math.floor((size % large) / small);
    return `${Math.floor(size / large)} ${largeName}${rest ? ` ${rest} ${smallName}` : ""}`;
  }
  return UNKNOWN;
}

export function ago(ms, now = Date.now()) {
  const age = now - ms;
  if (Math.abs(age) < 1000) return "now";
  const text = duration(age < 60_000 ? Math.floor(Math.abs(age) / 1000) * 1000 : Math.abs(age));
  return age < 0 ? `in ${text}` : `${text} ago`;
}

const pad = (value, length = 2) => String(value).padStart(length, "0");

// 2026-11-18 23:04:05.123 in the browser's time zone
export function timestamp(ms) {
  if (isNothing(ms)) return UNKNOWN;
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return String(ms);
  const day = `${pad(at.getFullYear(), 4)}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  return `${day} ${clock(ms)}.${pad(at.getMilliseconds(), 3)}`;
}

export function clock(ms) {
  const at = new Date(ms);
  return `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
