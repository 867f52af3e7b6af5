
function facts(status) {
  const last = state.seconds.at(-1) || { read_blocks: 0, received_bytes: 0, peer_received_bytes: 0 };
  const attached = status.volumes.filter((volume) => volume.state === "attached").length;
  head([
    ["host", status.host], ["store", status.store], ["volumes", attached + " of " + status.volumes.length], ["NBD clients", status.clients],
    ["guests read", bytes(last.read_blocks * BLOCK) + "/s"], ["from the store", bytes(last.received_bytes) + "/s"],
    ["from hosts", bytes(last.peer_received_bytes) + "/s"], ["protocol", status.protocol], ["up", span(status.uptime_seconds)],
  ], status.is_connected ? "connected" : "no store", status.is_connected ? "good" : "bad");
  at("service").title = status.last_error ? "last trouble: " + status.last_error : "";
}

function levels(status) {
  const flash = status.flash ? status.flash.hit_blocks : 0;
  const known = status.hit_blocks + flash + status.joined_blocks + status.named_blocks + status.peer_blocks;
  rows("levels", [["level", (one) => one[0]], ["blocks", (one) => one[1]], ["share", (one) => part(one[1], status.read_blocks)]], [
    ["memory, and zeroes", status.hit_blocks], ["flash", flash], ["another read's request", status.joined_blocks],
    ["memory, named by the store", status.named_blocks], ["other hosts", status.peer_blocks], ["the store", Math.max(status.read_blocks - known, 0)],
  ], "");
}

function cache(status) {
  const list = [["memory", status.cached_blocks * BLOCK, null, null]];
  if (status.flash) {
    const it = status.flash;
    list.push([it.is_off ? it.device + " (given up)" : it.device, it.blocks * BLOCK, it.slots * BLOCK, it]);
  }
  rows("cache", [
    ["level", (one) => one[0]], ["holds", (one) => bytes(one[1])], ["of", (one) => one[2] === null ? "–" : bytes(one[2])],
    ["written", (one) => one[3] ? one[3].stored_blocks : "–"], ["wrong bytes", (one) => one[3] ? one[3].damaged_blocks : "–"],
    ["failures", (one) => one[3] ? one[3].failures : "–"],
  ], list, "");
}

function tick() {
  return round((status) => {
    facts(status);
    levels(status);
    cache(status);
    traffic((second) => Math.max(second.read_blocks * BLOCK, second.received_bytes), (second) => second.received_bytes,
      ["what guests read, or what came if that is more", "came from the store"]);
    rows("volumes", [
      ["name", (one) => one.name], ["size", (one) => bytes(one.size_bytes)], ["state", (one) => one.state], ["why", (one) => one.why || one.last_refusal || "–"],
      ["refused writes", (one) => one.refused_writes],
      ["lease", (one) => one.fence ? "number " + one.fence : "–"],
    ], status.volumes, "none is attached");
  }, "this agent is gone");
}

tick();
setInterval(tick, 1000);
