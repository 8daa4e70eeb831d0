/* The results of each section as tables. */

/** A number and, below it or behind it, its spread. */
const spreadScore = (judged, value, off) =>
  known(value) && known(off) ? [judged.bare(value), judged.off(value, off)] : [judged.bare(value)];
const spread = (value, off) =>
  known(value) && known(off) ? [number(value), around(value, off)] : [number(value)];
const cell = (text) =>
  Array.isArray(text) && text.length > 1
    ? [text[0], " ", el("span", { class: "off" }, `± ${text[1]}`)]
    : [text].flat();

/** A table with a row for each analysed run; columns are pairs of a name and a function. */
const methodTable = (caption, columns, items) =>
  el(
    "table",
    { class: "wide" },
    el("caption", { class: "unseen" }, caption),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        ["method", ...columns.map(([name]) => name)].map((name) =>
          el("th", { scope: "col" }, name),
        ),
      ),
    ),
    el(
      "tbody",
      {},
      items.map((item) =>
        el(
          "tr",
          {},
          el(
            "th",
            { scope: "row" },
            el("code", { title: item.label }, shortLabel(item)),
            item.under ? el("small", {}, item.under) : null,
          ),
          columns.map(([, text]) => el("td", {}, cell(text(item)))),
        ),
      ),
    ),
  );

/** The row head of a method in a table of results. */
const methodHead = (doc, i) =>
  el("th", { scope: "row" }, el("div", {}, sign(i), el("code", {}, called(doc.methods[i]))));

/** The methods of one section, by their places. */
const membersOf = (doc, place) =>
  doc.methods.map((_, i) => i).filter((i) => doc.methods[i].board === place);
const boardsOf = (doc) =>
  doc.boards
    .map((board, place) => ({
      ...board,
      judged: judgedBy(board.headline),
      methods: membersOf(doc, place),
      which: doc.boards.length > 1 ? `: ${board.title}` : "",
    }))
    .filter(
      (board, _, all) =>
        !all.some((one) => one.title === state.board) || board.title === state.board,
    );
/** The longest text of a method that a table prints; a longer one is folded. */
const LONGEST_NAME = 36;
const folded = (m) => m.name.length > LONGEST_NAME && m.short.length < m.name.length;
/** What a method is called in tables: its name, or a short name if that is long. */
const called = (m) => (folded(m) ? m.short : m.name);
/** The name of a method in a table; its text, where it is long, opens on a click. */
const nameCell = (m, key) =>
  folded(m)
    ? el(
        "details",
        { class: "folded", "data-key": `name ${key}` },
        el("summary", {}, el("code", {}, m.short)),
        el("code", {}, m.name),
      )
    : el("code", {}, m.name);
const legendOf = (doc, { methods }) =>
  methods.length > 1 ? legend(methods.map((place) => ({ ...doc.methods[place], place }))) : null;
/** The name of a section, where there are several. */
const sectionHead = ({ which, short }) =>
  which ? el("h3", { class: "section" }, el("code", {}, short)) : "";
/** Numbers that are the same in all runs, or from the least to the largest. */
const rangeText = (values) => {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return low === high ? whole(low) : `${whole(low)} to ${whole(high)}`;
};
const scenario = ({ data_set: set, partition, task, facts }) => {
  const count = (name, one, many) =>
    facts[name].length
      ? `${rangeText(facts[name])} ${facts[name].every((value) => value === 1) ? one : many}`
      : "";
  const sizes = [
    count("clients", "client", "clients"),
    count("examples", "training example", "training examples"),
    count("test_examples", "test example", "test examples"),
    count("classes", "class", "classes"),
    count("parameters", "parameter", "parameters"),
  ].filter(Boolean);
  return el(
    "p",
    { class: "note scenario" },
    "Data set: ",
    el("code", {}, set),
    ". Partition: ",
    el("code", {}, partition),
    ". Task: ",
    el("code", {}, task),
    ". Model: ",
    ...facts.models.flatMap((text, i) => [i ? ", " : "", el("code", {}, text)]),
    ".",
    sizes.length ? el("span", { class: "sizes" }, ` ${sizes.join(", ")}.`) : "",
  );
};
/** The names of the settings and arguments in which the methods differ, which have columns. */
const settingsOf = (methods) => [...new Set(methods.flatMap((m) => Object.keys(m.columns)))];
/** What is shown: rows that all chosen settings fit. */
const fits = (m) =>
  Object.entries(state.filters || {}).every(
    ([name, value]) => value === ALL || !(name in m.columns) || m.columns[name] === value,
  );
