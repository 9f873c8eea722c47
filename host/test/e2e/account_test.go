package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// account stands in for a cloud with load balancers, routes and servers, as
// guests/faulty wants one (count=URL): it keeps plain text under the paths
// lb/UID, route/NAME and server/NAME, and counts reads and writes by path.
type account struct {
	mu      sync.Mutex
	objects map[string]string
	reads   map[string]int
	writes  map[string]int
	marked  map[string]int // writes at the time of the mark
	tokens  []string       // one of which requests must have; none: they need none
	hung    chan struct{}  // closed when it answers again; nil while it answers
	waiting atomic.Int64   // requests that hang
}

func newAccount() *account {
	return &account{objects: map[string]string{}, reads: map[string]int{}, writes: map[string]int{}}
}

// account returns the account of that name, which there is from the first time on.
func (c *cloud) account(name string) *account {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.accounts == nil {
		c.accounts = map[string]*account{}
	}
	if c.accounts[name] == nil {
		c.accounts[name] = newAccount()
	}
	return c.accounts[name]
}

// standIn answers /standin/ACCOUNT/PATH.
func (c *cloud) standIn(w http.ResponseWriter, r *http.Request) {
	a := c.account(r.PathValue("account"))
	if !a.wait(r.Context()) {
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return // whoever asked is gone
	}
	if r.Header.Get("If-Match") == "*" && !a.has(r.PathValue("path")) {
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	status, answer := a.answer(r.Method, r.PathValue("path"), r.Header.Get("Authorization"), string(body))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, answer)
}

func (a *account) answer(method, path, authorization, body string) (status int, answer string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.tokens) > 0 && !slices.Contains(a.tokens, strings.TrimPrefix(authorization, "Bearer ")) {
		return http.StatusUnauthorized, ""
	}
	if method == http.MethodGet {
		a.reads[path]++
	} else {
		a.writes[path]++
	}
	old, found := a.objects[path]
	switch {
	case path == "probe":
		return http.StatusOK, ""
	case path == "route":
		return http.StatusOK, a.routes()
	case method == http.MethodPut:
		a.objects[path] = body
	case !found:
		return http.StatusNotFound, ""
	case method == http.MethodDelete:
		delete(a.objects, path)
	}
	return http.StatusOK, old
}

func (a *account) has(path string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, found := a.objects[path]
	return found
}

func (a *account) routes() (lines string) {
	for _, path := range slices.Sorted(maps.Keys(a.objects)) {
		if name, ok := strings.CutPrefix(path, "route/"); ok {
			lines += name + " " + a.objects[path] + "\n"
		}
	}
	return lines
}

func (a *account) addServer(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.objects["server/"+name] = ""
}

func (a *account) removeServer(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.objects, "server/"+name)
}

func (a *account) takeTokens(tokens []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens = tokens
}

// wait waits while the account hangs, and reports whether whoever asked does, too.
func (a *account) wait(ctx context.Context) bool {
	a.mu.Lock()
	hung := a.hung
	a.mu.Unlock()
	if hung == nil {
		return true
	}
	a.waiting.Add(1)
	defer a.waiting.Add(-1)
	select {
	case <-ctx.Done():
		return false
	case <-hung:
		return true
	}
}

// hang has it answer nothing, what it was not asked yet included; resume has
// it answer everything.
func (a *account) hang() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hung == nil {
		a.hung = make(chan struct{})
	}
}

func (a *account) resume() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hung != nil {
		close(a.hung)
		a.hung = nil
	}
}

func (a *account) mark() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.marked = maps.Clone(a.writes)
}

// writtenSinceMark has a line for each path.
func (a *account) writtenSinceMark() (lines string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, path := range slices.Sorted(maps.Keys(a.writes)) {
		if n := a.writes[path] - a.marked[path]; n > 0 {
			lines += fmt.Sprintf("%s: %d writes\n", path, n)
		}
	}
	return lines
}

// String is everything that it keeps.
func (a *account) String() string { return strings.Join(a.list(), "") }

