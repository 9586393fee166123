// How states and protocols of groups are shown, the same in all views.
import { html } from "../../vendor/preact.js";
import { Badge } from "../components/badge.js";
import { Age } from "../components/time.js";

const STATES = {
  Stable: ["good", "Stable", "Every member has its partitions"],
  Empty: ["neutral", "Empty", "No members: nobody reads for this group now"],
  PreparingRebalance: ["warn", "Rebalancing", "PreparingRebalance: the coordinator waits until all members have joined again"],
  CompletingRebalance: ["warn", "Assigning", "CompletingRebalance: the members wait for the leader's assignment"],
  Assigning: ["warn", "Assigning", "The coordinator is about to compute the assignment of a new epoch"],
  Reconciling: ["info", "Reconciling", "Members are moving to their targets, one partition after the other"],
  Dead: ["neutral", "Dead", "The group is gone, or its coordinator is"],
  NotReady: ["warn", "Not ready", "Topics that the application needs do not exist"],
};

export function GroupState({ state }) {
  const [kind, text, title] = STATES[state] ?? ["neutral", state ?? "not known", undefined];
  return html`<${Badge} kind=${kind} title=${title}>${text}</${Badge}>`;
}

export const StuckBadge = ({ sinceMs }) =>
  html`<${Badge} kind="bad" title="It has members and a lag, and has committed nothing for a minute or longer">Stuck${sinceMs && html` for <${Age} sinceMs=${sinceMs} />`}</${Badge}>`;

export const HeldUpBadge = ({ sinceMs }) =>
  html`<${Badge} kind="warn" title="It has read all that it may: its lag is behind last stable offsets, which open transactions hold back">Held up${sinceMs && html` for <${Age} sinceMs=${sinceMs} />`}</${Badge}>`;

const PROTOCOLS = {
  Classic: ["Classic", "JoinGroup and SyncGroup: one member, the leader, assigns the partitions"],
  Consumer: ["Consumer", "The new protocol (KIP-848): the coordinator assigns, members move one by one"],
  Share: ["Share", "A share group (KIP-932): members share partitions, there are no committed offsets"],
  Streams: ["Streams", "The protocol of Kafka Streams (KIP-1071)"],
};

export function protocolText(type, protocolType) {
  const [name] = PROTOCOLS[type] ?? [type ?? "not known"];
  return protocolType && !["consumer", "share", "streams"].includes(protocolType) ? `${name}, ${protocolType}` : name;
}

export const Protocol = ({ type, protocolType }) => html`<span title=${PROTOCOLS[type]?.[1]}>${protocolText(type, protocolType)}</span>`;

// Brokers write addresses as Java does.
export const hostText = (host) => (host?.startsWith("/") ? host.slice(1) : host);

// [0, 1, 2, 5] as "0–2, 5"
export function rangesText(numbers) {
  const found = [];
  for (const number of [...numbers].sort((one, other) => one - other)) {
    const last = found.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else found.push([number, number]);
  }
  return found.map(([first, end]) => (first === end ? String(first) : `${first}–${end}`)).join(", ");
}
