// The JSON API. A failure is an ApiProblem with a sentence and, where there is one, an advice.
import { useCallback, useEffect, useRef, useState } from "../vendor/preact.js";
import { onSnapshot } from "./live.js";
import { searchOf } from "./router.js";
import { expire, session } from "./session.js";

export class ApiProblem extends Error {
  constructor(status, message, advice) {
    super(message);
    this.status = status;
    this.advice = advice;
  }
}

export const apiAddress = (path, query = {}) => {
  const search = searchOf(query);
  return search ? `${path}?${search}` : path;
};

export const get = (path, query, signal) => request("GET", apiAddress(path, query), undefined, signal);

// A change: POST, PUT, PATCH or DELETE. The token shows that the request is the page's own.
export const change = (method, path, body, query) => request(method, apiAddress(path, query), body);

async function request(method, address, body, signal) {
  const headers = { accept: "application/json" };
  if (method !== "GET" && session.value?.token) headers["x-csrf-token"] = session.value.token;
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(address, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiProblem(0, "The console does not answer.", "It may have been stopped; the page tries again.");
  }
  if (response.status === 204) return null;
  const answer = await response.json().catch(() => null);
  if (response.ok) return answer;
  if (response.status === 401) expire();
  throw new ApiProblem(response.status, answer?.error ?? `The console answered ${response.status}.`, answer?.advice);
}

// What a view shows: asked when the view opens, when the query changes, and with `live` after each poll of the cluster.
// The last answer stays on the page while the next one is awaited. `path` null asks nothing. `live` asks again after each
// look at the cluster; a function decides that by the last answer.
export function useAnswer(path, query = {}, { live = false } = {}) {
  const address = path === null ? null : apiAddress(path, query);
  const [state, setState] = useState({ answer: null, problem: null, address: null });
  const asking = useRef(null);
  const isLive = useRef(null);
  isLive.current = () => (typeof live === "function" ? state.answer === null || live(state.answer) : live);

  const reload = useCallback(async () => {
    if (address === null) return;
    asking.current?.abort();
    const mine = (asking.current = new AbortController());
    const store = (found) => asking.current === mine && setState((last) => ({ ...last, ...found, address }));
    try {
      store({ answer: await request("GET", address, undefined, mine.signal), problem: null });
    } catch (problem) {
      if (problem.name !== "AbortError") store({ problem });
    } finally {
      if (asking.current === mine) asking.current = null;
    }
  }, [address]);

  useEffect(() => {
    reload();
    return () => {
      asking.current?.abort();
      asking.current = null;
    };
  }, [reload]);
  // A poll that comes while the last answer is awaited is skipped: a slow console is not asked more.
  useEffect(() => (live ? onSnapshot(() => asking.current === null && isLive.current() && reload()) : undefined), [Boolean(live), reload]);

  const isCurrent = state.address === address;
  return {
    answer: state.answer,
    problem: isCurrent ? state.problem : null,
    isLoading: address !== null && !isCurrent,
    reload,
  };
}
