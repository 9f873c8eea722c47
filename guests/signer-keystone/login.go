package main

import (
	"encoding/json"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// The secret keys of the Secret. The others name the user and the scope.
const (
	keyPassword  = "password"
	keyAppSecret = "application_credential_secret"
	keyToken     = "token"
)

// login is a way to one token.
type login struct {
	identity identity
	scope    scope
	secret   string // the password or the like
	// of identifies user and scope: a state from another configuration is not
	// used. If the Secret changes the host itself drops the state.
	of string
}

// identity is the user, in the form of the Identity API.
type identity struct {
	Methods               []string       `json:"methods"`
	Password              *byPassword    `json:"password,omitempty"`
	ApplicationCredential *appCredential `json:"application_credential,omitempty"`
	Token                 *object        `json:"token,omitempty"`
}

type byPassword struct {
	User *object `json:"user"`
}

type appCredential struct {
	ID     string  `json:"id,omitempty"`
	Name   string  `json:"name,omitempty"`
	Secret string  `json:"secret"`
	User   *object `json:"user,omitempty"`
}

// login reads the Secret, whose keys are those of the section auth of
// clouds.yaml.
func (c *config) login(req *abi.SignRequest) (*login, error) {
	values, err := secretValues(req)
	if err != nil {
		return nil, err
	}
	l := &login{}
	if l.identity, l.secret, err = identityOf(values); err != nil {
		return nil, err
	}
	byDefault, err := scopeOf(values)
	if err != nil {
		return nil, sdk.Invalidf("the Secret: %v", err)
	}
	if byDefault.isZero() {
		byDefault = c.scope
	}
	if l.scope, err = c.wanted(req.Scope, byDefault); err != nil {
		return nil, err
	}
	s := &l.scope
	if l.identity.ApplicationCredential != nil && (s.Domain != nil || s.System != nil || s.unscoped) {
		return nil, sdk.Invalidf("an application credential is good for its project only, not for a domain, the system or unscoped")
	}
	of, err := json.Marshal(s.body())
	l.of = c.authURL + " " + string(of)
	return l, err
}

// secretValues returns the known keys and ignores others.
func secretValues(req *abi.SignRequest) (map[string]string, error) {
	keys := append(scopeKeys(), keyPassword, keyAppSecret, keyToken, "user_id", "username", "user_domain_id",
		"user_domain_name", "application_credential_id", "application_credential_name")
	values := map[string]string{}
	for _, key := range keys {
		value, err := sdk.OptionalSecret(req, key)
		if err != nil {
			return nil, err
		}
		if value != "" {
			values[key] = value
		}
	}
	return values, nil
}

// identityOf takes the only method of the Secret, and returns its secret part.
func identityOf(values map[string]string) (identity, string, error) {
	password, appSecret, token := values[keyPassword], values[keyAppSecret], values[keyToken]
	n := 0
	for _, value := range []string{password, appSecret, token} {
		if value != "" {
			n++
		}
	}
	if n != 1 {
		return identity{}, "", sdk.Invalidf("the Secret has %d of the keys %s, %s and %s: give one", n, keyPassword, keyAppSecret, keyToken)
	}
	if token != "" {
		return identity{Methods: []string{"token"}, Token: &object{ID: token}}, token, nil
	}
	values = map[string]string{
		"user_id": values["user_id"], "user_name": values["username"],
		"user_domain_id": values["user_domain_id"], "user_domain_name": values["user_domain_name"],
		"id": values["application_credential_id"], "name": values["application_credential_name"],
	}
	user := objectOf(values, "user")
	isUser := user != nil && (user.ID != "" || user.Name != "" && user.Domain != nil)
	if appSecret != "" {
		credential, err := appCredentialOf(values, appSecret, user, isUser)
		return identity{Methods: []string{"application_credential"}, ApplicationCredential: credential}, appSecret, err
	}
	if !isUser {
		return identity{}, "", sdk.Invalidf("the Secret names no user: give user_id, or username with user_domain_name or user_domain_id")
	}
	user.Password = password
	return identity{Methods: []string{"password"}, Password: &byPassword{user}}, password, nil
}

func appCredentialOf(values map[string]string, secret string, user *object, isUser bool) (*appCredential, error) {
	switch {
	case values["id"] != "":
		return &appCredential{ID: values["id"], Secret: secret}, nil
	case values["name"] != "" && isUser:
		return &appCredential{Name: values["name"], Secret: secret, User: user}, nil
	}
	return nil, sdk.Invalidf("the Secret does not say which application credential: give application_credential_id, " +
		"or application_credential_name with user_id, or username with user_domain_name")
}

// tokenRequest asks for a token. It omits the catalog, which can be large; a
// provider reads it with its token.
func (l *login) tokenRequest(authURL string, held *token) (*abi.SignResponse, error) {
	var body struct {
		Auth struct {
			Identity identity `json:"identity"`
			Scope    any      `json:"scope,omitempty"`
		} `json:"auth"`
	}
	body.Auth.Identity = l.identity
	if l.identity.ApplicationCredential == nil { // they have their own scope and may not ask for one
		body.Auth.Scope = l.scope.body()
	}
	encoded, err := json.Marshal(&body)
	if err != nil {
		return nil, sdk.Error(abi.CodeInternal, "encoding the token request failed") // the error could show values
	}
	state, err := held.encode()
	if err != nil {
		return nil, err
	}
	return &abi.SignResponse{State: state, TokenRequest: &abi.HttpRequest{
		Method: "POST", Url: authURL + "/auth/tokens?nocatalog", Body: encoded,
		Headers: []*abi.HttpHeader{{Name: "Content-Type", Value: "application/json"}, {Name: "Accept", Value: "application/json"}},
	}}, nil
}
