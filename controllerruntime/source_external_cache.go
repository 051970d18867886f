package controllerruntime

import (
	"errors"
	"fmt"
	"sync"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	if resource.OwnerKey != "" && s.engine.wellFormed(resource.OwnerKey) {
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
	byOwner   map[string]map[string]*externalObject
	doubtful  map[string]*externalObject // as they were last known, nil if they were not
	malformed error
}

// externalChange is what a list showed of a resource, against the one before. Either may be nil.
type externalChange struct{ before, after *externalObject }

// replace takes a list, and tells what differs from the last one.
func (c *externalCache) replace(s *externalSource, list []external.Resource) []externalChange {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, unclear, malformed := wholeList(list)
	c.malformed = malformed
	if malformed != nil {
		s.engine.stats.malformed.Add(1)
	}
	var changes []externalChange
	byID := make(map[string]*externalObject, len(now))
	for id, resource := range now {
		before := c.knownLocked(id)
		if before != nil && before.resource == resource {
			byID[id] = before
			continue
		}
		after := s.newObject(resource)
		byID[id] = after
		changes = append(changes, externalChange{before, after})
	}
	doubtful := make(map[string]*externalObject, len(unclear))
	for id := range unclear {
		doubtful[id] = c.knownLocked(id)
	}
	for _, known := range []map[string]*externalObject{c.byID, c.doubtful} {
		for id, before := range known {
			_, still := byID[id]
			_, unclear := doubtful[id]
			if before != nil && !still && !unclear {
				changes = append(changes, externalChange{before: before})
			}
		}
	}
	c.byID, c.doubtful = byID, doubtful
	c.byOwner = map[string]map[string]*externalObject{}
	for id, o := range byID {
		if _, key, ok := OwnerOf(o); ok {
			if c.byOwner[key] == nil {
				c.byOwner[key] = map[string]*externalObject{}
			}
			c.byOwner[key][id] = o
		}
	}
	return changes
}

func (c *externalCache) knownLocked(id string) *externalObject {
	if o, ok := c.byID[id]; ok {
		return o
	}
	return c.doubtful[id]
}

// malformedNamed bounds how many malformed resources an error names.
const malformedNamed = 5

// wholeList sorts out what is malformed. Resources of one ID that do not agree are doubtful: they exist, and nobody knows
// whose they are, so nothing is done about them.
func wholeList(list []external.Resource) (resources map[string]external.Resource, doubtful map[string]struct{}, err error) {
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
