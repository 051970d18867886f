package browser

import (
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
)

// helpers are functions for what is evaluated in a page.
const helpers = `
const path = (e) => { let s = ""; for (; e && e.nodeType == 1 && e != document.body; e = e.parentNode)
	s = "/" + e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") + (e.getAttribute("class") ? "." + e.getAttribute("class") : "") + s; return s; };
const shown = (e) => e.checkVisibility({ visibilityProperty: true, opacityProperty: true, contentVisibilityAuto: true });
const texts = () => { const all = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n; n = walk.nextNode();) {
		const e = n.parentElement;
		if (!n.data.trim() || e.closest("title, script, noscript, option") || !shown(e) || e.closest(".skip")) continue;
		all.push(n);
	} return all; };
const rects = (n) => { const r = document.createRange(); r.selectNodeContents(n); return [...r.getClientRects()].filter((r) => r.width > 0.5 && r.height > 0.5); };
`

func inPage(body string) string { return "(() => {" + helpers + body + "})()" }

// fits wants nothing wider than the window, no text over another one, and none that is cut off for good.
func fits(b *tab) {
	for _, wrong := range b.texts(inPage(`
const wrong = [], root = document.documentElement;
if (root.scrollWidth > innerWidth) {
	wrong.push("the page is " + root.scrollWidth + " wide, the window " + innerWidth);
	for (const e of document.querySelectorAll("body *")) {
		const r = e.getBoundingClientRect();
		if (r.right > innerWidth + 1 && shown(e) && !e.parentElement.closest(".wide, pre")) wrong.push("  " + path(e) + " ends at " + r.right);
	}
}
const seen = [];
for (const n of texts()) {
	const e = n.parentElement, text = n.data.trim().slice(0, 40);
	for (const r of rects(n).map((r) => clipped(n, r))) {
		for (const [other, o] of seen) {
			const across = Math.min(r.right, o.right) - Math.max(r.left, o.left), down = Math.min(r.bottom, o.bottom) - Math.max(r.top, o.top);
			if (across > 2 && down > 4)
				wrong.push(JSON.stringify(text) + " is over " + JSON.stringify(other.data.trim().slice(0, 40)));
		}
		seen.push([n, r]);
	}
	const box = e.closest("svg.tree") && e.parentElement.querySelector("rect");
	if (box && e.tagName == "text") {
		const t = e.getBBox(), r = box.getBBox();
		if (t.x < r.x || t.x + t.width > r.x + r.width) wrong.push("the text " + text + " leaves its box");
	}
	for (let p = e; p && p != document.body; p = p.parentElement) {
		const s = getComputedStyle(p);
		if (s.overflowX == "hidden" && p.scrollWidth > p.clientWidth + 1) wrong.push(path(p) + " cuts " + text);
		if (["auto", "scroll"].includes(s.overflowX) && p.scrollWidth > p.clientWidth + 1 && p.tabIndex != 0)
			wrong.push(path(p) + " is scrolled, and the keyboard does not reach it");
	}
}
function clipped(n, r) {
	let { left, right, top, bottom } = r;
	for (let p = n.parentElement; p && p != document.body; p = p.parentElement) {
		if (getComputedStyle(p).overflowX == "visible") continue;
		const o = p.getBoundingClientRect();
		left = Math.max(left, o.left); right = Math.min(right, o.right); top = Math.max(top, o.top); bottom = Math.min(bottom, o.bottom);
	}
	return { left, right, top, bottom };
}
return wrong;`)) {
		b.Error(wrong)
	}
}

