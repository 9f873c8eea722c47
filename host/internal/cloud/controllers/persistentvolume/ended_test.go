package persistentvolume

import (
	"testing"
	"testing/synctest"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// A loop whose informer has ended cannot be made, and leaves no goroutine behind:
// the bubble would say so.
func TestALoopThatCannotBeMadeLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		volumes := informers.NewSharedInformerFactory(client, 0).Core().V1().PersistentVolumes()
		ended := make(chan struct{})
		close(ended)
		volumes.Informer().Run(ended)
		if _, err := NewController(client, volumes, &fakeLabeler{}); err == nil {
			t.Error("a loop watches by an informer that has ended")
		}
	})
}
