"use strict";
/* What every chart needs: elements, numbers for people, scales, colours. */

/** An object whose only names are those it is given: a method or a class may be called "constructor". */
const bare = (entries) => Object.assign(Object.create(null), entries);
const parsed = (text) =>
  JSON.parse(text, (_, value) =>
    value && typeof value === "object" && !Array.isArray(value) ? bare(value) : value,
  );

/** How each kind of analysis is drawn, by its name: a function of a section of the page and the document. */
const DRAWINGS = bare({});
const state = bare({ hidden: new Set(), theme: "" });

/** An HTML element; attributes that are functions are listeners. Text is never read as HTML. */
function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false)
      node.setAttribute(name, value);
  }
  node.append(
    ...children.flat().filter((child) => child !== null && child !== undefined && child !== ""),
  );
  return node;
}

const known = (value) => typeof value === "number" && Number.isFinite(value);

/* The rule for digits: shares are percentages with two decimals, other measured numbers have four significant digits,
   a spread has the decimals of its number, counts are whole, bytes and times have three digits. Ticks and coordinates,
   which are chosen and not measured, are as short as they can be. */
const DIGITS = 4;

function number(value, digits = DIGITS) {
  if (!known(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return scientific(value, digits);
  if (size >= 10 ** (digits - 1)) return Math.round(value).toLocaleString("en");
  return value.toPrecision(digits);
}

function scientific(value, digits, short = false) {
  const [factor, power] = value.toExponential(digits - 1).split("e");
  const raised = [...power.replace("+", "")]
    .map((sign) => (sign === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign]))
    .join("");
  return short && Number(factor) === 1
    ? `10${raised}`
    : `${short ? Number(factor) : factor}·10${raised}`;
}

/** A tick or a coordinate. */
function plain(value, digits = 3) {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  if (size && (size >= 1e6 || size < 1e-4)) return scientific(value, digits, true);
  return size >= 1000
    ? Math.round(value).toLocaleString("en")
    : String(Number(value.toPrecision(digits)));
}

/** A spread with the decimals of its number. */
function around(value, spread) {
  const text = number(value),
    decimals = (text.split(".")[1] || "").length;
  return text.includes("·") || (spread !== 0 && spread < 0.5 * 10 ** -decimals)
    ? number(spread)
    : spread.toFixed(decimals);
}

const percent = (value) => (known(value) ? (100 * value).toFixed(2) : "–");
const percents = (value) => (known(value) ? `${percent(value)} %` : "–");
const percentTick = (value) => String(Number((100 * value).toFixed(2)));
/** How people see the score that a board is judged by: a number, its spread, with the unit, on an axis. */
function judgedBy({ label, title, unit, factor, higher_is_better }) {
  const share = unit === "%",
    seen = (value) => (known(value) ? factor * value : null);
  const text = (value) =>
    share ? (known(value) ? seen(value).toFixed(2) : "–") : number(seen(value));
  return {
    label,
    title,
    unit,
    higher: higher_is_better,
    bare: text,
    head: (words) => (unit ? `${words} ${unit}` : words),
    off: (value, spread) => (share ? seen(spread).toFixed(2) : around(seen(value), seen(spread))),
    format: (value) => (unit && known(value) ? `${text(value)} ${unit}` : text(value)),
    tick: (value, digits) =>
      share ? String(Number(seen(value).toFixed(2))) : plain(seen(value), digits),
  };
}

const whole = (value) => (known(value) ? Math.round(value).toLocaleString("en") : "–");

function bytes(value) {
  if (!known(value)) return "–";
  for (const [unit, step] of [
    ["GB", 1e9],
    ["MB", 1e6],
    ["kB", 1e3],
  ])
    if (value >= step) return `${(value / step).toPrecision(3)}\u00a0${unit}`;
  return `${Math.round(value)}\u00a0B`;
}

function seconds(value) {
  if (!known(value)) return "–";
  if (value < 60) return `${value.toPrecision(3)}\u00a0s`;
  const minutes = Math.floor(value / 60);
  const rest = (count) => String(Math.floor(count)).padStart(2, "0");
  return value < 3600
    ? `${minutes} min ${rest(value % 60)} s`
    : `${Math.floor(minutes / 60)} h ${rest(minutes % 60)} min`;
}

/** Round numbers in [low, high], about `count` of them. */
function ticks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step =
    [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999) || power;
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++)
    found.push(Number((i * step).toPrecision(12)));
  return found;
}

function powers(low, high, count) {
  const first = Math.ceil(Math.log10(low) - 1e-9),
    last = Math.floor(Math.log10(high) + 1e-9);
  const step = Math.max(1, Math.ceil((last - first) / Math.max(1, count)));
  const found = [];
  for (let i = first; i <= last; i += step) found.push(10 ** i);
  return found.length > 1 ? found : ticks(low, high, count).filter((tick) => tick > 0);
}

/** The ticks as texts, with as many digits as tell them apart. */
function labels(marks, format) {
  let found = marks.map((mark) => format(mark));
  for (let digits = 4; digits < 9 && new Set(found).size < found.length; digits++)
    found = marks.map((mark) => format(mark, digits));
  return found;
}

