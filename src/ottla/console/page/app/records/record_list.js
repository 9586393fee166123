// The list of records: any number of them, one of which may be open.
import { html, useEffect, useState } from "../../vendor/preact.js";
import { Badge } from "../components/badge.js";
import { VirtualTable } from "../components/virtual_table.js";
import { bytes, count, timestamp } from "../format.js";
import { FieldText } from "./field_text.js";
import { MARKS } from "./formats.js";
import { inOneLine } from "./odd_characters.js";
import { keyOf } from "./row_buffer.js";

const TIME = { id: "time", label: "Time", width: "206px", isMono: true, cell: (row) => timestamp(row.timestamp_ms) };
const CLOCK = { id: "time", label: "Time", width: "122px", isMono: true, cell: (row) => html`<span title=${timestamp(row.timestamp_ms)}>${timestamp(row.timestamp_ms).slice(-12)}</span>` };
const PARTITION = { id: "partition", label: "Part.", width: "60px", align: "end", cell: (row) => row.partition };
const OFFSET = { id: "offset", label: "Offset", width: "96px", align: "end", cell: (row) => html`<span class="record-offset">${count(row.offset)}</span>` };
const VALUE = { id: "value", label: "Value", isMono: true, cell: valueCell };
const HEADERS = { id: "headers", label: "Headers", width: "11%", isMono: true, cell: headersCell };
const SIZE = { id: "size", label: "Size", width: "84px", align: "end", cell: (row) => bytes((row.key.size_bytes ?? 0) + (row.value.size_bytes ?? 0)) };
const keyColumn = (width) => ({ id: "key", label: "Key", width, isMono: true, cell: (row) => (row.control ? null : html`<${FieldText} field=${row.key} />`) });

// On a telephone the values are in sight, and the rest a swipe away.
const NARROW_COLUMNS = [{ ...CLOCK, width: "116px" }, { ...VALUE, width: "210px" }, keyColumn("120px"), PARTITION, OFFSET];
const NARROW = matchMedia("(max-width: 560px)");

const COLUMNS = [TIME, PARTITION, OFFSET, keyColumn("16%"), VALUE, HEADERS, SIZE];
// Beside a record that is open there is less room.
const FEW_COLUMNS = [CLOCK, PARTITION, OFFSET, keyColumn("18%"), VALUE];

function valueCell(row) {
  const mark = row.mark && MARKS[row.mark];
  return html`${mark && html`<${Badge} kind=${mark[0]} title=${mark[2]}>${mark[1]}</${Badge}> `}${row.control
    ? html`<span>${row.control.outcome} of producer ${row.producer_id}, epoch ${row.producer_epoch}</span>`
    : html`<${FieldText} field=${row.value} isTombstone />`}`;
}

function headersCell(row) {
  if (!row.header_count) return null;
  const [first] = row.headers;
  return html`${row.header_count > 1 && html`<span class="format-tag">${count(row.header_count)}</span>`}<bdi>${inOneLine(first.name)}<span class="muted">=</span>${first.value === null ? html`<span class="nothing">null</span>` : inOneLine(first.value)}</bdi>`;
}

function useIsNarrow() {
  const [isNarrow, setNarrow] = useState(NARROW.matches);
  useEffect(() => {
    const change = () => setNarrow(NARROW.matches);
    NARROW.addEventListener("change", change);
    return () => NARROW.removeEventListener("change", change);
  }, []);
  return isNarrow;
}

export function RecordList({ rows, selected, onSelect, isFollowing, onFollow, empty }) {
  return html`<${VirtualTable} caption="Records" columns=${useIsNarrow() ? NARROW_COLUMNS : selected === null ? COLUMNS : FEW_COLUMNS} ...${{ rows, selected, onSelect, isFollowing, onFollow, empty }} rowKey=${keyOf} rowClass=${(row) => row.mark && `record-${row.mark}`} />`;
}
