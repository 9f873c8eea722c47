package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
)

// What a bundle has no room for is named: each list of this cluster has one more page.
func TestABundleNamesWhatIsCut(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("limit") != "500" {
			t.Errorf("%s is listed with limit %q", r.URL, r.URL.Query().Get("limit"))
		}
		w.Header().Set("Content-Type", "application/json")
		kind := ""
		if strings.Contains(r.URL.Path, "/cloudproviders") { // no Go type names its kind
			kind = `"kind": "CloudProviderList", "apiVersion": "config.wasm-ccm.dev/v1alpha1", `
		}
		_, _ = io.WriteString(w, `{`+kind+`"metadata": {"continue": "more"}, "items": []}`)
	}))
	t.Cleanup(server.Close)
	config := &restclient.Config{Host: server.URL}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c := &bundleCluster{bundle: &bundle{redactor: &redactor{}}, config: config, client: client, namespace: "kube-system"}
	if err := c.providers(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := c.cloudProviders(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := c.eventsIn(t.Context(), ""); err != nil {
		t.Error(err)
	}
	var said []string
	for _, err := range c.errors() {
		said = append(said, err.Error())
	}
	for _, want := range []string{"providers.json: there are more than 500 ConfigMaps of providers", "cloudproviders.json: there are more than 500 CloudProviders", "events.txt: there are more than 500 Events of service-controller"} {
		if !strings.Contains(strings.Join(said, "\n"), want) {
			t.Errorf("%q is not in %q", want, said)
		}
	}
}
