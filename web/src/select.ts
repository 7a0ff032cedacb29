// What is selected in a run: one selection, which graph, timeline, table and panel share. It is part of the URL.
import { computed, signal } from "@preact/signals";
import { place, setQuery } from "./store";

// Only what has the form of an id: it becomes a part of paths, and a link may contain anything.
export const selectedTask = computed(() => {
  const id = place.value.query.get("task") ?? "";
  return /^wf-\d+\.\d+$/.test(id) ? id : "";
});
export const selectedStage = computed(() => place.value.query.get("stage") ?? "");
export const hovered = signal<number | null>(null); // A stage, by its position.

export function selectTask(id: string): void {
  setQuery({ task: selectedTask.peek() === id ? "" : id });
}
export function selectStage(name: string): void {
  setQuery({ stage: selectedStage.peek() === name ? "" : name });
}
export const numberOf = (task: string): number => Number(task.slice(task.lastIndexOf(".") + 1));
