package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/external"
)

// machine is a resource behind the API.
type machine struct {
	ID       string `json:"id"`
	Owner    string `json:"owner"`
	Instance string `json:"instance"`
	Text     string `json:"text"`
	Version  int    `json:"version"`
}

// cloud is an API that makes a new machine at each POST, unless it knows the token. It outlives every controller.
type cloud struct {
	server *httptest.Server

	mu       sync.Mutex
	down     bool
	next     int
	machines map[string]*machine
	tokens   map[string]string // token to id
	twice    []string          // owners with two machines, which must never be
	writes   int
}

func startCloud(t *testing.T) *cloud {
	c := &cloud{machines: map[string]*machine{}, tokens: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /machines", c.serve(c.list))
	mux.HandleFunc("POST /machines", c.serve(c.create))
	mux.HandleFunc("PUT /machines/{id}", c.serve(c.update))
	mux.HandleFunc("DELETE /machines/{id}", c.serve(c.delete))
	c.server = httptest.NewServer(mux)
	t.Cleanup(c.server.Close)
	return c
}

// serve answers 503 while the API is down.
func (c *cloud) serve(f func(r *http.Request) (any, int)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.down {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		answer, code := f(r)
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(answer) // it fails only when the client is gone
	}
}

func (c *cloud) list(r *http.Request) (any, int) {
	owner := r.URL.Query().Get("owner")
	found := []machine{}
	for _, m := range c.machines {
		if owner == "" || m.Owner == owner {
			found = append(found, *m)
		}
	}
	return found, http.StatusOK
}

func (c *cloud) create(r *http.Request) (any, int) {
	var m machine
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		return nil, http.StatusBadRequest
	}
	token := r.Header.Get("Idempotency-Key")
	if id, known := c.tokens[token]; known {
		return c.machines[id], http.StatusOK // null if it has been deleted since
	}
	for _, other := range c.machines {
		if other.Owner == m.Owner {
			c.twice = append(c.twice, m.Owner)
		}
	}
	c.next++
	c.writes++
	m.ID, m.Version = "m-"+strconv.Itoa(c.next), 1
	c.machines[m.ID], c.tokens[token] = &m, m.ID
	return m, http.StatusCreated
}

func (c *cloud) update(r *http.Request) (any, int) {
	m, ok := c.machines[r.PathValue("id")]
	if !ok {
		return nil, http.StatusNotFound
	}
	var change machine
	if err := json.NewDecoder(r.Body).Decode(&change); err != nil {
		return nil, http.StatusBadRequest
	}
	c.writes++
	m.Text = change.Text
	m.Version++
	return m, http.StatusOK
}

func (c *cloud) delete(r *http.Request) (any, int) {
	if _, ok := c.machines[r.PathValue("id")]; !ok {
		return nil, http.StatusNotFound
	}
	c.writes++
	delete(c.machines, r.PathValue("id"))
	return nil, http.StatusOK
}

func (c *cloud) setDown(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

// vandalise changes or deletes the machine of an owner.
func (c *cloud) vandalise(owner string, remove bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, m := range c.machines {
		if m.Owner != owner {
			continue
		}
		if remove {
			delete(c.machines, id)
			return
		}
		m.Text = "vandalised"
		m.Version++
		return
	}
}

// texts returns the machines' texts by owner.
func (c *cloud) texts() (texts map[string]string, twice []string, writes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	texts = map[string]string{}
	for _, m := range c.machines {
		if _, second := texts[m.Owner]; second {
			c.twice = append(c.twice, m.Owner)
		}
		texts[m.Owner] = m.Text
	}
	return texts, append([]string(nil), c.twice...), c.writes
}

// api is the client of the API, in the controller.
type api struct{ url string }

func (a api) Kind() string { return "Machine" }

func (a api) call(ctx context.Context, method, path, token string, body, into any) (int, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, method, a.url+path, bytes.NewReader(data))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Idempotency-Key", token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusServiceUnavailable {
		return response.StatusCode, external.Unavailable(fmt.Errorf("%s %s: %s", method, path, response.Status))
	}
	if into == nil || response.StatusCode >= http.StatusBadRequest {
		return response.StatusCode, nil
	}
	return response.StatusCode, json.NewDecoder(response.Body).Decode(into)
}

func (a api) machines(ctx context.Context, owner string) (found []machine, err error) {
	code, err := a.call(ctx, http.MethodGet, "/machines?owner="+url.QueryEscape(owner), "", nil, &found)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("list machines: status %d", code)
	}
	return found, err
}

func (a api) List(ctx context.Context) ([]external.Resource, error) {
	found, err := a.machines(ctx, "")
	resources := make([]external.Resource, 0, len(found))
	for _, m := range found {
		resources = append(resources, external.Resource{ID: m.ID, OwnerKey: m.Owner, Version: strconv.Itoa(m.Version)})
	}
	return resources, err
}

func (a api) Delete(ctx context.Context, id string) error {
	code, err := a.call(ctx, http.MethodDelete, "/machines/"+id, "", nil, nil)
	if err == nil && code != http.StatusOK && code != http.StatusNotFound {
		err = fmt.Errorf("delete machine %s: status %d", id, code)
	}
	return err
}

// driver reconciles one machine.
type driver struct{ api api }

func (d driver) Kind() string { return d.api.Kind() }

func (d driver) Observe(ctx context.Context, target external.Target) (external.Observation[machine], error) {
	found, err := d.api.machines(ctx, target.Owner.Key)
	switch {
	case err != nil:
		return external.Observation[machine]{}, err
	case len(found) == 0:
		return external.Absent[machine](), nil
	}
	return external.Exists(found[0]), nil
}

func (d driver) Diff(desired string, observed machine) []external.Change {
	if desired == observed.Text {
		return nil
	}
	return []external.Change{{Field: "text", From: observed.Text, To: desired}}
}

func (d driver) Apply(ctx context.Context, request external.ApplyRequest[string, machine]) (external.Outcome, error) {
	method, path := http.MethodPost, "/machines"
	if request.Observed != nil {
		method, path = http.MethodPut, "/machines/"+request.Observed.ID
	}
	wanted := machine{Owner: request.Owner.Key, Instance: request.Owner.Instance, Text: request.Desired}
	code, err := d.api.call(ctx, method, path, request.Token, wanted, nil)
	if err == nil && code >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: status %d", method, path, code)
	}
	return external.Done(), err
}

func (d driver) Delete(ctx context.Context, request external.DeleteRequest[machine]) (external.Outcome, error) {
	return external.Done(), d.api.Delete(ctx, request.Observed.ID)
}

// cloudConfig lists often, so that the controller soon finds a vandal's changes behind the API.
var cloudConfig = external.Config{
	Interval: 500 * time.Millisecond, BackoffMin: 50 * time.Millisecond, BackoffMax: time.Second,
	Timeout: 5 * time.Second,
}
