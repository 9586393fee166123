// Rows that stay where they are while somebody reads them: as long as the pointer is over them or the focus is in
// them, no row moves or vanishes; new ones come at the end. Their values go on changing.
import { useRef, useState } from "../../vendor/preact.js";

// `version` is what the user chose (order, page, filters): another one draws anew. Gives the rows to draw, the keys of
// those that are not there any more, and what the <tbody> listens to.
export function useSteadyRows(rows, rowKey, version) {
  const [isPointed, setPointed] = useState(false);
  const [isFocused, setFocused] = useState(false);
  const drawn = useRef({ version: null, rows: new Map() });
  const found = new Map(rows.map((row, index) => [rowKey(row, index), row]));
  const gone = new Set();
  let shown = found;
  if ((isPointed || isFocused) && drawn.current.version === version) {
    shown = new Map(drawn.current.rows);
    for (const [key, row] of shown) {
      if (found.has(key)) shown.set(key, found.get(key));
      else gone.add(key), shown.set(key, row);
    }
    for (const [key, row] of found) shown.set(key, row);
  }
  drawn.current = { version, rows: shown };
  const listeners = {
    onPointerEnter: (event) => event.pointerType === "mouse" && setPointed(true),
    onPointerLeave: () => setPointed(false),
    onFocusIn: () => setFocused(true),
    onFocusOut: (event) => !event.currentTarget.contains(event.relatedTarget) && setFocused(false),
  };
  return { rows: [...shown.values()], gone, listeners };
}
