// A table of any length: only the rows that are seen are in the document. All rows have the same height.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../../vendor/preact.js";
import { cellClass } from "./table.js";

const ROW_HEIGHT = 32;
const MARGIN_ROWS = 10;

// `rows` is an array, or `{ length, at(index) }`. `selected` is the key of the row that is open; `onSelect(row, index)`
// is called by a click, and by Enter on the row that the arrow keys reached. With `isFollowing` the end stays in sight;
// `onFollow(false)` tells that the user scrolled away, `onFollow(true)` that the end is reached again.
export function VirtualTable({ caption, columns, rows, rowKey, selected, onSelect, rowClass, isFollowing = false, onFollow, empty }) {
  const scroller = useRef(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const [active, setActive] = useState(-1);
  const total = rows.length;

  useLayoutEffect(() => {
    const element = scroller.current;
    const measure = () => setView({ top: element.scrollTop, height: element.clientHeight });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (isFollowing) scroller.current.scrollTop = total * ROW_HEIGHT;
  }, [isFollowing, total]);
  useEffect(() => {
    if (active >= total) setActive(total - 1);
  }, [total]);

  const scroll = (event) => {
    const { scrollTop, clientHeight, scrollHeight } = event.currentTarget;
    setView({ top: scrollTop, height: clientHeight });
    const isAtEnd = scrollTop + clientHeight >= scrollHeight - ROW_HEIGHT;
    if (onFollow && isAtEnd !== isFollowing) onFollow(isAtEnd);
  };
  const reveal = (index) => {
    const element = scroller.current;
    const top = index * ROW_HEIGHT;
    const room = element.clientHeight - 2 * ROW_HEIGHT;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top > element.scrollTop + room) element.scrollTop = top - room;
  };
  const key = (event) => {
    const page = Math.max(1, Math.floor(view.height / ROW_HEIGHT) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -total, End: total };
    if (event.key in steps && total) {
      const next = Math.min(total - 1, Math.max(0, active + steps[event.key]));
      setActive(next);
      reveal(next);
    } else if (event.key === "Enter" && active >= 0) onSelect?.(rowAt(rows, active), active);
    else return;
    event.preventDefault();
  };

  const first = Math.max(0, Math.floor(view.top / ROW_HEIGHT) - MARGIN_ROWS);
  const end = Math.min(total, first + Math.ceil(view.height / ROW_HEIGHT) + 2 * MARGIN_ROWS);
  const shown = [];
  for (let index = first; index < end; index += 1) shown.push(index);
  return html`<div class="virtual" ref=${scroller} role="region" aria-label=${caption} tabindex="0" onScroll=${scroll} onKeyDown=${key}>
    <table class="table virtual-table" aria-rowcount=${total + 1}>
      <caption class="visually-hidden">${caption}</caption>
      <thead><tr aria-rowindex="1">${columns.map((column) => html`<th key=${column.id} scope="col" class=${cellClass(column)} style=${column.width ? { width: column.width } : undefined}>${column.label}</th>`)}</tr></thead>
      <tbody>
        <${Space} height=${first * ROW_HEIGHT} columns=${columns.length} />
        ${shown.map((index) => {
          const row = rowAt(rows, index);
          const id = rowKey(row, index);
          const names = [rowClass?.(row), index === active && "row-active", onSelect && "row-link"].filter(Boolean).join(" ");
          const choose = () => {
            setActive(index);
            onSelect?.(row, index);
          };
          return html`<tr key=${id} class=${names || undefined} aria-rowindex=${index + 2} aria-current=${id === selected ? "true" : undefined} onClick=${onSelect && choose}>
            ${columns.map((column) => html`<td class=${cellClass(column)}>${column.cell(row, index)}</td>`)}
          </tr>`;
        })}
        <${Space} height=${(total - end) * ROW_HEIGHT} columns=${columns.length} />
      </tbody>
    </table>
    ${total === 0 && empty}
  </div>`;
}

const rowAt = (rows, index) => (Array.isArray(rows) ? rows[index] : rows.at(index));

// What is not drawn keeps its place.
const Space = ({ height, columns }) =>
  height > 0 ? html`<tr class="virtual-space" aria-hidden="true" style=${{ height: `${height}px` }}><td colspan=${columns}></td></tr>` : null;
