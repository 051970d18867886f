package recorder

import (
	"crypto/sha256"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// maxKeyLength is the length above which a hash replaces an encoded key. A subject travels in one protocol line of at
// most 4,096 bytes, together with the acknowledgement's, and List's filter is part of an API subject.
const maxKeyLength = 1024

// Subject returns the filter that matches the events about one entity: "nagi.events.Website.*.shop.frontend.*". The key
// is client-go's, "name" or "namespace/name". With an empty key it matches the events about all entities of a kind;
// with an empty kind too, all events. prefix is the Config's SubjectPrefix; empty is the default.
func Subject(prefix, kind, key string) string {
	if prefix == "" {
		prefix = DefaultSubjectPrefix
	}
	if kind == "" && key == "" {
		return prefix + ".>"
	}
	kindToken := "*"
	if kind != "" {
		kindToken = encodeToken(kind)
	}
	if key == "" {
		return prefix + "." + kindToken + ".>"
	}
	return prefix + "." + kindToken + ".*." + encodeKey(strings.Replace(key, "/", ".", 1)) + ".*"
}

// subjectOf returns where an event is published. The id is one token, the last one. So the key before it may have any
// number of tokens, and a filter for the key "a" does not match the events of the key "a.b".
func subjectOf(prefix string, event *corev1.Event) string {
	object := event.InvolvedObject
	key := object.Name
	if object.Namespace != "" {
		key = object.Namespace + "." + object.Name
	}
	// client-go names events "<object>.<time in hex>", or with a UUID where the object's name would make that invalid.
	id := strings.TrimPrefix(event.Name, object.Name+".")
	tokens := []string{prefix, encodeToken(object.Kind), encodeToken(event.Type), encodeKey(key), encodeToken(id)}
	return strings.Join(tokens, ".")
}

// encodeKey makes any string a sequence of subject tokens. A legal KV key stays as it is. Other bytes, and dots that
// would make an empty token, become %XX. A legal key has no percent sign, so no two keys share a subject.
func encodeKey(key string) string {
	var b strings.Builder
	for i := range len(key) {
		c := key[i]
		emptyToken := c == '.' && (i == 0 || i == len(key)-1 || key[i-1] == '.')
		if !emptyToken && (c == '.' || isTokenByte(c)) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() > maxKeyLength {
		return fmt.Sprintf("%%sha256-%x", sha256.Sum256([]byte(key)))
	}
	return b.String()
}

// encodeToken makes any string one subject token.
func encodeToken(s string) string {
	return strings.ReplaceAll(encodeKey(s), ".", "%2E")
}

func isTokenByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-/_=", c) >= 0
}
