// Says that what is shown is old: the console does not answer, or the cluster does not.
import { html } from "../../vendor/preact.js";
import { Icon } from "../components/icons.js";
import { Age } from "../components/time.js";
import { clock } from "../format.js";
import { useLive } from "../live.js";

export function ConnectionBanner() {
  const { connection, lostAt, cluster, unreachableSince, reason, atMs } = useLive();
  const isLost = connection === "lost";
  const isDown = !isLost && cluster === "unreachable";
  return html`<div role="status" aria-live="polite">
    ${isLost && html`<${Banner} title=${`The console has not answered since ${clock(lostAt)}`} sinceMs=${lostAt} isOld=${atMs !== null} />`}
    ${isDown && html`<${Banner} title=${`The cluster has not answered since ${clock(unreachableSince)}`} sinceMs=${unreachableSince} isOld=${atMs !== null} reason=${reason} />`}
  </div>`;
}

const Banner = ({ title, sinceMs, isOld, reason }) => html`<div class="banner"><${Icon} name="warn" />
  <div><p class="banner-title">${title}</p><p>For <${Age} sinceMs=${sinceMs} />. ${isOld ? "What you see is from before; the page" : "The page"} tries again by itself.</p>${reason && html`<p class="banner-reason">${reason}</p>`}</div>
</div>`;
