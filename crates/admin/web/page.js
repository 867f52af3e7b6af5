// What all pages share: the token and its door, words for figures, tables, lines over time, the list of events, and how the
// API is asked. A page has a `tick` of its own, and adds to `state` what only it keeps.
"use strict";

const COLORS = ["#e69f00", "#56b4e9", "#009e73", "#cc79a7", "#f0e442", "#0072b2", "#d55e00"];
const at = (id) => document.getElementById(id);
const state = { from: 0, seconds: [], events: [], eventFrom: 0 };

let token = new URLSearchParams(location.hash.slice(1)).get("token") || sessionStorage.getItem("token") || "";
if (location.hash.includes("token=")) {
  sessionStorage.setItem("token", token);
  history.replaceState(null, "", location.pathname);
}

async function ask(path, method = "GET") {
  const headers = token ? { Authorization: "Bearer " + token } : {};
  const answer = await fetch(path, { method, headers, cache: "no-store" });
  if (answer.status === 401) {
    at("door").hidden = false;
    throw new Error("a token is needed");
  }
  if (!answer.ok) throw new Error((await answer.json()).message || answer.statusText);
  at("door").hidden = true;
  return answer.json();
}

at("door").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value.trim();
  sessionStorage.setItem("token", token);
  tick();
});

function element(tag, text, kind) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (kind) node.className = kind;
  return node;
}

function row(cells, kind, tag = "td") {
  const node = element("tr", undefined, kind);
  for (const content of cells) {
    const cell = element(tag);
    cell.append(content);
    node.append(cell);
  }
  return node;
}

function table(headings, rows) {
  const node = element("table");
  node.append(row(headings, undefined, "th"), ...rows);
  return node;
}

// A mark in a color with its meaning.
function key(text, color) {
  const entry = element("span"), mark = element("i");
  mark.style.setProperty("--pool", color);
  entry.append(mark, text);
  return entry;
}

// The head of the page: its figures by name, and how things are in a word.
function head(figures, word, kind) {
  at("facts").replaceChildren(...figures.map(([name, value]) => {
    const pair = element("div");
    pair.append(element("dt", name), element("dd", value));
    return pair;
  }));
  badge(word, kind);
}

function badge(word, kind) {
  at("service").textContent = word;
  at("service").className = "badge " + kind;
}

function drawing(tag, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

function caption(text) {
  const node = drawing("title", {});
  node.textContent = text;
  return node;
}

// A count in at most six characters.
function number(count) {
  return count >= 1e6 ? (count / 1e6).toFixed(1) + " M" : count >= 1e4 ? (count / 1e3).toFixed(1) + " k" : String(Math.round(count));
}

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) { count /= 1024; unit += 1; }
  return (count >= 100 || unit === 0 ? count.toFixed(0) : count.toFixed(1)) + " " + units[unit];
}

// A ratio of 0 to 1 in per cent; `null` is one that is not known.
function share(ratio) {
  return ratio === null ? "–" : (100 * ratio).toFixed(1) + " %";
}

function micros(us) {
  if (!us) return "–";
  if (us < 1000) return us.toFixed(0) + " µs";
  return us < 1e6 ? (us / 1000).toFixed(us < 1e4 ? 2 : 1) + " ms" : (us / 1e6).toFixed(2) + " s";
}

function span(seconds) {
  const h = Math.floor(seconds / 3600), m = Math.floor(seconds / 60) % 60, s = Math.floor(seconds) % 60;
  return h ? h + " h " + m + " min" : m ? m + " min " + s + " s" : s + " s";
}

function line(values, width, height, kind) {
  const svg = drawing("svg", { class: kind, viewBox: "0 0 " + width + " " + height, preserveAspectRatio: "none" });
  const top = Math.max(...values, 1), first = width - values.length;
  const points = values.map((value, i) => (first + i) + " " + (height - 1 - (height - 3) * value / top).toFixed(1));
  if (points.length) {
    svg.append(drawing("path", { class: "area", d: "M" + first + " " + height + "L" + points.join("L") + "L" + (width - 1) + " " + height + "Z" }));
    svg.append(drawing("path", { class: "line", d: "M" + points.join("L") }));
  }
  return [svg, top];
}

// A second line over time, with steps, on the scale of the first one; places without a value are left out.
function steps(svg, values, top, width, height) {
  const first = width - values.length;
  const points = values.map((value, i) => value === null ? null
    : (first + i) + " " + (height - 1 - (height - 3) * Math.min(value / top, 1)).toFixed(1)).filter(Boolean);
  if (points.length) svg.append(drawing("path", { class: "candidates", d: "M" + points.join("L") }));
}

// A picture of the last five minutes: a figure of each second, behind it a band where `band` holds, and before it a second
// figure, on the same scale unless `top` says another. `unit` puts a figure in words. Gives the greatest first figure.
function timeline(place, figure, second, unit, what, band, top) {
  const width = 300, height = 90, first = width - state.seconds.length;
  const [svg, most] = line(state.seconds.map(figure), width, height, "spark arrivals");
  state.seconds.forEach((one, i) => {
    if (band && band(one)) svg.prepend(drawing("rect", { class: "burst", x: first + i, y: 0, width: 1, height }));
  });
  steps(svg, state.seconds.map(second), top || most, width, height);
  svg.append(caption(what + " a second over the last five minutes, at most " + unit(most)));
  at(place).replaceChildren(svg);
  return most;
}

// A table at a place of the page: columns of a heading and how a cell is made of an item; `none` is said when there is no item.
function rows(place, columns, list, none) {
  if (!list.length) return at(place).replaceChildren(element("small", none));
  at(place).replaceChildren(table(columns.map(([text]) => text), list.map((one) => row(columns.map(([, figure]) => figure(one))))));
}

function events(fresh) {
  if (!fresh.length) return;
  state.events = state.events.concat(fresh).slice(-100);
  state.eventFrom = state.events.at(-1).id + 1;
  at("events").replaceChildren(...state.events.slice().reverse().map((event) => {
    const row = element("li");
    const time = element("time", new Date(event.at_ms).toLocaleTimeString([], { hour12: false }), "quiet");
    row.append(time, element("span", event.subject, "quiet"), element("span", event.text, event.severity));
    return row;
  }));
}

// One round: asks for the status and the last five minutes, lets the page draw them, and lists what happened. `gone` is said
// when nobody answers. Whoever was started anew counts from zero: then the past is forgotten, and what of the page's own
// state `forget` sets.
async function round(draw, gone, forget) {
  try {
    const status = await ask("/v1/status");
    const fresh = await ask("/v1/history?from=" + state.from);
    if (fresh.length) {
      state.seconds = state.seconds.concat(fresh).slice(-300);
      state.from = fresh.at(-1).number + 1;
    }
    await draw(status);
    events(await ask("/v1/events?from=" + state.eventFrom));
  } catch (error) {
    const isGone = error instanceof TypeError;
    badge(isGone ? gone : error.message, "bad");
    if (isGone) Object.assign(state, { from: 0, seconds: [], eventFrom: 0, events: [] }, forget);
  }
}
