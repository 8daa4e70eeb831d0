/* The page: its parts in order, the theme, and news if it is live. */

/** The parts that are not analyses. `position` orders them among the analyses, whose titles and positions are in the document. */
const FIXED_PARTS = [
  {
    id: "results",
    title: "Results",
    position: 0,
    draw: drawResults,
    of: (doc) =>
      doc.methods.length
        ? [doc.boards, ...doc.methods.map(({ curves, recorded, ...rest }) => rest)]
        : [],
  },
  {
    id: "training",
    title: "Training",
    position: 10,
    of: (doc) => doc.methods.map((m) => m.curves),
    draw: drawTraining,
  },
  {
    id: "recorded",
    title: "Recorded during training",
    short: "Recorded",
    position: 80,
    draw: drawRecorded,
    of: (doc) =>
      Object.keys(doc.recorded).length
        ? [doc.recorded, doc.methods.map((m) => m.recorded), doc.heatmaps]
        : [],
  },
  {
    id: "groups",
    title: "Clients in groups",
    short: "Groups",
    position: 110,
    of: (doc) => doc.groups,
    draw: drawGroups,
  },
  {
    id: "made",
    title: "How the runs were made",
    short: "Runs",
    position: 900,
    of: (doc) => doc.runs,
    draw: drawMade,
  },
  {
    id: "missing",
    title: "What is missing",
    short: "Missing",
    position: 910,
    of: (doc) => [...doc.problems, ...doc.missing],
    draw: drawMissing,
  },
];
let parts = [];

/** All parts in order: the fixed ones, and one for each kind of analysis. */
function partsOf(doc) {
  const analyses = doc.kinds.map((kind) => ({
    ...kind,
    of: (shown) => shown[kind.id],
    draw: DRAWINGS[kind.id] || ((section, shown) => drawAnyAnalysis(section, shown, kind.id)),
  }));
  return [...FIXED_PARTS, ...analyses].sort((a, b) => a.position - b.position);
}

let shownDocument = null,
  waiting = [];

/** Draw something that needs to know its width: once it stands in the page, and again when the width changes. */
function later(box, draw) {
  box.draw = draw;
  box.dataset.redraw = "";
  waiting.push(box);
}

function drawMissing(section, doc) {
  const list = (title, text) =>
    text.length
      ? [
          el("h3", {}, title),
          el(
            "ul",
            {},
            text.map((text) => el("li", {}, ...coded(text))),
          ),
        ]
      : [];
  section.append(
    ...list("Could not be read", doc.problems),
    ...list("Was not measured", doc.missing),
  );
}

const coded = (text) => text.split("`").map((part, i) => (i % 2 ? el("code", {}, part) : part));

/** Draw one part again, or all of them; the focus and what was open stay. */
function redraw(id) {
  const focus = document.activeElement?.dataset?.key;
  for (const part of parts) if (!id || part.id === id) drawPart(part, shownDocument);
  const again =
    focus &&
    [...document.querySelectorAll("[data-key]")].find((node) => node.dataset.key === focus);
  if (again && again !== document.activeElement) again.focus({ preventScroll: true });
}

/** The document without the analyses of other sections than the chosen one. */
function chosenSection(doc) {
  if (!doc.boards.some((board) => board.title === state.board)) return doc;
  const keep = (name) => doc[name].filter((one) => one.section === state.board);
  const names = [...doc.kinds.map((kind) => kind.id), "heatmaps", "groups"];
  return bare({ ...doc, ...Object.fromEntries(names.map((name) => [name, keep(name)])) });
}

function drawPart(part, whole) {
  const doc = chosenSection(whole);
  const section = document.getElementById(part.id),
    there = part.of(doc).length > 0;
  const open = new Set(
      [...section.querySelectorAll("details[open]")].map((node) => node.dataset.key),
    ),
    again = section.children.length > 1;
  section.hidden = !there;
  document.getElementById(`to-${part.id}`).hidden = !there;
  section.replaceChildren(section.firstElementChild);
  if (!there) return;
  part.draw(section, doc);
  if (again)
    for (const node of section.querySelectorAll("details")) node.open = open.has(node.dataset.key);
  settle();
}

/** Draw what waited for its width. */
function settle() {
  const boxes = waiting;
  waiting = [];
  boxes.forEach((box) => box.draw());
}

