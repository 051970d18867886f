package rolling

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// disk is a resource behind the API: see replica/disks.go.
type disk struct {
	ID       string `json:"id"`
	Owner    string `json:"owner"`
	Instance string `json:"instance"`
	Size     int    `json:"size"`
	Token    string `json:"token"`
}

// cloud is an API that makes one disk for each token. It outlives every replica.
type cloud struct {
	server *httptest.Server

	mu         sync.Mutex
	next       int
	disks      map[string]disk
	known      map[string]bool // the tokens for which there is, or was, a disk
	created    map[string]int  // by owner
	posts      []disk          // the requested disks, in order
	operations map[string]bool
	polled     func() // called at each poll of an operation
	create     creation
}

// creation carries out a POST: create makes the disk, unless its token is known.
type creation func(w http.ResponseWriter, create func())

func startCloud(t *testing.T) *cloud {
	c := &cloud{
		disks: map[string]disk{}, known: map[string]bool{}, created: map[string]int{}, operations: map[string]bool{},
		create: atOnce, polled: func() {},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /disks", c.list)
	mux.HandleFunc("POST /disks", c.post)
	mux.HandleFunc("PUT /disks/{id}", c.put)
	mux.HandleFunc("DELETE /disks/{id}", c.delete)
	mux.HandleFunc("GET /operations/{id}", c.poll)
	c.server = httptest.NewServer(mux)
	t.Cleanup(c.server.Close)
	return c
}

// atOnce carries out a POST as a working API does.
func atOnce(w http.ResponseWriter, create func()) {
	create()
	answer(w, struct{}{})
}

func answer(w http.ResponseWriter, body any) { _ = json.NewEncoder(w).Encode(body) } // a client may be gone

// use sets how POSTs are carried out from now on.
func (c *cloud) use(create creation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.create = create
}

func (c *cloud) post(w http.ResponseWriter, r *http.Request) {
	var wanted disk
	if err := json.NewDecoder(r.Body).Decode(&wanted); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	c.posts = append(c.posts, wanted)
	create := c.create
	c.mu.Unlock()
	create(w, func() { c.make(wanted) })
}

func (c *cloud) make(wanted disk) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[wanted.Token] {
		return
	}
	c.known[wanted.Token] = true
	c.next++
	wanted.ID = "disk-" + strconv.Itoa(c.next)
	c.disks[wanted.ID] = wanted
	c.created[wanted.Owner]++
}

func (c *cloud) list(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	owner, found := r.URL.Query().Get("owner"), []disk{}
	for _, one := range c.disks {
		if one.Instance == r.URL.Query().Get("instance") && (owner == "" || one.Owner == owner) {
			found = append(found, one)
		}
	}
	answer(w, found)
}

func (c *cloud) put(w http.ResponseWriter, r *http.Request) {
	var wanted disk
	if err := json.NewDecoder(r.Body).Decode(&wanted); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	one, ok := c.disks[r.PathValue("id")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	one.Size = wanted.Size
	c.disks[one.ID] = one
	answer(w, struct{}{})
}

func (c *cloud) delete(_ http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.disks, r.PathValue("id"))
}

// poll tells whether an operation is over.
func (c *cloud) poll(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	over, known := c.operations[r.PathValue("id")]
	if !known {
		http.NotFound(w, r)
		return
	}
	c.polled()
	answer(w, map[string]bool{"over": over})
}

// operation begins an operation, or ends it.
func (c *cloud) operation(id string, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.operations[id] = over
}

// whenPolled calls f at each poll from now on.
func (c *cloud) whenPolled(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.polled = f
}

// tokens returns the tokens of all POSTs, in order.
func (c *cloud) tokens() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, post := range c.posts {
		all = append(all, post.Token)
	}
	return strings.Join(all, " ")
}

// count returns how many disks an owner has, and how many were ever made for it.
func (c *cloud) count(owner string) (now, ever int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.disks {
		if one.Owner == owner {
			now++
		}
	}
	return now, c.created[owner]
}

// size returns the size of an owner's disk.
func (c *cloud) size(owner string) (size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.disks {
		if one.Owner == owner {
			size = one.Size
		}
	}
	return size
}
