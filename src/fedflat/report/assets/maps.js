/* Heat maps and planes: cells as one picture inside an SVG, contours as lines above it. */

/** A picture of a table of values, one pixel for each; gaps are transparent. */
function picture(values, shade) {
  const canvas = el("canvas", { width: values[0].length, height: values.length });
  const context = canvas.getContext("2d"),
    image = context.createImageData(canvas.width, canvas.height);
  values.forEach((row, j) =>
    row.forEach((value, i) => {
      if (known(value))
        image.data.set([...shade(value).map(Math.round), 255], 4 * (j * row.length + i));
    }),
  );
  context.putImageData(image, 0, 0);
  return canvas.toDataURL();
}

/** The key of the colours: a bar with its least and largest value. */
function colorKey(low, high, format, ramp) {
  const stops = Array.from({ length: 9 }, (_, i) => rgb(ramp(i / 8))).join(", ");
  return el(
    "div",
    { class: "key" },
    el("span", {}, format(low)),
    el("i", { style: `background: linear-gradient(to right, ${stops})` }),
    el("span", {}, format(high)),
  );
}

/** Where columns begin and end, from 0 to 1, if they lie at these places: half-way to the neighbours. */
function edges(places) {
  const gap = (i) => (places.length > 1 ? places[i + 1] - places[i] : 1),
    last = places.length - 1;
  const bounds = [
    places[0] - gap(0) / 2,
    ...places.slice(1).map((place, i) => (place + places[i]) / 2),
    places[last] + gap(last - 1) / 2,
  ];
  return {
    low: bounds[0],
    high: bounds.at(-1),
    at: bounds.map((bound) => (bound - bounds[0]) / (bounds.at(-1) - bounds[0])),
  };
}

/** The scale of cells, and their colours: with values of both signs, 0 is in the middle. */
function cellColors([low, high]) {
  const most = Math.max(-low, high);
  return low < 0 && high > 0
    ? { low: -most, high: most, ramp: signs }
    : { low, high, ramp: inks };
}

