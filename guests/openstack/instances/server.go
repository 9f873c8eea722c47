package instances

import (
	"fmt"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// server has the fields of Nova's servers that are used.
type server struct {
	ID         string                     `json:"id"`
	Name       string                     `json:"name"`
	Status     string                     `json:"status"`
	AccessIPv4 string                     `json:"accessIPv4"`
	AccessIPv6 string                     `json:"accessIPv6"`
	Metadata   map[string]string          `json:"metadata"`
	Addresses  map[string][]serverAddress `json:"addresses"`
	Zone       string                     `json:"OS-EXT-AZ:availability_zone"`
	Flavor     flavor                     `json:"flavor"`
}

type serverAddress struct {
	Address string `json:"addr"`
	Kind    string `json:"OS-EXT-IPS:type"`
}

// flavor has the name, or in Nova's old microversions the ID.
type flavor struct {
	ID   string `json:"id"`
	Name string `json:"original_name"`
}

// power: a SUSPENDED or PAUSED server keeps its work in memory and can resume.
func (s *server) power() sdk.PowerState {
	switch s.Status {
	case "SHUTOFF", "SHELVED", "SHELVED_OFFLOADED", "SOFT_DELETED":
		return sdk.Shutdown
	}
	return sdk.On
}

// gone: SOFT_DELETED is not gone, since it can be restored.
func (s *server) gone() bool { return s.Status == "DELETED" }

// check refuses an answer of another kind, which must not pass for a server.
func (s *server) check() error {
	id := canonical(s.ID)
	if id == "" {
		return sdk.Error(abi.CodeInternal, fmt.Sprintf("the cloud's answer cannot be used: a server has the ID %.60q, which is no UUID", s.ID))
	}
	s.ID = id
	return nil
}

func checkAll(servers []*server) error {
	for _, s := range servers {
		if s == nil {
			return sdk.Error(abi.CodeInternal, "the cloud's answer cannot be used: a server is null")
		}
		if err := s.check(); err != nil {
			return err
		}
	}
	return nil
}

func serverRead(id string, out *server) *api.Read {
	return &api.Read{Service: api.Compute, Path: "/servers/" + api.Segment(id), Key: "server", Out: out}
}

// oldVersion is a microversion that every Nova has. With it the flavor of a
// server has its ID, not its name.
const oldVersion = "2.1"

func (i *Instances) oldServer(id string) ([]*server, error) {
	s := &server{}
	read := serverRead(id, s)
	read.Version = oldVersion
	if err := i.client.Reads(read)[0]; err != nil {
		return nil, err
	}
	return []*server{s}, nil
}
