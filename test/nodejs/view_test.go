// Package nodejs tests what programs in Node.js see of a controller. It needs node and npm, and npm's registry or
// cache, so make test leaves it out; make nodejs runs it.
package nodejs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Site has one page, with its title.
type (
	SiteSpec struct {
		Title string `json:"title"`
	}
	SiteStatus struct {
		Length int `json:"length"`
	}
	Site = entity.Object[SiteSpec, SiteStatus]
	Page = entity.Object[SiteSpec, struct{}]
)

// TestNodeJSSeesWhatBecomesOfItsDocuments runs view.mjs, which checks what it sees, beside a controller.
func TestNodeJSSeesWhatBecomesOfItsDocuments(t *testing.T) {
	node, npm, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := install(ctx, t, npm)
	server := natstest.Start(t)
	_, js := natstest.Connect(t, server.URL())
	r := serve(t, js)

	view := exec.CommandContext(ctx, node, "view.mjs", server.URL())
	view.Dir = dir
	said, err := view.CombinedOutput()
	if err != nil || strings.Count(string(said), "ok ") < 10 {
		t.Fatalf("node view.mjs: %v\n%s", err, said)
	}
	t.Logf("%s", said)
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.titles, "") || !slices.Contains(r.titles, "mended") {
		t.Errorf("reconciled with the titles %.20q: one of what is invalid, or none of what was mended", r.titles)
	}
}

// install puts the script and what it needs into a directory of its own: the sources stay clean.
func install(ctx context.Context, t *testing.T, npm string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{".npmrc", "package.json", "package-lock.json", "view.mjs"} {
		data, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ci := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--prefer-offline")
	ci.Dir = dir
	if said, err := ci.CombinedOutput(); err != nil {
		t.Fatalf("npm ci needs npm's registry, or a cache that has what test/nodejs/package-lock.json names: %v\n%s",
			err, said)
	}
	return dir
}

// oldestNode is the oldest major version that the test is for.
const oldestNode = 20

// tools are node and npm, or what is missing and how to get it.
func tools() (node, npm string, err error) {
	const get = "install Node.js %d or later with npm (packages nodejs and npm, or nodejs.org), or leave out make nodejs"
	node, nodeErr := exec.LookPath("node")
	npm, npmErr := exec.LookPath("npm")
	if err := errors.Join(nodeErr, npmErr); err != nil {
		return "", "", fmt.Errorf("%w: "+get, err, oldestNode)
	}
	said, err := exec.Command(node, "--version").Output()
	major, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(string(said)), "v"), ".")
	if number, numberErr := strconv.Atoi(major); err != nil || numberErr != nil || number < oldestNode {
		return "", "", fmt.Errorf("%s is version %q (%v): "+get, node, said, err, oldestNode)
	}
	return node, npm, nil
}

func TestWithoutNodeItIsSaidWhatToInstall(t *testing.T) {
	empty := t.TempDir()
	t.Setenv("PATH", empty)
	_, _, err := tools()
	if !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "install Node.js 20 or later") {
		t.Errorf("without node: %v", err)
	}
	for _, name := range []string{"node", "npm"} {
		if err := os.WriteFile(filepath.Join(empty, name), []byte("#!/bin/sh\necho v18.1.0\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", empty+":/bin:/usr/bin")
	if _, _, err = tools(); err == nil || !strings.Contains(err.Error(), "v18.1.0") {
		t.Errorf("with an old one: %v", err)
	}
}

// TestTheLockFileNamesVersionsAndNoRegistry: npm asks the one that is configured where it runs.
func TestTheLockFileNamesVersionsAndNoRegistry(t *testing.T) {
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(lock), "://") || strings.Count(string(lock), `"integrity": "sha512-`) < 3 {
		t.Errorf("it names an address, or has no checksums: make it with the .npmrc that is here\n%s", lock)
	}
}

// sites is the controller's reconciler.
type sites struct {
	sites *entity.Client[*Site]
	pages *entity.Client[*Page]

	mu     sync.Mutex
	titles []string // with which sites were reconciled
}

// serve runs a controller with a recorder until the test ends.
func serve(t *testing.T, js jetstream.JetStream) *sites {
	t.Helper()
	r := &sites{}
	var errs [3]error
	r.sites, errs[0] = entity.NewClient[*Site](t.Context(), js, entity.Config{Kind: "Site", Bucket: "sites"})
	r.pages, errs[1] = entity.NewClient[*Page](t.Context(), js, entity.Config{Kind: "Page", Bucket: "pages"})
	events, err := recorder.New(recorder.Config{JetStream: js, Component: "sites"})
	errs[2] = err
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = events.Close(context.Background()) })
	events.RegisterKind("Site", &Site{})
	c, err := controller.New("sites", r.sites, r, controller.Owns(r.pages), controller.WithEventRecorder(events))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- c.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	return r
}

// Reconcile implements controller.Reconciler.
func (r *sites) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	site, err := r.sites.Lister().Get(req.Key)
	if apierrors.IsNotFound(err) {
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, err
	}
	title := site.Spec.Title
	r.mu.Lock()
	flaked := slices.Contains(r.titles, "flaky")
	r.titles = append(r.titles, title)
	r.mu.Unlock()
	switch {
	case title == "forbidden":
		return controller.Result{}, controller.TerminalError(errors.New("this title is forbidden"))
	case title == "flaky" && !flaked:
		return controller.Result{}, errors.New("this title fails at first")
	}
	page := &Page{ObjectMeta: metav1.ObjectMeta{Name: req.Key + ".home"}}
	if _, err := controller.CreateOrUpdate(ctx, r.pages, page, func(page *Page) error {
		page.Spec.Title = title
		return nil
	}); err != nil {
		return controller.Result{}, err
	}
	site.Status.Length = len(title)
	return controller.Result{}, controller.SetStatus(ctx, site)
}
