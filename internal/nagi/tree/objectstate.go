package tree

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// stateOfObject is what an object in Kubernetes says of itself: by the counts of what it runs, by its phase, or by its
// conditions, as far as there are such.
func stateOfObject(obj *unstructured.Unstructured) (state string, health Health, message string) {
	switch obj.GetKind() {
	case "Pod":
		return stateOfPod(obj)
	case "Deployment", "ReplicaSet", "StatefulSet", "ReplicationController":
		wanted, ok := number(obj, "spec", "replicas")
		if !ok {
			wanted = 1
		}
		ready, _ := number(obj, "status", "readyReplicas")
		return counted(obj, ready, wanted)
	case "DaemonSet":
		wanted, _ := number(obj, "status", "desiredNumberScheduled")
		ready, _ := number(obj, "status", "numberReady")
		return counted(obj, ready, wanted)
	}
	if behind(obj) {
		return "Progressing", Waiting, ""
	}
	for _, c := range conditions(obj) {
		switch c.kind {
		case "Ready", "Available", "Reconciled", "Synced", "Complete", "Established":
			if c.status == "True" {
				return c.kind, Good, ""
			}
			return cmp.Or(c.reason, "not "+c.kind), Bad, c.message
		case "Failed":
			if c.status == "True" {
				return "Failed", Bad, c.message
			}
		}
	}
	if phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase"); phase != "" {
		return phase, healthOfPhase(phase), ""
	}
	return "", Unknown, ""
}

// counted is the state of what runs copies.
func counted(obj *unstructured.Unstructured, ready, wanted int64) (state string, health Health, message string) {
	state, health = fmt.Sprintf("%d/%d ready", ready, wanted), Good
	if ready >= wanted && !behind(obj) {
		return state, health, ""
	}
	health = Waiting
	for _, c := range conditions(obj) {
		failing := c.kind == "ReplicaFailure" && c.status == "True" || c.kind == "Progressing" && c.status == "False"
		if failing {
			return state, Bad, c.message
		}
		if c.kind == "Available" && c.status == "False" {
			health, message = Bad, c.message
		}
	}
	return state, health, message
}

// stateOfPod is as kubectl tells it: the phase, or why a container does not run.
func stateOfPod(obj *unstructured.Unstructured) (state string, health Health, message string) {
	phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
	state, health = phase, healthOfPhase(phase)
	message, _, _ = unstructured.NestedString(obj.Object, "status", "message")
	ready, all := 0, 0
	for _, list := range []string{"initContainerStatuses", "containerStatuses"} {
		statuses, _, _ := unstructured.NestedSlice(obj.Object, "status", list)
		for _, one := range statuses {
			one, _ := one.(map[string]any)
			if list == "containerStatuses" {
				all++
				if one["ready"] == true {
					ready++
				}
			}
			for _, how := range []string{"waiting", "terminated"} {
				reason, _, _ := unstructured.NestedString(one, "state", how, "reason")
				if reason != "" && reason != "Completed" {
					says, _, _ := unstructured.NestedString(one, "state", how, "message")
					state, health, message = reason, Bad, says
					if reason == "ContainerCreating" || reason == "PodInitializing" {
						health = Waiting
					}
				}
			}
		}
	}
	if all > 0 && phase == "Running" {
		state = fmt.Sprintf("%s %d/%d", state, ready, all)
		if ready < all && health == Good {
			health = Waiting
		}
	}
	return state, health, message
}

func healthOfPhase(phase string) Health {
	switch phase {
	case "Running", "Succeeded", "Bound", "Active", "Available", "Ready", "Healthy", "Synced":
		return Good
	case "Pending", "Terminating", "Progressing", "Creating":
		return Waiting
	case "Failed", "Lost", "Error", "Degraded":
		return Bad
	}
	return Unknown
}

// behind reports whether the controller of an object has not seen its last change.
func behind(obj *unstructured.Unstructured) bool {
	observed, ok := number(obj, "status", "observedGeneration")
	return ok && observed < obj.GetGeneration()
}

func number(obj *unstructured.Unstructured, fields ...string) (n int64, ok bool) {
	v, _, _ := unstructured.NestedFieldNoCopy(obj.Object, fields...)
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), true
	}
	return 0, false
}

type condition struct{ kind, status, reason, message string }

func conditions(obj *unstructured.Unstructured) (all []condition) {
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, one := range list {
		m, _ := one.(map[string]any)
		var c condition
		for name, to := range map[string]*string{
			"type": &c.kind, "status": &c.status, "reason": &c.reason, "message": &c.message,
		} {
			*to, _ = m[name].(string)
		}
		all = append(all, c)
	}
	return all
}
