package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// clusterFlags select the cluster and the user, as kubectl's do.
type clusterFlags struct {
	kubeconfig, context string
	// namespace of the object; "" is the kubeconfig's.
	namespace string
	// managers is the namespace of the manager.
	managers string
}

func (f *clusterFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "the kubeconfig (default $KUBECONFIG, or ~/.kube/config)")
	cmd.Flags().StringVar(&f.context, "context", "", "the context of the kubeconfig")
	cmd.Flags().StringVar(&f.managers, "manager-namespace", "kube-system", "the namespace of the manager")
}

func (f *clusterFlags) config() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.context})
}

// chosen: a person has named the cluster, and means it.
func (f *clusterFlags) chosen() bool { return f.kubeconfig != "" || f.context != "" }

// client returns the user's client of the API server.
func (f *clusterFlags) client() (*restclient.Config, kubernetes.Interface, error) {
	config, err := f.config().ClientConfig()
	if err != nil {
		return nil, nil, err
	}
	config.UserAgent = "ccmctl/" + version.Release()
	client, err := kubernetes.NewForConfig(config)
	return config, client, err
}

// objectNamespace is the namespace of the requested object.
func (f *clusterFlags) objectNamespace() string {
	if f.namespace != "" {
		return f.namespace
	}
	if namespace, _, err := f.config().Namespace(); err == nil {
		return namespace
	}
	return metav1.NamespaceDefault
}

// managerFlags locate the manager. Without --server its Pod is found, and
// reached through the API server.
type managerFlags struct {
	clusterFlags
	server, tokenFile, caFile string
	insecure                  bool
}

func (f *managerFlags) add(cmd *cobra.Command) {
	f.clusterFlags.add(cmd)
	cmd.Flags().StringVar(&f.server, "server", "", "the URL of a manager's secure port, such as https://10.0.0.1:10258, for one that is in no Pod")
	cmd.Flags().StringVar(&f.tokenFile, "token-file", "", "with --server: a file with the bearer token")
	cmd.Flags().StringVar(&f.caFile, "ca-file", "", "with --server: certificates in PEM that verify the manager")
	cmd.Flags().BoolVar(&f.insecure, "insecure-skip-tls-verify", false, "with --server: send the token to whoever answers there")
}

// managerClient sends requests to one manager.
type managerClient struct {
	server, token string
	http          *http.Client
	close         func()
	// fault is the error of a broken connection to the manager, if known; it may be nil.
	fault func() error
	// silent is an error about other managers that did not answer, or were not asked.
	silent error
}

// managerTimeout bounds one request.
const managerTimeout = 15 * time.Second

// direct is the client for --server.
func (f *managerFlags) direct() (*managerClient, error) {
	address, err := url.Parse(f.server)
	if err != nil || address.Scheme != "https" || address.Host == "" {
		return nil, fmt.Errorf("--server %s: must be a URL such as https://10.0.0.1:10258", text.Quote(f.server))
	}
	if f.tokenFile == "" {
		return nil, fmt.Errorf("--server needs --token-file: the manager answers nobody without a token (kubectl -n %s create token cloud-controller-manager-viewer)", f.managers)
	}
	token, err := readFile(f.tokenFile, maxSmall)
	if err != nil {
		return nil, err
	}
	trust := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: f.insecure}
	if f.caFile != "" {
		bundle, err := readFile(f.caFile, maxSmall)
		if err != nil {
			return nil, err
		}
		if trust.RootCAs = x509.NewCertPool(); !trust.RootCAs.AppendCertsFromPEM(bundle) {
			return nil, fmt.Errorf("%s: there is no certificate in it", f.caFile)
		}
	}
	client := newManagerClient(strings.TrimSuffix(address.String(), "/"), strings.TrimSpace(string(token)), trust, func() {})
	client.silent = errors.New("with --server no other manager is asked")
	return client, nil
}

