// Times: relative, with the absolute one in the title; one clock for all of them.
import { html, useEffect } from "../../vendor/preact.js";
import { ago, duration, timestamp, UNKNOWN } from "../format.js";
import { Store, useStore } from "../store.js";

const now = new Store(Date.now());
let watchers = 0;
let timer = 0;

// The time, every second while a component looks.
export function useNow() {
  useEffect(() => {
    watchers += 1;
    if (watchers === 1) timer = setInterval(() => document.hidden || now.set(Date.now()), 1000);
    return () => {
      watchers -= 1;
      if (watchers === 0) clearInterval(timer);
    };
  }, []);
  useStore(now);
  return Date.now();
}

export function RelativeTime({ ms }) {
  const at = useNow();
  if (ms === null || ms === undefined || ms < 0) return html`<span>${UNKNOWN}</span>`;
  return html`<time datetime=${isoTime(ms)} title=${timestamp(ms)}>${ago(ms, at)}</time>`;
}

// How long something has lasted that began at a time, counting on.
export function Age({ sinceMs }) {
  const at = useNow();
  if (sinceMs === null || sinceMs === undefined) return html`<span>${UNKNOWN}</span>`;
  const age = Math.max(0, Math.floor((at - sinceMs) / 1000) * 1000);
  return html`<time datetime=${isoTime(sinceMs)} title=${`since ${timestamp(sinceMs)}`}>${duration(age)}</time>`;
}

function isoTime(ms) {
  const at = new Date(ms);
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}