const ALL = "all";
/** Lists from which values of settings are chosen; other rows and lines are hidden. */
function filters(doc, board) {
  const methods = board.methods.map((i) => doc.methods[i]),
    names = settingsOf(methods);
  remembered("filters", bare({}));
  return names.map((name) => {
    const values = [...new Set(methods.map((m) => m.columns[name]).filter((v) => v !== undefined))];
    return el(
      "label",
      { class: "select" },
      el("span", {}, plainName(name)),
      el(
        "select",
        {
          "data-key": `filter ${name}${board.which}`,
          change: (event) => {
            state.filters[name] = event.target.value;
            doc.methods.forEach((m, i) => {
              if (name in m.columns) state.hidden[fits(m) ? "delete" : "add"](i);
            });
            redraw();
          },
        },
        [ALL, ...values].map((value) =>
          el("option", { value, selected: (state.filters[name] || ALL) === value }, value),
        ),
      ),
    );
  });
}
const testsOf = (methods) =>
  [...new Set(methods.flatMap((m) => Object.keys(m.tests)))].filter((name) => !name.includes("/"));
const domainsOf = (methods) =>
  [...new Set(methods.flatMap((m) => Object.keys(m.tests)))].filter((name) => name.includes("/"));

const VALIDATION = "validation",
  CHOSEN = "the evaluation with the best score on the validation set";

/** The columns of a table: a head, the number to sort by, the text to show. Columns without any value are left out. */
function columns(methods, { judged, target: wanted, headline }) {
  const target = wanted === null ? "" : judged.format(wanted).replace(" ", "\u00a0");
  const score = (m) =>
    m.diverged && m.diverged === m.seeds
      ? "diverged"
      : known(m.score)
        ? spreadScore(judged, m.score, m.spread)
        : known(m.now)
          ? `${judged.bare(m.now)} so far`
          : "–";
  return [
    ["method", "Method", (m) => m.name, (m) => m.name],
    ...settingsOf(methods).map((name) => [
      `setting.${name}`,
      plainName(name),
      (m) => {
        const value = m.columns[name];
        return value === undefined || value === "" || Number.isNaN(Number(value)) ? (value ?? "") : Number(value);
      },
      (m) => m.columns[name] ?? "–",
    ]),
    [headline.name, judged.head(judged.title), (m) => m.score ?? m.now, score],
    ...(methods.some((m) => m.by_validation)
      ? []
      : [
          [
            "chosen",
            judged.head("Chosen"),
            (m) => m.chosen,
            (m) => spreadScore(judged, m.chosen, m.chosen_spread),
          ],
        ]),
    ...testsOf(methods).map((name) => [
      `tests.${name}`,
      judged.head(name === VALIDATION ? "Validation" : name),
      (m) => m.tests[name]?.[0],
      (m) => spreadScore(judged, ...(m.tests[name] || [])),
    ]),
    [
      "personal",
      judged.head("Personal"),
      (m) => m.personal,
      (m) => spreadScore(judged, m.personal, m.personal_spread),
    ],
    ...(headline.name === "loss" ? [] : [["loss", "Loss", (m) => m.loss, (m) => spread(m.loss, m.loss_spread)]]),
    ["tried", "Settings tried", (m) => (m.tried > 1 ? m.tried : null), (m) => whole(m.tried)],
    ["lambda_1", "λ₁", (m) => m.lambda_1, (m) => spread(m.lambda_1, m.lambda_1_spread)],
    ["scaled", "λ₁‖w‖²", (m) => m.scaled, (m) => spread(m.scaled, m.scaled_spread)],
    ["trace", "Trace", (m) => m.trace, (m) => spread(m.trace, m.trace_spread)],
    [
      "rounds_to_target",
      `Rounds\u00a0to ${target}`,
      (m) => m.rounds_to_target,
      (m) => whole(m.rounds_to_target),
    ],
    [
      "bytes_to_target",
      `Sent\u00a0to ${target}`,
      (m) => m.bytes_to_target,
      (m) => bytes(m.bytes_to_target),
    ],
    [
      "clock_to_target",
      `Simulated\u00a0to ${target}`,
      (m) => m.clock_to_target,
      (m) => seconds(m.clock_to_target),
    ],
    ["bytes", "Sent\u00a0in\u00a0all", (m) => m.bytes, (m) => bytes(m.bytes)],
    ["clock", "Simulated\u00a0in\u00a0all", (m) => m.clock, (m) => seconds(m.clock)],
    ["seconds", "Time", (m) => m.seconds, (m) => seconds(m.seconds)],
    ["speed", "Samples/s", (m) => m.speed, (m) => whole(m.speed)],
  ].filter(
    ([key, , value]) =>
      key === "method" ||
      key === headline.name ||
      key.startsWith("setting.") || methods.some((method) => known(value(method))),
  );
}

