// What if: another policy or another fleet on the log of this host; what happened and what would have happened, side by side.
import { useMemo, useState } from "preact/hooks";
import { post, Problem } from "./api";
import { Chart, type Series } from "./chart";
import { count, dollars, span } from "./format";
import { useData } from "./data";
import { Card, CopyCommand, Empty, Failure, Name, Rows } from "./ui";
import type { Page, Replay, Worker } from "./types";

const MODES = ["adaptive", "static_worker", "fixed_pipeline", "static_round_robin"];
const SELECTIONS = ["score", "first_fit", "min_satisfying", "round_robin", "least_loaded", "random", "affinity"];
const SWITCHES: [string, string][] = [
  ["preemption", "Preemption"], ["fair_share", "Fair share"], ["prefer_started", "Prefer started workflows"], ["prefer_locality", "Prefer locality"],
  ["context_reuse", "Context reuse"], ["stickiness", "Stage weight stickiness"], ["merge", "Merge tasks"],
];
const FIGURES: [string, string, (n: number) => string, "less" | "more" | ""][] = [ // Which is better.
  ["makespan_ns", "Makespan", (n) => span(n / 1e6), "less"],
  ["wait_mean_ns", "Wait, mean", (n) => span(n / 1e6), "less"],
  ["wait_p95_ns", "Wait, p95", (n) => span(n / 1e6), "less"],
  ["utilisation_millionths", "Utilisation", (n) => `${(n / 1e4).toFixed(1)} %`, "more"],
  ["cost_busy_microdollars", "Cost, busy", dollars, "less"],
  ["cost_up_microdollars", "Cost, up", dollars, "less"],
  ["succeeded", "Succeeded", count, "more"],
  ["failed", "Failed", count, ""],
  ["assignments", "Assignments", count, ""],
];
const SERIES: Series[] = [
  { label: "As in the log: running", color: "--c-running", fill: true },
  { label: "Otherwise: running", color: "--c-failed", fill: false },
  { label: "As in the log: waiting", color: "--c-queued", fill: false, dash: true },
  { label: "Otherwise: waiting", color: "--c-ready", fill: false, dash: true },
];

// Workers in the place of one of the log; "": as in the log.
type Group = { worker: string; first: boolean; count: string; cores: string; gib: string; gpus: string; dollars: string };
const UNCHANGED = { count: "", cores: "", gib: "", gpus: "", dollars: "" };
const GROUP_FIELDS: [keyof typeof UNCHANGED, string, string, number][] = [ // With the host's name, and its unit.
  ["count", "Count", "count", 1], ["cores", "Cores", "cpu_millis", 1000], ["gib", "Memory, GiB", "memory_bytes", 2 ** 30],
  ["gpus", "GPUs", "gpus", 1], ["dollars", "$ per hour", "cost_microdollars_per_hour", 1e6],
];
const isChanged = (g: Group) => !g.first || GROUP_FIELDS.some(([field]) => g[field] !== "");
// The fields of the HTTP interface; names that are not plain words are in quotes.
function changeText(g: Group): string {
  const name = /^[\w.+-]+$/.test(g.worker) ? g.worker : `"${g.worker.replace(/["\\]/g, "\\$&").replaceAll("\n", "\\n")}"`;
  return [`worker=${name}`, ...GROUP_FIELDS.flatMap(([field, , wire, unit]) => (g[field] === "" ? [] : [`${wire}=${Math.round(Number(g[field]) * unit)}`]))].join(" ");
}

