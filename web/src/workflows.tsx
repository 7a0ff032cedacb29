// Workflows: all of them, with a filter in the URL, bars by state, and control of one or many.
import { control } from "./api";
import { useNow } from "./data";
import { clock, count, ms, span } from "./format";
import { ListTitle, SelectAll, SelectOne, ShowMore, usePaged } from "./paged";
import { href, place, setQuery } from "./store";
import { Act, ask, Choice, CopyCommand, Empty, Failure, Name, Rows, Search, StateBar, StateTag } from "./ui";
import type { Workflow } from "./types";

const OUTCOMES = [["", "All"], ["running", "Running"], ["succeeded", "Succeeded"], ["failed", "Failed"], ["cancelled", "Cancelled"]] as const;

export async function controlWorkflows(verb: string, ids: string[]): Promise<void> {
  if (verb === "cancel") {
    const what = ids.length === 1 ? ids[0]! : `${ids.length} workflows`;
    if (!(await ask(`Cancel ${what}?`, "Running programs get TERM, then KILL. Retry runs what was cancelled again.", "Cancel it"))) return;
  }
  await control(verb, "workflows", ids);
}

export function WorkflowActions({ ids, outcomes }: { ids: string[]; outcomes: string[] }) {
  const none = ids.length === 0;
  const running = outcomes.includes("running");
  const ended = outcomes.some((o) => o === "failed" || o === "cancelled");
  const run = (verb: string) => () => controlWorkflows(verb, ids);
  return (
    <>
      <Act run={run("pause")} disabled={none || !running}>Pause</Act>
      <Act run={run("resume")} disabled={none || !running}>Resume</Act>
      <Act run={run("retry")} disabled={none || !ended} why="Runs failed and cancelled tasks again">Retry</Act>
      <Act run={run("cancel")} disabled={none || !running} danger>Cancel</Act>
    </>
  );
}

export function Workflows() {
  const query = place.value.query;
  const outcome = query.get("outcome") ?? "";
  const q = query.get("q") ?? "";
  const user = query.get("user") ?? "";
  const list = usePaged<Workflow>("/v1/workflows", { limit: 100, outcome, q, user });
  const { value, error, again, items } = list;
  const now = useNow();
  const ids = items.filter((w) => list.chosen.has(w.id));
  return (
    <>
      <div class="head">
        <h1>Workflows</h1>
        <div class="grow" />
        <Choice label="Outcome" value={outcome} options={OUTCOMES as unknown as [string, string][]} pick={(v) => setQuery({ outcome: v }, false)} />
        <Search label="Name contains" value={q} set={(v) => setQuery({ q: v })} />
      </div>
      <section class="card" aria-label="Workflows">
        <header>
          <ListTitle list={list} kind="workflow" />
          {user !== "" && <button onClick={() => setQuery({ user: "" })}>of {user} ✕</button>}
          <WorkflowActions ids={ids.map((w) => w.id)} outcomes={ids.map((w) => w.outcome)} />
          <CopyCommand command={ids.length > 0 ? ids.map((w) => `rota watch ${w.id}`).join("\n") : "rota status --all"} />
        </header>
        {error && !value ? <Failure error={error} again={again} /> : !value ? <Rows n={8} /> : items.length === 0 ? (
          q || outcome || user ? <Empty title="No workflow matches"><button onClick={() => setQuery({ q: "", outcome: "", user: "" })}>Show all</button></Empty>
            : <Empty title="There are no workflows yet"><p>Submit one from a terminal.</p><pre>rota submit nightly.yaml</pre></Empty>
        ) : (
          <div class="scroll">
            <table>
              <thead>
                <tr>
                  <th scope="col"><SelectAll list={list} /></th>
                  <th scope="col">Name</th><th scope="col">Outcome</th><th scope="col" class="hide-small">Tasks by state</th><th scope="col" class="num hide-small">Tasks</th><th scope="col" class="num hide-small">Running</th>
                  <th scope="col" class="hide-small">User</th><th scope="col" class="hide-small">Submitted</th><th scope="col" class="num">Took</th>
                </tr>
              </thead>
              <tbody>
                {items.map((w) => (
                  <tr key={w.id} class={list.chosen.has(w.id) ? "on" : ""}>
                    <td><SelectOne list={list} id={w.id} /></td>
                    <td class="main-col"><a href={href("run", w.id)}><Name text={w.name} most={40} /></a> <small>{w.id}</small><div class="only-small">{w.counted && <StateBar states={w.states} total={w.tasks} />}</div></td>
                    <td><StateTag state={w.outcome} /></td>
                    <td class="wide hide-small">{w.counted ? <StateBar states={w.states} total={w.tasks} /> : <small>too many to count here</small>}</td>
                    <td class="num hide-small">{count(w.tasks)}</td>
                    <td class="num hide-small">{w.running > 0 ? count(w.running) : ""}</td>
                    <td class="hide-small"><button class="link" onClick={() => setQuery({ user: w.user }, false)}><Name text={w.user} most={20} /></button></td>
                    <td class="nowrap hide-small">{clock(w.submitted)}</td>
                    <td class="num nowrap">{span((w.ended ? ms(w.ended) : now) - ms(w.submitted))}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
        <ShowMore list={list} />
      </section>
    </>
  );
}
