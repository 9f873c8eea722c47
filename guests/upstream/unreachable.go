package upstream

import (
	"errors"
	"fmt"
	"net"
)

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
