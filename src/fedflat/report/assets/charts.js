/* Charts in SVG: lines with bands, stems, dots in rows, heat maps. Each is a figure with a sentence and its data. */

/** A method's sign and name, as the head of its panel. */
const named = (item) =>
  el("h3", { class: "who" }, sign(item.method), el("code", { title: item.label }, shortLabel(item)));
/** The label of an analysis, with the short name of its method if that is folded. */
const shortLabel = ({ label, method }) => {
  const one = shownDocument.methods[method];
  return one && folded(one) ? label.replace(one.name, one.short + settingsText(one)) : label;
};
const sign = (method) =>
  svg(
    "svg",
    { width: 14, height: 14, "aria-hidden": "true", class: "sign" },
    marker(method, 7, 7, 4.5),
  );

/** A figure: a title or whose it is, the drawing, and the same numbers as a table for those who want them. */
function figure(head, note, drawing, table, kind = "", section = "") {
  const title = head.label || head;
  const data = table
    ? el(
        "details",
        {
          class: "data",
          "data-key": `data ${title} ${head.settings || ""}${section}`,
          toggle: (event) => {
            const box = event.currentTarget;
            if (box.open && box.children.length === 1) {
              box.append(scrolling(dataTable(title, table()), `Data: ${title}`));
              settle();
            }
          },
        },
        el("summary", {}, "Data as table"),
      )
    : null;
  return el(
    "figure",
    { class: kind },
    el(
      "figcaption",
      {},
      head.label ? named(head) : el("h3", {}, title),
      note ? el("p", {}, note) : null,
    ),
    drawing,
    drawing.classList.contains("plot") ? savers(title + section, drawing, table) : null,
    data,
  );
}

function dataTable(caption, { heads, rows }) {
  return el(
    "table",
    {},
    el("caption", { class: "unseen" }, caption),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        heads.map((head) => el("th", { scope: "col" }, head)),
      ),
    ),
    el(
      "tbody",
      {},
      rows.map((row) =>
        el(
          "tr",
          {},
          row.map((cell, i) => el(i ? "td" : "th", i ? {} : { scope: "row" }, String(cell))),
        ),
      ),
    ),
  );
}

/** A frame in which a wide table scrolls; a note says so where only a part is visible. */
function scrolling(node, label) {
  const box = el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    node,
  );
  const frame = el(
    "div",
    { class: "frame" },
    box,
    el(
      "p",
      { class: "sideways", "aria-hidden": "true" },
      "Wider than the screen: scroll sideways →",
    ),
  );
  later(frame, () => frame.classList.toggle("more", box.scrollWidth > box.clientWidth + 1));
  return frame;
}

/** Buttons of which one is chosen; the choice lives in `state` under `key`. */
function choices(label, key, options, part) {
  return el(
    "div",
    { class: "choices", role: "group", "aria-label": label },
    options.map(([value, name]) =>
      el(
        "button",
        {
          type: "button",
          "data-key": `${key} ${value}`,
          "aria-pressed": String(state[key] === value),
          click: () => {
            state[key] = value;
            redraw(part);
          },
        },
        name,
      ),
    ),
  );
}

/** A list to choose one entry from; nothing if there is but one. */
function selection(label, key, options, part) {
  if (!options.includes(remembered(key, options[0]))) state[key] = options[0];
  if (options.length < 2)
    return options[0] ? el("p", { class: "note" }, `${label}: ${options[0]}`) : null;
  return el(
    "label",
    { class: "select" },
    el("span", {}, label),
    el(
      "select",
      {
        "data-key": key,
        change: (event) => {
          state[key] = event.target.value;
          redraw(part);
        },
      },
      options.map((option) =>
        el("option", { value: option, selected: option === state[key] }, option),
      ),
    ),
  );
}

/** The methods with their signs; a click hides one everywhere. */
function legend(methods) {
  return el(
    "div",
    { class: "legend", role: "group", "aria-label": "Methods shown in the charts" },
    methods.map((method) =>
      el(
        "button",
        {
          type: "button",
          "data-key": `legend ${method.place}`,
          "aria-pressed": String(!state.hidden.has(method.place)),
          click: () => {
            state.hidden.has(method.place)
              ? state.hidden.delete(method.place)
              : state.hidden.add(method.place);
            redraw();
          },
        },
        svg(
          "svg",
          { width: 34, height: 12, "aria-hidden": "true" },
          svg("line", {
            x1: 1,
            x2: 33,
            y1: 6,
            y2: 6,
            stroke: color(method.place),
            "stroke-width": 2,
            "stroke-dasharray": dash(method.place),
          }),
          marker(method.place, 17, 6),
        ),
        el("code", { title: method.name }, called(method), settingsText(method)),
      ),
    ),
  );
}

