// What a search finds as a file, which the browser saves as it comes.
import { html, useState } from "../../vendor/preact.js";
import { apiAddress } from "../api.js";
import { Button } from "../components/button.js";
import { Dialog } from "../components/dialog.js";
import { SelectField } from "../components/field.js";

const FORMATS = [
  ["jsonl", "JSON Lines, which ottla produce --format json reads"],
  ["csv", "CSV, with keys and values as they are shown"],
];
const LIMITS = ["1000", "10000", "100000", "1000000"];

export function ExportDialog({ path, query, onClose }) {
  const [format, setFormat] = useState("jsonl");
  const [limit, setLimit] = useState("100000");
  const href = apiAddress(`${path}/export`, { ...query, format, limit });
  const actions = html`<${Button} onClick=${onClose}>Cancel</${Button}><a class="button button-primary" href=${href} download onClick=${() => setTimeout(onClose, 0)}>Save the file</a>`;
  return html`<${Dialog} title="Export records" ...${{ onClose, actions }}>
    <p>The records of this search${query.filter.length ? " that pass its filters" : ""}, the ${query.order} first.</p>
    <${SelectField} label="Format" value=${format} onChange=${setFormat} options=${FORMATS} />
    <${SelectField} label="At most" value=${limit} onChange=${setLimit} options=${LIMITS.map((size) => [size, `${Number(size).toLocaleString("en")} records`])} />
    <p class="muted">It scans at most 20 million records, 8 GiB and 15 minutes. A file that one of these has ended says INCOMPLETE in its last line.${format === "csv" ? " A cell that a spreadsheet would take for a formula begins with an apostrophe." : ""}</p>
  </${Dialog}>`;
}
