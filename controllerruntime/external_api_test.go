package controllerruntime

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// cloud is an API over HTTP with disks behind it, as providers have them: it gives ids, knows idempotency tokens, may be away,
// slow, late in showing what was written, and may do things as operations that take their time. Its state is the test's.
type cloud struct {
	server *httptest.Server

	mu         sync.Mutex
	disks      map[string]*cloudDisk
	tokens     map[string]cloudAnswer // what was answered to a token
	operations map[string]*cloudOperation
	next       int
	calls      map[string]int // by method and kind of path
	created    map[string]int // how often a disk was created, by owner and name
	doubles    []string       // owners and names that had a disk when another was created

	status int                                    // answered to every call; 0: works
	hangUp bool                                   // every connection is closed without an answer
	fault  func(call string, r *http.Request) int // a status, or 0; called before anything is done
	lag    time.Duration                          // how late lists and finds show what was created
	async  bool                                   // changes are operations, until finish is called
	stage  func(stage, call, owner string)        // told "before" and "after" a call is carried out; may block
}

type cloudDisk struct {
	ID       string `json:"id"`
	Owner    string `json:"owner"`
	Instance string `json:"instance"`
	Name     string `json:"name"`
	Size     int    `json:"size"`
	Version  int    `json:"version"`
	Token    string `json:"token"`
	shows    time.Time
}

type cloudAnswer struct {
	status int
	body   any
}

type cloudOperation struct {
	ID    string `json:"operation"`
	Over  bool   `json:"over"`
	Error string `json:"error"`
	disk  cloudDisk
	do    func()
}

func newCloud(t *testing.T) *cloud {
	c := &cloud{
		disks: map[string]*cloudDisk{}, tokens: map[string]cloudAnswer{}, operations: map[string]*cloudOperation{},
		calls: map[string]int{}, created: map[string]int{},
	}
	c.server = httptest.NewServer(c)
	t.Cleanup(c.server.Close)
	return c
}

// set changes how the API behaves.
func (c *cloud) set(f func(c *cloud)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}

// ServeHTTP answers, unless a fault is set.
func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := r.Method + " " + strings.Split(r.URL.Path, "/")[1]
	c.mu.Lock()
	c.calls[call]++
	status, hangUp, fault, stage := c.status, c.hangUp, c.fault, c.stage
	c.mu.Unlock()
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
	var sent cloudDisk
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
	c.mu.Lock()
	answer := c.answer(call, r, sent)
	c.mu.Unlock()
	if stage != nil {
		stage("after", call, owner)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.status)
	if answer.body != nil {
		_ = json.NewEncoder(w).Encode(answer.body)
	}
}

// ownerOf is whose disk a call is about.
func (c *cloud) ownerOf(r *http.Request, sent cloudDisk) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := lastOf(r.URL.Path)
	switch {
	case sent.Owner != "":
		return sent.Owner
	case c.disks[id] != nil:
		return c.disks[id].Owner
	case c.operations[id] != nil:
		return c.operations[id].disk.Owner
	}
	return r.URL.Query().Get("owner")
}

func lastOf(path string) string { return path[strings.LastIndex(path, "/")+1:] }

func (c *cloud) answer(call string, r *http.Request, sent cloudDisk) cloudAnswer {
	id := lastOf(r.URL.Path)
	switch call {
	case "GET disks":
		return cloudAnswer{http.StatusOK, c.list(r.URL.Query().Get("instance"))}
	case "GET find":
		return c.find(r.URL.Query().Get("instance"), r.URL.Query().Get("owner"), r.URL.Query().Get("name"))
	case "POST disks":
		return c.change(sent.Token, sent, func() { c.create(sent) })
	case "PUT disks":
		disk, ok := c.disks[id]
		if !ok {
			return cloudAnswer{http.StatusNotFound, nil}
		}
		return c.change(sent.Token, *disk, func() { disk.Size, disk.Version = sent.Size, disk.Version+1 })
	case "DELETE disks":
		disk, ok := c.disks[id]
		if !ok {
			return cloudAnswer{http.StatusNotFound, nil}
		}
		return c.change(r.URL.Query().Get("token"), *disk, func() { delete(c.disks, id) })
	case "GET operations":
		if operation, ok := c.operations[id]; ok {
			return cloudAnswer{http.StatusOK, *operation}
		}
	}
	return cloudAnswer{http.StatusNotFound, nil}
}

