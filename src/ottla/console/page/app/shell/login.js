// The form for a user of the cluster, or for a token. The view that was asked for is drawn after it.
import { html, useState } from "../../vendor/preact.js";
import { change, get } from "../api.js";
import { Button } from "../components/button.js";
import { AreaField, TextField } from "../components/field.js";
import { Notice, Problem } from "../components/problems.js";
import { session, useSession } from "../session.js";

export function Login() {
  const { logins = ["password"], has_expired: hasExpired } = useSession();
  const [way, setWay] = useState(logins[0]);
  const [fields, setFields] = useState({ user: "", password: "", token: "" });
  const [problem, setProblem] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const set = (name) => (text) => setFields({ ...fields, [name]: text });
  const logIn = async (event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      await change("POST", "/api/login", way === "token" ? { token: fields.token.trim() } : { user: fields.user, password: fields.password });
      session.set(await get("/api/session"));
    } catch (error) {
      setProblem(error);
      setBusy(false);
    }
  };
  return html`<main class="alone">
    <form class="login" onSubmit=${logIn}>
      <h1>Log in to Ottla</h1>
      ${hasExpired && html`<${Notice}><p>Your login has ended.</p></${Notice}>`}
      ${way === "token"
        ? html`<${AreaField} key="token" label="Token" rows=${5} value=${fields.token} onInput=${set("token")} required spellcheck=${false} />`
        : html`<${TextField} key="user" label="User of the cluster" value=${fields.user} onInput=${set("user")} required autocomplete="username" spellcheck=${false} />
            <${TextField} key="password" label="Password" type="password" value=${fields.password} onInput=${set("password")} required autocomplete="current-password" />`}
      <${Problem} problem=${problem} />
      <${Button} type="submit" kind="primary" isBusy=${isBusy}>Log in</${Button}>
      ${logins.length > 1 && html`<${Button} kind="quiet" onClick=${() => setWay(way === "token" ? "password" : "token")}>${way === "token" ? "Use a password instead" : "Use a token instead"}</${Button}>`}
    </form>
  </main>`;
}
