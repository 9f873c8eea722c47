package devcluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// tokenSeconds is how long a ServiceAccount's kubeconfig works.
const tokenSeconds = 24 * 3600

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// UserKubeconfig makes a user by a client certificate and returns the path of
// its kubeconfig. What the user may do is up to RBAC. In an existing cluster it
// is the administrator.
func (c *Cluster) UserKubeconfig(name string, groups ...string) (string, error) {
	if c.existing {
		return c.kubeconfig, nil
	}
	user, err := c.env.AddUser(envtest.User{Name: name, Groups: groups}, nil)
	if err != nil {
		return "", fmt.Errorf("make user %s: %w", name, err)
	}
	return c.write("user-"+name, user.Config())
}

// ServiceAccountKubeconfig asks for a token of an existing ServiceAccount and
// returns the path of a kubeconfig with it.
func (c *Cluster) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	client, err := kubernetes.NewForConfig(c.env.Config)
	if err != nil {
		return "", err
	}
	seconds := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	config := rest.AnonymousClientConfig(c.env.Config)
	config.BearerToken = answer.Status.Token
	return c.write("sa-"+namespace+"-"+name, config)
}

// write makes a kubeconfig of the server and the identity (certificate or token)
// of config, readable by the owner only.
func (c *Cluster) write(user string, config *rest.Config) (string, error) {
	const name = "wasm-ccm-dev"
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server:                   config.Host,
			CertificateAuthorityData: config.CAData,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {
			ClientCertificateData: config.CertData,
			ClientKeyData:         config.KeyData,
			Token:                 config.BearerToken,
		}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err != nil {
		return "", fmt.Errorf("encode a kubeconfig: %w", err)
	}
	path := filepath.Join(c.options.Dir, user+".kubeconfig")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return "", fmt.Errorf("write a kubeconfig: %w", err)
	}
	return path, nil
}
