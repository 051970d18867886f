package apisource

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Object is a resource as the engine sees all objects. Lists hold resources of this installation only, so the object
// names it.
type Object struct {
	metav1.ObjectMeta
	Resource external.Resource
}

// newObject leaves the owner out where no primary can have such a key. The resource then has no owner, and is left
// alone.
func (s *Source) newObject(resource external.Resource) *Object {
	o := &Object{
		ObjectMeta: metav1.ObjectMeta{Name: resource.ID, ResourceVersion: resource.Version}, Resource: resource,
	}
	if host := s.shared.Host; resource.OwnerKey != "" && host.WellFormed(resource.OwnerKey) {
		o.Annotations = map[string]string{
			entity.OwnerKindAnnotation: s.shared.Kind, entity.OwnerKeyAnnotation: resource.OwnerKey,
		}
		if instance := host.InstanceID(); instance != "" {
			o.Annotations[entity.OwnerInstanceAnnotation] = instance
		}
	}
	return o
}

// objects is what the last list showed.
type objects struct {
	mu        sync.Mutex
	byID      map[string]*Object
	byOwner   map[string][]*Object
	doubtful  map[string]*Object // as they were last known, nil if they never were; not in the other maps
	malformed error
}

// change is a resource in the list before and in this one. Either may be nil.
type change struct{ before, after *Object }

// replace takes a list, and returns what differs from the last one. Only the loop of the source calls it, so it
// compares without the lock, and locks to change what differs.
func (c *objects) replace(s *Source, list []external.Resource) []change {
	now, unclear, malformed := s.wholeList(list)
	if malformed != nil {
		s.shared.Malformed()
	}
	var altered []*Object
	for id, resource := range now {
		if held := c.byID[id]; held == nil || held.Resource != resource {
			altered = append(altered, s.newObject(resource))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.malformed = malformed
	if c.byID == nil {
		c.byID, c.byOwner = make(map[string]*Object, len(now)), make(map[string][]*Object, len(now))
	}
	var changes []change
	for _, after := range altered {
		resource, id := after.Resource, after.Resource.ID
		held := c.byID[id]
		before := held
		if held == nil {
			before = c.doubtful[id]
		}
		c.holdLocked(id, held, after)
		if before == nil || before.Resource != resource {
			changes = append(changes, change{before, after})
		}
	}
	return append(changes, c.dropLocked(now, unclear)...)
}

// dropLocked takes out the resources that a list does not show, and those that are unclear in it.
func (c *objects) dropLocked(now map[string]external.Resource, unclear map[string]struct{}) (gone []change) {
	doubtful := make(map[string]*Object, len(unclear))
	for id := range unclear {
		doubtful[id] = c.doubtful[id]
	}
	if len(c.byID) > len(now) {
		for id, held := range c.byID {
			if _, still := now[id]; still {
				continue
			}
			c.holdLocked(id, held, nil)
			if _, ok := unclear[id]; ok {
				doubtful[id] = held
				continue
			}
			gone = append(gone, change{before: held})
		}
	}
	for id, before := range c.doubtful {
		_, listed := now[id]
		_, still := unclear[id]
		if before != nil && !listed && !still {
			gone = append(gone, change{before: before})
		}
	}
	c.doubtful = doubtful
	return gone
}

// holdLocked replaces the object of an ID. Either may be nil.
func (c *objects) holdLocked(id string, before, after *Object) {
	if before != nil && before.Annotations != nil {
		key := before.Resource.OwnerKey
		c.byOwner[key] = slices.DeleteFunc(c.byOwner[key], func(o *Object) bool { return o == before })
		if len(c.byOwner[key]) == 0 {
			delete(c.byOwner, key)
		}
	}
	if after == nil {
		delete(c.byID, id)
		return
	}
	c.byID[id] = after
	if after.Annotations != nil {
		c.byOwner[after.Resource.OwnerKey] = append(c.byOwner[after.Resource.OwnerKey], after)
	}
}

// malformedNamed bounds how many malformed resources an error names.
const malformedNamed = 5

// wholeList sorts out malformed resources. Resources of one ID that differ are doubtful: they exist, and it is not
// known their owner, so they are left alone.
func (s *Source) wholeList(list []external.Resource) (
	resources map[string]external.Resource, doubtful map[string]struct{}, err error,
) {
	resources, doubtful = make(map[string]external.Resource, len(list)), map[string]struct{}{}
	var errs []error
	for i, resource := range list {
		same, twice := resources[resource.ID]
		_, known := doubtful[resource.ID]
		switch {
		case resource.ID == "":
			errs = append(errs, fmt.Errorf("resource %d of the list, owned by %q, has no ID", i+1, resource.OwnerKey))
		case known:
		case twice && same != resource:
			doubtful[resource.ID] = struct{}{}
			delete(resources, resource.ID)
			errs = append(errs, fmt.Errorf("ID %q is of several resources, one owned by %q and one by %q",
				resource.ID, same.OwnerKey, resource.OwnerKey))
		case twice:
		case resource.OwnerKey == "":
			errs = append(errs, fmt.Errorf("resource %q names no owner", resource.ID))
			resources[resource.ID] = resource
		case !s.shared.Host.WellFormed(resource.OwnerKey):
			errs = append(errs, fmt.Errorf("resource %q names the owner %q, which is no key of %s",
				resource.ID, resource.OwnerKey, s.shared.Kind))
			resources[resource.ID] = resource
		default:
			resources[resource.ID] = resource
		}
	}
	if more := len(errs) - malformedNamed; more > 0 {
		errs = append(errs[:malformedNamed], fmt.Errorf("and %d more", more))
	}
	if len(errs) > 0 {
		err = fmt.Errorf("malformed resources in the list, which are left alone: %w", errors.Join(errs...))
	}
	return resources, doubtful, err
}

func (c *objects) malformedErr() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.malformed
}

func (c *objects) all() []metav1.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	objects := make([]metav1.Object, 0, len(c.byID))
	for _, o := range c.byID {
		objects = append(objects, o)
	}
	return objects
}

func (c *objects) ownedBy(key string) []metav1.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	objects := make([]metav1.Object, 0, len(c.byOwner[key]))
	for _, o := range c.byOwner[key] {
		objects = append(objects, o)
	}
	return objects
}

// ownerOf returns whose a resource is as the last list shows it, also one that is doubtful.
func (c *objects) ownerOf(id string) (owner string, listed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.byID[id]
	if held == nil {
		held = c.doubtful[id]
	}
	if held == nil {
		return "", false
	}
	return held.Resource.OwnerKey, true
}

func (c *objects) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byID)
}
