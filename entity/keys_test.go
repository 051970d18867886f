package entity

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestKeysOfANamespacedBucketSplitAtTheFirstDot(t *testing.T) {
	k := newKeyspace(Config{Kind: "W", Bucket: "b", Namespaced: true, MaxKeyLength: 100, Filter: ">"})
	for key, natsKey := range map[string]string{"shop/a": "shop.a", "shop/a.b.c": "shop.a.b.c", "s=1/a_b": "s=1.a_b"} {
		if got, err := k.toNATS(key); err != nil || got != natsKey {
			t.Errorf("%q became %q, %v", key, got, err)
		}
		if got, namespace, name, err := k.fromNATS(natsKey); err != nil || got != key || namespace+"/"+name != key {
			t.Errorf("%q became %q, %v", natsKey, got, err)
		}
	}
}

func TestKeysOfTheWrongShapeAreInvalid(t *testing.T) {
	plain := newKeyspace(Config{Kind: "W", Bucket: "b", MaxKeyLength: 20, Filter: ">"})
	namespaced := newKeyspace(Config{Kind: "W", Bucket: "b", Namespaced: true, MaxKeyLength: 20, Filter: ">"})
	for _, key := range []string{
		"", "a/b", ".a", "a.", "a..b", "a b", "a\n", "a*", "a>", "é", "_nagi", "_nagi.x", strings.Repeat("x", 21),
	} {
		if _, err := plain.toNATS(key); !apierrors.IsInvalid(err) {
			t.Errorf("%q: %v", key, err)
		}
		if _, _, _, err := plain.fromNATS(key); !apierrors.IsInvalid(err) {
			t.Errorf("from NATS %q: %v", key, err)
		}
	}
	for _, key := range []string{"a", "a/", "/a", "a.b/c", "a/b/c", "a/.b", "a/b.", "_nagi/x"} {
		if _, err := namespaced.toNATS(key); !apierrors.IsInvalid(err) {
			t.Errorf("%q: %v", key, err)
		}
	}
	for _, natsKey := range []string{"a", "a/b.c", "_nagi.x", ""} {
		if _, _, _, err := namespaced.fromNATS(natsKey); !apierrors.IsInvalid(err) {
			t.Errorf("from NATS %q: %v", natsKey, err)
		}
	}
}

// TestAnErrorAboutAKeyNamesTheCharacter and not one of its bytes, and counts bytes where bytes count.
func TestAnErrorAboutAKeyNamesTheCharacter(t *testing.T) {
	k := newKeyspace(Config{Kind: "W", Bucket: "b", MaxKeyLength: 20, Filter: ">"})
	for key, says := range map[string]string{
		"café":         "character 'é' is not allowed",
		"日本":           "character '日' is not allowed",
		"a\nb":         "character '\\n' is not allowed",
		"a\u202eb":     "character '\\u202e' is not allowed",
		"a\uFFFDb":     "character '\uFFFD' is not allowed",
		"caf\xe9":      "byte 0xe9 is no UTF-8",
		"éééééééééééé": "the key has 24 bytes, at most 20",
	} {
		if err := k.check(key); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: error %v does not say %q", key, err, says)
		}
	}
}

func TestFiltersMatchAsSubjectsDo(t *testing.T) {
	for _, c := range []struct {
		filter, key string
		matches     bool
	}{
		{">", "a.b", true}, {"a.>", "a.b.c", true}, {"a.>", "a", false}, {"a.>", "b.a", false},
		{"*.b", "a.b", true}, {"*.b", "a.b.c", false}, {"*", "a", true}, {"*", "a.b", false},
		{"a.*.c", "a.x.c", true}, {"a.*.c", "a.c", false}, {"a", "a", true},
	} {
		k := newKeyspace(Config{Kind: "W", Bucket: "b", MaxKeyLength: 20, Filter: c.filter})
		if got := k.matches(c.key); got != c.matches {
			t.Errorf("filter %q, key %q: %v", c.filter, c.key, got)
		}
	}
}
