package upstream

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// cluster answers the capability kube as the manager does: with changes since a
// cursor, in pages.
type cluster struct {
	t *testing.T
	// log has the latest change of each object, in their order.
	log []change
	// restart is the number of cursors that are no longer valid.
	restart int
	// advice is the error for resources without a grant.
	advice map[string]string
	fails  error
	asked  []string // the question, and whether it had a cursor
	bytes  int      // of the answers
	// patches are those of the op's object.
	patches []*abi.KubeRequest
}

type change struct {
	resource string
	*abi.KubeObject
	gone bool
}

func newCluster(t *testing.T, r *rig) *cluster {
	c := &cluster{t: t, advice: map[string]string{}}
	r.Kube = c.answer
	return c
}

// has sets the present objects.
func (c *cluster) has(all ...object) {
	for _, o := range all {
		c.gone(o)
		c.log = c.log[:len(c.log)-1]
		raw, err := o.Marshal()
		if err != nil {
			c.t.Fatal(err)
		}
		c.log = append(c.log, change{resourceIn(o), &abi.KubeObject{
			Namespace: o.GetNamespace(), Name: o.GetName(), Uid: string(o.GetUID()), ResourceVersion: o.GetResourceVersion(), Object: raw,
		}, false})
	}
}

func (c *cluster) gone(o object) {
	c.log = slices.Clone(c.log)
	for i := range c.log { // old places stay, so that cursors keep their meaning
		if l := &c.log[i]; l.KubeObject != nil && l.resource == resourceIn(o) && l.Name == o.GetName() && l.Namespace == o.GetNamespace() {
			l.KubeObject = nil
		}
	}
	c.log = append(c.log, change{resourceIn(o), &abi.KubeObject{Namespace: o.GetNamespace(), Name: o.GetName(), Uid: string(o.GetUID())}, true})
}

func resourceIn(o object) string {
	switch o.(type) {
	case *v1.Node:
		return "nodes"
	case *v1.Service:
		return "services"
	case *v1.ConfigMap:
		return "configmaps"
	case *discoveryv1.EndpointSlice:
		return "endpointslices"
	}
	return "secrets"
}

const clusterPage = 2

func (c *cluster) answer(request *abi.KubeRequest) (*abi.KubeResponse, error) {
	if request.Patch != nil {
		c.patches = append(c.patches, request)
		return nil, c.fails
	}
	how := " anew"
	if len(request.Cursor) > 0 {
		how = " since"
	}
	c.asked = append(c.asked, request.Resource+" "+request.Namespace+"/"+request.Name+how)
	if advice := c.advice[request.Resource]; advice != "" && request.Name == "" {
		return nil, &abi.Error{Code: abi.CodeDenied, Message: request.Resource + ": not granted; " + advice}
	}
	if c.fails != nil {
		return nil, c.fails
	}
	resp := c.page(request)
	c.bytes += resp.SizeVT()
	return resp, nil
}

func (c *cluster) page(request *abi.KubeRequest) *abi.KubeResponse {
	since, _ := strconv.Atoi(string(request.Cursor)) // 0 without one
	resp := &abi.KubeResponse{}
	if since > 0 && c.restart > 0 {
		c.restart--
		since, resp.Restarted = 0, true
	}
	i := since
	for ; i < len(c.log); i++ {
		l := c.log[i]
		if l.KubeObject == nil || l.resource != request.Resource || request.Namespace != "" && l.Namespace != request.Namespace || request.Name != "" && l.Name != request.Name {
			continue
		}
		if len(resp.Objects)+len(resp.Deleted) == clusterPage {
			resp.More = true
			break
		}
		if l.gone {
			resp.Deleted = append(resp.Deleted, l.KubeObject)
		} else {
			resp.Objects = append(resp.Objects, l.KubeObject)
		}
	}
	resp.Cursor = []byte(strconv.Itoa(i))
	return resp
}

// machine is a Node with this resourceVersion.
func machine(name, version string, labels map[string]string) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("u-" + name), ResourceVersion: version, Labels: maps.Clone(labels)},
		Spec:       v1.NodeSpec{ProviderID: "fake:///" + name + " " + version},
	}
}
