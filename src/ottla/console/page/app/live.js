// One stream of server-sent events for the whole page: it connects again by itself, and pauses in hidden tabs, because
// a browser allows few connections to one server, and because nobody looks.
import { useEffect } from "../vendor/preact.js";
import { Store, useStore } from "./store.js";

const MIN_DELAY_MS = 500;
const MAX_DELAY_MS = 10_000;
const HIDDEN_MS = 10_000;

// heardAt: when the newest snapshot came, by the clock of this machine, which may differ from the console's (atMs).
// connection: connecting | open | lost (the console does not answer); cluster: unknown | connected | unreachable.
const START = { connection: "connecting", lostAt: null, cluster: "unknown", unreachableSince: null, reason: null, version: 0, atMs: null, heardAt: null };
export const live = new Store(START);

export const useLive = () => useStore(live);

const listeners = new Map();
let source = null;
let delay = MIN_DELAY_MS;
let timer = 0;

export function startLive() {
  connect();
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (!document.hidden) connect();
    else timer = setTimeout(disconnect, HIDDEN_MS);
  });
}

function connect() {
  clearTimeout(timer);
  if (source) return;
  source = new EventSource("/api/live");
  source.onopen = () => {
    delay = MIN_DELAY_MS;
    live.update({ connection: "open", lostAt: null });
  };
  source.onerror = () => {
    disconnect();
    live.update({ connection: "lost", lostAt: live.value.lostAt ?? Date.now() });
    timer = setTimeout(connect, delay);
    delay = Math.min(delay * 2, MAX_DELAY_MS);
  };
  for (const name of listeners.keys()) hear(name);
}

function disconnect() {
  source?.close();
  source = null;
}

function hear(name) {
  source?.addEventListener(name, (event) => {
    const data = JSON.parse(event.data);
    for (const listener of [...(listeners.get(name) ?? [])]) listener(data);
  });
}

// Calls the listener with the data of each event of a name; returns what ends it.
export function onEvent(name, listener) {
  if (!listeners.has(name)) {
    listeners.set(name, new Set());
    hear(name);
  }
  listeners.get(name).add(listener);
  return () => listeners.get(name).delete(listener);
}

// The same for components: `useEvent("rebalance", (event) => …)`.
export function useEvent(name, listener, dependencies = []) {
  useEffect(() => onEvent(name, listener), [name, ...dependencies]);
}

// After each poll of the cluster, and when the console answers again.
export const onSnapshot = (listener) => onEvent("snapshot", listener);

onEvent("snapshot", (found) => {
  const isUp = found.state === "connected";
  live.update({
    cluster: found.state,
    reason: found.reason ?? null,
    unreachableSince: isUp ? null : found.since_ms,
    version: found.version ?? live.value.version,
    atMs: found.at_ms ?? live.value.atMs,
    heardAt: Date.now(),
  });
});
