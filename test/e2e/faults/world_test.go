package faults

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// world reads live all that the scenario looks at and breaks.
type world struct {
	js     jetstream.JetStream
	shops  *entity.Client[*shop]
	routes *entity.Client[*route]
	kube   kubernetes.Interface
	cloud  *cloud
}

// differences returns where the four worlds differ from the primaries, nothing if they agree.
func (w *world) differences(ctx context.Context) (differences []string, err error) {
	shops, err := w.shops.List(ctx)
	if err != nil {
		return nil, err
	}
	want := map[string]string{}
	for _, s := range shops {
		want[s.Name] = s.Spec.Text
	}
	reads := []struct {
		world string
		read  func(context.Context) (map[string]string, error)
	}{
		{"route", w.routeTexts}, {"configmap", w.configMapTexts},
		{"secret", w.secretTexts}, {"machine", w.machineTexts},
	}
	for _, r := range reads {
		have, err := r.read(ctx)
		if err != nil {
			return nil, fmt.Errorf("read each %s: %w", r.world, err)
		}
		differences = append(differences, compare(r.world, want, have)...)
	}
	records, err := w.recordDifferences(ctx, shops)
	return append(differences, records...), err
}

func compare(what string, want, have map[string]string) (differences []string) {
	for name, text := range want {
		if got, ok := have[name]; !ok {
			differences = append(differences, fmt.Sprintf("%s %s is missing", what, name))
		} else if got != text {
			differences = append(differences, fmt.Sprintf("%s %s has %q, want %q", what, name, got, text))
		}
	}
	for name := range have {
		if _, ok := want[name]; !ok {
			differences = append(differences, fmt.Sprintf("%s %s has no owner any more", what, name))
		}
	}
	slices.Sort(differences)
	return differences
}

func (w *world) routeTexts(ctx context.Context) (map[string]string, error) {
	routes, err := w.routes.List(ctx)
	texts := map[string]string{}
	for _, r := range routes {
		texts[r.Name] = r.Spec.Text
	}
	return texts, err
}

func (w *world) configMapTexts(ctx context.Context) (map[string]string, error) {
	list, err := w.kube.CoreV1().ConfigMaps(namespace).List(ctx, owned)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, c := range list.Items {
		texts[c.Name] = c.Data[textKey]
	}
	return texts, nil
}

func (w *world) secretTexts(ctx context.Context) (map[string]string, error) {
	list, err := w.kube.CoreV1().Secrets(namespace).List(ctx, owned)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, s := range list.Items {
		texts[s.Name] = string(s.Data[textKey])
	}
	return texts, nil
}

// owned finds the objects that shops own.
var owned = metav1.ListOptions{LabelSelector: controller.OwnerkindLabel + "=Shop"}

func (w *world) machineTexts(context.Context) (map[string]string, error) {
	texts, twice, _ := w.cloud.texts()
	if len(twice) > 0 {
		return nil, fmt.Errorf("two machines at once of %v", twice)
	}
	return texts, nil
}

// recordDifferences returns the shops without a record of their last revision, and the records without a shop.
func (w *world) recordDifferences(ctx context.Context, shops []*shop) (differences []string, err error) {
	bucket, err := w.js.KeyValue(ctx, "shops-status")
	if err != nil {
		return nil, err
	}
	lister, err := bucket.ListKeys(ctx)
	if err != nil {
		return nil, err
	}
	records := map[string]bool{}
	for key := range lister.Keys() {
		switch {
		case !strings.HasPrefix(key, entity.ReservedPrefix):
			records[key] = true
		case strings.HasPrefix(key, entity.ReservedPrefix+".intents."):
			kept, err := bucket.Get(ctx, key)
			name := strings.TrimPrefix(key, entity.ReservedPrefix+".intents.")
			switch {
			case err == nil && strings.Contains(string(kept.Value()), `"intent"`):
				differences = append(differences, "an intent is open: "+key)
			case err == nil && !slices.ContainsFunc(shops, func(s *shop) bool { return s.Name == name }):
				differences = append(differences, fmt.Sprintf("%s has no shop", key))
			}
		}
	}
	for _, s := range shops {
		delete(records, s.Name)
		record, err := w.shops.Record(ctx, s.Name)
		switch {
		case apierrors.IsNotFound(err):
			differences = append(differences, fmt.Sprintf("shop %s has no record", s.Name))
		case err != nil:
			return nil, err
		case fmt.Sprint(record.ObservedRevision) != s.ResourceVersion || s.Status.Text != s.Spec.Text:
			differences = append(differences, fmt.Sprintf(
				"shop %s is at revision %s, its record at %d, its status %q",
				s.Name, s.ResourceVersion, record.ObservedRevision, s.Status.Text))
		}
	}
	for key := range maps.Keys(records) {
		differences = append(differences, fmt.Sprintf("record %s has no shop", key))
	}
	return differences, nil
}
