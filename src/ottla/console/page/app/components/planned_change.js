// A change in two steps: what to do is written into a form, then the dialog shows what it leads to, and only then it
// can be done. What the cluster would refuse is said at the form.
import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { Button } from "./button.js";
import { Dialog } from "./dialog.js";
import { TextField } from "./field.js";
import { Problem } from "./problems.js";

// `children` is the form, `preview` asks what it leads to, `show(plan)` draws that, `act(plan)` does it. Where it cannot
// be undone, `typed` is what the user has to write.
export function PlannedChange({ title, action, isDanger = false, isWide = false, canPreview = true, preview, show, act, typed, onDone, onClose, children }) {
  const [plan, setPlan] = useState(null);
  const [problem, setProblem] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const [text, setText] = useState("");
  const shown = useRef(null);
  useEffect(() => {
    if (plan) shown.current.focus();
  }, [plan]);

  const run = async (work, done) => {
    setBusy(true);
    setProblem(null);
    try {
      done(await work());
    } catch (error) {
      setProblem(error);
    }
    setBusy(false);
  };
  const isReady = plan ? !typed || text === typed : canPreview;
  const submit = () => {
    if (!isReady || isBusy) return;
    if (!plan) run(preview, setPlan);
    else run(() => act(plan), (result) => (onClose(), onDone?.(result)));
  };
  const back = () => (setPlan(null), setProblem(null), setText(""));
  const actions = plan
    ? html`<${Button} key="back" icon="previous" onClick=${back}>Back</${Button}>
        <${Button} key="act" type="submit" kind=${isDanger ? "danger" : "primary"} disabled=${!isReady} isBusy=${isBusy}>${action}</${Button}>`
    : html`<${Button} key="cancel" onClick=${onClose}>Cancel</${Button}>
        <${Button} key="preview" type="submit" kind="primary" disabled=${!isReady} isBusy=${isBusy}>Show what it does</${Button}>`;
  return html`<${Dialog} ...${{ title, onClose, actions, isWide }} onSubmit=${submit}>
    <div class="stack" hidden=${plan !== null}>${children}</div>
    ${plan && html`<div class="stack plan" ref=${shown} tabindex="-1">${show(plan)}</div>`}
    ${plan && typed && html`<${TextField} label=${`Write ${typed} to confirm`} value=${text} onInput=${setText} autocomplete="off" spellcheck=${false} />`}
    <${Problem} problem=${problem} />
  </${Dialog}>`;
}

// The sentences of a plan.
export const PlanSteps = ({ steps }) => steps.length > 0 && html`<ul class="plan-steps">${steps.map((step) => html`<li key=${step}>${step}</li>`)}</ul>`;
