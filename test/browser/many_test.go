package browser

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nats-io/nats.go/jetstream"
)

const many = 100_000

// TestATableOf100000Rows: the first page comes while the bucket is still being read, and says so. Afterwards no page, no
// search and no step further takes much longer than in a table of a hundred rows, and the browser holds one page of
// rows alone.
func TestATableOf100000Rows(t *testing.T) {
	w := newWorld(t)
	for bucket, rows := range map[string]int{"few": 100, "many": many} {
		_, err := w.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: bucket,
			Storage: jetstream.MemoryStorage})
		w.must(err)
		w.put(registry.Bucket, bucket, fmt.Sprintf(`{"schemaVersion":1,"kind":%q,"bucket":%q,"controllers":[],
			"columns":[{"name":"N","jsonPath":"$.spec.n","type":"integer"}]}`, bucket, bucket))
		for i := range rows {
			value := fmt.Sprintf(`{"metadata":{"labels":{"digit":"%d"}},"spec":{"n":%d}}`, i%10, i)
			_, err := w.js.PublishAsync(fmt.Sprintf("$KV.%s.key-%06d", bucket, i), []byte(value))
			w.must(err)
		}
		<-w.js.PublishAsyncComplete()
	}
	b := w.ui().tab(t, 1600)
	open := func(path string) time.Duration {
		b.Helper()
		began := time.Now()
		b.open(path)
		took := time.Since(began)
		if rows, all := eval[int](b, `document.querySelectorAll("tbody tr").length`), eval[int](b,
			`document.querySelectorAll("*").length`); rows > 50 || all > 1000 {
			t.Errorf("%s has %d rows and %d elements", path, rows, all)
		}
		return took
	}
	few := time.Hour
	for range 5 {
		few = min(few, open("/kinds/few?q=digit%3D3"))
	}
	// It waits for a second at most.
	first := open("/kinds/many")
	if most := time.Second + 10*few; first > most {
		t.Errorf("the first page took %v, want at most %v", first, most)
	}
	filled := b.until("all is read, and shown without a reload",
		fmt.Sprintf(`document.body.innerText.includes("1 to 50 of %d that fit, of %d in all")`, many, many))
	took := map[string]time.Duration{
		"a page":          open("/kinds/many"),
		"a page far down": open("/kinds/many?after=key-090000"),
		"a search":        open("/kinds/many?q=digit%3D3"),
		"of another key":  open("/kinds/many?q=99999"),
	}
	b.has("the search for a key", "1 to 1 of 1 that fit", "key-099999")
	b.open("/kinds/many")
	b.run(chromedp.SendKeys(css("#q"), "digit=7"))
	b.loads(func() { b.press("\r") })
	b.has("a search", "1 to 50 of 10000 that fit, of 100000 in all", "key-000007")
	b.loads(func() { b.run(chromedp.Click(css(`a[rel=next]`))) })
	b.has("the next page", "51 to 100 of 10000 that fit", "key-000507")
	// One row that changes is shown; nothing else of the page is made again.
	b.live()
	b.do(`window.changes = 0; new MutationObserver(() => changes++).observe(document.getElementById("main"), { childList: true })`)
	w.put("many", "key-000507", `{"metadata":{"labels":{"digit":"7"}},"spec":{"n":4711}}`)
	b.until("the change is shown", `document.body.innerText.includes("4711")`)
	if got := eval[int](b, `changes`); got != 1 {
		t.Errorf("one change takes %d changes of the page", got)
	}
	// A search goes once through all keys, in memory.
	for what, d := range took {
		if most := 250*time.Millisecond + 5*few; d > most {
			t.Errorf("%s took %v, want at most %v", what, d, most)
		}
	}
	t.Logf("a table of 100 rows takes %v; the first page of %d %v, all are read after %v more; then %v", few, many,
		first, filled, took)
}
