// A layered layout: columns by longest path, rows by the mean position of neighbours (barycentre).
//
// Cost: O(sweeps * (nodes + edges) * log). Typed arrays, no recursion, no object per node. Stages of a workflow form a DAG;
// an edge that would close a cycle cannot occur, and would be ignored.

export type LayoutInput = {
  // The needs of node i are from[edge] for start[i] <= edge < start[i + 1].
  start: Uint32Array;
  from: Uint32Array;
  width: Float32Array;
  height: Float32Array;
};
export type LayoutResult = { x: Float32Array; y: Float32Array; rank: Uint32Array; w: number; h: number };

const SWEEPS = 8;
export const GAP_X = 36;
export const GAP_Y = 16;

export function layout(input: LayoutInput): LayoutResult {
  const { start, from, width, height } = input;
  const n = width.length;
  const rank = new Uint32Array(n);
  // Successors, as a second pair of arrays.
  const outStart = new Uint32Array(n + 1);
  for (const parent of from) ++outStart[parent + 1]!;
  for (let i = 0; i < n; ++i) outStart[i + 1]! += outStart[i]!;
  const outTo = new Uint32Array(from.length);
  const fill = outStart.slice();
  const open = new Uint32Array(n);
  for (let i = 0; i < n; ++i) {
    for (let e = start[i]!; e < start[i + 1]!; ++e) outTo[fill[from[e]!]!++] = i;
    open[i] = start[i + 1]! - start[i]!;
  }
  const order = new Uint32Array(n);
  let known = 0;
  for (let i = 0; i < n; ++i) if (open[i] === 0) order[known++] = i;
  for (let at = 0; at < known; ++at) {
    const node = order[at]!;
    for (let e = outStart[node]!; e < outStart[node + 1]!; ++e) {
      const child = outTo[e]!;
      rank[child] = Math.max(rank[child]!, rank[node]! + 1);
      if (--open[child]! === 0) order[known++] = child;
    }
  }

  // Columns, in the order of the file.
  let ranks = 0;
  for (let i = 0; i < n; ++i) ranks = Math.max(ranks, rank[i]! + 1);
  const columns: number[][] = Array.from({ length: ranks }, () => []);
  for (let i = 0; i < n; ++i) columns[rank[i]!]!.push(i);
  const position = new Float32Array(n);
  for (const column of columns) column.forEach((node, i) => (position[node] = column.length > 1 ? i / (column.length - 1) : 0.5));

  // Order within columns.
  const key = new Float32Array(n);
  for (let sweep = 0; sweep < SWEEPS; ++sweep) {
    const forward = sweep % 2 === 0;
    for (let c = 0; c < ranks; ++c) {
      const column = columns[forward ? c : ranks - 1 - c]!;
      for (const node of column) {
        let sum = 0;
        let count = 0;
        const begin = forward ? start[node]! : outStart[node]!;
        const end = forward ? start[node + 1]! : outStart[node + 1]!;
        for (let e = begin; e < end; ++e) {
          sum += position[forward ? from[e]! : outTo[e]!]!;
          ++count;
        }
        key[node] = count > 0 ? sum / count : position[node]!;
      }
      column.sort((a, b) => key[a]! - key[b]! || a - b);
      column.forEach((node, i) => (position[node] = column.length > 1 ? i / (column.length - 1) : 0.5));
    }
  }

  // Coordinates: columns from left to right, nodes from top to bottom; then each node moves towards its parents as far as
  // its neighbours in the column allow.
  const x = new Float32Array(n);
  const y = new Float32Array(n);
  let left = 0;
  let tallest = 0;
  const heights = columns.map((column) => column.reduce((sum, node) => sum + height[node]! + GAP_Y, -GAP_Y));
  for (const h of heights) tallest = Math.max(tallest, h);
  columns.forEach((column, c) => {
    let wide = 0;
    let top = (tallest - heights[c]!) / 2;
    for (const node of column) {
      x[node] = left;
      y[node] = top;
      top += height[node]! + GAP_Y;
      wide = Math.max(wide, width[node]!);
    }
    left += wide + GAP_X;
  });
  const centre = (node: number) => y[node]! + height[node]! / 2;
  for (let pass = 0; pass < 4; ++pass) {
    for (let c = 0; c < ranks; ++c) {
      const column = columns[pass % 2 === 0 ? c : ranks - 1 - c]!;
      let limit = -Infinity;
      for (const node of column) {
        let sum = 0;
        let count = 0;
        for (let e = start[node]!; e < start[node + 1]!; ++e, ++count) sum += centre(from[e]!);
        for (let e = outStart[node]!; e < outStart[node + 1]!; ++e, ++count) sum += centre(outTo[e]!);
        const wanted = count > 0 ? sum / count - height[node]! / 2 : y[node]!;
        y[node] = Math.max(wanted, limit);
        limit = y[node]! + height[node]! + GAP_Y;
      }
    }
  }
  let top = Infinity;
  let bottom = 0;
  for (let i = 0; i < n; ++i) top = Math.min(top, y[i]!);
  for (let i = 0; i < n; ++i) {
    y[i]! -= top;
    bottom = Math.max(bottom, y[i]! + height[i]!);
  }
  return { x, y, rank, w: Math.max(0, left - GAP_X), h: bottom };
}