/** The settings of a method whose name is folded. */
const settingsText = (m) =>
  folded(m) && Object.keys(m.columns).length
    ? `, ${Object.entries(m.columns)
        .map(([name, value]) => `${name}=${value}`)
        .join(", ")}`
    : "";

/** Axes and their frame; gives where to draw and how values become pixels. */
function axes(
  box,
  {
    x,
    y,
    name,
    height = 280,
    xTitle,
    yTitle,
    xFormat = plain,
    yFormat = plain,
    logY = false,
    xTicks,
    sentence: label,
    focus = true,
  },
) {
  const width = Math.max(240, box.clientWidth);
  const marks = logY ? powers(y[0], y[1], 6) : ticks(y[0], y[1], 5);
  const texts = labels(marks, yFormat),
    left = 14 + 7 * Math.max(...texts.map((text) => text.length), 3),
    bottom = height - 42,
    top = yTitle ? 26 : 10;
  const X = scale(x[0], x[1], left, width - 12),
    Y = scale(y[0], y[1], bottom, top, logY);
  const root = svg("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: "img",
    "aria-label": label,
    tabindex: focus ? "0" : null,
    class: "chart",
    "data-key": focus ? `chart ${name}` : null,
  });
  marks.forEach((tick, i) =>
    root.append(
      svg("line", {
        x1: left,
        x2: width - 12,
        y1: round2(Y(tick)),
        y2: round2(Y(tick)),
        class: "rule",
      }),
      svg("text", { x: left - 8, y: round2(Y(tick)) + 4, "text-anchor": "end" }, texts[i]),
    ),
  );
  let along = xTicks || ticks(x[0], x[1], Math.max(2, Math.floor((width - left) / 90)));
  if (new Set(labels(along, xFormat)).size < along.length) along = along.filter(Number.isInteger); // there is no half a round
  const below = labels(along, xFormat);
  along.forEach((tick, i) =>
    root.append(
      svg("line", {
        x1: round2(X(tick)),
        x2: round2(X(tick)),
        y1: bottom,
        y2: bottom + 5,
        class: "axis tick",
      }),
      svg(
        "text",
        {
          x: round2(X(tick)),
          y: bottom + 18,
          "text-anchor": tick === along.at(-1) && X(tick) > width - 34 ? "end" : "middle",
        },
        below[i],
      ),
    ),
  );
  if (logY)
    root.append(
      svg("line", { x1: left, x2: left, y1: top, y2: bottom, class: "axis" }),
      ...marks.map((tick) =>
        svg("line", {
          x1: left - 5,
          x2: left,
          y1: round2(Y(tick)),
          y2: round2(Y(tick)),
          class: "axis tick",
        }),
      ),
    );
  root.append(
    svg("line", { x1: left, x2: width - 12, y1: bottom, y2: bottom, class: "axis" }),
    svg(
      "text",
      { x: left - 8, y: 12, "text-anchor": yTitle.length > 4 ? "start" : "end", class: "title" },
      yTitle,
    ),
    svg("text", { x: width - 12, y: height - 6, "text-anchor": "end", class: "title" }, xTitle),
  );
  const drawing = svg("g", {});
  root.append(drawing);
  return { root, drawing, X, Y, left, right: width - 12, top, bottom };
}

function path(points) {
  let text = "",
    pen = false;
  for (const [x, y] of points) {
    if (!known(x) || !known(y)) {
      pen = false;
      continue;
    }
    text += `${pen ? "L" : "M"}${round2(x)} ${round2(y)}`;
    pen = true;
  }
  return text;
}

/** Lines against a common axis, each with a band from `low` to `high` if it has one. */
function lines(series, options) {
  const box = el("div", { class: "plot" });
  const share = Number(options.smoothing || 0),
    raw = series.filter((one) => !state.hidden.has(one.method)),
    shown = smoothSeries(raw, share);
  box.entries = shown.map(({ method, name }) => ({ method, name }));
  later(box, () => {
    const at = (name) => shown.flatMap((one) => one[name] || []),
      ends = extent(at("x"), 0),
      x = (options.zoom && state[options.zoom]) || ends;
    let y =
      options.settled && x === ends && !options.logY
        ? settledRange(shown, ends)
        : extent(valuesWithin(shown, x));
    if (options.logY) {
      const positive = valuesWithin(shown, x).filter((value) => value > 0),
        high = Math.max(...positive, 1e-12);
      y = [Math.max(high * 1e-7, Math.min(...positive, high)), high * 1.5];
    }
    if (
      options.floor !== undefined &&
      at("low")
        .concat(at("y"))
        .every((value) => !known(value) || value >= options.floor)
    )
      y[0] = Math.max(y[0], options.floor);
    const plot = axes(box, { ...options, x, y });
    const clamp = (value) =>
      known(value) && !(options.logY && value < y[0]) ? plot.Y(value) : NaN;
    if (options.dense) markDense(plot, options.dense, options.denseText);
    if (share)
      for (const one of raw) {
        const points = one.x.map((place, i) => [plot.X(place), clamp(one.y[i])]);
        plot.drawing.append(svg("path", { d: path(points), stroke: color(one.method), class: "raw" }));
      }
    for (const one of shown) drawLine(plot, one, clamp);
    clipped(plot);
    box.replaceChildren(plot.root);
    readout(box, plot, shown, options, clamp, x);
    if (options.zoom) zoomable(plot, ends, options);
  });
  return box;
}

