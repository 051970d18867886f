package controller

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// relay is a TCP proxy that makes the caches of one process late. It drops or delays the messages that consumers
// deliver of one bucket. Requests and their answers pass.
type relay struct {
	target   string
	listener net.Listener
	serving  sync.WaitGroup

	mu    sync.Mutex
	open  []net.Conn
	muted string        // the prefix of subjects whose messages vanish
	slow  string        // the prefix of subjects whose deliveries come late
	delay time.Duration // by how much
}

// behindRelay is another process that reaches the server through a relay.
func (w *world) behindRelay() (*world, *relay) {
	w.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(w.t, err)
	r := &relay{target: strings.TrimPrefix(w.server.URL(), "nats://"), listener: listener}
	r.serving.Go(r.accept)
	w.t.Cleanup(r.close)
	_, js := natstest.Connect(w.t, "nats://"+listener.Addr().String())
	return &world{t: w.t, server: w.server, js: js}, r
}

// mute makes the deliveries of a bucket vanish until the next call; "" lets all pass.
func (r *relay) mute(bucket string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.muted = deliveriesOf(bucket)
}

// muteAnswers makes the answers to requests vanish until the next call of mute. Deliveries pass.
func (r *relay) muteAnswers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.muted = "_INBOX."
}

// late makes the deliveries of a bucket come d later, and what else the server sends to their subscription.
func (r *relay) late(bucket string, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slow, r.delay = deliveriesOf(bucket), d
}

func deliveriesOf(bucket string) string {
	if bucket == "" {
		return ""
	}
	return "$KV." + bucket + "."
}

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.target)
		if err != nil {
			client.Close()
			continue
		}
		r.mu.Lock()
		r.open = append(r.open, client, server)
		r.mu.Unlock()
		r.serving.Go(func() {
			defer client.Close()
			defer server.Close()
			_, _ = io.Copy(server, client)
		})
		r.serving.Go(func() {
			defer client.Close()
			defer server.Close()
			r.deliver(client, bufio.NewReader(server))
		})
	}
}

func (r *relay) close() {
	r.listener.Close()
	r.mu.Lock()
	for _, conn := range r.open {
		conn.Close()
	}
	r.mu.Unlock()
	r.serving.Wait()
}

// fate says how a frame of the server is passed on.
type fate struct {
	vanishes bool
	after    time.Duration
}

func (r *relay) fateOf(f frame, slow map[string]bool) fate {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.muted != "" && strings.HasPrefix(f.subject, r.muted):
		return fate{vanishes: true}
	case r.slow != "" && (strings.HasPrefix(f.subject, r.slow) || slow[f.subscription]):
		slow[f.subscription] = true // the status of a pull must not overtake its messages
		return fate{after: r.delay}
	}
	return fate{}
}

// deliver passes the server's frames on. Late ones keep their order among themselves.
func (r *relay) deliver(client net.Conn, server *bufio.Reader) {
	type lateFrame struct {
		data []byte
		due  time.Time
	}
	slow := map[string]bool{} // the subscriptions that got late messages
	var writing sync.Mutex
	write := func(data []byte) error {
		writing.Lock()
		defer writing.Unlock()
		_, err := client.Write(data)
		return err
	}
	queue := make(chan lateFrame, 1<<16)
	var lateOnes sync.WaitGroup
	lateOnes.Go(func() {
		for f := range queue {
			time.Sleep(time.Until(f.due))
			_ = write(f.data) // whoever reads sees that the connection is closed
		}
	})
	defer lateOnes.Wait()
	defer close(queue)
	for {
		f, err := readFrame(server)
		if err != nil {
			return
		}
		switch is := r.fateOf(f, slow); {
		case is.vanishes:
		case is.after > 0:
			queue <- lateFrame{f.data, time.Now().Add(is.after)}
		default:
			if write(f.data) != nil {
				return
			}
		}
	}
}

// frame is one line of the server's protocol, with its payload if it has one.
type frame struct {
	data                  []byte
	subject, subscription string // of a message
}

func readFrame(server *bufio.Reader) (frame, error) {
	line, err := server.ReadBytes('\n')
	if err != nil {
		return frame{}, err
	}
	f := frame{data: line}
	fields := strings.Fields(string(line))
	if len(fields) < 4 || fields[0] != "MSG" && fields[0] != "HMSG" {
		return f, nil
	}
	size, err := strconv.Atoi(fields[len(fields)-1])
	if err != nil {
		return f, errors.New("the server's protocol is not understood: " + string(line))
	}
	payload := make([]byte, size+len("\r\n"))
	if _, err := io.ReadFull(server, payload); err != nil {
		return f, err
	}
	f.subject, f.subscription = fields[1], fields[2]
	f.data = append(line, payload...)
	return f, nil
}

// throughout checks for a while that a condition holds. A broken program is caught if it fails within d; a correct one
// never fails, however slow the machine is.
func throughout(t *testing.T, d time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if !holds() {
			t.Fatalf("no longer: %s", what)
		}
	}
}

// leaseInBucket is the value of the lease's key.
type leaseInBucket struct {
	HolderIdentity       string    `json:"holderIdentity"`
	LeaseDurationSeconds int       `json:"leaseDurationSeconds"`
	AcquireTime          time.Time `json:"acquireTime"`
	RenewTime            time.Time `json:"renewTime"`
	LeaderTransitions    int       `json:"leaderTransitions"`
}

// leaseTo writes a lease with that holder over the one that is there. "" frees it.
func (w *world) leaseTo(holder string, d time.Duration) {
	w.t.Helper()
	now := time.Now().UTC()
	data, err := json.Marshal(leaseInBucket{holder, int(d / time.Second), now, now, 1})
	must(w.t, err)
	_, err = w.kv("sites-status").Put(w.t.Context(), "_nagi.lease", data)
	must(w.t, err)
}

// lease reads the lease; the zero value if the key is absent.
func (w *world) lease() (lease leaseInBucket) {
	w.t.Helper()
	entry, err := w.kv("sites-status").Get(w.t.Context(), "_nagi.lease")
	if err == nil {
		must(w.t, json.Unmarshal(entry.Value(), &lease))
	}
	return lease
}
