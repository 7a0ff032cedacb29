// Computes layouts beside the page, so that it never stands still.
import { layout, type LayoutInput } from "./layout";

self.onmessage = (event: MessageEvent<{ id: number; input: LayoutInput }>) => {
  const result = layout(event.data.input);
  self.postMessage({ id: event.data.id, result });
};
