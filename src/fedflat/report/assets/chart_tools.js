/* Tools of charts: smoothing, zoom, the stretch of dense evaluations, and saving a chart as a file. */

const SMOOTHING = [
  ["0", "None"],
  ["0.03", "Light"],
  ["0.1", "Strong"],
];
/** Values of the first rounds are left out of the vertical axis if it shrinks to this share without them. */
const SHRINKS = 0.8;
const EARLY = 0.1,
  MANY = 20;

/** The mean of all values within a share of the axis around each place. */
function smoothed(x, values, share) {
  if (!share || !values) return values;
  const [low, high] = extent(x, 0),
    reach = ((high - low) * share) / 2;
  return values.map((value, i) => {
    if (!known(value) || !known(x[i])) return value;
    let sum = 0,
      count = 0;
    values.forEach((other, j) => {
      if (known(other) && Math.abs(x[j] - x[i]) <= reach) {
        sum += other;
        count++;
      }
    });
    return sum / count;
  });
}

const smoothSeries = (series, share) =>
  share
    ? series.map((one) => ({
        ...one,
        y: smoothed(one.x, one.y, share),
        low: smoothed(one.x, one.low, share),
        high: smoothed(one.x, one.high, share),
      }))
    : series;

/** The range of values at the places within `x`. */
function valuesWithin(series, [from, to]) {
  const found = [];
  for (const one of series)
    one.x.forEach((x, i) => {
      if (!known(x) || x < from || x > to) return;
      for (const values of [one.y, one.low, one.high]) if (values) found.push(values[i]);
    });
  return found;
}

/** Where the vertical axis begins and ends: without the first tenth of many values if it then shows clearly more. */
function settledRange(series, whole) {
  if (Math.max(0, ...series.map((one) => one.x.length)) < MANY)
    return extent(valuesWithin(series, whole));
  const all = extent(valuesWithin(series, whole)),
    later = extent(
      valuesWithin(series, [whole[0] + EARLY * (whole[1] - whole[0]), whole[1]]),
    );
  return later[1] - later[0] < SHRINKS * (all[1] - all[0]) ? later : all;
}

/** Drag over a chart, or + and - while it has the focus, to see a part of the axis; 0 or a double click shows all. */
function zoomable(plot, whole, options) {
  const { root, X } = plot,
    set = (range) => {
      const small = range && range[1] - range[0] >= (whole[1] - whole[0]) / 500;
      if (range && !small) return;
      state[options.zoom] =
        range && (range[0] > whole[0] || range[1] < whole[1])
          ? [Math.max(whole[0], range[0]), Math.min(whole[1], range[1])]
          : null;
      redraw(options.part);
    };
  const box = svg("rect", { class: "zoom", y: plot.top, height: plot.bottom - plot.top, width: 0 });
  root.append(box);
  let from = null;
  const at = (event) =>
    Math.min(
      plot.right,
      Math.max(plot.left, event.clientX - root.getBoundingClientRect().left),
    );
  root.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && event.button === 0) from = at(event);
  });
  root.addEventListener("pointermove", (event) => {
    if (from === null) return;
    box.setAttribute("x", round2(Math.min(from, at(event))));
    box.setAttribute("width", round2(Math.abs(at(event) - from)));
  });
  const end = (event) => {
    const to = at(event),
      start = from;
    from = null;
    box.setAttribute("width", 0);
    if (start !== null && Math.abs(to - start) > 8)
      set([X.back(Math.min(start, to)), X.back(Math.max(start, to))]);
  };
  root.addEventListener("pointerup", end);
  root.addEventListener("pointerleave", () => {
    from = null;
    box.setAttribute("width", 0);
  });
  root.addEventListener("dblclick", () => set(null));
  root.addEventListener("keydown", (event) => {
    const factor = { "+": 0.5, "=": 0.5, "-": 2 }[event.key];
    if (event.key === "0") set(null);
    else if (factor) {
      const now = state[options.zoom] || whole,
        middle = plot.cursor?.() ?? (now[0] + now[1]) / 2,
        half = ((now[1] - now[0]) * factor) / 2;
      set([middle - half, middle + half]);
    } else return;
    event.preventDefault();
  });
}

