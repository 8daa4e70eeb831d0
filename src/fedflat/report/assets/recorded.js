/* Metrics that were recorded during training: curves and heat maps. */

function drawRecorded(section, doc) {
  for (const board of boardsOf(doc)) {
    const keys = Object.keys(doc.recorded).filter((key) =>
      board.methods.some((i) => key in doc.methods[i].recorded),
    );
    if (!keys.length) continue;
    section.append(
      sectionHead(board),
      el("div", { class: "controls" }, legendOf(doc, board)),
      el(
        "div",
        { class: "pair" },
        keys.map((name) => {
          const { title, note, unit } = doc.recorded[name],
            share = unit === "%",
            found = series(doc, "round", name, "recorded", board.methods);
          const options = {
            ...AXES.round,
            name: name + board.which,
            yTitle: unit,
            yFormat: share ? percentTick : plain,
            yText: share ? percents : number,
            height: 220,
          };
          return figure(
            title,
            note,
            lines(found, {
              ...options,
              sentence: describeCurves(found, title + board.which, options),
            }),
            () => curveTable(found, options),
            "",
            board.which,
          );
        }),
      ),
    );
  }
  for (const key of Object.keys(doc.recorded))
    if (doc.heatmaps.some((one) => one.key === key)) drawHeatMaps(section, doc, key);
}

/** A square matrix after the last round, without its diagonal. */
function matrixMap(item, range, format, entry, title) {
  const pairs = item.rows
    .flatMap((row, j) => item.columns.map((column, i) => [row, column, item.values[j][i]]))
    .filter(([, , value]) => known(value));
  const most = pairs.reduce((a, b) => (b[2] > a[2] ? b : a), pairs[0]);
  return heat(item.values, {
    range,
    format,
    rowTitle: entry,
    columnTitle: `${entry}, round ${item.round[0]}`,
    rowName: (j) => item.rows[j],
    columnName: (i) => item.columns[i],
    cell: (j, i) => `${entry} ${item.rows[j]} from ${item.columns[i]}: ${format(item.values[j][i])}`,
    sentence:
      `${title} of ${item.label} after round ${item.round[0]}.` +
      (most ? ` The largest entry, ${format(most[2])}, is what ${most[0]} takes from ${most[1]}.` : ""),
  });
}

/** A metric with several values in each round: a row for each of its entries. */
function drawHeatMaps(section, doc, key) {
  const { title, note, entries, unit } = doc.recorded[key],
    all = doc.heatmaps.filter((one) => one.key === key);
  const share = unit === "%",
    format = share ? percents : number,
    entry = entries || "entry";
  const range = share
    ? [0, 1]
    : extent(
        all.flatMap((one) => one.values.flat()),
        0,
      );
  const group = (one) => inSection(doc, one, `seed ${one.seed}`);
  const chosen = selection(title, `heat map ${key}`, [...new Set(all.map(group))], "recorded");
  const items = all.filter((one) => group(one) === state[`heat map ${key}`]);
  section.append(
    el("h3", {}, title),
    ...(note ? [el("p", { class: "note" }, note)] : []),
    chosen,
    el(
      "div",
      { class: "panels" },
      items.map((item) => {
        const last = item.values.map((row) => row.at(-1)),
          least = last.indexOf(Math.min(...last.filter(known)));
        const ends =
          least < 0
            ? ""
            : ` In the last round ${entry} ${item.rows[least]} has the least value, ${format(last[least])}.`;
        if (item.columns)
          return figure(item, "", matrixMap(item, range, format, entry, title), () => ({
            heads: [entry, ...item.columns],
            rows: item.rows.map((row, j) => [
              row,
              ...item.values[j].map((value) => (known(value) ? format(value) : "")),
            ]),
          }));
        return figure(
          item,
          "",
          heat(item.values, {
            range,
            format,
            rowTitle: entry,
            columnTitle: "round",
            places: item.round,
            rowName: (j) => item.rows[j],
            cell: (j, i) =>
              `${entry} ${item.rows[j]}, round ${item.round[i]}: ${format(item.values[j][i])}`,
            sentence: `${title} over the rounds of ${item.label}: ${item.values.length} rows.${ends}`,
          }),
          () => ({
            heads: ["round", ...item.rows.map((row) => `${entry} ${row}`)],
            rows: item.round.map((round, i) => [
              round,
              ...item.values.map((row) => format(row[i])),
            ]),
          }),
        );
      }),
    ),
  );
}
