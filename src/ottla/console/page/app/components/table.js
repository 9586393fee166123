// Tables. A column is { id, label, cell: (row) => …, align: "end" for numbers, isSortable, value: (row) => what sorts,
// title: what the heading means, isWrapped: long texts break }.
import { html, useMemo } from "../../vendor/preact.js";
import { useAnswer } from "../api.js";
import { count } from "../format.js";
import { searchOf, useQuery } from "../router.js";
import { IconButton } from "./button.js";
import { Empty, Loading } from "./empty.js";
import { SearchField, SelectField } from "./field.js";
import { Icon } from "./icons.js";
import { Problem, Problems } from "./problems.js";
import { useSteadyRows } from "./steady_rows.js";

const PAGE_SIZES = [25, 50, 100, 250, 500];
const PAGE_SIZE = 50;

// The plain one: `sort` and `order` say how the rows are sorted, `onSort(id, order)` asks for another order.
// Rows keep their places while they are read; `version` says when the user asked for others.
export function Table({ caption, columns, rows: found, rowKey, sort, order, onSort, empty, rowClass, version = "" }) {
  const { rows, gone, listeners } = useSteadyRows(found, rowKey, `${version} ${sort} ${order}`);
  const classOf = (row, index) => [rowClass?.(row), gone.has(rowKey(row, index)) && "row-gone"].filter(Boolean).join(" ") || undefined;
  return html`<div class="table-scroll" role="region" aria-label=${caption} tabindex="0">
    <table class="table">
      <caption class="visually-hidden">${caption}</caption>
      <thead><tr>${columns.map((column) => html`<${Heading} key=${column.id} ...${{ column, sort, order, onSort }} />`)}</tr></thead>
      <tbody ...${listeners}>
        ${rows.map((row, index) => html`<tr key=${rowKey(row, index)} class=${classOf(row, index)}>${columns.map((column, at) => cellOf(column, row, at))}</tr>`)}
        ${rows.length === 0 && html`<tr class="table-none"><td colspan=${columns.length}>${empty ?? html`<${Empty} title="Nothing here" />`}</td></tr>`}
      </tbody>
    </table>
  </div>`;
}

export const cellClass = (column) => [column.align === "end" && "end", column.isWrapped && "wrapped", column.isMono && "mono"].filter(Boolean).join(" ") || undefined;

const cellOf = (column, row, index) =>
  index === 0 ? html`<th scope="row" class=${cellClass(column)}>${column.cell(row)}</th>` : html`<td class=${cellClass(column)}>${column.cell(row)}</td>`;

function Heading({ column, sort, order, onSort }) {
  const label = column.title ? html`<abbr title=${column.title}>${column.label}</abbr>` : column.label;
  if (!onSort || !column.isSortable) return html`<th scope="col" class=${cellClass(column)}>${label}</th>`;
  const isSorted = sort === column.id;
  const next = isSorted && order === "asc" ? "desc" : isSorted ? "asc" : (column.firstOrder ?? (column.align === "end" ? "desc" : "asc"));
  const direction = isSorted ? (order === "asc" ? "ascending" : "descending") : undefined;
  return html`<th scope="col" class=${cellClass(column)} aria-sort=${direction}>
    <button type="button" class="sort" onClick=${() => onSort(column.id, next)}>${label}${isSorted && html`<${Icon} name=${order === "asc" ? "up" : "down"} />`}</button>
  </th>`;
}

