// The timeline of a run, on a canvas: one lane per worker or per stage. Few tasks are drawn one by one; many as buckets, one
// per pixel, which the host has added up.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { fitText, positionIn, roundRect, useCanvas, useGestures, wheelFactor, type Frame } from "./canvas";
import { pathOf } from "./api";
import { useData } from "./data";
import { count, ms, reason, span } from "./format";
import { placeOf, stageOf } from "./graph_model";
import { kindColor, kindsOf } from "./history";
import { numberOf, selectedStage, selectedTask, selectTask } from "./select";
import { at as moment } from "./store";
import { Choice, Empty, Failure, Rows } from "./ui";
import { STATES, type Graph, type History, type Timeline } from "./types";

const GUTTER = 132;
const AXIS = 24;
const STRIP = 16; // For the tasks that wait.
const MOST_ROWS = 160; // Rows of bars in a lane; further tasks at the same time are counted, not drawn.
const MOST_TABLE = 200;

type Bar = { task: number; attempt: number; state: number; lane: number; row: number; wait: number; sent: number; begin: number; end: number };
type LaneBox = { name: string; top: number; height: number; tasks: number; bar: number; hidden: number };
// The height of a bar with its gap: the more rows a lane has, the thinner they are.
const barHeight = (rows: number) => (rows <= 10 ? 14 : rows <= 24 ? 9 : rows <= 60 ? 6 : 4);

// Bars that overlap get rows of their own.
function pack(timeline: Timeline, byStage: boolean): { bars: Bar[]; rows: number[]; hidden: number[] } {
  const rows = timeline.lanes.map(() => 1);
  const hidden = timeline.lanes.map(() => 0);
  const ends: number[][] = timeline.lanes.map(() => []);
  const bars = timeline.spans.map(([task, lane, attempt, state, ready, assigned, started, ended]): Bar => ({
    task: task!, lane: lane!, attempt: attempt!, state: state!, row: 0,
    // -1 means "not yet"; other negative times are before the range that is shown.
    wait: ready!, sent: assigned === -1 ? ended! : assigned!, begin: started === -1 ? ended! : started!, end: ended!,
  }));
  const from = (b: Bar) => b.begin;
  bars.sort((a, b) => from(a) - from(b) || a.task - b.task);
  for (const bar of bars) {
    if (byStage && bar.begin >= bar.end && (bar.state === 0 || bar.state === 1)) {
      bar.row = -1; // It has not run: it is part of the waiting tasks only.
      continue;
    }
    const lane = ends[bar.lane]!;
    let row = lane.findIndex((end) => end <= from(bar));
    if (row < 0 && lane.length >= MOST_ROWS) {
      bar.row = -1;
      ++hidden[bar.lane]!;
      continue;
    }
    if (row < 0) row = lane.length;
    lane[row] = bar.end;
    bar.row = row;
    rows[bar.lane] = Math.max(rows[bar.lane]!, row + 1);
  }
  return { bars, rows, hidden };
}

// Of each stage: how many tasks waited for which reason, at moments of the log up to the one that is shown.
type Waits = { kinds: number[]; times: number[]; stages: Map<string, { most: number; values: number[][] }> }; // values: by moment, by kind.
function waitsOf(history: History | null, base: number, moment: number | null): Waits {
  const waits: Waits = { kinds: [], times: [], stages: new Map() };
  if (!history) return waits;
  const points = history.points.filter((p) => moment === null || p.index <= moment);
  waits.kinds = kindsOf({ ...history, points }).filter((k) => history.kinds[k] !== "running");
  waits.times = points.map((p) => (p.time_ms - base) * 1000);
  points.forEach((point, i) => {
    for (let k = 0; k < point.values.length; k += 3) {
      const kind = waits.kinds.indexOf(point.values[k + 1]!);
      const name = history.lanes[point.values[k]!];
      if (kind < 0 || name === undefined) continue;
      let stage = waits.stages.get(name);
      if (!stage) waits.stages.set(name, (stage = { most: 0, values: points.map(() => waits.kinds.map(() => 0)) }));
      stage.values[i]![kind] = point.values[k + 2]!;
    }
  });
  for (const stage of waits.stages.values()) stage.most = Math.max(...stage.values.map((v) => v.reduce((a, b) => a + b, 0)));
  return waits;
}