function drawResults(section, doc) {
  const boards = boardsOf(doc);
  if (new Set(boards.map((board) => board.headline.name)).size > 1)
    section.append(note("Runs that have different headline scores are in different sections."));
  if (doc.methods.length > LOOKS)
    section.append(
      note(
        `There are ${whole(doc.methods.length)} rows, and ${LOOKS} combinations of colour, dash and mark: they repeat from row ${LOOKS + 1} on.`,
      ),
    );
  if (doc.boards.length > 1)
    section.append(
      el(
        "div",
        { class: "controls" },
        sectionChoice(doc),
      ),
    );
  boards.forEach((board) => {
    section.append(
      sectionHead(board),
      scenario(board),
      board.which && board.lead ? el("p", { class: "lead" }, board.lead) : "",
    );
    drawBoard(section, doc, board, board.which);
  });
}

/** Which data set and partition the page shows. */
function sectionChoice(doc) {
  const titles = [ALL, ...doc.boards.map((board) => board.title)];
  if (!titles.includes(state.board)) state.board = ALL;
  return el(
    "label",
    { class: "select" },
    el("span", {}, "Data set and partition"),
    el(
      "select",
      {
        "data-key": "board",
        change: (event) => {
          state.board = event.target.value;
          redraw();
        },
      },
      titles.map((title) => el("option", { value: title, selected: title === state.board }, title)),
    ),
  );
}

function drawBoard(section, doc, board, which) {
  const heads = columns(
      board.methods.map((i) => doc.methods[i]),
      board,
    ),
    sort = remembered("sort", { key: "", down: false });
  const value = heads.find(([key]) => key === sort.key)?.[2];
  const order = board.methods.filter((i) => fits(doc.methods[i])),
    chosen = filters(doc, board);
  const rising = ["method", "loss", "lambda_1", "scaled", "trace"];
  const first = (key) =>
    key === board.headline.name || key === "personal" || key.startsWith("tests.")
      ? board.judged.higher
      : !rising.includes(key);
  if (value) order.sort((a, b) => compare(value(doc.methods[a]), value(doc.methods[b]), sort.down));
  const head = ([key, name]) =>
    el(
      "th",
      {
        scope: "col",
        "aria-sort": sort.key === key ? (sort.down ? "descending" : "ascending") : "none",
      },
      el(
        "button",
        {
          type: "button",
          "data-key": `sort ${key}${which}`,
          click: () => {
            state.sort = { key, down: sort.key === key ? !sort.down : first(key) };
            redraw("results");
          },
          title: CURVED.includes(key)
            ? curvedNote(
                doc,
                board.methods.map((i) => doc.methods[i]),
              )
            : null,
        },
        name,
      ),
    );
  const row = (i) =>
    el(
      "tr",
      { class: board.ahead === i ? "best" : "" },
      heads.map(([key, , , text]) =>
        key === "method"
          ? el(
              "th",
              { scope: "row" },
              el(
                "div",
                {},
                sign(i),
                el("span", {}, nameCell(doc.methods[i], i), counted(doc.methods[i])),
              ),
            )
          : el(
              "td",
              { class: key === board.headline.name ? "score" : null },
              cell(text(doc.methods[i])),
            ),
      ),
    );
  if (chosen.length) section.append(el("div", { class: "controls filters" }, chosen));
  section.append(
    scrolling(
      el(
        "table",
        { class: "results" },
        el("caption", { class: "unseen" }, `Results of the methods${which}`),
        el("thead", {}, el("tr", {}, heads.map(head))),
        el("tbody", {}, order.map(row)),
      ),
      `Table of results${which}`,
    ),
    note(tableNote(doc, board), "Click a head to sort."),
  );
  drawDomains(section, doc, board, which);
  drawClassScores(section, doc, board, which);
}

