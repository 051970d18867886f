package controllerruntime

import (
	"errors"
	"fmt"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"slices"
	"sync"
)

// externalObject is a resource in the shape that the rest of the engine knows. A list holds resources of this installation
// only, so the object names it.
type externalObject struct {
	metav1.ObjectMeta
	resource external.Resource
}

// newObject leaves the owner away where the bucket cannot have such a key: it then is nobody's, and is left alone.
func (s *externalSource) newObject(resource external.Resource) *externalObject {
	o := &externalObject{ObjectMeta: metav1.ObjectMeta{Name: resource.ID, ResourceVersion: resource.Version}, resource: resource}
	if resource.OwnerKey != "" && s.engine.WellFormed(resource.OwnerKey) {
		o.Annotations = map[string]string{
			entity.OwnerKindAnnotation: s.engine.kind, entity.OwnerKeyAnnotation: resource.OwnerKey,
		}
		if instance := s.engine.instanceID(); instance != "" {
			o.Annotations[entity.OwnerInstanceAnnotation] = instance
		}
	}
	return o
}

// externalCache is what the last list showed.
type externalCache struct {
	mu        sync.Mutex
	byID      map[string]*externalObject
	byOwner   map[string][]*externalObject
	doubtful  map[string]*externalObject // as they were last known, nil if they were not; in none of the others
	malformed error
}

// externalChange is what a list showed of a resource, against the one before. Either may be nil.
type externalChange struct{ before, after *externalObject }

// replace takes a list, and tells what differs from the last one. Nobody else writes the cache: it is compared without the
// lock, and locked for what differs only.
func (c *externalCache) replace(s *externalSource, list []external.Resource) []externalChange {
	now, unclear, malformed := s.wholeList(list)
	if malformed != nil {
		s.engine.stats.malformed.Add(1)
	}
	var altered []*externalObject
	for id, resource := range now {
		if held := c.byID[id]; held == nil || held.resource != resource {
			altered = append(altered, s.newObject(resource))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.malformed = malformed
	if c.byID == nil {
		c.byID, c.byOwner = make(map[string]*externalObject, len(now)), make(map[string][]*externalObject, len(now))
	}
	var changes []externalChange
	for _, after := range altered {
		resource, id := after.resource, after.resource.ID
		held := c.byID[id]
		before := held
		if held == nil {
			before = c.doubtful[id]
		}
		c.holdLocked(id, held, after)
		if before == nil || before.resource != resource {
			changes = append(changes, externalChange{before, after})
		}
	}
	return append(changes, c.dropLocked(now, unclear)...)
}

// dropLocked takes out what a list does not show, and what nobody can tell as what it is there.
func (c *externalCache) dropLocked(now map[string]external.Resource, unclear map[string]struct{}) (gone []externalChange) {
	doubtful := make(map[string]*externalObject, len(unclear))
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
			gone = append(gone, externalChange{before: held})
		}
	}
	for id, before := range c.doubtful {
		_, listed := now[id]
		_, still := unclear[id]
		if before != nil && !listed && !still {
			gone = append(gone, externalChange{before: before})
		}
	}
	c.doubtful = doubtful
	return gone
}

// holdLocked replaces what is held of an ID; nil is nothing.
func (c *externalCache) holdLocked(id string, before, after *externalObject) {
	if before != nil && before.Annotations != nil {
		key := before.resource.OwnerKey
		c.byOwner[key] = slices.DeleteFunc(c.byOwner[key], func(o *externalObject) bool { return o == before })
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
		c.byOwner[after.resource.OwnerKey] = append(c.byOwner[after.resource.OwnerKey], after)
	}
}

// malformedNamed bounds how many malformed resources an error names.
const malformedNamed = 5

// wholeList sorts out what is malformed. Resources of one ID that do not agree are doubtful: they exist, and nobody knows
// whose they are, so nothing is done about them.
func (s *externalSource) wholeList(list []external.Resource) (resources map[string]external.Resource, doubtful map[string]struct{}, err error) {
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
			errs = append(errs, fmt.Errorf("ID %q is of several resources, one owned by %q and one by %q", resource.ID, same.OwnerKey, resource.OwnerKey))
		case twice:
		case resource.OwnerKey == "":
			errs = append(errs, fmt.Errorf("resource %q names no owner", resource.ID))
			resources[resource.ID] = resource
		case !s.engine.WellFormed(resource.OwnerKey):
			errs = append(errs, fmt.Errorf("resource %q names the owner %q, which is no key of %s", resource.ID, resource.OwnerKey, s.engine.kind))
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

func (c *externalCache) malformedErr() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.malformed
}

func (c *externalCache) all() []metav1.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	objects := make([]metav1.Object, 0, len(c.byID))
	for _, o := range c.byID {
		objects = append(objects, o)
	}
	return objects
}

func (c *externalCache) ownedBy(key string) []metav1.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	objects := make([]metav1.Object, 0, len(c.byOwner[key]))
	for _, o := range c.byOwner[key] {
		objects = append(objects, o)
	}
	return objects
}

func (c *externalCache) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byID)
}
