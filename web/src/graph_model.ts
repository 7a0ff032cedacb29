// The graph of a run as the canvas needs it: sizes, layout, lineage, critical path.
import { layout, type LayoutInput, type LayoutResult } from "./layout";
import type { Graph, GraphStage, State } from "./types";
import { LETTERS, STATES } from "./types";
import { ms } from "./format";

export const NODE_W = 152;
export const HEADER = 34;
export const CELL = 12;
const URGENCY: State[] = ["failed", "cancelled", "running", "paused", "ready", "queued", "succeeded", "skipped"];

export const columnsOf = (tasks: number): number => Math.max(11, Math.min(400, Math.ceil(Math.sqrt(tasks * 2.2))));
export function sizeOf(stage: GraphStage, open: boolean): [number, number] {
  if (!open || stage.tasks <= 1) return [NODE_W, stage.tasks <= 1 ? 40 : 56];
  const columns = columnsOf(stage.tasks);
  return [Math.max(NODE_W, columns * CELL + 16), HEADER + Math.ceil(stage.tasks / columns) * CELL + 12];
}

// The number of the stage's i-th task. The tasks of a fan-out over data, except for the first, come after all others.
export const taskAt = (stage: GraphStage, i: number): number => (i === 0 ? stage.first : stage.more + i - 1);
// The inverse: which task of the stage it is, or -1.
export function placeOf(stage: GraphStage, task: number): number {
  if (task === stage.first) return 0;
  return task >= stage.more && task < stage.more + stage.tasks - 1 ? task - stage.more + 1 : -1;
}
export function stageOf(stages: GraphStage[], task: number): GraphStage {
  let low = 0;
  let high = stages.length - 1;
  while (low < high) {
    const mid = (low + high + 1) >> 1;
    if (stages[mid]!.first <= task) low = mid;
    else high = mid - 1;
  }
  if (placeOf(stages[low]!, task) >= 0) return stages[low]!;
  return stages.find((stage) => placeOf(stage, task) >= 0) ?? stages[low]!;
}

// The state that a stage shows if it shows one: what most needs attention, except that work that goes on is running.
export function stateOfStage(stage: GraphStage): State {
  return URGENCY.find((s) => stage.states[s] > 0) ?? "queued";
}

export function edgesOf(stages: GraphStage[]): { start: Uint32Array; from: Uint32Array } {
  const start = new Uint32Array(stages.length + 1);
  stages.forEach((s, i) => (start[i + 1] = start[i]! + s.needs.length));
  const from = new Uint32Array(start[stages.length]!);
  stages.forEach((s, i) => from.set(s.needs, start[i]!));
  return { start, from };
}

// A layout is computed in the worker once for each shape of the graph, and kept.
let worker: Worker | null = null;
let lastId = 0;
const waiting = new Map<number, (result: LayoutResult) => void>();
const kept = new Map<string, LayoutResult>();
const MOST_KEPT = 20;

export async function layoutOf(key: string, input: LayoutInput): Promise<LayoutResult> {
  const known = kept.get(key);
  if (known) return known;
  const result = await new Promise<LayoutResult>((resolve) => {
    try {
      worker ??= new Worker("/page/layout.js");
      worker.onmessage = (e: MessageEvent<{ id: number; result: LayoutResult }>) => {
        waiting.get(e.data.id)?.(e.data.result);
        waiting.delete(e.data.id);
      };
      worker.onerror = () => {
        for (const [, each] of waiting) each(layout(input));
        waiting.clear();
      };
      waiting.set(++lastId, resolve);
      worker.postMessage({ id: lastId, input });
    } catch {
      resolve(layout(input));
    }
  });
  if (kept.size >= MOST_KEPT) kept.delete(kept.keys().next().value!);
  kept.set(key, result);
  return result;
}

// The stages before and after one, itself included.
export function lineageOf(stages: GraphStage[], children: number[][], of: number): Set<number> {
  const found = new Set([of]);
  for (const next of [(i: number) => stages[i]!.needs, (i: number) => children[i]!]) {
    const open = [of];
    for (let node = open.pop(); node !== undefined; node = open.pop()) {
      for (const other of next(node)) {
        if (found.has(other) && other !== of) continue;
        found.add(other);
        open.push(other);
      }
    }
  }
  return found;
}
export function childrenOf(stages: GraphStage[]): number[][] {
  const children: number[][] = stages.map(() => []);
  stages.forEach((s, i) => s.needs.forEach((n) => children[n]!.push(i)));
  return children;
}

// From the stage that ended last (or still runs) back over the one that each waited for longest.
export function criticalPath(graph: Graph): number[] {
  const now = ms(graph.time);
  const end = (s: GraphStage) => (s.started === null ? 0 : s.ended !== null ? ms(s.ended) : now);
  let at = -1;
  graph.stages.forEach((s, i) => {
    if (s.started !== null && (at < 0 || end(s) >= end(graph.stages[at]!))) at = i;
  });
  const path: number[] = [];
  for (let steps = 0; at >= 0 && steps < graph.stages.length; ++steps) {
    path.unshift(at);
    let before = -1;
    for (const need of graph.stages[at]!.needs) if (before < 0 || end(graph.stages[need]!) > end(graph.stages[before]!)) before = need;
    at = before;
  }
  return path;
}

// One pixel per task, in the colours of the states: any number of tasks is drawn with one drawImage.
export function cellImage(graph: Graph, stage: GraphStage, colors: Record<string, string>, failedOnly: boolean): HTMLCanvasElement {
  const columns = columnsOf(stage.tasks);
  const image = document.createElement("canvas");
  image.width = columns;
  image.height = Math.ceil(stage.tasks / columns);
  const c = image.getContext("2d")!;
  const data = c.createImageData(image.width, image.height);
  const pixels = new Uint32Array(data.data.buffer);
  const palette = STATES.map((s) => {
    const hex = colors["c-" + s]!;
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)) as [number, number, number];
    const dim = failedOnly && s !== "failed" ? 0x30 : 0xff;
    return ((dim << 24) | (b << 16) | (g << 8) | r) >>> 0;
  });
  for (let i = 0; i < stage.tasks; ++i) pixels[i] = palette[Math.max(0, LETTERS.indexOf(graph.tasks[taskAt(stage, i)] ?? "q"))]!;
  c.putImageData(data, 0, 0);
  return image;
}
