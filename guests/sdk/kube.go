package sdk

import "github.com/wasm-ccm/wasm-ccm/abi"

// Kube makes one request to the capability kube: the changes to the cluster's
// objects since a cursor, or a patch of the op's object. KubeCache is simpler
// for reading.
func (op *Op) Kube(request *abi.KubeRequest) (*abi.KubeResponse, error) {
	var resp abi.KubeResponse
	if err := op.call(abi.CapabilityKube, importKube, request, &resp); err != nil {
		return nil, err
	}
	return &resp, nil
}

// KubeCache tracks objects of the cluster from op to op, in one instance of the
// provider: Sync costs little when nothing has changed. The zero value with a
// Resource is ready. It needs the capability kube.
type KubeCache struct {
	// Resource is nodes, services, endpointslices, configmaps or secrets.
	Resource string
	// Namespace and Name select objects; empty: all. Required for resources
	// that are granted by namespace or by name.
	Namespace, Name string
	// Changed, unless nil, is called by Sync for each object that is new
	// (before is nil), has changed, or was deleted (now is nil). A recreated
	// object has another Uid.
	Changed func(before, now *abi.KubeObject)

	cursor  []byte
	objects map[KubeName]*abi.KubeObject
}

// KubeName names an object; Namespace is empty for nodes.
type KubeName struct{ Namespace, Name string }

// Sync brings the cache up to date and returns the number of changed or deleted
// objects. After an error the cache has the state of the last complete page.
func (c *KubeCache) Sync(op *Op) (changes int, err error) {
	request := abi.KubeRequest{Resource: c.Resource, Namespace: c.Namespace, Name: c.Name, Cursor: c.cursor}
	var anew map[KubeName]*abi.KubeObject // nil: the update goes to the cache itself
	if c.cursor == nil {
		anew = map[KubeName]*abi.KubeObject{}
	}
	for {
		page, err := op.Kube(&request)
		if err != nil {
			return changes, err
		}
		if page.Restarted {
			anew, c.cursor = map[KubeName]*abi.KubeObject{}, nil
		}
		changes += len(page.Deleted) + len(page.Objects)
		if anew != nil {
			apply(anew, page, nil)
		} else {
			apply(c.objects, page, c.Changed)
		}
		request.Cursor = page.Cursor
		if anew == nil {
			c.cursor = page.Cursor
		}
		if !page.More {
			break
		}
	}
	if anew != nil { // a new list replaces the cache only when complete
		c.replace(anew)
		c.cursor = request.Cursor
	}
	return changes, nil
}

// replace exchanges the whole content of the cache.
func (c *KubeCache) replace(objects map[KubeName]*abi.KubeObject) {
	before := c.objects
	c.objects = objects
	if c.Changed == nil {
		return
	}
	for name, o := range before {
		if objects[name] == nil {
			c.Changed(o, nil)
		}
	}
	for name, o := range objects {
		if b := before[name]; b == nil || b.Uid != o.Uid || b.ResourceVersion != o.ResourceVersion {
			c.Changed(b, o)
		}
	}
}

func apply(objects map[KubeName]*abi.KubeObject, page *abi.KubeResponse, changed func(before, now *abi.KubeObject)) {
	for _, o := range page.Deleted {
		name := KubeName{o.Namespace, o.Name}
		have := objects[name]
		if have == nil || have.Uid != o.Uid {
			continue
		}
		delete(objects, name)
		if changed != nil {
			changed(have, nil)
		}
	}
	for _, o := range page.Objects {
		name := KubeName{o.Namespace, o.Name}
		have := objects[name]
		objects[name] = o
		if changed != nil {
			changed(have, o)
		}
	}
}

// Get returns an object as of the last Sync, or nil.
func (c *KubeCache) Get(namespace, name string) *abi.KubeObject {
	return c.objects[KubeName{namespace, name}]
}

// All returns the objects; do not modify them.
func (c *KubeCache) All() map[KubeName]*abi.KubeObject { return c.objects }
