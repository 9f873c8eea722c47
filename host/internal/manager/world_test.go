package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"
	restclient "k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	ccmconfig "k8s.io/cloud-provider/app/config"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/config"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// namespace of all the managers' objects.
const namespace = "kube-system"

// guests is an engine of guests whose configuration determines their behaviour,
// as "one good 3": their provider, their kind, and a number.
type guests struct {
	// hang is the channel that hanging guests wait for; nil: none.
	hang *atomic.Pointer[chan struct{}]
	name string
}

func (g guests) Name() string              { return g.name }
func (guests) Close(context.Context) error { return nil }
func (g guests) Compile(_ context.Context, _ []byte, c engine.ModuleConfig) (engine.Module, error) {
	return walker{host: c.Host, guests: g}, nil
}

type walker struct {
	host   engine.Host
	guests guests
}

func (walker) Close(context.Context) error { return nil }
func (w walker) Instantiate(context.Context) (engine.Instance, error) {
	return &walkerInstance{host: w.host, guests: w.guests, provider: "?", kind: "?"}, nil
}

// walkerInstance is engine.Instance.
type walkerInstance struct {
	host           engine.Host
	guests         guests
	provider, kind string
	url            string
}

func (*walkerInstance) Close(context.Context) error { return nil }
func (*walkerInstance) MemoryBytes() uint64         { return 0 }

// The kinds of guests.
const (
	good    = "good"
	slow    = "slow"    // its cloud takes 3 s
	traps   = "traps"   // in every op after the probe
	refuses = "refuses" // its configuration
	unready = "unready" // its probe fails
	hangs   = "hangs"   // in every op after the probe, regardless of its context
	stuck   = "stuck"   // in its configuration, regardless of its context
)

func (i *walkerInstance) Call(ctx context.Context, op abi.Op, request []byte) (engine.Result, error) {
	if i.kind == slow {
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
			return engine.Result{}, ctx.Err()
		}
	}
	switch op {
	case abi.OpDescribe:
		return answer(&abi.DescribeResponse{Name: "test", Version: "1", ProviderName: "test"})
	case abi.OpConfigure:
		return i.configure(request)
	case abi.OpProbe:
		reached := i.ask(ctx)
		return answer(&abi.ProbeResponse{Ready: reached == nil && i.kind != unready, Summary: fmt.Sprint(reached)})
	}
	if hang := i.guests.hang.Load(); i.kind == hangs && hang != nil {
		<-*hang
	}
	if i.kind == traps {
		return engine.Result{}, errors.New("unreachable")
	}
	if err := i.ask(ctx); err != nil {
		return engine.Result{Code: abi.CodeUnavailable, Detail: encode(&abi.ErrorDetail{Message: err.Error()})}, nil
	}
	return answer(&abi.InstanceExistsResponse{Existence: abi.Existence_EXISTENCE_EXISTS})
}

func (i *walkerInstance) configure(request []byte) (engine.Result, error) {
	var r abi.ConfigureRequest
	if err := r.UnmarshalVT(request); err != nil {
		return engine.Result{}, err
	}
	var number int
	if _, err := fmt.Sscan(string(r.Config), &i.provider, &i.kind, &number, &i.url); err != nil {
		return engine.Result{}, err
	}
	if hang := i.guests.hang.Load(); i.kind == stuck && hang != nil {
		<-*hang
	}
	return answer(&abi.ConfigureResponse{Accepted: i.kind != refuses, HasClusterId: true})
}

// ask sends a request to the cloud.
func (i *walkerInstance) ask(ctx context.Context) error {
	request := &abi.HttpSendRequest{Requests: []*abi.HttpRequest{{Method: "GET", Url: i.url, Credential: "cloud"}}}
	code, data := i.host.HostCall(ctx, abi.CapabilityHTTP, encode(request))
	if code != abi.CodeOK {
		return fmt.Errorf("http_send: %s %q", code, data)
	}
	var response abi.HttpSendResponse
	if err := response.UnmarshalVT(data); err != nil {
		return err
	}
	result := response.Results[0]
	if result.Response == nil || result.Response.Status != http.StatusOK {
		return fmt.Errorf("answer %v", result)
	}
	return nil
}

func encode(m abi.Message) []byte {
	data := make([]byte, m.SizeVT())
	if _, err := m.MarshalToSizedBufferVT(data); err != nil {
		panic(err)
	}
	return data
}

