// Package cpo compares this project with cloud-provider-openstack v1.31.2,
// whose source go.mod pins: its cloud.conf here, and its own test tables in
// guests/openstack/cpo_test.go. Nothing of it is copied.
package cpo
