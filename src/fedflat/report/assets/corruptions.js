/* Scores on corrupted images. */

function drawCorruptions(section, doc) {
  const { list, items } = comparable(doc.corruptions, "corruptions", "corruptions");
  const methods = [...new Set(items.map((item) => item.method))].map((place) => ({
    ...doc.methods[place],
    place,
  }));
  section.append(
    el("div", { class: "controls" }, methods.length > 1 ? legend(methods) : null, list),
  );
  boardsOf(doc).forEach(({ judged, methods: members }) => {
    const own = items.filter((item) => members.includes(item.method));
    if (own.length) drawCorrupted(section, own, judged);
  });
}

function drawCorrupted(section, items, judged) {
  const names = [...new Set(items.flatMap((item) => Object.keys(item.kinds)))];
  const mean = (values = []) => {
    const there = values.filter(known);
    return there.length ? there.reduce((a, b) => a + b, 0) / there.length : null;
  };
  const rows = [
    ["clean", (item) => item.clean],
    ...names.map((name) => [plainName(name), (item) => mean(item.kinds[name])]),
    ["mean of all", (item) => item.mean],
  ];
  section.append(
    figure(
      `${judged.title} on corrupted images`,
      sentence([
        "Mean over severities.",
        ...new Set(items.map((item) => item.source && `Images: ${item.source}.`)),
      ]),
      dotRows(
        rows.map(([name, of]) => ({
          name,
          dots: items.map((item) => ({ method: item.method, value: of(item) })),
        })),
        {
          xTitle: judged.unit ? `${judged.label}, ${judged.unit}` : judged.label,
          xFormat: judged.tick,
          sentence: `${judged.title} on corrupted images: ${items.map((item) => `${item.label} ${judged.format(item.clean)} on clean ones, ${judged.format(item.mean)} on average over corruptions`).join("; ")}.`,
        },
      ),
      () => ({
        heads: ["kind", ...items.map((item) => item.label)],
        rows: rows.map(([name, of]) => [name, ...items.map((item) => judged.format(of(item)))]),
      }),
    ),
    el(
      "div",
      { class: "panels" },
      items
        .filter((item) => Object.values(item.kinds).some((row) => row.length))
        .map((item) => {
          const values = names.map((name) => item.kinds[name] || []),
            widest = Math.max(...values.map((row) => row.length));
          return figure(
            item,
            "",
            heat(
              values.map((row) => Array.from({ length: widest }, (_, i) => row[i] ?? null)),
              {
                range: extent(
                  items.flatMap((one) => Object.values(one.kinds).flat()),
                  0,
                ),
                format: judged.format,
                rowTitle: "kind",
                columnTitle: "severity",
                rowName: (j) => plainName(names[j]),
                columnName: (i) => i + 1,
                cell: (j, i) =>
                  `${plainName(names[j])}, severity ${i + 1}: ${judged.format(values[j][i])}`,
                sentence: `${judged.title} of ${item.label} by kind of corruption and severity, on average ${judged.format(item.mean)}.`,
              },
            ),
            () => ({
              heads: ["kind", ...Array.from({ length: widest }, (_, i) => `severity ${i + 1}`)],
              rows: names.map((name, j) => [plainName(name), ...values[j].map(judged.format)]),
            }),
          );
        }),
    ),
  );
}

Object.assign(DRAWINGS, { corruptions: drawCorruptions });
