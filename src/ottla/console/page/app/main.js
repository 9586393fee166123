// The beginning: who uses the console, then the shell around the view of this path.
import { html, render, useEffect, useState } from "../vendor/preact.js";
import { get } from "./api.js";
import { Problem } from "./components/problems.js";
import { Toasts } from "./components/toast.js";
import { startLive } from "./live.js";
import { followLinks } from "./router.js";
import { session, useSession } from "./session.js";
import { Shell } from "./shell/shell.js";
import { Login } from "./shell/login.js";

const RETRY_MS = 2000;

function Page() {
  const found = useSession();
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    let timer = 0;
    const load = async () => {
      try {
        session.set(await get("/api/session"));
        setProblem(null);
      } catch (error) {
        setProblem(error);
        timer = setTimeout(load, RETRY_MS);
      }
    };
    load();
    return () => clearTimeout(timer);
  }, []);
  if (found === null) return problem && html`<main class="alone"><${Problem} problem=${problem} /></main>`;
  if (found.needs_login) return html`<${Login} /><${Toasts} />`;
  return html`<${Running} /><${Toasts} />`;
}

// The live stream needs the session, so it begins after the login.
function Running() {
  useEffect(startLive, []);
  return html`<${Shell} />`;
}

followLinks();
render(html`<${Page} />`, document.getElementById("page"));
