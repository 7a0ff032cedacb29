// Now: what runs, what waits and for which reason, what needs a person.
import { useData, useNow } from "./data";
import { clock, cores, count, ms, plain, reason, short, span } from "./format";
import { HistoryCard } from "./history";
import { at, href } from "./store";
import { Card, CopyCommand, Empty, Failure, Glyph, Legend, Name, Rows, StateBar, StateTag } from "./ui";
import type { Overview, Page, Task } from "./types";

export function taskLink(id: string): string {
  return href("run", id.replace(/\.\d+$/, ""), { task: id });
}

function Waits({ overview }: { overview: Overview }) {
  const now = useNow();
  const most = Math.max(1, ...overview.waiting.map((w) => w.tasks));
  if (overview.waiting.length === 0) {
    return <Empty title="Nothing waits">{overview.states.running > 0 ? <p>Every task that may run is running.</p> : <p>Submit a workflow to see work here.</p>}</Empty>;
  }
  return (
    <ul class="list">
      {overview.waiting.map((w) => (
        <li key={w.reason + w.example}>
          <div class="top">
            <b>{count(w.tasks)}</b> {w.tasks === 1 ? "task waits for" : "tasks wait for"} {reason(w.reason)}
            <span class="grow" />
            {w.oldest !== null && <small>longest {span(now - ms(w.oldest))}</small>}
          </div>
          <div class="meter" aria-hidden="true"><i class={w.reason === "needs" ? "b-queued" : w.reason === "paused" ? "b-paused" : w.reason === "unplaceable" ? "b-failed" : "b-ready"} style={{ width: `${Math.max(1, (100 * w.tasks) / most)}%` }} /></div>
          {w.example !== "" && <p>For example <a href={taskLink(w.example)}>{w.example}</a>: {plain(w.sentence.replace(/^\S+ \(.*?\) /s, ""))}</p>}
        </li>
      ))}
    </ul>
  );
}

function Attentions({ overview }: { overview: Overview }) {
  if (overview.attention.length === 0) return <Empty title="Nothing needs you"><p>Failures, pauses, unreachable workers and tasks that no worker can run appear here.</p></Empty>;
  return (
    <ul class="list">
      {overview.attention.map((a, i) => (
        <li key={i}>
          <div class="top">
            <StateTag state={a.kind === "paused" ? "paused" : "failed"} text={a.kind === "unplaceable" ? "no worker can run it" : a.kind === "workflow" ? "failed" : a.kind} />
            {a.kind === "worker" ? <a href={href("workers")}><Name text={a.subject} /></a> : a.kind === "workflow" ? <a href={href("run", a.subject, { failed: "1" })}>{a.subject}</a> : <a href={taskLink(a.subject)}>{a.subject}</a>}
          </div>
          <p><Name text={plain(a.text)} most={600} /></p>
        </li>
      ))}
    </ul>
  );
}

function Running() {
  const { value, error, again } = useData<Page<Task>>("/v1/tasks?state=running&limit=50", { final: () => true });
  const now = useNow();
  if (error && !value) return <Failure error={error} again={again} />;
  if (!value) return <Rows n={4} />;
  if (value.items.length === 0) return <Empty title="Nothing runs"><pre>rota submit nightly.yaml</pre></Empty>;
  return (
    <div class="scroll">
      <table>
        <thead><tr><th scope="col">Task</th><th scope="col">Workflow</th><th scope="col">Worker</th><th scope="col" class="num">Attempt</th><th scope="col" class="num">Running for</th></tr></thead>
        <tbody>
          {value.items.map((t) => (
            <tr key={t.id}>
              <td><a href={taskLink(t.id)}><Name text={t.name} /></a></td>
              <td>{t.workflow}</td>
              <td><Name text={t.worker ?? ""} /></td>
              <td class="num">{t.attempt}</td>
              <td class="num nowrap">{span(now - ms(t.started ?? t.assigned))}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {value.next_cursor !== null && <p class="pad why">The first 50 are shown.</p>}
    </div>
  );
}

export function Now() {
  const { value: o, error, again } = useData<Overview>("/v1/overview?fresh_ms=400");
  if (error && !o) return <><Head /><Failure error={error} again={again} /></>;
  const waiting = o ? o.ready + o.states.paused : 0;
  const k = (label: string, value: string, sub: string, to: string, glyph?: "running" | "ready" | "failed", bad = false, click?: (e: Event) => void) => (
    <a class={`kpi ${bad ? "bad" : ""}`} href={to} onClick={click}>
      <div class="label">{glyph && <Glyph state={glyph} />}{label}</div>
      <div class="value">{o ? value : "–"}</div>
      <div class="sub">{o ? sub : ""}</div>
    </a>
  );
  const w = o?.workers;
  return (
    <>
      <Head />
      <div class="stack">
        <div class="kpis">
          {k("Running", short(o?.states.running ?? 0), `in ${count(o?.workflows_running ?? 0)} workflow${o?.workflows_running === 1 ? "" : "s"}`, href("workflows", "", { outcome: "running" }), "running")}
          {k("Waiting", short(waiting), o ? `ready; ${short(o.states.queued)} more need other tasks first` : "", href("decisions"), "ready")}
          {k("Queue wait p95", o ? span(o.wait_p95_ms) : "", o ? `median ${span(o.wait_p50_ms)}, most ${span(o.wait_most_ms)}` : "", href("decisions"))}
          {k("Cores in use", w ? cores(w.cpu_millis_used) : "", w ? `of ${cores(w.cpu_millis)} on ${count(w.usable)} worker${w.usable === 1 ? "" : "s"}` : "", href("workers"))}
          {k("Needs you", String(o?.attention.length ?? 0), o && o.attention.length > 0 ? "see below" : "nothing", href("now"), "failed", (o?.attention.length ?? 0) > 0, (e) => {
            e.preventDefault();
            document.getElementById("attention")?.scrollIntoView({ block: "center" });
          })}
        </div>
        <div class="cols">
          <Card title="Why tasks wait" aside={<CopyCommand command="rota status --all" />}>{o ? <Waits overview={o} /> : <Rows />}</Card>
          <Card title="Needs a person" id="attention">{o ? <Attentions overview={o} /> : <Rows n={3} />}</Card>
        </div>
        <Card title="Tasks by state" aside={o && !o.complete ? <small>Very many tasks: the counts are lower bounds.</small> : undefined}>
          <div class="pad stack">{o ? <>{o.workflows_running === 0 ? <p class="why">No workflow is running.</p> : <><StateBar states={o.states} total={Object.values(o.states).reduce((a, b) => a + b, 0)} /><Legend states={o.states} /></>}</> : <Rows n={1} />}</div>
        </Card>
        <HistoryCard />
        <Card title="Running now"><Running /></Card>
      </div>
    </>
  );
  function Head() {
    return <div class="head"><h1>Now</h1><small>{at.value === null ? "" : clock(o?.time ?? null, true)}</small></div>;
  }
}
