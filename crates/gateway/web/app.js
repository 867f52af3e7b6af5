// The page asks the API every second and draws what it is told; it decides nothing.
"use strict";

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (bytes >= 1024 && at < units.length - 1) { bytes /= 1024; at += 1; }
  return bytes.toFixed(at && bytes < 100 ? 1 : 0) + " " + units[at];
}

function share(ratio) {
  return ratio === null ? "–" : (100 * ratio).toFixed(1) + " %";
}

// Nothing for an end without an accelerator.
function accelerator(unit) {
  if (!unit) return [];
  return [["accelerator", unit.is_up ? size(unit.bytes) + " cut" : "down: " + unit.last_failure]];
}

function facts(status) {
  const last = state.seconds.at(-1) || { bytes: 0, sent: 0, received: 0 };
  const up = status.links.filter((link) => link.is_up).length;
  const when = status.when_down ? "; clients: " + status.when_down : "";
  const word = up ? up + (up === 1 ? " link up" : " links up") : "no link for " + span(status.down_for_s || 0) + when;
  head([
    ["end", status.role], ["clients send", size(last.bytes) + "/s"], ["for that", size(last.sent) + "/s"], ["came", size(last.received) + "/s"],
    ["clients", status.clients], ["flows", status.flows], ["refused", status.refused], ["cut", status.cut], ["past the tunnel", status.passed],
    ...accelerator(status.accelerator), ["up", span(status.for_s)], ["key", status.key],
  ], word, up ? "good" : "bad");
  at("service").title = status.last_error ? "last trouble: " + status.last_error : "";
}

// What clients sent, and before it what of that went over the link: the distance is what was saved.
function traffic() {
  const width = 300, height = 90, seconds = state.seconds, first = width - seconds.length;
  const [svg, top] = line(seconds.map((second) => second.bytes), width, height, "spark arrivals");
  const steps = seconds.map((second, i) => (first + i) + " " + (height - 1 - (height - 3) * Math.min(second.sent / top, 1)).toFixed(1));
  if (steps.length) svg.append(drawing("path", { class: "candidates", d: "M" + steps.join("L") }));
  svg.append(caption("bytes a second over the last five minutes, at most " + size(top)));
  at("traffic").replaceChildren(svg);
  at("legend").replaceChildren(key("clients' bytes a second, at most " + size(top), "var(--good)"),
    key("sent on the link for them", "var(--warn)"));
}

function rows(place, columns, list, none) {
  if (!list.length) return at(place).replaceChildren(element("small", none));
  at(place).replaceChildren(table(columns.map(([text]) => text), list.map((one) => row(columns.map(([, figure]) => figure(one))))));
}

const CUT = [
  ["saved", (one) => share(one.re_ratio)], ["goodput", (one) => size(one.goodput_bytes_per_s) + "/s"], ["policy", (one) => one.choice],
  ["chunk", (one) => one.chunk_bytes === null ? "–" : size(one.chunk_bytes)], ["bytes", (one) => size(one.bytes)], ["sent", (one) => size(one.sent)],
];
const WHY = ["why", (one) => one.why];

function tables(status) {
  rows("links", [
    ["other end", (link) => link.peer], ["state", (link) => (link.is_up ? "up for " : "greeting for ") + span(link.for_s)], ["flows", (link) => link.flows],
    ["round trip", (link) => micros(link.round_trip_us)], ["rate", (link) => link.link_bytes_per_s === null ? "–" : size(link.link_bytes_per_s) + "/s"],
    ["sent", (link) => size(link.sent_bytes)], ["came", (link) => size(link.received_bytes)],
    ["chunks asked for", (link) => link.chunks_asked_of_us + " by it, " + link.chunks_asked_by_us + " by us"],
    ["disk", (link) => link.disk === null ? "–" : link.disk.read + " read" + (link.disk.has_failed ? ", given up" : "")],
  ], status.links, status.last_error ? "none; last trouble: " + status.last_error : "none yet");
  rows("classes", [["class", (one) => one.class || "others"], ...CUT, ["chunks", (one) => one.chunks], WHY],
    status.links.flatMap((link) => link.classes), "nothing was sent yet");
  rows("flows", [["target", (one) => one.target], ["for", (one) => span(one.for_s)], ...CUT, ["came", (one) => size(one.received)],
    ["held", (one) => size(one.held_bytes)], ["waits for the client", (one) => size(one.waiting_bytes)], WHY],
  status.links.flatMap((link) => link.busiest).slice(0, 50), "no flow is open");
}

function tick() {
  return round((status) => {
    facts(status);
    traffic();
    tables(status);
  }, "this end is gone");
}

tick();
setInterval(tick, 1000);