function show(doc) {
  const before = shownDocument;
  shownDocument = doc;
  document.title = `${doc.title} · fedflat`;
  document.querySelector("h1").textContent = doc.title;
  document.getElementById("lead").textContent = doc.lead;
  const runs = `${doc.runs.length} ${doc.runs.length === 1 ? "run" : "runs"}`;
  const faults = doc.problems.length === 1 ? "1 problem" : `${whole(doc.problems.length)} problems`;
  document
    .getElementById("about")
    .replaceChildren(
      [runs, `fedflat ${doc.fedflat}`, ...(doc.live ? [] : [doc.made])].join(" · "),
      ...(doc.problems.length ? [" · ", el("a", { href: "#missing" }, faults)] : []),
    );
  const focus = document.activeElement?.dataset?.key;
  for (const part of parts)
    if (!before || JSON.stringify(part.of(before)) !== JSON.stringify(part.of(doc)))
      drawPart(part, doc);
  const again =
    focus &&
    [...document.querySelectorAll("[data-key]")].find((node) => node.dataset.key === focus);
  if (again && again !== document.activeElement) again.focus({ preventScroll: true });
}

function build(doc) {
  parts = partsOf(doc);
  const theme = el("button", {
    type: "button",
    id: "theme",
    click: () => setTheme(dark() ? "light" : "dark"),
  });
  document.body.prepend(
    el("a", { class: "skip", href: "#results" }, "Skip to the results"),
    el(
      "header",
      {},
      el(
        "div",
        { class: "bar" },
        el("p", { class: "brand" }, "fedflat"),
        el("p", { id: "news", role: "status" }),
        theme,
      ),
      el("h1", {}),
      el("p", { id: "lead" }),
      el("p", { id: "about" }),
    ),
    el(
      "nav",
      { "aria-label": "Parts of the report" },
      el(
        "ul",
        {},
        parts.map((part) =>
          el(
            "li",
            { id: `to-${part.id}` },
            el("a", { href: `#${part.id}` }, part.short || part.title),
          ),
        ),
      ),
    ),
    el(
      "main",
      {},
      parts.map((part) =>
        el(
          "section",
          { id: part.id, "aria-labelledby": `head-${part.id}` },
          el("h2", { id: `head-${part.id}` }, part.title),
        ),
      ),
    ),
    el(
      "footer",
      {},
      el("p", {}, "Made by fedflat. This page contains its data and uses no network."),
    ),
  );
  if (doc.live)
    document.querySelector("footer p").textContent =
      "Made by fedflat. This page sends requests only to its own server.";
  setTheme(state.theme);
  show(doc);
}

/** Light or dark as chosen, or as the system has it. */
function setTheme(theme) {
  state.theme = theme;
  document.documentElement.dataset.theme =
    theme || (window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const button = document.getElementById("theme");
  button.textContent = dark() ? "Light" : "Dark";
  button.setAttribute("aria-label", `Switch to ${dark() ? "light" : "dark"} colours`);
  if (shownDocument) redraw();
}

/** As wide as a sheet, for charts drawn in its proportions. */
const onPaper = (is) => document.documentElement.classList.toggle("paper", is);

/** Request the document every two seconds; show a message if there is no reply. */
async function follow() {
  const news = document.getElementById("news");
  try {
    const answer = await fetch("data.json", { cache: "no-cache" });
    if (!answer.ok) throw new Error(answer.statusText);
    show(bare({ ...parsed(await answer.text()), live: true }));
    const going = shownDocument.runs.some((run) => run.status === "running");
    news.textContent = going
      ? "live"
      : shownDocument.runs.length
        ? "all runs have ended"
        : "waiting for the first run";
  } catch (error) {
    news.textContent = "no updates: the server of this page does not answer";
  }
  setTimeout(follow, 2000);
}

let width = window.innerWidth,
  settling = 0;
window.addEventListener("resize", () => {
  if (window.innerWidth === width) return;
  width = window.innerWidth;
  clearTimeout(settling);
  settling = setTimeout(
    () => document.querySelectorAll("[data-redraw]").forEach((box) => box.draw()),
    120,
  );
});
window
  .matchMedia("(prefers-color-scheme: dark)")
  .addEventListener("change", () => setTheme(state.theme));
window.addEventListener("beforeprint", () => {
  state.before = state.theme;
  onPaper(true);
  setTheme("light");
});
window.addEventListener("afterprint", () => {
  onPaper(false);
  setTheme(state.before);
});

build(parsed(document.getElementById("data").textContent));
if (shownDocument.live) follow();
