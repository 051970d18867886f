package natsinformer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// decodeNamespaced is for a bucket with keys namespace.name.
func decodeNamespaced(e Entry) (runtime.Object, error) {
	object, err := decodeThing(e)
	if err != nil {
		return nil, err
	}
	if namespace, name, is := strings.Cut(e.Key, "."); is {
		object.(*thing).Namespace, object.(*thing).Name = namespace, name
	}
	return object, nil
}

func TestExistsConfusesNoKeys(t *testing.T) {
	for _, c := range []struct {
		there      string // the key in NATS
		namespaced bool
		invalid    bool
		exists     []string
		not        []string
	}{
		{"x/y", false, false, []string{"x/y"}, []string{"x.y", "x", "y"}},
		{"x/y", true, false, []string{"x/y"}, []string{"x.y"}},
		{"x/y", false, true, nil, []string{"x.y"}},
		{"x.y", false, false, []string{"x.y"}, []string{"x/y", "x"}},
		{"x.y", true, false, []string{"x.y", "x/y"}, []string{"x", "y"}},
		{"x.y", true, true, []string{"x.y", "x/y"}, []string{"x"}},
		{"x.y.z", true, false, []string{"x.y.z", "x/y.z"}, []string{"x.y/z", "x/y/z", "x.y"}},
		{"x.y/z", true, false, []string{"x/y/z"}, []string{"x.y.z", "x/y.z"}},
	} {
		subtest(t, fmt.Sprintf("%s, namespaced %t, invalid %t", c.there, c.namespaced, c.invalid), func(t *testing.T) {
			js := connect(t, natstest.Start(t).URL())
			kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
			n := 1
			if c.invalid {
				n = -1
			}
			put(t, kv, c.there, n)
			cfg := Config{Bucket: "b"}
			if c.namespaced {
				cfg.Decode = decodeNamespaced
			}
			r := start(t, js, cfg).synced(t)
			for _, key := range c.exists {
				if !r.Exists(key) {
					t.Errorf("%s does not exist", key)
				}
			}
			for _, key := range c.not {
				if r.Exists(key) {
					t.Errorf("%s exists", key)
				}
			}
		})
	}
}
