// The page asks the API every second and draws what it is told; it decides nothing.
"use strict";

// Cividis at even steps: lightness grows, and only blue and yellow are needed to see it.
const RAMP = [[0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115], [138, 134, 120],
  [165, 157, 117], [195, 181, 105], [225, 206, 85], [254, 232, 56]];
Object.assign(state, { status: null, heat: null, volume: null, forecasts: [] });

function color(pool) { return COLORS[pool % COLORS.length]; }

function ramp(part) {
  const place = Math.min(Math.max(part, 0), 1) * (RAMP.length - 1);
  const low = Math.floor(place), high = Math.min(low + 1, RAMP.length - 1);
  return RAMP[low].map((value, i) => Math.round(value + (RAMP[high][i] - value) * (place - low)));
}

function facts(status) {
  const last = state.seconds.at(-1) || { reads: 0, writes: 0, p99_us: 0 };
  const share = status.fastest_pool_share;
  head([
    ["reads/s", number(last.reads)], ["writes/s", number(last.writes)], ["p99", micros(last.p99_us)],
    ["fastest pool serves", share === null ? "–" : (100 * share).toFixed(0) + " % of reads"],
    ["policy", status.policy.spec + (status.policy.spec === "none" ? "" : ", every " + span(status.epoch_seconds))],
    ...account(status.policy.account),
    ...(status.parts.chunks ? [["mirrored or redirected", number(status.parts.chunks) + " chunks" + (status.parts.diverted_reads === null ? ""
      : ", slower side answers " + (100 * status.parts.diverted_reads).toFixed(0) + " %")]] : []),
    ...(status.scrub.state === "running" ? [["scrub", (100 * status.scrub.progress).toFixed(0) + " %"]] : []),
    ...(status.scrub.checksum_errors + status.scrub.undecided_blocks ? [["checksum errors", number(status.scrub.checksum_errors)
      + ", " + number(status.scrub.repaired_blocks) + " blocks repaired, "
      + number(status.scrub.unrepairable_blocks + status.scrub.undecided_blocks) + " not"]] : []),
    ["clients", status.connections], ["up", span(status.uptime_seconds)],
  ], status.service, status.service === "ready" ? "good" : "bad");
}

// What the policy says that its moves came to, or would come to where it only recommends.
function account(told) {
  if (!told) return [];
  const time = (seconds) => seconds === 0 ? "0 s" : (seconds < 0 ? "−" : "") + micros(1e6 * Math.abs(seconds));
  if (!told.acts) return [["moves would save", time(told.would_save_ratio) + " a second"]];
  return [["moves saved", time(told.saved_seconds) + ", cost " + time(told.spent_seconds)]];
}

function poolName(status, id) {
  return (status.pools.find((pool) => pool.id === id) || { name: id }).name;
}

function pools(status) {
  const cards = status.pools.filter((pool) => pool.state !== "removed").map((pool) => {
    const card = element("div", undefined, "pool");
    card.style.setProperty("--pool", color(pool.id));
    const title = element("h3", pool.name);
    const kind = pool.state === "active" ? "good" : pool.state === "dead" ? "bad" : "warn";
    title.append(element("span", pool.state, "badge " + kind));
    if (pool.emulated) title.append(element("span", "emulated", "badge"));
    const path = element("div", pool.path || "device missing", "quiet path");
    path.title = pool.path || "";
    const fill = element("div", undefined, "fill");
    const part = pool.chunks_used / Math.max(pool.chunks_total, 1);
    const bar = element("i");
    bar.style.width = (100 * part).toFixed(1) + "%";
    fill.append(bar);
    const size = status.chunk_bytes;
    const used = bytes(pool.chunks_used * size) + " of " + bytes(pool.chunks_total * size) + " (" + (100 * part).toFixed(0) + " %)";
    const cache = pool.cache && element("div", "cache " + bytes(pool.cache.cached_bytes) + " of " + bytes(pool.cache.size_bytes)
      + (pool.cache.hit_ratio === null ? "" : ", " + (100 * pool.cache.hit_ratio).toFixed(0) + " % hits")
      + ", " + bytes(pool.cache.dirty_bytes) + " dirty", "quiet");
    const seconds = state.seconds.map((second) => second.pools[pool.id]).filter(Boolean);
    const last = seconds.at(-1) || { reads: 0, writes: 0, read_bytes: 0, written_bytes: 0, moved_bytes: 0, p50_us: 0, p99_us: 0 };
    const figures = element("div", undefined, "figures");
    for (const text of ["read", number(last.reads) + "/s", bytes(last.read_bytes) + "/s",
      "write", number(last.writes) + "/s", bytes(last.written_bytes) + "/s",
      "latency", "p50 " + micros(last.p50_us), "p99 " + micros(last.p99_us),
      "moves", "", bytes(last.moved_bytes) + "/s"]) figures.append(element("span", text));
    card.append(title, path, fill, element("small", used), ...(cache ? [cache] : []), figures);
    const [svg, top] = line(seconds.map((second) => second.reads + second.writes), 300, 34, "spark");
    svg.append(caption("requests a second over the last five minutes, at most " + number(top)));
    card.append(svg);
    return card;
  });
  at("pools").replaceChildren(...cards);
}

