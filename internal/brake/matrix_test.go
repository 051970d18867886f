package brake_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/owner"
	"k8s.io/apimachinery/pkg/util/sets"
)

// The disaster matrix: each part of the world is lost, goes back to a backup, stays while the others go back, or is
// another one, while a controller runs and while none does. At the time of the backup there were sites that were
// deleted since ("gone"), and there are sites now that are younger ("young"). Each has one page. The oracle: a page
// goes only if its site is neither in the documents of now nor in those of the backup that nobody deleted since; or the
// brake stops loudly, and names the counts.
const sitesInMatrix = 40

// part is documents, records or pages.
type part struct{ docs, records, pages bool }

// fault changes the world of now.
type fault struct {
	name string
	// back are the parts that go back to the backup.
	back part
	// emptied and refilled are parts that were made anew; refilled ones have all but the young, and what never was.
	emptied, refilled part
	// onlyPages says that no part but the pages tells of the young.
	onlyPages bool
}

var faults = []fault{
	{name: "documents older", back: part{docs: true}},
	{name: "records older", back: part{records: true}},
	{name: "pages older", back: part{pages: true}},
	{name: "documents newer than the rest", back: part{records: true, pages: true}},
	{name: "records newer than the rest", back: part{docs: true, pages: true}},
	{name: "pages newer than the rest", back: part{docs: true, records: true}, onlyPages: true},
	{name: "documents recreated empty", emptied: part{docs: true}},
	{name: "records recreated empty", emptied: part{records: true}},
	{name: "pages recreated empty", emptied: part{pages: true}},
	{name: "documents refilled", refilled: part{docs: true}},
	{name: "records refilled", refilled: part{records: true}},
	{name: "pages refilled", refilled: part{pages: true}},
	{name: "documents and records recreated empty", emptied: part{docs: true, records: true}},
	{name: "documents and records refilled", refilled: part{docs: true, records: true}, onlyPages: true},
}

// restore is what a backup makes of the stream of the documents.
type restore struct {
	name    string
	renamed bool // its time of creation is another
	past    bool // it was written to past where it was
	far     bool // and so far that no message is left at a sequence of what is missing
}

var restores = []restore{
	{name: "keeps its identity"},
	{name: "keeps its identity, written past", past: true},
	{name: "keeps its identity, written far past", past: true, far: true},
	{name: "gets another identity", renamed: true},
}

// moment is the world at one time.
type moment struct {
	docs     map[string]uint64
	anchors  map[string]brake.Anchor
	reserved map[string]value
	pages    map[string]owner.Stamp
	highest  uint64
}

func (w *world) moment() moment {
	w.mu.Lock()
	defer w.mu.Unlock()
	return moment{maps.Clone(w.docs), maps.Clone(w.anchors), maps.Clone(w.reserved), maps.Clone(w.pages), w.stream.Highest}
}

// matrix is one cell.
type matrix struct {
	*world
	share   int  // how many sites are gone, and how many are young
	stamped bool // whether pages can carry a revision of their owner
	running bool
	backup  moment
	deleted map[string]bool // pages
}

func gone(i int) string  { return fmt.Sprintf("gone-%02d", i) }
func young(i int) string { return fmt.Sprintf("young-%02d", i) }

func TestTheDisasterMatrix(t *testing.T) {
	for _, f := range faults {
		for _, r := range restores {
			if !f.back.docs && r != restores[0] {
				continue
			}
			for _, share := range []int{5, 40, 60} {
				for _, marks := range []string{"plain", "stamped", "proven"} {
					for _, running := range []bool{true, false} {
						name := fmt.Sprintf("%s/%s/%d%%/%s/running=%v", f.name, r.name, share, marks, running)
						t.Run(name, func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) { runCell(t, f, r, share, marks, running) })
						})
					}
				}
			}
		}
	}
}

func runCell(t *testing.T, f fault, r restore, share int, marks string, running bool) {
	m := &matrix{
		world: newWorld(t, 0), share: sitesInMatrix * share / 100, stamped: marks != "plain", running: running,
		deleted: map[string]bool{},
	}
	m.proofs = marks == "proven"
	m.live()
	m.strike(f, r)
	m.goOn()
	m.judge(f, r)
	m.halt()
}

