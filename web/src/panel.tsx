// The panel of a task: why it waits or how it ended, its attempts, what it wrote, its result; and what can be done to it.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { control, open, pathOf, patch, Problem } from "./api";
import { useData } from "./data";
import { clock, count, memberText, ms, plain, reason, span } from "./format";
import { selectTask } from "./select";
import { at, say } from "./store";
import { taskLink } from "./now";
import { Act, ask, CopyCommand, Empty, Failure, Name, Rows, StateTag } from "./ui";
import type { Attempt, Explanation, Fact, Task } from "./types";

const TABS = [["why", "Why"], ["attempts", "Attempts"], ["logs", "Logs"], ["result", "Result"]] as const;

export function TaskPanel({ id }: { id: string }) {
  const [tab, setTab] = useState<string>("why");
  const { value: task, error, again } = useData<Task>(`/v1/tasks/${id}`, { final: () => true });
  const panel = useRef<HTMLElement>(null);
  const tabKey = (e: KeyboardEvent) => {
    const now = TABS.findIndex(([name]) => name === tab);
    const to = e.key === "ArrowRight" ? now + 1 : e.key === "ArrowLeft" ? now - 1 : -1;
    if (to < 0 || to >= TABS.length) return;
    setTab(TABS[to]![0]);
    (panel.current?.querySelectorAll<HTMLElement>("[role=tab]")[to])?.focus();
  };
  return (
    <aside class="card panel" aria-label={`Task ${id}`} ref={panel}>
      <header>
        <h2>{task ? <Name text={task.name} most={40} /> : id}</h2>
        {task && <StateTag state={task.skipped ? "skipped" : task.state} />}
        <button class="quiet" aria-label="Close" title="Close (Escape)" onClick={() => selectTask(id)}>
          <svg viewBox="0 0 16 16" aria-hidden="true"><path d="M4 4l8 8M12 4l-8 8" /></svg>
        </button>
      </header>
      {error && !task ? <Failure error={error} again={again} /> : (
        <>
          <div class="pad row"><Actions id={id} task={task} /></div>
          <div class="tabs" role="tablist" aria-label="About the task" onKeyDown={tabKey}>
            {TABS.map(([name, text]) => (
              <button key={name} role="tab" id={`tab-${name}`} aria-selected={tab === name} aria-controls="tab-panel" tabIndex={tab === name ? 0 : -1} onClick={() => setTab(name)}>{text}</button>
            ))}
          </div>
          <div role="tabpanel" id="tab-panel" aria-labelledby={`tab-${tab}`}>
            {tab === "why" && <Why id={id} />}
            {tab === "attempts" && <Attempts id={id} />}
            {tab === "logs" && <Logs id={id} task={task} />}
            {tab === "result" && <ResultOf id={id} />}
          </div>
        </>
      )}
    </aside>
  );
}

function Actions({ id, task }: { id: string; task: Task | null }) {
  const state = task?.state;
  const ended = state === "succeeded" || state === "failed" || state === "cancelled";
  const run = (verb: string) => () => control(verb, "tasks", [id]);
  return (
    <>
      {state === "paused" ? <Act run={run("resume")}>Resume</Act> : <Act run={run("pause")} disabled={!task || ended}>Pause</Act>}
      <Act run={run("retry")} disabled={state !== "failed" && state !== "cancelled"}>Retry</Act>
      <Act danger disabled={!task || ended} run={async () => {
        if (await ask(`Cancel ${id}?`, "Its program gets TERM, then KILL. Tasks that need it are cancelled as well.", "Cancel it")) await control("cancel", "tasks", [id]);
      }}>Cancel</Act>
      <label>
        <span class="sr">Priority</span>
        <select title="Priority" value={String(task?.priority ?? 0)} disabled={!task || ended || at.value !== null} onChange={async (e) => {
          const priority = Number(e.currentTarget.value); // The event has no target after a wait.
          try {
            const done = await patch<{ index: number }>(`/v1/tasks/${id}`, { priority });
            say("ok", `priority of ${id}: ${priority}, in the log at record ${done.index}`);
          } catch (error) {
            say("bad", error instanceof Problem ? error.message : String(error));
          }
        }}>
          {[...new Set([task?.priority ?? 0, -10, 0, 10, 100])].sort((a, b) => a - b).map((p) => <option key={p} value={String(p)}>priority {p}</option>)}
        </select>
      </label>
    </>
  );
}

