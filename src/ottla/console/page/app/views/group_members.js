// The members of a group, as its coordinator describes them.
import { html, useState } from "../../vendor/preact.js";
import { Badge } from "../components/badge.js";
import { CopyButton } from "../components/copy.js";
import { Empty } from "../components/empty.js";
import { Facts, Panel } from "../components/panel.js";
import { Notice } from "../components/problems.js";
import { LocalTable } from "../components/table.js";
import { count, plural, UNKNOWN } from "../format.js";
import { address } from "../router.js";
import { hostText, rangesText } from "./group_words.js";

const MAX_SHOWN = 3;

export function GroupMembers({ answer }) {
  const { members, member_count: total, epoch } = answer;
  const [open, setOpen] = useState(null);
  if (!total) return html`<${Empty} icon="groups" title="No members">Nobody reads for this group now. Its committed offsets stay until they expire.</${Empty}>`;
  const shown = members.find(({ member_id: id }) => id === open);
  return html`<div class="stack">
    ${members.length < total && html`<${Notice}>The first ${count(members.length)} of ${plural(total, "member")} are shown.</${Notice}>`}
    <${LocalTable} caption="Members" columns=${columnsFor(epoch !== null, open, setOpen)} rows=${members} rowKey=${({ member_id: id }) => id} sort="client_id" prefix="m_" rowClass=${({ member_id: id }) => (id === open ? "row-active" : undefined)} />
    ${shown && html`<${Member} member=${shown} epoch=${epoch} />`}
  </div>`;
}

const columnsFor = (hasEpochs, open, setOpen) => [
  {
    id: "client_id",
    label: "Client",
    isSortable: true,
    cell: ({ client_id: client, member_id: id }) => html`<button type="button" class="group-member-name" aria-expanded=${id === open ? "true" : "false"} onClick=${() => setOpen(id === open ? null : id)}>${client || id}</button>`,
  },
  { id: "instance_id", label: "Instance id", isSortable: true, title: "Of a static member (group.instance.id)", cell: ({ instance_id: id }) => id ?? UNKNOWN },
  { id: "host", label: "Host", isSortable: true, cell: ({ host }) => hostText(host) || UNKNOWN },
  { id: "partition_count", label: "Partitions", align: "end", isSortable: true, cell: ({ partition_count: partitions }) => count(partitions) },
  { id: "assignment", label: "Assignment", isWrapped: true, cell: ({ assignment }) => html`<${Assignment} topics=${assignment} most=${MAX_SHOWN} />` },
  { id: "lag", label: "Lag", align: "end", isSortable: true, cell: ({ lag }) => count(lag) },
  ...(hasEpochs
    ? [
        { id: "epoch", label: "Epoch", align: "end", isSortable: true, cell: ({ epoch }) => count(epoch) },
        { id: "target", label: "Target", cell: ({ is_at_target: isThere }) => (isThere === null ? UNKNOWN : isThere ? html`<${Badge} kind="good">reached</${Badge}>` : html`<${Badge} kind="info" title="It has yet to give up partitions, or to get some">moving</${Badge}>`) },
      ]
    : []),
];

export function Assignment({ topics, most = Infinity }) {
  if (!topics.length) return html`<span class="muted">nothing</span>`;
  return html`<span class="group-assignment">${topics.slice(0, most).map(({ topic, partitions }) => html`<span key=${topic}><a href=${address(["topics", topic])}>${topic}</a> <span class="muted">${rangesText(partitions)}</span></span>`)}${topics.length > most && html`<span class="muted">and ${plural(topics.length - most, "topic")} more</span>`}</span>`;
}

function Member({ member, epoch }) {
  const { target, is_at_target: isThere } = member;
  return html`<${Panel} title=${member.client_id || member.member_id}>
    <${Facts} facts=${[
      ["Member id", html`<span class="mono">${member.member_id}</span> <${CopyButton} text=${member.member_id} label="Copy the member id" />`],
      ["Instance id", member.instance_id ?? undefined],
      ["Host", hostText(member.host)],
      ["Rack", member.rack_id ?? undefined],
      ["Protocol", member.type ?? undefined],
      ["Epoch", member.epoch === null ? undefined : `${count(member.epoch)}${epoch !== null && member.epoch !== epoch ? ` (the group is in ${count(epoch)})` : ""}`],
      ["Subscribes to", member.subscribed_topics.length ? html`<span class="group-assignment">${member.subscribed_topics.map((topic) => html`<a key=${topic} href=${address(["topics", topic])}>${topic}</a>`)}</span>` : undefined],
      ["Pattern", member.subscribed_regex === null ? undefined : html`<code>${member.subscribed_regex}</code>`],
      ["Has", html`<${Assignment} topics=${member.assignment} />`],
      ["Is to have", target === null || isThere ? undefined : html`<${Assignment} topics=${target} />`],
    ]} />
  </${Panel}>`;
}
