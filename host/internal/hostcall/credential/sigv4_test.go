package credential

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// The key pair and the time of AWS's published examples.
const (
	awsKeyID  = "AKIDEXAMPLE"
	awsSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
)

var awsTime = time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)

func newAWSSet(t *testing.T, spec AWSSigV4, more ...string) *Set {
	t.Helper()
	secrets := newFakeSecrets(append([]string{"access_key_id", awsKeyID, "secret_access_key", awsSecret}, more...)...)
	set, err := NewSet(secrets, []Spec{{Name: "cloud", Secret: secretName, AWSSigV4: &spec}}, Options{Clock: clocktesting.NewFakePassiveClock(awsTime)})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestSigV4PublishedExamples(t *testing.T) {
	tests := map[string]struct{ service, url, contentType, want string }{
		"get-vanilla": {
			service: "service", url: "https://example.amazonaws.com/",
			want: "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
		},
		"ListUsers of IAM": {
			service: "iam", url: "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08", contentType: "application/x-www-form-urlencoded; charset=utf-8",
			want: "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			if test.contentType != "" {
				req.Header.Set("Content-Type", test.contentType)
			}
			set := newAWSSet(t, AWSSigV4{Region: "us-east-1", Service: test.service})
			if err := apply(t.Context(), set, "cloud", "", req); err != nil {
				t.Fatal(err)
			}
			got := req.Header.Get("Authorization")
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if scrubbed := string(set.Scrub([]byte(got))); strings.Contains(scrubbed, test.want[len(test.want)-64:]) || strings.Contains(scrubbed, awsKeyID) {
				t.Errorf("not scrubbed: %s", scrubbed)
			}
		})
	}
}

// TestSigV4AtAServer has a server recompute the signature from what it got.
func TestSigV4AtAServer(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if got, want := r.Header.Get("Authorization"), expectedSigV4(r, body); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
			w.WriteHeader(http.StatusForbidden)
		}
	})
	set := newAWSSet(t, AWSSigV4{Region: "eu-central-1", Service: "ec2"}, "session_token", "the session's token")
	for name, request := range map[string][3]string{
		"query":   {"GET", "/?b=2&a=1&a=0&space=x%20y&plus=%2B", ""},
		"body":    {"POST", "/path/to", "Action=DescribeInstances&Version=2016-11-15"},
		"escaped": {"GET", "/a%20b/%C3%A4", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := send(t, set, "", request[0], server+request[1], request[2],
				"Authorization", "the guest's", "X-Amz-Security-Token", "the guest's", "X-Amz-Target", "Some.Op", "User-Agent", "test")
			if got.status != http.StatusOK {
				t.Error("the server refused the signature")
			}
		})
	}
	if got := string(set.Scrub([]byte("the session's token"))); got != "[scrubbed:cloud]" {
		t.Errorf("the session's token is not scrubbed: %q", got)
	}
}

func TestSigV4ForS3(t *testing.T) {
	url, last := record(t)
	set := newAWSSet(t, AWSSigV4{Region: "eu-central-1", Service: "s3"})
	send(t, set, "", "PUT", url+"/bucket/key", "content", "X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD", "X-Amz-Security-Token", "the guest's")
	if got := last.Header.Get("X-Amz-Security-Token"); got != "" {
		t.Errorf("the guest's token was sent: %q", got)
	}
	sum := sha256.Sum256([]byte("content"))
	if got := last.Header.Get("X-Amz-Content-Sha256"); got != hex.EncodeToString(sum[:]) {
		t.Errorf("the hash is %q", got)
	}
}

// expectedSigV4 follows the steps of AWS's documentation "Create a signed AWS
// API request".
func expectedSigV4(r *http.Request, body []byte) string {
	_, list, _ := strings.Cut(r.Header.Get("Authorization"), "SignedHeaders=")
	list, _, _ = strings.Cut(list, ",")
	var headers strings.Builder
	for name := range strings.SplitSeq(list, ";") {
		value := r.Header.Get(name)
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = fmt.Sprint(r.ContentLength)
		}
		fmt.Fprintf(&headers, "%s:%s\n", name, value)
	}
	for _, must := range []string{"host", "x-amz-date", "x-amz-security-token", "x-amz-target"} {
		if !slices.Contains(strings.Split(list, ";"), must) {
			return "a signature over " + must
		}
	}
	var pairs []string
	for name, values := range r.URL.Query() {
		for _, v := range values {
			pairs = append(pairs, uriEncode(name)+"="+uriEncode(v))
		}
	}
	slices.Sort(pairs)
	segments := strings.Split(r.URL.EscapedPath(), "/")
	for i := range segments {
		segments[i] = uriEncode(segments[i])
	}
	canonical := strings.Join([]string{r.Method, strings.Join(segments, "/"), strings.Join(pairs, "&"), headers.String(), list, hexSHA256(body)}, "\n")
	date := r.Header.Get("X-Amz-Date")
	scope := date[:8] + "/eu-central-1/ec2/aws4_request"
	toSign := "AWS4-HMAC-SHA256\n" + date + "\n" + scope + "\n" + hexSHA256([]byte(canonical))
	key := []byte("AWS4" + awsSecret)
	for _, part := range append(strings.Split(scope, "/"), toSign) {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	return fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%x", awsKeyID, scope, list, key)
}

func uriEncode(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

func hexSHA256(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
