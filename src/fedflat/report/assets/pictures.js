/* What models see: examples beside their truth, which class is predicted as which, and the clients' styles. */

const png = (letters) => `data:image/png;base64,${letters}`;

/** Which test set to show, of those that some of these analyses have. */
function testSet(items, key, part) {
  return selection(
    "Test set",
    key,
    [...new Set(items.flatMap((item) => Object.keys(item.sets)))],
    part,
  );
}

/** The analyses of a kind on the chosen test set, with their methods and controls. */
function onTestSet(doc, kind) {
  const { list, items } = comparable(doc[kind], kind, kind),
    sets = testSet(items, `${kind} set`, kind),
    where = state[`${kind} set`];
  const shown = items.filter((item) => item.sets[where] && !state.hidden.has(item.method));
  const methods = [...new Set(items.map((item) => item.method))].map((place) => ({
    ...doc.methods[place],
    place,
  }));
  return { list, items, sets, where, shown, methods };
}

function drawPictures(section, doc) {
  const { list, sets, where, shown, methods } = onTestSet(doc, "pictures");
  section.append(
    el("div", { class: "controls" }, methods.length > 1 ? legend(methods) : null, sets, list),
  );
  if (!shown.length) return;
  const same = (one, other) => one.place === other.place && one.image === other.image;
  const examples = shown
    .flatMap((item) => item.sets[where])
    .filter((one, i, all) => all.findIndex((other) => same(one, other)) === i);
  const judged = judgedBy(doc.boards[doc.methods[shown[0].method].board].headline);
  const seen = (side, text) => el("img", { src: png(doc.album[side]), alt: text });
  const line = (one) => {
    const what = one.domain ? `${one.place} (${one.domain})` : one.place;
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, one.domain || `no. ${one.place}`),
      el("td", {}, seen(one.image, `Example ${what}`)),
      el("td", {}, seen(one.truth, `Truth of example ${what}`)),
      shown.map((item) => {
        const own = item.sets[where].find((other) => same(one, other));
        return el(
          "td",
          {},
          own
            ? [
                seen(
                  own.mask,
                  `Example ${what} as ${item.label} sees it: ${judged.label} ${judged.format(own.score)}`,
                ),
                el("small", {}, judged.format(own.score)),
              ]
            : "–",
        );
      }),
    );
  };
  section.append(
    scrolling(
      el(
        "table",
        { class: "pictures" },
        el(
          "caption",
          { class: "unseen" },
          `Examples of ${where}, their truth, and what each method makes of them`,
        ),
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            ["example", "image", "truth"].map((name) => el("th", { scope: "col" }, name)),
            shown.map((item) => el("th", { scope: "col" }, head(item))),
          ),
        ),
        el("tbody", {}, examples.map(line)),
      ),
      "Table of pictures",
    ),
    el(
      "ul",
      { class: "colours" },
      shown[0].names.map((name, c) =>
        el("li", {}, el("i", { style: `background: ${rgb(shown[0].colours[c])}` }), name),
      ),
    ),
    note(
      `Below each mask is the ${judged.label} of that picture alone. Black pixels of the truth count nowhere.`,
    ),
  );
}

const head = (item) => el("span", { class: "who" }, sign(item.method), el("code", {}, item.label));

function drawConfusion(section, doc) {
  const { list, items } = comparable(doc.confusion, "confusion", "confusion"),
    sets = testSet(items, "confusion set", "confusion");
  const where = state["confusion set"],
    shown = items.filter((item) => item.sets[where]);
  section.append(
    el("div", { class: "controls" }, sets, list),
    el(
      "div",
      { class: "panels wider" },
      shown.map((item) => {
        const counts = item.sets[where],
          names = item.names,
          sums = counts.map((row) => row.reduce((a, b) => a + b, 0));
        const shares = counts.map((row, j) =>
          row.map((count) => (sums[j] ? count / sums[j] : null)),
        );
        const wrong = shares
          .flatMap((row, j) => row.map((share, i) => ({ share, i, j })))
          .filter((one) => one.i !== one.j && one.share > 0)
          .sort((a, b) => b.share - a.share)
          .slice(0, 3);
        const most = wrong.map(
          ({ share, i, j }) => `${names[j]} for ${names[i]} (${percents(share)})`,
        );
        return figure(
          item,
          most.length ? `Most often confused: ${listed(most)}.` : "",
          heat(shares, {
            range: [0, 1],
            format: percents,
            rowTitle: "truth",
            columnTitle: "predicted as",
            rowName: (j) => names[j],
            columnName: (i) => names[i].slice(0, 6),
            cell: (j, i) =>
              sums[j]
                ? `${names[j]} predicted as ${names[i]}: ${percents(shares[j][i])}, ${whole(counts[j][i])} of ${whole(sums[j])}`
                : `${names[j]} does not occur`,
            sentence: `Of each class of ${where} the share that ${item.label} predicts as each class.${most.length ? ` Most often confused: ${listed(most)}.` : ""}`,
          }),
          () => ({
            heads: ["truth \\ predicted as", ...names],
            rows: counts.map((row, j) => [names[j], ...row.map(whole)]),
          }),
        );
      }),
    ),
    note(
      "Rows are shares of what truly is of a class, pixels where each pixel has one; a class that does not occur has an empty row.",
    ),
  );
}

