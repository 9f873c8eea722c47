// A guest that decodes JSON as a provider decodes a cloud's answer: the meter's benchmark on
// real code. It is built by build.sh.
package main

import "encoding/json"

// server is what a provider reads of a cloud's answer.
type server struct {
	ID, Name, Status, Flavor, Zone string
	Addresses                      map[string][]address
	Metadata                       map[string]string
	Volumes                        []string
	Locked                         bool
	Cores, Memory                  int
}

type address struct {
	Addr    string
	Version int
	MAC     string
}

var document = makeDocument()

func makeDocument() []byte {
	var all []server
	for i := range 700 {
		n := string([]byte{'0' + byte(i/100), '0' + byte(i/10%10), '0' + byte(i%10)})
		all = append(all, server{
			ID: "7c9e6679-7425-40de-944b-e07fc1f90" + n, Name: "worker-" + n, Status: "ACTIVE", Flavor: "m1.large", Zone: "zone-a",
			Addresses: map[string][]address{"internal": {{"10.0.0." + n, 4, "fa:16:3e:00:00:01"}}, "external": {{"203.0.113." + n, 4, "fa:16:3e:00:00:02"}}},
			Metadata:  map[string]string{"role": "worker", "cluster": "kubernetes"},
			Volumes:   []string{"f9c2-" + n}, Cores: 4, Memory: 16384,
		})
	}
	b, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return b
}

//go:wasmexport size
func size(int32) int32 { return int32(len(document)) }

//go:wasmexport decode
func decode(int32) int32 {
	var all []server
	if err := json.Unmarshal(document, &all); err != nil {
		panic(err)
	}
	return int32(len(all))
}

func main() {}
