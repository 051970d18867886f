package replica

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/nagi-runtime/nagi/external"
)

// disk is a resource behind the API.
type disk struct {
	ID       string `json:"id"`
	Owner    string `json:"owner"`
	Instance string `json:"instance"`
	Size     int    `json:"size"`
	Token    string `json:"token"`
}

type diskSpec struct {
	Size int `json:"size"`
}

// diskOptions are for an API that shows its changes at once.
var diskOptions = []external.Option{external.Settle(0), external.PollInterval(50 * time.Millisecond)}

// disks drives the disks behind an API that makes one disk for each token. The token is in the stored intent, so a
// replica that does not understand the intent makes a second disk.
type disks struct{ url string }

func (d disks) Kind() string { return "Disk" }

// Observe implements external.Driver.
func (d disks) Observe(ctx context.Context, target external.Target) (external.Observation[disk], error) {
	query := url.Values{"instance": {target.Owner.Instance}, "owner": {target.Owner.Key}}
	var found []disk
	if err := d.call(ctx, http.MethodGet, "/disks?"+query.Encode(), nil, &found); err != nil {
		return external.Observation[disk]{}, err
	}
	if len(found) == 0 {
		return external.Absent[disk](), nil
	}
	return external.Exists(found[0]), nil
}

// Diff implements external.Driver.
func (d disks) Diff(desired diskSpec, observed disk) []external.Change {
	if desired.Size == observed.Size {
		return nil
	}
	return []external.Change{{Field: "size", From: strconv.Itoa(observed.Size), To: strconv.Itoa(desired.Size)}}
}

// Apply implements external.Driver.
func (d disks) Apply(ctx context.Context, request external.ApplyRequest[diskSpec, disk]) (external.Outcome, error) {
	wanted := disk{
		Owner: request.Owner.Key, Instance: request.Owner.Instance, Size: request.Desired.Size, Token: request.Token,
	}
	method, path := http.MethodPost, "/disks"
	if request.Observed != nil {
		method, path = http.MethodPut, "/disks/"+request.Observed.ID
	}
	var answer struct {
		Operation string `json:"operation"`
	}
	err := d.call(ctx, method, path, wanted, &answer)
	if err != nil || answer.Operation == "" {
		return external.Done(), err
	}
	return external.Started(answer.Operation, 0), nil
}

// Delete implements external.Driver.
func (d disks) Delete(ctx context.Context, request external.DeleteRequest[disk]) (external.Outcome, error) {
	return external.Done(), d.remove(ctx, request.Observed.ID)
}

// Poll implements external.Poller.
func (d disks) Poll(ctx context.Context, _ external.Target, operation string) (external.Progress, error) {
	var progress struct {
		Over bool `json:"over"`
	}
	err := d.call(ctx, http.MethodGet, "/operations/"+operation, nil, &progress)
	return external.Progress{Over: progress.Over}, err
}

func (d disks) remove(ctx context.Context, id string) error {
	return d.call(ctx, http.MethodDelete, "/disks/"+id, nil, nil)
}

func (d disks) call(ctx context.Context, method, path string, body, into any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, d.url+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, path, response.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// diskClient lists and deletes the disks of an installation.
type diskClient struct{ disks }

// List implements external.IExternalClient.
func (d diskClient) List(ctx context.Context) ([]external.Resource, error) {
	var found []disk
	query := url.Values{"instance": {external.InstanceOf(ctx)}}
	if err := d.call(ctx, http.MethodGet, "/disks?"+query.Encode(), nil, &found); err != nil {
		return nil, err
	}
	resources := make([]external.Resource, len(found))
	for i, one := range found {
		resources[i] = external.Resource{ID: one.ID, OwnerKey: one.Owner, Version: strconv.Itoa(one.Size)}
	}
	return resources, nil
}

// Delete implements external.IExternalClient.
func (d diskClient) Delete(ctx context.Context, id string) error { return d.remove(ctx, id) }

// callTimeout is long enough for a test to see that a replica waits for a call that may still be under way.
const callTimeout = 5 * time.Second

// client lists often, so that nothing waits for long.
func (r *replica) client() external.IExternalClient {
	return external.Configure(diskClient{r.disks}, external.Config{
		Interval: 200 * time.Millisecond, Timeout: callTimeout,
		BackoffMin: 50 * time.Millisecond, BackoffMax: 500 * time.Millisecond,
	})
}