const WORDS: Record<string, string> = {
  place: "Place in the order", ready_tasks: "Ready tasks", able: "Workers that could run it", busy: "Of these busy", disabled: "Disabled",
  draining: "Draining", unreachable: "Unreachable", nearest: "Nearest worker", requirement: "What is missing", ready_since_ns: "Ready since",
  fails_ns: "Fails at", until_ns: "Next attempt", assigned_ns: "Assigned", assigned_in: "Assigned by record", took_ns: "Took", ended_ns: "Ended",
};
function factText(fact: Fact): string {
  if (fact.name === "took_ns") return span(Number(fact.value) / 1e6);
  if (fact.name.endsWith("_ns")) return clock(new Date(Number(fact.value) / 1e6).toISOString(), true);
  if (fact.name.endsWith("_billionths")) return (Number(fact.value) / 1e9).toFixed(4);
  return String(fact.value).slice(0, 2000);
}
const factName = (name: string) => {
  const text = (WORDS[name] ?? name.replace(/_(ns|billionths)$/, "")).replaceAll("_", " ");
  return text[0]!.toUpperCase() + text.slice(1);
};

function Why({ id }: { id: string }) {
  const { value, error, again } = useData<Explanation & { ahead?: string[] }>(`/v1/tasks/${id}/explain`);
  if (error && !value) return <Failure error={error} again={again} />;
  if (!value) return <Rows />;
  const when = value.at && at.value !== null ? ` --at ${value.at}` : "";
  return (
    <div class="pad stack">
      <p class="sentence" data-reason={value.reason}><bdi>{plain(value.sentence)}</bdi></p>
      <dl class="facts">
        <dt>Reason</dt><dd>{reason(value.reason)}</dd>
        {value.facts.map((f, i) => <><dt key={`t${i}`}>{factName(f.name)}</dt><dd key={`d${i}`}><bdi>{factText(f)}</bdi></dd></>)}
        {value.ahead && value.ahead.length > 0 && <><dt>Ahead of it</dt><dd>{value.ahead.map((t, i) => <>{i > 0 && ", "}<a href={taskLink(t)}>{t}</a></>)}</dd></>}
      </dl>
      <div class="row"><CopyCommand command={`rota explain ${id}${when}`} /></div>
    </div>
  );
}

function Attempts({ id }: { id: string }) {
  const { value, error, again } = useData<{ items: Attempt[]; complete: boolean }>(`/v1/tasks/${id}/attempts`, { final: () => true });
  if (error && !value) return <Failure error={error} again={again} />;
  if (!value) return <Rows n={3} />;
  if (value.items.length === 0) return <Empty title="No attempt yet"><p>An attempt begins when the task is sent to a worker.</p></Empty>;
  return (
    <ul class="list">
      {[...value.items].reverse().map((a) => (
        <li key={a.attempt}>
          <div class="top">
            <b>Attempt {a.attempt}</b>
            <StateTag state={a.end === "" ? "running" : a.end === "succeeded" || a.end === "cancelled" ? a.end : "failed"} text={a.end.replaceAll("_", " ") || "running"} />
            <span class="grow" />
            <small>{a.ended ? span(ms(a.ended) - ms(a.started ?? a.assigned)) : ""}</small>
          </div>
          <p>on <Name text={a.worker} /> at {clock(a.started ?? a.assigned, true)}, record {a.assigned_in}{a.ended_in > 0 && ` to ${a.ended_in}`}</p>
          {a.message !== "" && <p><Name text={a.message} most={600} /></p>}
        </li>
      ))}
      {!value.complete && <li><p>Earlier attempts are in records that are no longer kept.</p></li>}
    </ul>
  );
}

const MOST_LOG = 2_000_000; // Characters kept in the page: more than a host keeps of an attempt.
const MOST_RESULT = 200_000;
const MOST_FOUND = 1000; // Matches that are marked.

