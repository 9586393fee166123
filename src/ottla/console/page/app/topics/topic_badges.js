// What is to be said of a topic in a word.
import { html } from "../../vendor/preact.js";
import { Badge } from "../components/badge.js";

const WORDS = { "hanging transaction": "hanging", "below min in-sync": "below min ISR" };

export const ProblemBadges = ({ problems }) =>
  problems.map(({ kind, is_severe: isSevere, text }) => html`<${Badge} key=${kind} kind=${isSevere ? "bad" : "warn"} title=${text}>${WORDS[kind] ?? kind}</${Badge}>`);

export const KindBadges = ({ isInternal, policy }) =>
  html`${isInternal && html`<${Badge} title="Kept by the brokers for themselves">internal</${Badge}>`}${policy?.includes("compact") && html`<${Badge} title=${`cleanup.policy is ${policy}`}>compacted</${Badge}>`}`;