// list has each object that it keeps, with its path.
func (a *account) list() (all []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, path := range slices.Sorted(maps.Keys(a.objects)) {
		all = append(all, path+"\n"+a.objects[path])
	}
	return all
}

// wrong compares the load balancers with the Services, which are all that
// there may be, and returns what differs: "" when each has its own, with its
// name, its class and its ports.
func (a *account) wrong(services []corev1.Service) (lines string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	left := maps.Clone(a.objects)
	for i := range services {
		s := &services[i]
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.DeletionTimestamp != nil {
			continue
		}
		path, want := "lb/"+string(s.UID), "service "+s.Namespace+"/"+s.Name+"\n"
		if s.Spec.LoadBalancerClass != nil {
			want += "class " + *s.Spec.LoadBalancerClass + "\n"
		}
		for _, port := range s.Spec.Ports {
			want += fmt.Sprintf("port %d/%s\n", port.Port, port.Protocol)
		}
		got, _, _ := strings.Cut(left[path], "node ")
		if delete(left, path); got != want {
			lines += fmt.Sprintf("%s %s: %q, want %q\n", s.Name, path, got, want)
		}
	}
	for path, body := range left {
		if strings.HasPrefix(path, "lb/") {
			lines += path + ": is of no Service: " + body
		}
	}
	return lines
}

// accountCommand is about an account of the cloud, which is started:
//
//	account ACCOUNT server NAME...     it has these servers, too
//	account ACCOUNT lost NAME...       it has them no more
//	account ACCOUNT token TOKEN...     takes no other bearer tokens from now on
//	account ACCOUNT hang               answers nothing any more
//	account ACCOUNT resume             answers again
//	account ACCOUNT has REGEXP         waits until what it keeps matches
//	account ACCOUNT right [SERVICE]... waits until it has the load balancers of
//	                                   these Services (of all without a class)
//	                                   and no others
//	account ACCOUNT mark               begins to count
//	account ACCOUNT unwritten          checks that nothing was written since mark
//	account ACCOUNT once               checks that nothing was written twice
func (h *harness) accountCommand(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2 && h.cloud != nil, "after cloud start: account ACCOUNT server|lost|token|hang|resume|has|right|mark|unwritten|once [ARG]...")
	a := h.cloud.account(args[0])
	switch rest := args[2:]; args[1] {
	case "server":
		for _, name := range rest {
			a.addServer(name)
		}
	case "lost":
		for _, name := range rest {
			a.removeServer(name)
		}
	case "token":
		a.takeTokens(rest)
	case "hang":
		a.hang()
	case "resume":
		a.resume()
	case "has":
		usage(ts, len(rest) == 1, "account ACCOUNT has REGEXP")
		re := compile(ts, rest[0])
		await(ts, patience, args[0]+" has "+rest[0], func() (bool, string) { return re.MatchString(a.String()), a.String() })
	case "right":
		await(ts, patience, "the load balancers of "+args[0], func() (bool, string) {
			wrong := a.wrong(h.services(ts, rest))
			return wrong == "", wrong
		})
	case "mark":
		a.mark()
	case "unwritten":
		if lines := a.writtenSinceMark(); lines != "" {
			ts.Fatalf("written at %s since the mark:\n%s", args[0], lines)
		}
	case "once":
		for path, n := range a.counts().writes {
			if n > 1 {
				ts.Fatalf("%s was written %d times at %s", path, n, args[0])
			}
		}
	default:
		ts.Fatalf("account %s: unknown", args[1])
	}
}

// services returns those of the script with these names, or all without a class.
func (h *harness) services(ts *testscript.TestScript, names []string) []corev1.Service {
	list, err := h.client.CoreV1().Services(h.namespace).List(context.Background(), metav1.ListOptions{})
	ts.Check(err)
	return slices.DeleteFunc(list.Items, func(s corev1.Service) bool {
		if len(names) == 0 {
			return s.Spec.LoadBalancerClass != nil
		}
		return !slices.Contains(names, s.Name)
	})
}
