// What did not work: a whole answer (an ApiProblem), or parts of one (`problems` of an answer).
import { html } from "../../vendor/preact.js";
import { Button } from "./button.js";
import { Empty } from "./empty.js";
import { Icon } from "./icons.js";

export function Problem({ problem, onRetry }) {
  if (!problem) return null;
  if (problem.status === 404) return html`<div role="alert"><${Empty} icon="search" title=${begun(problem.message)}>${problem.advice && sentence(problem.advice)}</${Empty}></div>`;
  return html`<div class="notice notice-bad" role="alert"><${Icon} name="bad" />
    <div class="notice-text"><p>${begun(problem.message)}</p>${problem.advice && html`<p class="muted">${sentence(problem.advice)}</p>`}</div>
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

// A message may begin with a name of the cluster's, which stays as it is.
const begun = (text) => (/^(there|the|this|that|no|it|a|an) /.test(text) ? capital(text) : text);
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const sentence = (text) => capital(text) + (/[.!?]$/.test(text) ? "" : ".");
