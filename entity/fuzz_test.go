package entity

import (
	"bytes"
	stdjson "encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/internal/jsonshape"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The targets of `make fuzz`. Documents and records are written by anybody who may write to a bucket, and are read with
// the semantics of encoding/json, so encoding/json is what each target compares with. What the fuzzer found is kept
// below testdata/fuzz; each `go test` runs it.

// words make JSON out of random bytes: a byte from 0x80 on stands for one of them.
var words = []string{
	`{"spec":{`, `}}`, `,"`, `":`, `":"`, `",`, `null`, `true`, `{"status":{`, `"text":`, `"TEXT":`, `"caseins":`,
	`"CaseInS":`, `"number":`, `"quoted":"1"`, `"bytes":"aGk="`, `"fixed":[1,2,3,4]`, `"keys":{"3":"c"}`,
	`"time":"2026-01-02T03:04:05Z"`, `"micro":"2026-01-02T03:04:05.000006Z"`, `"duration":"1h"`, `"port":80`,
	`"quantity":"1500m"`, `"raw":{}`, `"rawJSON":[1, 2]`, `"any":`, `"metadata":{`, `"name":"a"`, `"namespace":"n"`,
	`"labels":{"a":"b"}`, `"annotations":{"nagi/status-revision":"1"}`, `"kind":"K"`, `"apiVersion":"v1"`, `1e400`,
	`-0`, `-0.0`, `9223372036854775808`, `1E+2`, `0.1e-7`, `\u0000`, `\ud83d\ude00`, `\ud800`, "\xff", "\xc3\xa9", "\u2028",
	"\u017ft", "\u212a", `[]`, `{}`, `[[[[[[[[`, `]]]]]]]]`, `{"a":{"a":{"a":`, `}}}}`, `"deletionTimestamp":null`,
	`"lastDocument":`, `"schemaVersion":1`, `"conditions":[{"type":"T","status":"True"}]`, `"status":`, `\"`, `\\`,
	`"creationTimestamp":"2026-01-02T03:04:05Z"`, `"generation":7`, `"resourceVersion":"7"`, `"pointer":`,
}

func spelled(data []byte) []byte {
	var out []byte
	for _, c := range data {
		if c < 0x80 {
			out = append(out, c)
		} else {
			out = append(out, words[int(c-0x80)%len(words)]...)
		}
	}
	return out
}

// fuzzDocuments runs check with what the fuzzer makes, as it is and with bytes for words. No check may hang.
func fuzzDocuments(f *testing.F, seeds []string, check func(t *testing.T, document []byte)) {
	for _, seed := range seeds {
		f.Add([]byte(seed), false)
	}
	for first := 0x80; first < 0x80+len(words); first += 8 {
		f.Add([]byte{byte(first), byte(first + 1), byte(first + 2), byte(first + 3), '}'}, true)
	}
	f.Fuzz(func(t *testing.T, document []byte, asWords bool) {
		if asWords {
			document = spelled(document)
		}
		hangs := time.AfterFunc(20*time.Second, func() { panic("it takes longer than 20 s") })
		defer hangs.Stop()
		given := bytes.Clone(document)
		check(t, document)
		if !bytes.Equal(given, document) {
			t.Errorf("the bytes of the server's message were changed to %q", document)
		}
	})
}

var documentSeeds = []string{
	motleyDocument, string(benchmarkDocument), `{}`, `null`, ``, `{"spec":{"text":"\ud800"}}`,
	"{\"spec\":{\"text\":\"\xff\"}}", `{"metadata":{"name":"b"}}`, `{"spec":null,"metadata":null}`,
	`{"spec":{"number":1e400}}`, `{"status":{"text":"x"}}`, `{"metadata":{"annotations":{"nagi/status-revision":"1"}}}`,
	`{"kind":"X","kind":"Y"}`, `{"spec":{"any":[[[[{}]]]]}} x`, `{"spec":{"any":{"a":1,"a":2}},"spec":{"text":"t"}}`,
	`{"Spec":{"TEXT":1}}`, `{"spec":{"any":` + strings.Repeat("[", 1200) + strings.Repeat("]", 1200) + `}}`,
	`{"spec":{"keys":{"1":"a","01":"b"},"nilMap":{"a":1,"a":2},"fixed":[1,2,3,4,5],"quoted":"null"}}`,
	`{"apiVersion":1,"kind":null,"metadata":{"labels":{"a":null}}}`, `{"metadata":{"labels":{"a":1}},"spec":[]}`,
}

func FuzzDocument(f *testing.F) {
	c := motleyCodec(f)
	fuzzDocuments(f, documentSeeds, func(t *testing.T, document []byte) {
		var std, ours motleyObject
		stdErr, err := stdjson.Unmarshal(document, &std), c.unmarshal(document, &ours)
		if (err == nil) != (stdErr == nil) {
			t.Fatalf("the codec says: %v; encoding/json says: %v", err, stdErr)
		}
		if rounded(&ours); err == nil && !reflect.DeepEqual(ours, std) {
			t.Fatalf("got  %+v\nwant %+v", ours, std)
		}
		obj, err := c.decode("a", 7, document)
		refused := stdErr != nil || !startsAnObject(document) || checkDepth(document) != nil ||
			std.Name != "" && std.Name != "a" || std.Namespace != ""
		if (err != nil) != refused {
			t.Fatalf("decode says: %v; encoding/json says: %v", err, stdErr)
		}
		if err != nil {
			if !apierrors.IsInvalid(err) {
				t.Errorf("not IsInvalid: %v", err)
			}
			return
		}
		seen := *obj
		if rounded(&seen); !reflect.DeepEqual(seen.Spec, std.Spec) {
			t.Errorf("got  %+v\nwant %+v", seen.Spec, std.Spec)
		}
		checkDecoded(t, c, obj)
	})
}

func startsAnObject(document []byte) bool {
	trimmed := bytes.TrimLeft(document, " \t\r\n")
	return len(trimmed) > 0 && trimmed[0] == '{'
}

// checkDecoded checks what is true of every decoded entity, that it is written as encoding/json writes it, and that
// what is written is the same after it was read and written again.
func checkDecoded(t *testing.T, c *codec[*motleyObject], obj *motleyObject) {
	if obj.Name != "a" || obj.Namespace != "" || obj.ResourceVersion != "7" || obj.Generation != 7 ||
		obj.DeletionTimestamp != nil || obj.Kind == "" || !reflect.ValueOf(obj.Status).IsZero() {
		t.Errorf("got %+v", obj)
	}
	document, sent, err := c.encode(obj, "a")
	std, stdErr := stdjson.Marshal(sent)
	if (err == nil) != (stdErr == nil && checkDepth(std) == nil) {
		t.Fatalf("encode says: %v; encoding/json says: %v", err, stdErr)
	}
	if err != nil {
		return
	}
	if string(document) != string(std) {
		t.Errorf("written as %s\nwant       %s", document, std)
	}
	if only, err := c.encodeOnly(obj, "a"); err != nil || !bytes.Equal(only, document) {
		t.Errorf("written without a copy as %s, %v\nwant %s", only, err, document)
	}
	again, err := c.decode("a", 7, document)
	if stdjson.Unmarshal(document, &motleyObject{}) != nil {
		return // a metav1.Time of the year 0 becomes one of the year -1 in UTC, which nothing reads
	}
	if err != nil {
		t.Fatalf("what was decoded is written as %s, which does not decode: %v", document, err)
	}
	if twice, _, err := c.encode(again, "a"); err != nil || !bytes.Equal(twice, document) {
		t.Errorf("written again as %s, %v\nwant %s", twice, err, document)
	}
}

func FuzzUnstructured(f *testing.F) {
	cfg := Config{Kind: "K", Bucket: "b"}.withDefaults()
	c, err := newCodec[*unstructured.Unstructured](cfg, newKeyspace(cfg))
	if err != nil {
		f.Fatal(err)
	}
	fuzzDocuments(f, documentSeeds, func(t *testing.T, document []byte) {
		obj, err := c.decode("a", 7, document)
		want, stdErr := parseWithIntegers(document)
		if err != nil {
			content, _ := want.(map[string]any)
			if stdErr == nil && content != nil && checkDepth(document) == nil && hasPlainMeta(content) {
				t.Fatalf("refused: %v; encoding/json takes it", err)
			}
			return
		}
		if stdErr != nil {
			t.Fatalf("accepted what encoding/json refuses: %v", stdErr)
		}
		checkUnstructured(t, c, obj, want.(map[string]any))
		if cleaned, err := cleanDocument(document); err != nil {
			t.Errorf("it cannot be patched: %v", err)
		} else if same, err := c.decode("a", 7, cleaned); err != nil || !reflect.DeepEqual(same, obj) {
			t.Errorf("cleaned it is %v, %v\nwant %v", same, err, obj)
		}
	})
}

// parseWithIntegers decodes as encoding/json does, but numbers without a fraction that fit become an int64.
func parseWithIntegers(document []byte) (any, error) {
	var floats any
	if err := stdjson.Unmarshal(document, &floats); err != nil {
		return nil, err
	}
	v, err := parseAny(document)
	return integers(v), err
}

func integers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = integers(v[name])
		}
	case []any:
		for i := range v {
			v[i] = integers(v[i])
		}
	case stdjson.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		float, _ := v.Float64()
		return float
	}
	return v
}

