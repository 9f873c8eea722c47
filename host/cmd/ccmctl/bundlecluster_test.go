package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
)

// A bundle names what it cuts: each list of this cluster has one page more.
func TestABundleNamesWhatIsCut(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if limit := r.URL.Query().Get("limit"); limit != "500" && !strings.HasPrefix(r.URL.Path, "/apis/apps/") {
			t.Errorf("%s is listed with limit %q", r.URL, r.URL.Query().Get("limit"))
		}
		w.Header().Set("Content-Type", "application/json")
		kind := ""
		if strings.Contains(r.URL.Path, "/cloudproviders") { // its kind has no Go type
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
	c := &bundleCluster{bundle: &bundle{redactor: &redactor{}, contents: map[string]any{}}, config: config, client: client, namespace: "kube-system"}
	if err := c.providers(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := c.cloudProviders(t.Context()); err != nil {
		t.Error(err)
	}
	for _, read := range []func(context.Context) error{c.events, c.services, c.nodes, c.workloads} {
		if err := read(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if c.documents(); len(c.files) != 6 || slices.ContainsFunc(c.files, func(f archived) bool { return string(f.data) != "[]\n" }) {
		t.Errorf("of nothing there are %d files", len(c.files))
	}
	var said []string
	for _, err := range c.errors() {
		said = append(said, err.Error())
	}
	for _, want := range []string{"providers.json: there are more than 500 ConfigMaps of providers", "cloudproviders.json: there are more than 500 CloudProviders", "events.json: there are more than 500 Events of service-controller",
		"nodes.json: there are more than 500 Nodes", "services.json: there are more Services: 10000 were looked at",
	} {
		if !strings.Contains(strings.Join(said, "\n"), want) {
			t.Errorf("%q is not in %q", want, said)
		}
	}
}
