// Package cloudtest has an API like that of a disk provider, a driver for it, and a client whose list a test gives.
package cloudtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Cloud is an HTTP API with disks behind it, like a provider's. It gives ids and knows idempotency tokens. It may be
// away, be slow, show writes late, and do changes as operations that take time. The test may read and set its state.
type Cloud struct {
	Server *httptest.Server

	Mu         sync.Mutex
	disks      map[string]*Disk
	Tokens     map[string]Answer // the answer to each token
	Operations map[string]*Operation
	next       int
	calls      map[string]int // by method and kind of path
	Created    map[string]int // how often a disk was created, by owner and name
	Doubles    []string       // owners and names that had a disk when another was created

	Status int                                    // answered to every call; 0: works
	hangUp bool                                   // every connection is closed without an answer
	Fault  func(call string, r *http.Request) int // returns a status, or 0; called before anything is done
	Lag    time.Duration                          // how late lists and finds show a new disk
	Unseen bool                                   // lists and finds show no disk
	Async  bool                                   // changes are operations, which Finish ends
	Stage  func(stage, call, owner string)        // called with "before" and "after" around each call; may block
}

// Disk is a disk, as the API shows it.
type Disk struct {
	ID       string `json:"id"`
	Owner    string `json:"owner"`
	Instance string `json:"instance"`
	Name     string `json:"name"`
	Size     int    `json:"size"`
	Version  int    `json:"version"`
	Token    string `json:"token"`
	shows    time.Time
}

// Answer is what was answered to a call with a token, and is again.
type Answer struct {
	status int
	body   any
}

// Operation is a change under way. Do makes it when it ends well.
type Operation struct {
	ID    string `json:"operation"`
	Over  bool   `json:"over"`
	Error string `json:"error"`
	Disk  Disk   `json:"-"`
	Do    func() `json:"-"`
}

// New starts the API. It ends with the test. Drivers of this process reach it, in virtual time too (natstest.Test).
func New(t *testing.T) *Cloud {
	c := &Cloud{
		disks: map[string]*Disk{}, Tokens: map[string]Answer{}, Operations: map[string]*Operation{},
		calls: map[string]int{}, Created: map[string]int{},
	}
	c.Server = &httptest.Server{Listener: listen(), Config: &http.Server{Handler: c}}
	c.Server.Start()
	t.Cleanup(c.Server.Close)
	return c
}

// Set changes how the API behaves.
func (c *Cloud) Set(f func(c *Cloud)) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	f(c)
}

// ServeHTTP answers, unless a fault is set.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := r.Method + " " + strings.Split(r.URL.Path, "/")[1]
	c.Mu.Lock()
	c.calls[call]++
	status, hangUp, fault, stage := c.Status, c.hangUp, c.Fault, c.Stage
	c.Mu.Unlock()
	if hangUp {
		panic(http.ErrAbortHandler)
	}
	if status == 0 && fault != nil {
		status = fault(call, r)
	}
	if status != 0 {
		http.Error(w, "as the test wishes", status)
		return
	}
	var sent Disk
	if r.Method == http.MethodPost || r.Method == http.MethodPut {
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	owner := c.ownerOf(r, sent)
	if stage != nil {
		stage("before", call, owner)
	}
	c.Mu.Lock()
	answer := c.answer(call, r, sent)
	c.Mu.Unlock()
	if stage != nil {
		stage("after", call, owner)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.status)
	if answer.body != nil {
		_ = json.NewEncoder(w).Encode(answer.body)
	}
}

// ownerOf returns the owner of the disk that a call is about.
func (c *Cloud) ownerOf(r *http.Request, sent Disk) string {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	id := lastOf(r.URL.Path)
	switch {
	case sent.Owner != "":
		return sent.Owner
	case c.disks[id] != nil:
		return c.disks[id].Owner
	case c.Operations[id] != nil:
		return c.Operations[id].Disk.Owner
	}
	return r.URL.Query().Get("owner")
}

func lastOf(path string) string { return path[strings.LastIndex(path, "/")+1:] }

func (c *Cloud) answer(call string, r *http.Request, sent Disk) Answer {
	id := lastOf(r.URL.Path)
	switch call {
	case "GET disks":
		return Answer{http.StatusOK, c.list(r.URL.Query().Get("instance"))}
	case "GET find":
		return c.find(r.URL.Query().Get("instance"), r.URL.Query().Get("owner"), r.URL.Query().Get("name"))
	case "POST disks":
		return c.change(sent.Token, sent, func() { c.Create(sent) })
	case "PUT disks":
		disk, ok := c.disks[id]
		if !ok {
			return Answer{http.StatusNotFound, nil}
		}
		return c.change(sent.Token, *disk, func() { disk.Size, disk.Version = sent.Size, disk.Version+1 })
	case "DELETE disks":
		disk, ok := c.disks[id]
		if !ok {
			return Answer{http.StatusNotFound, nil}
		}
		return c.change(r.URL.Query().Get("token"), *disk, func() { delete(c.disks, id) })
	case "GET operations":
		if operation, ok := c.Operations[id]; ok {
			return Answer{http.StatusOK, *operation}
		}
	}
	return Answer{http.StatusNotFound, nil}
}

