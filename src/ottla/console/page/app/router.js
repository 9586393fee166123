// Paths of the History API. What a view shows is in the query, so that every state has an address.
import { useCallback, useMemo } from "../vendor/preact.js";
import { Store, useStore } from "./store.js";

const here = () => ({ path: location.pathname, search: location.search });
const place = new Store(here());

export const useRoute = () => useStore(place);

export function navigate(address, { replace = false } = {}) {
  const target = new URL(address, location.href);
  if (target.href === location.href) return;
  const isElsewhere = target.pathname !== location.pathname;
  history[replace ? "replaceState" : "pushState"](null, "", target);
  if (isElsewhere) window.scrollTo(0, 0);
  place.set(here());
}

// An address of a view: its segments are encoded, and values of the query that are empty are left out.
export function address(segments, query = {}) {
  const path = "/" + segments.map(encodeURIComponent).join("/");
  const search = searchOf(query);
  return search ? `${path}?${search}` : path;
}

export function searchOf(query) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === "" || value === false) continue;
    for (const each of Array.isArray(value) ? value : [value]) given.append(name, String(each));
  }
  return given.toString();
}

// The state of a view that is in the query: `const [state, setState] = useQuery({ q: "", partition: 0, live: false })`.
// A default says the type (text, number, yes or no, list of texts), and is not written into the address. Two parts of
// a view that have the same names take a prefix.
export function useQuery(defaults, { prefix = "" } = {}) {
  const { search } = useRoute();
  const state = useMemo(() => readQuery(search, defaults, prefix), [search, prefix]);
  const setState = useCallback(
    (changes, options) => navigate(`${location.pathname}?${changed(defaults, changes, prefix)}`, options),
    [prefix],
  );
  return [state, setState];
}

function readQuery(search, defaults, prefix) {
  const given = new URLSearchParams(search);
  const state = {};
  for (const [name, fallback] of Object.entries(defaults)) {
    const values = given.getAll(prefix + name);
    state[name] = values.length ? typed(values, fallback) : fallback;
  }
  return state;
}

function typed(values, fallback) {
  if (Array.isArray(fallback)) return values;
  const [text] = values;
  if (typeof fallback === "boolean") return text === "true";
  if (typeof fallback === "number") return Number.isFinite(Number(text)) ? Number(text) : fallback;
  return text;
}

function changed(defaults, changes, prefix) {
  const given = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    given.delete(prefix + name);
    const isDefault = JSON.stringify(value) === JSON.stringify(defaults[name]);
    if (isDefault || value === undefined || value === null) continue;
    for (const each of Array.isArray(value) ? value : [value]) given.append(prefix + name, String(each));
  }
  return given.toString();
}

// Links are plain <a href>: a click with no modifier stays in the page, everything else is the browser's.
export function followLinks() {
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target.closest("a[href]");
    if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
    if (link.pathname.startsWith("/api/") || (link.hash && link.pathname === location.pathname)) return;
    event.preventDefault();
    navigate(link.href);
  });
  window.addEventListener("popstate", () => place.set(here()));
}