// canBeRead wants each text to have a contrast of 4.5 to what is behind it, in both schemes, and to be large enough.
func canBeRead(b *tab) {
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		for _, wrong := range b.texts(inPage(`
const wrong = [];
const known = new Map(), canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const colour = (text) => {
	if (!known.has(text)) {
		canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
		known.set(text, [...canvas.getImageData(0, 0, 1, 1).data].map((v, i) => i == 3 ? v / 255 : v));
	}
	return known.get(text);
};
const over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
const behind = (e) => {
	const layers = [];
	for (let p = e; p; p = p.parentElement) {
		if (p.tagName == "g" || p.tagName == "a") { const r = p.querySelector(":scope > rect"); if (r) layers.push(colour(getComputedStyle(r).fill)); }
		layers.push(colour(getComputedStyle(p).backgroundColor));
	}
	return layers.reverse().reduce((below, layer) => over(layer, below), colour("Canvas"));
};
const luminance = (c) => { const [r, g, b] = c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
for (const n of texts()) {
	const e = n.parentElement, s = getComputedStyle(e), back = behind(e);
	const front = over(colour(e.closest("svg") ? s.fill : s.color), back), a = luminance(front), c = luminance(back);
	const contrast = (Math.max(a, c) + 0.05) / (Math.min(a, c) + 0.05);
	if (contrast < 4.5) wrong.push(JSON.stringify(n.data.trim().slice(0, 40)) + " in " + path(e) + " has a contrast of " + contrast.toFixed(2));
	if (parseFloat(s.fontSize) < 12) wrong.push(path(e) + " is written in " + s.fontSize);
}
if (!texts().length) wrong.push("there is no text");
return wrong;`)) {
			b.Errorf("%s: %s", scheme, wrong)
		}
		dark := eval[bool](b, `getComputedStyle(document.body).backgroundColor.match(/\d+/g).every((v) => v < 64)`)
		if dark != (scheme == "dark") {
			b.Errorf("the scheme is %s, and the page dark: %v", scheme, dark)
		}
	}
}

// named are the roles of what a screen reader tells by its name.
var named = []string{
	"button", "link", "textbox", "searchbox", "combobox", "image", "img", "graphics-document", "graphics-object",
	"table", "region", "navigation", "search", "heading", "SvgRoot", "DisclosureTriangle",
}

// isTold wants names, landmarks, one heading of the page, an order of headings, and tables with headers.
func isTold(b *tab) {
	call(b, accessibility.Enable, cdp.Empty{})
	tree := call(b, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes
	roles, names := map[string]int{}, map[string]int{}
	for _, n := range tree {
		if n.Ignored || n.Role == nil {
			continue
		}
		role, name := unquoted(n.Role), unquoted(n.Name)
		roles[role]++
		for _, has := range named {
			if role == has && strings.TrimSpace(name) == "" {
				b.Errorf("a %s has no name", role)
			}
		}
		if role == "region" || role == "navigation" {
			if names[role+name]++; names[role+name] == 2 {
				b.Errorf("two of %s are called %q", role, name)
			}
		}
	}
	for role, want := range map[string]int{"main": 1, "banner": 1} {
		if roles[role] != want {
			b.Errorf("%d of %s, want %d", roles[role], role, want)
		}
	}
	if roles["navigation"] == 0 || roles["RootWebArea"] != 1 {
		b.Errorf("landmarks: %v", roles)
	}
	for _, wrong := range b.texts(inPage(`
const wrong = [], levels = [...document.querySelectorAll("h1, h2, h3, h4")].map((h) => +h.tagName[1]);
if (levels.filter((l) => l == 1).length != 1 || levels[0] != 1) wrong.push("headings " + levels);
levels.forEach((l, i) => { if (i && l > levels[i - 1] + 1) wrong.push("a heading of level " + l + " after one of " + levels[i - 1]); });
for (const t of document.querySelectorAll("table")) {
	if (!t.querySelector("thead th[scope=col]") || [...t.querySelectorAll("th")].some((h) => !h.scope)) wrong.push("a table whose headers have no scope");
	for (const r of t.querySelectorAll("tbody tr")) if (r.querySelectorAll("th[scope=row]").length != 1) wrong.push("a row without a header: " + r.textContent);
	if (!t.getAttribute("aria-label") && !t.getAttribute("aria-labelledby") && !t.caption) wrong.push("a table without a name");
}
for (const s of document.querySelectorAll("svg")) if (!s.getAttribute("role") || !s.getAttribute("aria-label")) wrong.push("a drawing without a role or a name");
if (!document.documentElement.lang || !document.title.trim()) wrong.push("no language, or no title");
const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
ids.forEach((id, i) => { if (ids.indexOf(id) != i) wrong.push("the id " + id + " is there twice"); });
return wrong;`)) {
		b.Error(wrong)
	}
}

func unquoted(v *accessibility.Value) string {
	if v == nil {
		return ""
	}
	return strings.Trim(string(v.Value), `"`)
}
