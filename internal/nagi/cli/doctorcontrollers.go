package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/nagi/ask"
	"github.com/nagi-runtime/nagi/service"
)

// controllers asks all controllers, and compares their replicas.
func (d *doctor) controllers(ctx context.Context, all []asked) {
	replicas, err := d.s.askReplicas(ctx)
	if err != nil && !d.denied(isInfo, "replicas", "they could not be counted", err) {
		d.find(isInfo, "controller", "replicas", "they could not be counted: "+err.Error(), "look again")
	}
	eachAsked(all, func(_ int, c asked) {
		d.controller(ctx, c)
		versions := map[string]int{}
		for _, r := range replicasOf(replicas, c) {
			versions[r.Version]++
		}
		if len(versions) > 1 {
			var each []string
			for version, n := range versions {
				each = append(each, fmt.Sprintf("%d of %s", n, version))
			}
			slices.Sort(each)
			d.find(isWarning, "versions", c.Name, "its replicas are of different versions: "+strings.Join(each, ", "),
				"wait for the end of a rolling update, or stop what was left of it")
		}
	})
}

// controller looks at one.
func (d *doctor) controller(ctx context.Context, c asked) {
	var stats service.Stats
	if err := c.Do(ctx, ask.Read, "stats", "", nil, &stats); err != nil {
		d.silent(c, err)
		return
	}
	if !stats.Synced {
		d.find(isWarning, "controller", c.Name, "its caches are not complete yet", "wait; nagi top shows it")
	}
	for _, p := range stats.Degraded {
		if stats.Brake == nil || !stats.Brake.Engaged || p.What != "brake" {
			d.find(isError, "degraded", c.Name, p.What+": "+p.Says, "do what it says; docs/oncall.md has more")
		}
	}
	kind := d.s.about(c.kind, "")
	if b := stats.Brake; b != nil && b.Engaged {
		d.find(isError, "brake", c.Name, fmt.Sprintf("it holds %d deletes: %s", b.Count, b.Reason),
			"nagi brake "+kind+", then nagi restore "+kind)
	}
	d.keys(ctx, c, stats.Parked, controller.StateParked, isError, "failed for good and wait for somebody")
	d.keys(ctx, c, stats.Looping, controller.StateLooping, isWarning, "wake themselves by their own writes")
	d.keys(ctx, c, stats.Failing, controller.StateRetry, isWarning, "fail, and are tried again")
	d.keys(ctx, c, stats.TeardownsOwed, controller.StateDeleting, isWarning, "are gone, and their teardown is not over")
	d.orphans(ctx, c, kind)
	if len(stats.Degraded) == 0 {
		d.find(isOK, "controller", c.Name, "it answers, and nothing of it is degraded", "")
	}
}

// silent is about a controller that did not answer.
func (d *doctor) silent(c asked, err error) {
	if d.denied(isWarning, c.Name, "the controller could not be asked", err) {
		return
	}
	if refused, ok := errors.AsType[*ask.Refused](err); ok {
		switch refused.Body.Code {
		case http.StatusServiceUnavailable:
			d.find(isError, "leader", c.Name, refused.Body.Description,
				"start a replica, or mend what keeps it from the lease: /readyz of each says what")
		default:
			d.find(isWarning, "controller", c.Name, refused.Body.Description, "look again")
		}
		return
	}
	d.find(isError, "controller", c.Name, err.Error(),
		"look whether a process of it runs with package service; what it wrote is told by nagi why and nagi get")
}

// keys is about keys in a state, with the one that comes first.
func (d *doctor) keys(
	ctx context.Context, c asked, n int, state controller.KeyState, level severity, what string,
) {
	if n <= 0 {
		return
	}
	example, do := "", "nagi why "+d.s.about(c.kind, "")
	var page service.List
	request := service.ListRequest{States: []controller.KeyState{state}, Limit: 1}
	if err := c.Do(ctx, ask.Read, "list", "", request, &page); err == nil && len(page.Keys) > 0 {
		first := page.Keys[0]
		example = fmt.Sprintf(", such as %s: %s", first.Key, first.Message)
		do = "nagi why " + d.s.about(c.kind, first.Key)
	}
	d.find(level, string(state), c.Name, fmt.Sprintf("%d of its keys %s%s", n, what, example), do)
}

// orphans is about what stays although its owner does not exist.
func (d *doctor) orphans(ctx context.Context, c asked, kind string) {
	var list service.Orphans
	err := c.Do(ctx, ask.Read, "orphans", "", service.OrphansRequest{Limit: 1}, &list)
	if refused, ok := errors.AsType[*ask.Refused](err); ok && refused.Body.Code == http.StatusNotImplemented {
		return // it has none
	}
	switch {
	case err != nil && d.denied(isWarning, c.Name, "its orphans could not be listed", err):
	case err != nil:
		d.find(isInfo, "orphans", c.Name, "they could not be listed: "+err.Error(), "look again")
	case list.Count+list.Kept > 0:
		d.find(isWarning, "orphans", c.Name, fmt.Sprintf("%d objects stay although their owners do not exist",
			list.Count+list.Kept), "nagi orphans "+kind)
	default:
		d.find(isOK, "orphans", c.Name, "there are none", "")
	}
}
