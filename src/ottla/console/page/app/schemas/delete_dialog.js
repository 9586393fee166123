// Asks before a subject or a version is deleted, and shows who uses it.
import { html, useEffect, useState } from "../../vendor/preact.js";
import { change } from "../api.js";
import { Button } from "../components/button.js";
import { Dialog } from "../components/dialog.js";
import { Loading } from "../components/empty.js";
import { CheckField, TextField } from "../components/field.js";
import { Facts } from "../components/panel.js";
import { Notice, Problem } from "../components/problems.js";
import { toast } from "../components/toast.js";
import { count, plural } from "../format.js";
import { subjectAddress } from "./words.js";

// `version` null: the whole subject. `isDeleted`: it is deleted softly already.
export function DeleteDialog({ subject, version = null, isDeleted = false, onClose, onDone }) {
  const [permanent, setPermanent] = useState(isDeleted);
  const [plan, setPlan] = useState(null);
  const [problem, setProblem] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const [typed, setTyped] = useState("");
  useEffect(() => {
    let isOpen = true;
    setPlan(null);
    setProblem(null);
    change("POST", "/api/schemas/delete", { subject, version, permanent, preview: true }).then((found) => isOpen && setPlan(found.plan), (error) => isOpen && setProblem(error));
    return () => (isOpen = false);
  }, [permanent]);
  const isReady = plan !== null && (!permanent || typed === subject);
  const run = async () => {
    if (!isReady || isBusy) return;
    setBusy(true);
    setProblem(null);
    try {
      const { deleted } = await change("POST", "/api/schemas/delete", { subject, version, permanent, preview: false });
      toast(`${plural(deleted.length, "version")} of ${subject} deleted`);
      onClose();
      onDone?.(permanent);
    } catch (error) {
      setProblem(error);
      setBusy(false);
    }
  };
  const what = version === null ? subject : `version ${version} of ${subject}`;
  return html`<${Dialog} title=${`Delete ${what}`} onClose=${onClose} onSubmit=${run}
      actions=${html`<${Button} onClick=${onClose}>Cancel</${Button}><${Button} type="submit" kind="danger" disabled=${!isReady} isBusy=${isBusy}>${permanent ? "Delete for good" : "Delete"}</${Button}>`}>
    ${!isDeleted && html`<${CheckField} label="Delete it for good" hint="Otherwise it is deleted softly: its id keeps its schema." checked=${permanent} onChange=${setPermanent} />`}
    <${Problem} problem=${problem} />
    ${!plan && !problem && html`<${Loading} lines=${3} label="Looking who uses it" />`}
    ${plan && html`<${Plan} plan=${plan} />`}
    ${permanent && plan && html`<${TextField} label=${`Write ${subject} to confirm`} value=${typed} onInput=${setTyped} autocomplete="off" spellcheck=${false} />`}
  </${Dialog}>`;
}

function Plan({ plan }) {
  const facts = [
    ["Versions", `${plan.versions.slice(0, 20).join(", ")}${plan.versions.length > 20 ? `, … ${count(plan.versions.length)} in all` : ""}`],
    ["Ids", plan.ids.slice(0, 20).join(", ")],
    ["Topic", plan.topic === null ? "none is called so" : `${plan.topic}${plan.record_count === null ? "" : `, ${plural(plan.record_count, "record")}`}`],
    ["Groups that read it", plan.groups.length ? plan.groups.slice(0, 10).join(", ") : plan.topic === null ? undefined : "none"],
    ["Referred to by", plan.referenced_by_count ? html`${plan.referenced_by.map(({ subject, version }) => html`<a key=${subject + version} href=${subjectAddress(subject, { version })}>${subject} version ${version}</a> `)}${plan.referenced_by.length === 0 && plural(plan.referenced_by_count, "schema")}` : "no other schema"],
  ];
  return html`<${Facts} facts=${facts} />${plan.warnings.map((text) => html`<${Notice} key=${text} kind="warn">${text.charAt(0).toUpperCase() + text.slice(1)}.</${Notice}>`)}`;
}