/** The score in each domain of each test set. */
function drawDomains(section, doc, { judged, methods }, which) {
  const names = domainsOf(methods.map((i) => doc.methods[i])),
    last = (name) => name.endsWith("/std");
  if (!names.length) return;
  const sets = [...new Set(names.map((name) => name.split("/")[0]))].sort(
    (a, b) => (b === "test") - (a === "test"),
  );
  const of = (set) =>
    names.filter((name) => name.startsWith(`${set}/`)).sort((a, b) => last(a) - last(b));
  section.append(
    scrolling(
      el(
        "table",
        { class: "results domains" },
        el("caption", { class: "unseen" }, `The ${judged.label} by domain${which}`),
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            el("th", { scope: "col", rowspan: 2 }, "Method"),
            sets.map((set) =>
              el("th", { scope: "colgroup", colspan: of(set).length }, judged.head(set)),
            ),
          ),
          el(
            "tr",
            {},
            sets
              .flatMap(of)
              .map((name) => el("th", { scope: "col" }, name.slice(name.indexOf("/") + 1))),
          ),
        ),
        el(
          "tbody",
          {},
          methods.map((i) =>
            el(
              "tr",
              {},
              methodHead(doc, i),
              sets
                .flatMap(of)
                .map((name) =>
                  el("td", {}, cell(spreadScore(judged, ...(doc.methods[i].tests[name] || [])))),
                ),
            ),
          ),
        ),
      ),
      `Table by domain${which}`,
    ),
    note(
      `The ${judged.label} in each domain of each test set. std: its standard deviation over the domains.`,
    ),
  );
}

/** The IoU of each class, where each pixel has one. */
function drawClassScores(section, doc, { judged, methods }, which) {
  const names = [...new Set(methods.flatMap((i) => Object.keys(doc.methods[i].classes)))];
  if (!names.length) return;
  section.append(
    scrolling(
      el(
        "table",
        { class: "results domains" },
        el("caption", { class: "unseen" }, `The IoU of each class${which}`),
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            el("th", { scope: "col" }, "Method"),
            names.map((name) => el("th", { scope: "col" }, judged.head(name))),
          ),
        ),
        el(
          "tbody",
          {},
          methods.map((i) =>
            el(
              "tr",
              {},
              methodHead(doc, i),
              names.map((name) =>
                el("td", {}, cell(spreadScore(judged, ...(doc.methods[i].classes[name] || [])))),
              ),
            ),
          ),
        ),
      ),
      `Table by class${which}`,
    ),
    note("The IoU of each class on the test set."),
  );
}

const seedsText = (count) => (count === 1 ? "1 seed" : `${count} seeds`);

function counted(method) {
  const seeds =
    method.seeds === method.begun
      ? seedsText(method.seeds)
      : `${method.seeds} of ${method.begun} seeds have ended`;
  return el(
    "small",
    {},
    [seeds, method.diverged ? `${method.diverged} diverged` : ""].filter(Boolean).join(", "),
  );
}

