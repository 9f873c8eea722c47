package upstream

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// refusal says that the cloud refused a request, and whom it concerns: without
// a rule a request carries the provider's own secret, which is a dummy.
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

// missing names what a provider sought in the guest in vain, or "". A provider
// that dials has missed all ways to the host: it is told that nobody answers on
// its own loopback, or that there is no name server. Files fail as if they were
// closed.
func missing(err error) string {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		if at, ok := dial.Addr.(*net.TCPAddr); ok && at.IP.IsLoopback() {
			return fmt.Sprintf("this is the guest's own loopback; for the manager's, add to the configuration loopback: [http://%s]", at)
		}
		return "a guest has no sockets: this client must use http.DefaultTransport, http.ProxyFromEnvironment or upstream.Environment.Transport"
	}
	var file *fs.PathError
	if errors.As(err, &file) && errors.Is(file.Err, syscall.EBADF) {
		return "a guest has no files: give the provider what this one holds by env, flags or cloudConfig of the configuration; of a secret a dummy, the host adds it to requests"
	}
	return ""
}
