package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/internal/fence"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The secondaries of a primary that went with the deletion policy "orphan" stay, and still name it. So that the sweep
// does not take them for garbage later, a reserved key of the status bucket remembers that they were left on purpose;
// it goes when none of them is there any more.

// leave remembers that what the key owned was left on purpose.
func (t *Teardown) leave(ctx context.Context, key string) error {
	_, err := t.Records.PutReserved(ctx, record.LeftKey(key), []byte(key), 0)
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("remember that what %s %q owned was left: %w", t.Kind, key, err)
	}
	return nil
}

// leftBehind asks the leader whether what the key owned was left on purpose. An answer of the server in the key's place
// counts as that: it is reported, and nothing is deleted.
func (t *Teardown) leftBehind(ctx context.Context, key string) (bool, error) {
	_, _, err := t.Records.GetReserved(ctx, record.LeftKey(key))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask whether what %s %q owned was left: %w", t.Kind, key, err)
	}
	return true, nil
}

// leftOwners tells the sweep whose secondaries were left, from the cache of the status bucket.
type leftOwners struct {
	teardown *Teardown
	used     map[string]bool // by name; true once a secondary of it was found
}

func (t *Teardown) leftOwners() *leftOwners {
	left := &leftOwners{teardown: t, used: map[string]bool{}}
	for _, name := range t.Records.Informer().GetStore().ListKeys() {
		if strings.HasPrefix(name, record.LeftPrefix) {
			left.used[name] = false
		}
	}
	return left
}

// has reports whether the secondaries of an owner that does not exist were left.
func (l *leftOwners) has(ctx context.Context, owner string) bool {
	if l.teardown.Filtered {
		left, err := l.teardown.leftBehind(ctx, owner)
		return left || err != nil
	}
	return l.use(owner)
}

// use notes that there are secondaries of an owner. It reports whether they were left, or are about to be.
func (l *leftOwners) use(owner string) bool {
	if len(l.used) == 0 {
		return false
	}
	name := record.LeftKey(owner)
	_, ok := l.used[name]
	if ok {
		l.used[name] = true
	}
	return ok
}

// forgetUnused removes what no secondary needs any more, and returns it. It waits for the second sweep that finds a
// name unused: a cache may have been a moment late. A source that is outdated may have secondaries that it does not
// show; then nothing is unused.
func (l *leftOwners) forgetUnused(ctx context.Context, before map[string]struct{}) (unused map[string]struct{}) {
	unused = map[string]struct{}{}
	outdated := func(s source.Owned) bool { return l.teardown.Guard.Outdated(s) != nil }
	if slices.ContainsFunc(l.teardown.swept(), outdated) {
		return unused
	}
	for name, used := range l.used {
		if used {
			continue
		}
		unused[name] = struct{}{}
		if _, twice := before[name]; !twice {
			continue
		}
		err := record.Text(l.teardown.Reserved, name).Delete(ctx)
		if err != nil && !errors.Is(err, fence.ErrMoved) { // which is of a key of another member, and stays
			return unused // the term is over
		}
	}
	return unused
}
