// What did not work: a whole answer (an ApiProblem), or parts of one (`problems` of an answer).
import { html } from "../../vendor/preact.js";
import { Button } from "./button.js";
import { Icon } from "./icons.js";

export function Problem({ problem, onRetry }) {
  if (!problem) return null;
  return html`<div class="notice notice-bad" role="alert"><${Icon} name="bad" />
    <div class="notice-text"><p>${problem.message}</p>${problem.advice && html`<p class="muted">${sentence(problem.advice)}</p>`}</div>
    ${onRetry && html`<${Button} icon="refresh" onClick=${onRetry}>Try again</${Button}>`}
  </div>`;
}

export function Problems({ problems }) {
  if (!problems?.length) return null;
  return html`<div class="notice notice-warn" role="status"><${Icon} name="warn" />
    <ul class="notice-text">${problems.map((text) => html`<li key=${text}>${text}</li>`)}</ul>
  </div>`;
}

// kind: info | good | warn | bad
export function Notice({ kind = "info", children }) {
  return html`<div class=${`notice notice-${kind}`}><${Icon} name=${kind} /><div class="notice-text">${children}</div></div>`;
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
