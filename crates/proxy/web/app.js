// The page asks the API every second and draws what it is told; it decides nothing.
"use strict";

function mood(status) {
  return status.bursting === null ? "the rule does not ask" : status.bursting ? "burst" : "calm";
}

function facts(status) {
  const last = state.seconds.at(-1) || { requests: 0 };
  const fit = status.backends.filter((backend) => backend.state === "up" || backend.state === "slow start").length;
  const word = status.panic ? "no backend is fit: all are tried" : fit + " of " + status.backends.length + " fit";
  head([
    ["requests/s", number(last.requests)], ["policy", status.policy], ["arrivals", mood(status)],
    ["K", status.candidates === null ? "–" : Math.round(status.candidates) + " of " + status.backends.length],
    ["balancers", status.balancers], ["clients", number(status.connections)],
    ["waiting", number(status.waiting)], ["up", span(status.uptime_seconds)],
  ], word, status.panic ? "bad" : fit === status.backends.length ? "good" : "warn");
}

// Arrivals, with what the rule made of them behind: a band where it saw a burst, a step line for K.
function arrivals(status) {
  const of = Math.max(status.backends.length, 1);
  const top = timeline("arrivals", (one) => one.requests, (one) => one.candidates, number, "requests", (one) => one.bursting, of);
  const entries = [["requests a second, at most " + number(top), "var(--good)"]];
  if (state.seconds.some((one) => one.candidates !== null)) {
    entries.push(["K, the backends it picks among: the top is all " + of, "var(--warn)"]);
  }
  if (status.bursting !== null) entries.push(["seen as a burst", "var(--burst)"]);
  at("legend").replaceChildren(...entries.map(([text, color]) => key(text, color)));
}

function backends(status) {
  const busiest = Math.max(1, ...status.backends.map((b) => Math.max(b.outstanding, b.report ? b.report.queue : 0)));
  const cards = status.backends.map((backend, place) => {
    const card = element("div", undefined, "pool");
    card.style.setProperty("--pool", COLORS[place % COLORS.length]);
    const head = element("h3", backend.name);
    const kind = backend.state === "up" ? "good" : ["down", "ejected"].includes(backend.state) ? "bad" : "warn";
    head.append(element("span", backend.state, "badge " + kind));
    const drains = backend.state === "draining";
    const button = element("button", drains ? "undrain" : "drain");
    button.addEventListener("click", async () => {
      await ask("/v1/backends/" + encodeURIComponent(backend.name) + (drains ? "/undrain" : "/drain"), "POST");
      tick();
    });
    head.append(button);
    const fill = element("div", undefined, "fill load");
    const bar = element("i"), queue = element("b");
    bar.style.width = (100 * backend.outstanding / busiest).toFixed(1) + "%";
    queue.style.width = (100 * (backend.report ? backend.report.queue : 0) / busiest).toFixed(1) + "%";
    fill.append(queue, bar);
    const weight = backend.weight * backend.share;
    const limit = backend.requests_max === null ? "" : " of at most " + number(backend.requests_max);
    const said = backend.report ? "; reports " + backend.report.queue + ", " + backend.report.age_s.toFixed(1) + " s ago" : "";
    const text = backend.outstanding + " under way" + limit + ", weight " + (Math.round(100 * weight) / 100) + said;
    const seconds = state.seconds.map((second) => second.backends.find((one) => one.name === backend.name)).filter(Boolean);
    const last = seconds.at(-1) || { sent: 0, failed: 0, p50_us: 0, p99_us: 0 };
    const figures = element("div", undefined, "figures");
    for (const word of ["sent", number(last.sent) + "/s", number(last.failed) + " failed/s",
      "latency", "p50 " + micros(last.p50_us), "p99 " + micros(last.p99_us)]) figures.append(element("span", word));
    const [svg, top] = line(seconds.map((second) => second.sent), 300, 34, "spark");
    svg.append(caption("requests a second over the last five minutes, at most " + number(top)));
    card.append(head, fill, element("small", text), figures, svg);
    return card;
  });
  at("pools").replaceChildren(...cards);
}

function counts(status) {
  const columns = [["sent", "sent"], ["served", "served"], ["errors", "server errors"], ["unreachable", "unreachable"], ["broken", "broken off"],
    ["timed_out", "too late"], ["abandoned", "given up by clients"], ["retried", "tried again"], ["ejections", "ejections"], ["reports", "reports used"],
    ["reports_refused", "refused"]];
  const headings = ["backend", ...columns.map(([, text]) => text)];
  const rows = status.backends.map((backend) => row([backend.name, ...columns.map(([key]) => number(backend.counters[key]))]));
  const note = number(status.requests) + " requests arrived; " + number(status.turned_away) + " found no place, " + number(status.bad_requests)
    + " were not served as HTTP, " + number(status.retries_denied) + " retries were over the budget";
  at("counts").replaceChildren(table(headings, rows), element("small", note));
}

function tick() {
  return round((status) => {
    facts(status);
    arrivals(status);
    backends(status);
    counts(status);
  }, "balancer gone");
}

tick();
setInterval(tick, 1000);
