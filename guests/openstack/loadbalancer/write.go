package loadbalancer

import (
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// The bounds of the pause before another look at a pending load balancer.
const (
	minPause = time.Second
	maxPause = 15 * time.Second
)

// enough is the time that a write and a look need.
const enough = 3 * time.Second

// write makes one change of the load balancer or its parts and looks once
// whether it is done. For a pending one it returns sdk.RetryAfter: the next op
// finds it done and continues.
func (w *work) write(change func() error) error { return w.writeAt(w.lb, change) }

func (k *call) writeAt(lb *balancer, change func() error) error {
	if k.c.Op().Left() < enough {
		return sdk.RetryAfter(minPause, "the load balancer "+lb.ID+" is being changed")
	}
	err := change()
	immutable := api.IsConflict(err) && strings.Contains(strings.ToLower(err.Error()), "immutable")
	if err != nil && !immutable {
		return err
	}
	if failed := k.look(lb); failed != nil {
		return failed
	}
	return err // immutable although active: a part is in ERROR
}

// look reads the load balancer again.
func (k *call) look(lb *balancer) error {
	var now balancer
	if err := readAll(k.c, one(k.path(lb.ID), "loadbalancer", &now)); err != nil {
		return err
	}
	*lb = now
	return k.ready(lb)
}

func (w *work) usable() error { return w.ready(w.lb) }

// ready returns nil for a load balancer that can be changed.
func (k *call) ready(lb *balancer) error {
	switch {
	case lb.Status == "ACTIVE":
		return nil
	case strings.HasPrefix(lb.Status, "PENDING_"):
		return sdk.RetryAfter(k.pause(lb), "the load balancer "+lb.ID+" is "+lb.Status)
	}
	return &statusError{lb}
}

// statusError is the error of a load balancer in ERROR.
type statusError struct{ lb *balancer }

func (e *statusError) Error() string {
	return "the load balancer " + e.lb.ID + " (" + e.lb.Name + ") is in " + e.lb.Status +
		": an administrator has to look why (openstack loadbalancer status show), and to fail it over or delete it; it is then made again"
}

func (e *statusError) Unwrap() error { return &abi.Error{Code: abi.CodeInternal, Message: e.Error()} }

// pause is about a quarter of the time that it has been pending.
func (k *call) pause(lb *balancer) time.Duration {
	since := lb.UpdatedAt
	if since == "" {
		since = lb.CreatedAt
	}
	then, ok := octaviaTime(since)
	if !ok {
		return minPause
	}
	return min(max(k.c.Op().Now().Sub(then)/4, minPause), maxPause).Truncate(time.Millisecond)
}

// octaviaTime reads 2026-01-02T03:04:05, in UTC.
func octaviaTime(text string) (time.Time, bool) {
	t, err := time.Parse("2006-01-02T15:04:05", strings.TrimSuffix(text, "Z"))
	return t, err == nil
}

// gone makes the 404 of a DELETE a success.
func gone(err error) error {
	if api.IsNotFound(err) {
		return nil
	}
	return err
}

// sayLife is the time for which the same Event is not repeated.
const sayLife = time.Hour

// maxEventBytes is Kubernetes' limit.
const maxEventBytes = 1024

// say makes a warning Event, once in a while. It is for people only, so its
// failure is ignored.
func (k *call) say(reason, message string) {
	message = strings.ToValidUTF8(message[:min(len(message), maxEventBytes)], "")
	key := "openstack/said/" + k.service.Uid + "/" + reason
	op := k.c.Op()
	if said, found, err := op.Cache().Get(key); err == nil && found && string(said) == message {
		return
	}
	_ = op.Event(true, reason, message)
	_ = op.Cache().Put(key, []byte(message), sayLife)
}
