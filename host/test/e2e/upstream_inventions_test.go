//go:build upstream

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// What moto 5.1.1 does and AWS does not, where providers depend on it. The proxy
// before moto puts it right.

// noTopology is what AWS answers for types of instances that have none; moto
// does not know the question, and clients ask thrice.
const noTopology = `<DescribeInstanceTopologyResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>1</requestId><instanceSet/></DescribeInstanceTopologyResponse>`

// awsWrongID is a key that this cloud does not know. Moto takes all keys.
const awsWrongID = "AKIANOBODYKNOWSME000"

// refuse says what AWS says to a key that it does not know: EC2 with 401, load
// balancers with 403.
func refuse(w http.ResponseWriter, version string) {
	if version == awsVersions["ec2"] {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `<Response><Errors><Error><Code>AuthFailure</Code><Message>AWS was not able to validate the provided access credentials</Message></Error></Errors><RequestID>1</RequestID></Response>`)
		return
	}
	w.WriteHeader(http.StatusForbidden)
	_, _ = io.WriteString(w, `<ErrorResponse><Error><Type>Sender</Type><Code>InvalidClientTokenId</Code><Message>The security token included in the request is invalid.</Message></Error><RequestId>1</RequestId></ErrorResponse>`)
}

// classicName is a host name as moto gives it to network load balancers as well.
var classicName = regexp.MustCompile(`(<DNSName>[^<.]+)\.(` + awsRegion + `)\.elb\.amazonaws\.com<`)

// none is how moto writes what AWS leaves out: a certificate or a policy of a
// listener without TLS. Upstream makes such a listener anew each time.
var none = regexp.MustCompile(`<(\w+)>None</\w+>`)

// sslPolicy is moto's for listeners without TLS as well.
var sslPolicy = regexp.MustCompile(`(<Protocol>(?:TCP|UDP|TCP_UDP)</Protocol><Port>\d+</Port>)<SslPolicy>[^<]*</SslPolicy>`)

// asAWS gives network load balancers the host names that AWS gives them:
// upstream tells the kinds apart by the region, which is behind "elb".
func asAWS(r *http.Response) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return fmt.Errorf("an answer of moto: %w", err)
	}
	if bytes.Contains(body, []byte("/doc/2015-12-01/")) {
		body = classicName.ReplaceAll(body, []byte("$1.elb.$2.amazonaws.com<"))
	}
	body = sslPolicy.ReplaceAll(none.ReplaceAll(body, nil), []byte("$1"))
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}

var listenerPort = regexp.MustCompile(`^LoadBalancerPorts\.member\.\d+$`)

// oneByOne deletes one listener after the other. Moto, asked for two at once,
// doubles the others (elb/models.py, delete_load_balancer_listeners).
func oneByOne(w http.ResponseWriter, r *http.Request, form url.Values, forward http.Handler) {
	var last *httptest.ResponseRecorder
	for name, ports := range form {
		if !listenerPort.MatchString(name) {
			continue
		}
		body := url.Values{"Action": form["Action"], "Version": form["Version"], "LoadBalancerName": form["LoadBalancerName"], "LoadBalancerPorts.member.1": ports}.Encode()
		one := r.Clone(r.Context())
		one.Body, one.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		last = httptest.NewRecorder()
		forward.ServeHTTP(last, one)
	}
	if last == nil {
		forward.ServeHTTP(w, r)
		return
	}
	for name, values := range last.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(last.Code)
	_, _ = w.Write(last.Body.Bytes()) // the client may be gone
}
