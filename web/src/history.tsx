// The past as a curve: how many tasks ran, and how many waited for which reason, all over the log. A click goes to a moment.
import { useMemo } from "preact/hooks";
import { Chart, type Series } from "./chart";
import { useData } from "./data";
import { count, reason } from "./format";
import { at, goTo, momentTime } from "./store";
import { Card, Empty, Failure, Rows } from "./ui";
import type { History } from "./types";

// A colour for each reason to wait; reasons that are alike share one. The chart and the timeline both use it.
const COLORS: Record<string, string> = {
  running: "c-running", needs: "c-queued", no_room: "c-ready", turn: "c-ready", paused: "c-paused", backoff: "c-cancelled",
  unplaceable: "c-failed", quota: "accent", fleet_resource: "accent",
};
export const kindColor = (kind: string): string => COLORS[kind] ?? "c-skipped";

// The kinds that occur, as positions in `kinds`, in their order.
export function kindsOf(history: History): number[] {
  const seen = new Set<number>();
  for (const point of history.points) for (let i = 1; i < point.values.length; i += 3) seen.add(point.values[i]!);
  return [...seen].sort((a, b) => a - b);
}

const RUNNING: Series[] = [{ label: "Running", color: "--c-running", fill: true }];

export function HistoryCard() {
  const { value, error, again } = useData<History>("/v1/history?points=200&fresh_ms=2000", { now: true });
  const kinds = value ? kindsOf(value).filter((k) => value.kinds[k] !== "running") : [];
  const key = kinds.join();
  const waiting = useMemo((): Series[] => kinds.map((k) => (
    { label: `Waiting for ${reason(value!.kinds[k]!)}`, color: "--" + kindColor(value!.kinds[k]!), fill: false, dash: value!.kinds[k] === "needs" }
  )), [key]);
  const [x, running, waits] = useMemo((): [number[], number[], number[][]] => {
    if (!value) return [[], [], []];
    const of = (kind: number) => value.points.map((p) => {
      for (let i = 1; i < p.values.length; i += 3) if (p.values[i] === kind) return p.values[i + 1]!;
      return 0;
    });
    return [value.points.map((p) => p.time_ms / 1000), of(value.kinds.indexOf("running")), kinds.map(of)];
  }, [value, key]);
  const pick = (i: number) => value && goTo(i >= value.points.length - 1 ? null : value.points[i]!.index);
  const moment = at.value === null || momentTime.value === null ? undefined : Date.parse(momentTime.value) / 1000;
  return (
    <Card title="Density" aside={<small>{value && !value.complete ? "since the last snapshot" : "since the log began"}; click to go to a moment</small>}>
      {error && !value ? <Failure error={error} again={again} /> : !value ? <Rows n={4} /> : value.points.length < 2 ? (
        <Empty title="The log is empty"><p>Tasks that run and wait appear here as soon as there are any.</p></Empty>
      ) : (
        <>
          <Chart series={RUNNING} x={x} y={[running]} height={110} label="Tasks running over time" mark={moment} pick={pick} />
          {waiting.length > 0 && <Chart series={waiting} x={x} y={waits} height={130} label="Tasks waiting over time, by reason" mark={moment} pick={pick} />}
        </>
      )}
      {value && (
        <table class="sr" aria-label="Density">
          <thead><tr><th scope="col">Tasks</th><th scope="col">Most at once</th></tr></thead>
          <tbody>{[...RUNNING, ...waiting].map((s, i) => <tr key={s.label}><td>{s.label}</td><td>{count(Math.max(0, ...[running, ...waits][i]!))}</td></tr>)}</tbody>
        </table>
      )}
    </Card>
  );
}
