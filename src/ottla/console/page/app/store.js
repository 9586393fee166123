// A value that components share: they draw again when it changes.
import { useEffect, useState } from "../vendor/preact.js";

export class Store {
  #listeners = new Set();

  constructor(value) {
    this.value = value;
  }

  set(value) {
    this.value = value;
    for (const listener of [...this.#listeners]) listener(value);
  }

  update(changes) {
    this.set({ ...this.value, ...changes });
  }

  listen(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

export function useStore(store) {
  const [, draw] = useState(0);
  useEffect(() => {
    draw((times) => times + 1); // for what changed between drawing and listening
    return store.listen(() => draw((times) => times + 1));
  }, [store]);
  return store.value;
}
