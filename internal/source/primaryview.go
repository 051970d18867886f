package source

import (
	"strings"

	"github.com/nagi-runtime/nagi/natsinformer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// View tells what the cache knows of a key.
func (s *Primary[T]) View(key string) View {
	informer := s.informer()
	item, exists, err := informer.GetStore().GetByKey(key)
	refused, why := informer.WhyInvalid(natsKey(key))
	if err != nil || !exists {
		known, at := informer.Known(natsKey(key))
		apart, _ := known.(natsinformer.Apart)
		switch {
		case refused != 0:
			return View{Presence: Invalid, Refused: refused, Why: why}
		case apart != nil && !s.wants(key): // else it is being fetched
			return View{Presence: Present, Revision: at}
		case s.Exists(key):
			return View{Presence: Arriving}
		}
		return View{}
	}
	obj := item.(metav1.Object)
	v := View{Presence: Present, Object: obj}
	v.Revision = uint64(obj.GetGeneration()) // entities have the stream sequence there too, and it need not be parsed
	v.Warned = s.port.DocumentWarnings(key, v.Revision)
	v.Expires = s.port.DocumentExpires(key, v.Revision)
	if refused != 0 {
		v.Presence, v.Refused, v.Why = Invalid, refused, why
	}
	return v
}

func (s *Primary[T]) keepInformer() {
	informer := s.client.Informer()
	s.cache.Store(&informer)
}

// informer is the one that Start took: a client that was closed meanwhile would make another, which is empty.
func (s *Primary[T]) informer() natsinformer.Informer {
	if informer := s.cache.Load(); informer != nil {
		return *informer
	}
	return s.client.Informer()
}

// natsKey is what the informer is asked for about keys that are not in its store: "shop/home" would be the NATS key
// of that name, which is malformed and none of ours.
func natsKey(key string) string { return strings.Replace(key, "/", ".", 1) }

// never is the answer of predicates about keys at which another replica works.
func never() bool { return false }

// Keys lists the keys of which the cache knows, invalid ones excepted.
func (s *Primary[T]) Keys() []string {
	informer := s.informer()
	if !informer.Divided() {
		return informer.GetStore().ListKeys()
	}
	var keys []string
	for key := range informer.AllKnown() {
		keys = append(keys, s.displayed(key))
	}
	return keys
}

// displayed is a key, as in NATS, as it is in the store.
func (s *Primary[T]) displayed(key string) string {
	if s.client.Config().Namespaced {
		return strings.Replace(key, ".", "/", 1)
	}
	return key
}

// InvalidKeys lists the keys whose document does not decode, and those that no primary can have.
func (s *Primary[T]) InvalidKeys() (keys []string) {
	for key := range s.informer().Invalid() {
		keys = append(keys, s.displayed(key))
	}
	return keys
}

// Exists tells whether the key is in the cache or invalid.
func (s *Primary[T]) Exists(key string) bool { return s.informer().Exists(natsKey(key)) }

// Decoded implements deletes.Primaries.
func (s *Primary[T]) Decoded(key string) (revision uint64, ok bool) {
	v := s.View(key)
	return v.Revision, v.Object != nil
}

// Aged returns the revision of the marker of a document that grew older than the bucket's age limit; else 0.
func (s *Primary[T]) Aged(key string) uint64 { return s.informer().Aged(natsKey(key)) }

// CheckKey returns an error for a key that no primary can have.
func (s *Primary[T]) CheckKey(key string) error { return s.port.CheckKey(key) }
