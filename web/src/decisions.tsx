// Decisions: the ready tasks in the order of decisions, with the reason of each wait; and the feed of assignments, with the
// numbers behind each.
import { useState } from "preact/hooks";
import type { Problem } from "./api";
import { useData, useNow, type Data } from "./data";
import { clock, count, ms, reason, span } from "./format";
import { taskLink } from "./now";
import { at, first, head, href, place, setQuery } from "./store";
import { Card, CopyCommand, Empty, Failure, Name, Rows, Search } from "./ui";
import type { LogRecord, Page, Task, Worker } from "./types";

type Decision = {
  record: number; time: string | null; task: string; attempt: number; worker: string; queued: boolean; members: string[]; why: string;
  reasoning: Record<string, number | string> | null;
};
type QueueItem = { task: string; name: string; priority: number; ready_since: string | null; reason: string; sentence: string };

const WHY: Record<string, string> = {
  only_worker_available: "the only worker that could take it", least_loaded: "the least loaded", resource_fit: "the smallest that satisfies it",
  affinity: "near what it needs", score: "the best score", sticky: "has the weights of its parent", pinned: "bound there", first_fit: "the first that fits",
  round_robin: "next in turn", random: "drawn by its number", custom: "chosen by this program",
};
const number = (value: unknown): string => (Number(value) / 1e9).toFixed(3);

// score = lambda * throughput - (1 - lambda) * cost + jitter
function Score({ r }: { r: Record<string, number | string> }) {
  if (r["score"] === undefined) return null;
  return (
    <p class="mono">
      {number(r["lambda"])} × throughput {number(r["throughput"])} − {number(1e9 - Number(r["lambda"]))} × cost {number(r["cost"])} + jitter {number(r["jitter"])} = <b>{number(r["score"])}</b>
    </p>
  );
}

// A host of another release may lack a route; then the same is read from others, with less detail.
const lacks = (error: Problem | null) => error?.status === 404 && error.message.includes("nothing at");

function useQueue(): Data<Page<QueueItem>> {
  const queue = useData<Page<QueueItem>>("/v1/queue?limit=50");
  const missing = lacks(queue.error);
  const tasks = useData<Page<Task>>(missing ? "/v1/tasks?state=ready&limit=50" : null);
  if (!missing) return queue;
  const items = tasks.value?.items.map((t) => ({ ...t, task: t.id, reason: "", sentence: "" }));
  return { ...tasks, value: tasks.value && { ...tasks.value, items: items! } };
}

type Assigned = { event: string; task: string; attempt: number; worker: string; queued: boolean; members: { task: string }[]; reasoning: Record<string, number | string> };
function useFeed(workflow: string): Data<Page<Decision>> {
  const feed = useData<Page<Decision>>(`/v1/decisions?limit=50${workflow ? `&workflow=${encodeURIComponent(workflow)}` : ""}`);
  const missing = lacks(feed.error);
  const last = at.value ?? head.value;
  const from = Math.max(first.value, 64 * Math.floor((last - 192) / 64), 1);
  const log = useData<Page<LogRecord>>(missing && last > 0 ? `/v1/events?from=${from}&limit=256` : null, { now: true });
  const workers = useData<Page<Worker>>(missing ? "/v1/workers" : null, { still: true });
  if (!missing) return feed;
  const names = new Map(workers.value?.items.map((w) => [w.id, w.name]));
  const items = (log.value?.items ?? []).filter((r) => r.record <= last).reverse().flatMap((r) =>
    (r.events as Assigned[]).filter((e) => e.event === "TaskAssigned" && (workflow === "" || e.task.startsWith(workflow + "."))).map((e): Decision => ({
      record: r.record, time: new Date(Number(r.wall_ns) / 1e6).toISOString(), task: e.task, attempt: e.attempt, worker: names.get(e.worker) ?? e.worker,
      queued: e.queued, members: e.members.map((m) => m.task), why: String(e.reasoning["why"]), reasoning: e.reasoning,
    })));
  return { ...log, value: log.value && { ...log.value, items: items.slice(0, 50) } };
}

function Queue() {
  const { value, error, again } = useQueue();
  const now = useNow();
  if (error && !value) return <Failure error={error} again={again} />;
  if (!value) return <Rows n={8} />;
  if (value.items.length === 0) return <Empty title="No task is ready and waiting"><p>A task that waits for a place appears here, with the reason.</p></Empty>;
  return (
    <ol class="list">
      {value.items.map((q, i) => (
        <li key={q.task}>
          <div class="top">
            <small>{i + 1}</small>
            <a href={taskLink(q.task)}><Name text={q.name} most={40} /></a>
            <small>{q.task}, priority {q.priority}</small>
            <span class="grow" />
            <small>{q.ready_since && span(now - ms(q.ready_since))}</small>
          </div>
          <p>{q.reason !== "" && <b>{reason(q.reason)}: </b>}<Name text={q.sentence.replace(/^\S+ \(.*?\) /s, "")} most={300} /></p>
        </li>
      ))}
      {value.next_cursor !== null && <li><p>The first {count(value.items.length)} are shown.</p></li>}
    </ol>
  );
}

function Feed() {
  const query = place.value.query;
  const workflow = query.get("workflow") ?? "";
  const [open, setOpen] = useState(-1);
  const { value, error, again } = useFeed(workflow);
  if (error && !value) return <Failure error={error} again={again} />;
  if (!value) return <Rows n={8} />;
  if (value.items.length === 0) return <Empty title="No assignment yet"><p>Each task that is sent to a worker appears here, with the worker's score and how many could have taken it.</p></Empty>;
  return (
    <ol class="list">
      {value.items.map((d) => {
        const r = d.reasoning ?? {};
        const key = d.record * 1000 + d.attempt;
        return (
          <li key={`${d.record}.${d.task}`}>
            <div class="top">
              <a href={taskLink(d.task)}>{d.task}</a>
              <span aria-hidden="true">→</span>
              <a href={href("workers", "", { q: d.worker })}><Name text={d.worker} most={24} /></a>
              <span class="grow" />
              <small><a href={href(place.value.view, "", { at: String(d.record) })} title="Show the state after this record">record {count(d.record)}</a>, {clock(d.time, true)}</small>
            </div>
            <p>
              {WHY[d.why] ?? d.why.replaceAll("_", " ")}
              {r["candidates"] !== undefined && ` of ${count(Number(r["candidates"]))}`}
              {d.attempt > 1 && `, attempt ${d.attempt}`}
              {d.queued && ", queued at the worker"}
              {d.members.length > 0 && `, with ${count(d.members.length)} merged`}
              {Number(r["reuse_hits"] ?? 0) > 0 && `, ${r["reuse_hits"]} of its items in the cache there`}
              {" "}<button class="link" aria-expanded={open === key} onClick={() => setOpen(open === key ? -1 : key)}>{open === key ? "less" : "numbers"}</button>
            </p>
            {open === key && <Score r={r} />}
          </li>
        );
      })}
    </ol>
  );
}

export function Decisions(_props: { id?: string }) {
  const workflow = place.value.query.get("workflow") ?? "";
  return (
    <>
      <div class="head">
        <h1>Decisions</h1>
        <div class="grow" />
        <Search label="Of workflow, like wf-3" value={workflow} set={(v) => setQuery({ workflow: v })} />
      </div>
      <div class="cols even">
        <Card title="Ready, and why each waits"><Queue /></Card>
        <Card title="Assignments, the newest first" aside={<CopyCommand command="rota replay --records" />}><Feed /></Card>
      </div>
    </>
  );
}