/** Lines end at the frame. */
function clipped({ root, drawing, left, right, top, bottom }) {
  const id = `frame-${Math.random().toString(36).slice(2)}`;
  root.prepend(
    svg(
      "clipPath",
      { id },
      svg("rect", { x: left, y: top - 2, width: right - left + 5, height: bottom - top + 4 }),
    ),
  );
  drawing.setAttribute("clip-path", `url(#${id})`);
}

function drawLine({ drawing, X }, one, Y) {
  if (one.low && one.low.some((low, i) => low !== one.high[i])) {
    const there = one.x.map((x, i) => i).filter((i) => known(one.low[i]) && known(one.high[i]));
    const around = [
      ...there.map((i) => [X(one.x[i]), Y(one.high[i])]),
      ...there.reverse().map((i) => [X(one.x[i]), Y(one.low[i])]),
    ];
    if (around.length) drawing.append(svg("path", { d: path(around) + "Z", fill: color(one.method), class: "band" }));
  }
  const points = one.x.map((x, i) => [X(x), Y(one.y[i])]);
  drawing.append(
    svg("path", {
      d: path(points),
      stroke: color(one.method),
      "stroke-dasharray": dash(one.method),
      class: "line",
    }),
  );
  const step = Math.max(1, Math.ceil(points.length / 7));
  points.forEach(([x, y], i) => {
    if ((i + 1 + one.method * 2) % step === 0 && known(x) && known(y))
      drawing.append(marker(one.method, x, y, 3.6));
  });
}

/** Show the values of the lines at one place: at the pointer, or by arrow keys while the chart has the focus. */
function readout(box, plot, series, options, Y, [from, to]) {
  const places = [...new Set(series.flatMap((one) => one.x.filter(known)))]
    .filter((x) => x >= from && x <= to)
    .sort((a, b) => a - b);
  if (!places.length) return;
  const tip = el("div", { class: "tip", hidden: true }),
    live = el("div", { class: "unseen", "aria-live": "polite" });
  const line = svg("line", {
      class: "cursor",
      y1: plot.top,
      y2: plot.bottom,
      visibility: "hidden",
    }),
    dots = svg("g", {});
  plot.root.append(line, dots);
  box.append(tip, live);
  const xText = options.xText || options.xFormat || plain,
    yText = options.yText || number;
  let place = places.length - 1;
  plot.cursor = () => places[place];
  const show = (index, speak) => {
    place = Math.min(places.length - 1, Math.max(0, index));
    const x = plot.X(places[place]);
    const read = series
      .map((one) => [one, nearest(one.x, places[place])])
      .filter(([one, i]) => i >= 0 && known(one.y[i]))
      .sort(([a, i], [b, j]) => b.y[j] - a.y[i]);
    line.setAttribute("x1", round2(x));
    line.setAttribute("x2", round2(x));
    line.setAttribute("visibility", "visible");
    dots.replaceChildren(
      ...read.map(([one, i]) => marker(one.method, plot.X(one.x[i]), Y(one.y[i]), 4.5)),
    );
    tip.replaceChildren(
      el("strong", {}, `${options.xTitle} ${xText(places[place])}`),
      ...read.map(([one, i]) =>
        el(
          "div",
          {},
          svg("svg", { width: 12, height: 12, "aria-hidden": "true" }, marker(one.method, 6, 6)),
          el("b", {}, yText(one.y[i])),
          el("span", {}, one.name),
        ),
      ),
    );
    tip.hidden = false;
    const right = x > box.clientWidth / 2;
    tip.style.left = right ? "auto" : `${x + 14}px`;
    tip.style.right = right ? `${box.clientWidth - x + 14}px` : "auto";
    if (speak)
      live.textContent = `${options.xTitle} ${xText(places[place])}: ${read.map(([one, i]) => `${one.name} ${yText(one.y[i])}`).join(", ")}`;
  };
  const hide = () => {
    tip.hidden = true;
    line.setAttribute("visibility", "hidden");
    dots.replaceChildren();
  };
  plot.root.addEventListener("pointermove", (event) => {
    const left = plot.root.getBoundingClientRect().left;
    show(nearest(places, plot.X.back(event.clientX - left)), false);
  });
  plot.root.addEventListener("pointerleave", hide);
  plot.root.addEventListener("blur", hide);
  plot.root.addEventListener("focus", () => {
    if (plot.root.matches(":focus-visible")) show(place, true);
  });
  plot.root.addEventListener("keydown", (event) => {
    const far = Math.max(1, Math.round(places.length / 10));
    const to = {
      ArrowLeft: place - 1,
      ArrowRight: place + 1,
      PageDown: place - far,
      PageUp: place + far,
      Home: 0,
      End: places.length - 1,
    }[event.key];
    if (event.key === "Escape") hide();
    if (to === undefined) return;
    event.preventDefault();
    show(to, true);
  });
}

