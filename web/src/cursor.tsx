// The bar at the foot of every view: live, or a moment of the log. All views show that moment.
import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "./api";
import { clock, count } from "./format";
import { at, first, goTo, head, isLive, momentTime } from "./store";
import type { Overview } from "./types";

const SPEEDS = [1, 4, 16, 64];
const STEP_MS = 400;

const clamp = (index: number) => Math.max(first.peek(), Math.min(head.peek(), index));

export function CursorBar() {
  const [playing, setPlaying] = useState(false);
  const [speed, setSpeed] = useState(1);
  const [drag, setDrag] = useState<number | null>(null);
  const timer = useRef(0);
  const moment = at.value;
  const last = head.value;
  const begin = Math.min(first.value, last);
  const shown = drag ?? moment ?? last;

  // The time of the moment that is shown.
  useEffect(() => {
    if (moment === null) {
      momentTime.value = null;
      return;
    }
    const stop = new AbortController();
    get<Overview>("/v1/overview", stop.signal).then((o) => {
      momentTime.value = o.time;
      first.value = o.first_index;
    }, () => {});
    return () => stop.abort();
  }, [moment]);

  // Playing goes from record to record; a long log in larger steps, so that it takes about two minutes at speed 1.
  useEffect(() => {
    if (!playing) return;
    const step = Math.max(1, Math.round(((head.peek() - first.peek()) / 300) * speed));
    const play = setInterval(() => {
      const now = at.peek() ?? first.peek();
      if (now >= head.peek()) {
        setPlaying(false);
        goTo(null);
      } else {
        goTo(clamp(now + step));
      }
    }, STEP_MS);
    return () => clearInterval(play);
  }, [playing, speed]);

  const move = (index: number) => {
    setPlaying(false);
    goTo(clamp(index));
  };
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      const target = e.target as HTMLElement;
      const writes = /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && !/^(range|checkbox)$/.test((target as HTMLInputElement).type);
      if (e.ctrlKey || e.metaKey || e.altKey || writes) return;
      if (e.key === "[") move((at.peek() ?? head.peek()) - 1);
      else if (e.key === "]") move((at.peek() ?? head.peek()) + 1);
      else if (e.key === "l") {
        setPlaying(false);
        goTo(null);
      } else if (e.key === "p") setPlaying((p) => !p);
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, []);

  return (
    <footer class="foot" aria-label="Time cursor">
      <button class="live-button" aria-pressed={isLive.value} title="Show the present (l)" onClick={() => (setPlaying(false), goTo(null))}>
        <i />Live
      </button>
      <button class="quiet" aria-label={playing ? "Stop playing the log" : "Play the log"} title="Play the log (p)"
        onClick={() => {
          if (!playing && (at.peek() === null || at.peek()! >= head.peek())) goTo(first.peek());
          setPlaying(!playing);
        }}>
        <svg viewBox="0 0 16 16" aria-hidden="true"><path d={playing ? "M5.5 4v8M10.5 4v8" : "M5 3.5v9l7.5-4.5z"} /></svg>
      </button>
      <button class="quiet extra" aria-label="One record back" title="One record back ([)" onClick={() => move(shown - 1)}>
        <svg viewBox="0 0 16 16" aria-hidden="true"><path d="M10 4 6 8l4 4" /></svg>
      </button>
      <button class="quiet extra" aria-label="One record on" title="One record on (])" onClick={() => move(shown + 1)}>
        <svg viewBox="0 0 16 16" aria-hidden="true"><path d="m6 4 4 4-4 4" /></svg>
      </button>
      <label class="extra"><span class="sr">Speed</span>
        <select value={String(speed)} onChange={(e) => setSpeed(Number(e.currentTarget.value))}>
          {SPEEDS.map((s) => <option key={s} value={String(s)}>{s}×</option>)}
        </select>
      </label>
      <input type="range" aria-label="Record of the log" aria-valuetext={`record ${shown}${isLive.value ? ", live" : ""}`}
        min={begin} max={Math.max(last, begin)} value={shown}
        onInput={(e) => {
          const index = Number(e.currentTarget.value);
          setPlaying(false);
          setDrag(index);
          clearTimeout(timer.current);
          timer.current = window.setTimeout(() => {
            setDrag(null);
            goTo(index >= head.peek() ? null : clamp(index));
          }, 90);
        }} />
      <div class="when">
        {isLive.value && drag === null ? <>record <b>{count(last)}</b> · now</> : <>record <b>{count(shown)}</b> of {count(last)} · {clock(momentTime.value, true)}</>}
      </div>
    </footer>
  );
}
