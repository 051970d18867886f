package controllerruntime

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/record"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// diskDriver drives the disks of a cloud.
type diskDriver struct {
	url  string
	http *http.Client
}

type diskSpec struct {
	Size int `json:"size"`
}

func newDiskDriver(url string) *diskDriver {
	return &diskDriver{url: url, http: &http.Client{Transport: &http.Transport{}}}
}

func (d *diskDriver) Kind() string { return "Disk" }

func (d *diskDriver) Observe(ctx context.Context, target external.Target) (external.Observation[cloudDisk], error) {
	query := url.Values{"instance": {target.Owner.Instance}, "owner": {target.Owner.Key}, "name": {target.Name}}
	var found struct {
		cloudDisk
		Operation string `json:"operation"`
	}
	status, err := d.call(ctx, http.MethodGet, "/find?"+query.Encode(), nil, &found)
	switch {
	case status == http.StatusNotFound:
		return external.Absent[cloudDisk](), nil
	case status == http.StatusConflict:
		return external.Busy[cloudDisk](found.Operation), nil
	case status == http.StatusTeapot:
		return external.Unknown[cloudDisk]("the API is a teapot"), nil
	}
	return external.Exists(found.cloudDisk), err
}

func (d *diskDriver) Diff(desired diskSpec, observed cloudDisk) []external.Change {
	if desired.Size == observed.Size {
		return nil
	}
	return []external.Change{{Field: "size", From: strconv.Itoa(observed.Size), To: strconv.Itoa(desired.Size)}}
}

func (d *diskDriver) Apply(ctx context.Context, req external.ApplyRequest[diskSpec, cloudDisk]) (external.Outcome, error) {
	disk := cloudDisk{Owner: req.Owner.Key, Instance: req.Owner.Instance, Name: req.Name, Size: req.Desired.Size, Token: req.Token}
	if req.Observed == nil {
		return d.change(ctx, http.MethodPost, "/disks", disk)
	}
	return d.change(ctx, http.MethodPut, "/disks/"+req.Observed.ID, disk)
}

func (d *diskDriver) Delete(ctx context.Context, req external.DeleteRequest[cloudDisk]) (external.Outcome, error) {
	return d.change(ctx, http.MethodDelete, "/disks/"+req.Observed.ID+"?token="+req.Token, nil)
}

func (d *diskDriver) Poll(ctx context.Context, _ external.Target, operation string) (external.Progress, error) {
	var state cloudOperation
	status, err := d.call(ctx, http.MethodGet, "/operations/"+operation, nil, &state)
	if status == http.StatusNotFound {
		return external.Progress{}, fmt.Errorf("%w: %w", external.ErrNoOperation, err)
	}
	if err != nil {
		return external.Progress{}, err
	}
	progress := external.Progress{Over: state.Over}
	if state.Error != "" {
		progress.Err = fmt.Errorf("the cloud says: %s", state.Error)
	}
	return progress, nil
}

func (d *diskDriver) change(ctx context.Context, method, path string, body any) (external.Outcome, error) {
	var answer struct {
		Operation string `json:"operation"`
	}
	status, err := d.call(ctx, method, path, body, &answer)
	switch {
	case status == http.StatusNotFound && method == http.MethodDelete:
		return external.Done(), nil
	case status == http.StatusUnprocessableEntity:
		return external.Outcome{}, external.Refused(err)
	case err != nil:
		return external.Outcome{}, err
	case answer.Operation != "":
		return external.Started(answer.Operation, 0), nil
	}
	return external.Done(), nil
}

// call makes one request; a status that is no success is an error too.
func (d *diskDriver) call(ctx context.Context, method, path string, body, into any) (int, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, method, d.url+path, bytes.NewReader(data))
	if err != nil {
		return 0, err
	}
	response, err := d.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusServiceUnavailable {
		return response.StatusCode, external.Unavailable(fmt.Errorf("%s %s: %s", method, path, response.Status))
	}
	if response.ContentLength != 0 && response.Header.Get("Content-Type") == "application/json" {
		if err := json.NewDecoder(response.Body).Decode(into); err != nil {
			return response.StatusCode, fmt.Errorf("%s %s: %s: %w", method, path, response.Status, err)
		}
	}
	if response.StatusCode >= 300 {
		return response.StatusCode, fmt.Errorf("%s %s: %s", method, path, response.Status)
	}
	return response.StatusCode, nil
}

// diskClient lists and deletes the disks of an installation.
type diskClient struct{ *diskDriver }

func (d diskClient) List(ctx context.Context) ([]external.Resource, error) {
	var disks []cloudDisk
	if _, err := d.call(ctx, http.MethodGet, "/disks?instance="+url.QueryEscape(external.InstanceOf(ctx)), nil, &disks); err != nil {
		return nil, err
	}
	resources := make([]external.Resource, len(disks))
	for i, disk := range disks {
		resources[i] = external.Resource{ID: disk.ID, OwnerKey: disk.Owner, Version: strconv.Itoa(disk.Version)}
	}
	return resources, nil
}