/** The rounds over which the score is averaged, in which there is an evaluation after every round. */
function markDense(plot, [from, to], text) {
  const left = Math.max(plot.left, plot.X(from)),
    right = Math.min(plot.right, plot.X(to));
  if (right - left < 2) return;
  plot.drawing.before(
    svg(
      "rect",
      {
        x: round2(left),
        y: plot.top,
        width: round2(right - left),
        height: plot.bottom - plot.top,
        class: "dense",
      },
      svg("title", {}, text),
    ),
    svg("line", {
      x1: round2(left),
      x2: round2(left),
      y1: plot.top,
      y2: plot.bottom,
      class: "dense-edge",
    }),
  );
}

/** The buttons under a chart that save it. */
function savers(title, drawing, table) {
  const name = title
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "");
  const button = (kind, work) =>
    el(
      "button",
      { type: "button", "aria-label": `Save as ${kind}: ${title}`, click: work },
      kind,
    );
  const chart = () => drawing.querySelector("svg.chart");
  return el(
    "p",
    { class: "save" },
    "Save: ",
    button("SVG", () => chart() && save(`${name}.svg`, svgText(chart(), drawing.entries), "image/svg+xml")),
    button("PNG", () => chart() && savePng(`${name}.png`, chart(), drawing.entries)),
    table ? button("CSV", () => save(`${name}.csv`, csvText(table()), "text/csv")) : null,
  );
}

function save(name, text, type) {
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const csvText = ({ heads, rows }) =>
  [heads, ...rows]
    .map((row) =>
      row
        .map((cell) => {
          const text = String(cell);
          return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
        })
        .join(","),
    )
    .join("\n") + "\n";

const SAVED_STYLES = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-linejoin",
  "stroke-opacity",
  "opacity",
  "font-family",
  "font-size",
  "font-weight",
  "paint-order",
  "image-rendering",
];

/** A chart that stands alone: its styles written out, on the colour of the page, with a legend below. */
function svgText(root, entries = []) {
  const copy = root.cloneNode(true),
    originals = [root, ...root.querySelectorAll("*")],
    copies = [copy, ...copy.querySelectorAll("*")];
  originals.forEach((node, i) => {
    const style = getComputedStyle(node);
    for (const name of SAVED_STYLES) {
      copies[i].removeAttribute(name);
      copies[i].style.setProperty(name, style.getPropertyValue(name));
    }
    for (const name of ["class", "data-key", "tabindex"]) copies[i].removeAttribute(name);
  });
  const [, , width, height] = root.getAttribute("viewBox").split(" ").map(Number),
    page = getComputedStyle(document.body),
    tall = height + (entries.length ? 8 + 18 * entries.length : 0);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("viewBox", `0 0 ${width} ${tall}`);
  copy.setAttribute("height", tall);
  copy.prepend(svg("rect", { width, height: tall, fill: page.backgroundColor }));
  entries.forEach(({ method, name }, i) => {
    const y = height + 8 + 18 * i + 6,
      tint = getComputedStyle(document.documentElement)
        .getPropertyValue(color(method).slice(4, -1))
        .trim(),
      mark = marker(method, 24, y, 4);
    mark.setAttribute("fill", tint);
    copy.append(
      svg("line", {
        x1: 8,
        x2: 40,
        y1: y,
        y2: y,
        stroke: tint,
        "stroke-width": 2,
        "stroke-dasharray": dash(method),
      }),
      mark,
      svg(
        "text",
        { x: 48, y: y + 4, fill: page.color, "font-family": "sans-serif", "font-size": 12 },
        name,
      ),
    );
  });
  return new XMLSerializer().serializeToString(copy);
}

function savePng(name, root, entries) {
  const picture = new Image(),
    text = svgText(root, entries);
  picture.addEventListener("load", () => {
    const canvas = el("canvas", { width: picture.width * 3, height: picture.height * 3 });
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(name, blob, "image/png"));
  });
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
}
