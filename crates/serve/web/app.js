// The page asks the API every second and draws what it is told; it decides nothing.
"use strict";

// Cividis at even steps: lightness grows, and only blue and yellow are needed to see it.
const RAMP = [[0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115], [138, 134, 120],
  [165, 157, 117], [195, 181, 105], [225, 206, 85], [254, 232, 56]];
const state = { from: 0, seconds: [], events: [], eventFrom: 0, heat: null, volume: null, failures: 0 };

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) { count /= 1024; unit += 1; }
  return (count >= 100 || unit === 0 ? count.toFixed(0) : count.toFixed(1)) + " " + units[unit];
}

function number(count) {
  return count >= 1e4 ? (count / 1e3).toFixed(1) + " k" : String(Math.round(count));
}

function color(pool) { return COLORS[pool % COLORS.length]; }

function ramp(part) {
  const place = Math.min(Math.max(part, 0), 1) * (RAMP.length - 1);
  const low = Math.floor(place), high = Math.min(low + 1, RAMP.length - 1);
  return RAMP[low].map((value, i) => Math.round(value + (RAMP[high][i] - value) * (place - low)));
}

function facts(status) {
  const list = at("facts");
  list.replaceChildren();
  const last = state.seconds.at(-1) || { reads: 0, writes: 0, p99_us: 0 };
  const share = status.fastest_pool_share;
  for (const [name, value] of [
    ["reads/s", number(last.reads)], ["writes/s", number(last.writes)], ["p99", micros(last.p99_us)],
    ["fastest pool serves", share === null ? "–" : (100 * share).toFixed(0) + " % of reads"],
    ["policy", status.policy.spec + (status.policy.spec === "none" ? "" : ", every " + span(status.epoch_seconds))],
    ...(status.parts.chunks ? [["on two pools", number(status.parts.chunks) + " chunks" + (status.parts.diverted_reads === null ? ""
      : ", slower side answers " + (100 * status.parts.diverted_reads).toFixed(0) + " %")]] : []),
    ...(status.scrub.state === "running" ? [["scrub", (100 * status.scrub.progress).toFixed(0) + " %"]] : []),
    ...(status.scrub.checksum_errors + status.scrub.undecided_blocks ? [["checksum errors", number(status.scrub.checksum_errors)
      + ", " + number(status.scrub.repaired_blocks) + " blocks repaired, "
      + number(status.scrub.unrepairable_blocks + status.scrub.undecided_blocks) + " not"]] : []),
    ["clients", status.connections], ["up", span(status.uptime_seconds)],
  ]) {
    const pair = element("div");
    pair.append(element("dt", name), element("dd", value));
    list.append(pair);
  }
  const badge = at("service");
  badge.textContent = status.service;
  badge.className = "badge " + (status.service === "ready" ? "good" : "bad");
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
  const legend = status.pools.filter((pool) => pool.state !== "removed").map((pool) => {
    const entry = element("span");
    const mark = element("i");
    mark.style.setProperty("--pool", color(pool.id));
    entry.append(mark, pool.name);
    return entry;
  });
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
  const table = element("table");
  const going = operations.chunks.slice(0, 8);
  if (going.length) {
    const head = element("tr");
    for (const text of ["", "place", "from", "to", "copied"]) head.append(element("th", text));
    table.append(head);
  }
  for (const move of going) {
    const row = element("tr");
    for (const text of [move.kind, move.volume + " at " + bytes(move.offset_bytes), move.from === null ? "waits" : name(move.from), name(move.to), bytes(move.copied_bytes)]) row.append(element("td", text));
    table.append(row);
  }
  if (!parts.length && !going.length) parts.push(element("p", "Nothing moves.", "quiet"));
  at("moves").replaceChildren(...parts, table);
  at("pending").textContent = operations.pending ? operations.pending + " chunks to go" : "";
}

function promises(status) {
  const list = status.volumes.filter((volume) => volume.sla);
  at("promises-frame").hidden = !list.length;
  if (!list.length) return;
  const table = element("table"), head = element("tr");
  for (const text of ["volume", "class", "promised", "requests", "later", "share", "by, on average"]) head.append(element("th", text));
  table.append(head);
  for (const volume of list) {
    const sla = volume.sla, row = element("tr");
    for (const text of [volume.name, sla.class, micros(sla.latency_us), number(sla.answered), number(sla.violations),
      (100 * sla.violations / Math.max(sla.answered, 1)).toFixed(2) + " %",
      sla.mean_excess_us === null ? "–" : micros(sla.mean_excess_us)]) row.append(element("td", text));
    table.append(row);
  }
  at("promises").replaceChildren(table);
}

function shadows(status) {
  const list = status.shadows || [];
  at("shadows-frame").hidden = !list.length;
  const table = element("table"), head = element("tr");
  for (const text of ["policy", "epochs", "expected latency", "fastest pool serves", "moved", "written there", "latency, last epoch",
    "fastest pool, last epoch"]) head.append(element("th", text));
  table.append(head);
  const percent = (share) => share === null ? "–" : (100 * share).toFixed(1) + " %";
  const add = (name, epochs, total, epoch, kind) => {
    const row = element("tr", undefined, kind), there = total.written[0] || { client_bytes: 0, moved_bytes: 0 };
    for (const text of [name, epochs, micros(total.mean_latency_us), percent(total.fastest_pool_share), bytes(total.moved_bytes),
      bytes(there.client_bytes + there.moved_bytes), micros(epoch.mean_latency_us), percent(epoch.fastest_pool_share)]) row.append(element("td", text));
    table.append(row);
  };
  for (const shadow of list) {
    add(shadow.name, shadow.epochs, shadow.total, shadow.epoch);
    add("what was done", "", shadow.actual_total, shadow.actual_epoch, "quiet");
  }
  at("shadows").replaceChildren(table);
}

async function tick() {
  try {
    const status = state.status = await ask("/v1/status");
    const fresh = await ask("/v1/history?from=" + state.from);
    if (fresh.length) {
      state.seconds = state.seconds.concat(fresh).slice(-300);
      state.from = fresh.at(-1).number + 1;
    }
    facts(status);
    pools(status);
    promises(status);
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
    }
    moves(await ask("/v1/operations"), status);
    events(await ask("/v1/events?from=" + state.eventFrom));
    state.failures = 0;
  } catch (error) {
    state.failures += 1;
    at("service").textContent = error instanceof TypeError ? "engine gone" : error.message;
    at("service").className = "badge bad";
    // An engine that was started anew counts from zero.
    if (error instanceof TypeError) Object.assign(state, { from: 0, seconds: [], heat: null, eventFrom: 0, events: [] });
  }
}

tick();
setInterval(tick, 1000);