export function WhatIf(_props: { id?: string }) {
  const [mode, setMode] = useState("");
  const [selection, setSelection] = useState("");
  const [switches, setSwitches] = useState<Record<string, string>>({});
  const [lambda, setLambda] = useState("");
  const { value: workers } = useData<Page<Worker>>("/v1/workers", { still: true });
  const [edited, setGroups] = useState<Group[] | null>(null);
  const groups = edited ?? [...(workers?.items ?? [])].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true })).map((w): Group => ({ worker: w.name, first: true, ...UNCHANGED }));
  // A changed worker stays in its list only together with its first row, so that "one more kind" adds to the one of the log.
  const fleet = groups.filter((g) => groups.some((other) => other.worker === g.worker && isChanged(other))).map(changeText);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Problem | null>(null);
  const [replay, setReplay] = useState<Replay | null>(null);
  const wanted: [string, string][] = [
    ...(mode ? [["mode", mode] as [string, string]] : []),
    ...(selection ? [["selection", selection] as [string, string]] : []),
    ...(lambda !== "" ? [["lambda_other", lambda] as [string, string]] : []),
    ...Object.entries(switches).filter(([, v]) => v !== ""),
  ];
  const run = async (e: Event) => {
    e.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const policy = wanted.map(([k, v]) => `${k}=${k === "lambda_other" ? Math.round(Number(v) * 1e9) : v}`).join(" ");
      setReplay(await post<Replay>("/v1/replays", { policy, fleet }));
    } catch (problem) {
      setError(problem instanceof Problem ? problem : new Problem(0, "", String(problem)));
    }
    setBusy(false);
  };
  const command = ["rota replay", ...(wanted.length > 0 ? [`--policy ${wanted.map(([k, v]) => `${k}=${v}`).join(",")}`] : []),
    ...fleet.map((f) => `--fleet '${f.replaceAll(" ", ",").replaceAll("'", "'\\''")}'`)].join(" ");
  return (
    <>
      <div class="head"><h1>What if</h1><small>another policy had decided the same log, or another fleet had run it</small></div>
      <div class="stack">
        <form class="stack" onSubmit={run}>
        <Card title="The other policy" aside={<CopyCommand command={command} />}>
          <div class="pad form">
            <label>Dispatch mode
              <select value={mode} onChange={(e) => setMode(e.currentTarget.value)}><option value="">as in the log</option>{MODES.map((m) => <option key={m} value={m}>{m.replaceAll("_", " ")}</option>)}</select>
            </label>
            <label>Selection of workers
              <select value={selection} onChange={(e) => setSelection(e.currentTarget.value)}><option value="">as in the log</option>{SELECTIONS.map((m) => <option key={m} value={m}>{m.replaceAll("_", " ")}</option>)}</select>
            </label>
            <label>Weight of throughput (lambda)
              <select value={lambda} onChange={(e) => setLambda(e.currentTarget.value)}><option value="">as in the log</option>{["0", "0.2", "0.4", "0.6", "0.8", "1"].map((l) => <option key={l} value={l}>{l}</option>)}</select>
            </label>
            {SWITCHES.map(([name, text]) => (
              <label key={name}>{text}
                <select value={switches[name] ?? ""} onChange={(e) => setSwitches({ ...switches, [name]: e.currentTarget.value })}><option value="">as in the log</option><option value="true">on</option><option value="false">off</option></select>
              </label>
            ))}
          </div>
        </Card>
        <Card title="The other fleet" aside={edited && <button type="button" onClick={() => setGroups(null)}>As in the log</button>}>
          <FleetTable groups={groups} workers={workers?.items ?? []} set={setGroups} />
        </Card>
        <div class="row end"><button class="primary" type="submit" disabled={busy} aria-busy={busy}>{busy ? "Computing" : "Compute"}</button></div>
        </form>
        {error && <Card title="Result"><Failure error={error} /></Card>}
        {busy && !replay && <Card title="Result"><Rows n={6} /></Card>}
        {!busy && !replay && !error && (
          <Card title="Result"><Empty title="Nothing computed yet"><p>The host decides its log again, beside its work, with the inputs and durations of the log. Choose a policy, or change the workers, and compute.</p></Empty></Card>
        )}
        {replay && <Outcome replay={replay} />}
      </div>
    </>
  );
}

