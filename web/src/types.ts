// The objects of the HTTP interface that the page uses (docs/api.md).

export const STATES = ["queued", "ready", "running", "paused", "succeeded", "skipped", "failed", "cancelled"] as const;
export type State = (typeof STATES)[number];
export type StateCounts = Record<State, number>;
// The letters of Graph.tasks; a state in a timeline is the position of its letter.
export const LETTERS = "qrapskfc";

export type Workflow = {
  id: string; name: string; user: string; key: string; priority: number; outcome: string;
  submitted: string | null; ended: string | null; tasks: number; unfinished: number; running: number;
  states: StateCounts; counted: boolean;
};
export type Task = {
  id: string; workflow: string; name: string; stage: string; state: State; skipped: boolean; reused: boolean;
  attempt: number; attempts: number; worker: string | null; priority: number; ready_since: string | null;
  assigned: string | null; started: string | null; ended: string | null; next_attempt: string | null;
  failure: string | null; message: string;
};
export type Page<T> = { items: T[]; next_cursor: string | null; index: number };
export type Fact = { name: string; value: string | number | boolean };
export type Explanation = {
  task: string; name: string; state: State; reason: string; sentence: string; at: string | null; facts: Fact[];
};
export type Worker = {
  name: string; id: string; status: string; resources: string; zone: string; cost_microdollars_per_hour: number;
  power_milliwatts: number; capabilities: string[]; labels: string[]; handlers: string[]; disabled_by_hand: boolean;
  disabled_elastic: boolean; executions: number; queued: number; tasks: string[]; seen: string | null;
  cpu_millis: number; cpu_millis_used: number; memory_bytes: number; memory_bytes_used: number; caches: string[];
};
export type GraphStage = {
  name: string; needs: number[]; first: number; more: number; tasks: number; states: StateCounts; ready: string | null;
  started: string | null; ended: string | null; last: number; run_microseconds: number;
};
export type Graph = {
  id: string; name: string; outcome: string; submitted: string | null; ended: string | null; time: string | null;
  stages: GraphStage[]; tasks: string;
};
export type Lane = { name: string; tasks: number; busy: number[]; waiting: number[] };
// [task, lane, attempt, state, ready, assigned, started, ended]: microseconds after `from`; -1: not yet.
export type Span = number[];
export type Timeline = {
  id: string; from: string; to: string; time: string; px: number; lanes: Lane[]; spans: Span[];
};
export type Attempt = {
  attempt: number; worker: string; assigned: string | null; started: string | null; ended: string | null; end: string;
  message: string; assigned_in: number; ended_in: number;
};
export type WaitGroup = { reason: string; tasks: number; example: string; sentence: string; oldest: string | null };
export type Attention = { kind: string; subject: string; text: string };
export type Overview = {
  index: number; first_index: number; time: string | null; workflows_running: number; states: StateCounts; ready: number;
  wait_p50_ms: number; wait_p95_ms: number; wait_most_ms: number;
  workers: {
    all: number; usable: number; unreachable: number; disabled: number; draining: number; cpu_millis: number;
    cpu_millis_used: number; memory_bytes: number; memory_bytes_used: number;
  };
  waiting: WaitGroup[]; attention: Attention[]; complete: boolean;
};
export type Version = { version: string; api: string; index: number; first_index: number };
export type QueueItem = {
  task: string; name: string; workflow: string; user: string; priority: number; since: string | null; reason: string;
  sentence: string;
};
export type Figures = Record<string, number>;
export type Course = { name: string; policy: string; figures: Figures; running: number[]; ready: number[] };
export type Replay = { records: number; bucket_ms: number; courses: Course[] };
// `values`: triples of lane, kind and number of tasks.
export type History = { kinds: string[]; lanes: string[]; points: { index: number; time_ms: number; values: number[] }[]; complete: boolean };
export type LogRecord = {
  record: number; wall_ns: number | string; command: Record<string, unknown>; events: Record<string, unknown>[];
};