function drawStyles(section, doc) {
  const name = (one) => inSection(doc, one, one.label);
  section.append(
    el(
      "div",
      { class: "controls" },
      selection("Clients", "styles", doc.styles.map(name), "styles"),
    ),
  );
  const item = doc.styles.find((one) => name(one) === state.styles),
    clusters = new Set(item.clients.map((one) => one.cluster)).size;
  const some =
    item.clients.length < item.of
      ? `${item.clients.length} of ${whole(item.of)} clients`
      : `${whole(item.of)} clients`;
  const whose = item.groups
    ? `the run's own, groups=${item.groups}`
    : "by the silhouette: the run has made none";
  section.append(
    figure(
      "Styles in the plane",
      `${some} in ${clusters} ${clusters === 1 ? "cluster" : "clusters"} (${whose})${known(item.silhouette) && clusters > 1 ? `, silhouette ${item.silhouette.toFixed(2)}` : ""}.`,
      styleMap(item, `The styles of ${some} in the plane, in ${clusters} clusters.`),
      () => ({
        heads: ["client", "domain", "cluster", "x", "y"],
        rows: item.clients.map((one) => [
          one.client,
          one.domain || "–",
          one.cluster,
          number(one.x),
          number(one.y),
        ]),
      }),
    ),
    note(
      `A style is the mean amplitude of the lowest frequencies of a client's images. The plane shows ${percents((item.shares[0] || 0) + (item.shares[1] || 0))} of how much they differ. Frames and signs say the cluster.`,
    ),
  );
}

/** Clients where their styles lie: an image in the frame of its cluster, or the cluster's sign. */
function styleMap(item, label) {
  const box = el("div", { class: "plot" });
  later(box, () => {
    const width = Math.max(240, box.clientWidth),
      height = Math.round(Math.min(560, Math.max(280, width * 0.55)));
    const wide = Math.min(64, width / 9),
      tall = wide / item.aspect,
      edge = Math.max(wide, tall) / 2 + 8;
    const X = scale(
        ...extent(
          item.clients.map((one) => one.x),
          0,
        ),
        edge,
        width - edge,
      ),
      Y = scale(
        ...extent(
          item.clients.map((one) => one.y),
          0,
        ),
        height - edge,
        edge,
      );
    const root = svg("svg", {
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: "img",
      "aria-label": label,
      class: "chart",
    });
    for (const one of [...item.clients].sort((a, b) => Boolean(a.image) - Boolean(b.image))) {
      const x = round2(X(one.x)),
        y = round2(Y(one.y)),
        what = svg(
          "title",
          {},
          `client ${one.client}${one.domain ? ` (${one.domain})` : ""}, cluster ${one.cluster}`,
        );
      const parts = one.image
        ? [
            svg("image", {
              href: png(one.image),
              x: x - wide / 2,
              y: y - tall / 2,
              width: wide,
              height: tall,
              preserveAspectRatio: "none",
              class: "cells",
            }),
            svg("rect", {
              x: x - wide / 2,
              y: y - tall / 2,
              width: wide,
              height: tall,
              fill: "none",
              stroke: tone(one.cluster),
              "stroke-width": 3,
            }),
            marker(one.cluster, x - wide / 2, y - tall / 2, 5),
          ]
        : [marker(one.cluster, x, y, 4)];
      root.append(svg("g", {}, what, parts));
    }
    box.replaceChildren(root);
  });
  return box;
}

/** Training images of clients, and the same in the styles of others. */
function drawStyled(section, doc) {
  const { list, items } = comparable(doc.styled, "styled", "styled");
  const who = (pair) => `client ${pair.client}` + (pair.domain ? ` (${pair.domain})` : "");
  const row = (name, pairs, side) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, name),
      pairs.map((pair) =>
        el(
          "td",
          {},
          el("img", { src: png(pair[side]), alt: `An image of ${who(pair)}, ${side} restyling` }),
        ),
      ),
    );
  section.append(
    el("div", { class: "controls" }, list),
    scrolling(
      el(
        "table",
        { class: "pictures" },
        el("caption", { class: "unseen" }, "Training images before and after restyling"),
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            el("td"),
            items[0].pairs.map((pair) => el("th", { scope: "col" }, who(pair))),
          ),
        ),
        el(
          "tbody",
          {},
          row("image", items[0].pairs, "before"),
          items.map((item) => row(head(item), item.pairs, "after")),
        ),
      ),
      "Table of styled images",
    ),
    note("Every second training image of a client gets a style of another domain."),
  );
}

Object.assign(DRAWINGS, {
  pictures: drawPictures,
  confusion: drawConfusion,
  styles: drawStyles,
  styled: drawStyled,
});
