package controllerruntime

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// parkedKeys are the keys whose last attempt ended with a terminal error.
type parkedKeys struct{ keyed[parkedAt] }

// parkedAt is the state of the primary that could not be reconciled; any other state deserves another attempt.
type parkedAt struct {
	presence presence
	object   metav1.Object // not the revision: in a stream that was recreated another document may have the same
}

func (p *parkedKeys) park(key string, v view) { p.put(key, parkedAt{v.presence, v.object}) }

// holds tells whether the key stays parked; else it is parked no longer. One worker at a time asks about a key.
func (p *parkedKeys) holds(key string, v view, ops Operations) bool {
	at, ok := p.get(key)
	if !ok {
		return false
	}
	if at == (parkedAt{v.presence, v.object}) && !ops.WakesParked() {
		return true
	}
	p.forget(key)
	return false
}