function FleetTable({ groups, workers, set }: { groups: Group[]; workers: Worker[]; set: (groups: Group[]) => void }) {
  if (groups.length === 0) return <Empty title="No worker has registered"><pre>rota worker --redis URL</pre></Empty>;
  const usual = (g: Group, field: keyof typeof UNCHANGED): string => {
    const w = workers.find((each) => each.name === g.worker);
    if (!w) return "";
    return { count: "1", cores: String(w.cpu_millis / 1000), gib: String(+(w.memory_bytes / 2 ** 30).toFixed(1)), gpus: "as is", dollars: String(w.cost_microdollars_per_hour / 1e6) }[field];
  };
  return (
    <>
      <div class="scroll">
        <table aria-label="Workers of the other fleet">
          <thead><tr><th scope="col">Like</th>{GROUP_FIELDS.map(([field, text]) => <th scope="col" key={field}>{text}</th>)}<th scope="col"><span class="sr">Actions</span></th></tr></thead>
          <tbody>
            {groups.slice(0, 100).map((g, i) => (
              <tr key={i} class={isChanged(g) ? "on" : ""}>
                <td><Name text={g.worker} most={32} />{!g.first && <small> and as well</small>}</td>
                {GROUP_FIELDS.map(([field, text]) => (
                  <td key={field}><input class="number" type="number" min="0" step="any" aria-label={`${text} of ${g.worker.slice(0, 60)}${g.first ? "" : ", another kind"}`} placeholder={usual(g, field)} value={g[field]}
                    onInput={(e) => set(groups.map((old, k) => (k === i ? { ...old, [field]: e.currentTarget.value } : old)))} /></td>
                ))}
                <td class="num">
                  <div class="row end">
                    {g.first && <button aria-pressed={g.count === "0"} class="toggle" type="button" onClick={() => set(groups.map((old, k) => (k === i ? { ...old, count: old.count === "0" ? "" : "0" } : old)))}>Without it</button>}
                    {g.first ? <button type="button" onClick={() => set([...groups.slice(0, i + 1), { worker: g.worker, first: false, ...UNCHANGED }, ...groups.slice(i + 1)])}>One more</button>
                      : <button type="button" onClick={() => set(groups.filter((_, k) => k !== i))}>Remove</button>}
                  </div>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="pad why">Empty fields are as in the log. An attempt takes as long as it took, on any worker; further workers join with the first of their kind and stay.{groups.length > 100 && ` The first 100 of ${count(groups.length)} are shown.`}</p>
    </>
  );
}

function Outcome({ replay }: { replay: Replay }) {
  const { courses } = replay;
  const same = courses[1];
  const other = courses[2];
  const names = ["As it happened", "As in the log, to its end", other?.name === "other fleet" ? "The other fleet" : "The other policy"];
  const [x, y] = useMemo(() => {
    const points = (same?.running.length ?? 0);
    const seconds = Array.from({ length: points }, (_, i) => (i * replay.bucket_ms) / 1000);
    const of = (values: number[] | undefined) => seconds.map((_, i) => (values?.[i] ?? 0) / 1000);
    return [seconds, [of(same?.running), of(other?.running), of(same?.ready), of(other?.ready)]];
  }, [replay]);
  return (
    <>
      <Card title="Side by side" aside={<small>{count(replay.records)} records</small>}>
        <div class="scroll">
          <table aria-label="Figures">
            <thead><tr><th scope="col">Figure</th>{courses.map((_, i) => <th scope="col" key={i} class="num">{names[i]}</th>)}<th scope="col" class="num">Difference</th></tr></thead>
            <tbody>
              {FIGURES.map(([key, text, show, better]) => {
                const a = same?.figures[key] ?? 0;
                const b = other?.figures[key];
                const change = b === undefined || a === 0 ? null : ((b - a) / a) * 100;
                const good = change === null || change === 0 || better === "" ? "" : change < 0 === (better === "less") ? "delta-good" : "delta-bad";
                return (
                  <tr key={key}><td>{text}</td>{courses.map((c, i) => <td key={i} class="num">{show(c.figures[key] ?? 0)}</td>)}
                    <td class={`num ${good}`}>{change === null ? "" : change === 0 ? "the same" : `${change > 0 ? "+" : "−"}${Math.abs(change).toFixed(1)} %${good === "" ? "" : good === "delta-good" ? ", better" : ", worse"}`}</td></tr>
                );
              })}
            </tbody>
          </table>
        </div>
      </Card>
      <Card title="Tasks over time"><Chart series={SERIES} x={x} y={y} height={240} time={false} unit="s" label="Tasks that run and wait, as in the log and otherwise" /></Card>
    </>
  );
}
