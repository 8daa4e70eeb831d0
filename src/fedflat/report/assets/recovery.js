/* What a client that attacks has recovered from the models it was sent. */

function drawRecovery(section, doc) {
  const { list, items } = comparable(doc.recovery, "recovery", "recovery");
  const columns = [
    ["Fréchet distance", (item) => number(item.distance)],
    ["run seed", (item) => item.seed],
    ["attacker", (item) => `client ${item.client}`],
    ["requests", (item) => whole(item.requests)],
    ["of test images", (item) => number(item.test)],
    ["of a generator that has learnt nothing", (item) => number(item.untrained)],
  ];
  const table = methodTable("How far recovered images are from real ones", columns, items);
  const sheet = (letters, text) => el("img", { class: "sheet", src: png(letters), alt: text });
  const originals = items.filter(
    (item, i) => items.findIndex((other) => other.originals === item.originals) === i,
  );
  section.append(
    el("div", { class: "controls" }, list),
    scrolling(table, "Table of distances"),
    note(
      `Between all ${whole(items[0].real)} training images and ${whole(items[0].made)} generated ones; the higher, the safer. Measured by ${items[0].features}.`,
    ),
    el(
      "div",
      { class: "panels wider" },
      originals.map((item) =>
        figure(
          "Real training images",
          "NamedFigure from those of all clients.",
          sheet(item.originals, "Some of the real training images"),
        ),
      ),
      items.map((item) =>
        figure(
          item,
          `Recovered by client ${item.client} in ${whole(item.requests)} requests.`,
          sheet(
            item.recovered,
            `Images recovered by client ${item.client} from ${item.label}, at a Fréchet distance of ${number(item.distance)}`,
          ),
        ),
      ),
    ),
  );
}

Object.assign(DRAWINGS, { recovery: drawRecovery });