/** From values to pixels; `log` for a logarithmic axis. */
function scale(low, high, from, to, log = false) {
  const at = log ? Math.log10 : (value) => value;
  const a = at(low),
    b = at(high);
  const place = (value) => from + ((at(value) - a) / (b - a || 1)) * (to - from);
  place.back = (pixel) => {
    const value = a + ((pixel - from) / (to - from || 1)) * (b - a);
    return log ? 10 ** value : value;
  };
  return place;
}

/** Least and largest of the known values with a little air; never empty. */
function extent(values, air = 0.04) {
  let low = Infinity,
    high = -Infinity;
  for (const value of values)
    if (known(value)) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  if (low > high) return [0, 1];
  if (low === high) return [low - (Math.abs(low) || 1) * 0.5, high + (Math.abs(high) || 1) * 0.5];
  const margin = (high - low) * air;
  return [low - margin, high + margin];
}

/* Ten colours, ten dashes, ten marks. Dash and mark move on by one with each repetition of the colours, so that LOOKS methods differ. */
const LOOKS = 100;
/** The same method looks the same in every section. */
const lookOf = (method) => shownDocument?.methods[method]?.look ?? method;
const tone = (place) => `var(--c${place % 10})`;
const color = (method) => tone(lookOf(method));
const variant = (method) => (lookOf(method) + Math.floor(lookOf(method) / 10)) % 10;
const DASHES = [
  "",
  "7 4",
  "2 3",
  "10 4 2 4",
  "1 4",
  "12 3",
  "5 2 1 2",
  "3 6",
  "8 2 2 2 2 2",
  "4 1",
];
const dash = (method) => DASHES[variant(method)];

/** A sign for a method, so that colour is never the only difference. */
function marker(method, x, y, size = 4) {
  const at = (points) =>
    points
      .map(([a, b], i) => `${i ? "L" : "M"}${round2(x + a * size)} ${round2(y + b * size)}`)
      .join("") + "Z";
  const shapes = [
    null,
    [
      [-0.9, -0.9],
      [0.9, -0.9],
      [0.9, 0.9],
      [-0.9, 0.9],
    ],
    [
      [0, -1.2],
      [1.1, 0.9],
      [-1.1, 0.9],
    ],
    [
      [0, -1.25],
      [1.25, 0],
      [0, 1.25],
      [-1.25, 0],
    ],
    [
      [0, 1.2],
      [1.1, -0.9],
      [-1.1, -0.9],
    ],
    [
      [-0.4, -1.2],
      [0.4, -1.2],
      [0.4, -0.4],
      [1.2, -0.4],
      [1.2, 0.4],
      [0.4, 0.4],
      [0.4, 1.2],
      [-0.4, 1.2],
      [-0.4, 0.4],
      [-1.2, 0.4],
      [-1.2, -0.4],
      [-0.4, -0.4],
    ],
    [
      [-1.2, 0],
      [0.9, -1.1],
      [0.9, 1.1],
    ],
    [
      [1.2, 0],
      [-0.9, -1.1],
      [-0.9, 1.1],
    ],
    [
      [-1.3, -0.5],
      [1.3, -0.5],
      [1.3, 0.5],
      [-1.3, 0.5],
    ],
    [
      [-0.5, -1.3],
      [0.5, -1.3],
      [0.5, 1.3],
      [-0.5, 1.3],
    ],
  ];
  const shape = shapes[variant(method)];
  return shape
    ? svg("path", { d: at(shape), fill: color(method), class: "mark" })
    : svg("circle", { cx: round2(x), cy: round2(y), r: size, fill: color(method), class: "mark" });
}

const round2 = (value) => Math.round(value * 100) / 100;

/* Colours of heights and cells. */
const HEIGHTS = [
  [45, 32, 110],
  [38, 92, 158],
  [42, 152, 146],
  [140, 197, 98],
  [247, 221, 96],
];
const dark = () => document.documentElement.dataset.theme === "dark";

function mix(stops, share) {
  const place = Math.min(1, Math.max(0, share)) * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(place)),
    rest = place - i;
  return stops[i].map((value, channel) => value + (stops[i + 1][channel] - value) * rest);
}

const heights = (share) => mix(HEIGHTS, share);
const inks = (share) =>
  mix(
    dark()
      ? [
          [32, 36, 43],
          [36, 92, 140],
          [120, 200, 250],
        ]
      : [
          [243, 241, 236],
          [110, 170, 208],
          [6, 58, 100],
        ],
    share,
  );
/** Colours of values of both signs: 0 has the middle one. */
const signs = (share) =>
  mix(
    dark()
      ? [
          [245, 160, 90],
          [140, 78, 36],
          [32, 36, 43],
          [36, 92, 140],
          [120, 200, 250],
        ]
      : [
          [120, 50, 4],
          [222, 154, 98],
          [243, 241, 236],
          [110, 170, 208],
          [6, 58, 100],
        ],
    share,
  );
const rgb = ([r, g, b]) => `rgb(${Math.round(r)} ${Math.round(g)} ${Math.round(b)})`;

/** A value that stays the same when the page is drawn again. */
function remembered(key, initial) {
  if (!(key in state)) state[key] = initial;
  return state[key];
}

const sentence = (parts) => parts.filter(Boolean).join(" ");
const note = (text, hint = "") =>
  el("p", { class: "note" }, text, hint ? el("span", { class: "hint" }, ` ${hint}`) : null);
const listed = (words) =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