// A table whose server sorts, filters and cuts into pages; its state is in the address. The answer of `path` has `rows`
// (or the field that `rowsOf` picks), `total` and `problems`. `filters` are more fields for the server:
// { defaults: { internal: false }, draw: (state, setState, answer) => … }.
export function ServerTable({ path, query = {}, caption, columns, rowKey, rowsOf = (answer) => answer.rows, sort, order = "asc", search, filters, empty, live = true, prefix = "", rowClass, children }) {
  const defaults = { q: "", sort, order, offset: 0, limit: PAGE_SIZE, ...filters?.defaults };
  const [state, setState] = useQuery(defaults, { prefix });
  const { answer, problem, isLoading, reload } = useAnswer(path, { ...query, ...state }, { live });
  const filter = (changes) => setState({ ...changes, offset: 0 }, { replace: true });
  const isFiltered = Object.keys(defaults).some((name) => !["sort", "order", "offset", "limit"].includes(name) && state[name] !== defaults[name]);
  return html`<div class="table-block" aria-busy=${isLoading ? "true" : undefined}>
    <div class="toolbar">
      ${search && html`<${SearchField} label=${search} value=${state.q} onSearch=${(q) => filter({ q })} />`}
      ${filters?.draw(state, filter, answer)}
      <div class="toolbar-end">${children}</div>
    </div>
    <${Problem} problem=${problem} onRetry=${reload} />
    <${Problems} problems=${answer?.problems} />
    ${!answer && !problem && html`<${Loading} lines=${8} />`}
    ${answer &&
    html`<${Table} ...${{ caption, columns, rowKey, rowClass }} rows=${rowsOf(answer)} version=${isLoading ? "" : searchOf({ ...query, ...state })} sort=${state.sort} order=${state.order}
        onSort=${(id, next) => setState({ sort: id, order: next, offset: 0 })}
        empty=${isFiltered ? html`<${Empty} icon="search" title="Nothing fits the search">Change the search or the filters.</${Empty}>` : empty} />
      <${Pager} total=${answer.total} offset=${state.offset} limit=${state.limit} onMove=${(changes) => setState(changes)} />`}
  </div>`;
}

// The same look for rows that the page has already: sorted and cut here.
export function LocalTable({ caption, columns, rows, rowKey, sort, order = "asc", empty, prefix = "", pageSize = 100, rowClass }) {
  const [state, setState] = useQuery({ sort, order, offset: 0 }, { prefix });
  const sorted = useMemo(() => sortedBy(rows, columns, state), [rows, state.sort, state.order]);
  return html`<${Table} ...${{ caption, columns, rowKey, empty, rowClass }} rows=${sorted.slice(state.offset, state.offset + pageSize)} sort=${state.sort} order=${state.order}
      onSort=${(id, next) => setState({ sort: id, order: next, offset: 0 })} />
    ${rows.length > pageSize && html`<${Pager} total=${rows.length} offset=${state.offset} limit=${pageSize} onMove=${(changes) => setState(changes)} isFixed />`}`;
}

function sortedBy(rows, columns, { sort, order }) {
  const column = columns.find((each) => each.id === sort);
  if (!column) return rows;
  const value = column.value ?? ((row) => row[column.id]);
  const sign = order === "desc" ? -1 : 1;
  return [...rows].sort((one, other) => compare(value(one), value(other), sign));
}

// What is not known stands at the end, whatever the order.
function compare(one, other, sign) {
  const isNone = (value) => value === null || value === undefined;
  if (isNone(one) || isNone(other)) return Number(isNone(one)) - Number(isNone(other));
  if (typeof one === "string" && typeof other === "string") return sign * one.localeCompare(other, "en", { numeric: true });
  return sign * (Number(one) - Number(other));
}

function Pager({ total, offset, limit, onMove, isFixed = false }) {
  if (total <= limit && offset === 0 && (isFixed || limit === PAGE_SIZE)) return total ? html`<div class="pager"><span class="muted">${count(total)} in all</span></div>` : null;
  const lastOffset = Math.max(0, Math.floor((total - 1) / limit) * limit);
  const move = (to) => onMove({ offset: Math.max(0, Math.min(to, lastOffset)) });
  const [from, to] = [Math.min(offset + 1, total), Math.min(offset + limit, total)];
  const isFirst = offset === 0;
  const isLast = offset + limit >= total;
  return html`<nav class="pager" aria-label="Pages">
    ${!isFixed && html`<${SelectField} label="Rows on a page" isLabelHidden value=${String(limit)} onChange=${(size) => onMove({ limit: Number(size), offset: 0 })} options=${sizes(limit).map((size) => [String(size), `${size} a page`])} />`}
    <span class="pager-place">${count(from)}–${count(to)} of ${count(total)}</span>
    <span class="pager-buttons">
      <${IconButton} icon="first" label="First page" disabled=${isFirst} onClick=${() => move(0)} />
      <${IconButton} icon="previous" label="Previous page" disabled=${isFirst} onClick=${() => move(offset - limit)} />
      <${IconButton} icon="next" label="Next page" disabled=${isLast} onClick=${() => move(offset + limit)} />
      <${IconButton} icon="last" label="Last page" disabled=${isLast} onClick=${() => move(lastOffset)} />
    </span>
  </nav>`;
}

const sizes = (limit) => (PAGE_SIZES.includes(limit) ? PAGE_SIZES : [...PAGE_SIZES, limit].sort((one, other) => one - other));
