// A list that the host gives page by page, with a selection of its items: what the tables of workflows and tasks share.
import { useEffect, useState } from "preact/hooks";
import { get, pathOf } from "./api";
import { useData, type Data } from "./data";
import { count } from "./format";
import type { Page } from "./types";

export type Paged<T> = Data<Page<T>> & {
  items: T[];
  chosen: ReadonlySet<string>;
  toggle: (id: string) => void;
  all: boolean; // Every item is selected.
  toggleAll: () => void;
  more: (() => Promise<void>) | null; // Loads the next page; null: there is none.
};

// The first page follows the host; the pages after it are read once, when the user asks for them.
export function usePaged<T extends { id: string }>(path: string, query: Record<string, string | number | undefined>, keep: (item: T) => boolean = () => true): Paged<T> {
  const first = pathOf(path, query);
  const data = useData<Page<T>>(first, { final: () => true });
  const [rest, setRest] = useState<T[]>([]);
  const [cursor, setCursor] = useState<string | null>(null); // Of the page after `rest`; "": there is none.
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => {
    setRest([]);
    setCursor(null);
    setChosen(new Set());
  }, [first]);
  const items = data.value ? [...data.value.items, ...rest].filter(keep) : [];
  const next = cursor ?? data.value?.next_cursor ?? "";
  const all = items.length > 0 && items.every((item) => chosen.has(item.id));
  return {
    ...data, items, chosen, all,
    toggle: (id) => {
      const set = new Set(chosen);
      if (!set.delete(id)) set.add(id);
      setChosen(set);
    },
    toggleAll: () => setChosen(all ? new Set() : new Set(items.map((item) => item.id))),
    more: next === "" ? null : async () => {
      const page = await get<Page<T>>(pathOf(path, { ...query, cursor: next }));
      setRest([...rest, ...page.items]);
      setCursor(page.next_cursor ?? "");
    },
  };
}

export const SelectAll = ({ list }: { list: Paged<{ id: string }> }) => (
  <input type="checkbox" aria-label="Select all" checked={list.all} onChange={list.toggleAll} />
);
export const SelectOne = ({ list, id }: { list: Paged<{ id: string }>; id: string }) => (
  <input type="checkbox" aria-label={`Select ${id}`} checked={list.chosen.has(id)} onChange={() => list.toggle(id)} />
);
export const ShowMore = ({ list }: { list: Paged<{ id: string }> }) =>
  list.value && list.more ? <div class="pad"><button onClick={list.more}>Show more</button></div> : null;
export function ListTitle({ list, kind }: { list: Paged<{ id: string }>; kind: string }) {
  const chosen = list.items.filter((item) => list.chosen.has(item.id)).length;
  const text = chosen > 0 ? `${chosen} selected` : list.value ? `${count(list.items.length)}${list.more ? "+" : ""} ${kind}${list.items.length === 1 ? "" : "s"}` : `${kind}s`;
  return <h2 aria-live="polite" class="capital">{text}</h2>;
}
