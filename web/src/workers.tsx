// Workers: what each has, runs and holds in its cache; what it costs; drain, enable, disable.
import { useState } from "preact/hooks";
import { control } from "./api";
import { useData, useNow } from "./data";
import { bytes, cores, count, dollars, ms, span } from "./format";
import { place, setQuery } from "./store";
import { taskLink } from "./now";
import { Act, ask, Choice, CopyCommand, Empty, Failure, Name, Rows, Search, StateTag } from "./ui";
import type { Page, Worker } from "./types";

const STATE_OF: Record<string, string> = {
  idle: "succeeded", busy: "running", overloaded: "ready", draining: "paused", disabled: "cancelled", unreachable: "failed", left: "skipped",
};

function Use({ used, all, text }: { used: number; all: number; text: string }) {
  const part = all > 0 ? Math.min(100, (100 * used) / all) : 0;
  return (
    <div>
      <div class="meter" aria-hidden="true"><i style={{ width: `${part}%` }} /></div>
      <small>{text}</small>
    </div>
  );
}

function Details({ worker }: { worker: Worker }) {
  const words = [...worker.capabilities, ...worker.labels, ...worker.handlers.map((h) => `handler ${h}`)];
  return (
    <div class="stack">
      <dl class="facts">
        <dt>Resources</dt><dd>{worker.resources}</dd>
        {words.length > 0 && <><dt>Offers</dt><dd>{words.join(", ")}</dd></>}
        {worker.zone !== "" && <><dt>Zone</dt><dd>{worker.zone}</dd></>}
        {worker.power_milliwatts > 0 && <><dt>Power</dt><dd>{worker.power_milliwatts / 1000} W</dd></>}
        <dt>In its cache</dt><dd>{worker.caches.length === 0 ? "nothing" : worker.caches.join(", ")}</dd>
        <dt>Runs</dt>
        <dd>{worker.tasks.length === 0 ? "nothing" : worker.tasks.slice(0, 40).map((t, i) => <>{i > 0 && ", "}<a key={t} href={taskLink(t)}>{t}</a></>)}{worker.tasks.length > 40 && ` and ${count(worker.tasks.length - 40)} more`}</dd>
      </dl>
    </div>
  );
}

export function Workers() {
  const { value, error, again } = useData<Page<Worker>>("/v1/workers");
  const [open, setOpen] = useState<string>("");
  const now = useNow();
  const query = place.value.query;
  const q = query.get("q") ?? "";
  const only = query.get("status") ?? "";
  const items = (value?.items ?? []).filter((w) => w.name.includes(q) && (only === "" || (only === "usable" ? w.status === "idle" || w.status === "busy" : w.status !== "idle" && w.status !== "busy"))).sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  const shown = items.slice(0, 500);
  return (
    <>
      <div class="head">
        <h1>Workers</h1>
        <div class="grow" />
        <Choice label="Status" value={only} options={[["", "All"], ["usable", "Usable"], ["other", "Not usable"]]} pick={(v) => setQuery({ status: v }, false)} />
        <Search label="Name contains" value={q} set={(v) => setQuery({ q: v })} />
      </div>
      <section class="card" aria-label="Workers">
        <header>
          <h2>{value ? `${count(items.length)} worker${items.length === 1 ? "" : "s"}` : "Workers"}</h2>
          {items.length > shown.length && <small>The first {shown.length} are shown; filter by name to see others.</small>}
          <CopyCommand command="rota workers" />
        </header>
        {error && !value ? <Failure error={error} again={again} /> : !value ? <Rows n={6} /> : items.length === 0 ? (
          <Empty title={value.items.length === 0 ? "There are no workers yet" : "No worker matches"}><p>A worker on any machine joins with</p><pre>rota worker --redis redis://HOST</pre></Empty>
        ) : (
          <div class="scroll">
            <table class="roomy">
              <thead><tr><th scope="col">Name</th><th scope="col">Status</th><th scope="col">Cores</th><th scope="col" class="hide-small">Memory</th><th scope="col" class="num">Runs</th><th scope="col" class="num hide-small">Queued there</th><th scope="col" class="num hide-small">Per hour</th><th scope="col" class="hide-small">Since</th><th scope="col"><span class="sr">Actions</span></th></tr></thead>
              <tbody>
                {shown.map((w) => (
                  <>
                    <tr key={w.id} class={open === w.id ? "on" : ""}>
                      <td><button class="link" aria-expanded={open === w.id} onClick={() => setOpen(open === w.id ? "" : w.id)}><Name text={w.name} most={32} /></button></td>
                      <td><StateTag state={STATE_OF[w.status] ?? "queued"} text={w.status + (w.disabled_elastic ? " (elastic)" : "")} /></td>
                      <td><Use used={w.cpu_millis_used} all={w.cpu_millis} text={`${cores(w.cpu_millis_used)} of ${cores(w.cpu_millis)}`} /></td>
                      <td class="hide-small"><Use used={w.memory_bytes_used} all={w.memory_bytes} text={`${bytes(w.memory_bytes_used)} of ${bytes(w.memory_bytes)}`} /></td>
                      <td class="num">{count(w.executions)}</td>
                      <td class="num hide-small">{w.queued > 0 ? count(w.queued) : ""}</td>
                      <td class="num hide-small">{dollars(w.cost_microdollars_per_hour)}</td>
                      <td class="nowrap hide-small">{w.seen ? span(now - ms(w.seen)) : ""}</td>
                      <td class="nowrap">
                        <div class="row end">
                          {w.status === "disabled" ? <Act run={() => control("enable", "workers", [w.name])}>Enable</Act> : <Act run={() => control("disable", "workers", [w.name])} disabled={w.status === "left"}>Disable</Act>}
                          <Act danger disabled={w.status === "draining" || w.status === "left"} run={async () => {
                            if (await ask(`Drain ${w.name}?`, "It gets no more tasks, and leaves when it has none.", "Drain it")) await control("drain", "workers", [w.name]);
                          }}>Drain</Act>
                        </div>
                      </td>
                    </tr>
                    {open === w.id && <tr key={w.id + "+"}><td colSpan={9}><div class="pad"><Details worker={w} /></div></td></tr>}
                  </>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </section>
    </>
  );
}