// reconcile puts documents, anchors and pages of sites.
func (m *matrix) reconcile(keys ...string) {
	for _, key := range keys {
		m.change(func() {
			m.stream.Highest++
			m.docs[key] = m.stream.Highest
		})
	}
	m.reconcileAll()
}

// reconcileAll does what the engine does for each document: it writes the anchor, and the page if that is missing.
func (m *matrix) reconcileAll() {
	m.change(func() {
		if m.pages == nil {
			m.pages = map[string]owner.Stamp{}
		}
		for key, revision := range m.docs {
			m.anchors[key] = brake.Anchor{Stream: m.stream.Created, Document: revision, Observed: revision}
			stamp, exists := m.pages[key]
			renew := !exists || stamp.Stream != m.stream.Created || stamp.Revision > revision
			switch {
			case !m.stamped:
				m.pages[key] = owner.Stamp{}
			case renew:
				m.pages[key] = owner.Stamp{Stream: m.stream.Created, Revision: revision}
			}
		}
	})
	for key := range m.moment().docs {
		if m.b != nil {
			m.b.Forget(key)
		}
	}
}

// live is the time before: first the backup is taken, then sites are deleted and made.
func (m *matrix) live() {
	m.begin()
	m.sweep()
	for i := range sitesInMatrix {
		if i < m.share {
			m.reconcile(gone(i))
		} else {
			m.reconcile(name(i))
		}
	}
	m.settle()
	time.Sleep(2 * time.Minute) // the stream is kept
	m.halt()
	m.backup = m.moment()
	m.begin()
	m.sweep()
	for i := range m.share {
		m.reconcile(young(i))
		m.delete(gone(i))
		m.change(func() {
			m.stream.Highest++ // its marker
			delete(m.anchors, gone(i))
			delete(m.pages, gone(i))
		})
	}
	m.settle()
	time.Sleep(2 * time.Minute)
	if !m.running {
		m.halt()
	}
}

// strike lets the fault happen.
func (m *matrix) strike(f fault, r restore) {
	m.change(func() {
		clear(m.evidenced)
		if f.back.docs {
			m.docs, m.stream.Highest = maps.Clone(m.backup.docs), m.backup.highest
			clear(m.markers)
			m.stream.Changes++
			if r.renamed {
				m.stream.Created = "restored"
			}
			m.writePast(r)
		}
		if f.back.records {
			m.anchors, m.reserved = maps.Clone(m.backup.anchors), maps.Clone(m.backup.reserved)
		}
		if f.back.pages {
			m.pages = maps.Clone(m.backup.pages)
		}
		m.renew(f)
		if !m.running {
			m.stream.Changes = 0 // a new process counts from 0
		}
	})
}

// writePast has others write to the restored stream before anybody looks. It needs the lock.
func (m *matrix) writePast(r restore) {
	writes := 0
	switch {
	case r.far:
		writes = 10 * sitesInMatrix
	case r.past:
		writes = 2 * m.share // as many as there were since the backup
	}
	for i := range writes {
		m.stream.Highest++
		m.docs[name(sitesInMatrix-1-i%(sitesInMatrix-m.share))] = m.stream.Highest
	}
}

// renew makes parts anew. It needs the lock.
func (m *matrix) renew(f fault) {
	if f.emptied.docs || f.refilled.docs {
		clear(m.docs)
		clear(m.markers)
		m.stream.Created, m.stream.Highest = "another", 1
		m.stream.Changes++
	}
	if f.emptied.records || f.refilled.records {
		clear(m.anchors)
		clear(m.reserved)
	}
	if f.emptied.pages || f.refilled.pages {
		clear(m.pages)
	}
	for i := m.share; i < sitesInMatrix; i++ {
		if f.refilled.docs {
			m.stream.Highest++
			m.docs[name(i)] = m.stream.Highest
		}
	}
	for i := range m.share {
		strange := fmt.Sprintf("strange-%02d", i)
		if f.refilled.docs {
			m.stream.Highest++
			m.docs[strange] = m.stream.Highest
		}
		if f.refilled.records {
			m.anchors[strange] = brake.Anchor{Stream: "strange", Document: 7, Observed: 7}
		}
		if f.refilled.pages {
			m.pages[strange] = owner.Stamp{}
		}
	}
}

