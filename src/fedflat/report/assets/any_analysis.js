/* Analyses that can be compared, and those without a drawing of their own. */

/** The analyses that can be compared: same section, same settings, same seed of the run. */
function comparable(items, key, part) {
  const name = (item) =>
    inSection(
      shownDocument,
      item,
      [item.settings, `run seed ${item.seed}`].filter(Boolean).join(", "),
    );
  const groups = [...new Set(items.map(name))],
    methods = (group) =>
      new Set(items.filter((item) => name(item) === group).map((item) => item.method)).size;
  remembered(
    key,
    groups.reduce((best, group) => (methods(group) > methods(best) ? group : best), groups[0]),
  );
  const list = selection("Measured on", key, groups, part);
  return { list, items: items.filter((item) => name(item) === state[key]) };
}

/** An analysis without a drawing of its own: numbers as a table, lists as lines, lists of lists as heat maps. */
function drawAnyAnalysis(section, doc, kind) {
  const { list, items } = comparable(doc[kind], kind, kind);
  const own = ["method", "run", "seed", "label", "section", "settings"];
  const names = [...new Set(items.flatMap(Object.keys))].filter((name) => !own.includes(name));
  const of = (test) => names.filter((name) => items.some((item) => test(item[name])));
  const single = of((value) => typeof value === "number" || typeof value === "string");
  const isList = (value) =>
    Array.isArray(value) &&
    value.length > 0 &&
    !Array.isArray(value[0]) &&
    typeof value[0] !== "object";
  const isTable = (value) => Array.isArray(value) && value.length > 0 && Array.isArray(value[0]);
  const text = (value) => (typeof value === "number" ? number(value) : (value ?? "–"));
  const methods = [...new Set(items.map((item) => item.method))].map((place) => ({
    ...doc.methods[place],
    place,
  }));
  section.append(
    el("div", { class: "controls" }, methods.length > 1 ? legend(methods) : null, list),
  );
  if (single.length)
    section.append(
      scrolling(
        dataTable("Values", {
          heads: ["method", ...single.map(plainName)],
          rows: items.map((item) => [item.label, ...single.map((name) => text(item[name]))]),
        }),
        "Table of values",
      ),
    );
  const pair = el("div", { class: "pair" });
  for (const name of of(isList)) {
    const found = items
      .filter((item) => isList(item[name]))
      .map((item) => ({
        method: item.method,
        name: item.label,
        x: item[name].map((_, i) => i),
        y: item[name],
        low: item[name],
        high: item[name],
      }));
    const options = {
      name: `${kind} ${name}`,
      xTitle: "place",
      yTitle: "",
      xFormat: whole,
      yFormat: plain,
      yText: number,
    };
    pair.append(
      figure(
        plainName(name),
        "",
        lines(found, {
          ...options,
          sentence: `${plainName(name)} of ${found.map((one) => one.name).join("; ")}.`,
        }),
        () => curveTable(found, options),
      ),
    );
  }
  section.append(pair);
  for (const name of of(isTable))
    section.append(
      el("h3", {}, plainName(name)),
      el(
        "div",
        { class: "panels" },
        items
          .filter((item) => isTable(item[name]))
          .map((item) => {
            const rows = item[name];
            return figure(
              item,
              "",
              heat(rows, {
                range: extent(rows.flat(), 0),
                format: number,
                rowTitle: "row",
                columnTitle: "column",
                cell: (j, i) => `row ${j}, column ${i}: ${number(rows[j][i])}`,
                sentence: `${plainName(name)} of ${item.label}: ${rows.length} rows.`,
              }),
              () => ({
                heads: ["row", ...rows[0].map((_, i) => i)],
                rows: rows.map((row, j) => [j, ...row.map((value) => number(value))]),
              }),
            );
          }),
      ),
    );
}
