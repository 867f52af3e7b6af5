// The page asks the API every second and draws what it is told; it decides nothing.
"use strict";

// The colour of a function: its place among all functions of the pool.
function colour(status, name) {
  const place = status.functions.findIndex((one) => one.name === name);
  return place < 0 ? "gray" : COLORS[place % COLORS.length];
}

function last() {
  return state.seconds.at(-1) || { offered: 0, passed: 0, dropped: 0, lost: 0, slots: [], processor: [] };
}

function facts(status) {
  const now = last(), running = status.slots.filter((slot) => slot.state === "running").length;
  const failed = status.slots.filter((slot) => slot.state === "failed").length;
  const word = failed ? failed + (failed === 1 ? " slot failed" : " slots failed") : now.lost ? "packets are lost" : "carries packets";
  head([
    ["packets/s", number(now.passed)], ["dropped/s", number(now.dropped)], ["lost/s", number(now.lost)],
    ["slots", running + " of " + status.slots.length + " run"], ["tenants", status.tenants.length],
    ["loads", status.packets.loads], ["scheduler", status.scheduler], ["up", span(status.uptime_seconds)],
  ], word, failed ? "bad" : now.lost ? "warn" : "good");
}

// What came, and before it what left: the distance was dropped or lost.
function packets() {
  const top = timeline("packets", (one) => one.offered, (one) => one.passed, number, "packets", (one) => one.loads);
  at("legend").replaceChildren(key("came, at most " + number(top) + " a second", "var(--good)"), key("left", "var(--warn)"),
    key("a slot was loaded", "var(--burst)"));
}

// A box of a chain's picture, with lines of text.
function box(svg, x, lines, fill) {
  const node = drawing("g", { transform: "translate(" + x + " 4)" });
  node.append(drawing("rect", { width: 170, height: 52, rx: 6, class: "stage", stroke: fill }));
  lines.forEach((text, i) => {
    const label = drawing("text", { x: 85, y: 21 + 18 * i, class: i ? "quiet" : "" });
    label.textContent = text.length > 26 ? text.slice(0, 25) + "…" : text;
    node.append(label, caption(text));
  });
  svg.append(node);
}

// The workers that may do a function's work for a tenant, in words.
function workers(status, tenant, name) {
  const mine = (slot) => slot.tenant === null || slot.tenant === tenant.name;
  const slots = status.slots.filter((slot) => slot.function === name && slot.state === "running" && mine(slot)).map((slot) => slot.slot);
  const known = status.functions.find((one) => one.name === name);
  const words = slots.length ? [(slots.length === 1 ? "slot " : "slots ") + slots.join(", ")] : [];
  if (!slots.length || (known && known.on_processor)) words.push("processor");
  return words.join(", ");
}

function chains(status) {
  at("chains").replaceChildren(...status.tenants.map((tenant) => {
    const stages = [[tenant.name, tenant.networks.join(", ")], ...tenant.chain.map((name) => [name, workers(status, tenant, name)]),
      ["the world", tenant.chain.includes("nat") ? "as " + tenant.external.join(", ") : "addresses unchanged"]];
    if (!tenant.chain.length) stages.splice(1, 1, ["no chain", "its packets are dropped"]);
    const width = stages.length * 170 + (stages.length - 1) * 40 + 4;
    const svg = drawing("svg", { class: "chain", viewBox: "0 0 " + width + " 60", width });
    stages.forEach(([title, text], i) => {
      const isFunction = i > 0 && i < stages.length - 1;
      box(svg, 2 + i * 210, [title, text], isFunction ? colour(status, title) : "gray");
      if (i) svg.append(drawing("path", { class: "way", d: "M" + (2 + i * 210 - 38) + " 30h34m-6 -5l6 5l-6 5" }));
    });
    svg.append(caption("chain of " + tenant.name));
    return svg;
  }));
  if (!status.tenants.length) at("chains").replaceChildren(element("small", "no tenant is configured"));
}

const KINDS = { running: "good", loading: "warn", draining: "warn", failed: "bad", empty: "" };

function slots(status) {
  at("pools").replaceChildren(...status.slots.map((slot) => {
    const card = element("div", undefined, "pool");
    card.style.setProperty("--pool", colour(status, slot.function));
    const heading = element("h3", "slot " + slot.slot + (slot.function ? ": " + slot.function : ""));
    heading.append(element("span", slot.state, "badge " + KINDS[slot.state]));
    const drained = (status.cards.find((one) => one.name === slot.card) || {}).drained;
    const notes = [slot.card + (drained ? ", drained" : ""), slot.tenant ? "kept for " + slot.tenant : null, slot.chosen ? "chosen by hand" : null];
    const now = last().slots[slot.slot] || { packets: 0, load: 0 };
    const fill = element("div", undefined, "fill"), bar = element("i");
    bar.style.width = (100 * now.load).toFixed(1) + "%";
    fill.append(bar);
    const figures = element("div", undefined, "figures");
    for (const word of ["load", share(now.load), number(now.packets) + " packets/s",
      "a packet", slot.cost_ns === null ? "–" : (slot.cost_ns / 1000).toFixed(2) + " µs", number(slot.waiting) + " wait",
      "flows", number(slot.flows), number(slot.shares) + (slot.shares === 1 ? " share of hosts" : " shares of hosts")]) figures.append(element("span", word));
    const [svg, top] = line(state.seconds.map((second) => (second.slots[slot.slot] || { packets: 0 }).packets), 300, 34, "spark");
    svg.append(caption("packets a second over the last five minutes, at most " + number(top)));
    card.append(heading, element("small", notes.filter(Boolean).join(", ")), fill, figures, svg);
    return card;
  }));
}

function functions(status) {
  const processor = (name) => last().processor.find((one) => one.function === name) || { packets: 0, load: 0 };
  at("functions").replaceChildren(table(["function", "slots", "wanted", "came/s", "on the processor", "its load", "flows"],
    status.functions.map((one) => row([key(one.name, colour(status, one.name)), one.running,
      one.wanted === null ? "as the scheduler decides" : one.wanted, number(one.offered_per_s),
      number(processor(one.name).packets) + " packets/s", share(processor(one.name).load), number(one.flows)]))));
}

function drops(status) {
  const counts = status.packets;
  const all = [["dropped by functions", counts.dropped_by_functions], ["of these, by a rule", counts.dropped_by_rules],
    ["before full queues and tables, at failed slots, without a chain", counts.lost], ["of no tenant, or not IPv4", counts.dropped_strangers],
    ["with no hop left", counts.dropped_hops], ["hosts that were refused a port", counts.ports_exhausted],
    ...["inside", "outside"].map((side, i) => ["not taken by the interface " + side, status.interfaces[i].refused])];
  rows("drops", [["", ([text]) => text], ["packets", ([, count]) => number(count)]], all.filter(([, count]) => count), "none");
}

function tick() {
  return round((status) => {
    facts(status);
    packets();
    chains(status);
    slots(status);
    functions(status);
    drops(status);
  }, "this pool is gone");
}

tick();
setInterval(tick, 1000);
