// The bar at the top: which console this is, whether it is live, who looks and with which rights, light or dark.
import { html } from "../../vendor/preact.js";
import { change } from "../api.js";
import { Badge } from "../components/badge.js";
import { IconButton } from "../components/button.js";
import { Icon } from "../components/icons.js";
import { RelativeTime, useNow } from "../components/time.js";
import { toast } from "../components/toast.js";
import { useLive } from "../live.js";
import { useSession } from "../session.js";
import { useStore } from "../store.js";
import { CHOICES, chooseTheme, theme } from "../theme.js";

export function TopBar({ isMenuOpen, onMenu, onKeys }) {
  return html`<header class="top">
    <span class="top-menu"><${IconButton} icon=${isMenuOpen ? "close" : "menu"} label="Views" aria-expanded=${isMenuOpen ? "true" : "false"} aria-controls="menu" onClick=${onMenu} /></span>
    <a class="brand" href="/" aria-label="Ottla, to the overview"><${Mark} /><span>Ottla</span></a>
    <div class="top-state"><${LiveState} /></div>
    <div class="top-end">
      <${Access} />
      <span class="top-keys"><${IconButton} icon="keyboard" label="Keys" onClick=${onKeys} /></span>
      <${ThemeSwitch} />
    </div>
  </header>`;
}

const Mark = () => html`<svg class="mark" viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="7" /><path d="M7 10h18M7 16h13M7 22h8" /><circle cx="23" cy="22" r="2.6" /></svg>`;

// A cluster that answers slowly is asked less often, every ten seconds at the least.
const LATE_MS = 15_000;

function LiveState() {
  const { connection, cluster, atMs, heardAt } = useLive();
  const now = useNow();
  if (connection === "lost") return html`<${Badge} kind="bad">console lost</${Badge}>`;
  if (cluster === "unknown") return html`<${Badge}>connecting</${Badge}>`;
  if (cluster !== "connected") return html`<${Badge} kind="bad">cluster lost</${Badge}>`;
  if (now - heardAt > LATE_MS) return html`<${Badge} kind="warn">slow, as of <${RelativeTime} ms=${atMs} /></${Badge}>`;
  return html`<span class="live"><span class="live-dot" aria-hidden="true"></span><span class="live-text">Live<span class="live-age">, <${RelativeTime} ms=${atMs} /></span></span></span>`;
}

function Access() {
  const { user, role, is_read_only: isReadOnly, can_log_out: canLogOut } = useSession();
  const logOut = async () => {
    try {
      await change("POST", "/api/logout", {});
      location.assign("/");
    } catch (problem) {
      toast(problem.message, "bad");
    }
  };
  return html`<span class="access">
    ${isReadOnly && html`<${Badge} title="This console refuses every change"><span class="read-only">read-only</span></${Badge}>`}
    <span class="user" title=${`${user}, ${role}`}><${Icon} name="user" /><span class="user-name">${user}</span><span class="user-role">${role}</span></span>
    ${canLogOut && html`<${IconButton} icon="leave" label="Log out" onClick=${logOut} />`}
  </span>`;
}

const THEME_LABELS = { system: "Theme: as the system", light: "Theme: light", dark: "Theme: dark" };

function ThemeSwitch() {
  const { choice } = useStore(theme);
  const next = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length];
  return html`<${IconButton} icon=${choice} label=${THEME_LABELS[choice]} onClick=${() => chooseTheme(next)} />`;
}
