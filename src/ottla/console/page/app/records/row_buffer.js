// Rows as they come in, as many as the page can hold: beyond it the oldest ones go, and are counted.
export const MAX_ROWS = 100_000;
export const MAX_CHARS = 60_000_000;

export class RowBuffer {
  constructor(maxRows = MAX_ROWS, maxChars = MAX_CHARS) {
    this.maxRows = maxRows;
    this.maxChars = maxChars;
    this.clear();
  }

  clear() {
    this.rows = [];
    this.first = 0;
    this.chars = 0;
    this.dropped = 0;
    this.keys = new Set();
  }

  get length() {
    return this.rows.length - this.first;
  }

  at(index) {
    return this.rows[this.first + index];
  }

  // Adds rows behind the others; those that are there already are left out.
  add(rows) {
    for (const row of rows) {
      const key = keyOf(row);
      if (this.keys.has(key)) continue;
      this.keys.add(key);
      this.rows.push(row);
      this.chars += charsOf(row);
    }
    while (this.length > this.maxRows || (this.chars > this.maxChars && this.length > 1)) this.dropFirst();
    if (this.first > 10_000 && this.first * 2 > this.rows.length) {
      this.rows = this.rows.slice(this.first);
      this.first = 0;
    }
  }

  dropFirst() {
    const row = this.rows[this.first];
    this.rows[this.first] = undefined;
    this.first += 1;
    this.chars -= charsOf(row);
    this.keys.delete(keyOf(row));
    this.dropped += 1;
  }

  // In the order of time, whatever order they came in.
  sort(isNewestFirst) {
    const sign = isNewestFirst ? -1 : 1;
    this.rows = this.rows.slice(this.first).sort((one, other) => sign * (one.timestamp_ms - other.timestamp_ms) || one.partition - other.partition || sign * (one.offset - other.offset));
    this.first = 0;
  }
}

export const keyOf = (row) => `${row.partition}:${row.offset}`;

const charsOf = (row) => 400 + row.key.text.length + row.value.text.length + row.headers.reduce((sum, { name, value }) => sum + name.length + (value?.length ?? 0), 0);