func newManagerClient(server, token string, trust *tls.Config, end func()) *managerClient {
	transport := &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true}
	return &managerClient{server: server, token: token, http: &http.Client{
		Transport: transport, Timeout: managerTimeout,
		// The token is never sent to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, close: func() { transport.CloseIdleConnections(); end() }}
}

// get requests one answer of the manager's API.
func (c *managerClient) get(ctx context.Context, path string, query url.Values, into any) error {
	got, err := c.fetch(ctx, path, query.Encode(), v1alpha1.MaxAnswer)
	if err != nil {
		return err
	}
	return got.read(into)
}

// fetched is an answer with any status code.
type fetched struct {
	code   int
	header http.Header
	body   []byte
	// cut: the answer exceeds the limit.
	cut bool
}

// whole is the error of a failed or incomplete answer.
func (f *fetched) whole() error {
	switch {
	case f.code != http.StatusOK:
		return refusal(f.code, f.body)
	case f.cut:
		return fmt.Errorf("the answer has more than %d MiB, which no manager of this release sends: look at what answers there, and at its version", v1alpha1.MaxAnswer>>20)
	}
	return nil
}

// read decodes an answer of the manager's API.
func (f *fetched) read(into any) error {
	if err := f.whole(); err != nil {
		return err
	}
	return readAnswer(f.body, into)
}

// fetch requests one path, and reads at most so many bytes of the body.
func (c *managerClient) fetch(ctx context.Context, path, query string, most int64) (*fetched, error) {
	address := c.server + path
	if query != "" {
		address += "?" + query
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("User-Agent", "ccmctl/"+version.Release())
	response, err := c.http.Do(request)
	if err != nil {
		if c.fault != nil && c.fault() != nil {
			err = c.fault()
		}
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	size := min(int64(len(body)), most)
	return &fetched{response.StatusCode, response.Header, body[:size], int64(len(body)) > size}, err
}

// readAnswer decodes an answer, and makes its texts safe for a terminal: the
// server need not be a manager.
func readAnswer(data []byte, into any) error {
	var answer any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&answer); err != nil {
		return err
	}
	data, err := json.Marshal(plain(answer))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// plain turns each text into one line without control characters.
func plain(v any) any {
	switch v := v.(type) {
	case string:
		return text.Line(v, v1alpha1.MaxAnswer)
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = plain(v[key])
		}
	}
	return v
}

// refusal is the error of an unsuccessful answer.
func refusal(code int, data []byte) error {
	var said metav1.Status
	if json.Unmarshal(data, &said) != nil || said.Message == "" {
		said.Message = string(data)
	}
	said.Message = text.Line(said.Message, v1alpha1.MaxText)
	switch code {
	case http.StatusUnauthorized:
		return errors.New("the manager does not know who asks (401): is the token of this cluster, and not expired?")
	case http.StatusForbidden:
		return fmt.Errorf("the manager refuses (403): %s. The chart's ClusterRole wasm-ccm:viewer gives the right", said.Message)
	case http.StatusNotFound:
		if said.Reason == "" {
			return errors.New("the manager has no such path: it is older than this ccmctl")
		}
		return &apierrors.StatusError{ErrStatus: said}
	}
	return errors.New(said.Message)
}

// status requests the status.
func (c *managerClient) status(ctx context.Context) (*v1alpha1.Status, error) {
	var s v1alpha1.Status
	return &s, c.get(ctx, v1alpha1.StatusPath, nil, &s)
}

// why requests an explanation.
func (c *managerClient) why(ctx context.Context, o v1alpha1.Object) (*v1alpha1.Explanation, error) {
	var e v1alpha1.Explanation
	query := url.Values{"kind": {o.Kind}, "namespace": {o.Namespace}, "name": {o.Name}}
	if err := c.get(ctx, v1alpha1.WhyPath, query, &e); err != nil {
		return nil, err
	}
	if e.Kind != "Explanation" {
		return nil, errors.New("the answer is no explanation: is this manager older than ccmctl?")
	}
	return &e, nil
}

// reachability makes the manager connect to its granted hosts. If the manager
// is busy with another such request, it asks again.
func (c *managerClient) reachability(ctx context.Context) (*v1alpha1.Reachability, error) {
	var got *fetched
	err := wait.PollUntilContextTimeout(ctx, time.Second, managerTimeout, true, func(ctx context.Context) (bool, error) {
		var err error
		got, err = c.fetch(ctx, v1alpha1.ReachabilityPath, "", v1alpha1.MaxAnswer)
		return err == nil && got.code != http.StatusTooManyRequests, err
	})
	if err != nil {
		return nil, err
	}
	var r v1alpha1.Reachability
	return &r, got.read(&r)
}

// connect returns a client of the leading manager, or with orStandby of any.
// The caller closes it.
func (f *managerFlags) connect(ctx context.Context, orStandby bool) (*managerClient, error) {
	if f.server != "" {
		return f.direct()
	}
	config, client, err := f.client()
	if err != nil {
		return nil, err
	}
	return (&cluster{config: config, client: client, namespace: f.managers}).connect(ctx, orStandby)
}
