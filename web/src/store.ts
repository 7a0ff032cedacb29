// What all views share: the token, the place in the page (URL), the time cursor, and the state of the connection.
import { computed, signal } from "@preact/signals";

// --- The token ---
// Kept for this tab only: closing it forgets it. A link may bring one in its fragment, which browsers do not send.
const TOKEN = "rota.token";

function takeToken(): string {
  const given = /^#token=([\w.-]+)(?:&(.*))?$/.exec(location.hash);
  if (given) {
    sessionStorage.setItem(TOKEN, given[1]!);
    history.replaceState(null, "", "#" + (given[2] || "/now"));
  }
  return sessionStorage.getItem(TOKEN) ?? "";
}
export const token = signal(takeToken());
export const tokenProblem = signal("");
export const accepted = signal(false); // The host has accepted this token once.
export function signIn(value: string): void {
  sessionStorage.setItem(TOKEN, value);
  tokenProblem.value = "";
  accepted.value = false;
  token.value = value;
}
export function signOut(why = ""): void {
  sessionStorage.removeItem(TOKEN);
  tokenProblem.value = why;
  token.value = "";
}

// --- The place: #/run/wf-1?stage=train&at=77 ---
export type Place = { view: string; id: string; query: URLSearchParams };
// A link may have been cut in the middle of a character.
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
function parsePlace(): Place {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [view = "", ...rest] = path.split("/");
  return { view: view || "now", id: decoded(rest.join("/")), query: new URLSearchParams(query) };
}
export const place = signal(parsePlace());
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) signIn(takeToken()); // A link with a token, opened in this tab.
  place.value = parsePlace();
});

export function href(view: string, id = "", query: Record<string, string> = {}): string {
  const all = new URLSearchParams(query);
  const at = place.value.query.get("at");
  if (at !== null && !("at" in query)) all.set("at", at);
  const text = all.toString();
  return `#/${view}${id ? "/" + encodeURIComponent(id) : ""}${text ? "?" + text : ""}`;
}
// Changes parameters of the place; "" removes one. With `quiet`, the back button skips the change.
export function setQuery(change: Record<string, string>, quiet = true): void {
  const now = place.peek();
  const query = new URLSearchParams(now.query);
  for (const [name, value] of Object.entries(change)) {
    if (value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  const hash = `#/${now.view}${now.id ? "/" + encodeURIComponent(now.id) : ""}${text ? "?" + text : ""}`;
  if (hash === location.hash) return;
  if (quiet) history.replaceState(null, "", hash);
  else history.pushState(null, "", hash);
  place.value = parsePlace();
}
addEventListener("popstate", () => (place.value = parsePlace()));

// --- The time cursor: null is live, a number is the state after that record ---
export const at = computed<number | null>(() => {
  const text = place.value.query.get("at");
  return text !== null && /^\d+$/.test(text) ? Number(text) : null;
});
export const isLive = computed(() => at.value === null);
export function goTo(index: number | null): void {
  setQuery({ at: index === null ? "" : String(index) });
}
export const head = signal(0); // The newest record that the host has told of.
export const first = signal(1); // The oldest record that it keeps.
export const momentTime = signal<string | null>(null); // Wall time of the state that is shown.

// --- The connection ---
export type Link = "connecting" | "live" | "lost";
export const link = signal<Link>("connecting");
export const linkWhy = signal("");
export const isReadOnly = signal(false); // `rota view`: there is no host to control.

// --- Short messages about what was done ---
export type Toast = { id: number; kind: "ok" | "bad"; text: string };
export const toasts = signal<Toast[]>([]);
let lastToast = 0;
export function say(kind: Toast["kind"], text: string): void {
  const toast = { id: ++lastToast, kind, text };
  toasts.value = [...toasts.value.slice(-3), toast];
  setTimeout(() => (toasts.value = toasts.value.filter((t) => t.id !== toast.id)), kind === "ok" ? 6000 : 12000);
}