// Round times: 1, 2 and 5 of each power of ten below a second, then those of a clock. In microseconds.
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400].map((s) => s * 1e6);
function ticks(from: number, to: number, most: number): number[] {
  const raw = (to - from) / Math.max(1, most);
  const unit = 10 ** Math.floor(Math.log10(raw));
  const below = [1, 2, 5, 10].map((k) => k * unit).find((k) => k >= raw) ?? raw;
  const step = raw > 1e6 ? (STEPS.find((k) => k >= raw) ?? Math.ceil(raw / 86400e6) * 86400e6) : below;
  const list: number[] = [];
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) list.push(t);
  return list;
}

// As exact as the distance of two ticks asks for. 0, 250 ms, 7.5 s, 3 min 20 s, 2 h 05 min
function axisText(us: number, step: number): string {
  if (us === 0) return "0";
  if (us < 1e6) return `${Number((us / 1000).toFixed(3))} ms`;
  const digits = step >= 1e6 ? 0 : Math.min(6, Math.ceil(-Math.log10(step / 1e6)));
  const s = us / 1e6;
  if (s < 60) return `${s.toFixed(digits)} s`;
  const rest = (s % 60).toFixed(digits).padStart(digits === 0 ? 2 : digits + 3, "0");
  const m = Math.floor(s / 60);
  if (m < 60) return step % 60e6 === 0 ? `${m} min` : `${m} min ${rest} s`;
  return `${Math.floor(m / 60)} h ${String(m % 60).padStart(2, "0")} min${step % 60e6 === 0 ? "" : ` ${rest} s`}`;
}

export function TimelineCard({ graph, failedOnly }: { graph: Graph; failedOnly: boolean }) {
  const [lanes, setLanes] = useState<"worker" | "stage">("stage");
  const [range, setRange] = useState<[number, number] | null>(null); // Microseconds after the submission; null: all of it.
  const [asked, setAsked] = useState<[number, number] | null>(null);
  const [width, setWidth] = useState(900);
  useEffect(() => {
    const timer = setTimeout(() => setAsked(range), 120);
    return () => clearTimeout(timer);
  }, [range]);
  const path = pathOf(`/v1/workflows/${graph.id}/timeline`, {
    fresh_ms: 400, lanes, px: Math.min(4000, Math.max(100, Math.round(width - GUTTER))),
    from: asked ? Math.max(0, Math.round(asked[0])) : undefined, to: asked ? Math.round(asked[1]) : undefined,
  });
  const { value, error, again } = useData<Timeline>(path, { final: () => graph.ended !== null });
  const { value: history } = useData<History>(pathOf("/v1/history", { workflow: graph.id, points: 300, fresh_ms: 2000 }), { now: true });
  const kept = useRef<Timeline | null>(null); // While a new range loads, the old one is stretched.
  if (value) kept.current = value;
  const shown = value ?? kept.current;
  return (
    <section class="card" aria-label="Timeline">
      <header>
        <h2>Timeline</h2>
        {range && <button onClick={() => setRange(null)}>Show all</button>}
        <Choice label="Lanes" value={lanes} options={[["stage", "By stage"], ["worker", "By worker"]]} pick={(v) => (kept.current = null, setLanes(v))} />
      </header>
      {error && !shown ? <Failure error={error} again={again} /> : !shown ? <Rows n={5} /> : shown.lanes.length === 0 ? (
        <Empty title="Nothing has run yet"><p>Tasks appear here when they become ready.</p></Empty>
      ) : <Chart graph={graph} timeline={shown} history={history} byStage={lanes === "stage"} range={range} setRange={setRange} setWidth={setWidth} failedOnly={failedOnly} />}
    </section>
  );
}

