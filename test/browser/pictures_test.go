package browser

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/nagi-runtime/nagi/test/natstest"
)

var pictures = flag.String("pictures", "",
	"directory for the pictures of TestPictures; without it they are made and not kept")

// mostBytes is how large a picture of the documentation may be.
const mostBytes = 150_000

// TestPictures makes the pictures of the documentation, from the real page. What is different each time, ages and ids, is
// written over.
func TestPictures(t *testing.T) {
	w := newWorld(t)
	w.put("websites", "shop.home",
		`{"metadata":{"labels":{"tier":"gold"}},"spec":{"host":"home.example","pages":4,"password":"hunter2"}}`)
	w.put("websites", "shop.blog",
		`{"metadata":{"labels":{"tier":"tin"}},"spec":{"host":"bad.blog.example","pages":1}}`)
	w.put("websites", "lab.old",
		`{"metadata":{"annotations":{"nagi/suspend":"true","nagi/suspend-reason":"moves to another host"}},"spec":{"host":"old.example"}}`)
	w.put("websites", "lab.new", `{"spec":{"host":"new.example","pages":"three"}}`)
	for i := range 9 {
		w.put("websites", fmt.Sprintf("shop.cart-%d", i), `{"spec":{"host":"slow.example"}}`)
	}
	natstest.Eventually(t, "all are reconciled", func() bool {
		return strings.Contains(w.value("websites-status", "shop.cart-8"), `"Retrying"`) &&
			strings.Contains(w.value("websites-status", "shop.home"), `"Synced"`)
	})
	u := w.ui("--allow-actions")
	for _, p := range []struct {
		name, path, scheme, until string
		width, height             int64
	}{
		{"object", "/kinds/Website.example.com/shop%2Fhome", "light",
			`document.querySelectorAll("svg.tree rect").length == 5 && document.querySelector("#why .facts")`, 1200, 1060},
		{"waits", "/waits", "dark",
			`document.querySelector(".banner") && document.body.innerText.includes("26 keys")`, 1200, 960},
		{"brake", "/brake/notes", "light", `document.querySelector(".banner") && document.querySelector("#held li")`,
			360, 960},
	} {
		if p.name == "waits" {
			w.engageBrake()
		}
		b := u.tab(t, p.width)
		call(b, emulation.SetScrollbarsHidden, emulation.SetScrollbarsHiddenParams{Hidden: true})
		call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: p.width,
			Height: p.height, DeviceScaleFactor: 1, Mobile: true})
		b.scheme(p.scheme)
		b.open(p.path)
		b.live()
		b.until(p.name, p.until)
		b.script(false) // nothing changes any more
		b.do(`document.querySelectorAll("time").forEach((t) => t.textContent = "7m");
			document.querySelectorAll("dd").forEach((d) => d.lastChild.data = d.lastChild.data?.replace(/in [0-9.]+.?s$/, "in 1ms"));
			document.getElementById("as-of").textContent = "as of 3:04:05 AM"; scrollTo(0, 0)`)
		picture := smaller(t, call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{}).Data)
		if len(picture) > mostBytes {
			t.Errorf("the picture %s has %d bytes, more than %d", p.name, len(picture), mostBytes)
		}
		dir := *pictures
		if dir == "" {
			dir = t.TempDir()
		}
		w.must(os.MkdirAll(dir, 0o755))
		w.must(os.WriteFile(filepath.Join(dir, p.name+".png"), picture, 0o644))
	}
}

// smaller is a picture with its 256 most frequent colours alone: those of letters' edges are hardly told apart.
func smaller(t *testing.T, picture []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[color.Color]int{}
	for y := range from.Bounds().Dy() {
		for x := range from.Bounds().Dx() {
			seen[from.At(x, y)]++
		}
	}
	most := slices.SortedFunc(maps.Keys(seen), func(a, b color.Color) int {
		return cmp.Or(cmp.Compare(seen[b], seen[a]), strings.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	to := image.NewPaletted(from.Bounds(), most[:min(len(most), 256)])
	draw.Draw(to, to.Bounds(), from, image.Point{}, draw.Src)
	var text bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&text, to); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}
