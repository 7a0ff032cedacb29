// Numbers, durations and times as text. A duration has at most two units, so that columns stay narrow.

export const count = (n: number): string => n.toLocaleString("en");

export function short(n: number): string {
  if (n < 10_000) return count(n);
  if (n < 1_000_000) return `${(n / 1000).toFixed(n < 100_000 ? 1 : 0)}k`;
  return `${(n / 1_000_000).toFixed(1)}M`;
}

export function span(ms: number): string {
  if (!Number.isFinite(ms) || ms < 0) return "–";
  if (ms < 1) return "0 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.floor(s)} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return `${m} min ${Math.floor(s % 60)} s`;
  const h = Math.floor(m / 60);
  if (h < 48) return `${h} h ${m % 60} min`;
  return `${Math.floor(h / 24)} d ${h % 24} h`;
}

export const ms = (time: string | null): number => (time === null ? NaN : Date.parse(time));

// "14:03:22"; with the day if that is not today.
export function clock(time: string | null, fraction = false): string {
  if (time === null) return "–";
  const date = new Date(time);
  const two = (n: number) => String(n).padStart(2, "0");
  let text = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  if (fraction) text += "." + String(date.getMilliseconds()).padStart(3, "0");
  const today = new Date();
  if (date.toDateString() === today.toDateString()) return text;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${text}`;
}

export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) {
    n /= 1024;
    ++i;
  }
  return `${n >= 10 || i === 0 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}

export const cores = (millis: number): string => (millis / 1000).toFixed(millis % 1000 === 0 ? 0 : 1);
export const dollars = (micro: number): string =>
  micro === 0 ? "–" : `$${(micro / 1e6).toFixed(micro < 10_000 ? 4 : micro < 1e6 ? 3 : 2)}`;

// A long name keeps its beginning and its end, which has the matrix values.
export function middle(text: string, most: number): string {
  const letters = Array.from(text.slice(0, 4 * most + 4096));
  if (letters.length <= most) return letters.join("");
  const tail = Math.floor((most - 1) / 2);
  return letters.slice(0, most - 1 - tail).join("") + "…" + Array.from(text.slice(-4 * tail)).slice(-tail).join("");
}

// What a reason of explain means, in a few words.
export const REASONS: Record<string, string> = {
  needs: "other stages", paused: "somebody to resume", backoff: "the time of the next attempt", quota: "the user's quota",
  fleet_resource: "a shared resource", unplaceable: "a worker that can run it", gang_incomplete: "the rest of its gang",
  gang_room: "room for its gang", sticky_worker: "the worker with its weights", pinned_worker: "its worker",
  workflow_worker: "the worker of its workflow", type_worker: "the worker of its type", no_room: "room on a worker",
  parallel: "another task of its stage to end", turn: "the next decision", queued_at_worker: "its turn at the worker",
  other: "other reasons",
};
export const reason = (name: string): string => REASONS[name] ?? name.replaceAll("_", " ");

// A sentence of the host that may contain names. Characters that change the direction of what follows are shown as a mark.
export const plain = (text: string): string => text.replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

// The JSON text of one member of an object, indented, with every number as it was written (JSON.parse would round it). null:
// there is no such member, or it is null.
export function memberText(json: string, name: string): string | null {
  const tokens = json.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
  let depth = 0;
  let from = -1;
  for (let i = 0; i < tokens.length; ++i) {
    const token = tokens[i]!;
    if (from >= 0 && depth === 1 && (token === "," || token === "}")) return indent(tokens.slice(from, i));
    if (token === "{" || token === "[") ++depth;
    if (token === "}" || token === "]") --depth;
    if (from < 0 && depth === 1 && tokens[i + 1] === ":" && token === JSON.stringify(name)) from = ++i + 1;
  }
  return null;
}
function indent(tokens: string[]): string | null {
  if (tokens.length === 1) return tokens[0] === "null" ? null : tokens[0]!;
  let text = "";
  let depth = 0;
  const line = () => "\n" + "  ".repeat(depth);
  tokens.forEach((token, i) => {
    if (token === "}" || token === "]") {
      --depth;
      text += tokens[i - 1] === "{" || tokens[i - 1] === "[" ? token : line() + token;
    } else if (token === "{" || token === "[") {
      ++depth;
      text += tokens[i + 1] === "}" || tokens[i + 1] === "]" ? token : token + line();
    } else {
      text += token === "," ? token + line() : token === ":" ? ": " : token;
    }
  });
  return text;
}
