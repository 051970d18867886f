package entity

import (
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A deposed leader cannot be made to answer on demand, so what it would say is put together here.
func TestConfirmRefusesAnAnswerThatIsOlderThanTheCache(t *testing.T) {
	type thing = Object[struct{}, struct{}]
	_, js := natstest.Connect(t, natstest.Start(t).URL())
	client, err := NewClient[*thing](t.Context(), js, Config{Kind: "Thing", Bucket: "things"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, name := range []string{"a", "b", "c"} {
		if err := client.Create(t.Context(), &thing{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	g, err := client.ready()
	if err == nil {
		_, err = client.Lister().Get("c")
	}
	if err == nil {
		err = g.docs.WaitCursor(t.Context(), 3)
	}
	if err != nil {
		t.Fatal(err)
	}
	info, err := client.documents.info(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	seen := client.seen("c")
	if err := client.checkNotOlder("c", seen, info); err != nil || seen.revision != 3 || seen.cursor < 3 {
		t.Errorf("the truth was refused: %v; seen %+v", err, seen)
	}
	behind := *info
	behind.LastSeq = 2
	if err := client.checkNotOlder("c", seen, &behind); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a leader that is behind was believed: %v", err)
	}
	another := *info
	another.Created = info.Created.Add(time.Second)
	if err := client.checkNotOlder("c", seen, &another); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("another stream was believed: %v", err)
	}
}
