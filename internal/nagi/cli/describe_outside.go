package cli

import "github.com/nagi-runtime/nagi/internal/nagi/tree"

// outside takes what a controller said of what the document owns behind an API.
func (o *owns) outside(said []why, name string) {
	for _, w := range said {
		for _, api := range w.Outside {
			if w.Controller != name || api.Kind != o.Kind {
				continue
			}
			note := tree.OutsideNote(&w.Explanation, api)
			if note.State != "" || api.ListedAt.IsZero() {
				o.Says = note.Note
			}
			o.Count, o.States = api.All, map[string]int{}
			for _, n := range tree.OutsideNodes(&w.Explanation, api) {
				o.States[n.State]++
				if n.Key != "" && len(o.Keys) < mostOwned {
					o.Keys = append(o.Keys, n.Key)
				}
			}
			return
		}
	}
	o.Says = "behind an API that its controller alone asks, and it does not say what"
}