// hasPlainMeta reports whether nothing in the content's metadata is a reason to refuse it.
func hasPlainMeta(content map[string]any) bool {
	if content["metadata"] == nil {
		return isText(content["kind"]) && isText(content["apiVersion"])
	}
	meta, ok := content["metadata"].(map[string]any)
	return ok && isText(content["kind"]) && isText(content["apiVersion"]) && isTexts(meta["labels"]) &&
		isTexts(meta["annotations"]) && (meta["name"] == nil || meta["name"] == "" || meta["name"] == "a") &&
		(meta["namespace"] == nil || meta["namespace"] == "")
}

func isText(v any) bool {
	_, ok := v.(string)
	return ok || v == nil
}

func isTexts(v any) bool {
	m, ok := v.(map[string]any)
	for _, value := range m {
		if _, ok := value.(string); !ok {
			return false
		}
	}
	return ok || v == nil
}

// checkUnstructured checks that decoding changed nothing but what clean and stamp say, and the round trip.
func checkUnstructured(t *testing.T, c *codec[*unstructured.Unstructured], obj *unstructured.Unstructured,
	want map[string]any,
) {
	if obj.GetName() != "a" || obj.GetResourceVersion() != "7" || obj.GetGeneration() != 7 ||
		obj.GetDeletionTimestamp() != nil || obj.Object["status"] != nil {
		t.Errorf("got %v", obj.Object)
	}
	got := obj.DeepCopy().Object // panics on what is no JSON value
	for _, content := range []map[string]any{got, want} {
		for _, name := range []string{"status", "metadata", "kind", "apiVersion"} {
			delete(content, name)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
	document, _, err := c.encode(obj, "a")
	if err != nil {
		t.Fatalf("what was decoded cannot be written: %v", err)
	}
	if std, err := stdjson.Marshal(want); err != nil {
		t.Errorf("encoding/json does not write it: %v", err)
	} else if without, err := stdjson.Marshal(got); err != nil || !bytes.Equal(std, without) {
		t.Errorf("written as %s, %v\nwant %s", without, err, std)
	}
	again, err := c.decode("a", 7, document)
	if err != nil {
		t.Fatalf("what was decoded is written as %s, which does not decode: %v", document, err)
	}
	twice, _, err := c.encode(again, "a")
	first, _ := parseWithIntegers(document)
	second, _ := parseWithIntegers(twice)
	if err != nil || !reflect.DeepEqual(first, second) { // -0.0 is written as -0, and that is read as the integer 0
		t.Errorf("written again as %s, %v\nwant %s", twice, err, document)
	}
}

func FuzzRecord(f *testing.F) {
	seeds := append([]string{
		`{"schemaVersion":1,"controller":"c","observedRevision":18446744073709551615,"stream":"s","conditions":[` +
			`{"type":"Reconciled","status":"True","reason":"Synced","lastTransitionTime":"2026-01-02T03:04:05Z"},{}],` +
			`"status":{"ready":true},"statusRevision":2,"lastDocument":{"spec":{}},"documentRevision":7,"phase":"Synced","firstSeen":"2026-01-02T03:04:05Z",` +
			`"invalid":{"revision":7,"stream":"s","path":"spec","line":1,"column":2,"reason":"r"}}`,
		`{"lastdocument":1,"LASTDOCUMENT":null,"Status":null}`, `{"conditions":null}`, `{"conditions":[],"conditions":[{}]}`,
		`{"stream":"KV_x","seq":7}`, `{"observedRevision":-1}`, `{"observedRevision":1.0}`, `[]`, `1`, `{"revision":9}`,
	}, documentSeeds...)
	fuzzDocuments(f, seeds, func(t *testing.T, data []byte) {
		rec, err := decodeRecord(data, 7)
		var want Record
		stdErr := stdjson.Unmarshal(data, &want)
		if deep := checkDepthOf(data, recordDepth); deep != nil {
			stdErr = deep // which encoding/json does not mind
		}
		cell, cachedErr := decodeCached(data, 7)
		if checkDepthOf(data, recordDepth) != nil {
			if err == nil || cachedErr == nil {
				t.Errorf("what is nested too deep is read: live %v, cached %v", err, cachedErr)
			}
			return
		}
		if (err == nil) != (stdErr == nil) || (cachedErr == nil) != (stdErr == nil) {
			t.Fatalf("read live: %v; cached: %v; encoding/json says: %v", err, cachedErr, stdErr)
		}
		if err != nil {
			return
		}
		want.Revision = 7
		if !reflect.DeepEqual(*rec, want) {
			t.Errorf("got  %+v\nwant %+v", *rec, want)
		}
		checkCached(t, rec, cell)
		encoded, err := encodeRecord(rec)
		if std, stdErr := stdjson.Marshal(encodedRecord{rec, rec.Phase()}); (err == nil) != (stdErr == nil) || !bytes.Equal(encoded, std) {
			t.Fatalf("written as %s, %v\nwant %s, %v", encoded, err, std, stdErr)
		}
		if err != nil {
			return
		}
		again, err := decodeRecord(encoded, 7)
		if err != nil {
			t.Fatalf("what was decoded is written as %s, which does not decode: %v", encoded, err)
		}
		if twice, err := encodeRecord(again); err != nil || !bytes.Equal(twice, encoded) {
			t.Errorf("written again as %s, %v\nwant %s", twice, err, encoded)
		}
	})
}

// checkCached checks that a cached record is the record without its last document.
func checkCached(t *testing.T, rec *Record, cell *recordCell) {
	cached, want := cell.object().Record.Clone(), rec.Clone()
	want.LastDocument = nil
	if !reflect.DeepEqual(cached, want) {
		t.Errorf("cached %+v\nwant   %+v", cached, want)
	}
}

func FuzzPatch(f *testing.F) {
	for _, document := range documentSeeds {
		f.Add([]byte(document), []byte(`{"spec":{"text":null,"any":{"b":{"c":1}}},"metadata":null}`))
		f.Add([]byte(`{"spec":{"any":{"b":[1]}}}`), []byte(document))
	}
	f.Fuzz(func(t *testing.T, document, patch []byte) {
		target, err := parseAny(document)
		if err != nil || !stdjson.Valid(document) || !stdjson.Valid(patch) {
			return
		}
		wanted, err := parseAny(patch)
		if err != nil {
			return
		}
		patched, err := mergePatch(document, patch)
		if err != nil {
			t.Fatalf("a patch of a valid document fails: %v", err)
		}
		got, err := parseAny(patched)
		if err != nil {
			t.Fatalf("it is patched to %s: %v", patched, err)
		}
		if want := patchedAsRFC7386Says(target, wanted); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		checkDropped(t, document)
	})
}

// patchedAsRFC7386Says is the RFC's own pseudo code.
func patchedAsRFC7386Says(target, patch any) any {
	members, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	result, ok := target.(map[string]any)
	if !ok {
		result = map[string]any{}
	}
	for name, value := range members {
		if value == nil {
			delete(result, name)
		} else {
			result[name] = patchedAsRFC7386Says(result[name], value)
		}
	}
	return result
}

// checkDropped checks jsonshape.DropMember with a document as an encoder writes it.
func checkDropped(t *testing.T, document []byte) {
	v, _ := parseAny(document)
	content, ok := v.(map[string]any)
	if !ok {
		return
	}
	written, err := anyJSON.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	got, err := jsonshape.DropMember(written, "status")
	delete(content, "status")
	want, _ := anyJSON.Marshal(content)
	if err != nil || !sameJSON(got, want) {
		t.Errorf("without its status %s is %s, %v", written, got, err)
	}
}

func FuzzKeys(f *testing.F) {
	for _, seed := range []string{
		"a", "shop/a", "shop.a", "a.b/c.d", "/", ".", "..", "_nagi.x", "a/b/c", "ü", "a=b/c_d-e",
		strings.Repeat("x", 2000),
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, key string, namespaced bool) {
		k := newKeyspace(Config{Kind: "W", Bucket: "b", Namespaced: namespaced, MaxKeyLength: 1024, Filter: ">"})
		if natsKey, err := k.toNATS(key); err == nil {
			back, namespace, name, err := k.fromNATS(natsKey)
			if err != nil || back != key {
				t.Errorf("%q became %q and that %q, %v", key, natsKey, back, err)
			}
			if name == "" || namespaced != (namespace != "") || strings.ContainsAny(natsKey, "/ *>\r\n\t") {
				t.Errorf("%q became %q: namespace %q, name %q", key, natsKey, namespace, name)
			}
		} else if !apierrors.IsInvalid(err) {
			t.Errorf("%q: %v", key, err)
		}
		if back, _, _, err := k.fromNATS(key); err == nil {
			if again, err := k.toNATS(back); err != nil || again != key {
				t.Errorf("NATS key %q became %q and that %q, %v", key, back, again, err)
			}
		}
	})
}
