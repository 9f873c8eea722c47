package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/url"

	"github.com/vmware/govmomi"
	_ "github.com/vmware/govmomi/lookup/simulator" // registers itself
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/sts/simulator" // registers itself
	"github.com/vmware/govmomi/vapi/rest"
	_ "github.com/vmware/govmomi/vapi/simulator" // registers itself
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/types"
)

// Categories and tags of the datacenter, by which a provider finds its zone.
const (
	regionCategory, region = "k8s-region", "region-a"
	zoneCategory, zone     = "k8s-zone", "zone-a"
)

// vCenter is a simulated one.
type vCenter struct {
	*simulator.Server
	model *simulator.Model
	// machines are the names of the virtual machines and of their guests, by
	// their BIOS' UUIDs.
	machines map[string]string
}

// newVCenter serves a datacenter with a cluster and so many machines on loopback,
// at a port that the kernel chooses, over TLS. It takes one user and password.
func newVCenter(ctx context.Context, user *url.Userinfo, machines int) (*vCenter, error) {
	v := &vCenter{model: simulator.VPX(), machines: map[string]string{}}
	v.model.Host, v.model.Machine = 0, machines
	if err := v.model.Create(); err != nil {
		return nil, fmt.Errorf("make the inventory: %w", err)
	}
	v.nameMachines()
	v.model.Service.RegisterEndpoints = true
	v.model.Service.TLS = new(tls.Config)
	v.model.Service.Listen = &url.URL{User: user, Host: "127.0.0.1:0"}
	v.Server = v.model.Service.NewServer()
	return v, v.tagDatacenter(ctx)
}

// nameMachines gives each machine what its tools tell of the guest: a host name
// and an address.
func (v *vCenter) nameMachines() {
	for i, entity := range simulator.Map.All("VirtualMachine") {
		vm := entity.(*simulator.VirtualMachine)
		vm.Guest.HostName = fmt.Sprintf("node-%d", i)
		vm.Guest.Net = []types.GuestNicInfo{{Network: "VM Network", IpAddress: []string{fmt.Sprintf("10.0.0.%d", 10+i)}}}
		v.machines[vm.Config.Uuid] = vm.Guest.HostName
	}
}

func (v *vCenter) tagDatacenter(ctx context.Context) error {
	client, err := govmomi.NewClient(ctx, v.URL, true)
	if err != nil {
		return fmt.Errorf("log in: %w", err)
	}
	api := rest.NewClient(client.Client)
	if err := api.Login(ctx, v.URL.User); err != nil {
		return fmt.Errorf("log in at the API: %w", err)
	}
	manager := tags.NewManager(api)
	datacenter := simulator.Map.Any("Datacenter").Reference()
	for category, tag := range map[string]string{regionCategory: region, zoneCategory: zone} {
		id, err := manager.CreateCategory(ctx, &tags.Category{Name: category})
		if err != nil {
			return fmt.Errorf("create the category %s: %w", category, err)
		}
		if id, err = manager.CreateTag(ctx, &tags.Tag{CategoryID: id, Name: tag}); err != nil {
			return fmt.Errorf("create the tag %s: %w", tag, err)
		}
		if err := manager.AttachTag(ctx, id, datacenter); err != nil {
			return fmt.Errorf("attach the tag %s: %w", tag, err)
		}
	}
	if err := api.Logout(ctx); err != nil {
		return fmt.Errorf("log out: %w", err)
	}
	return client.Logout(ctx)
}

// destroy removes the machine whose guest has that name.
func (v *vCenter) destroy(ctx context.Context, name string) error {
	client, err := govmomi.NewClient(ctx, v.URL, true)
	if err != nil {
		return fmt.Errorf("log in: %w", err)
	}
	for _, entity := range simulator.Map.All("VirtualMachine") {
		vm := entity.(*simulator.VirtualMachine)
		if vm.Guest.HostName != name {
			continue
		}
		machine := object.NewVirtualMachine(client.Client, vm.Reference())
		for _, end := range []func(context.Context) (*object.Task, error){machine.PowerOff, machine.Destroy} {
			task, err := end(ctx)
			if err != nil {
				return err
			}
			if err := task.Wait(ctx); err != nil {
				return err
			}
		}
		return client.Logout(ctx)
	}
	return fmt.Errorf("there is no machine %q", name)
}

// close ends the server.
func (v *vCenter) close() {
	v.Close()
	v.model.Remove()
}
