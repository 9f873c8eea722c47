// Command vcsim is govmomi's simulator of a vCenter on loopback, for tests: one
// datacenter with tags for region and zone, one user, and machines whose guests
// have names and addresses. It prints one line of JSON, and serves until its
// input ends. Each line of it is the name of a machine that is destroyed; then it
// prints the name.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"net/url"
	"os"
)

func main() {
	user := flag.String("user", "administrator@vsphere.local", "the name of the user")
	machines := flag.Int("machines", 3, "how many virtual machines there are")
	flag.Parse()
	// Not a flag: those are seen by everybody on the machine.
	if err := run(url.UserPassword(*user, os.Getenv("VCSIM_PASSWORD")), *machines); err != nil {
		fmt.Fprintln(os.Stderr, "vcsim:", err)
		os.Exit(1)
	}
}

// told is what the command prints.
type told struct {
	Host string `json:"host"`
	Port string `json:"port"`
	// CA is the certificate of the server, in PEM.
	CA string `json:"ca"`
	// Machines are names by UUID.
	Machines map[string]string `json:"machines"`
}

func run(user *url.Userinfo, machines int) error {
	ctx := context.Background()
	v, err := newVCenter(ctx, user, machines)
	if err != nil {
		return err
	}
	defer v.close()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: v.Certificate().Raw})
	if err := json.NewEncoder(os.Stdout).Encode(told{v.URL.Hostname(), v.URL.Port(), string(certificate), v.machines}); err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err := v.destroy(ctx, lines.Text()); err != nil {
			return err
		}
		fmt.Println(lines.Text())
	}
	return nil
}
