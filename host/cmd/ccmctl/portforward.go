package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/klog/v2"
	streamhttp "k8s.io/streaming/pkg/httpstream"

	"github.com/wasm-ccm/wasm-ccm/host/internal/check"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// The chart's names of the manager, its Lease, and its API's reader.
const (
	managerName = "cloud-controller-manager"
	viewerName  = managerName + "-viewer"
	selector    = "app.kubernetes.io/name=" + managerName
)

// viewerSeconds is the lifetime of the viewer's token, the API server's
// minimum.
const viewerSeconds = 600

// cluster finds managers in Pods.
type cluster struct {
	config    *restclient.Config
	client    kubernetes.Interface
	namespace string
}

// connect forwards a port of the leader's Pod, or with orStandby of another
// one's. The manager gets a short-lived token of the ServiceAccount viewerName:
// the user's own credential stays with the API server.
func (c *cluster) connect(ctx context.Context, orStandby bool) (*managerClient, error) {
	pods, err := c.pods(ctx)
	if err != nil {
		return nil, err
	}
	token, err := c.token(ctx)
	if err != nil {
		return nil, err
	}
	var standby *managerClient
	var failed []error
	for _, pod := range pods {
		if what, mend := check.Fault(&pod); what != "" {
			failed = append(failed, fmt.Errorf("pod %s: %s -> %s", pod.Name, text.Line(what, v1alpha1.MaxText), text.Line(mend, v1alpha1.MaxText)))
			continue
		}
		found, err := c.forward(ctx, pod, token)
		if err != nil {
			failed = append(failed, fmt.Errorf("pod %s: %w", pod.Name, err))
			continue
		}
		status, err := found.status(ctx)
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("pod %s: %w", pod.Name, err))
			found.close()
		case status.Manager.Leads:
			if standby != nil {
				standby.close()
			}
			return found, nil
		case standby == nil:
			standby = found
		default:
			found.close()
		}
	}
	if standby != nil && orStandby {
		standby.silent = errors.Join(failed...)
		return standby, nil
	}
	if standby != nil {
		standby.close()
		failed = append(failed, errors.New("no manager leads: kubectl -n "+c.namespace+" get lease "+managerName))
	}
	return nil, errors.Join(failed...)
}

// pods are the manager's running Pods, the Lease's holder first.
func (c *cluster) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := c.client.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	running := slices.DeleteFunc(slices.Clone(list.Items), func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning })
	if len(running) == 0 {
		return nil, c.nobody(ctx, list.Items)
	}
	holder := ""
	if lease, err := c.client.CoordinationV1().Leases(c.namespace).Get(ctx, managerName, metav1.GetOptions{}); err == nil && lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	holds := func(p corev1.Pod) int {
		if strings.HasPrefix(holder, p.Name+"_") || strings.HasPrefix(holder, p.Spec.NodeName+"_") {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(running, func(a, b corev1.Pod) int { return cmp.Compare(holds(a), holds(b)) })
	return running, nil
}

// nobody is the error without a running Pod of the manager.
func (c *cluster) nobody(ctx context.Context, pods []corev1.Pod) error {
	missing := check.Missing(ctx, c.client, c.namespace, pods)
	if len(missing) == 1 && missing[0].Reason == report.NotInstalled {
		return fmt.Errorf("no manager is installed in namespace %s: it has no DaemonSet and no Deployment %s. Install one (deploy/docs/install.md), or say where it is: --manager-namespace, or --server for one in no Pod", c.namespace, managerName)
	}
	said := fmt.Sprintf("no Pod of the manager runs in namespace %s (kubectl -n %[1]s get pods -l %[2]s); is it in another (--manager-namespace), or in no Pod (--server)?", c.namespace, selector)
	for _, f := range missing {
		said += fmt.Sprintf(" %s: %s", f.Where, f.What)
		if f.Mend != "" {
			said += " -> " + f.Mend
		}
		said += "."
	}
	return errors.New(said)
}

// token requests a token of the viewer.
func (c *cluster) token(ctx context.Context) (string, error) {
	seconds := int64(viewerSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := c.client.CoreV1().ServiceAccounts(c.namespace).CreateToken(ctx, viewerName, request, metav1.CreateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("there is no ServiceAccount %s/%s, as whom ccmctl reads the manager's API: run helm upgrade with this release's chart", c.namespace, viewerName)
	case err != nil:
		return "", fmt.Errorf("token of the ServiceAccount %s/%s, as whom ccmctl reads the manager's API: %w", c.namespace, viewerName, err)
	}
	return answer.Status.Token, nil
}

// forward opens a local port that leads to the manager's secure port. The manager's
// own certificate is not verified: the API server identifies the Pod.
func (c *cluster) forward(ctx context.Context, pod corev1.Pod, token string) (*managerClient, error) {
	dialer, err := c.dialer(pod)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	fault := &forwardFault{}
	ready, ended := make(chan struct{}), make(chan error, 1)
	port := fmt.Sprintf("0:%d", securePort(pod))
	forwarder, err := portforward.NewOnAddressesForStreamingWithContext(klog.NewContext(ctx, logr.New(fault)), dialer, []string{"127.0.0.1"}, []string{port}, ready, io.Discard, io.Discard)
	if err != nil {
		cancel()
		return nil, err
	}
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		cancel()
		return nil, fmt.Errorf("port-forward: %w", err)
	case <-time.After(managerTimeout): // its node may be away
		cancel()
		return nil, fmt.Errorf("port-forward: no answer in %v", managerTimeout)
	case <-ctx.Done():
		cancel()
		return nil, ctx.Err()
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		cancel()
		return nil, err
	}
	server := fmt.Sprintf("https://127.0.0.1:%d", ports[0].Local)
	client := newManagerClient(server, token, &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, cancel)
	client.fault = fault.last
	return client, nil
}

// dialer is kubectl's: a WebSocket, or SPDY for older API servers.
func (c *cluster) dialer(pod corev1.Pod) (streamhttp.Dialer, error) {
	address := c.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, address)
	tunnel, err := portforward.NewSPDYOverWebsocketDialerForStreaming(address, c.config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(tunnel, old, func(err error) bool {
		return streamhttp.IsUpgradeFailure(err) || streamhttp.IsHTTPSProxyError(err)
	}), nil
}

// securePort is the container's port with the chart's name for it.
func securePort(pod corev1.Pod) int32 {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == "https" {
				return port.ContainerPort
			}
		}
	}
	return 10258
}
