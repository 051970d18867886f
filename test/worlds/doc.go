// Package worlds tries a controller in nights that a seed makes: replicas, users and faults, in virtual time.
//
// A night is a real NATS server, two or three replicas of a controller, each behind a wire of its own, users who put,
// patch, delete and re-create documents, and a saboteur. The saboteur loses, doubles, delays and holds messages, cuts
// wires or makes them half open, crashes and updates replicas, stops the server, fills streams, takes rights away,
// purges and deletes what is there, removes streams, and restores them from old backups. Then all is mended, and the world
// is left alone for a while. Meanwhile and at the end rules are held against what happened; see [Rule].
//
// One seed makes the plan of a night: what happens when, and to which replica. It does not make the order in which
// goroutines run, so a seed that fails may pass when it is played again. A night that breaks a rule is played again with
// less and less of its plan, and the shortest plan that still breaks the same rule is printed, with what was logged and
// written around the fault.
//
// A controller of one's own needs a [Subject], and a test of some lines:
//
//	func TestAHundredNights(t *testing.T) {
//		worlds.Nights(t, subject, worlds.Seeds{From: 1, N: 100})
//	}
package worlds
