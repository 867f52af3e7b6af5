
function facts(status) {
  const last = state.seconds.at(-1) || { sent_bytes: 0, received_bytes: 0 };
  head([
    ["stored", bytes(status.stored_bytes)], ["room for", bytes(status.capacity_bytes)], ["volumes", status.volumes.length],
    ["sent to hosts", bytes(last.sent_bytes) + "/s"], ["came", bytes(last.received_bytes) + "/s"], ["protocol", status.protocol],
    ["on", status.device], ["up", span(status.uptime_seconds)],
  ], status.hosts.length + (status.hosts.length === 1 ? " host" : " hosts"), status.room === "ok" || status.room === "warning" ? "good" : "bad");
  at("service").title = status.room === "ok" ? "" : "room is short: " + status.room;
}

function bound(used, most) {
  return most === null ? bytes(used) : bytes(used) + " of " + bytes(most);
}

function shared(status) {
  const live = status.stored_bytes - status.unreferenced_bytes;
  rows("shared", [["what", (one) => one[0]], ["bytes", (one) => bytes(one[1])], ["of what volumes hold", (one) => part(one[1], status.mapped_bytes)]], [
    ["held by volumes, clones and snapshots", status.mapped_bytes], ["stored for them", live],
    ["saved", Math.max(status.mapped_bytes - live, 0)], ["stored, and in no volume any more", status.unreferenced_bytes],
  ], "");
}

function blocks(status) {
  const read = status.blocks_by_id + status.blocks_by_bytes + status.blocks_by_peer;
  const written = status.known_writes + status.written_blocks;
  const line = (text, count, whole) => [text, count, part(count, whole)];
  rows("blocks", [["blocks", (one) => one[0]], ["count", (one) => one[1]], ["share", (one) => one[2]]], [
    line("read: named alone, because the host has them", status.blocks_by_id, read), line("read: sent", status.blocks_by_bytes, read),
    line("read: sent by another host", status.blocks_by_peer, read), line("written: named alone, because they are here", status.known_writes, written),
    line("written: sent", status.written_blocks, written), line("with another hash than they were stored under", status.damaged_blocks, 0),
  ], "");
}

function tick() {
  return round((status) => {
    facts(status);
    shared(status);
    blocks(status);
    traffic((second) => Math.max(second.sent_bytes, second.received_bytes), (second) => second.received_bytes, ["sent to hosts", "came from hosts"]);
    rows("hosts", [["host", (one) => one.host], ["from", (one) => one.from], ["sent", (one) => bytes(one.sent_bytes)], ["came", (one) => bytes(one.received_bytes)]],
      status.hosts, "none is connected");
    rows("volumes", [
      ["name", (one) => one.name], ["size", (one) => bytes(one.size_bytes)], ["holds", (one) => bound(one.mapped_bytes, one.logical_quota_bytes)],
      ["charged", (one) => bound(one.charged_bytes, one.physical_quota_bytes)], ["quotas", (one) => one.room],
      ["refused blocks", (one) => one.refused_blocks], ["made of", (one) => one.origin || "–"], ["domain", (one) => one.domain],
      ["lease", (one) => one.host === null ? (one.read_only ? "snapshot" : "none") : "host " + one.host],
    ], status.volumes, "there are none");
  }, "this store is gone");
}

tick();
setInterval(tick, 1000);
