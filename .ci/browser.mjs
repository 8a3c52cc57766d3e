// What a browser makes of pages that `highwater report -o` wrote: see .ci/browser.
import assert from "node:assert";
import { readFile, stat } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { basename } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const axe = await readFile("node_modules/axe-core/axe.min.js", "utf8");
const views = {
  light: { colorScheme: "light", viewport: { width: 1280, height: 900 } },
  dark: { colorScheme: "dark", viewport: { width: 1280, height: 900 } },
  phone: { colorScheme: "light", viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true },
};
const browser = await chromium.launch({ executablePath: process.env.BROWSER, args: ["--no-sandbox"] });

// A page in one view.
async function look(file, name) {
  const view = views[name];
  const url = pathToFileURL(file).href;
  const kib = Math.ceil((await stat(file)).size / 1024);
  const context = await browser.newContext({ ...view, acceptDownloads: true, bypassCSP: true });
  const page = await context.newPage();
  const wrong = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && wrong.push(message.text()));
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("request", (request) => request.url() !== url && !/^(data|blob):/.test(request.url()) && wrong.push(`asks for ${request.url()}`));
  const began = Date.now();
  await page.goto(url, { waitUntil: "load" });
  const ms = Date.now() - began;
  assert(ms < 3000, `${file}: ${ms} ms until it is there`);

  // The verdict is on the first screen, and nothing is wider than it.
  const heading = await page.locator("#verdict h2").boundingBox();
  assert(heading && heading.y < view.viewport.height, "the verdict is not on the first screen");
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert(wide <= 0, `${name}: the page is ${wide} px wider than the window`);

  // Every drawing and chart has something in it, and its numbers beside it.
  const figures = await page.locator("figure").evaluateAll((all) => all.map((figure) => ({
    drawn: figure.querySelectorAll("svg path, svg rect").length, rows: figure.querySelectorAll("tbody tr").length,
  })));
  assert(figures.every((it) => it.drawn > 0 && it.rows > 0), JSON.stringify(figures));
  const blank = await page.locator("canvas").evaluateAll((all) => all.filter((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return !data.some((value, at) => at % 4 === 3 && value > 0);
  }).length);
  assert.equal(blank, 0, `${blank} empty charts`);
  const charts = await page.locator("canvas").count();
  for (const timeline of await page.locator(".timeline").all()) {
    assert(await timeline.locator("canvas").count() > 0 && await timeline.locator("details tbody tr").count() > 0);
  }

  // By keyboard: the first key leads past the heading.
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");

  const picture = `${process.env.PICTURES}/${basename(file, ".html")}-${name}`;
  await page.screenshot({ path: `${picture}-first.png` });
  const done = async () => {
    assert.deepEqual(wrong, []);
    console.log(`${basename(file)} ${name}: ${kib} KiB, ${ms} ms, ${figures.length} drawings, ${charts} charts`);
    await context.close();
  };
  // Accessible as the page opens. Colours alone differ between light and dark.
  await page.addScriptTag({ content: axe });
  const check = (rules) => page.evaluate((runOnly) => axe.run(document, { runOnly }), rules);
  const said = (result) => result.violations.map((it) => `${it.id}: ${it.nodes.slice(0, 3).map((node) => node.html).join(" | ")}`);
  const all = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], colours = ["color-contrast"];
  assert.deepEqual(said(await check(name === "dark" ? colours : all)), []);
  if (name !== "light") {
    // The document, its buttons and its sliders are the same.
    return done();
  }
  await page.screenshot({ path: `${picture}.png`, fullPage: true });

  const unfold = (isOpen) => page.evaluate((isOpen) => document.querySelectorAll("details").forEach((it) => { it.open = isOpen; }), isOpen);
  await unfold(true);
  assert.deepEqual(said(await check(colours)), []);
  await unfold(false);

  // The theme changes, and charts with it; the other one is as readable.
  const before = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.locator("#theme").click();
  const after = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.notEqual(before, after, "the theme does not change");
  await unfold(true);
  assert.deepEqual(said(await check(all)), []);
  await unfold(false);

  // A table comes as a file.
  const csv = page.locator("#verdict .csv:visible").first();
  if (await csv.count()) {
    const [download] = await Promise.all([page.waitForEvent("download"), csv.press("Enter")]);
    const lines = (await readFile(await download.path(), "utf8")).trimEnd().split("\n");
    const rows = await csv.evaluate((button) => button.closest(".table").querySelectorAll("tr").length);
    assert(download.suggestedFilename().endsWith(".csv") && lines.length === rows, `${lines.length} lines of ${rows} rows`);
  }
  for (const select of await page.locator(".timeline select").all()) {
    const steps = await select.locator("option").count();
    const shown = () => page.locator(".timeline .chart h4").first().textContent();
    await select.selectOption({ index: 0 });
    assert(steps > 1 && await shown());
  }
  // Maps of memory: the slider goes through time by keyboard, and what is drawn is what is said.
  for (const memory of await page.locator(".memory").all()) {
    const seen = () => memory.locator(".blocks canvas").evaluateAll((all) => all.map((canvas) => [canvas.getAttribute("aria-label"), canvas.toDataURL()]));
    const end = await seen();
    await memory.locator("input[type=range]").focus();
    await page.keyboard.press("Home");
    const start = await seen();
    assert.equal(await memory.locator("output").textContent(), "0.00 s");
    assert(start.some(([said], at) => said !== end[at][0]) && start.some(([, drawn], at) => drawn !== end[at][1]), "memory does not change");
    assert(start.every(([said]) => / at 0[.0-9]* s: \d+ /.test(said)), start[0][0]);
    await page.keyboard.press("End");
    assert.deepEqual((await seen()).map(([said]) => said), end.map(([said]) => said));
    assert(await memory.locator(".numbers:visible tbody tr").count() >= end.length);
    for (const select of await memory.locator("select").all()) {
      await select.selectOption({ index: 0 });
      assert(JSON.stringify(await seen()) !== JSON.stringify(end), "another step shows the same memory");
    }
    await memory.screenshot({ path: `${picture}-memory.png` });
  }
  // On paper everything is unfolded.
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  assert.equal(await page.locator("details:not([open])").count(), 0);
  await page.evaluate(() => dispatchEvent(new Event("afterprint")));
  await done();
}

// As many at a time as there are processors; the longest, in light, first.
const left = Object.keys(views).flatMap((name) => process.argv.slice(2).map((file) => [file, name]));
await Promise.all(Array.from({ length: availableParallelism() }, async () => {
  for (let next = left.shift(); next; next = left.shift()) await look(...next);
}));
await browser.close();
