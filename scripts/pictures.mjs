// Makes pictures from pages of results (see scripts/pictures). A picture shows some elements of a page side by side.
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const chart = (title) => ({ of: ".timeline .chart", says: title });
const ages = (title) => ({ of: ".ages .chart", says: title });
const pictures = [
  { name: "reclaim", page: "001", wide: 1000, across: 3, legend: ".timeline .legend", parts: [chart("Free memory, MiB"), chart("Scanned by kswapd"), chart("Scanned by direct reclaim")] },
  { name: "lru-ages", page: "001", wide: 1000, across: 2, parts: [ages("Inactive, anonymous"), ages("Active, anonymous")], all: true },
  { name: "throttling", page: "001", wide: 1000, across: 1, parts: [{ of: ".bars" }], legend: "h3 + p + .legend:has(.r0)" },
  { name: "writeback", page: "001", wide: 1000, across: 3, legend: ".timeline .legend", parts: [chart("Dirty pages"), chart("Under writeback"), chart("Inactive, of files")] },
  { name: "compaction", page: "004", wide: 900, across: 2, parts: [{ of: ".blocks > div" }], all: 2, legend: ".memory .legend" },
  { name: "high-orders", page: "004", wide: 1000, across: 3, legend: ".timeline .legend", parts: [chart("Free in blocks of order 0 to 2"), chart("Free in blocks of order 9"), chart("Scanned by compaction")] },
  { name: "hottest", page: "002", wide: 800, across: 1, legend: "h3 + .legend", parts: [{ of: "figure", says: "ottest" }] },
];

const browser = await chromium.launch({ executablePath: process.env.BROWSER, args: ["--no-sandbox"] });
for (const picture of pictures) {
  const context = await browser.newContext({ colorScheme: "light", viewport: { width: picture.wide + 32, height: 900 }, bypassCSP: true });
  const page = await context.newPage();
  await page.goto(pathToFileURL(`${picture.page}.html`).href, { waitUntil: "load" });
  const found = await page.evaluate(({ parts, all, legend, wide, across }) => {
    const said = (element) => element.querySelector("h4, figcaption")?.textContent ?? "";
    const box = document.createElement("div");
    box.id = "picture";
    box.style.cssText = `width:${wide}px;padding:8px;background:var(--page)`;
    const grid = document.createElement("div");
    grid.style.cssText = `display:grid;gap:12px;grid-template-columns:repeat(${across},minmax(0,1fr))`;
    const key = legend && document.querySelector(legend);
    if (key) box.append(key.cloneNode(true));
    let found = 0;
    for (const part of parts) {
      const matching = [...document.querySelectorAll(part.of)].filter((it) => !part.says || said(it).includes(part.says));
      const most = all === true ? matching.length : all || 1;
      matching.slice(0, most).forEach((it) => { found += 1; grid.append(it); });
    }
    box.append(grid);
    document.body.replaceChildren(box);
    box.querySelectorAll("details, .u-legend").forEach((it) => it.remove());
    return found;
  }, picture);
  if (found === 0) throw new Error(`${picture.name}: nothing of page ${picture.page} fits`);
  await page.waitForTimeout(300);
  await page.locator("#picture").screenshot({ path: `${process.env.IMAGES}/${picture.name}.png` });
  console.log(`${picture.name}: ${found} parts`);
  await context.close();
}
await browser.close();
