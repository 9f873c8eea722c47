package upstream

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// refusal says that the cloud refused a request, and who has to do with it: a
// request that no rule is for bears what the provider itself has for a secret,
// which is a dummy.
func refusal(request *abi.HttpRequest, status int32) string {
	if status != http.StatusUnauthorized && status != http.StatusForbidden {
		return ""
	}
	said := fmt.Sprintf("%s was answered %d: ", line(request), status)
	if request.Credential != "" {
		return said + fmt.Sprintf("the credentials are refused, or may not do it; the host added its credential %s", request.Credential)
	}
	host := "this host"
	if u, err := url.Parse(request.Url); err == nil {
		host = u.Hostname()
	}
	return said + fmt.Sprintf("the host added no credential, since no line of requests in the configuration is for %s with one", host)
}

// unreachable says why a connection of the provider's own failed, or "". A guest
// has no sockets: who dials has found none of the ways to the host, and reads
// of its own loopback, or of no name server, that nobody answers.
func unreachable(err error) string {
	var dial *net.OpError
	if !errors.As(err, &dial) || dial.Op != "dial" {
		return ""
	}
	if at, ok := dial.Addr.(*net.TCPAddr); ok && at.IP.IsLoopback() {
		return fmt.Sprintf("%s is the guest's own loopback: for a cloud on that of the manager, name it in loopback of the configuration: [http://%s]", at, at)
	}
	return "the guest has no sockets: this client uses neither http.DefaultTransport nor the proxy of the environment (http.ProxyFromEnvironment), so give it upstream.Environment.Transport"
}