function volumes(status) {
  const select = at("volume"), names = status.volumes.map((volume) => volume.name);
  if (names.join() !== [...select.options].map((option) => option.value).join()) {
    select.replaceChildren(...status.volumes.map((volume) => {
      const option = element("option", volume.name + ", " + bytes(volume.size_bytes));
      option.value = volume.name;
      return option;
    }));
  }
  if (!names.includes(state.volume)) { state.volume = names[0] || null; state.heat = null; }
  if (state.volume) select.value = state.volume;
}

at("volume").addEventListener("change", () => { state.volume = at("volume").value; state.heat = null; tick(); });

function drawHeat(status) {
  const heat = state.heat, canvas = at("heat"), where = at("where"), rows = 150, columns = 256;
  const dark = !matchMedia("(prefers-color-scheme: light)").matches;
  canvas.width = columns; canvas.height = rows; where.width = columns; where.height = 26;
  const pen = canvas.getContext("2d"), strip = where.getContext("2d");
  const image = pen.createImageData(columns, rows);
  const most = Math.max(1, ...heat.rows.map((row) => Math.max(...row)));
  const start = rows - heat.rows.length;
  heat.rows.forEach((row, y) => row.forEach((count, x) => {
    const place = 4 * ((start + y) * columns + x);
    if (count) {
      const [r, g, b] = ramp(0.12 + 0.88 * Math.log1p(count) / Math.log1p(most));
      image.data.set([r, g, b, 255], place);
    }
  }));
  pen.putImageData(image, 0, 0);
  strip.fillStyle = dark ? "#1b2a35" : "#e7edf0";
  strip.fillRect(0, 0, columns, 26);
  heat.pools.forEach((shares, x) => {
    let from = 0;
    shares.forEach((share, pool) => {
      strip.fillStyle = color(pool);
      strip.fillRect(x, from * 26, 1, share * 26);
      from += share;
    });
  });
  at("ruler").replaceChildren(...[0, 0.25, 0.5, 0.75, 1].map((part) => element("span", bytes(part * heat.column_bytes * columns))));
  const legend = status.pools.filter((pool) => pool.state !== "removed").map((pool) => key(pool.name, color(pool.id)));
  const scale = element("span", "accesses in " + heat.row_seconds + " s: 1");
  const bar = element("span", undefined, "ramp");
  bar.style.background = "linear-gradient(90deg," + [0.12, 0.34, 0.56, 0.78, 1].map((p) => "rgb(" + ramp(p).join() + ")").join() + ")";
  scale.append(bar, number(most));
  at("legend").replaceChildren(element("span", "upper strip: where it lives", "quiet"), ...legend, scale);
}

