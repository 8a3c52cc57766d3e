"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const said = document.getElementById("said");
  const plots = [];

  const isDark = () => root.dataset.theme === "dark";
  function setTheme(dark) {
    root.dataset.theme = dark ? "dark" : "light";
    button.textContent = dark ? "Light" : "Dark";
    button.setAttribute("aria-pressed", String(dark));
    plots.forEach((draw) => draw());
  }
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches);
  button.addEventListener("click", () => setTheme(!isDark()));

  // Tables: what is copied has tabs, what is downloaded commas and numbers in full.
  const cells = (row, full) => [...row.cells].map((cell) => (full && cell.dataset.v) || cell.textContent.trim());
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  document.addEventListener("click", (event) => {
    const pressed = event.target.closest(".copy, .csv");
    if (!pressed) return;
    const box = pressed.closest(".table");
    const rows = [...box.querySelectorAll("tr")];
    if (pressed.classList.contains("copy")) {
      const text = rows.map((row) => cells(row, false).join("\t")).join("\n");
      const done = () => { said.textContent = "Copied"; pressed.textContent = "Copied"; setTimeout(() => { pressed.textContent = "Copy"; }, 1500); };
      if (navigator.clipboard) {
        navigator.clipboard.writeText(text).then(done, () => copyOld(text, done));
      } else {
        copyOld(text, done);
      }
      return;
    }
    const text = rows.map((row) => cells(row, true).map(quoted).join(",")).join("\n") + "\n";
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = box.dataset.file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  function copyOld(text, done) {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    if (document.execCommand("copy")) done();
    area.remove();
  }

  // Charts.
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const dashes = [[], [7, 3], [2, 3], [9, 3, 2, 3], [4, 2], [1, 4]];
  function draw(place, chart, sync) {
    const box = document.createElement("div");
    box.className = "chart";
    const title = document.createElement("h4");
    title.textContent = `${chart.title}, ${chart.unit}`;
    box.append(title);
    place.append(box);
    const data = chart.lines.length === 1
      ? [chart.lines[0].t, chart.lines[0].v]
      : uPlot.join(chart.lines.map((line) => [line.t, line.v]));
    const axis = () => ({
      stroke: colour("--ink"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") },
      font: "11px system-ui, sans-serif",
    });
    let plot = null;
    const make = () => {
      if (plot) plot.destroy();
      const width = Math.max(240, box.clientWidth);
      plot = new uPlot({
        width, height: 210, cursor: { sync: { key: sync } }, legend: { live: true },
        scales: { x: { time: false } },
        axes: [{ ...axis(), values: (_, all) => all.map((ms) => `${+(ms / 1000).toFixed(3)} s`) }, { ...axis(), size: 56 }],
        series: [{ label: "time", value: (_, ms) => (ms == null ? "–" : `${(ms / 1000).toFixed(3)} s`) }].concat(
          chart.lines.map((line) => ({
            label: line.label, spanGaps: true, points: { show: false },
            stroke: line.policy == null ? colour("--soft") : colour(`--c${line.policy}`),
            width: line.policy == null ? 1 : 1.6, dash: line.policy == null ? [2, 4] : dashes[line.policy],
          })),
        ),
      }, data, box);
      plot.root.setAttribute("role", "img");
      plot.root.setAttribute("aria-label", `${chart.title} over time; the numbers are in the table below`);
    };
    make();
    let width = box.clientWidth;
    new ResizeObserver(() => {
      if (box.clientWidth !== width) { width = box.clientWidth; plot.setSize({ width: Math.max(240, width), height: 210 }); }
    }).observe(box);
    plots.push(make);
  }
  for (const timeline of document.querySelectorAll(".timeline")) {
    const parts = JSON.parse(document.getElementById(timeline.dataset.charts).textContent);
    const place = timeline.querySelector(".charts");
    const select = timeline.querySelector("select");
    const tables = [...timeline.querySelectorAll(":scope > details")];
    const show = (at) => {
      place.replaceChildren();
      plots.length = 0;
      parts[at].charts.forEach((chart) => draw(place, chart, timeline.dataset.charts));
      tables.forEach((table, other) => { table.hidden = other !== at; });
    };
    if (select) {
      select.selectedIndex = parts.length - 1;
      select.addEventListener("change", () => show(select.selectedIndex));
    }
    show(parts.length - 1);
  }

  // On paper everything is shown, in light colours.
  let before = null;
  addEventListener("beforeprint", () => {
    before = { dark: isDark(), closed: [...document.querySelectorAll("details:not([open])")] };
    before.closed.forEach((it) => { it.open = true; });
    setTheme(false);
  });
  addEventListener("afterprint", () => {
    if (!before) return;
    before.closed.forEach((it) => { it.open = false; });
    setTheme(before.dark);
    before = null;
  });
})();