function Chart(props: { graph: Graph; timeline: Timeline; history: History | null; byStage: boolean; range: [number, number] | null; setRange: (r: [number, number] | null) => void; setWidth: (w: number) => void; failedOnly: boolean }) {
  const { graph, timeline, history, byStage, failedOnly } = props;
  const base = ms(graph.submitted);
  const offset = (ms(timeline.from) - base) * 1000; // Of the data, after the submission, in microseconds.
  const total = Math.max(1000, (ms(timeline.time) - base) * 1000);
  const [from, to] = props.range ?? [0, total];
  const exact = timeline.spans.length > 0;
  const { bars, rows, hidden } = useMemo(() => pack(timeline, byStage), [timeline, byStage]);
  const waits = useMemo(() => waitsOf(history, base, moment.value), [history, base, moment.value]);
  const waitsIn = (i: number) => (byStage ? waits.stages.get(timeline.lanes[i]!.name) : undefined);
  const strip = (i: number) => (waitsIn(i) ? STRIP : 0);
  const lanes = useMemo(() => {
    let top = AXIS;
    return timeline.lanes.map((lane, i): LaneBox => {
      const bar = barHeight(rows[i]!);
      const height = exact ? Math.max(22, rows[i]! * bar + 8 + strip(i)) : 36 + strip(i);
      const box = { name: lane.name, top, height, tasks: lane.tasks, bar, hidden: hidden[i]! };
      top += height;
      return box;
    });
  }, [timeline, rows, waits, byStage]);
  const height = (lanes.at(-1)?.top ?? AXIS) + (lanes.at(-1)?.height ?? 0) + 8;
  const [brush, setBrush] = useState<[number, number] | null>(null);
  const [tip, setTip] = useState<{ x: number; y: number; text: string } | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const nameOf = (task: number) => {
    const stage = stageOf(graph.stages, task);
    return stage.tasks === 1 ? stage.name : `${stage.name}[${placeOf(stage, task)}]`;
  };

  const draw = ({ c, w, h, colors }: Frame) => {
    const plot = w - GUTTER - 8;
    const x = (us: number) => GUTTER + ((us - from) / (to - from)) * plot;
    const font = getComputedStyle(c.canvas).fontFamily;
    c.font = "11px " + font;
    c.textBaseline = "middle";
    const marks = ticks(from, to, plot / 130);
    const step = marks.length > 1 ? marks[1]! - marks[0]! : to - from;
    for (const t of marks) {
      const px = Math.round(x(t)) + 0.5;
      if (px < GUTTER) continue;
      c.fillStyle = colors["line"]!;
      c.fillRect(px, AXIS - 4, 1, h);
      c.fillStyle = colors["soft"]!;
      const text = axisText(t, step);
      if (px + c.measureText(text).width < w) c.fillText(text, px + 3, 11);
    }
    const chosen = selectedTask.value === "" ? -1 : numberOf(selectedTask.value);
    lanes.forEach((lane, i) => {
      if (byStage && lane.name === selectedStage.value) {
        c.fillStyle = colors["accent-soft"]!;
        c.fillRect(0, lane.top, w, lane.height);
      }
      c.fillStyle = colors["line"]!;
      c.fillRect(0, lane.top + lane.height, w, 1);
      c.fillStyle = colors["text"]!;
      c.font = "500 12px " + font;
      c.fillText(fitText(c, lane.name, GUTTER - 56), 16, lane.top + Math.min(lane.height / 2, 14));
      c.fillStyle = colors["soft"]!;
      c.font = "11px " + font;
      const n = count(lane.tasks);
      c.fillText(n, GUTTER - 10 - c.measureText(n).width, lane.top + Math.min(lane.height / 2, 14));
      if (lane.hidden > 0) c.fillText(`${count(lane.hidden)} not drawn`, 16, lane.top + 30);
      const waited = waitsIn(i);
      if (waited) {
        // Waiting tasks, stacked by reason: the one that most lacks something is at the bottom.
        c.globalAlpha = failedOnly ? 0.15 : 0.85;
        waits.times.forEach((time, k) => {
          const left = Math.max(GUTTER, Math.round(x(time)));
          const right = Math.min(w, Math.round(x(waits.times[k + 1] ?? total)));
          if (right <= left) return;
          let y = lane.top + STRIP + 1;
          waited.values[k]!.forEach((tasks, n) => {
            if (tasks === 0) return;
            const tall = Math.max(1, (tasks / waited.most) * (STRIP - 3));
            c.fillStyle = colors[kindColor(history!.kinds[waits.kinds[n]!]!)]!;
            c.fillRect(left, y - tall, right - left, tall);
            y -= tall;
          });
        });
        c.globalAlpha = 1;
      }
      if (exact) return;
      const data = timeline.lanes[i]!;
      const bucket = ((ms(timeline.to) - ms(timeline.from)) * 1000) / timeline.px;
      const bw = Math.max(1, (bucket / (to - from)) * plot + 0.5);
      for (const [values, isBusy] of waited ? [[data.busy, true] as const] : [[data.waiting, false] as const, [data.busy, true] as const]) {
        let most = 1;
        for (let k = 1; k < values.length; k += 3) most = Math.max(most, values[k]!);
        for (let k = 0; k < values.length; k += 3) {
          const px = x(offset + values[k]! * bucket);
          if (px + bw < GUTTER || px > w) continue;
          const tall = Math.max(2, ((lane.height - strip(i) - 6) * values[k + 1]!) / most);
          const state = STATES[values[k + 2]!]!;
          c.globalAlpha = isBusy ? (failedOnly && state !== "failed" ? 0.15 : 1) : failedOnly ? 0.05 : 0.28;
          c.fillStyle = isBusy ? colors["c-" + state]! : colors["c-ready"]!;
          c.fillRect(Math.max(px, GUTTER), lane.top + lane.height - 2 - tall, bw, tall);
        }
      }
      c.globalAlpha = 1;
    });
    c.save();
    c.beginPath();
    c.rect(GUTTER, AXIS - 2, plot + 8, h);
    c.clip();
    for (const bar of bars) {
      const lane = lanes[bar.lane];
      if (!lane || (bar.row < 0 && bar.task !== chosen)) continue;
      // A selected task that has not run is drawn in the strip of what waits.
      const top = bar.row < 0 ? lane.top + 3 : lane.top + 4 + strip(bar.lane) + bar.row * lane.bar;
      const tall = bar.row < 0 ? 12 : lane.bar - (lane.bar > 6 ? 2 : 1);
      const x0 = x(offset + bar.begin);
      const x1 = x(offset + bar.end);
      const xw = x(offset + bar.wait);
      if (x1 < GUTTER || Math.min(x0, xw) > w) continue;
      const state = STATES[bar.state]!;
      c.globalAlpha = failedOnly && state !== "failed" ? 0.18 : 1;
      if (bar.task === chosen && x0 > xw) {
        // Its wait: for room, then at the worker.
        const xs = Math.min(x(offset + bar.sent), x0);
        c.fillStyle = state === "paused" ? colors["c-paused"]! : colors["c-ready"]!;
        c.fillRect(xw, top + tall / 3, Math.max(0.5, xs - xw), tall / 3);
        c.fillStyle = colors["c-running"]!;
        c.fillRect(xs, top + tall / 3, Math.max(0, x0 - xs), tall / 3);
        c.globalAlpha = failedOnly && state !== "failed" ? 0.18 : 1;
      }
      const ran = state !== "queued" && state !== "ready";
      if (ran && (x1 > x0 || x1 - xw < 1)) {
        const wide = Math.max(1.5, x1 - x0 - (x1 - x0 > 4 ? 1 : 0));
        c.fillStyle = colors["c-" + state]!;
        if (wide > 4) {
          roundRect(c, x0, top, wide, tall, 3);
          c.fill();
        } else {
          c.fillRect(x0, top, wide, tall);
        }
        const visible = Math.min(x1, w) - Math.max(x0, GUTTER);
        if (visible > 60 && tall >= 12) {
          c.fillStyle = colors["surface"]!;
          c.font = "11px " + font;
          c.fillText(fitText(c, nameOf(bar.task) + (bar.attempt > 1 ? ` · attempt ${bar.attempt}` : ""), visible - 10), Math.max(x0, GUTTER) + 5, top + 6.5);
        }
      }
      if (bar.task === chosen) {
        c.globalAlpha = 1;
        c.strokeStyle = colors["text"]!;
        c.lineWidth = 2;
        const left = Math.max(GUTTER, Math.min(xw, x0));
        c.strokeRect(left - 1, top - 1, Math.max(4, x1 - left) + 2, tall + 2);
      }
    }
    c.restore();
    c.globalAlpha = 1;
    if (brush) {
      c.fillStyle = colors["accent"]!;
      c.globalAlpha = 0.2;
      c.fillRect(Math.min(...brush), AXIS - 4, Math.abs(brush[1] - brush[0]), h);
      c.globalAlpha = 1;
    }
  };
  const { canvas, ask } = useCanvas(draw);
  useEffect(ask, [timeline, from, to, brush, selectedTask.value, selectedStage.value]);
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const watch = new ResizeObserver(() => props.setWidth(element.clientWidth));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);

  const barAt = (mx: number, my: number): Bar | null => {
    const w = canvas.current!.clientWidth - GUTTER - 8;
    const x = (us: number) => GUTTER + ((us - from) / (to - from)) * w;
    for (let i = bars.length - 1; i >= 0; --i) {
      const b = bars[i]!;
      const lane = lanes[b.lane]!;
      if (b.row < 0) continue;
      const top = lane.top + 4 + strip(b.lane) + b.row * lane.bar;
      const left = x(offset + b.begin);
      if (my >= top && my < top + lane.bar && mx >= left - 2 && mx <= x(offset + b.end) + 2) return b;
    }
    return null;
  };
  // What waited at this point of a strip.
  const waitAt = (mx: number, my: number): string => {
    const i = lanes.findIndex((l) => my >= l.top && my < l.top + STRIP);
    const waited = i < 0 ? undefined : waitsIn(i);
    if (!waited || mx < GUTTER) return "";
    const time = from + ((mx - GUTTER) / (canvas.current!.clientWidth - GUTTER - 8)) * (to - from);
    const k = waits.times.filter((t) => t <= time).length - 1;
    const parts = k < 0 ? [] : waited.values[k]!.flatMap((tasks, n) => (tasks > 0 ? [`${count(tasks)} waited for ${reason(history!.kinds[waits.kinds[n]!]!)}`] : []));
    return parts.length > 0 ? `${lanes[i]!.name.slice(0, 60)}: ${parts.join(", ")}` : "";
  };
  const clampRange = (a: number, b: number): [number, number] | null => {
    const wide = Math.max(10, b - a);
    if (wide >= total) return null;
    const begin = Math.max(0, Math.min(total - wide, a));
    return [begin, begin + wide];
  };
  const zoom = (factor: number, part: number) => {
    const middle = from + (to - from) * part;
    props.setRange(clampRange(middle - (middle - from) * factor, middle + (to - middle) * factor));
  };

  const begin = useRef<{ x: number; y: number; from: number; to: number; brush: boolean } | null>(null);
  const at = (e: MouseEvent) => {
    const [px, py] = positionIn(canvas.current!, e);
    return { x: px, y: py, w: canvas.current!.clientWidth - GUTTER - 8 };
  };
  useGestures(box, {
    down: (e) => {
      if (e.button !== 0) return;
      const p = at(e);
      begin.current = { x: p.x, y: p.y, from, to, brush: e.shiftKey };
      box.current!.setPointerCapture(e.pointerId);
    },
    move: (e) => {
      const p = at(e);
      const was = begin.current;
      if (!was) {
        const bar = barAt(p.x, p.y);
        box.current!.style.cursor = bar ? "pointer" : "crosshair";
        const text = bar ? `${nameOf(bar.task)}${bar.attempt > 1 ? `, attempt ${bar.attempt}` : ""}: ${STATES[bar.state]}, waited ${span((bar.begin - bar.wait) / 1000)}, ran ${span((bar.end - bar.begin) / 1000)}` : waitAt(p.x, p.y);
        return setTip(text === "" ? null : { x: p.x, y: p.y, text });
      }
      if (was.brush) return setBrush([was.x, p.x]);
      if (Math.abs(p.x - was.x) < 4) return;
      const moved = ((was.x - p.x) / p.w) * (was.to - was.from);
      props.setRange(clampRange(was.from + moved, was.to + moved));
    },
    up: (e) => {
      const was = begin.current;
      if (!was) return;
      const p = at(e);
      begin.current = null;
      setBrush(null);
      if (was.brush && Math.abs(p.x - was.x) > 4) {
        const time = (px: number) => was.from + ((px - GUTTER) / p.w) * (was.to - was.from);
        props.setRange(clampRange(time(Math.min(p.x, was.x)), time(Math.max(p.x, was.x))));
      } else if (Math.abs(p.x - was.x) < 4 && e.type !== "pointercancel") {
        const bar = barAt(p.x, p.y);
        if (bar) selectTask(`${graph.id}.${bar.task}`);
      }
    },
    leave: () => setTip(null),
    twice: () => props.setRange(null),
    wheel: (e) => {
      e.preventDefault();
      if (Math.abs(e.deltaX) > Math.abs(e.deltaY) || e.shiftKey) {
        const moved = ((e.deltaX || e.deltaY) / 600) * (to - from);
        props.setRange(clampRange(from + moved, to + moved));
        return;
      }
      const p = at(e);
      zoom(wheelFactor(e), Math.max(0, Math.min(1, (p.x - GUTTER) / p.w)));
    },
  });
  const key = (e: KeyboardEvent) => {
    const step = (to - from) / 8;
    switch (e.key) {
      case "+": case "=": zoom(0.7, 0.5); break;
      case "-": zoom(1.4, 0.5); break;
      case "0": props.setRange(null); break;
      case "ArrowLeft": props.setRange(clampRange(from - step, to - step)); break;
      case "ArrowRight": props.setRange(clampRange(from + step, to + step)); break;
      default: return;
    }
    e.preventDefault();
  };
  return (
    <>
      <div class="timeline-scroll">
        <div class="canvas-box" ref={box} style={{ height }} tabIndex={0} role="group" onKeyDown={key}
          aria-label="Timeline. Plus and minus zoom, arrow keys move, 0 shows all.">
          <canvas ref={canvas} aria-hidden="true" />
          {tip && <div class="tip" style={{ left: Math.min(tip.x + 12, (canvas.current?.clientWidth ?? 400) - 240), top: tip.y + 14 }}>{tip.text.slice(0, 240)}</div>}
        </div>
      </div>
      <ul class="legend pad">
        {byStage && history ? waits.kinds.map((k) => <li key={k}><i class="swatch" style={{ background: `var(--${kindColor(history.kinds[k]!)})` }} />waiting for {reason(history.kinds[k]!)}</li>) : <li><i class="swatch b-ready" />waiting</li>}
        <li><i class="swatch b-running" />running</li>
        <li><i class="swatch b-succeeded" />succeeded</li>
        <li><i class="swatch b-failed" />failed attempt</li>
        <li class="hide-small">drag to move, wheel to zoom, shift-drag to select a range</li>
        {!exact && <li>{count(timeline.lanes.reduce((n, l) => n + l.tasks, 0))} tasks, added up: zoom in to see each of them</li>}
      </ul>
      <table class="sr" aria-label={exact ? "Tasks over time" : "Lanes"}>
        <thead><tr><th scope="col">{exact ? "Task" : "Lane"}</th><th scope="col">{exact ? "Lane" : "Tasks"}</th><th scope="col">State</th><th scope="col">Waited</th><th scope="col">Ran</th></tr></thead>
        <tbody>
          {exact ? bars.slice(0, MOST_TABLE).map((b, i) => (
            <tr key={i}>
              <td><button tabIndex={-1} onClick={() => selectTask(`${graph.id}.${b.task}`)}>{nameOf(b.task).slice(0, 200)}</button></td>
              <td>{lanes[b.lane]?.name.slice(0, 100)}</td><td>{STATES[b.state]}{b.attempt > 1 ? `, attempt ${b.attempt}` : ""}</td>
              <td>{span((b.begin - b.wait) / 1000)}</td><td>{span((b.end - b.begin) / 1000)}</td>
            </tr>
          )) : lanes.map((l) => <tr key={l.name}><td>{l.name.slice(0, 200)}</td><td>{l.tasks}</td><td /><td /><td /></tr>)}
        </tbody>
      </table>
      {byStage && history && (
        <table class="sr" aria-label="Waits by reason">
          <thead><tr><th scope="col">Stage</th><th scope="col">Reason</th><th scope="col">Most tasks at once</th></tr></thead>
          <tbody>
            {[...waits.stages].slice(0, MOST_TABLE).flatMap(([name, stage]) => waits.kinds.flatMap((k, n) => {
              const most = Math.max(...stage.values.map((v) => v[n]!));
              return most > 0 ? [<tr key={name + k}><td>{name.slice(0, 100)}</td><td>{reason(history.kinds[k]!)}</td><td>{most}</td></tr>] : [];
            }))}
          </tbody>
        </table>
      )}
    </>
  );
}
