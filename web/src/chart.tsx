// A chart of lines over time, with a table for screen readers.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

export type Series = { label: string; color: string; fill: boolean; dash?: boolean };
const css = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const two = (n: number) => String(n).padStart(2, "0");
// 22:14, 22:14:07, or the day as well, by the distance of two ticks in seconds.
function timeText(seconds: number, step: number): string {
  const d = new Date(seconds * 1000);
  const time = `${two(d.getHours())}:${two(d.getMinutes())}`;
  if (step >= 86_400) return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
  return step >= 60 ? time : `${time}:${two(d.getSeconds())}${step < 1 ? "." + String(d.getMilliseconds()).padStart(3, "0") : ""}`;
}

export function Chart(props: { series: Series[]; x: number[]; y: number[][]; height: number; label: string; time?: boolean; unit?: string; mark?: number | undefined; pick?: (point: number) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const theme = document.documentElement.dataset["theme"] ?? "";
  useEffect(() => {
    const element = box.current!;
    const axis: uPlot.Axis = {
      stroke: css("--soft"), font: "12px " + css("--font"), grid: { stroke: css("--line"), width: 1 }, ticks: { show: false },
    };
    const made = new uPlot(
      {
        width: element.clientWidth || 300,
        height: props.height,
        cursor: { y: false, drag: { x: false, y: false } },
        legend: { live: true },
        hooks: {
          // The moment that is shown, as a line.
          draw: [(u) => {
            const mark = latest.current.mark;
            if (mark === undefined) return;
            u.ctx.fillStyle = css("--accent");
            u.ctx.fillRect(Math.round(u.valToPos(mark, "x", true)), u.bbox.top, 2, u.bbox.height);
          }],
          ready: [(u) => u.over.addEventListener("click", () => {
            const point = u.cursor.idx;
            if (point !== null && point !== undefined) latest.current.pick?.(point);
          })],
        },
        scales: { x: { time: props.time ?? true }, y: { range: (_u, _min, max) => [0, Math.max(1, max * 1.1)] } },
        axes: [{ ...axis, size: 34, space: 90, values: (_u, v) => v.map((n) => (props.unit ? `${n} ${props.unit}` : timeText(n, (v[1] ?? n + 60) - v[0]!))) }, { ...axis, size: 64 }],
        series: [
          { label: props.unit ? "After" : "Time", value: (_u, v) => (v === null ? "" : props.unit ? `${v.toFixed(1)} ${props.unit}` : timeText(v, 1)) },
          ...props.series.map((s): uPlot.Series => ({
            label: s.label, stroke: css(s.color), width: 2, points: { show: false },
            ...(s.dash ? { dash: [6, 4] } : {}), ...(s.fill ? { fill: css(s.color) + "22" } : {}),
          })),
        ],
      },
      [props.x, ...props.y] as uPlot.AlignedData,
      element,
    );
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: props.height }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [theme, props.series]);
  useEffect(() => {
    plot.current?.setData([props.x, ...props.y] as uPlot.AlignedData);
  }, [props.x, props.y]);
  // Only the line moves. redraw() without false would set the scale of x again, which a new plot has not computed yet.
  useEffect(() => plot.current?.redraw(false), [props.mark]);
  const last = props.x.length - 1;
  return (
    <figure>
      <div ref={box} style={{ minHeight: props.height + 34 }} aria-hidden="true" />
      <figcaption class="sr">
        {props.label}: {props.series.map((s, i) => `${s.label} ${last >= 0 ? props.y[i]![last] : "no data yet"}`).join(", ")}
      </figcaption>
    </figure>
  );
}
