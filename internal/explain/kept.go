package explain

import (
	"sync"
	"time"
)

// kept is an answer that takes a look at each of some keys. Of few keys it is made at each request. Of many it is kept
// for fifty times as long as it took to make it, so that making it is a fiftieth of the time at most, however many
// requests come. It is freed a while after that. The zero value keeps nothing.
type kept[T any] struct {
	mu    sync.Mutex // held while an answer is made: requests that come meanwhile get the same one
	value T
	until time.Time
	frees *time.Timer // freedAfter later; nil if nothing is kept
}

const (
	fewKeys   = 1024
	keptTimes = 50

	freedAfter = 10 * time.Second
)

// get returns what is kept, or else what make returns: an answer, and of how many keys.
func (k *kept[T]) get(make func() (value T, looked int)) T {
	k.mu.Lock()
	defer k.mu.Unlock()
	began := time.Now()
	if began.Before(k.until) {
		return k.value
	}
	k.free()
	value, looked := make()
	if looked > fewKeys {
		now := time.Now()
		lasts := keptTimes * now.Sub(began)
		k.value, k.until = value, now.Add(lasts)
		k.frees = time.AfterFunc(lasts+freedAfter, k.expire)
	}
	return value
}

// expire frees what is kept if its time is over: another answer may have taken its place.
func (k *kept[T]) expire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !time.Now().Before(k.until) {
		k.free()
	}
}

// free needs k.mu.
func (k *kept[T]) free() {
	if k.frees != nil {
		k.frees.Stop()
	}
	var nothing T
	k.value, k.until, k.frees = nothing, time.Time{}, nil
}

// keptBy are the answers that an Index keeps, by what was asked. The zero value has none. It may be used concurrently.
type keptBy[K comparable, T any] struct {
	mu sync.Mutex
	by map[K]*kept[T]
}

func (k *keptBy[K, T]) of(asked K) *kept[T] {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.by == nil {
		k.by = map[K]*kept[T]{}
	}
	if k.by[asked] == nil {
		k.by[asked] = &kept[T]{}
	}
	return k.by[asked]
}
