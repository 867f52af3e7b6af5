// The page asks the API every second and draws what it is told; it decides nothing.
"use strict";

// Cividis at even steps: lightness grows, and only blue and yellow are needed to see it.
const RAMP = [[0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115], [138, 134, 120],
  [165, 157, 117], [195, 181, 105], [225, 206, 85], [254, 232, 56]];
Object.assign(state, { status: null, heat: null, volume: null });

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
  const last = state.seconds.at(-1) || { reads: 0, writes: 0, p99_us: 0 };
  const share = status.fastest_pool_share;
  head([
    ["reads/s", number(last.reads)], ["writes/s", number(last.writes)], ["p99", micros(last.p99_us)],
    ["fastest pool serves", share === null ? "–" : (100 * share).toFixed(0) + " % of reads"],
    ["policy", status.policy.spec + (status.policy.spec === "none" ? "" : ", every " + span(status.epoch_seconds))],
    ...(status.parts.chunks ? [["mirrored or redirected", number(status.parts.chunks) + " chunks" + (status.parts.diverted_reads === null ? ""
      : ", slower side answers " + (100 * status.parts.diverted_reads).toFixed(0) + " %")]] : []),
    ...(status.scrub.state === "running" ? [["scrub", (100 * status.scrub.progress).toFixed(0) + " %"]] : []),
    ...(status.scrub.checksum_errors + status.scrub.undecided_blocks ? [["checksum errors", number(status.scrub.checksum_errors)
      + ", " + number(status.scrub.repaired_blocks) + " blocks repaired, "
      + number(status.scrub.unrepairable_blocks + status.scrub.undecided_blocks) + " not"]] : []),
    ["clients", status.connections], ["up", span(status.uptime_seconds)],
  ], status.service, status.service === "ready" ? "good" : "bad");
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
}

function tick() {
  return round(draw, "engine gone", { heat: null });
}

tick();
setInterval(tick, 1000);
