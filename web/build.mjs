// Builds the dashboard: src/ -> page/*.gz, which the program embeds (src/host/page_files.cc).
//
//   node build.mjs           writes page/
//   node build.mjs --check   builds, compares with page/ and writes nothing; exit status 1 if they differ
//
// The output depends on the source and on the locked versions of the packages alone. The files are compared after they are
// unpacked, because two versions of zlib may compress differently.
import { build } from "esbuild";
import { readFileSync, writeFileSync, mkdirSync, existsSync } from "node:fs";
import { gunzipSync, gzipSync } from "node:zlib";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const common = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  write: false,
  target: ["es2022"],
  legalComments: "none",
  charset: "utf8",
  logLevel: "warning",
};

async function one(entry, extra = {}) {
  const result = await build({ ...common, entryPoints: [entry], ...extra });
  return Buffer.from(result.outputFiles[0].contents);
}

const files = {
  "index.html": readFileSync(join(here, "src/index.html")),
  "app.js": await one("src/main.tsx", { format: "esm", jsx: "automatic", jsxImportSource: "preact" }),
  "app.css": await one("src/app.css"),
  "layout.js": await one("src/layout_worker.ts", { format: "iife" }),
};

let total = 0;
const different = [];
for (const [name, bytes] of Object.entries(files)) {
  const packed = gzipSync(bytes, { level: 9 });
  total += packed.length;
  const path = join(here, "page", name + ".gz");
  const same = existsSync(path) && gunzipSync(readFileSync(path)).equals(bytes);
  if (!same) different.push(name);
  if (process.argv.includes("--check") || same) continue;
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, packed);
}
console.log(JSON.stringify({ gzip_bytes: total, different }));
if (process.argv.includes("--check") && different.length > 0) {
  console.error(`web/page is not what web/src builds: ${different.join(", ")} differ; run 'npm run build' in web/`);
  process.exit(1);
}