at("heat-frame").addEventListener("mousemove", (event) => {
  const heat = state.heat, tip = at("tip"), frame = at("heat-frame").getBoundingClientRect();
  const box = at("heat").getBoundingClientRect();
  const x = Math.floor((event.clientX - box.left) / box.width * 256);
  if (!heat || x < 0 || x > 255 || event.clientY > box.bottom) { tip.hidden = true; return; }
  const y = Math.floor((event.clientY - box.top) / box.height * 150) - (150 - heat.rows.length);
  const shares = heat.pools[x].map((share, pool) => [poolName(state.status, pool), share]).filter(([, share]) => share > 0);
  const text = [bytes(x * heat.column_bytes) + " to " + bytes((x + 1) * heat.column_bytes),
    shares.map(([name, share]) => name + " " + (100 * share).toFixed(0) + " %").join(", ") || "holds nothing"];
  if (event.clientY >= box.top && heat.rows[y]) text.push(heat.rows[y][x] + " accesses, " + span((heat.rows.length - y) * heat.row_seconds) + " ago");
  tip.textContent = text.join("\n");
  tip.hidden = false;
  const left = event.clientX - frame.left;
  tip.style.left = (left > frame.width / 2 ? left - tip.offsetWidth - 12 : left + 12) + "px";
  tip.style.top = event.clientY - frame.top + 12 + "px";
});
// A place in the volume whose reasons are shown: where it was clicked, or the hottest when nothing was.
at("heat-frame").addEventListener("click", (event) => {
  const box = at("heat").getBoundingClientRect(), heat = state.heat;
  const x = Math.floor((event.clientX - box.left) / box.width * 256);
  if (!heat || x < 0 || x > 255 || event.clientY > box.bottom) return;
  state.clicked = { volume: state.volume, offset: x * heat.column_bytes };
  tick();
});

function hottest(heat) {
  const sums = heat.pools.map((_, x) => heat.rows.reduce((sum, row) => sum + (row[x] || 0), 0));
  const most = Math.max(0, ...sums);
  return most > 0 ? sums.indexOf(most) * heat.column_bytes : null;
}

async function why(status) {
  const clicked = state.clicked && state.clicked.volume === state.volume ? state.clicked.offset : null;
  const place = clicked === null ? hottest(state.heat) : clicked;
  at("why-frame").hidden = place === null || status.policy.spec === "none";
  if (at("why-frame").hidden) return;
  const told = await ask("/v1/policy/explain?volume=" + encodeURIComponent(state.volume) + "&offset_bytes=" + place);
  const chunk = told.chunk, pools = chunk.pools.map((id) => poolName(status, id)).join(" and ") || "no pool: it holds nothing";
  at("why-place").textContent = (clicked === null ? "the hottest place, " : "") + state.volume + " at " + bytes(chunk.offset_bytes) +
    ", on " + pools + ", as " + told.policy + " sees it";
  const reasons = told.reasons.length ? told.reasons : [told.policy + " gives no reasons for this place."];
  at("why").replaceChildren(...reasons.map((reason) => element("li", reason)));
}

at("heat-frame").addEventListener("mouseleave", () => { at("tip").hidden = true; });

function moves(operations, status) {
  const name = (id) => poolName(status, id);
  const parts = operations.jobs.filter((job) => !job.over).slice(-5).map((job) => {
    const box = element("div", undefined, "job");
    const fill = element("div", undefined, "fill");
    const bar = element("i");
    bar.style.width = (100 * job.ended / Math.max(job.chunks, 1)).toFixed(1) + "%";
    fill.append(bar);
    const to = job.pool ? " to " + job.pool : "";
    box.append(element("span", "job " + job.id + ": " + job.kind + " " + job.volume + to + ", " + job.ended + " of " + job.chunks + " chunks"), fill);
    return box;
  });
  const going = operations.chunks.slice(0, 8).map((move) => row([move.kind, move.volume + " at " + bytes(move.offset_bytes),
    move.from === null ? "waits" : name(move.from), name(move.to), bytes(move.copied_bytes)]));
  if (!parts.length && !going.length) parts.push(element("p", "Nothing moves.", "quiet"));
  if (going.length) parts.push(table(["", "place", "from", "to", "copied"], going));
  at("moves").replaceChildren(...parts);
  at("pending").textContent = operations.pending ? operations.pending + " chunks to go" : "";
}

