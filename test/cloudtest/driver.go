package cloudtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/nagi-runtime/nagi/external"
)

// Driver drives the disks of a cloud.
type Driver struct {
	url  string
	HTTP *http.Client
}

// Spec is what a primary wants of a disk.
type Spec struct {
	Size int `json:"size"`
}

// NewDriver drives the disks of the API at url.
func NewDriver(url string) *Driver {
	return &Driver{url: url, HTTP: &http.Client{Transport: &http.Transport{DialContext: dial}}}
}

// Kind implements external.IExternalClient.
func (d *Driver) Kind() string { return "Disk" }

// Observe implements external.Driver.
func (d *Driver) Observe(ctx context.Context, target external.Target) (external.Observation[Disk], error) {
	query := url.Values{"instance": {target.Owner.Instance}, "owner": {target.Owner.Key}, "name": {target.Name}}
	var found struct {
		Disk
		Operation string `json:"operation"`
	}
	status, err := d.call(ctx, http.MethodGet, "/find?"+query.Encode(), nil, &found)
	switch {
	case status == http.StatusNotFound:
		return external.Absent[Disk](), nil
	case status == http.StatusConflict:
		return external.Busy[Disk](found.Operation), nil
	case status == http.StatusTeapot:
		return external.Unknown[Disk]("the API is a teapot"), nil
	}
	return external.Exists(found.Disk), err
}

// Diff implements external.Driver.
func (d *Driver) Diff(desired Spec, observed Disk) []external.Change {
	if desired.Size == observed.Size {
		return nil
	}
	return []external.Change{{Field: "size", From: strconv.Itoa(observed.Size), To: strconv.Itoa(desired.Size)}}
}

// Apply implements external.Driver.
func (d *Driver) Apply(ctx context.Context, req external.ApplyRequest[Spec, Disk]) (external.Outcome, error) {
	disk := Disk{
		Owner: req.Owner.Key, Instance: req.Owner.Instance,
		Name: req.Name, Size: req.Desired.Size, Token: req.Token,
	}
	if req.Observed == nil {
		return d.change(ctx, http.MethodPost, "/disks", disk)
	}
	return d.change(ctx, http.MethodPut, "/disks/"+req.Observed.ID, disk)
}

// Delete implements external.Driver.
func (d *Driver) Delete(ctx context.Context, req external.DeleteRequest[Disk]) (external.Outcome, error) {
	return d.change(ctx, http.MethodDelete, "/disks/"+req.Observed.ID+"?token="+req.Token, nil)
}

// Poll implements external.Poller.
func (d *Driver) Poll(ctx context.Context, _ external.Target, operation string) (external.Progress, error) {
	var state Operation
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

func (d *Driver) change(ctx context.Context, method, path string, body any) (external.Outcome, error) {
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

// call makes one request. A status of 300 or more is an error too.
func (d *Driver) call(ctx context.Context, method, path string, body, into any) (int, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, method, d.url+path, bytes.NewReader(data))
	if err != nil {
		return 0, err
	}
	response, err := d.HTTP.Do(request)
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

// Client lists and deletes the disks of an installation.
type Client struct{ *Driver }

// List implements external.IExternalClient.
func (d Client) List(ctx context.Context) ([]external.Resource, error) {
	var disks []Disk
	path := "/disks?instance=" + url.QueryEscape(external.InstanceOf(ctx))
	if _, err := d.call(ctx, http.MethodGet, path, nil, &disks); err != nil {
		return nil, err
	}
	resources := make([]external.Resource, len(disks))
	for i, disk := range disks {
		resources[i] = external.Resource{ID: disk.ID, OwnerKey: disk.Owner, Version: strconv.Itoa(disk.Version)}
	}
	return resources, nil
}

// Delete implements external.IExternalClient.
func (d Client) Delete(ctx context.Context, id string) error {
	_, err := d.change(ctx, http.MethodDelete, "/disks/"+id, nil)
	return err
}