// goOn is the time after: the controller hears of the fault, or starts, and sweeps go by.
func (m *matrix) goOn() {
	if m.running {
		for key := range m.moment().anchors {
			m.work(due{key: key})
		}
	} else {
		m.begin()
	}
	m.reconcileAll()
	for range 4 {
		m.sweepAll()
		m.settle()
		m.takePages()
		time.Sleep(10 * time.Minute)
	}
}

// sweepAll has the brake decide about the pages whose sites are neither there nor owed.
func (m *matrix) sweepAll() {
	now := m.moment()
	unproved := m.unproved()
	found := brake.Orphans{
		Source: "Owns Page", Owners: map[string]int{}, Known: len(now.pages) - len(unproved), Unproved: unproved,
	}
	for key := range now.pages {
		_, exists := now.docs[key]
		_, owed := now.anchors[key]
		if !exists && !owed {
			found.Owners[key]++
		}
	}
	found.Count = len(found.Owners) - len(unproved)
	var all []brake.Orphans
	if len(found.Owners) > 0 {
		all = append(all, found)
	}
	for _, key := range m.sweep(all...) {
		m.take(key)
	}
}

// unproved are the owners of pages of which nothing tells that they ever were.
func (m *matrix) unproved() sets.Set[string] {
	now, unproved := m.moment(), sets.New[string]()
	for key := range now.pages {
		_, exists := now.docs[key]
		_, owed := now.anchors[key]
		marked := false
		m.change(func() { marked = m.markers[key] })
		if !exists && !owed && !marked && (!m.proofs || now.pages[key].IsNone()) {
			unproved.Insert(key)
		}
	}
	return unproved
}

// takePages deletes the pages of what was torn down, and of what a release let go.
func (m *matrix) takePages() {
	m.mu.Lock()
	torn := m.tornDown
	m.mu.Unlock()
	for _, key := range torn {
		m.take(key)
	}
}

func (m *matrix) take(key string) {
	m.change(func() {
		if _, exists := m.docs[key]; exists {
			m.t.Errorf("the page of %s may go, which exists", key)
		}
		if _, has := m.pages[key]; has {
			m.deleted[key] = true
			delete(m.pages, key)
		}
	})
	m.b.Forget(key)
}

// judge is the oracle.
func (m *matrix) judge(f fault, r restore) {
	t, state := m.t, m.b.State()
	documentsWereLost := f.back.docs || f.emptied.docs || f.refilled.docs
	untold := !m.running && m.untold(f, r)
	for key := range m.deleted {
		deletedOnPurpose := strings.HasPrefix(key, "gone") && !documentsWereLost || strings.HasPrefix(key, "strange")
		if !deletedOnPurpose && !untold {
			t.Errorf("the page of %s is deleted", key)
		}
	}
	if untold {
		if state.Engaged {
			t.Errorf("%+v: this can be told apart now: say so in docs/restoring.md", state)
		}
		return
	}
	if m.proofs && f.onlyPages && !r.far && !state.Engaged {
		t.Errorf("%+v: a proof tells that the young were", state)
	}
	missing := 0
	now, reported := m.moment(), m.unproved()
	for key := range now.pages {
		if _, exists := now.docs[key]; !exists && (!reported.Has(key) || m.b.HoldsOrphans(key)) {
			missing++
		}
	}
	if missing == 0 {
		return
	}
	if held := state.Held + state.Swept; !state.Engaged || held < missing || state.Reason == "" {
		t.Errorf("%d pages have no site, and the brake is %+v", missing, state)
	}
	m.release()
	synctest.Wait()
	m.settle()
	m.takePages()
	m.sweepAll()
	m.settle()
	if state := m.b.State(); state.Engaged {
		t.Errorf("after the release: %+v", state)
	}
}

// untold are the cells that nobody can tell from deletes that were meant and whose markers are gone. docs/restoring.md
// names them, with what to do before a restore. The ordinary rule of the brake holds there.
func (m *matrix) untold(f fault, r restore) bool {
	if 2*m.share > len(m.backup.docs)+m.share { // of all that there is after the restore
		return false
	}
	switch {
	case r.renamed || f.emptied != part{}:
		return false
	case r.far && (!f.onlyPages || m.proofs): // records or proofs tell of the young, but no sequence; a marker may have expired
		return true
	}
	return f.onlyPages && !m.stamped
}
