// Puts the fragments that the server sends in their places, and lets ages and countdowns go on. Without it the page shows
// what was when it was loaded.
"use strict";

const seen = document.getElementById("seen"), following = document.getElementById("following"), asOf = document.getElementById("as-of");
const live = new URL("live", document.currentScript.src); // beside this script
let waitingFor = null; // fragments that came while somebody typed into their places

// age tells a time as the server does: 5s, 3m, 2h, 4d.
function age(seconds) {
  const s = Math.max(0, Math.floor(seconds)), m = Math.floor(s / 60), h = Math.floor(m / 60);
  if (s < 120) return `${s}s`;
  if (m < 10) return s % 60 ? `${m}m${s % 60}s` : `${m}m`;
  if (h < 3) return `${m}m`;
  if (h < 8) return m % 60 ? `${h}h${m % 60}m` : `${h}h`;
  return h < 48 ? `${h}h` : `${Math.floor(h / 24)}d`;
}

function tick() {
  const now = Date.now();
  for (const at of document.querySelectorAll("time[data-since]")) {
    at.textContent = age((now - Date.parse(at.dateTime)) / 1000);
  }
  for (const at of document.querySelectorAll("time[data-until]")) {
    const left = (Date.parse(at.dateTime) - now) / 1000;
    at.textContent = left > 0 ? `in ${age(left)}` : "now";
  }
}

// typedInto tells whether somebody fills in a form there.
function typedInto(place) {
  const at = document.activeElement;
  return place.contains(at) && /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName);
}

// put replaces an element by the one of the same id in a fragment. The focus, what is open and how far it is scrolled stay.
function put(fragment) {
  const place = document.getElementById(fragment.id);
  const next = new DOMParser().parseFromString(fragment.html, "text/html").getElementById(fragment.id);
  if (!place || !next) return;
  if (typedInto(place)) {
    waitingFor = waitingFor || new Map();
    waitingFor.set(fragment.id, fragment);
    return;
  }
  const held = place.contains(document.activeElement) ? document.activeElement : null;
  const focused = held && (held.id || held.getAttribute("href") || held.getAttribute("aria-label") || held.tagName);
  const scrolled = [...place.querySelectorAll("[tabindex], pre")].map((e) => [e.scrollLeft, e.scrollTop]);
  for (const open of place.querySelectorAll("details[open][id]")) {
    const same = next.querySelector(`#${CSS.escape(open.id)}`);
    if (same) same.open = true;
  }
  place.replaceWith(document.adoptNode(next));
  [...next.querySelectorAll("[tabindex], pre")].forEach((e, i) => {
    if (scrolled[i]) [e.scrollLeft, e.scrollTop] = scrolled[i];
  });
  if (focused) {
    const same = [...next.querySelectorAll("a, button, summary, [tabindex]")]
      .find((e) => [e.id, e.getAttribute("href"), e.getAttribute("aria-label"), e.tagName].includes(focused));
    if (same) same.focus({ preventScroll: true });
  }
  tick();
}

document.addEventListener("focusout", () => setTimeout(() => {
  const late = waitingFor;
  waitingFor = null;
  if (late) late.forEach(put);
}));

// tell says whether the page is live. It is told to who hears the page only when it changes, unlike the time beside.
function tell(how, cut) {
  if (following.textContent !== how) following.textContent = how;
  seen.classList.toggle("cut", cut);
}

function follow() {
  const source = new EventSource(live + "?view=" + encodeURIComponent(document.body.dataset.view));
  source.addEventListener("fragment", (e) => put(JSON.parse(e.data)));
  source.addEventListener("seen", (e) => {
    if ("failed" in document.body.dataset) location.reload();
    asOf.textContent = `as of ${new Date(JSON.parse(e.data)).toLocaleTimeString()}`;
    tell("Live,", false);
  });
  source.addEventListener("trouble", (e) => tell(`Not live: ${JSON.parse(e.data)} Shown is what was`, true));
  source.onerror = () => {
    tell("Not live: what serves the page does not answer. Shown is what was", true);
    if (source.readyState === EventSource.CLOSED) setTimeout(follow, 5000);
  };
  addEventListener("pagehide", () => source.close(), { once: true });
}

setInterval(tick, 1000);
if (document.body.dataset.view) follow();
