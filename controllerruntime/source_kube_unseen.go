package controllerruntime

import "context"

// A teardown that sees nothing more in the caches asks once more before it removes the anchor: after that nothing would
// ever delete what a cache was behind with, or does not cover.

// unseenObjects are what a primary owns and no cache shows.
func (e *engine) unseenObjects(ctx context.Context, key string) ([]ownedObject, error) {
	var found []ownedObject
	for _, s := range e.ownedSources() {
		kube, ok := s.(*kubeSource)
		if !ok {
			continue
		}
		asked, ok := kube.deleter.(liveOwner)
		if !ok {
			continue
		}
		objects, err := asked.OwnedLive(ctx, e.kind, key)
		if err != nil {
			return nil, err
		}
		for _, obj := range objects {
			if e.mine(obj) {
				found = append(found, ownedObject{source: s, object: obj})
			}
		}
	}
	return found, nil
}