function Logs({ id, task }: { id: string; task: Task | null }) {
  const [text, setText] = useState<string | null>(null);
  const [cut, setCut] = useState(false); // The beginning is not in `text`.
  const [error, setError] = useState<Problem | null>(null);
  const [follow, setFollow] = useState(true);
  const [find, setFind] = useState("");
  const [match, setMatch] = useState(0);
  const [chosen, setChosen] = useState(0); // The attempt; 0: the latest.
  const box = useRef<HTMLPreElement>(null);
  const latest = task?.attempt ?? 0;
  const attempt = chosen > 0 && chosen < latest ? chosen : latest;
  const live = attempt === latest && task !== null && (task.state === "running" || task.state === "ready" || task.state === "queued");
  useEffect(() => {
    const stop = new AbortController();
    setText(null);
    setCut(false);
    setError(null);
    const set = (all: string): string => {
      if (all.length > MOST_LOG) setCut(true);
      return all.slice(-MOST_LOG);
    };
    const of = attempt < latest ? attempt : undefined;
    void (async () => {
      let offset = 0;
      for (let failures = 0; !stop.signal.aborted && failures < 20; ++failures) {
        try {
          const path = pathOf(`/v1/tasks/${id}/logs`, { attempt: of, offset, follow: live ? 1 : undefined });
          const response = await open(path, live ? "text/event-stream" : "text/plain", stop.signal);
          failures = 0;
          if (!live) {
            // The host answers in parts.
            const part = await response.text();
            setText((old) => set((old ?? "") + part));
            const next = Number(response.headers.get("Rota-Log-Next") ?? 0);
            if (next <= offset || next >= Number(response.headers.get("Rota-Log-Size") ?? 0)) return;
            offset = next;
            continue;
          }
          setText((old) => old ?? "");
          const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
          let rest = "";
          for (;;) {
            const { value, done } = await reader.read();
            if (done) break;
            const lines = (rest + value).split("\n");
            rest = lines.pop()!;
            for (const line of lines) {
              if (line.startsWith("id: ")) offset = Number(line.slice(4));
              else if (line === "event: end") return;
              else if (line.startsWith("data: ")) {
                const more = (JSON.parse(line.slice(6)) as { text: string }).text;
                setText((old) => set((old ?? "") + more));
              }
            }
          }
        } catch (e) {
          if (stop.signal.aborted) return;
          if (e instanceof Problem && e.status !== 0 && e.status !== 503) return setError(e);
        }
        await new Promise((r) => setTimeout(r, 800));
      }
    })();
    return () => stop.abort();
  }, [id, live, attempt]);
  const shown = text ?? "";
  const parts = useMemo(() => (find === "" ? [shown] : shown.split(find)), [shown, find]);
  const hits = parts.length - 1;
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const mark = find === "" ? null : element.querySelectorAll("mark")[Math.min(match, MOST_FOUND - 1)];
    if (mark) element.scrollTop = (mark as HTMLElement).offsetTop - element.offsetTop - element.clientHeight / 2;
    else if (follow) element.scrollTop = element.scrollHeight;
  }, [text, follow, find, match]);
  const step = (by: number) => hits > 0 && setMatch((match + by + hits) % hits);
  if (error) return error.status === 404 ? <Empty title="No output yet"><p>{error.message}</p></Empty> : <Failure error={error} />;
  return (
    <>
      <div class="pad row">
        {latest > 1 && (
          <label><span class="sr">Attempt</span>
            <select value={String(attempt)} onChange={(e) => setChosen(Number(e.currentTarget.value))}>
              {Array.from({ length: latest }, (_, i) => latest - i).map((n) => <option key={n} value={String(n)}>attempt {n}</option>)}
            </select>
          </label>
        )}
        <input type="search" aria-label="Find in the output; Enter goes to the next match" placeholder="Find" value={find}
          onInput={(e) => (setFind(e.currentTarget.value), setMatch(0))}
          onKeyDown={(e) => e.key === "Enter" && (e.preventDefault(), step(e.shiftKey ? -1 : 1))} />
        {hits > 0 && <><button aria-label="Previous match" onClick={() => step(-1)}>↑</button><button aria-label="Next match" onClick={() => step(1)}>↓</button></>}
        <small role="status">{find !== "" && (hits > 0 ? `${count(match + 1)} of ${count(hits)} found` : "0 found")}</small>
        <span class="grow" />
        <button class="toggle" aria-pressed={follow} onClick={() => setFollow(!follow)}>Follow</button>
        <CopyCommand command={`rota logs ${id}${attempt < latest ? ` --attempt ${attempt}` : live ? " --follow" : ""}`} />
      </div>
      {cut && <p class="pad why">The beginning is not shown: the output is longer than {count(MOST_LOG)} characters.</p>}
      <pre class="log" ref={box} tabIndex={0} aria-label="Output of the task" onWheel={() => setFollow(false)}>
        {text === null ? "" : shown === "" ? "It has written nothing yet." : find === "" ? shown : parts.slice(0, MOST_FOUND + 1).flatMap((part, i) => (i === 0 ? [part] : [<mark key={i} class={i - 1 === match ? "on" : ""}>{find}</mark>, part])).concat(hits > MOST_FOUND ? [find + parts.slice(MOST_FOUND + 1).join(find)] : [])}
      </pre>
    </>
  );
}

function ResultOf({ id }: { id: string }) {
  const { value, error, again } = useData<string>(`/v1/tasks/${id}/result`, { text: true, final: () => true });
  if (error && !value) return <Failure error={error} again={again} />;
  if (!value) return <Rows n={3} />;
  const result = memberText(value, "result");
  const checkpoint = memberText(value, "checkpoint");
  if (result === null && checkpoint === null) return <Empty title="No result"><p>{memberText(value, "state") === '"succeeded"' ? "It succeeded without one." : "A task has a result when it succeeds."}</p></Empty>;
  return (
    <>
      {result !== null && <pre class="log" tabIndex={0} aria-label="Result">{result.slice(0, MOST_RESULT)}</pre>}
      {(result?.length ?? 0) > MOST_RESULT && <p class="pad why">The rest is not shown: it has {count(result!.length)} characters.</p>}
      {checkpoint !== null && <><h3 class="pad">Checkpoint</h3><pre class="log" tabIndex={0} aria-label="Checkpoint">{checkpoint.slice(0, MOST_RESULT)}</pre></>}
    </>
  );
}