/** What is not known comes last, whatever the order. */
function compare(a, b, down) {
  const sign = down ? -1 : 1;
  if (typeof a === "string" || typeof b === "string")
    return sign * String(a).localeCompare(String(b));
  return known(a) && known(b) ? sign * (a - b) : known(b) - known(a);
}

function tableNote(
  doc,
  {
    judged,
    headline,
    target,
    target_of_first: ofFirst,
    ahead,
    methods: members,
    last,
    tested_on: testedOn,
    curvature_of: measuredOn,
  },
) {
  const methods = members.map((i) => doc.methods[i]),
    seeds = methods.some((m) => m.seeds > 1),
    single = methods.some((m) => m.seeds === 1);
  const sets = testsOf(methods).filter((name) => name !== "drop" && name !== VALIDATION),
    validated = testsOf(methods).includes(VALIDATION),
    chosen = methods.some((m) => m.by_validation);
  const which = chosen
    ? CHOSEN
    : last > 1
      ? `mean of the evaluations in the last ${last} rounds`
      : "the last evaluation";
  return sentence([
    `${judged.title}${headline.name === "loss" ? "" : " and loss"} on ${testedOn}: ${which}${seeds ? ", ± the standard deviation over seeds" : " (1 seed)"}.`,
    judged.higher ? "" : `Less ${judged.label} is better.`,
    sets.length
      ? `${listed(sets)}: the ${judged.label} on ${sets.length > 1 ? "further test sets" : "a further test set"}.`
      : "",
    validated && !chosen ? `Chosen: the ${judged.label} on the test set at ${CHOSEN}.` : "",
    validated
      ? `Validation: the ${judged.label} on examples that were set aside, neither trained nor tested on.`
      : "",
    methods.some((m) => m.tried > 1)
      ? "Settings tried: in the sweep that the runs of the method belong to."
      : "",
    testsOf(methods).includes("drop")
      ? `Drop: how much worse the ${judged.label} is than that of the same run without its attack.`
      : "",
    methods.some((m) => known(m.clock))
      ? "Simulated: the time it would have taken on the clients' devices, by the run's clock."
      : "",
    target !== null
      ? `Target ${judged.format(target)}${ofFirst ? `: the ${judged.label} of the first method` : ""}.`
      : "",
    methods.length > 1 && ahead === null
      ? `No row is marked: ${single ? "with 1 seed, differences between methods may be due to chance" : "no method is ahead of all others by more than the spread over seeds"}.`
      : "",
    methods.some((m) => known(m.lambda_1))
      ? `λ₁${methods.some((m) => known(m.trace)) ? " and trace" : ""} of the Hessian${methods.some((m) => known(m.scaled)) ? ", ‖w‖ the norm of the weights" : ""}: ${measuredOn}.`
      : "",
    curvedNote(doc, methods),
  ]);
}

const CURVED = ["lambda_1", "scaled", "trace"];

/** What the ± of curvature is. */
function curvedNote(doc, methods) {
  const off = (name) => methods.some((m) => known(m[`${name}_spread`])),
    some = doc.curvature.some(
      (one) => methods.includes(doc.methods[one.method]) && known(one.subsample?.lambda_1_spread),
    );
  const seeds = methods.some((m) => m.seeds > 1),
    over = [some ? "disjoint parts of the examples" : "", seeds ? "seeds" : ""].filter(Boolean);
  return sentence([
    off("lambda_1")
      ? `± of λ₁${off("scaled") ? " and λ₁‖w‖²" : ""}: the standard deviation over ${over.join(" or over ")}${over.length > 1 ? ", whichever is larger" : ""}.${methods.length > 1 ? " Where it is larger than the difference between two methods, λ₁ does not rank them." : ""}`
      : "",
    off("trace")
      ? `± of the trace: its standard error over random vectors${over.length ? `, or its standard deviation over ${over.join(" or over ")} if that is larger` : ""}.`
      : "",
    methods.some((m) => known(m.lambda_1) && !known(m.lambda_1_spread))
      ? "λ₁ without ± was measured on one run, and not on parts of the examples."
      : "",
  ]);
}