function slas(status) {
  const list = status.volumes.filter((volume) => volume.sla);
  at("slas-frame").hidden = !list.length;
  if (!list.length) return;
  const rows = list.map((volume) => {
    const sla = volume.sla, late = (100 * sla.violations / Math.max(sla.answered, 1)).toFixed(2) + " %";
    return row([volume.name, sla.class, micros(sla.latency_us), number(sla.answered), number(sla.violations), late,
      sla.mean_excess_us === null ? "–" : micros(sla.mean_excess_us)]);
  });
  at("slas").replaceChildren(table(["volume", "class", "latency of the SLA", "requests", "later", "share", "by, on average"], rows));
}

function shadows(status) {
  const list = status.shadows || [];
  at("shadows-frame").hidden = !list.length;
  const percent = (share) => share === null ? "–" : (100 * share).toFixed(1) + " %";
  const one = (name, epochs, total, epoch, kind) => {
    const there = total.written[0] || { client_bytes: 0, moved_bytes: 0 };
    return row([name, epochs, micros(total.mean_latency_us), percent(total.fastest_pool_share), bytes(total.moved_bytes),
      bytes(there.client_bytes + there.moved_bytes), micros(epoch.mean_latency_us), percent(epoch.fastest_pool_share)], kind);
  };
  const rows = list.flatMap((shadow) => [one(shadow.name, shadow.epochs, shadow.total, shadow.epoch),
    one("what was done", "", shadow.actual_total, shadow.actual_epoch, "quiet")]);
  at("shadows").replaceChildren(table(["policy", "epochs", "expected latency", "fastest pool serves", "moved", "written there",
    "latency, last epoch", "fastest pool, last epoch"], rows));
}

const VERDICTS = { now: "", better: "better", worse: "worse", same: "no difference", unclear: "unclear", impossible: "impossible" };
const JUDGED = { better: "good", worse: "bad", unclear: "warn" };

function change(ratio) {
  if (ratio >= 3) return "× " + ratio.toFixed(1);
  return (ratio < 1 ? "−" : "+") + Math.abs(100 * (ratio - 1)).toFixed(ratio > 0.9 && ratio < 1.1 ? 1 : 0) + " %";
}

// A bar of a latency beside the largest one; a thin line at its end spans the 95 % interval.
function bar(us, most, now, ratio) {
  const svg = drawing("svg", { class: "trial", viewBox: "0 0 200 14", preserveAspectRatio: "none" });
  const place = (us) => (196 * Math.min(us / most, 1)).toFixed(1);
  svg.append(drawing("rect", { x: 0, y: 3, width: place(us), height: 8 }));
  if (ratio[2] > ratio[1]) {
    svg.append(drawing("path", { d: "M" + place(now * ratio[1]) + " 7H" + place(now * ratio[2]) }));
  }
  svg.append(caption(micros(us)));
  return svg;
}

function trials(list) {
  const known = list.filter((trial) => trial.figures);
  const most = (of) => Math.max(1, ...known.map((trial) => of(trial.figures)));
  const means = most((figures) => figures.mean_us), p99s = most((figures) => figures.p99_us);
  const now = (known[0] || {}).figures, plain = (value) => value === null ? "–" : value > 0 && value < 0.01 ? "< 0.01" : value.toFixed(2);
  const headings = ["trial", "mean", "", "", "99th percentile", "", "", "drive writes a day", "cost a month", "verdict"];
  return table(headings, list.map((trial) => {
    const figures = trial.figures, isNow = trial.verdict === "now";
    const verdict = element("span", VERDICTS[trial.verdict], JUDGED[trial.verdict]);
    const cells = figures ? [trial.what, bar(figures.mean_us, means, now.mean_us, figures.mean_ratio), micros(figures.mean_us),
      isNow ? "" : change(figures.mean_ratio[0]), bar(figures.p99_us, p99s, now.p99_us, figures.p99_ratio), micros(figures.p99_us),
      isNow ? "" : change(figures.p99_ratio[0]), plain(figures.writes_a_day), plain(figures.month_cost), verdict]
      : [trial.what, "", "–", "", "", "–", "", "–", "–", verdict];
    const shown = row(cells);
    shown.title = trial.devices + "; policy " + trial.policy + (trial.problem ? "; " + trial.problem : "");
    return shown;
  }));
}

