// Changing what counts for a subject, or for all: its compatibility level, its mode.
import { html, useEffect, useState } from "../../vendor/preact.js";
import { change } from "../api.js";
import { Button } from "../components/button.js";
import { Dialog } from "../components/dialog.js";
import { SelectField } from "../components/field.js";
import { Notice, Problem } from "../components/problems.js";
import { toast } from "../components/toast.js";
import { LEVELS, MODES } from "./words.js";

export const CompatibilityDialog = (props) =>
  html`<${RuleDialog} ...${props} name="level" path="/api/schemas/compatibility" what="compatibility" options=${LEVELS} warn=${(value) => value === "NONE" && "Any schema can be registered then, and readers may fail on records that they cannot read."} />`;

export const ModeDialog = (props) =>
  html`<${RuleDialog} ...${props} name="mode" path="/api/schemas/mode" what="mode" options=${MODES} warn=${(value) => (value === "READONLY" ? "Producers that register their schemas fail with a new one." : value === "IMPORT" && "Registries take schemas with ids that the request gives, and compare nothing.")} />`;

// `subject` null: for all subjects. `current` null: the subject has none of its own.
function RuleDialog({ subject, current, name, path, what, options, warn, onClose, onDone }) {
  const [value, setValue] = useState(current ?? (subject === null ? options[0][0] : ""));
  const [plan, setPlan] = useState(null);
  const [problem, setProblem] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const body = (preview) => ({ subject, [name]: value || null, preview });
  useEffect(() => {
    let isOpen = true;
    setPlan(null);
    setProblem(null);
    change("POST", path, body(true)).then((found) => isOpen && setPlan(found), (error) => isOpen && setProblem(error));
    return () => (isOpen = false);
  }, [value]);
  const isChange = plan !== null && plan.old !== plan.new;
  const run = async () => {
    if (!isChange || isBusy) return;
    setBusy(true);
    try {
      await change("POST", path, body(false));
      toast(`The ${what} of ${subject ?? "all subjects"} is ${value || "as for all subjects"} now`);
      onClose();
      onDone?.();
    } catch (error) {
      setProblem(error);
      setBusy(false);
    }
  };
  const choices = subject === null ? options : [["", "As for all subjects"], ...options];
  const known = choices.some(([each]) => each === value) ? choices : [...choices, [value, value]];
  const warning = warn(value);
  return html`<${Dialog} title=${subject === null ? `The ${what} of all subjects` : `The ${what} of ${subject}`} onClose=${onClose} onSubmit=${run}
      actions=${html`<${Button} onClick=${onClose}>Cancel</${Button}><${Button} type="submit" kind="primary" disabled=${!isChange} isBusy=${isBusy}>Change</${Button}>`}>
    <${SelectField} label=${`The ${what}`} value=${value} onChange=${setValue} options=${known} />
    ${plan && html`<p>${isChange ? html`From <b>${plan.old ?? `as for all (${plan.default ?? "unknown"})`}</b> to <b>${plan.new ?? `as for all (${plan.default ?? "unknown"})`}</b>.` : "This is how it is."}</p>`}
    ${subject === null && html`<p class="muted">It counts for every subject that has none of its own.</p>`}
    ${warning && html`<${Notice} kind="warn">${warning}</${Notice}>`}
    <${Problem} problem=${problem} />
  </${Dialog}>`;
}
