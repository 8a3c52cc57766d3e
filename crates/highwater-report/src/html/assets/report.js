"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const said = document.getElementById("said");
  // What is drawn, by where it stands: each is drawn again in the other theme's colours.
  const drawn = new Map();

  const isDark = () => root.dataset.theme === "dark";
  function setTheme(dark) {
    root.dataset.theme = dark ? "dark" : "light";
    button.textContent = dark ? "Light" : "Dark";
    button.setAttribute("aria-pressed", String(dark));
    drawn.forEach((all) => all.forEach((again) => again()));
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
    drawn.get(place).push(make);
  }
  for (const timeline of document.querySelectorAll(".timeline")) {
    const parts = JSON.parse(document.getElementById(timeline.dataset.charts).textContent);
    const place = timeline.querySelector(".charts");
    const select = timeline.querySelector("select");
    const tables = [...timeline.querySelectorAll(":scope > details")];
    const show = (at) => {
      place.replaceChildren();
      drawn.set(place, []);
      parts[at].charts.forEach((chart) => draw(place, chart, timeline.dataset.charts));
      tables.forEach((table, other) => { table.hidden = other !== at; });
    };
    if (select) {
      select.selectedIndex = parts.length - 1;
      select.addEventListener("change", () => show(select.selectedIndex));
    }
    show(parts.length - 1);
  }

  // Memory: letters of cells and how many of each follow one another.
  const legend = [...(document.querySelector(".memory .legend")?.children ?? [])];
  const states = legend.map((li) => li.dataset.letter).join("");
  const names = legend.map((li) => li.textContent.trim());
  function cellsOf(text) {
    const cells = [];
    for (const [, letter, count] of text.matchAll(/(.)(\d*)/g)) {
      for (let n = +(count || 1); n > 0; n--) cells.push(states.indexOf(letter));
    }
    return cells;
  }
  function blockMap(place, map) {
    const box = document.createElement("div");
    const title = document.createElement("h4");
    title.textContent = map.label;
    box.append(title);
    place.append(box);
    const views = map.zones.map((zone) => {
      const name = document.createElement("h5");
      name.textContent = zone.per === 1 ? zone.name : `${zone.name}, ${zone.per} pageblocks a cell`;
      const canvas = document.createElement("canvas");
      canvas.setAttribute("role", "img");
      box.append(name, canvas);
      return { zone, canvas, cells: [], size: 8, across: 64 };
    });
    const paint = () => {
      const width = Math.max(192, Math.min(box.clientWidth, 640));
      const scale = devicePixelRatio || 1;
      for (const view of views) {
        view.across = view.cells.length <= 512 ? 32 : 64;
        view.size = Math.max(3, Math.min(view.across === 32 ? 12 : 9, Math.floor(width / view.across)));
        const rows = Math.ceil(view.cells.length / view.across);
        const [w, h] = [Math.min(view.across, view.cells.length) * view.size, rows * view.size];
        Object.assign(view.canvas, { width: w * scale, height: h * scale });
        Object.assign(view.canvas.style, { width: `${w}px`, height: `${h}px` });
        const pen = view.canvas.getContext("2d");
        pen.scale(scale, scale);
        pen.fillStyle = colour("--line");
        pen.fillRect(0, 0, w, h);
        const colours = [...states].map((_, at) => colour(`--b${at}`));
        const gap = view.size > 4 ? 1 : 0;
        view.cells.forEach((state, at) => {
          pen.fillStyle = colours[state];
          pen.fillRect((at % view.across) * view.size, Math.floor(at / view.across) * view.size, view.size - gap, view.size - gap);
        });
      }
    };
    for (const view of views) {
      view.canvas.addEventListener("mousemove", (event) => {
        const at = Math.floor(event.offsetY / view.size) * view.across + Math.floor(event.offsetX / view.size);
        const pfn = view.zone.first + at * view.zone.pages;
        view.canvas.title = at < view.cells.length ? `pfn ${pfn}: ${names[view.cells[at]]}` : "";
      });
    }
    const show = (seconds) => {
      let moment = map.moments[0];
      for (const other of map.moments) if (other[0] <= seconds) moment = other;
      views.forEach((view, at) => {
        view.cells = cellsOf(moment[1][at] || "");
        const counted = names.map((name, state) => [view.cells.filter((cell) => cell === state).length, name]);
        const said = counted.filter(([count]) => count > 0).map(([count, name]) => `${count} ${name}`).join(", ");
        view.canvas.setAttribute("aria-label", `${map.label}, ${view.zone.name} at ${moment[0]} s: ${said}`);
      });
      paint();
    };
    let width = box.clientWidth;
    new ResizeObserver(() => { if (box.clientWidth !== width) { width = box.clientWidth; paint(); } }).observe(box);
    drawn.get(place).push(paint);
    return show;
  }
  function ageChart(place, list, run, most) {
    const box = document.createElement("div");
    box.className = "chart";
    const title = document.createElement("h4");
    title.textContent = `${list.title}: ${run.label}, MiB`;
    box.append(title);
    place.append(box);
    // Each is drawn with all that are younger, the oldest first: what stays visible of it is its own.
    const sums = [];
    run.v.forEach((values, age) => sums.push(values.map((value, at) => value + (age ? sums[age - 1][at] : 0))));
    const data = [run.t, ...sums.slice().reverse()];
    let plot = null;
    const make = () => {
      if (plot) plot.destroy();
      const axis = () => ({ stroke: colour("--ink"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") }, font: "11px system-ui, sans-serif" });
      plot = new uPlot({
        width: Math.max(240, box.clientWidth), height: 170, cursor: { drag: { x: false, y: false } }, legend: { live: true },
        scales: { x: { time: false }, y: { range: [0, most || 1] } },
        axes: [{ ...axis(), values: (_, all) => all.map((s) => `${s} s`) }, { ...axis(), size: 56 }],
        series: [{ label: "time", value: (_, s) => (s == null ? "–" : `${s} s`) }].concat(run.ages.map((age, at) => ({
          label: age, points: { show: false }, width: 0, fill: colour(`--a${Math.min(at, 4)}`), stroke: colour(`--a${Math.min(at, 4)}`),
          value: (_, __, ___, row) => (row == null ? "–" : run.v[at][row].toFixed(1)),
        })).reverse()),
      }, data, box);
      plot.root.setAttribute("role", "img");
      plot.root.setAttribute("aria-label", `${list.title} under ${run.label} by age; the numbers are in the table below`);
    };
    make();
    let width = box.clientWidth;
    new ResizeObserver(() => {
      if (box.clientWidth !== width) { width = box.clientWidth; plot.setSize({ width: Math.max(240, width), height: 170 }); }
    }).observe(box);
    drawn.get(place).push(make);
  }
  for (const memory of document.querySelectorAll(".memory")) {
    const parts = JSON.parse(document.getElementById(memory.dataset.maps).textContent);
    const [blocks, ages] = [memory.querySelector(".blocks"), memory.querySelector(".ages")];
    const [select, slider, output] = [memory.querySelector("select"), memory.querySelector("input"), memory.querySelector("output")];
    const numbers = [...memory.querySelectorAll(":scope > .numbers")];
    let shows = [];
    let end = 0;
    const seek = () => {
      const seconds = (end * slider.value) / slider.max;
      output.textContent = `${seconds.toFixed(2)} s`;
      slider.setAttribute("aria-valuetext", output.textContent);
      shows.forEach((show) => show(seconds));
    };
    const choose = (at) => {
      blocks.replaceChildren();
      ages.replaceChildren();
      drawn.set(blocks, []);
      drawn.set(ages, []);
      const part = parts[at];
      [blocks, ages].forEach((place) => place.style.setProperty("--side", Math.max(1, part.maps.length)));
      end = Math.max(0, ...part.maps.map((map) => map.moments[map.moments.length - 1][0]));
      shows = part.maps.map((map) => blockMap(blocks, map));
      seek();
      for (const list of part.lists) {
        const total = (run) => run.t.map((_, row) => run.v.reduce((sum, values) => sum + values[row], 0));
        const most = Math.max(...list.runs.flatMap(total)) * 1.05;
        list.runs.forEach((run) => ageChart(ages, list, run, most));
      }
      memory.querySelectorAll(".ages-title").forEach((title) => { title.hidden = part.lists.length === 0; });
      numbers.forEach((table, other) => { table.hidden = other !== at; });
    };
    slider.addEventListener("input", seek);
    if (select) {
      select.selectedIndex = parts.length - 1;
      select.addEventListener("change", () => choose(select.selectedIndex));
    }
    choose(parts.length - 1);
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