// change does something once for each token, now or as an operation.
func (c *Cloud) change(token string, disk Disk, do func()) Answer {
	if answer, ok := c.Tokens[token]; ok && token != "" {
		return answer
	}
	answer := Answer{http.StatusOK, nil}
	if c.Async {
		c.next++
		operation := &Operation{ID: "op-" + strconv.Itoa(c.next), Disk: disk, Do: do}
		c.Operations[operation.ID] = operation
		answer = Answer{http.StatusAccepted, map[string]string{"operation": operation.ID}}
	} else {
		do()
	}
	c.Tokens[token] = answer
	return answer
}

// Create makes a disk, and notes in Doubles if its owner had one of that name. The caller holds Mu.
func (c *Cloud) Create(disk Disk) {
	for _, other := range c.disks {
		if other.Owner == disk.Owner && other.Name == disk.Name && other.Instance == disk.Instance {
			c.Doubles = append(c.Doubles, disk.Owner+"/"+disk.Name)
		}
	}
	c.next++
	disk.ID, disk.Version, disk.shows = "disk-"+strconv.Itoa(c.next), 1, time.Now().Add(c.Lag)
	c.disks[disk.ID] = &disk
	c.Created[disk.Owner+"/"+disk.Name]++
}

func (c *Cloud) list(instance string) []Disk {
	list := []Disk{}
	for _, disk := range c.disks {
		if !c.Unseen && disk.Instance == instance && !time.Now().Before(disk.shows) {
			list = append(list, *disk)
		}
	}
	return list
}

// find answers 409 while an operation is under way.
func (c *Cloud) find(instance, owner, name string) Answer {
	for _, operation := range c.Operations {
		d := operation.Disk
		if !operation.Over && d.Instance == instance && d.Owner == owner && d.Name == name {
			return Answer{http.StatusConflict, map[string]string{"operation": operation.ID}}
		}
	}
	for _, disk := range c.list(instance) {
		if disk.Owner == owner && disk.Name == name {
			return Answer{http.StatusOK, disk}
		}
	}
	return Answer{http.StatusNotFound, nil}
}

// UnderWay returns how many operations go on. An operation begins a little later than Called counts its call.
func (c *Cloud) UnderWay() (n int) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	for _, operation := range c.Operations {
		if !operation.Over {
			n++
		}
	}
	return n
}

// Finish ends all operations that go on. failure is the reason why they fail, or "".
func (c *Cloud) Finish(failure string) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	for _, operation := range c.Operations {
		if operation.Over {
			continue
		}
		operation.Over, operation.Error = true, failure
		if failure == "" {
			operation.Do()
		}
	}
}

// Of returns the disks of an owner, as "name=size", sorted.
func (c *Cloud) Of(owner string) string {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	var found []string
	for _, disk := range c.disks {
		if disk.Owner == owner {
			found = append(found, fmt.Sprintf("%s=%d", disk.Name, disk.Size))
		}
	}
	slices.Sort(found)
	return strings.Join(found, " ")
}

// Count returns how many disks there are.
func (c *Cloud) Count() int {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return len(c.disks)
}

// Called counts calls, such as "GET disks".
func (c *Cloud) Called(call string) int {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.calls[call]
}

// CreatedFor returns how often the disk without a name was created for an owner.
func (c *Cloud) CreatedFor(owner string) int {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.Created[owner+"/"]
}

// Edit changes the disks of an owner, as somebody does by hand.
func (c *Cloud) Edit(owner string, change func(d *Disk)) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	for _, disk := range c.disks {
		if disk.Owner == owner {
			change(disk)
			disk.Version++
		}
	}
}

// Remove deletes the disks of an owner, as somebody does by hand.
func (c *Cloud) Remove(owner string) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	for id, disk := range c.disks {
		if disk.Owner == owner {
			delete(c.disks, id)
		}
	}
}

// Add makes a disk without the controller.
func (c *Cloud) Add(disk Disk) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.Create(disk)
}

// GoAway makes the API answer 503, or with hangUp not at all, until ComeBack.
func (c *Cloud) GoAway(hangUp bool) {
	c.Set(func(c *Cloud) {
		c.hangUp = hangUp
		if !hangUp {
			c.Status = http.StatusServiceUnavailable
		}
	})
}

// ComeBack ends GoAway, and any other Status.
func (c *Cloud) ComeBack() { c.Set(func(c *Cloud) { c.hangUp, c.Status = false, 0 }) }

// Failing makes calls such as "POST disks" fail with a status; the status may change or be 0.
func (c *Cloud) Failing(call string, status int) *atomic.Int64 {
	var now atomic.Int64
	now.Store(int64(status))
	c.Set(func(c *Cloud) {
		c.Fault = func(made string, _ *http.Request) int {
			if made == call {
				return int(now.Load())
			}
			return 0
		}
	})
	return &now
}

// Hidden returns a switch. While it is set, finds answer that there is nothing.
func (c *Cloud) Hidden() *atomic.Bool {
	var hides atomic.Bool
	c.Set(func(c *Cloud) {
		c.Fault = func(call string, _ *http.Request) int {
			if call == "GET find" && hides.Load() {
				return http.StatusNotFound
			}
			return 0
		}
	})
	return &hides
}

// Made returns how many disks were ever created.
func (c *Cloud) Made() int {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	n := 0
	for _, created := range c.Created {
		n += created
	}
	return n
}

// Opaque makes the API do changes as operations that can be found only by their handles.
func (c *Cloud) Opaque() {
	c.Set(func(c *Cloud) {
		c.Async = true
		c.Fault = func(call string, _ *http.Request) int {
			c.Mu.Lock()
			defer c.Mu.Unlock()
			if call == "GET find" && len(c.disks) == 0 {
				return http.StatusNotFound
			}
			return 0
		}
	})
}
