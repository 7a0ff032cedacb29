// Data of a view: read when the view opens, when the cursor moves, and, if it is live, when the host has new records. Some of
// what a host answers changes without a record (how long a task has run, or has waited), so a live view is also read every
// AGED_MS.
//
// At most one request per view is under way. After it, the next one waits at least MIN_MS and three times as long as the
// last one took, so that a page that is open costs a host little, however busy it is. While data is loading, what was
// shown before stays.
import { useEffect, useRef, useState } from "preact/hooks";
import { effect, signal } from "@preact/signals";
import { get, getNow, getText, Problem } from "./api";
import { at, head, momentTime } from "./store";

const MIN_MS = 400;
const AGED_MS = 5000;
export const aged = signal(0); // Counts; while the page is visible.
setInterval(() => {
  if (!document.hidden) aged.value++;
}, AGED_MS);

export type Data<T> = { value: T | null; error: Problem | null; loading: boolean; again: () => void };

// `path` null: nothing to read. `still`: do not read again when there are new records. `now`: it has no past, and does not
// change without a record. `text`: the answer as text, for T = string. `final`: what was read does not change without a record any more.
export function useData<T>(path: string | null, options: { still?: boolean; now?: boolean; text?: boolean; final?: (value: T) => boolean } = {}): Data<T> {
  const [state, setState] = useState<{ path: string | null; value: T | null; error: Problem | null; loading: boolean }>({
    path, value: null, error: null, loading: path !== null,
  });
  const kick = useRef<() => void>(() => {});
  const { still = false, now = false, text = false } = options;
  const final = useRef(options.final);
  final.current = options.final;
  useEffect(() => {
    if (path === null) {
      setState({ path, value: null, error: null, loading: false });
      return;
    }
    const stop = new AbortController();
    let busy = false;
    let wanted = true;
    let isFinal = false;
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
        const value = text ? ((await getText(path, stop.signal)) as T) : await (now ? getNow : get)<T>(path, stop.signal);
        isFinal = final.current?.(value) === true;
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
    const age = now || still ? () => {} : aged.subscribe((times) => {
      if (times === 0 || at.peek() !== null || isFinal) return;
      wanted = true;
      void run();
    });
    const shown = () => void run();
    document.addEventListener("visibilitychange", shown);
    return () => {
      stop.abort();
      clearTimeout(timer);
      end();
      age();
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