func answer(m abi.Message) (engine.Result, error) { return engine.Result{Response: encode(m)}, nil }

// world is the environment of managers.
type world struct {
	t      *testing.T
	api    *apiServer
	cloud  *cloud
	module []byte
	file   string // of --config
	begun  int    // managers
	living []*whole
	hang   atomic.Pointer[chan struct{}] // of guests
}

func newWorld(t *testing.T, c *cloud, module []byte) *world {
	return &world{t: t, api: newAPIServer(t), cloud: c, module: module, file: filepath.Join(t.TempDir(), "config.yaml")}
}

// admin is the client of the cluster's administrator.
func (w *world) admin() kubernetes.Interface { return (&line{server: w.api}).client() }

// offer writes a source of a provider, or removes it without a guest.
func (w *world) offer(provider, name, guest string) {
	w.t.Helper()
	api := w.admin().CoreV1().ConfigMaps(namespace)
	if guest == "" {
		_ = api.Delete(w.t.Context(), name, metav1.DeleteOptions{})
		return
	}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, BinaryData: map[string][]byte{"provider.wasm": w.module},
		Data: map[string]string{"config.txt": fmt.Sprintf("%s http://127.0.0.1:%s/%s/", guest, w.cloud.port, provider)},
	}
	if _, err := api.Update(w.t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		if _, err := api.Create(w.t.Context(), cm, metav1.CreateOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// secret writes the token of a provider.
func (w *world) secret(provider, token string) {
	w.t.Helper()
	api := w.admin().CoreV1().Secrets(namespace)
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: provider}, Data: map[string][]byte{"token": []byte(token)}}
	if _, err := api.Update(w.t.Context(), s, metav1.UpdateOptions{}); err != nil {
		if _, err := api.Create(w.t.Context(), s, metav1.CreateOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// provider is a provider's part of the HostConfiguration.
func (w *world) provider(name string, s says) string {
	return fmt.Sprintf(`- name: %[1]s
  source: {configMap: {namespace: %[2]s, name: %[6]s}}
  store: %[7]s
  routing: {nodes: {schemes: [%[8]s]}}
  grants: [{scheme: http, host: 127.0.0.1, port: %[3]s, pathPrefix: /%[1]s/, cidrs: [127.0.0.0/8], credentials: [cloud]}]
  credentials: [{name: cloud, secret: {namespace: %[2]s, name: %[1]s}, header: {header: X-Token}}]
  requests: {perSecond: %[4]d}
  ops: {timeout: %[5]ds}
  rollout: {observePeriod: 30s}
  engine: %[9]s
`, name, namespace, w.cloud.port, s.requests, s.timeout, s.source, s.store, s.scheme, s.engine)
}

func (w *world) write(text string) {
	w.t.Helper()
	if err := os.WriteFile(w.file, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

const fileHead = "apiVersion: config.wasm-ccm.dev/v1alpha1\nkind: HostConfiguration\nproviders:\n"

// whole is one manager, without upstream's loops.
type whole struct {
	*controllerManager
	world  *world
	name   string
	line   *line
	config restclient.Config
	reload chan []byte
	signal context.CancelFunc
	// inForce is the expected configuration, accepted whether the present file
	// is expected to be.
	inForce  map[string]says
	accepted bool
	// refuse, if set, makes the clients.
	refuse atomic.Pointer[func() (kubernetes.Interface, error)]
	// informers are shared by the manager and upstream's loops.
	informers informers.SharedInformerFactory
}

// begin starts a manager. After an error it has ended.
func (w *world) begin(name string) (*whole, error) {
	w.t.Helper()
	one := &whole{world: w, name: name, line: &line{server: w.api}, reload: make(chan []byte, 100)}
	ctx, signal := context.WithCancel(context.Background())
	one.signal = signal
	options := config.NewOptions()
	options.ConfigFile, options.ProbeBindAddress, options.StoreNamespace = w.file, "0", namespace
	one.controllerManager = newManager(ctx, options, nil)
	one.outside = one.around()
	c := &ccmconfig.Config{
		Kubeconfig: &one.config, ClientBuilder: one, SharedInformers: informers.NewSharedInformerFactory(one.line.client(), 0),
		SecureServing: &apiserver.SecureServingInfo{Listener: named(name)},
	}
	c.ComponentConfig.KubeCloudShared.AllowUntaggedCloud = true
	if err := one.start(c.Complete()); err != nil {
		one.end()
		return nil, err
	}
	c.SharedInformers.Start(ctx.Done()) // as upstream does
	one.informers = c.SharedInformers
	w.living = append(w.living, one)
	return one, nil
}

// around is the manager's outside.
func (o *whole) around() outside {
	return outside{
		client: func(*restclient.Config) (kubernetes.Interface, error) {
			if refuse := o.refuse.Load(); refuse != nil {
				return (*refuse)()
			}
			return o.line.client(), nil
		},
		metadata: func(*restclient.Config) (metadata.Interface, error) {
			s := runtime.NewScheme()
			_ = metav1.AddMetaToScheme(s)
			return metadatafake.NewSimpleMetadataClient(s), nil
		},
		modules: func(*config.Options) (modules, func(), error) {
			return modules{engine: func(name string) (engine.Engine, error) { return guests{&o.world.hang, name}, nil }, compiler: func(string) plugin.Compiler { return nil }}, func() {}, nil
		},
		register: func(*metrics.Metrics) {},
		watchFile: func(ctx context.Context, _ string, handle func([]byte, error)) {
			data, err := os.ReadFile(o.world.file)
			for handle(data, err); ; handle(data, nil) {
				select {
				case data = <-o.reload:
				case <-ctx.Done():
					return
				}
			}
		},
	}
}

// Config, ConfigOrDie, Client and ClientOrDie implement cloudprovider.ControllerClientBuilder.
func (*whole) Config(string) (*restclient.Config, error)     { return &restclient.Config{}, nil }
func (*whole) ConfigOrDie(string) *restclient.Config         { return &restclient.Config{} }
func (o *whole) Client(string) (kubernetes.Interface, error) { return o.line.client(), nil }
func (o *whole) ClientOrDie(string) kubernetes.Interface     { return o.line.client() }

var _ cloudprovider.ControllerClientBuilder = (*whole)(nil)

// named is a listener with that name, which identifies a manager after its restart.
type named string

func (n named) Accept() (net.Conn, error) { return nil, errors.New("nobody listens") }
func (n named) Close() error              { return nil }
func (n named) Addr() net.Addr            { return n }
func (n named) Network() string           { return "tcp" }
func (n named) String() string            { return "127.0.0.1:" + string(n) }

// end ends the manager as a signal does, and checks that nothing of it is left.
func (o *whole) end() {
	o.world.t.Helper()
	begun := time.Now()
	o.signal()
	if o.informers != nil {
		o.informers.Shutdown()
	}
	o.shutDown(context.Background())
	if took := time.Since(begun); took > shutdownTimeout {
		o.world.t.Errorf("the end took %v", took)
	}
	o.gone()
}

// writesLeases reports whether the elector could still write: it must not after
// the release.
func (o *whole) writesLeases() bool {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPut, "http://192.0.2.1/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/manager", nil)
	if err != nil {
		o.world.t.Fatal(err)
	}
	_, err = o.config.WrapTransport(answered{}).RoundTrip(request) //nolint:bodyclose // no body
	return err == nil
}

// answered is an http.RoundTripper.
type answered struct{}

func (answered) RoundTrip(*http.Request) (*http.Response, error) { return &http.Response{}, nil }

// kill ends the manager without a request to the API server.
func (o *whole) kill() {
	o.line.set(true)
	o.signal()
	o.die()
	o.shutDown(context.Background())
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	err := errors.Join(o.working.Wait(ctx), o.living.Wait(ctx))
	for _, one := range o.withEnding() {
		err = errors.Join(err, one.working.Wait(ctx), one.living.Wait(ctx))
	}
	if err != nil {
		o.world.t.Error(err)
	}
	o.gone()
}

// gone checks that no goroutine runs, and no network is open.
func (o *whole) gone() {
	t := o.world.t
	t.Helper()
	groups := []*tasks.Group{&o.working, &o.living}
	for _, one := range o.withEnding() {
		groups = append(groups, &one.working, &one.living)
		if users := one.allowed.current.Load().users.Load(); users != 0 {
			t.Errorf("provider %s: its network has %d users after the end", one.name, users)
		}
	}
	for _, group := range groups {
		if names := group.Running(); len(names) > 0 {
			t.Errorf("after the end there is still %s", strings.Join(names, ", "))
		}
	}
	for i, one := range o.world.living {
		if one == o {
			o.world.living = append(o.world.living[:i], o.world.living[i+1:]...)
			break
		}
	}
}
