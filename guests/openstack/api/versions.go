package api

import (
	"encoding/json"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// Versions reads a service's API versions, e.g. "v2.0", "v2.26". It is one
// call, and not cached.
func (c *Client) Versions(service Service) ([]string, error) {
	endpoint, err := c.endpoint(service)
	if err != nil {
		return nil, err
	}
	req := c.plain("GET", strings.TrimSuffix(endpoint, types[service].version)+"/", nil)
	response, err := c.op.HTTP().Do(req)
	result := sdk.HTTPResult{Response: response, Err: err}
	if err == nil && response.Status == 300 { // the status of some services for a list of versions
		result.Response.Status = 200
	}
	members, err := answer(req, result)
	if err != nil {
		return nil, err
	}
	var versions []struct{ ID string }
	if err := json.Unmarshal(members["versions"], &versions); err != nil || len(versions) == 0 {
		return nil, broken(req, "it has no versions")
	}
	ids := make([]string, len(versions))
	for i, v := range versions {
		ids[i] = v.ID
	}
	return ids, nil
}