func (d diskClient) Delete(ctx context.Context, id string) error {
	_, err := d.change(ctx, http.MethodDelete, "/disks/"+id, nil)
	return err
}

// disksOf reconciles a site to a disk of spec.pages, and none for 0 or less.
func disksOf(sites *entity.Client[*site], driver *diskDriver, opts ...external.Option) ReconcilerFunc {
	return func(ctx context.Context, req Request) (Result, error) {
		s, err := sites.Lister().Get(req.Key)
		if err != nil && !apierrors.IsNotFound(err) {
			return Result{}, err
		}
		var result external.Result[cloudDisk]
		if err != nil || s.Spec.Pages <= 0 {
			result, err = external.ReconcileAbsent(ctx, driver, opts...)
		} else {
			result, err = external.Reconcile(ctx, driver, diskSpec{Size: s.Spec.Pages}, opts...)
		}
		return Result{RequeueAfter: result.RequeueAfter}, err
	}
}

// cloudWorld is a controller of sites that own disks.
type cloudWorld struct {
	*world
	cloud  *cloud
	sites  *entity.Client[*site]
	driver *diskDriver
	config external.Config
	seen   calls
	c      *Controller[*site]
}

// quick makes an external client quick enough for tests.
var quick = external.Config{Interval: 20 * time.Millisecond, Timeout: 5 * time.Second, BackoffMin: 20 * time.Millisecond, BackoffMax: 100 * time.Millisecond}

// newCloudWorld makes a controller that reconcile makes; nil is disksOf.
func newCloudWorld(t *testing.T, config external.Config, reconcile func(*cloudWorld) ReconcilerFunc, opts ...Option) *cloudWorld {
	t.Helper()
	w := &cloudWorld{world: newWorld(t), cloud: newCloud(t), config: config}
	w.sites = w.world.sites()
	w.driver = newDiskDriver(w.cloud.server.URL)
	t.Cleanup(w.driver.http.CloseIdleConnections)
	w.controller(reconcile, opts...)
	return w
}

// controller makes a new one, as a new process would.
func (w *cloudWorld) controller(reconcile func(*cloudWorld) ReconcilerFunc, opts ...Option) {
	w.t.Helper()
	if reconcile == nil {
		reconcile = func(w *cloudWorld) ReconcilerFunc { return disksOf(w.sites, w.driver, quickly...) }
	}
	c, err := New("sites", w.sites, w.seen.reconciler(reconcile(w)),
		append([]Option{OwnsExternal(external.Configure(diskClient{w.driver}, w.config)), WithBackoff(5*time.Millisecond, 50*time.Millisecond)}, opts...)...)
	must(w.t, err)
	w.c = c
}

// quickly makes external.Reconcile quick enough for tests.
var quickly = []external.Option{external.Settle(500 * time.Millisecond), external.PollInterval(10 * time.Millisecond)}

func sized(name string, pages int) *site {
	s := newSite(name, "")
	s.Spec.Pages = pages
	return s
}

// resize sets how large the disk of a site has to be.
func (w *cloudWorld) resize(name string, pages int) {
	w.t.Helper()
	must(w.t, w.sites.Patch(w.t.Context(), name, fmt.Appendf(nil, `{"spec":{"pages":%d}}`, pages)))
}

// reconciled tells whether the site's Reconciled condition is True for its present document.
func (w *cloudWorld) reconciled(name string) bool {
	record, err := w.sites.Record(w.t.Context(), name)
	if err != nil {
		return false
	}
	s, err := w.sites.Get(w.t.Context(), name)
	return err == nil && strconv.FormatUint(record.ObservedRevision, 10) == s.ResourceVersion && reasonOf(record) == entity.ReasonSynced
}

func reasonOf(record *entity.Record) string {
	if c := meta.FindStatusCondition(record.Conditions, entity.ConditionReconciled); c != nil {
		return c.Reason
	}
	return ""
}

// condition returns the message of a site's condition, if it has this reason.
func (w *cloudWorld) condition(name, reason string) string {
	record, err := w.sites.Record(w.t.Context(), name)
	if err != nil || reasonOf(record) != reason {
		return ""
	}
	return meta.FindStatusCondition(record.Conditions, entity.ConditionReconciled).Message
}

// intents returns the reserved key of what is open for a site; "" if nothing is.
func (w *cloudWorld) intents(name string) string {
	data, _, err := w.sites.Records().GetReserved(w.t.Context(), record.IntentsKey(name))
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return string(data)
}

// gone tells whether neither record nor intents of a site are left.
func (w *cloudWorld) gone(name string) bool {
	_, err := w.sites.Record(w.t.Context(), name)
	return apierrors.IsNotFound(err) && w.intents(name) == ""
}

// sleep reports whether ctx has outlived the pause.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
