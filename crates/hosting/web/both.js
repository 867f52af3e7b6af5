// What the pages of a storage server and of a host have in common. The page asks the API every second and draws what it is
// told; it decides nothing.
"use strict";

const BLOCK = 4096;

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (bytes >= 1024 && at < units.length - 1) { bytes /= 1024; at += 1; }
  return bytes.toFixed(at && bytes < 100 ? 1 : 0) + " " + units[at];
}

function share(part, whole) {
  return whole ? (100 * part / whole).toFixed(1) + " %" : "–";
}

function rows(place, columns, list, none) {
  if (!list.length) return at(place).replaceChildren(element("small", none));
  at(place).replaceChildren(table(columns.map(([text]) => text), list.map((one) => row(columns.map(([, figure]) => figure(one))))));
}

// Two lines over the last five minutes on one scale: a large figure, and a smaller one in front of it.
function two(large, small, [largeName, smallName]) {
  const width = 300, height = 90, first = width - state.seconds.length;
  const [svg, top] = line(state.seconds.map(large), width, height, "spark arrivals");
  const level = (second) => (height - 1 - (height - 3) * Math.min(small(second) / top, 1)).toFixed(1);
  const steps = state.seconds.map((second, i) => (first + i) + " " + level(second));
  if (steps.length) svg.append(drawing("path", { class: "candidates", d: "M" + steps.join("L") }));
  svg.append(caption("bytes a second over the last five minutes, at most " + size(top)));
  at("traffic").replaceChildren(svg);
  at("legend").replaceChildren(key(largeName + ", at most " + size(top) + "/s", "var(--good)"), key(smallName, "var(--warn)"));
}
