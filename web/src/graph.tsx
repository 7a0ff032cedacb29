// The graph of a run, on a canvas: stages first; a stage opens to its tasks, one cell each.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { fitText, positionIn, roundRect, useCanvas, useGestures, wheelFactor, type Colors, type Frame } from "./canvas";
import { count, short, span } from "./format";
import { CELL, cellImage, childrenOf, columnsOf, criticalPath, edgesOf, HEADER, layoutOf, lineageOf, placeOf, sizeOf, stateOfStage, taskAt } from "./graph_model";
import type { LayoutResult } from "./layout";
import { hovered, numberOf, selectedStage, selectedTask, selectStage, selectTask } from "./select";
import { STATES, type Graph, type GraphStage } from "./types";

const MOST_EDGES = 20_000; // Drawn at once; more are a grey mass in any case.
const MOST_ROWS = 300; // Of the table for screen readers.

type View = { s: number; x: number; y: number };

export function GraphCanvas({ graph, critical, failedOnly }: { graph: Graph; critical: boolean; failedOnly: boolean }) {
  const { stages } = graph;
  const [open, setOpen] = useState<ReadonlySet<number>>(() => new Set(stages.length === 1 || (stages.length <= 6 && graph.tasks.length <= 300) ? stages.flatMap((s, i) => (s.tasks > 1 ? [i] : [])) : []));
  const [places, setPlaces] = useState<LayoutResult | null>(null);
  const view = useRef<View>({ s: 1, x: 0, y: 0 });
  const fitted = useRef<LayoutResult | null>(null);
  const boxWidth = useRef(0);
  const touched = useRef(false);
  const [tip, setTip] = useState<{ x: number; y: number; text: string } | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const shape = useMemo(() => `${graph.id}:${stages.map((s) => s.tasks + "<" + s.needs.join(",")).join(";")}`, [graph.id, stages.length, graph.tasks.length]);
  const children = useMemo(() => childrenOf(stages), [shape]);
  const path = useMemo(() => (critical ? new Set(criticalPath(graph)) : null), [critical, graph]);
  const lineage = useMemo(() => (hovered.value === null ? null : lineageOf(stages, children, hovered.value)), [hovered.value, shape]);
  const images = useRef(new Map<number, { of: string; image: HTMLCanvasElement }>());
  const openKey = [...open].sort((a, b) => a - b).join(",");

  useEffect(() => {
    let here = true;
    const width = new Float32Array(stages.length);
    const height = new Float32Array(stages.length);
    stages.forEach((s, i) => ([width[i], height[i]] = sizeOf(s, open.has(i))));
    layoutOf(`${shape}|${openKey}`, { ...edgesOf(stages), width, height }).then((result) => here && setPlaces(result));
    return () => { here = false; };
  }, [shape, openKey]);

  const fit = (w: number, h: number, p: LayoutResult) => {
    const s = Math.max(0.02, Math.min(1.1, (w - 48) / p.w, (h - 40) / p.h));
    view.current = { s, x: (w - p.w * s) / 2, y: (h - p.h * s) / 2 };
  };

  const image = (i: number, colors: Colors) => {
    const stage = stages[i]!;
    const of = (graph.tasks[stage.first] ?? "") + graph.tasks.slice(stage.more, stage.more + stage.tasks - 1) + failedOnly + colors["bg"];
    const known = images.current.get(i);
    if (known?.of === of) return known.image;
    const made = { of, image: cellImage(graph, stage, colors, failedOnly) };
    images.current.set(i, made);
    return made.image;
  };

  const draw = ({ c, w, h, colors }: Frame) => {
    const p = places;
    if (!p || p.x.length !== stages.length) return;
    // Until its user moves it, the graph fits into its box.
    if (fitted.current !== p || (!touched.current && boxWidth.current !== w)) {
      fitted.current = p;
      boxWidth.current = w;
      fit(w, h, p);
    }
    const { s, x, y } = view.current;
    const sees = (i: number) => {
      const [nw, nh] = sizeOf(stages[i]!, open.has(i));
      const px = p.x[i]! * s + x;
      const py = p.y[i]! * s + y;
      return px < w && py < h && px + nw * s > 0 && py + nh * s > 0;
    };
    const visible = new Uint8Array(stages.length);
    for (let i = 0; i < stages.length; ++i) visible[i] = sees(i) ? 1 : 0;

    // Edges: those of the critical path and of the lineage last, so that they are on top.
    const strong: [number, number][] = [];
    c.lineWidth = Math.max(0.5, Math.min(1.5, s * 1.5));
    c.strokeStyle = colors["line-strong"]!;
    c.globalAlpha = lineage || path ? 0.35 : 1;
    c.beginPath();
    let edges = 0;
    const curve = (from: number, to: number) => {
      const [fw, fh] = sizeOf(stages[from]!, open.has(from));
      const th = sizeOf(stages[to]!, open.has(to))[1];
      const x1 = (p.x[from]! + fw) * s + x;
      const y1 = (p.y[from]! + fh / 2) * s + y;
      const x2 = p.x[to]! * s + x;
      const y2 = (p.y[to]! + th / 2) * s + y;
      const bend = Math.max(8, (x2 - x1) / 2);
      c.moveTo(x1, y1);
      c.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
    };
    for (let i = 0; i < stages.length && edges < MOST_EDGES; ++i) {
      for (const need of stages[i]!.needs) {
        if (!visible[i] && !visible[need]) continue;
        if ((path?.has(i) && path.has(need)) || (lineage?.has(i) && lineage.has(need))) strong.push([need, i]);
        else curve(need, i), ++edges;
      }
    }
    c.stroke();
    c.globalAlpha = 1;
    if (strong.length > 0) {
      c.strokeStyle = colors["accent"]!;
      c.lineWidth = Math.max(1, 2.2 * Math.min(1, s));
      c.beginPath();
      for (const [from, to] of strong.slice(0, MOST_EDGES)) curve(from, to);
      c.stroke();
    }
    const task = selectedTask.value;
    for (let i = 0; i < stages.length; ++i) {
      if (!visible[i]) continue;
      c.globalAlpha = (lineage && !lineage.has(i)) || (!lineage && path && !path.has(i)) || (failedOnly && stages[i]!.states.failed === 0) ? 0.3 : 1;
      drawStage(c, stages[i]!, i, p, colors, s, x, y, task);
    }
    c.globalAlpha = 1;
  };

  function drawStage(c: CanvasRenderingContext2D, stage: GraphStage, i: number, p: LayoutResult, colors: Colors, s: number, x: number, y: number, task: string) {
    const isOpen = open.has(i) && stage.tasks > 1;
    const [nw, nh] = sizeOf(stage, open.has(i));
    const px = p.x[i]! * s + x;
    const py = p.y[i]! * s + y;
    const state = stateOfStage(stage);
    if (nh * s < 12 && !isOpen) {
      c.fillStyle = colors["c-" + state]!;
      c.fillRect(px, py, Math.max(1, nw * s), Math.max(1, nh * s - 0.5));
      return;
    }
    const number = numberOf(task);
    const at = task === "" ? -1 : placeOf(stage, number);
    const has = at >= 0;
    const chosen = selectedStage.value === stage.name || (stage.tasks === 1 && has);
    roundRect(c, px, py, nw * s, nh * s, 8 * s);
    c.fillStyle = colors["raised"]!;
    c.fill();
    c.lineWidth = chosen || path?.has(i) ? 2 : 1;
    c.strokeStyle = chosen || path?.has(i) ? colors["accent"]! : colors["line-strong"]!;
    c.stroke();
    c.fillStyle = colors["c-" + state]!;
    roundRect(c, px + 6 * s, py + 9 * s, 4 * s, (stage.tasks <= 1 ? nh - 18 : 18) * s, 2 * s);
    c.fill();
    if (s > 0.24) {
      const size = Math.max(10.5, 13 * s);
      c.textBaseline = "middle";
      const many = stage.tasks > 1;
      const right = many || s < 0.6 || !stage.started ? "" : span(stage.run_microseconds / 1000);
      c.font = `${Math.max(10, 11 * s)}px ${fontOf()}`;
      const rightW = right ? c.measureText(right).width : 0;
      const line = py + (stage.tasks <= 1 ? nh / 2 : 18) * s;
      c.fillStyle = colors["soft"]!;
      if (right) c.fillText(right, px + (nw - 10) * s - rightW, line);
      c.font = `600 ${size}px ${fontOf()}`;
      c.fillStyle = colors["text"]!;
      c.fillText(fitText(c, stage.name, (nw - 22) * s - rightW - (right ? 8 * s : 0)), px + 15 * s, line);
    }
    if (stage.tasks <= 1) return;
    if (!isOpen) {
      // The counts by state, as a bar.
      let width = (nw - 20) * s;
      if (s >= 0.6) {
        const done = `${short(stage.states.succeeded + stage.states.skipped)}/${short(stage.tasks)}`;
        c.font = `${11 * s}px ${fontOf()}`;
        c.fillStyle = colors["soft"]!;
        const wide = c.measureText(done).width;
        c.fillText(done, px + (nw - 10) * s - wide, py + 42 * s);
        width -= wide + 8 * s;
      }
      let at = px + 10 * s;
      for (const name of STATES) {
        const part = (width * stage.states[name]) / stage.tasks;
        if (part === 0) continue;
        c.fillStyle = colors["c-" + name]!;
        c.fillRect(at, py + 38 * s, Math.max(part - (part > 3 ? 1 : 0), 1), 8 * s);
        at += part;
      }
      return;
    }
    const columns = columnsOf(stage.tasks);
    const cell = CELL * s;
    const cx = px + 8 * s;
    const cy = py + HEADER * s;
    c.imageSmoothingEnabled = cell < 1;
    const cells = image(i, colors);
    const most = c.canvas.clientHeight;
    const wide = c.canvas.clientWidth;
    // Only the cells that are visible: the whole image may be a thousand times larger than the canvas.
    const left = Math.max(0, Math.floor(-cx / cell));
    const top = Math.max(0, Math.floor(-cy / cell));
    const across = Math.min(cells.width, Math.ceil((wide - cx) / cell)) - left;
    const down = Math.min(cells.height, Math.ceil((most - cy) / cell)) - top;
    if (across <= 0 || down <= 0) return;
    c.drawImage(cells, left, top, across, down, cx + left * cell, cy + top * cell, across * cell, down * cell);
    if (cell > 5) {
      // Gaps between the cells.
      c.fillStyle = colors["raised"]!;
      const gap = Math.max(1, 2 * s);
      for (let k = 1; k <= cells.width; ++k) {
        const gx = cx + k * cell - gap;
        if (gx > 0 && gx < wide) c.fillRect(gx, Math.max(cy, 0), gap, Math.min(cells.height * cell, most));
      }
      for (let k = 1; k <= cells.height; ++k) {
        const gy = cy + k * cell - gap;
        if (gy > 0 && gy < most) c.fillRect(Math.max(cx, 0), gy, Math.min(cells.width * cell, wide), gap);
      }
    }
    if (has) {
      c.strokeStyle = colors["text"]!;
      c.lineWidth = 2;
      c.strokeRect(cx + (at % columns) * cell - 1, cy + Math.floor(at / columns) * cell - 1, Math.max(cell, 6), Math.max(cell, 6));
    }
  }

  const { canvas, ask } = useCanvas(draw);
  useEffect(ask, [places, graph, lineage, path, selectedTask.value, selectedStage.value]);

  // What is at a point: a stage, and a task if the stage is open.
  const hit = (mx: number, my: number): { stage: number; task: number | null } | null => {
    const p = places;
    if (!p) return null;
    const { s, x, y } = view.current;
    const wx = (mx - x) / s;
    const wy = (my - y) / s;
    for (let i = 0; i < stages.length; ++i) {
      const [nw, nh] = sizeOf(stages[i]!, open.has(i));
      if (wx < p.x[i]! || wy < p.y[i]! || wx > p.x[i]! + nw || wy > p.y[i]! + nh) continue;
      const stage = stages[i]!;
      if (stage.tasks === 1) return { stage: i, task: stage.first };
      if (!open.has(i)) return { stage: i, task: null };
      const column = Math.floor((wx - p.x[i]! - 8) / CELL);
      const row = Math.floor((wy - p.y[i]! - HEADER) / CELL);
      const columns = columnsOf(stage.tasks);
      const at = row * columns + column;
      return { stage: i, task: column >= 0 && column < columns && row >= 0 && at < stage.tasks ? taskAt(stage, at) : null };
    }
    return null;
  };
  const zoom = (factor: number, mx: number, my: number) => {
    const v = view.current;
    const s = Math.max(0.02, Math.min(6, v.s * factor));
    touched.current = true;
    view.current = { s, x: mx - ((mx - v.x) * s) / v.s, y: my - ((my - v.y) * s) / v.s };
    ask();
  };
  const toggle = (i: number) => {
    const set = new Set(open);
    if (!set.delete(i)) set.add(i);
    setOpen(set);
  };
  const nameOf = (stage: GraphStage, task: number) => (stage.tasks === 1 ? stage.name : `${stage.name}[${placeOf(stage, task)}]`);

  const pointers = useRef(new Map<number, [number, number]>()).current;
  const moved = useRef(0);
  useGestures(box, {
    down: (e) => {
      if (e.button !== 0) return;
      box.current!.setPointerCapture(e.pointerId);
      pointers.set(e.pointerId, positionIn(box.current!, e));
      moved.current = 0;
    },
    move: (e) => {
      const now = positionIn(box.current!, e);
      const before = pointers.get(e.pointerId);
      if (!before) {
        const found = hit(...now);
        hovered.value = found?.stage ?? null;
        box.current!.style.cursor = found ? "pointer" : "grab";
        const stage = found && stages[found.stage]!;
        setTip(stage ? { x: now[0], y: now[1], text: found.task !== null ? nameOf(stage, found.task) : `${stage.name}: ${STATES.filter((n) => stage.states[n] > 0).map((n) => `${count(stage.states[n])} ${n}`).join(", ")}` } : null);
        return;
      }
      if (pointers.size === 2) {
        const other = [...pointers].find(([id]) => id !== e.pointerId)![1];
        const distance = (a: [number, number]) => Math.hypot(a[0] - other[0], a[1] - other[1]);
        zoom(distance(now) / Math.max(1, distance(before)), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
      } else {
        touched.current = true;
        view.current.x += now[0] - before[0];
        view.current.y += now[1] - before[1];
      }
      moved.current += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
      pointers.set(e.pointerId, now);
      ask();
    },
    up: (e) => {
      if (!pointers.delete(e.pointerId) || moved.current > 4 || e.type === "pointercancel") return;
      const found = hit(...positionIn(box.current!, e));
      if (!found) return;
      if (found.task !== null) selectTask(`${graph.id}.${found.task}`);
      else selectStage(stages[found.stage]!.name);
    },
    leave: () => {
      hovered.value = null;
      setTip(null);
    },
    twice: (e) => {
      const found = hit(...positionIn(box.current!, e));
      if (found && stages[found.stage]!.tasks > 1) toggle(found.stage);
    },
    wheel: (e) => {
      e.preventDefault();
      zoom(1 / wheelFactor(e), ...positionIn(box.current!, e));
    },
  });

  const key = (e: KeyboardEvent) => {
    const element = canvas.current!;
    const now = Math.max(0, stages.findIndex((s) => s.name === selectedStage.value));
    const go = (to: number | undefined) => {
      if (to === undefined || to < 0 || to >= stages.length) return;
      if (stages[to]!.name !== selectedStage.peek()) selectStage(stages[to]!.name);
    };
    const column = () => stages.map((_, i) => i).filter((i) => places && places.rank[i] === places.rank[now]).sort((a, b) => places!.y[a]! - places!.y[b]!);
    switch (e.key) {
      case "ArrowLeft": go(stages[now]!.needs[0]); break;
      case "ArrowRight": go(selectedStage.value === "" ? 0 : children[now]![0]); break;
      case "ArrowUp": { const all = column(); go(all[all.indexOf(now) - 1]); break; }
      case "ArrowDown": { const all = column(); go(all[all.indexOf(now) + 1]); break; }
      case "Enter": stages[now]!.tasks === 1 ? selectTask(`${graph.id}.${stages[now]!.first}`) : toggle(now); break;
      case "+": case "=": zoom(1.25, element.clientWidth / 2, element.clientHeight / 2); break;
      case "-": zoom(0.8, element.clientWidth / 2, element.clientHeight / 2); break;
      case "0": touched.current = false; if (places) fit(element.clientWidth, element.clientHeight, places); ask(); break;
      default: return;
    }
    e.preventDefault();
  };

  return (
    <>
      <div class="canvas-box graph-box" ref={box} tabIndex={0} role="group" onKeyDown={key}
        aria-label="Graph of the stages. Arrow keys move between stages, Enter opens one, plus and minus zoom, 0 fits.">
        <canvas ref={canvas} aria-hidden="true" />
        {tip && <div class="tip" style={{ left: Math.min(tip.x + 12, (canvas.current?.clientWidth ?? 400) - 220), top: tip.y + 16 }}>{tip.text.slice(0, 200)}</div>}
        {stages.some((s, i) => s.tasks > 1 && !open.has(i)) && <div class="hint hide-small">double-click a stage to open it</div>}
      </div>
      <table class="sr" aria-label="Stages">
        <thead><tr><th scope="col">Stage</th><th scope="col">Needs</th><th scope="col">Tasks</th><th scope="col">States</th><th scope="col">Critical</th><th scope="col">Lineage</th></tr></thead>
        <tbody>
          {stages.slice(0, MOST_ROWS).map((s, i) => (
            <tr key={i} data-stage={s.name}>
              <td><button tabIndex={-1} onClick={() => (s.tasks === 1 ? selectTask(`${graph.id}.${s.first}`) : selectStage(s.name))}>{s.name.slice(0, 200)}</button></td>
              <td>{s.needs.map((n) => stages[n]!.name.slice(0, 100)).join(", ")}</td>
              <td>{s.tasks} {open.has(i) ? "open" : ""}</td>
              <td>{STATES.filter((n) => s.states[n] > 0).map((n) => `${s.states[n]} ${n}`).join(", ")}</td>
              <td>{path?.has(i) ? "on the critical path" : ""}</td>
              <td>{lineage?.has(i) ? "in the lineage" : ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

let font = "";
function fontOf(): string {
  return (font ||= getComputedStyle(document.documentElement).getPropertyValue("--font").trim());
}
