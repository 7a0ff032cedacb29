// Data of a view: read when the view opens, when the cursor moves, and, if it is live, when the host has new records.
//
// At most one request per view is under way. After it, the next one waits at least MIN_MS and three times as long as the
// last one took, so that a page that is open costs a host little, however busy it is. While data is loading, what was
// shown before stays.
import { useEffect, useRef, useState } from "preact/hooks";
import { effect } from "@preact/signals";
import { get, getNow, Problem } from "./api";
import { at, head, momentTime } from "./store";

const MIN_MS = 400;
export type Data<T> = { value: T | null; error: Problem | null; loading: boolean; again: () => void };

// `path` null: nothing to read. `still`: do not read again when there are new records. `now`: it has no past.
export function useData<T>(path: string | null, options: { still?: boolean; now?: boolean } = {}): Data<T> {
  const [state, setState] = useState<{ path: string | null; value: T | null; error: Problem | null; loading: boolean }>({
    path, value: null, error: null, loading: path !== null,
  });
  const kick = useRef<() => void>(() => {});
  const { still = false, now = false } = options;
  useEffect(() => {
    if (path === null) {
      setState({ path, value: null, error: null, loading: false });
      return;
    }
    const stop = new AbortController();
    let busy = false;
    let wanted = true;
    let next = 0;
    let timer = 0;
    const run = async () => {
      if (busy || stop.signal.aborted || !wanted) return;
      const wait = next - performance.now();
      if (wait > 0) {
        clearTimeout(timer);
        timer = window.setTimeout(run, wait);
        return;
      }
      if (document.hidden) return; // Nobody looks.
      busy = true;
      wanted = false;
      const begun = performance.now();
      try {
        const value = await (now ? getNow : get)<T>(path, stop.signal);
        if (!stop.signal.aborted) setState({ path, value, error: null, loading: false });
      } catch (error) {
        if (stop.signal.aborted) return;
        const problem = error instanceof Problem ? error : new Problem(0, "", String(error));
        // A host that does not answer: what is known stays, and the head of the page says so.
        setState((old) => ({ path, value: problem.status === 0 || problem.status === 503 ? old.value : null, error: problem, loading: false }));
        if (problem.status === 0 || problem.status === 503) wanted = true;
      }
      busy = false;
      const took = performance.now() - begun;
      next = performance.now() + Math.max(MIN_MS, 3 * took);
      void run();
    };
    kick.current = () => {
      wanted = true;
      next = 0;
      void run();
    };
    let seenAt: number | null | undefined;
    const end = effect(() => {
      const moment = at.value;
      if (moment === null && !still) head.value; // Subscribes.
      if (seenAt !== moment) next = 0;
      seenAt = moment;
      wanted = true;
      void run();
    });
    const shown = () => void run();
    document.addEventListener("visibilitychange", shown);
    return () => {
      stop.abort();
      clearTimeout(timer);
      end();
      document.removeEventListener("visibilitychange", shown);
    };
  }, [path, still]);
  const mine = state.path === path;
  return { value: mine ? state.value : null, error: mine ? state.error : null, loading: mine ? state.loading : path !== null, again: () => kick.current() };
}

// A clock for durations that grow: the present, or the moment of the cursor.
export function useNow(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const moment = momentTime.value;
  return at.value !== null && moment !== null ? Date.parse(moment) : now;
}
