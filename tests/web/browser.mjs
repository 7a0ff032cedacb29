// Drives the dashboard in a real browser: node browser.mjs SCENARIO, with BASE (the host's address), TOKEN and more in the
// environment. It prints one line of JSON with what was measured. A failed check is an exception: exit status 1.
//
// The checks read what a user or a screen reader gets: roles, names and text; of a canvas, the table that mirrors it.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync, mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { dirname, join } from "node:path";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const require = createRequire(join(root, "web", "package.json"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const { BASE = "", TOKEN = "", WORKFLOW = "wf-1" } = process.env;
const facts = {};
// Limits cost time only when something fails: they are for a machine that is busy with other things.
const LIMIT_MS = 180_000;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium-headless-shell", args: ["--no-sandbox"], timeout: LIMIT_MS });
process.on("exit", () => browser.close().catch(() => {}));

async function context(options = {}) {
  const made = await browser.newContext({ viewport: { width: 1360, height: 900 }, ...options });
  made.setDefaultTimeout(LIMIT_MS);
  await made.grantPermissions(["clipboard-read", "clipboard-write"], { origin: BASE }).catch(() => {});
  return made;
}
// Everything that a page complains about is a failure, unless the test expects it.
async function page(where, { token = TOKEN, expect = () => false, options = {}, within } = {}) {
  const opened = await (within ?? (await context(options))).newPage();
  opened.complaints = [];
  opened.on("console", (m) => m.type() === "error" && !expect(m.text()) && opened.complaints.push(m.text()));
  opened.on("pageerror", (e) => opened.complaints.push(e.message));
  opened.on("request", (r) => !r.url().startsWith(BASE) && !r.url().startsWith("data:") && opened.complaints.push("loads " + r.url()));
  opened.on("dialog", (d) => (opened.complaints.push("a script ran: " + d.message()), d.dismiss()));
  await opened.goto(`${BASE}/${token ? `#token=${token}&${where}` : `#${where}`}`);
  return opened;
}
// A host without the routes of the view Decisions answers 404, and the page reads the log instead.
const without = (text) => text.includes("404");
const quiet = (p) => assert.deepEqual(p.complaints, []);
async function accessible(p, what) {
  await p.evaluate(axe);
  const found = await p.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  assert.deepEqual(found.violations.map((v) => `${what}: ${v.id}: ${v.nodes[0]?.html.slice(0, 200)}`), []);
}
// Until the page has drawn what the last event changed.
const drawn = (p) => p.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
const shows = (p, text) => p.getByText(text).first().waitFor();
const rows = (p, name) => p.getByRole("table", { name }).locator("tbody tr");

const scenarios = {
  // W-1: without a token the page asks for one; a wrong one is refused with a reason; the right one opens the page and stays
  // out of the address.
  async token() {
    const p = await page("/now", { token: "", expect: (t) => t.includes("401") });
    await p.getByPlaceholder("rota_…").fill("rota_wrong_0000");
    await p.getByRole("button", { name: "Open the dashboard" }).click();
    await shows(p, "The host does not accept this token");
    await accessible(p, "token");
    await p.getByPlaceholder("rota_…").fill(TOKEN);
    await p.keyboard.press("Enter");
    await p.getByRole("heading", { name: "Now", exact: true }).waitFor();
    assert.ok(!p.url().includes(TOKEN));
    quiet(p);
  },
  // W-1: the six views, each without findings of axe, in light and dark, and at the size of a phone without a horizontal bar.
  async views() {
    for (const options of [{ colorScheme: "light" }, { colorScheme: "dark" }, { viewport: { width: 390, height: 844 } }]) {
      const p = await page("/now", { options, expect: without });
      for (const [link, heading] of [["Now", "Now"], ["Workflows", "Workflows"], ["Run", "Run"], ["Workers", "Workers"], ["Decisions", "Decisions"], ["What if", "What if"]]) {
        await p.getByRole("navigation", { name: "Views" }).getByRole("link", { name: link, exact: true }).click();
        await p.getByRole("heading", { name: heading, level: 1, exact: true }).waitFor();
        await p.locator("[aria-busy=true]").first().waitFor({ state: "detached" });
        await accessible(p, `${heading} ${JSON.stringify(options)}`);
        assert.equal(await p.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, `${heading} is too wide`);
      }
      await p.goto(`${BASE}/#/run/${WORKFLOW}`);
      await p.getByRole("table", { name: "Stages" }).waitFor({ state: "attached" });
      await accessible(p, `run ${JSON.stringify(options)}`);
      quiet(p);
      await p.context().close();
    }
  },
  // W-1: a sentence says why a task waits, who is ahead and what could run it; the same at a past moment.
  async why() {
    const p = await page(`/run/${WORKFLOW}?task=${process.env.WAITING}`);
    const sentence = p.locator("[data-reason]");
    await sentence.waitFor();
    const now = await sentence.textContent();
    assert.match(now, /waits for|is placed with/);
    assert.equal(await sentence.getAttribute("data-reason"), "no_room");
    await shows(p, "Workers that could run it");
    await shows(p, "Ahead of it");
    await p.getByRole("button", { name: /Copy as command: rota explain/ }).click();
    await shows(p, /^Copied: rota explain/);
    facts.sentence = now;
    // The past: before the first stage had succeeded, it waited for that.
    await p.goto(`${BASE}/#/run/${WORKFLOW}?task=${process.env.WAITING}&at=${process.env.EARLY}`);
    await p.locator('[data-reason="needs"]').waitFor();
    await shows(p, "You see the state after record");
    assert.ok(await p.getByRole("button", { name: "Pause" }).first().isDisabled(), "the past cannot be changed");
    await p.getByRole("button", { name: "Live", exact: true }).click();
    await p.locator('[data-reason="no_room"]').waitFor();
    quiet(p);
  },
  // W-1: the bar scrubs, steps and plays; every view shows that moment.
  async cursor() {
    const p = await page(`/run/${WORKFLOW}`);
    await rows(p, "Stages").first().waitFor({ state: "attached" });
    const bar = p.getByRole("slider", { name: "Record of the log" });
    await bar.fill(process.env.EARLY);
    await shows(p, "You see the state after record");
    await p.waitForFunction(() => [...document.querySelectorAll('table[aria-label="Stages"] td')].some((d) => /queued/.test(d.textContent)));
    await p.keyboard.press("]");
    await p.waitForURL(new RegExp(`at=${Number(process.env.EARLY) + 1}$`));
    await p.getByRole("navigation").getByRole("link", { name: "Now" }).click();
    await p.waitForURL(/#\/now\?at=/);
    await p.getByRole("button", { name: "Play the log" }).click();
    await p.waitForURL((u) => Number(new URLSearchParams(u.hash.split("?")[1]).get("at")) > Number(process.env.EARLY) + 1);
    await p.getByRole("button", { name: "Stop playing the log" }).click();
    await p.keyboard.press("l");
    await p.waitForURL((u) => !u.hash.includes("at="));
    quiet(p);
  },
  // W-1: one selection in graph, timeline, table and panel; stage filter; critical path; failed only with attempts.
  async selection() {
    const p = await page(`/run/${WORKFLOW}`);
    await p.getByRole("table", { name: "Stages" }).getByRole("button", { name: "bad" }).dispatchEvent("click");
    await p.getByRole("complementary").waitFor();
    assert.match(p.url(), /task=/);
    await p.getByRole("tab", { name: "Attempts" }).click();
    await shows(p, "Attempt 2");
    await shows(p, "Attempt 1");
    await p.getByRole("tab", { name: "Result" }).click();
    await p.keyboard.press("Escape");
    await p.getByRole("complementary").waitFor({ state: "detached" });
    await p.getByRole("button", { name: "Critical path" }).click();
    await p.getByRole("cell", { name: "on the critical path" }).first().waitFor({ state: "attached" });
    await p.getByRole("button", { name: "Failed only" }).click();
    const table = p.getByRole("region", { name: "Tasks" });
    await table.getByRole("button", { name: "bad", exact: true }).waitFor();
    assert.equal(await table.locator("tbody tr").count(), 1);
    await p.getByRole("button", { name: "Failed only" }).click();
    await p.getByRole("table", { name: "Stages" }).getByRole("button", { name: "many", exact: true }).dispatchEvent("click");
    await table.getByRole("button", { name: /Show all stages/ }).waitFor();
    await p.getByRole("button", { name: "By worker" }).click();
    await p.getByRole("table", { name: "Tasks over time" }).getByText("local").first().waitFor({ state: "attached" });
    // By keyboard: the graph has the focus, arrow keys move, Enter opens.
    await p.getByRole("group", { name: /^Graph of the stages/ }).focus();
    await p.keyboard.press("ArrowRight");
    await p.keyboard.press("+");
    await p.keyboard.press("0");
    quiet(p);
  },
  // W-1: pointing at a stage shows its ancestors and descendants; a double click opens it to its tasks and closes it again; in
  // the timeline the wheel zooms, a drag moves, shift and drag select a range; waits have their reasons, also past ones.
  async gestures() {
    const p = await page(`/run/${WORKFLOW}`);
    const graph = p.getByRole("group", { name: /^Graph of the stages/ });
    const stages = rows(p, "Stages");
    await stages.first().waitFor({ state: "attached" });
    const box = await graph.boundingBox();
    const lineage = p.getByRole("cell", { name: "in the lineage" });
    // Somewhere on the middle line is a stage: the layout is not a promise.
    let found = 0;
    for (let x = 20; x < box.width && found < 2; x += 12) {
      await p.mouse.move(box.x + x, box.y + box.height / 2);
      await drawn(p);
      found = await lineage.count();
    }
    assert.ok(found >= 2, "a stage and at least one that it needs or that needs it");
    await p.mouse.move(box.x + 2, box.y + 2);
    await lineage.first().waitFor({ state: "detached" });
    await graph.focus();
    for (let i = 0; i < 6 && !p.url().includes("stage=many"); ++i) {
      await p.keyboard.press(i === 0 ? "ArrowRight" : i % 2 ? "ArrowDown" : "ArrowRight");
      await drawn(p); // The address follows the key.
    }
    if (!p.url().includes("stage=many")) await p.getByRole("table", { name: "Stages" }).getByRole("button", { name: "many", exact: true }).dispatchEvent("click");
    await p.waitForURL(/stage=many/);
    const many = p.locator('table[aria-label="Stages"] tr[data-stage="many"] td').nth(2);
    const was = (await many.textContent()).includes("open");
    for (const open of [!was, was]) {
      await graph.focus();
      await p.keyboard.press("Enter");
      await p.waitForFunction((want) => document.querySelector('table[aria-label="Stages"] tr[data-stage="many"]').children[2].textContent.includes("open") === want, open);
    }
    assert.match(await p.locator('table[aria-label="Stages"] tr[data-stage="many"] td').nth(3).textContent(), /running.*|ready/);

    const timeline = p.getByRole("group", { name: /^Timeline/ });
    await timeline.scrollIntoViewIfNeeded();
    const area = await timeline.boundingBox();
    const all = p.getByRole("button", { name: "Show all", exact: true });
    const middle = [area.x + area.width / 2, area.y + 30];
    await p.mouse.move(...middle);
    await p.mouse.wheel(0, -400);
    await all.waitFor();
    await p.mouse.down();
    await p.mouse.move(middle[0] + 80, middle[1], { steps: 4 });
    await p.mouse.up();
    await all.click();
    await all.waitFor({ state: "detached" });
    await p.keyboard.down("Shift");
    await p.mouse.move(...middle);
    await p.mouse.down();
    await p.mouse.move(middle[0] + 120, middle[1], { steps: 4 });
    await p.mouse.up();
    await p.keyboard.up("Shift");
    await all.waitFor();
    await timeline.focus();
    await p.keyboard.press("0");
    await all.waitFor({ state: "detached" });

    const waits = rows(p, "Waits by reason");
    await waits.filter({ hasText: "many" }).filter({ hasText: "room on a worker" }).waitFor({ state: "attached" });
    await waits.filter({ hasText: "last" }).filter({ hasText: /stages?/ }).first().waitFor({ state: "attached" });
    await p.goto(`${BASE}/#/run/${WORKFLOW}?at=${process.env.EARLY}`);
    await waits.filter({ hasText: "room on a worker" }).first().waitFor({ state: "detached" });
    await waits.filter({ hasText: "many" }).first().waitFor({ state: "attached" });
    quiet(p);
  },
  // W-1: density, now and in the past: the curve covers the log, and a click on it goes to that moment.
  async density() {
    const p = await page("/now");
    const table = rows(p, "Density");
    await table.filter({ hasText: "Running" }).waitFor({ state: "attached" });
    await table.filter({ hasText: "Waiting for room on a worker" }).waitFor({ state: "attached" });
    const curve = p.getByRole("region", { name: "Density" }).locator(".u-over").first();
    await curve.scrollIntoViewIfNeeded();
    const box = await curve.boundingBox();
    await p.mouse.move(box.x + box.width / 3, box.y + box.height / 2);
    await p.mouse.down();
    await p.mouse.up();
    await p.waitForURL(/at=\d+/);
    await table.filter({ hasText: "Running" }).waitFor({ state: "attached" });
    await accessible(p, "density");
    quiet(p);
  },
  // W-1: what is clicked answers: the card of what needs a person, a priority with its record, a result digit for digit, and
  // commands that exist. A view that is live is read again although the log stands still.
  async answers() {
    const p = await page("/now");
    await p.getByRole("link", { name: /^Needs you/ }).click();
    await p.getByRole("heading", { name: "Needs a person" }).waitFor();
    assert.equal(await p.getByText("There is no such view").count(), 0);
    const q = await page(`/run/${process.env.WORKFLOW}?task=${process.env.WAITING}`);
    await q.getByLabel("Priority").selectOption("-10"); // Others stay ahead of it, for other tests.
    await shows(q, /^priority of .*: -10, in the log at record \d+$/);
    await q.getByRole("button", { name: `Copy as command: rota watch ${process.env.WORKFLOW}` }).first().waitFor();
    const sentence = q.locator(".sentence");
    const before = await sentence.textContent();
    while ((await sentence.textContent()) === before) await drawn(q);
    const r = await page(`/run/${process.env.DIGITS}?task=${process.env.DIGITS}.0`);
    await r.getByRole("tab", { name: "Result" }).click();
    await shows(r, "12345678901234567890");
    await shows(r, "1e-4");
    quiet(p), quiet(q), quiet(r);
  },
  // W-1: what another fleet would have done: more workers of a kind, other hardware, one worker less.
  async fleet() {
    const p = await page("/whatif");
    const workers = p.getByRole("table", { name: "Workers of the other fleet" });
    await workers.getByLabel(/^Count of/).first().fill("4");
    await p.getByRole("button", { name: "Compute" }).click();
    const figures = p.getByRole("table", { name: "Figures" });
    await p.getByRole("columnheader", { name: "The other fleet" }).waitFor();
    // Whether it is better depends on when the other tests submitted their work.
    await figures.getByRole("row", { name: /^Makespan/ }).waitFor();
    await p.getByRole("button", { name: /^Copy as command: rota replay --fleet 'worker=.*count=4'/ }).waitFor();
    await workers.getByRole("button", { name: "One more" }).click();
    await workers.getByLabel(/^Cores of .*another kind/).fill("64");
    await p.getByRole("button", { name: "Compute" }).click();
    await p.getByRole("button", { name: /cpu_millis=64000/ }).waitFor();
    await workers.getByRole("button", { name: "Remove" }).click();
    await workers.getByLabel(/^GPUs of/).first().fill("2");
    await p.getByRole("button", { name: "Compute" }).click();
    await p.getByRole("alert").getByText("has no GPU").waitFor(); // The host says why it cannot.
    await accessible(p, "another fleet");
    assert.ok(p.complaints.every((text) => text.includes("400")), p.complaints.join());
  },
  // W-1: everything by keyboard: from the first key to the reason of a wait and back.
  async keyboard() {
    const p = await page("/workflows");
    await p.getByRole("checkbox", { name: `Select ${WORKFLOW}` }).waitFor();
    const focus = async (what, most = 60) => {
      for (let i = 0; i < most; ++i) {
        await p.keyboard.press("Tab");
        const text = await p.evaluate(() => document.activeElement?.textContent?.trim() || document.activeElement?.getAttribute("aria-label") || "");
        const outline = await p.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
        assert.notEqual(outline, "none", `the focus on '${text}' is visible`);
        if (what.test(text)) return;
      }
      assert.fail(`${what} is not reached by Tab`);
    };
    await focus(/^Skip to the content/, 2);
    await p.keyboard.press("Enter");
    assert.equal(await p.evaluate(() => document.activeElement.id), "main");
    await focus(/^main$/);
    await p.keyboard.press("Enter");
    await p.waitForURL(/#\/run\/wf-1/);
    await p.getByRole("region", { name: "Tasks" }).getByRole("button", { name: "last" }).waitFor();
    await focus(/^last$/, 200);
    await p.keyboard.press("Enter");
    await p.locator("[data-reason]").waitFor();
    await p.getByRole("tab", { name: "Why" }).focus();
    await p.keyboard.press("ArrowRight");
    assert.equal(await p.getByRole("tab", { name: "Attempts" }).getAttribute("aria-selected"), "true");
    await p.keyboard.press("Escape");
    await p.getByRole("complementary").waitFor({ state: "detached" });
    await p.keyboard.press("[");
    await p.waitForURL(/at=/);
    await p.keyboard.press("l");
    await p.waitForURL((u) => !u.hash.includes("at="));
    quiet(p);
  },
  // W-1: a page that is zoomed to 200 %, and one without motion: nothing is cut off, no finding of axe.
  async zoomed() {
    const p = await page("/now", { options: { viewport: { width: 640, height: 450 }, deviceScaleFactor: 2, reducedMotion: "reduce" } });
    for (const where of ["/now", "/workflows", `/run/${WORKFLOW}`, "/workers", "/decisions", "/whatif"]) {
      await p.goto(`${BASE}/#${where}`);
      await p.getByRole("heading", { level: 1 }).waitFor();
      await p.locator("[aria-busy=true]").first().waitFor({ state: "detached" });
      assert.equal(await p.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, `${where} is too wide`);
      await accessible(p, `zoomed ${where}`);
    }
    quiet(p);
  },
  // W-1: a clock of the browser that is an hour behind: no negative times, no errors.
  async clock() {
    const p = await page("/now", { token: "" });
    await p.addInitScript(() => {
      const real = Date.now;
      Date.now = () => real() - 3_600_000;
    });
    await p.goto(`${BASE}/#token=${TOKEN}&/run/${WORKFLOW}`);
    await p.reload();
    await p.goto(`${BASE}/#token=${TOKEN}&/run/${WORKFLOW}`);
    await p.getByRole("region", { name: "Tasks" }).locator("tbody tr").first().waitFor();
    assert.doesNotMatch(await p.locator("main").innerText(), /[-−]\d+(\.\d+)? (ms|s|min|h)|NaN/);
    quiet(p);
  },
  // W-1: addresses that nobody should have: each shows a sentence and never an empty page.
  async addresses() {
    const p = await page("/now", { expect: (t) => /40[04]|410/.test(t) });
    for (const where of ["/nowhere", "/run/wf-999999", "/run/%E0%A4%A", "/run/wf-1?task=wf-1.99999999", "/run/wf-1?at=999999999", "/run/<script>", "/workflows?q=%00", "/now?at=0", "/run/wf-1?task=../../v1/tokens"]) {
      await p.goto(`${BASE}/#${where}`);
      await p.waitForFunction(() => document.querySelector("main")?.innerText.trim().length > 20);
      await p.getByRole("navigation", { name: "Views" }).waitFor();
    }
    await p.goto(`${BASE}/#/now`);
    await p.getByRole("heading", { name: "Now", exact: true }).waitFor();
    quiet(p);
  },
  // W-1: pause, resume, cancel and retry, one and many, answered with the log index.
  async control() {
    const p = await page("/workflows");
    await p.getByRole("checkbox", { name: `Select ${process.env.VICTIM}` }).check();
    await p.getByRole("button", { name: "Pause" }).click();
    await shows(p, /^pause: .*record/);
    await p.getByRole("button", { name: "Resume" }).click();
    await shows(p, /^resume: .*record/);
    await p.getByRole("button", { name: "Cancel", exact: true }).click();
    await p.getByRole("dialog").getByRole("button", { name: "Keep" }).click();
    await p.getByRole("button", { name: "Cancel", exact: true }).click();
    await p.getByRole("dialog").getByRole("button", { name: "Cancel it" }).click();
    await shows(p, /^cancel: .*record/);
    await p.getByRole("row", { name: new RegExp(process.env.VICTIM) }).getByText("cancelled").waitFor();
    await p.goto(`${BASE}/#/workers`);
    await p.getByRole("button", { name: "Disable" }).click();
    await shows(p, /^disable: .*record/);
    await p.getByRole("button", { name: "Enable" }).click();
    await shows(p, /^enable: .*record/);
    quiet(p);
  },
  // W-1: what a task writes is followed and searched.
  async logs() {
    const p = await page(`/run/${WORKFLOW}?task=${process.env.TALKER}`);
    await p.getByRole("tab", { name: "Logs" }).click();
    const log = p.getByLabel("Output of the task");
    await log.getByText("line 3").waitFor();
    await p.getByLabel("Find in the output").fill("line 3");
    await p.locator(".log mark").first().waitFor();
    quiet(p);
  },
  // W-1: decisions and what if.
  async decisions() {
    const p = await page("/decisions", { expect: without });
    const feed = p.getByRole("region", { name: "Assignments, the newest first" });
    await feed.getByRole("link", { name: /^wf-/ }).first().waitFor();
    await feed.getByRole("button", { name: "numbers" }).first().click();
    await feed.getByText("throughput").first().waitFor();
    await p.getByRole("navigation").getByRole("link", { name: "What if" }).click();
    await p.getByLabel("Selection of workers").selectOption("first_fit");
    await p.getByRole("button", { name: "Compute" }).click();
    await p.getByRole("table", { name: "Figures" }).getByText("Makespan").waitFor();
    await p.getByRole("columnheader", { name: "The other policy" }).waitFor();
    await accessible(p, "what if");
    quiet(p);
  },
  // W-1: a second tab shares the stream of the first, and takes it over when that closes.
  async tabs() {
    const within = await context();
    const a = await page("/now", { within });
    await a.getByText("Connected").waitFor();
    let streams = 0;
    const b = await within.newPage();
    b.on("request", (r) => (streams += r.url().includes("/v1/events")));
    await b.goto(`${BASE}/#token=${TOKEN}&/now`);
    await b.getByText("Connected").waitFor();
    assert.equal(streams, 0, "the second tab has a stream of its own");
    await a.close();
    await b.waitForRequest((r) => r.url().includes("/v1/events"));
    await b.getByText("Connected").waitFor();
  },
  // W-1: names are text, whatever they contain.
  async hostile() {
    const p = await page("/workflows");
    await p.getByText("<script>alert(1)").first().waitFor();
    await p.goto(`${BASE}/#/run/${process.env.HOSTILE}`);
    await p.getByRole("heading", { level: 1 }).waitFor();
    await p.getByRole("table", { name: "Stages" }).waitFor({ state: "attached" });
    await p.getByRole("region", { name: "Tasks" }).locator("tbody tr").first().waitFor();
    assert.equal(await p.locator("img").count(), 0);
    assert.equal(await p.evaluate(() => document.documentElement.scrollWidth > innerWidth), false);
    await accessible(p, "hostile");
    quiet(p);
  },
  // W-1: the host is restarted while the page is open, and the page continues where it was.
  async restart() {
    const p = await page("/now", { expect: () => true });
    await p.getByText("Connected").waitFor();
    console.log("READY");
    await p.getByText("The connection to the host is lost").waitFor();
    console.log("LOST");
    await p.getByText("Connected").waitFor();
    await p.getByText("The connection to the host is lost").waitFor({ state: "detached" });
  },
  // W-1: a token that is revoked while the page is open leads to the door, with the reason.
  async expired() {
    const p = await page("/now", { expect: () => true });
    await p.getByRole("heading", { name: "Now", exact: true }).waitFor();
    console.log("READY");
    await p.getByText("The host no longer accepts this token").waitFor();
  },
  // P-21: first paint with a run of many tasks, frame time while panning, what was loaded. Reported, not asserted.
  async large() {
    const p = await page(`/run/${WORKFLOW}`);
    await rows(p, "Stages").first().waitFor({ state: "attached" });
    await p.waitForFunction(() => globalThis.rotaFrameTimes?.length > 0);
    facts.first_paint_ms = await p.evaluate(() => Math.round(performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? -1));
    facts.graph_drawn_ms = await p.evaluate(() => Math.round(performance.now()));
    const graph = p.getByRole("group", { name: /^Graph of the stages/ });
    const box = await graph.boundingBox();
    await graph.focus(); // By keyboard: to the large stage, and open it.
    await p.keyboard.press("ArrowRight");
    await p.waitForURL(/stage=first/);
    await p.keyboard.press("ArrowRight");
    await p.waitForURL(/stage=many/);
    await p.keyboard.press("Enter");
    await p.locator('table[aria-label="Stages"] td', { hasText: "open" }).waitFor({ state: "attached" });
    await p.evaluate(() => globalThis.rotaFrameTimes.splice(0));
    await p.mouse.move(box.x + 300, box.y + 100);
    await p.mouse.down();
    // On a busy machine one frame may show several moves: there are more moves until enough frames were drawn.
    const frames = () => p.evaluate(() => globalThis.rotaFrameTimes.length);
    for (let i = 0; i < 60 || (i < 600 && (await frames()) < 10); ++i) {
      await p.mouse.move(box.x + 300 + 5 * (i % 60), box.y + 100 + 2 * (i % 60));
    }
    await p.mouse.up();
    for (let i = 0; i < 10; ++i) await p.mouse.wheel(0, -120);
    await drawn(p);
    const times = (await p.evaluate(() => globalThis.rotaFrameTimes.slice())).sort((a, b) => a - b);
    assert.ok(times.length > 5);
    facts.frames = times.length;
    facts.frame_p50_ms = +times[times.length >> 1].toFixed(2);
    facts.frame_p95_ms = +times[Math.floor(times.length * 0.95)].toFixed(2);
    await p.getByText("added up: zoom in").waitFor();
    // With rasterising, as far as a browser without a screen has it: the time between two frames while the graph moves by
    // itself, in step with the frames.
    const drag = (name) => p.evaluate(async (label) => {
      const element = [...document.querySelectorAll("[role=group]")].find((e) => e.getAttribute("aria-label")?.startsWith(label));
      const box = element.getBoundingClientRect();
      const at = (type, x) => element.dispatchEvent(new PointerEvent(type, { pointerId: 1, button: 0, buttons: 1, bubbles: true, clientX: box.left + 400 + x, clientY: box.top + 60 }));
      element.setPointerCapture = () => {};
      const frame = () => new Promise(requestAnimationFrame);
      at("pointerdown", 0);
      const times = [];
      let before = await frame();
      for (let i = 0; i < 120; ++i) {
        at("pointermove", 200 * Math.sin(i / 10));
        const now = await frame();
        times.push(now - before);
        before = now;
      }
      at("pointerup", 0);
      return times.sort((a, b) => a - b);
    }, name);
    for (const [name, label] of [["timeline", "Timeline"], ["graph", "Graph of the stages"]]) {
      const deltas = await drag(label);
      facts[`${name}_frame_to_frame_p50_ms`] = +deltas[60].toFixed(1);
      facts[`${name}_frame_to_frame_p95_ms`] = +deltas[114].toFixed(1);
    }
    await accessible(p, "large");
    quiet(p);
  },
  // Pictures for docs/dashboard.md: OUT is a folder.
  async pictures() {
    mkdirSync(process.env.OUT, { recursive: true });
    for (const theme of ["light", "dark"]) {
      const p = await page("/now", { options: { colorScheme: theme, viewport: { width: 1280, height: 800 } } });
      const places = { now: "/now", workflows: "/workflows", run: `/run/${WORKFLOW}?task=${process.env.WAITING}`, workers: "/workers", decisions: "/decisions", whatif: "/whatif" };
      for (const [name, where] of Object.entries(places)) {
        await p.goto(`${BASE}/#${where}`);
        await p.locator("[aria-busy=true]").first().waitFor({ state: "detached" });
        if (name === "whatif") {
          await p.getByLabel("Dispatch mode").selectOption("static_worker");
          await p.getByRole("button", { name: "Compute" }).click();
          await p.getByRole("table", { name: "Figures" }).waitFor();
        }
        await p.waitForTimeout(1500);
        await p.screenshot({ path: join(process.env.OUT, `dashboard-${name}-${theme}.png`) });
      }
      await p.context().close();
    }
  },
};

const name = process.argv[2];
if (!scenarios[name]) throw new Error(`there is no scenario '${name}'`);
try {
  await scenarios[name]();
  console.log(JSON.stringify(facts));
} catch (error) {
  console.error(error.stack);
  process.exitCode = 1;
} finally {
  await browser.close();
}
