// What the two canvases share: size, colours of the theme, and drawing once per frame.
import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { STATES } from "./types";

export type Colors = Record<string, string>;
const NAMES = ["bg", "surface", "raised", "sunken", "line", "line-strong", "text", "soft", "accent", "accent-soft", "bad",
  ...STATES.map((s) => "c-" + s), ...STATES.map((s) => "t-" + s)];
let colors: Colors | null = null;
let colorsOf = "";
export function themeColors(): Colors {
  const theme = document.documentElement.dataset["theme"] ?? "";
  if (colors && colorsOf === theme) return colors;
  const style = getComputedStyle(document.documentElement);
  colors = Object.fromEntries(NAMES.map((n) => [n, style.getPropertyValue("--" + n).trim()]));
  colorsOf = theme;
  return colors;
}

export type Frame = { c: CanvasRenderingContext2D; w: number; h: number; ratio: number; colors: Colors };
// Times of the last frames, for the measurement of P-21.
export const frameTimes: number[] = [];
(globalThis as Record<string, unknown>)["rotaFrameTimes"] = frameTimes;

// Returns the canvas' reference, and a function that asks for a new drawing.
export function useCanvas(draw: (frame: Frame) => void) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const latest = useRef(draw);
  latest.current = draw;
  const asked = useRef(0);
  const ask = useRef(() => {
    if (asked.current !== 0) return;
    asked.current = requestAnimationFrame(() => {
      asked.current = 0;
      const element = canvas.current;
      if (!element) return;
      const ratio = Math.min(devicePixelRatio || 1, 2);
      const w = element.clientWidth;
      const h = element.clientHeight;
      if (w === 0 || h === 0) return;
      if (element.width !== Math.round(w * ratio) || element.height !== Math.round(h * ratio)) {
        element.width = Math.round(w * ratio);
        element.height = Math.round(h * ratio);
      }
      const begun = performance.now();
      const c = element.getContext("2d")!;
      c.setTransform(ratio, 0, 0, ratio, 0, 0);
      c.clearRect(0, 0, w, h);
      latest.current({ c, w, h, ratio, colors: themeColors() });
      frameTimes.push(performance.now() - begun);
      if (frameTimes.length > 600) frameTimes.splice(0, 300);
    });
  }).current;
  useEffect(() => {
    const watch = new ResizeObserver(ask);
    if (canvas.current) watch.observe(canvas.current);
    const theme = new MutationObserver(ask);
    theme.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    return () => {
      watch.disconnect();
      theme.disconnect();
      cancelAnimationFrame(asked.current);
      asked.current = 0;
    };
  }, []);
  useEffect(ask);
  return { canvas, ask };
}

// Listens on an element while its component is shown. The handlers of the last rendering are called.
export type Gestures = {
  down: (e: PointerEvent) => void; move: (e: PointerEvent) => void; up: (e: PointerEvent) => void;
  leave: () => void; twice: (e: MouseEvent) => void; wheel: (e: WheelEvent) => void;
};
export function useGestures(element: RefObject<HTMLElement>, gestures: Gestures): void {
  const latest = useRef(gestures);
  latest.current = gestures;
  useEffect(() => {
    const target = element.current!;
    const stop = new AbortController();
    const on = <K extends keyof HTMLElementEventMap>(name: K, handle: (e: HTMLElementEventMap[K]) => void, passive = true) =>
      target.addEventListener(name, handle, { signal: stop.signal, passive });
    on("pointerdown", (e) => latest.current.down(e));
    on("pointermove", (e) => latest.current.move(e));
    on("pointerup", (e) => latest.current.up(e));
    on("pointercancel", (e) => latest.current.up(e));
    on("pointerleave", () => latest.current.leave());
    on("dblclick", (e) => latest.current.twice(e));
    on("wheel", (e) => latest.current.wheel(e), false);
    return () => stop.abort();
  }, []);
}
// The factor of a turn of the wheel, and the position of a pointer within an element.
export const wheelFactor = (e: WheelEvent): number => Math.exp(e.deltaY * (e.deltaMode === 1 ? 0.05 : 0.0015));
export function positionIn(element: Element, e: MouseEvent): [number, number] {
  const box = element.getBoundingClientRect();
  return [e.clientX - box.left, e.clientY - box.top];
}

export function roundRect(c: CanvasRenderingContext2D, x: number, y: number, w: number, h: number, r: number): void {
  c.beginPath();
  c.roundRect(x, y, w, h, Math.min(r, w / 2, h / 2));
}

const widths = new Map<string, number>();
// As much of the text as fits, with its end.
export function fitText(c: CanvasRenderingContext2D, text: string, most: number): string {
  const measure = (t: string) => {
    const key = c.font + t;
    let w = widths.get(key);
    if (w === undefined) {
      if (widths.size > 5000) widths.clear();
      w = c.measureText(t).width;
      widths.set(key, w);
    }
    return w;
  };
  const letters = Array.from(text.slice(0, 300));
  if (text.length <= 300 && measure(text) <= most) return text;
  let low = 0;
  let high = letters.length;
  const cut = (n: number) => letters.slice(0, Math.ceil(n / 2)).join("") + "…" + (n > 1 ? letters.slice(-Math.floor(n / 2)).join("") : "");
  while (low < high) {
    const mid = (low + high + 1) >> 1;
    if (measure(cut(mid)) <= most) low = mid;
    else high = mid - 1;
  }
  return low > 0 ? cut(low) : "";
}
