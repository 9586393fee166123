// Who uses the console, and what of it is switched on: the answer of /api/session, or null before it came.
import { Store, useStore } from "./store.js";

const ROLES = ["viewer", "operator", "admin"];

export const session = new Store(null);

export const useSession = () => useStore(session);

// Whether a change may be offered. The server and the cluster's ACLs decide in any case.
export function allows(found, role) {
  return found !== null && !found.is_read_only && ROLES.indexOf(found.role) >= ROLES.indexOf(role);
}

export const useAllows = (role) => allows(useSession(), role);

// An address wrote 401: the login expired, or another tab logged out.
export function expire() {
  if (session.value && !session.value.needs_login) session.update({ needs_login: true, has_expired: true });
}
