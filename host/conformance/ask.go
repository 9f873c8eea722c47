package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Question is one op of a guest.
type Question struct {
	// Op is any op but describe, configure and sign.
	Op abi.Op
	// Object names the op's Node, Service or PersistentVolume in the Cases, or
	// the destination of a route. Empty: the first object there.
	Object string
	// Wait repeats the op as the manager does while the guest answers retry_after,
	// for at most Options.DriveTimeout.
	Wait bool
}

// Answer is the result of a Question. Its texts have no secret.
type Answer struct {
	Op string `json:"op"`
	// Code is ok, or the code of the guest's error.
	Code string `json:"code"`
	// Error is empty when the code is ok; Crash has further lines if the guest
	// crashed.
	Error string   `json:"error,omitempty"`
	Crash []string `json:"crash,omitempty"`
	// Milliseconds of all tries together.
	Milliseconds int64 `json:"milliseconds"`
	Tries        int   `json:"tries"`
	// Requests of the op, in order, at most 1,000.
	Requests []string `json:"requests"`
	// Said are the lines of the log and the Events.
	Said []string `json:"said"`
	// Response is the response message, null without one.
	Response any `json:"response"`
}

// Ask loads the guest and runs one op. The error means that no op ran: the
// guest does not load, or the object is not in the cases.
func Ask(ctx context.Context, o Options, q Question) (*Answer, error) {
	k, err := newKit(ctx, o)
	if err != nil {
		return nil, err
	}
	defer k.close(context.WithoutCancel(ctx))
	if err := k.load(ctx); err != nil {
		return nil, errors.New("the module does not load: " + k.hide(err.Error()))
	}
	said := k.ear.listen()
	response, out, err := k.ask(ctx, q)
	if err != nil {
		return nil, err
	}
	return k.answer(response, out, said())
}

// answer is the outcome in its form for people.
func (k *kit) answer(response any, o outcome, said []string) (*Answer, error) {
	a := &Answer{Op: o.op.String(), Code: o.code().String(), Milliseconds: o.took.Milliseconds(), Tries: o.ops, Requests: []string{}, Said: []string{}}
	for _, line := range said {
		a.Said = append(a.Said, k.hide(line))
	}
	for _, e := range o.trace {
		a.Requests = append(a.Requests, k.hide(e.String()))
	}
	if o.err != nil {
		a.Error = k.hide(strings.TrimPrefix(o.String(), a.Op+": "+a.Code+": "))
		for _, line := range o.crash() {
			a.Crash = append(a.Crash, k.hide(strings.TrimSpace(line)))
		}
		return a, nil
	}
	data, err := json.Marshal(inWords(response))
	if err == nil {
		err = json.Unmarshal([]byte(k.hide(string(data))), &a.Response)
	}
	return a, err
}

// hide removes secrets from a text. The host scrubs the ones already used; a
// guest may have others in its configuration.
func (k *kit) hide(text string) string {
	for _, secret := range k.ear.secrets {
		text = strings.ReplaceAll(text, secret, "[secret]")
	}
	return k.network.scrub(text)
}

// askedPage is the requested page size of list_instances; a guest may return
// more or fewer machines.
const askedPage = 100

func (k *kit) ask(ctx context.Context, q Question) (response any, o outcome, err error) {
	once := func(ctx context.Context) outcome { response, o, err = k.askOnce(ctx, q); return o }
	if q.Wait {
		return response, k.drive(ctx, false, once), err
	}
	once(ctx)
	return response, o, err
}

func (k *kit) askOnce(ctx context.Context, q Question) (response any, o outcome, err error) {
	switch q.Op.Group() {
	case abi.GroupInstances:
		return k.askInstance(ctx, q)
	case abi.GroupLoadBalancers:
		return k.askBalancer(ctx, q)
	case abi.GroupRoutes:
		return k.askRoute(ctx, q)
	case abi.GroupVolumes:
		return k.askVolume(ctx, q)
	case abi.GroupBackground:
		return nil, k.tick(ctx), nil
	}
	if q.Op == abi.OpProbe {
		return nil, k.probe(ctx, nil), nil
	}
	return nil, o, fmt.Errorf("%s is not asked alone: it is part of what happens when a module is loaded, or a signer's", q.Op)
}

func (k *kit) askInstance(ctx context.Context, q Question) (response any, o outcome, err error) {
	if q.Op == abi.OpListInstances {
		response, o = k.list(ctx, nil, "", askedPage)
		return response, o, nil
	}
	n, err := named(append(k.nodes(), k.Cases.UnknownNode.object()), q.Object, "nodes", func(n *corev1.Node) string { return n.Name })
	if err != nil {
		return nil, o, err
	}
	switch q.Op {
	case abi.OpInstanceExists:
		existence, o := k.exists(ctx, nil, n)
		return existence, o, nil
	case abi.OpInstanceShutdown:
		state, o := k.shutdown(ctx, n)
		return state, o, nil
	}
	response, o = k.metadata(ctx, nil, n)
	return response, o, nil
}

func (k *kit) askBalancer(ctx context.Context, q Question) (response any, o outcome, err error) {
	s, err := named(k.Cases.Services, q.Object, "services", func(s corev1.Service) string { return s.Name })
	if err != nil {
		return nil, o, err
	}
	switch q.Op {
	case abi.OpLoadBalancerGet:
		response, o = k.lbGet(ctx, nil, &s)
	case abi.OpLoadBalancerName:
		response, o = k.lbName(ctx, &s)
	case abi.OpLoadBalancerEnsure:
		response, o = k.lbEnsure(ctx, nil, &s, k.backends(ctx))
	case abi.OpLoadBalancerUpdate:
		o = k.lbUpdate(ctx, nil, &s, k.backends(ctx))
	default:
		o = k.lbDelete(ctx, nil, &s)
	}
	return response, o, nil
}

func (k *kit) askRoute(ctx context.Context, q Question) (response any, o outcome, err error) {
	if q.Op == abi.OpRouteList {
		response, o = k.routes(ctx, nil)
		return response, o, nil
	}
	r, err := named(k.wantedRoutes(ctx), q.Object, "routes", func(r *abi.Route) string { return r.DestinationCidr })
	if err != nil {
		return nil, o, err
	}
	if q.Op == abi.OpRouteCreate {
		return nil, k.routeCreate(ctx, nil, r.TargetNode, r), nil
	}
	return nil, k.routeDelete(ctx, nil, r), nil
}

func (k *kit) askVolume(ctx context.Context, q Question) (response any, o outcome, err error) {
	v, err := named(k.Cases.Volumes, q.Object, "volumes", func(v Volume) string { return v.PersistentVolume.Name })
	if err != nil {
		return nil, o, err
	}
	response, o = k.volumeLabels(ctx, nil, &v.PersistentVolume)
	return response, o, nil
}

// named is the object with that name, or the first one.
func named[T any](all []T, name, field string, of func(T) string) (found T, err error) {
	if len(all) == 0 {
		return found, fmt.Errorf("the cases have no %s: write the object there", field)
	}
	if name == "" {
		return all[0], nil
	}
	if i := slices.IndexFunc(all, func(one T) bool { return of(one) == name }); i >= 0 {
		return all[i], nil
	}
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = of(one)
	}
	return found, fmt.Errorf("the cases have no %q under %s, only %s", name, field, strings.Join(names, ", "))
}
