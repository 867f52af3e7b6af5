// What the pages of a storage server and of a host have in common. The page asks the API every second and draws what it is
// told; it decides nothing.
"use strict";

const BLOCK = 4096;

function part(some, whole) {
  return share(whole ? some / whole : null);
}

// What a large and a smaller figure of bytes were over the last five minutes.
function traffic(large, small, [largeName, smallName]) {
  const top = timeline("traffic", large, small, bytes, "bytes");
  at("legend").replaceChildren(key(largeName + ", at most " + bytes(top) + "/s", "var(--good)"), key(smallName, "var(--warn)"));
}
