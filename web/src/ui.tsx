// The parts that views are made of.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import { Problem } from "./api";
import { count, middle } from "./format";
import { at, isLive, isReadOnly, say } from "./store";
import { STATES, type State, type StateCounts } from "./types";

// Shapes differ as well as colours, so that states can be told apart without seeing colours.
const GLYPHS: Record<State, string> = {
  queued: "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3Z",
  ready: "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3ZM8 5.2V8l2 1.4",
  running: "M5.5 3.6v8.8L12.5 8Z",
  paused: "M5.6 4v8M10.4 4v8",
  succeeded: "M3.4 8.4l3 3 6.2-6.6",
  skipped: "M3.5 4.5 8 8l-4.5 3.5M8.5 4.5 13 8l-4.5 3.5",
  failed: "M4.2 4.2l7.6 7.6M11.8 4.2l-7.6 7.6",
  cancelled: "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3ZM4.6 11.4l6.8-6.8",
};
export const stateOf = (name: string): State => ((STATES as readonly string[]).includes(name) ? (name as State) : "queued");

export function Glyph({ state }: { state: State }) {
  return (
    <svg class={`glyph s-${state}`} viewBox="0 0 16 16" aria-hidden="true">
      <path d={GLYPHS[state]} />
    </svg>
  );
}
export function StateTag({ state, text }: { state: string; text?: string }) {
  return (
    <span class={`tag s-${stateOf(state)}`}>
      <Glyph state={stateOf(state)} />
      {text ?? state}
    </span>
  );
}

export function StateBar({ states, total }: { states: StateCounts; total: number }) {
  const parts = STATES.filter((s) => states[s] > 0);
  const text = parts.map((s) => `${count(states[s])} ${s}`).join(", ") || "no tasks";
  return (
    <div class="bar" role="img" aria-label={text} title={text}>
      {parts.map((s) => (
        <i key={s} class={`b-${s}`} style={{ flexGrow: Math.max(states[s], total / 150) }} />
      ))}
    </div>
  );
}
export function Legend({ states }: { states: StateCounts }) {
  return (
    <ul class="legend">
      {STATES.filter((s) => states[s] > 0).map((s) => (
        <li key={s}>
          <Glyph state={s} />
          <b>{count(states[s])}</b> {s}
        </li>
      ))}
    </ul>
  );
}

export function Name({ text, most = 60 }: { text: string; most?: number }) {
  const shown = middle(text, most);
  return (
    <bdi class="name" title={shown === text ? undefined : text.slice(0, 2000)}>
      {shown}
    </bdi>
  );
}

export function Card(props: { title: string; aside?: ComponentChildren; children: ComponentChildren; class?: string; id?: string }) {
  return (
    <section class={`card ${props.class ?? ""}`} aria-label={props.title} id={props.id}>
      <header>
        <h2>{props.title}</h2>
        {props.aside}
      </header>
      {props.children}
    </section>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

export function Failure({ error, again }: { error: Problem; again?: () => void }) {
  const gone = error.status === 410;
  return (
    <div class="empty bad" role="alert">
      <p class="empty-title">{gone ? "This moment is no longer kept" : error.status === 404 ? "Not found" : "This could not be read"}</p>
      <p>{error.message}</p>
      {again && <button onClick={again}>Try again</button>}
    </div>
  );
}
// Grey lines where rows will be: nothing jumps when they arrive.
export const Rows = ({ n = 5 }: { n?: number }) => (
  <div class="skeleton" aria-busy="true" aria-label="Loading">
    {Array.from({ length: n }, (_, i) => (
      <i key={i} />
    ))}
  </div>
);

export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    say("ok", `Copied: ${middle(text, 80)}`);
  } catch {
    say("bad", `The browser does not allow copying. Copy it by hand: ${text}`);
  }
}
export function CopyCommand({ command }: { command: string }) {
  return (
    <button type="button" class="quiet copy" title={`Copy as command: ${command}`} aria-label={`Copy as command: ${command}`} onClick={() => copy(command)}>
      <svg viewBox="0 0 16 16" aria-hidden="true">
        <path d="M3 4.5l3.5 3.5L3 11.5M8.5 12H13" />
      </svg>
      <span>Copy as command</span>
    </button>
  );
}

// A button that changes something. The past cannot be changed.
export function Act(props: { children: ComponentChildren; run: () => Promise<void> | void; danger?: boolean; disabled?: boolean; why?: string }) {
  const [busy, setBusy] = useState(false);
  const past = !isLive.value;
  const off = past || busy || props.disabled === true || isReadOnly.value;
  const title = isReadOnly.value ? "This is a finished log: there is no host to control" : past ? "This is a past moment: go live to act" : props.why;
  return (
    <button class={props.danger ? "danger" : ""} disabled={off} title={title} aria-busy={busy}
      onClick={async () => {
        setBusy(true);
        try {
          await props.run();
        } finally {
          setBusy(false);
        }
      }}>
      {props.children}
    </button>
  );
}

// --- A question before what cannot be undone ---
type Question = { title: string; text: string; yes: string; resolve: (yes: boolean) => void };
const question = signal<Question | null>(null);
export const ask = (title: string, text: string, yes: string): Promise<boolean> =>
  new Promise((resolve) => (question.value = { title, text, yes, resolve }));

export function QuestionDialog() {
  const box = useRef<HTMLDialogElement>(null);
  const now = question.value;
  useEffect(() => {
    if (now && box.current && !box.current.open) box.current.showModal();
  }, [now]);
  if (!now) return null;
  const answer = (yes: boolean) => {
    box.current?.close();
    question.value = null;
    now.resolve(yes);
  };
  return (
    <dialog ref={box} aria-labelledby="question-title" onCancel={(e) => (e.preventDefault(), answer(false))}>
      <h2 id="question-title">{now.title}</h2>
      <p>{now.text}</p>
      <div class="row end">
        <button onClick={() => answer(false)}>Keep</button>
        <button class="danger" onClick={() => answer(true)}>{now.yes}</button>
      </div>
    </dialog>
  );
}

export function Choice<T extends string>(props: { label: string; value: T; options: readonly (readonly [T, string])[]; pick: (value: T) => void }) {
  return (
    <div class="choice" role="group" aria-label={props.label}>
      {props.options.map(([value, text]) => (
        <button key={value} aria-pressed={value === props.value} onClick={() => props.pick(value)}>
          {text}
        </button>
      ))}
    </div>
  );
}

export function Search(props: { label: string; value: string; set: (value: string) => void }) {
  const [text, setText] = useState(props.value);
  const timer = useRef(0);
  useEffect(() => setText(props.value), [props.value]);
  const input = (e: JSX.TargetedEvent<HTMLInputElement>) => {
    const value = e.currentTarget.value;
    setText(value);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => props.set(value), 200);
  };
  return <input type="search" aria-label={props.label} placeholder={props.label} value={text} onInput={input} />;
}

export const atFlag = (): string => (at.value === null ? "" : ` --at ${at.value}`);
