// The tasks of a run as a table, with the reason of each wait.
import { useEffect, useRef, useState } from "preact/hooks";
import { control, get } from "./api";
import { aged, useNow } from "./data";
import { ms, span } from "./format";
import { ListTitle, SelectAll, SelectOne, ShowMore, usePaged } from "./paged";
import { selectedStage, selectedTask, selectStage, selectTask } from "./select";
import { at, head, place, setQuery } from "./store";
import { Act, ask, CopyCommand, Empty, Failure, Name, Rows, StateTag } from "./ui";
import { STATES, type Explanation, type Task } from "./types";

const WAITS = new Set(["queued", "ready", "paused"]);
const MOST_EXPLAINED = 20;
const AGAIN_MS = 3000;

// Why the first waiting tasks of the page wait: one request at a time, so that a long list costs the host little.
function useReasons(tasks: Task[]): Map<string, string> {
  const [reasons, setReasons] = useState(new Map<string, string>());
  const known = useRef(new Map<string, { key: string; time: number }>());
  const wanted = tasks.filter((t) => WAITS.has(t.state)).slice(0, MOST_EXPLAINED);
  const key = wanted.map((t) => t.id + t.state).join() + at.value;
  const moment = at.value === null ? `${Math.floor(head.value / 50)} ${aged.value}` : at.value;
  useEffect(() => {
    const stop = new AbortController();
    void (async () => {
      for (const task of wanted) {
        if (stop.signal.aborted) return;
        const now = performance.now();
        const last = known.current.get(task.id);
        if (last && last.key === `${task.state}@${at.peek()}` && (at.peek() !== null || now - last.time < AGAIN_MS)) continue;
        try {
          const why = await get<Explanation>(`/v1/tasks/${task.id}/explain`, stop.signal);
          known.current.set(task.id, { key: `${task.state}@${at.peek()}`, time: now });
          setReasons((old) => new Map(old).set(task.id, why.sentence.replace(/^\S+ \(.*?\) /s, "")));
        } catch {
          return;
        }
      }
    })();
    return () => stop.abort();
  }, [key, moment]);
  return reasons;
}

export function TasksCard({ workflow, failedOnly }: { workflow: string; failedOnly: boolean }) {
  const query = place.value.query;
  const state = failedOnly ? "failed" : query.get("state") ?? "";
  const stage = selectedStage.value;
  const base = { workflow, stage, state: state === "skipped" ? "succeeded" : state, limit: 100 };
  const list = usePaged<Task>("/v1/tasks", base, (t) => state !== "skipped" || t.skipped);
  const { value, error, again, items } = list;
  const now = useNow();
  const reasons = useReasons(items);
  const ids = items.filter((t) => list.chosen.has(t.id)).map((t) => t.id);
  const run = (verb: string) => async () => {
    if (verb === "cancel" && !(await ask(`Cancel ${ids.length === 1 ? ids[0] : `${ids.length} tasks`}?`, "Running programs get TERM, then KILL. What needs them is cancelled as well.", "Cancel"))) return;
    await control(verb, "tasks", ids);
  };
  return (
    <section class="card" aria-label="Tasks">
      <header>
        <ListTitle list={list} kind="task" />
        {stage !== "" && <button onClick={() => selectStage(stage)} aria-label={`Show all stages, not only ${stage.slice(0, 100)}`}><Name text={stage} most={24} /> ✕</button>}
        {ids.length > 0 && <><Act run={run("pause")}>Pause</Act><Act run={run("resume")}>Resume</Act><Act run={run("retry")}>Retry</Act><Act run={run("cancel")} danger>Cancel</Act></>}
        <label><span class="sr">State</span>
          <select value={state} disabled={failedOnly} onChange={(e) => setQuery({ state: e.currentTarget.value })}>
            <option value="">Any state</option>
            {STATES.map((s) => <option key={s} value={s}>{s}</option>)}
          </select>
        </label>
        <CopyCommand command={`rota watch ${workflow}`} />
      </header>
      {error && !value ? <Failure error={error} again={again} /> : !value ? <Rows n={6} /> : items.length === 0 ? (
        <Empty title="No task matches">{failedOnly ? <p>Nothing has failed.</p> : <button onClick={() => setQuery({ state: "", stage: "" })}>Show all</button>}</Empty>
      ) : (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col"><SelectAll list={list} /></th>
                <th scope="col">Task</th><th scope="col">State</th><th scope="col" class="hide-small">Worker</th><th scope="col" class="num">Attempt</th><th scope="col" class="num">Waited</th><th scope="col" class="num">Ran</th><th scope="col">Why</th>
              </tr>
            </thead>
            <tbody>
              {items.map((t) => {
                const began = t.started ?? t.assigned;
                return (
                  <tr key={t.id} class={selectedTask.value === t.id ? "on" : ""}>
                    <td><SelectOne list={list} id={t.id} /></td>
                    <td><button class="link" aria-pressed={selectedTask.value === t.id} onClick={() => selectTask(t.id)}><Name text={t.name} most={48} /></button></td>
                    <td><StateTag state={t.skipped ? "skipped" : t.state} text={t.reused ? "reused" : undefined as unknown as string} /></td>
                    <td class="hide-small nowrap"><Name text={t.worker ?? ""} most={24} /></td>
                    <td class="num">{t.attempt || ""}</td>
                    <td class="num nowrap">{t.ready_since ? span(ms(t.assigned ?? t.ended ?? new Date(now).toISOString()) - ms(t.ready_since)) : ""}</td>
                    <td class="num nowrap">{began ? span((t.ended ? ms(t.ended) : now) - ms(began)) : ""}</td>
                    <td class="why"><Name text={t.state === "failed" ? t.message || t.failure || "" : reasons.get(t.id) ?? ""} most={600} /></td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
      <ShowMore list={list} />
    </section>
  );
}
