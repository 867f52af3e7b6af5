// The page asks the API every second and draws what it is told; it decides nothing.
"use strict";

// Nothing for an end without an accelerator.
function accelerator(unit) {
  if (!unit) return [];
  return [["accelerator", unit.is_up ? bytes(unit.bytes) + " cut" : "down: " + unit.last_failure]];
}

function facts(status) {
  const last = state.seconds.at(-1) || { bytes: 0, sent: 0, received: 0 };
  const up = status.links.filter((link) => link.is_up).length;
  const when = status.when_down ? "; clients: " + status.when_down : "";
  const word = up ? up + (up === 1 ? " link up" : " links up") : "no link for " + span(status.down_for_s || 0) + when;
  head([
    ["end", status.role], ["clients send", bytes(last.bytes) + "/s"], ["for that", bytes(last.sent) + "/s"], ["came", bytes(last.received) + "/s"],
    ["clients", status.clients], ["flows", status.flows], ["refused", status.refused], ["cut", status.cut], ["past the tunnel", status.passed],
    ...accelerator(status.accelerator), ["up", span(status.for_s)], ["key", status.key],
  ], word, up ? "good" : "bad");
  at("service").title = status.last_error ? "last trouble: " + status.last_error : "";
}

// What clients sent, and before it what of that went over the link: the distance is what was saved.
function traffic() {
  const top = timeline("traffic", (one) => one.bytes, (one) => one.sent, bytes, "bytes");
  at("legend").replaceChildren(key("clients' bytes a second, at most " + bytes(top), "var(--good)"),
    key("sent on the link for them", "var(--warn)"));
}

const CUT = [
  ["saved", (one) => share(one.re_ratio)], ["goodput", (one) => bytes(one.goodput_bytes_per_s) + "/s"], ["policy", (one) => one.choice],
  ["chunk", (one) => one.chunk_bytes === null ? "–" : bytes(one.chunk_bytes)], ["bytes", (one) => bytes(one.bytes)], ["sent", (one) => bytes(one.sent)],
];
const WHY = ["why", (one) => one.why];

function tables(status) {
  rows("links", [
    ["other end", (link) => link.peer], ["state", (link) => (link.is_up ? "up for " : "greeting for ") + span(link.for_s)], ["flows", (link) => link.flows],
    ["round trip", (link) => micros(link.round_trip_us)], ["rate", (link) => link.link_bytes_per_s === null ? "–" : bytes(link.link_bytes_per_s) + "/s"],
    ["sent", (link) => bytes(link.sent_bytes)], ["came", (link) => bytes(link.received_bytes)],
    ["chunks asked for", (link) => link.chunks_asked_of_us + " by it, " + link.chunks_asked_by_us + " by us"],
    ["disk", (link) => link.disk === null ? "–" : link.disk.read + " read" + (link.disk.has_failed ? ", given up" : "")],
  ], status.links, status.last_error ? "none; last trouble: " + status.last_error : "none yet");
  rows("classes", [["class", (one) => one.class || "others"], ...CUT, ["chunks", (one) => one.chunks], WHY],
    status.links.flatMap((link) => link.classes), "nothing was sent yet");
  rows("flows", [["target", (one) => one.target], ["for", (one) => span(one.for_s)], ...CUT, ["came", (one) => bytes(one.received)],
    ["held", (one) => bytes(one.held_bytes)], ["waits for the client", (one) => bytes(one.waiting_bytes)], WHY],
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