// change does something once for each token, now or as an operation.
func (c *cloud) change(token string, disk cloudDisk, do func()) cloudAnswer {
	if answer, ok := c.tokens[token]; ok && token != "" {
		return answer
	}
	answer := cloudAnswer{http.StatusOK, nil}
	if c.async {
		c.next++
		operation := &cloudOperation{ID: "op-" + strconv.Itoa(c.next), disk: disk, do: do}
		c.operations[operation.ID] = operation
		answer = cloudAnswer{http.StatusAccepted, map[string]string{"operation": operation.ID}}
	} else {
		do()
	}
	c.tokens[token] = answer
	return answer
}

func (c *cloud) create(disk cloudDisk) {
	for _, other := range c.disks {
		if other.Owner == disk.Owner && other.Name == disk.Name && other.Instance == disk.Instance {
			c.doubles = append(c.doubles, disk.Owner+"/"+disk.Name)
		}
	}
	c.next++
	disk.ID, disk.Version, disk.shows = "disk-"+strconv.Itoa(c.next), 1, time.Now().Add(c.lag)
	c.disks[disk.ID] = &disk
	c.created[disk.Owner+"/"+disk.Name]++
}

func (c *cloud) list(instance string) []cloudDisk {
	list := []cloudDisk{}
	for _, disk := range c.disks {
		if disk.Instance == instance && time.Now().After(disk.shows) {
			list = append(list, *disk)
		}
	}
	return list
}

// find answers 409 while an operation is under way.
func (c *cloud) find(instance, owner, name string) cloudAnswer {
	for _, operation := range c.operations {
		d := operation.disk
		if !operation.Over && d.Instance == instance && d.Owner == owner && d.Name == name {
			return cloudAnswer{http.StatusConflict, map[string]string{"operation": operation.ID}}
		}
	}
	for _, disk := range c.list(instance) {
		if disk.Owner == owner && disk.Name == name {
			return cloudAnswer{http.StatusOK, disk}
		}
	}
	return cloudAnswer{http.StatusNotFound, nil}
}

// underWay is the number of operations that go on. A call is counted when it comes, and its operation begins a little later.
func (c *cloud) underWay() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, operation := range c.operations {
		if !operation.Over {
			n++
		}
	}
	return n
}

// finish ends all operations that go on; failure is "" or why they fail.
func (c *cloud) finish(failure string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, operation := range c.operations {
		if operation.Over {
			continue
		}
		operation.Over, operation.Error = true, failure
		if failure == "" {
			operation.do()
		}
	}
}

// of returns the disks of an owner, as "name=size", sorted.
func (c *cloud) of(owner string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []string
	for _, disk := range c.disks {
		if disk.Owner == owner {
			found = append(found, fmt.Sprintf("%s=%d", disk.Name, disk.Size))
		}
	}
	slices.Sort(found)
	return strings.Join(found, " ")
}

func (c *cloud) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.disks)
}

// called counts calls, such as "GET disks".
func (c *cloud) called(call string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[call]
}

func (c *cloud) createdFor(owner string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.created[owner+"/"]
}

// edit is somebody who changes the disks of an owner by hand.
func (c *cloud) edit(owner string, change func(d *cloudDisk)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, disk := range c.disks {
		if disk.Owner == owner {
			change(disk)
			disk.Version++
		}
	}
}

// remove is somebody who deletes the disks of an owner by hand.
func (c *cloud) remove(owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, disk := range c.disks {
		if disk.Owner == owner {
			delete(c.disks, id)
		}
	}
}

// add is a disk that nobody made through the controller.
func (c *cloud) add(disk cloudDisk) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.create(disk)
}
