// The frame of the page: navigation, the view, the time cursor, messages.
import { render } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { effect, signal } from "@preact/signals";
import { getNow, startStream } from "./api";
import { CursorBar } from "./cursor";
import { Decisions } from "./decisions";
import { Now } from "./now";
import { Run } from "./run";
import { at, first, goTo, head, href, isLive, isReadOnly, link, linkWhy, place, signIn, signOut, toasts, token, tokenProblem } from "./store";
import { Empty, QuestionDialog } from "./ui";
import { WhatIf } from "./whatif";
import { Workers } from "./workers";
import { Workflows } from "./workflows";
import type { Version } from "./types";

const VIEWS: [string, string, string][] = [
  ["now", "Now", "M2 8h3l2-5 3 10 2-5h2"],
  ["workflows", "Workflows", "M2.5 4h11M2.5 8h11M2.5 12h7"],
  ["run", "Run", "M3 8h3M10 4h3M10 12h3M6 8c3 0 1-4 4-4M6 8c3 0 1 4 4 4"],
  ["workers", "Workers", "M3 3h10v4H3zM3 9h10v4H3zM5.5 5h.01M5.5 11h.01"],
  ["decisions", "Decisions", "M8 2v4M8 6 3.5 10M8 6l4.5 4M3.5 10v3.5M12.5 10v3.5"],
  ["whatif", "What if", "M3 13V6a3 3 0 0 1 3-3h4a3 3 0 0 1 3 3M13 6l-2-2m2 2 2-2M8 13h5"],
];

const THEME = "rota.theme";
const theme = signal(localStorage.getItem(THEME) ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
effect(() => {
  document.documentElement.dataset["theme"] = theme.value;
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (e) => {
  if (localStorage.getItem(THEME) === null) theme.value = e.matches ? "dark" : "light";
});

const Brand = () => (
  <div class="brand">
    <svg viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="var(--accent)" />
      <path d="M8 9h10M8 16h16M8 23h7" stroke="var(--on-accent)" stroke-width="3.4" stroke-linecap="round" />
    </svg>
    Rota
  </div>
);

function SignIn() {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  return (
    <main class="door">
      <form class="card" onSubmit={(e) => {
        e.preventDefault();
        const value = input.current!.value.trim();
        if (value !== "") signIn(value);
      }}>
        <Brand />
        <h1>Enter a token</h1>
        {tokenProblem.value !== "" && <p class="bad" role="alert">{tokenProblem.value}</p>}
        <label>
          <span class="sr">Token</span>
          <input ref={input} type="password" autocomplete="off" placeholder="rota_…" aria-describedby="token-help" />
        </label>
        <button class="primary" type="submit">Open the dashboard</button>
        <div id="token-help">
          <small>The first start of the host wrote one into its state folder. It stays in this tab and is forgotten when you close it.</small>
          <pre>cat STATE/admin.token</pre>
        </div>
      </form>
    </main>
  );
}

function Nav() {
  const { view } = place.value;
  const state = link.value;
  return (
    <nav class="nav" aria-label="Views">
      <Brand />
      {VIEWS.map(([name, text, path]) => (
        <a key={name} href={name === "run" && lastRun.value !== "" ? href("run", lastRun.value) : href(name)} aria-current={view === name ? "page" : undefined}>
          <svg viewBox="0 0 16 16" aria-hidden="true"><path d={path} /></svg>
          {text}
        </a>
      ))}
      <div class="grow" />
      <div class={`link-state extra ${state}`} role="status" title={linkWhy.value}>
        <i />
        {isReadOnly.value ? "A finished log" : state === "live" ? "Connected" : state === "lost" ? "Reconnecting" : "Connecting"}
      </div>
      <div class="row extra">
        <button class="quiet" onClick={() => {
          theme.value = theme.value === "dark" ? "light" : "dark";
          localStorage.setItem(THEME, theme.value);
        }}>{theme.value === "dark" ? "Light" : "Dark"}</button>
        <button class="quiet" onClick={() => signOut()}>Sign out</button>
      </div>
    </nav>
  );
}

const lastRun = signal("");

function View() {
  const { view, id } = place.value;
  useEffect(() => {
    if (view === "run" && id !== "") lastRun.value = id;
  }, [view, id]);
  switch (view) {
    case "now": return <Now />;
    case "workflows": return <Workflows />;
    case "run": return <Run key={id} id={id} />;
    case "workers": return <Workers />;
    case "decisions": return <Decisions />;
    case "whatif": return <WhatIf />;
    default: return <Empty title="There is no such view"><a href={href("now")}>Go to Now</a></Empty>;
  }
}

function App() {
  const signedIn = token.value !== "";
  useEffect(() => {
    if (!signedIn) return;
    getNow<Version & { read_only?: boolean }>("/v1/version").then((v) => {
      first.value = v.first_index;
      isReadOnly.value = v.read_only === true;
      if (v.index > head.peek()) head.value = v.index;
    }, () => {});
    return startStream();
  }, [signedIn]);
  const { view, id } = place.value;
  useEffect(() => {
    const name = VIEWS.find(([v]) => v === view)?.[1] ?? "";
    document.title = `${id || name} · Rota`;
  }, [view, id]);
  if (!signedIn) return <SignIn />;
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={(e) => (e.preventDefault(), document.getElementById("main")?.focus())}>Skip to the content</a>
      <Nav />
      <main class="main" id="main" tabIndex={-1}>
        {link.value === "lost" && (
          <div class="banner" role="alert">The connection to the host is lost: {linkWhy.value}. What you see may be old; trying again.</div>
        )}
        {!isLive.value && link.value !== "lost" && (
          <div class="banner past" role="status">
            You see the state after record {at.value?.toLocaleString("en")}. <button class="link" onClick={() => goTo(null)}>Go live</button>
          </div>
        )}
        <View />
      </main>
      <CursorBar />
      <div class="toasts" role="status" aria-live="polite">
        {toasts.value.map((t) => <div key={t.id} class={`toast ${t.kind}`}>{t.text}</div>)}
      </div>
      <QuestionDialog />
    </div>
  );
}

render(<App />, document.getElementById("app")!);
