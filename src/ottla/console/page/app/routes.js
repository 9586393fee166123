// The views and their paths. `key` is what follows `g` on the keyboard; a view without a label is not in the menu.
export const ROUTES = [
  { path: "/", view: "overview", label: "Overview", key: "o", section: "" },
  { path: "/topics", view: "topics", label: "Topics", key: "t", section: "Data" },
  { path: "/topics/:topic", view: "topic" },
  { path: "/topics/:topic/records", view: "records" },
  { path: "/schemas", view: "schemas", label: "Schemas", key: "s", section: "Data" },
  { path: "/schemas/ids/:id", view: "schema_id" },
  { path: "/schemas/subjects/:subject", view: "subject" },
  { path: "/groups", view: "groups", label: "Groups", key: "g", section: "Clients" },
  { path: "/groups/:group", view: "group" },
  { path: "/transactions", view: "transactions", label: "Transactions", key: "x", section: "Clients" },
  { path: "/transactions/:id", view: "transaction" },
  { path: "/producers", view: "producers", label: "Producers", key: "p", section: "Clients" },
  { path: "/apps", view: "apps", label: "Apps and dead letters", key: "a", section: "Programs" },
  { path: "/apps/dead-letters/:topic", view: "letters" },
  { path: "/apps/dead-letters/:topic/:partition/:offset", view: "letter" },
  { path: "/pipelines", view: "pipelines", label: "Pipelines", key: "l", section: "Programs" },
  { path: "/pipelines/:name", view: "pipeline" },
  { path: "/broker", view: "broker", label: "Broker", key: "b", section: "Cluster" },
  { path: "/json-api", view: "json_api", label: "JSON API", key: "j", section: "Cluster" },
];

const LOADERS = {
  overview: () => import("./views/overview.js"),
  topics: () => import("./views/topics.js"),
  topic: () => import("./views/topic.js"),
  records: () => import("./views/records.js"),
  schemas: () => import("./views/schemas.js"),
  schema_id: () => import("./views/schema_id.js"),
  subject: () => import("./views/subject.js"),
  groups: () => import("./views/groups.js"),
  group: () => import("./views/group.js"),
  transactions: () => import("./views/transactions.js"),
  transaction: () => import("./views/transaction.js"),
  producers: () => import("./views/producers.js"),
  apps: () => import("./views/apps.js"),
  letters: () => import("./views/letters.js"),
  letter: () => import("./views/letter.js"),
  pipelines: () => import("./views/pipelines.js"),
  pipeline: () => import("./views/pipeline.js"),
  broker: () => import("./views/broker.js"),
  json_api: () => import("./views/json_api.js"),
};

export const loadView = async (name) => (await LOADERS[name]()).default;

// The route of a path, with the variable parts decoded; null where there is none.
export function routeOf(path) {
  const parts = path.replace(/\/+$/, "").split("/");
  for (const route of ROUTES) {
    const wanted = route.path.replace(/\/+$/, "").split("/");
    if (wanted.length !== parts.length) continue;
    const variables = {};
    const fits = wanted.every((part, index) => {
      if (!part.startsWith(":")) return part === parts[index];
      variables[part.slice(1)] = decoded(parts[index]);
      return parts[index] !== "";
    });
    if (fits) return { ...route, variables };
  }
  return null;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a lone % is no reason to show nothing
  }
}
