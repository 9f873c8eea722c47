package e2e

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// keystone stands in for the Identity API v3 of OpenStack, as far as a password
// is exchanged for a token. guests/signer-keystone is tested with the real one.
type keystone struct {
	mu       sync.Mutex
	password string
	given    int
	good     string // the token that OpenStack takes, "" for none
}

func (k *keystone) takePassword(password string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.password = password
}

func (k *keystone) tokens() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.given
}

func (k *keystone) revoke() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.good = ""
}

func (k *keystone) isGood(token string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return token != "" && token == k.good
}

// login answers POST /v3/auth/tokens.
func (k *keystone) login(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Auth struct {
			Identity struct {
				Password struct {
					User struct{ Name, Password string }
				}
			}
		}
	}
	err := json.NewDecoder(io.LimitReader(r.Body, 64<<10)).Decode(&body)
	k.mu.Lock()
	defer k.mu.Unlock()
	user := body.Auth.Identity.Password.User
	if err != nil || user.Name != "ccm-user" || user.Password != k.password {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":{"code":401,"title":"Unauthorized","message":"The request you have made requires authentication."}}`)
		return
	}
	k.given++
	k.good = fmt.Sprintf("gAAAAABtoken-of-the-script-%d", k.given)
	now := time.Now().UTC()
	w.Header().Set("X-Subject-Token", k.good)
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"token":{"issued_at":%q,"expires_at":%q}}`, now.Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339))
}

// openStack is an API that takes tokens of Keystone.
func (c *cloud) openStack(w http.ResponseWriter, r *http.Request) {
	token := r.Header.Get("X-Auth-Token")
	status := http.StatusOK
	if !c.keystone.isGood(token) {
		status = http.StatusUnauthorized
	}
	c.saw(fmt.Sprintf("X-Auth-Token %s: %d", token, status))
	reflect(w, status, token, token)
}

// cloudstack stands in for the API of Apache CloudStack, whose requests have a
// signature. guests/signer-cloudstack has signatures of other implementations.
type cloudstack struct {
	mu  sync.Mutex
	key string
}

func (s *cloudstack) takeKey(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = key
}

// signature is of the sorted parameters. Those of the script sort alike with
// and without upper case, and have no character that Go and Java encode
// differently.
func (s *cloudstack) signature(parameters url.Values) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	mac := hmac.New(sha1.New, []byte(s.key))
	_, _ = io.WriteString(mac, strings.ToLower(parameters.Encode())) // never fails
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func (c *cloud) cloudStack(w http.ResponseWriter, r *http.Request) {
	parameters := r.URL.Query()
	signature := parameters.Get("signature")
	parameters.Del("signature")
	status := http.StatusOK
	if signature != c.cloudstack.signature(parameters) {
		status = http.StatusUnauthorized
	}
	c.saw(fmt.Sprintf("signature by %s: %d", parameters.Get("apikey"), status))
	reflect(w, status, r.URL.RawQuery, signature)
}
