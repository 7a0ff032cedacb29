// The panel of a task: why it waits or how it ended, its attempts, what it wrote, its result; and what can be done to it.
import { useEffect, useRef, useState } from "preact/hooks";
import { control, open, pathOf, patch, Problem } from "./api";
import { useData } from "./data";
import { clock, ms, reason, span } from "./format";
import { selectTask } from "./select";
import { at, say } from "./store";
import { taskLink } from "./now";
import { Act, ask, CopyCommand, Empty, Failure, Name, Rows, StateTag } from "./ui";
import type { Attempt, Explanation, Fact, Task } from "./types";

const TABS = [["why", "Why"], ["attempts", "Attempts"], ["logs", "Logs"], ["result", "Result"]] as const;

export function TaskPanel({ id }: { id: string }) {
  const [tab, setTab] = useState<string>("why");
  const { value: task, error, again } = useData<Task>(`/v1/tasks/${id}`);
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
          try {
            const done = await patch<{ index: number }>(`/v1/tasks/${id}`, { priority: Number(e.currentTarget.value) });
            say("ok", `priority of ${id}: ${e.currentTarget.value}, in the log at record ${done.index}`);
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
      <p class="sentence" data-reason={value.reason}><bdi>{value.sentence}</bdi></p>
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
  const { value, error, again } = useData<{ items: Attempt[]; complete: boolean }>(`/v1/tasks/${id}/attempts`);
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

const MOST_LOG = 400_000; // Characters kept in the page.

function Logs({ id, task }: { id: string; task: Task | null }) {
  const [text, setText] = useState<string | null>(null);
  const [error, setError] = useState<Problem | null>(null);
  const [follow, setFollow] = useState(true);
  const [find, setFind] = useState("");
  const box = useRef<HTMLPreElement>(null);
  const live = task !== null && (task.state === "running" || task.state === "ready" || task.state === "queued");
  const attempt = task?.attempt ?? 0;
  useEffect(() => {
    const stop = new AbortController();
    setText(null);
    setError(null);
    const add = (more: string) => setText((old) => ((old ?? "") + more).slice(-MOST_LOG));
    void (async () => {
      let offset = -1;
      for (let failures = 0; !stop.signal.aborted && failures < 20; ++failures) {
        try {
          const path = pathOf(`/v1/tasks/${id}/logs`, { tail: offset < 0 ? 5000 : undefined, offset: offset >= 0 ? offset : undefined, follow: live ? 1 : undefined });
          const response = await open(path, live ? "text/event-stream" : "text/plain", stop.signal);
          if (!live) {
            setText((await response.text()).slice(-MOST_LOG));
            return;
          }
          setText((old) => old ?? "");
          failures = 0;
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
              else if (line.startsWith("data: ")) add((JSON.parse(line.slice(6)) as { text: string }).text);
            }
          }
          if (offset < 0) return;
        } catch (e) {
          if (stop.signal.aborted) return;
          if (e instanceof Problem && e.status !== 0 && e.status !== 503) return setError(e);
        }
        await new Promise((r) => setTimeout(r, 800));
      }
    })();
    return () => stop.abort();
  }, [id, live, attempt]);
  useEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text, follow]);
  if (error) return error.status === 404 ? <Empty title="No output yet"><p>{error.message}</p></Empty> : <Failure error={error} />;
  const shown = text ?? "";
  const hits = find === "" ? 0 : shown.split(find).length - 1;
  return (
    <>
      <div class="pad row">
        <input type="search" aria-label="Find in the output" placeholder="Find" value={find} onInput={(e) => setFind(e.currentTarget.value)} />
        <small role="status">{find !== "" && `${hits} found`}</small>
        <span class="grow" />
        <button class="toggle" aria-pressed={follow} onClick={() => setFollow(!follow)}>Follow</button>
        <CopyCommand command={`rota logs ${id}${live ? " --follow" : ""}`} />
      </div>
      <pre class="log" ref={box} tabIndex={0} aria-label="Output of the task" onWheel={() => setFollow(false)}>
        {text === null ? "" : shown === "" ? "It has written nothing yet." : find === "" ? shown : shown.split(find).flatMap((part, i) => (i === 0 ? [part] : [<mark key={i}>{find}</mark>, part]))}
      </pre>
    </>
  );
}

function ResultOf({ id }: { id: string }) {
  const { value, error, again } = useData<{ state: string; result: unknown; checkpoint: unknown }>(`/v1/tasks/${id}/result`);
  if (error && !value) return <Failure error={error} again={again} />;
  if (!value) return <Rows n={3} />;
  if (value.result === null && value.checkpoint === null) return <Empty title="No result"><p>{value.state === "succeeded" ? "It succeeded without one." : "A task has a result when it succeeds."}</p></Empty>;
  return (
    <>
      {value.result !== null && <pre class="log" tabIndex={0} aria-label="Result">{JSON.stringify(value.result, null, 2).slice(0, 200_000)}</pre>}
      {value.checkpoint !== null && <><h3 class="pad">Checkpoint</h3><pre class="log" tabIndex={0} aria-label="Checkpoint">{JSON.stringify(value.checkpoint, null, 2).slice(0, 200_000)}</pre></>}
    </>
  );
}
