// What a search or the live tail finds, as the page holds it: a buffer of rows, and how far it is.
import { useCallback, useEffect, useRef, useState } from "../../vendor/preact.js";
import { readEvents } from "./event_stream.js";
import { RowBuffer } from "./row_buffer.js";

const RETRY_MS = 1500;
const RATE_MS = 3000;

const IDLE = { address: null, isRunning: false, progress: null, ended: null, problem: null };

// `query` null searches nothing. Returns the rows, the state, `stop()` and `goOn()`.
export function useSearch(path, query, isNewestFirst) {
  const buffer = useRef(new RowBuffer()).current;
  const asking = useRef(null);
  const [state, setState] = useState(IDLE);
  const [, draw] = useState(0);
  const address = query && JSON.stringify([path, query]);

  const run = useCallback(
    async (cursor) => {
      asking.current?.abort();
      const mine = (asking.current = new AbortController());
      const isMine = () => asking.current === mine;
      if (!cursor) buffer.clear();
      const before = cursor ? state.ended?.before ?? state.ended?.progress : null;
      setState({ ...IDLE, address, isRunning: true });
      try {
        await readEvents(path, { ...query, cursor }, mine.signal, (name, data) => {
          if (!isMine()) return;
          if (name === "records") {
            buffer.add(data.rows);
            if (cursor) buffer.sort(isNewestFirst);
            draw((number) => number + 1);
          } else if (name === "progress") setState((last) => ({ ...last, progress: data }));
          else if (name === "ended") setState({ ...IDLE, address, progress: data.progress, ended: { ...data, before } });
        });
        if (isMine()) setState((last) => (last.isRunning ? { ...last, isRunning: false, problem: last.problem } : last));
      } catch (problem) {
        if (problem.name !== "AbortError" && isMine()) setState((last) => ({ ...last, isRunning: false, problem }));
      }
    },
    [address],
  );
  useEffect(() => {
    if (address) run(null);
    return () => asking.current?.abort();
  }, [run]);

  const stop = () => {
    asking.current?.abort();
    setState((last) => ({ ...last, isRunning: false, ended: { reason: "stopped", progress: last.progress, cursor: [] } }));
  };
  // What is asked with the next effect runs already: the page does not say in between that it has found nothing.
  const isRunning = query !== null && (state.isRunning || state.address !== address);
  return { rows: buffer, ...state, isRunning, stop, goOn: () => run(state.ended.cursor), again: () => run(null) };
}

const START = { isOpen: false, isPaused: false, problem: null, received: 0, scanned: 0, skippedRows: 0, skippedOffsets: 0, rate: 0 };

// The live tail. A pause keeps the place: afterwards it goes on there, unless that is too far behind. So does a stream
// that broke off.
export function useLiveTail(path, query) {
  const buffer = useRef(new RowBuffer()).current;
  const [state, setState] = useState(START);
  const [isPaused, setPaused] = useState(false);
  const places = useRef(new Map());
  const counts = useRef({ ...START });
  const times = useRef([]);
  const address = query && JSON.stringify([path, query]);

  useEffect(() => {
    buffer.clear();
    places.current = new Map();
    counts.current = { ...START };
    times.current = [];
    setState(START);
    setPaused(false);
  }, [address]);

  useEffect(() => {
    if (!address || isPaused) return undefined;
    const mine = new AbortController();
    let frame = 0;
    let timer = 0;
    const draw = () => {
      frame = 0;
      setState((last) => ({ ...last, ...counts.current, isOpen: true, problem: null, rate: rateOf(times.current) }));
    };
    const take = (name, batch) => {
      if (name !== "records") return;
      buffer.add(batch.rows);
      for (const [partition, offset] of Object.entries(batch.positions)) places.current.set(partition, offset);
      const found = counts.current;
      found.received += batch.rows.length;
      found.scanned += batch.scanned_count;
      found.skippedRows += batch.skipped_row_count;
      found.skippedOffsets += batch.skipped_offset_count;
      times.current.push([performance.now(), batch.rows.length + batch.skipped_row_count]);
      // Whatever comes in, the page is drawn once in a frame.
      frame ||= requestAnimationFrame(draw);
    };
    const run = async () => {
      try {
        await readEvents(path, { ...query, cursor: cursorOf(places.current) }, mine.signal, take);
        if (!mine.signal.aborted) timer = setTimeout(run, RETRY_MS);
      } catch (problem) {
        if (problem.name === "AbortError") return;
        setState((last) => ({ ...last, isOpen: false, problem }));
        // What was refused will be refused again; a console or a cluster that is gone may come back.
        if (problem.status < 400 || problem.status >= 500) timer = setTimeout(run, RETRY_MS);
      }
    };
    run();
    const clock = setInterval(() => setState((last) => ({ ...last, rate: rateOf(times.current) })), 1000);
    return () => {
      mine.abort();
      clearTimeout(timer);
      clearInterval(clock);
      cancelAnimationFrame(frame);
    };
  }, [address, isPaused]);

  const clear = () => {
    buffer.clear();
    setState((last) => ({ ...last }));
  };
  return { rows: buffer, ...state, isPaused, setPaused, clear };
}

function rateOf(times) {
  const since = performance.now() - RATE_MS;
  while (times.length && times[0][0] < since) times.shift();
  return (times.reduce((sum, [, number]) => sum + number, 0) * 1000) / RATE_MS;
}

function cursorOf(places) {
  const pairs = [...places].map(([partition, offset]) => `${partition}:${offset}`);
  const cursor = [];
  for (let at = 0; at < pairs.length; at += 100) cursor.push(pairs.slice(at, at + 100).join(","));
  return cursor;
}