/** Stripes behind cells without a value. */
function stripes(place) {
  const id = `stripes-${Math.random().toString(36).slice(2)}`;
  return [
    svg(
      "pattern",
      { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      svg("line", { x1: 1, x2: 1, y1: 0, y2: 6, class: "stripe" }),
    ),
    svg("rect", { ...place, fill: `url(#${id})` }),
  ];
}

/** Rows of cells; `range` is the common scale, `cell(row, column)` the sentence about one. Columns are equally wide, or lie
    at their `places` on an axis. */
function heat(
  values,
  {
    range,
    format,
    cell,
    places,
    rowTitle,
    columnTitle,
    rowName = (i) => i,
    columnName = (i) => i,
    sentence: label,
    height,
  },
) {
  const box = el("div", { class: "plot" });
  later(box, () => {
    const width = Math.max(200, box.clientWidth),
      rows = values.length,
      columns = values[0].length;
    const names = Array.from({ length: rows }, (_, i) => String(rowName(i)));
    const left = Math.min(width * 0.5, 16 + 7 * Math.max(...names.map((name) => name.length)));
    const top = 20,
      tall = height || Math.min(420, Math.max(90, rows * 22)),
      right = width - 4;
    const root = svg("svg", {
      viewBox: `0 0 ${width} ${top + tall + 38}`,
      width,
      height: top + tall + 38,
      role: "img",
      "aria-label": label,
      class: "chart",
    });
    const { low, high, ramp } = cellColors(range),
      shade = (value) => ramp((value - low) / (high - low || 1));
    const {
      low: from,
      high: to,
      at,
    } = edges(places || Array.from({ length: columns }, (_, i) => i));
    const column = (share) => at.findIndex((edge, i) => share >= edge && share < at[i + 1]),
      fine = Math.round(right - left);
    const cells = places
      ? values.map((row) => Array.from({ length: fine }, (_, i) => row[column((i + 0.5) / fine)]))
      : values;
    const place = { x: left, y: top, width: right - left, height: tall };
    root.append(
      ...(values.flat().every(known) ? [] : stripes(place)),
      svg("image", {
        href: picture(cells, shade),
        ...place,
        preserveAspectRatio: "none",
        class: "cells",
      }),
    );
    const each = Math.ceil(rows / Math.floor(tall / 15)),
      every = Math.ceil(columns / Math.max(1, Math.floor((right - left) / 40)));
    names.forEach((name, i) => {
      if (i % each === 0)
        root.append(
          svg(
            "text",
            { x: left - 6, y: top + ((i + 0.5) * tall) / rows + 4, "text-anchor": "end" },
            name,
          ),
        );
    });
    const X = scale(from, to, left, right),
      along = places
        ? ticks(from, to, Math.max(2, Math.floor((right - left) / 70))).filter(
            (tick) => tick >= places[0] && Number.isInteger(tick),
          )
        : [];
    for (const tick of along)
      root.append(
        svg("line", {
          x1: round2(X(tick)),
          x2: round2(X(tick)),
          y1: top + tall,
          y2: top + tall + 4,
          class: "axis",
        }),
        svg(
          "text",
          {
            x: round2(X(tick)),
            y: top + tall + 16,
            "text-anchor": X(tick) > right - 20 ? "end" : "middle",
            class: "tick",
          },
          whole(tick),
        ),
      );
    for (let i = 0; i < columns && !places; i += every)
      root.append(
        svg(
          "text",
          {
            x: left + ((i + 0.5) * (right - left)) / columns,
            y: top + tall + 16,
            "text-anchor": "middle",
          },
          String(columnName(i)),
        ),
      );
    root.append(
      svg("text", { x: 0, y: 12, class: "title" }, rowTitle),
      svg(
        "text",
        { x: right, y: top + tall + 33, "text-anchor": "end", class: "title" },
        columnTitle,
      ),
    );
    const tip = el("div", { class: "tip", hidden: true });
    root.addEventListener("pointermove", (event) => {
      const frame = root.getBoundingClientRect(),
        x = event.clientX - frame.left,
        y = event.clientY - frame.top;
      const i = places
          ? column((x - left) / (right - left))
          : Math.floor(((x - left) / (right - left)) * columns),
        j = Math.floor(((y - top) / tall) * rows);
      tip.hidden = !(i >= 0 && i < columns && j >= 0 && j < rows);
      if (tip.hidden) return;
      tip.replaceChildren(cell(j, i));
      tip.style.left = x > width / 2 ? "auto" : `${x + 14}px`;
      tip.style.right = x > width / 2 ? `${width - x + 14}px` : "auto";
      tip.style.top = `${y + 12}px`;
    });
    root.addEventListener("pointerleave", () => {
      tip.hidden = true;
    });
    box.replaceChildren(root, colorKey(low, high, format, ramp), tip);
  });
  return box;
}

/** Contour lines of one level, cell by cell, as a path in grid places. */
function contour(values, level) {
  const parts = [];
  const cut = (a, b) => (level - a) / (b - a);
  for (let j = 0; j + 1 < values.length; j++)
    for (let i = 0; i + 1 < values[0].length; i++) {
      const a = values[j][i],
        b = values[j][i + 1],
        c = values[j + 1][i + 1],
        d = values[j + 1][i];
      if (![a, b, c, d].every(known)) continue;
      const ends = [];
      if (a < level !== b < level) ends.push([i + cut(a, b), j]);
      if (b < level !== c < level) ends.push([i + 1, j + cut(b, c)]);
      if (d < level !== c < level) ends.push([i + cut(d, c), j + 1]);
      if (a < level !== d < level) ends.push([i, j + cut(a, d)]);
      for (let e = 0; e + 1 < ends.length; e += 2) parts.push([ends[e], ends[e + 1]]);
    }
  return parts;
}

const letter = (place) => "ABC"[place];

/** A plane through models: heights as colours, contours, and the models where they lie. */
function plane(item, measure, range) {
  const box = el("div", { class: "plot" });
  const floor = Math.max(range[0] * 0.01, 1e-6),
    at =
      measure === "loss"
        ? (value) => Math.log10(Math.max(value - range[0], 0) + floor)
        : (value) => value;
  const [low, high] = range.map(at),
    format = measure === "loss" ? number : percents;
  later(box, () => {
    const across = ticks(item.x[0], item.x.at(-1), 4),
      upwards = ticks(item.y[0], item.y.at(-1), 4),
      beside = labels(upwards, plain);
    const size = Math.min(520, Math.max(200, box.clientWidth)),
      left = 14 + 7 * Math.max(...beside.map((text) => text.length)),
      side = size - left - 8,
      top = 24,
      bottom = top + side;
    const values = item[measure].map((row) =>
      row.map((value) => (known(value) ? at(value) : null)),
    );
    const X = scale(item.x[0], item.x.at(-1), left, left + side),
      Y = scale(item.y[0], item.y.at(-1), top + side, top);
    const root = svg("svg", {
      viewBox: `0 0 ${size} ${bottom + 42}`,
      width: size,
      height: bottom + 42,
      role: "img",
      "aria-label": planeSaid(item, measure, format),
      class: "chart",
    });
    const half = [side / (item.x.length - 1) / 2, side / (item.y.length - 1) / 2];
    const id = `clip-${Math.random().toString(36).slice(2)}`;
    root.append(
      svg("clipPath", { id }, svg("rect", { x: left, y: top, width: side, height: side })),
      svg("image", {
        href: picture([...values].reverse(), (value) => heights((value - low) / (high - low || 1))),
        x: left - half[0],
        y: top - half[1],
        width: side + 2 * half[0],
        height: side + 2 * half[1],
        preserveAspectRatio: "none",
        "clip-path": `url(#${id})`,
      }),
    );
    for (let step = 1; step < 12; step++) {
      const segments = contour(values, low + ((high - low) * step) / 12);
      const text = segments
        .map(([from, to]) =>
          path(
            [from, to].map(([i, j]) => [
              left + (i * side) / (item.x.length - 1),
              top + side - (j * side) / (item.y.length - 1),
            ]),
          ),
        )
        .join("");
      if (text) root.append(svg("path", { d: text, class: "contour" }));
    }
    labels(across, plain).forEach((text, i) =>
      root.append(
        svg("line", {
          x1: round2(X(across[i])),
          x2: round2(X(across[i])),
          y1: bottom,
          y2: bottom + 4,
          class: "axis",
        }),
        svg(
          "text",
          { x: round2(X(across[i])), y: bottom + 18, "text-anchor": "middle", class: "tick" },
          text,
        ),
      ),
    );
    beside.forEach((text, i) =>
      root.append(
        svg("line", {
          x1: left - 4,
          x2: left,
          y1: round2(Y(upwards[i])),
          y2: round2(Y(upwards[i])),
          class: "axis",
        }),
        svg(
          "text",
          { x: left - 8, y: round2(Y(upwards[i])) + 4, "text-anchor": "end", class: "tick" },
          text,
        ),
      ),
    );
    root.append(
      svg("text", { x: 0, y: 12, class: "title" }, "parameter distance"),
      svg(
        "text",
        { x: left + side, y: bottom + 36, "text-anchor": "end", class: "title" },
        "parameter distance",
      ),
    );
    item.marks.forEach((mark, i) => {
      const x = X(mark.x),
        y = Y(mark.y),
        end = x > left + side / 2;
      if (!known(x) || !known(y)) return;
      root.append(
        svg("circle", { cx: round2(x), cy: round2(y), r: 5, class: "model" }),
        svg(
          "text",
          {
            x: round2(x + (end ? -10 : 10)),
            y: round2(y + 5),
            "text-anchor": end ? "end" : "start",
            class: "model",
          },
          letter(i),
        ),
      );
    });
    const named = el(
      "ul",
      { class: "marks" },
      item.marks.map((mark, i) =>
        el("li", {}, el("b", {}, letter(i)), ` ${mark.name}: ${format(mark[measure])}`),
      ),
    );
    box.replaceChildren(root, colorKey(range[0], range[1], format, heights), named);
  });
  return box;
}

function planeSaid(item, measure, format) {
  const [low, high] = extent(item[measure].flat(), 0);
  const marks = item.marks.map((mark) => `${mark.name} at ${format(mark[measure])}`);
  return `Plane of the ${measure} through ${item.title}, from ${format(low)} to ${format(high)}; ${listed(marks)}. It is ${plain(item.x.at(-1) - item.x[0])} wide and ${plain(item.y.at(-1) - item.y[0])} high in parameter distance.`;
}
