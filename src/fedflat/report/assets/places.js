/* Place recognition: maps of queries, right or wrong, and queries beside the images they retrieve. */

const RIGHT = "var(--c2)",
  WRONG = "var(--c9)",
  CLIENT_TONES = [0, 1, 2, 3, 4, 5, 7, 8, 9]; // all but the grey, which is the database's

function drawPlaces(section, doc) {
  const { list, items, sets, where, shown, methods } = onTestSet(doc, "places");
  const areas = [
    ...new Set(
      items.flatMap((item) => (item.sets[where]?.queries || []).map((query) => query.area)),
    ),
  ];
  const choice = selection("Area", `places area ${where}`, areas, "places"),
    area = state[`places area ${where}`];
  section.append(
    el(
      "div",
      { class: "controls" },
      methods.length > 1 ? legend(methods) : null,
      sets,
      areas.length > 1 ? choice : null,
      list,
    ),
  );
  if (!shown.length) return;
  section.append(
    el(
      "div",
      { class: "panels wider" },
      shown.map((item) => placeFigure(item, where, area)),
    ),
    note(
      "A filled circle is a query whose nearest image is within the radius, a cross one whose nearest image is not, an empty circle one without any image in the radius, which is left out. Grey points are the database. Small coloured points are images of the clients, a colour for each client.",
    ),
    placeExamples(shown, where),
  );
}

function placeFigure(item, where, area) {
  const found = item.sets[where],
    queries = found.queries.filter((one) => one.area === area),
    counted = queries.filter((one) => one.possible),
    right = counted.filter((one) => one.right).length;
  const recalls = found.recall
    .map((value, i) => `recall@${[1, 5, 10][i]} ${percents(value)}`)
    .join(", ");
  const left = found.without_positive
    ? `; ${found.without_positive} queries without an answer are left out`
    : "";
  const said = `${right} of ${counted.length} queries in ${area} are right. All of ${where}: ${recalls}${left}.`;
  return figure(item, said, placeMap(item, found, area, said), () => ({
    heads: ["east m", "north m", "nearest image m", "answer"],
    rows: queries.map((one) => [
      number(one.x),
      number(one.y),
      number(one.metres),
      one.possible ? (one.right ? "right" : "wrong") : "none possible",
    ]),
  }));
}

/** A map in metres, the same scale in both directions. */
function placeMap(item, found, area, label) {
  const queries = found.queries.filter((one) => one.area === area),
    database = found.database.filter((one) => one[0] === area),
    clients = item.clients
      .map((one) => ({ ...one, points: one.points.filter((point) => point[0] === area) }))
      .filter((one) => one.points.length);
  const xs = [...queries.map((one) => one.x), ...database.map((one) => one[1])],
    ys = [...queries.map((one) => one.y), ...database.map((one) => one[2])];
  for (const one of clients)
    for (const point of one.points) {
      xs.push(point[1]);
      ys.push(point[2]);
    }
  const box = el("div", { class: "plot" });
  later(box, () => {
    const width = Math.max(240, box.clientWidth),
      edge = 16,
      [west, east] = extent(xs, 0),
      [south, north] = extent(ys, 0);
    const wide = Math.max(east - west, 1),
      tall = Math.max(north - south, 1);
    const each = Math.min((width - 2 * edge) / wide, 420 / tall),
      height = Math.max(120, Math.round(tall * each) + 2 * edge + 22);
    const shift = (width - 2 * edge - wide * each) / 2;
    const X = (x) => round2(edge + shift + (x - west) * each),
      Y = (y) => round2(edge + (north - y) * each);
    const root = svg("svg", {
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: "img",
      "aria-label": label,
      class: "chart",
    });
    for (const one of clients)
      root.append(
        svg(
          "g",
          { fill: tone(CLIENT_TONES[one.client % CLIENT_TONES.length]), opacity: 0.55 },
          svg("title", {}, `client ${one.client}, ${whole(one.images)} images`),
          one.points.map((point) => svg("circle", { cx: X(point[1]), cy: Y(point[2]), r: 2 })),
        ),
      );
    root.append(
      svg(
        "g",
        { fill: "var(--axis)", opacity: 0.6 },
        database.map((one) => svg("circle", { cx: X(one[1]), cy: Y(one[2]), r: 2.5 })),
      ),
      ...queries.map((one) => placeSign(one, X(one.x), Y(one.y))),
      ...scaleBar(each, width, height),
    );
    box.replaceChildren(root);
  });
  return box;
}

function placeSign(one, x, y) {
  const what = !one.possible
    ? "no image in the radius"
    : `${one.right ? "right" : "wrong"}, nearest image ${away(one.metres)}`;
  const title = svg("title", {}, what);
  if (one.possible && !one.right)
    return svg(
      "path",
      {
        d: `M${x - 4.5},${y - 4.5}L${x + 4.5},${y + 4.5}M${x - 4.5},${y + 4.5}L${x + 4.5},${y - 4.5}`,
        fill: "none",
        stroke: WRONG,
        "stroke-width": 2.5,
      },
      title,
    );
  return svg(
    "circle",
    { cx: x, cy: y, r: 4.5, fill: one.possible ? RIGHT : "none", stroke: RIGHT, "stroke-width": 1.5 },
    title,
  );
}

/** A bar of a round number of metres. */
function scaleBar(each, width, height) {
  const metres = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000].find(
    (size) => size * each >= 60,
  );
  if (!metres) return [];
  const to = width - 16,
    from = to - metres * each,
    y = height - 8;
  return [
    svg("path", { d: `M${from},${y - 5}V${y}H${to}V${y - 5}`, fill: "none", class: "axis" }),
    svg(
      "text",
      { x: from - 6, y, "text-anchor": "end" },
      metres >= 1000 ? `${metres / 1000} km` : `${metres} m`,
    ),
  ];
}

/** How far the nearest image is; areas are further from each other than any of them is wide. */
const away = (metres) =>
  metres > 50_000 ? "in another area" : `${metres < 10 ? metres.toFixed(1) : whole(metres)} m away`;

function placeExamples(shown, where) {
  const rows = shown.flatMap((item) => item.sets[where].examples.map((one) => ({ item, one })));
  if (!rows.length) return "";
  const line = ({ item, one }) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, head(item)),
      el("td", {}, el("img", { src: png(one.query), alt: `Query in ${one.area}` })),
      el(
        "td",
        {},
        el("img", { src: png(one.found), alt: `The nearest image, ${away(one.metres)}` }),
      ),
      el("td", {}, el("strong", {}, one.right ? "right" : "wrong"), `, ${away(one.metres)}`),
    );
  return scrolling(
    el(
      "table",
      { class: "pictures" },
      el("caption", { class: "unseen" }, `Queries of ${where} and the images they retrieve`),
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          ["method", "query", "nearest image", "answer"].map((name) =>
            el("th", { scope: "col" }, name),
          ),
        ),
      ),
      el("tbody", {}, rows.map(line)),
    ),
    "Queries and retrieved images",
  );
}

Object.assign(DRAWINGS, { places: drawPlaces });
