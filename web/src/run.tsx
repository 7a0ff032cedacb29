// Run: the graph, the timeline and the tasks of one workflow, linked by one selection; and the panel of a task.
import { useEffect, useState } from "preact/hooks";
import { useData, useNow } from "./data";
import { clock, count, ms, span } from "./format";
import { GraphCanvas } from "./graph";
import { TaskPanel } from "./panel";
import { selectedStage, selectedTask, selectStage, selectTask } from "./select";
import { href, place, setQuery } from "./store";
import { TasksCard } from "./tasks";
import { TimelineCard } from "./timeline";
import { Card, CopyCommand, Empty, Failure, Legend, Name, Rows, StateBar, StateTag } from "./ui";
import { WorkflowActions } from "./workflows";
import { STATES, type Graph, type Page, type StateCounts, type Workflow } from "./types";

export function Run({ id }: { id?: string }) {
  if (!id) return <Latest />;
  if (/^wf-\d+$/.test(id)) return <OneRun id={id} />;
  return <><div class="head"><h1>Run</h1></div><Empty title="Not found"><p>A workflow has a name like wf-7; this address has <Name text={id} most={40} />.</p><p><a href={href("workflows")}>Show all workflows</a></p></Empty></>;
}

// Without a workflow: the latest ones to choose from.
function Latest() {
  const { value, error, again } = useData<Page<Workflow>>("/v1/workflows?limit=12", { final: () => true });
  return (
    <>
      <div class="head"><h1>Run</h1></div>
      <Card title="Choose a workflow">
        {error && !value ? <Failure error={error} again={again} /> : !value ? <Rows /> : value.items.length === 0 ? (
          <Empty title="There are no workflows yet"><pre>rota submit nightly.yaml</pre></Empty>
        ) : (
          <ul class="list">
            {value.items.map((w) => (
              <li key={w.id}><div class="top"><StateTag state={w.outcome} /><a href={href("run", w.id)}><Name text={w.name} /></a><small>{w.id}, {count(w.tasks)} tasks, {clock(w.submitted)}</small></div></li>
            ))}
          </ul>
        )}
      </Card>
    </>
  );
}

function total(graph: Graph): StateCounts {
  const sum = Object.fromEntries(STATES.map((s) => [s, 0])) as StateCounts;
  for (const stage of graph.stages) for (const s of STATES) sum[s] += stage.states[s];
  return sum;
}

function OneRun({ id }: { id: string }) {
  const { value: graph, error, again } = useData<Graph>(`/v1/workflows/${encodeURIComponent(id)}/graph?level=task&fresh_ms=400`, { final: (g) => g.ended !== null });
  const now = useNow();
  const critical = place.value.query.get("critical") === "1";
  const failed = place.value.query.get("failed") === "1";
  const task = selectedTask.value;
  const [narrow, setNarrow] = useState(matchMedia("(max-width: 720px)").matches);
  const [part, setPart] = useState<"graph" | "timeline" | "tasks">("graph");
  useEffect(() => {
    const query = matchMedia("(max-width: 720px)");
    const change = () => setNarrow(query.matches);
    query.addEventListener("change", change);
    const escape = (e: KeyboardEvent) => {
      if (e.key !== "Escape" || document.querySelector("dialog[open]")) return;
      if (selectedTask.peek() !== "") selectTask(selectedTask.peek());
      else if (selectedStage.peek() !== "") selectStage(selectedStage.peek());
    };
    addEventListener("keydown", escape);
    return () => {
      query.removeEventListener("change", change);
      removeEventListener("keydown", escape);
    };
  }, []);
  if (error && !graph) return <><div class="head"><h1>{id}</h1></div><Failure error={error} again={again} /></>;
  const states = graph && total(graph);
  const tasks = graph ? graph.tasks.length : 0;
  const shows = (name: typeof part) => !narrow || part === name;
  return (
    <>
      <div class="head">
        <h1>{graph ? <Name text={graph.name} most={48} /> : id}</h1>
        {graph && <StateTag state={graph.outcome} />}
        <small>{id}{graph && <>, submitted {clock(graph.submitted)}, {graph.ended ? "took" : "running for"} {span((graph.ended ? ms(graph.ended) : now) - ms(graph.submitted))}</>}</small>
        <div class="grow" />
        <div class="row">
          <WorkflowActions ids={[id]} outcomes={graph ? [graph.outcome] : []} />
          <CopyCommand command={`rota watch ${id}`} />
        </div>
      </div>
      <div class={`run ${task !== "" ? "with-panel" : ""}`}>
        <div class="stack">
          <section class="card" aria-label="Progress"><div class="pad stack">{states ? <><StateBar states={states} total={tasks} /><Legend states={states} /></> : <Rows n={1} />}</div></section>
          {narrow && (
            <div class="choice" role="group" aria-label="Part of the run">
              {(["graph", "timeline", "tasks"] as const).map((p) => <button key={p} aria-pressed={part === p} onClick={() => setPart(p)}>{p === "graph" ? "Graph" : p === "timeline" ? "Timeline" : "Tasks"}</button>)}
            </div>
          )}
          {shows("graph") && (
            <Card title="Graph" aside={<>
              <button class="toggle" aria-pressed={critical} onClick={() => setQuery({ critical: critical ? "" : "1" })}>Critical path</button>
              <button class="toggle" aria-pressed={failed} onClick={() => setQuery({ failed: failed ? "" : "1" })}>Failed only</button>
              <CopyCommand command="rota trace --all -o trace.json" />
            </>}>
              {graph ? <GraphCanvas graph={graph} critical={critical} failedOnly={failed} /> : <div class="graph-box"><Rows /></div>}
            </Card>
          )}
          {shows("timeline") && (graph ? <TimelineCard graph={graph} failedOnly={failed} /> : <Card title="Timeline"><Rows /></Card>)}
          {shows("tasks") && <TasksCard workflow={id} failedOnly={failed} />}
        </div>
        {task !== "" && <TaskPanel key={task} id={task} />}
      </div>
    </>
  );
}