// Forecasts over what was measured, from a quarter to four times, on a logarithmic scale; the oldest on the left.
function errors(list) {
  const svg = drawing("svg", { class: "errors", viewBox: "0 0 600 90" });
  const y = (ratio) => 45 - 40 * Math.max(-1, Math.min(1, Math.log2(ratio) / 2));
  for (const [ratio, text] of [[4, "4"], [2, "2"], [1, "1"], [0.5, "½"], [0.25, "¼"]]) {
    svg.append(drawing("path", { class: ratio === 1 ? "exact" : "grid", d: "M24 " + y(ratio) + "H596" }));
    const label = drawing("text", { x: 16, y: y(ratio) + 3 });
    label.textContent = text;
    svg.append(label);
  }
  const step = 560 / Math.max(list.length, 8);
  list.forEach((one, i) => {
    for (const [kind, ratio] of [["mean", one.mean], ["p99", one.p99]]) {
      const mark = drawing("circle", { class: kind, cx: 36 + step * i, cy: y(ratio), r: 3.5 });
      mark.append(caption(one.at + ", " + (kind === "mean" ? "mean" : "99th percentile") + ": " + ratio.toFixed(2)));
      svg.append(mark);
    }
  });
  return svg;
}

function forecasts(fresh) {
  state.forecasts = fresh.concat(state.forecasts).slice(0, 32);
  at("forecast-frame").hidden = !state.forecasts.length;
  if (!fresh.length) return;
  const moment = (one) => new Date(one.at_ms).toLocaleString([], { hour12: false });
  const last = state.forecasts[0], told = last.forecast;
  at("forecast-of").textContent = moment(last) + ", of " + number(told.requests) + " requests in " + span(told.span_seconds) + ", " +
    bytes(told.touched_bytes) + " touched, under " + last.policy + "; " + told.trials[0].devices +
    (told.from_map ? "; chunks begin where they were" : "; the fastest pools are filled first");
  at("forecast").replaceChildren(trials(told.trials));
  at("forecast-words").replaceChildren(...told.sentences.map((sentence) => element("li", sentence)));
  const compared = state.forecasts.filter((one) => one.forecast.measured && one.forecast.trials[0].figures).map((one) => {
    const measured = one.forecast.measured, figures = one.forecast.trials[0].figures;
    const mean = figures.mean_us / Math.max(measured.mean_us, 0.001), p99 = figures.p99_us / Math.max(measured.p99_us, 0.001);
    return { at: moment(one), policy: one.policy, measured, figures, mean, p99 };
  });
  const rows = compared.map((one) => row([one.at, one.policy, number(one.measured.requests), micros(one.measured.mean_us),
    micros(one.figures.mean_us), one.mean.toFixed(2), micros(one.measured.p99_us), micros(one.figures.p99_us), one.p99.toFixed(2)]));
  const legend = element("p", undefined, "quiet legend");
  legend.append(key("mean", COLORS[1]), key("99th percentile", COLORS[0]));
  at("forecast-errors").replaceChildren(...(compared.length ? [errors(compared.slice().reverse()), legend,
    table(["made", "policy", "requests", "mean was", "forecast", "ratio", "99th percentile was", "forecast", "ratio"], rows)]
    : [element("p", "The engine told no latencies while it was sampled.", "quiet")]));
}

async function draw(status) {
  state.status = status;
  facts(status);
  pools(status);
  slas(status);
  shadows(status);
  volumes(status);
  if (state.volume) {
    const known = state.heat, from = known ? known.first_row + known.rows.length : 0;
    const heat = await ask("/v1/volumes/" + state.volume + "/heat?from=" + from);
    const joins = known && heat.first_row === from && known.column_bytes === heat.column_bytes;
    if (joins) {
      heat.rows = known.rows.concat(heat.rows);
      heat.first_row = known.first_row;
      while (heat.rows.length > 150) { heat.rows.shift(); heat.first_row += 1; }
    }
    state.heat = heat;
    drawHeat(status);
    await why(status);
  }
  moves(await ask("/v1/operations"), status);
  forecasts(await ask("/v1/forecasts?after=" + ((state.forecasts[0] || {}).number || 0)));
}

function tick() {
  return round(draw, "engine gone", { heat: null, forecasts: [] });
}

tick();
setInterval(tick, 1000);