function nearest(values, wanted) {
  let best = -1;
  values.forEach((value, i) => {
    if (known(value) && (best < 0 || Math.abs(value - wanted) < Math.abs(values[best] - wanted)))
      best = i;
  });
  return best;
}

/** Eigenvalues and the like: a stem for each place and series. */
function stems(series, options) {
  const box = el("div", { class: "plot" });
  box.entries = series.map(({ method, name }) => ({ method, name }));
  later(box, () => {
    const shown = series.filter((one) => !state.hidden.has(one.method));
    const count = Math.max(1, ...shown.map((one) => one.y.length));
    const y = extent([0, ...shown.flatMap((one) => one.y)]);
    const plot = axes(box, {
      ...options,
      x: [0.4, count + 0.6],
      y,
      focus: false,
      xTicks: Array.from({ length: count }, (_, i) => i + 1).filter(
        (i) => i === 1 || i % Math.ceil(count / 10) === 0,
      ),
    });
    shown.forEach((one, s) =>
      one.y.forEach((value, i) => {
        if (!known(value)) return;
        const x = plot.X(i + 1 + ((s + 0.5) / shown.length - 0.5) * 0.6);
        plot.drawing.append(
          svg("line", {
            x1: round2(x),
            x2: round2(x),
            y1: round2(plot.Y(0)),
            y2: round2(plot.Y(value)),
            stroke: color(one.method),
            class: "stem",
          }),
          marker(one.method, x, plot.Y(value), 4),
        );
      }),
    );
    plot.drawing.append(
      svg("line", {
        x1: plot.left,
        x2: plot.right,
        y1: round2(plot.Y(0)),
        y2: round2(plot.Y(0)),
        class: "axis",
      }),
    );
    box.replaceChildren(plot.root);
  });
  return box;
}

/** A row for each name, a sign for each method at its value. */
function dotRows(rows, { xTitle, xFormat = plain, sentence: label, from }) {
  const box = el("div", { class: "plot" });
  later(box, () => {
    const width = Math.max(240, box.clientWidth),
      line = 26,
      top = 8;
    const wide = Math.min(width * 0.5, 8 + 7.2 * Math.max(...rows.map((row) => row.name.length)));
    const fits = Math.floor((wide - 8) / 7.2),
      bottom = top + rows.length * line;
    const [low, high] = extent(
      rows
        .flatMap((row) => row.dots.map((dot) => dot.value))
        .concat(from === undefined ? [] : [from]),
      0.03,
    );
    const X = scale(from === undefined ? low : Math.min(from, low), high, wide + 10, width - 16);
    const root = svg("svg", {
      viewBox: `0 0 ${width} ${bottom + 40}`,
      width,
      height: bottom + 40,
      role: "img",
      "aria-label": label,
      class: "chart",
    });
    for (const tick of ticks(X.back(wide + 10), high, Math.max(2, Math.floor((width - wide) / 90))))
      root.append(
        svg("line", {
          x1: round2(X(tick)),
          x2: round2(X(tick)),
          y1: top,
          y2: bottom,
          class: "rule",
        }),
        svg("text", { x: round2(X(tick)), y: bottom + 18, "text-anchor": "middle" }, xFormat(tick)),
      );
    rows.forEach((row, r) => {
      const y = top + (r + 0.5) * line;
      const cut = row.name.length > fits ? Math.max(1, row.name.lastIndexOf(".", fits) + 1 || fits) : 0;
      const two = cut ? [row.name.slice(0, cut), row.name.slice(cut)] : [row.name];
      root.append(
        ...two.map((part, i) =>
          svg(
            "text",
            { x: wide, y: y + 4 + (two.length > 1 ? 12 * i - 6 : 0), "text-anchor": "end" },
            part,
          ),
        ),
        svg("line", { x1: wide + 10, x2: width - 16, y1: y, y2: y, class: "guide" }),
      );
      for (const dot of row.dots)
        if (known(dot.value) && !state.hidden.has(dot.method))
          root.append(marker(dot.method, X(dot.value), y, 4.5));
    });
    root.append(
      svg("text", { x: width - 16, y: bottom + 36, "text-anchor": "end", class: "title" }, xTitle),
    );
    box.replaceChildren(root);
  });
  return box;
}
