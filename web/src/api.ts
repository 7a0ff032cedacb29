// Requests to the host: with the token, with the time cursor, and with errors as RFC 9457 describes them.
import { accepted, at, head, link, linkWhy, say, signOut, token } from "./store";

export class Problem extends Error {
  constructor(readonly status: number, readonly code: string, message: string) {
    super(message);
  }
}

async function problemOf(response: Response): Promise<Problem> {
  try {
    const body = (await response.json()) as { code?: string; detail?: string; title?: string };
    return new Problem(response.status, body.code ?? "", body.detail || body.title || response.statusText);
  } catch {
    return new Problem(response.status, "", `the host answered ${response.status} ${response.statusText}`);
  }
}

async function send(path: string, init: RequestInit): Promise<Response> {
  const sentWith = token.peek();
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers: { Authorization: `Bearer ${sentWith}`, ...init.headers } });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Problem(0, "Unreachable", "the host does not answer");
  }
  if (response.ok) {
    accepted.value = true;
    const index = Number(response.headers.get("Rota-Index") ?? 0);
    if (index > head.peek() && at.peek() === null) head.value = index;
    return response;
  }
  const problem = await problemOf(response);
  if (response.status === 401 && token.peek() === sentWith) {
    signOut(accepted.peek() ? "The host no longer accepts this token: it expired or was revoked. Enter another one." : "The host does not accept this token. Was all of it copied?");
  }
  throw problem;
}

export function pathOf(path: string, query: Record<string, string | number | undefined> = {}): string {
  const all = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== "") all.set(name, String(value));
  const text = all.toString();
  return text ? `${path}?${text}` : path;
}

const atCursor = (path: string): string => (at.peek() === null ? path : path + (path.includes("?") ? "&" : "?") + "at=" + at.peek());
// Reads the state at the time cursor.
export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await (await send(atCursor(path), { signal: signal ?? null })).json()) as T;
}
// The same as text: JSON.parse would round large numbers.
export async function getText(path: string, signal?: AbortSignal): Promise<string> {
  return (await send(atCursor(path), { signal: signal ?? null })).text();
}
// Reads what has no past: the log itself, the version.
export async function getNow<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await (await send(path, { signal: signal ?? null })).json()) as T;
}
export async function post<T>(path: string, body?: unknown): Promise<T> {
  const init: RequestInit = { method: "POST" };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { "Content-Type": "application/json" };
  }
  return (await (await send(path, init)).json()) as T;
}
export async function patch<T>(path: string, body: unknown): Promise<T> {
  const init = { method: "PATCH", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  return (await (await send(path, init)).json()) as T;
}
export async function open(path: string, accept: string, signal: AbortSignal): Promise<Response> {
  return send(path, { headers: { Accept: accept }, signal });
}

// Does one thing to many, a few at a time, and says how it went, with the record of the log that has it.
export async function control(verb: string, kind: "workflows" | "tasks" | "workers", ids: string[]): Promise<void> {
  let done = 0;
  let index = 0;
  const failed: string[] = [];
  const waiting = [...ids];
  const work = async () => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      try {
        const answer = await post<{ index: number }>(`/v1/${kind}/${encodeURIComponent(id)}/${verb}`);
        index = Math.max(index, answer.index);
        ++done;
      } catch (error) {
        failed.push(`${id}: ${error instanceof Error ? error.message : error}`);
      }
    }
  };
  await Promise.all([work(), work(), work(), work()]);
  const what = ids.length === 1 ? ids[0] : `${done} of ${ids.length} ${kind}`;
  if (done > 0) say("ok", `${verb}: ${what}, in the log at record ${index.toLocaleString("en")}`);
  for (const text of failed.slice(0, 3)) say("bad", `${verb}: ${text}`);
  if (index > head.peek()) head.value = index;
}

// --- The stream of indices, one per browser ---
// One tab reads it and tells the others, because a browser has six connections to a host. The tab that holds the lock is
// the one that reads; when it closes, the next one gets the lock and continues at the index that it knows.
const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("rota.stream") : null;
export const streamRole = { reader: false };

type StreamNews = { index: number; state: "live" | "lost"; why: string };
function hear(news: StreamNews): void {
  if (news.index > head.peek()) head.value = news.index;
  link.value = news.state;
  linkWhy.value = news.why;
}
function tell(news: StreamNews): void {
  hear(news);
  channel?.postMessage(news);
}

const pause = (ms: number, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });

async function readStream(signal: AbortSignal): Promise<void> {
  for (let failures = 0; !signal.aborted; ) {
    try {
      const known = head.peek();
      const path = pathOf("/v1/events", { only: "index", from: known > 0 ? known + 1 : undefined });
      const response = await open(path, "text/event-stream", signal);
      failures = 0;
      // A host whose log is shorter than what is known here has another log.
      const newest = Number(response.headers.get("Rota-Index") ?? 0);
      if (newest < head.peek()) head.value = newest;
      tell({ index: head.peek(), state: "live", why: "" });
      const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; ; ) {
        const { value, done } = await reader.read();
        if (done) break;
        const lines = (rest + value).split("\n");
        rest = lines.pop()!;
        for (const line of lines) {
          if (line.startsWith("data: ")) tell({ index: Number(line.slice(6)), state: "live", why: "" });
        }
      }
      if (!signal.aborted) tell({ index: head.peek(), state: "lost", why: "the host closed the connection" });
    } catch (error) {
      if (signal.aborted || token.peek() === "") return;
      // The log of another host, or one that was set back: begin anew with what it has.
      if (error instanceof Problem && (error.status === 404 || error.status === 410)) head.value = 0;
      tell({ index: head.peek(), state: "lost", why: error instanceof Error ? error.message : String(error) });
    }
    ++failures;
    await pause(Math.min(250 * 2 ** failures, 8000) * (0.75 + Math.random() / 2), signal);
  }
}

export function startStream(): () => void {
  const stop = new AbortController();
  if (channel) {
    channel.onmessage = (event: MessageEvent<StreamNews | "hello">) => {
      if (event.data !== "hello") return hear(event.data);
      if (streamRole.reader) channel.postMessage({ index: head.peek(), state: link.peek() === "lost" ? "lost" : "live", why: linkWhy.peek() });
    };
    channel.postMessage("hello");
  }
  const lead = async () => {
    if (stop.signal.aborted) return;
    streamRole.reader = true;
    await readStream(stop.signal);
    streamRole.reader = false;
  };
  if (channel && navigator.locks) {
    navigator.locks.request("rota.stream", { signal: stop.signal }, lead).catch(() => {});
  } else {
    void lead();
  }
  return () => stop.abort();
}
