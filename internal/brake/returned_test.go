package brake_test

import "testing"

// TestTheBrakeDoesNotEngageForSuspectsThatAreBack: they came back while it decided, so there is nothing to hold, and an
// alarm would be false.
func TestTheBrakeDoesNotEngageForSuspectsThatAreBack(t *testing.T) {
	for name, vanish := range map[string]func(w *world){
		"of a stream that was recreated": func(w *world) { w.recreate(2, 30) },
		"which own most of all objects": func(w *world) {
			w.change(func() { w.objects = map[string]int{name(0): 40, name(1): 40, name(2): 1} })
			w.lose(name(0), name(1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, back := range []bool{false, true} {
				run(t, 30, func(t *testing.T, w *world) {
					weighed := false
					w.onWeigh = func() {
						if weighed = true; back {
							w.put(0, 2)
						}
					}
					vanish(w)
					w.settle()
					switch {
					case !weighed:
						t.Error("the brake has not decided")
					case back:
						w.wantTornDown(0)
						w.change(func() {
							if len(w.told) > 0 {
								t.Errorf("%d times somebody was told of an engagement: %+v", len(w.told), w.told[0])
							}
						})
					default:
						w.wantHeld(2)
					}
				})
			}
		})
	}
}
